//! Data that crosses the bus while the arm works for another command.

use super::Rotating;
use super::task::{Hit, TaskId};

impl Rotating {
    /// Whether a read that arrives sends its data though it cannot have the arm: all of it is in the buffer, and the
    /// drive may *sneak* it out. It changes nothing on a drive that takes one command at a time.
    pub(super) fn sneaks(&self, id: TaskId) -> bool {
        self.buffer.sneaky_full_read_hits && self.task(id).hit == Hit::Whole && self.arm.is_some()
    }
}
