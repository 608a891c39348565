//! What a machine shows to the cluster that it is part of.

use elevator::Time;

use super::calls::Turn;
use super::process::Blocked;
use super::{Failure, Machine};
use crate::program::Meeting;

impl Machine {
    /// A process waits for processes of other machines; alone, it waits for ever.
    #[inline(never)]
    pub(super) fn gather(&mut self, process: usize, meeting: Meeting) {
        self.acts(process);
        self.gathering.push_back((meeting, process));
        self.processes[process].blocked = Blocked::Gathering;
    }

    pub(crate) fn take_gathering(&mut self) -> Option<(Meeting, usize)> {
        self.gathering.pop_front()
    }

    /// Everybody came: the process goes on.
    pub(crate) fn release(&mut self, at: Time, process: usize) -> Result<(), Failure> {
        self.runnable.push(Turn::Process(process));
        self.go_to(at)
    }

    /// The latest instant that it knows.
    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    /// The run was stopped early.
    pub(crate) const fn cut(&mut self) {
        self.cut = true;
    }
}
