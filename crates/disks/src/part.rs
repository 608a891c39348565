//! The beginning of a drive, as a drive of its own.

use elevator::{Positioning, Sector, Time};

use crate::{Command, Completion, Drive, Ideal};

/// A drive of which only the first sectors are used. Everything else about it is the drive's own.
pub struct Part {
    drive: Box<dyn Drive + Send>,
    capacity: Sector,
}

impl Part {
    /// The first `capacity` sectors of `drive`; all of it if it has no more.
    #[must_use]
    pub fn new(drive: Box<dyn Drive + Send>, capacity: Sector) -> Self {
        let capacity = capacity.min(drive.capacity());
        Self { drive, capacity }
    }
}

impl Drive for Part {
    fn capacity(&self) -> Sector {
        self.capacity
    }

    fn depth(&self) -> u32 {
        self.drive.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.drive.submit(now, command);
    }

    fn next_event(&self) -> Option<Time> {
        self.drive.next_event()
    }

    fn answers_after(&self) -> Option<Time> {
        self.drive.answers_after()
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        self.drive.poll(now)
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.drive.positioning()
    }

    fn ideal(&self) -> Option<&dyn Ideal> {
        self.drive.ideal()
    }
}
