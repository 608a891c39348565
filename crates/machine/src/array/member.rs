//! Members of an array.

use disks::Drive;
use elevator::Scheduler;
use elevator::queue::Observer;

use crate::block::Block;

/// The parts of a member.
pub struct ArrayMember {
    /// The scheduler of its queue.
    pub scheduler: Box<dyn Scheduler>,
    pub drive: Box<dyn Drive>,
    /// An observer of its queue.
    pub observer: Option<Box<dyn Observer>>,
}

/// A member's queue and drive.
pub(super) struct Disk {
    pub(super) block: Block,
    /// Whether its queue changed since it was last asked for requests.
    pub(super) changed: bool,
}
