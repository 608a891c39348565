//! A drive with a constant service time, first come, first served. Measurements of the path in front of a drive use it, because
//! the drive's share is then known exactly.

use std::collections::VecDeque;

use elevator::{Op, Outcome, Positioning, SECTOR_BYTES, Sector, Span, Time};

use crate::{Command, Completion, Drive, Service};

/// A drive that takes the same time for each read, write or flush, and none for a discard.
#[derive(Debug)]
pub struct Fixed {
    capacity: Sector,
    depth: u32,
    service: Span,
    queue: VecDeque<(Time, Command)>,
    /// When the command in service will complete.
    busy_until: Option<Time>,
    /// When the latest command completed.
    free_at: Time,
}

impl Fixed {
    /// A drive of `bytes`, rounded down to sectors, that queues `depth` commands and takes `service` for each.
    #[must_use]
    pub fn new(bytes: u64, depth: u32, service: Span) -> Self {
        let capacity = Sector(bytes / SECTOR_BYTES);
        Self { capacity, depth, service, queue: VecDeque::new(), busy_until: None, free_at: Time::ZERO }
    }

    fn begin(&mut self) {
        if let (None, Some((arrived, command))) = (self.busy_until, self.queue.front()) {
            let service = if command.op == Op::Discard { Span::ZERO } else { self.service };
            self.busy_until = Some(self.free_at.max(*arrived) + service);
        }
    }
}

impl Drive for Fixed {
    fn capacity(&self) -> Sector {
        self.capacity
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.queue.push_back((now, command));
        self.begin();
    }

    fn next_event(&self) -> Option<Time> {
        self.busy_until
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        let at = self.busy_until.filter(|&at| at <= now)?;
        let (arrived, command) = self.queue.pop_front()?;
        let service = Service { started: self.free_at.max(arrived), ..Service::default() };
        (self.busy_until, self.free_at) = (None, at);
        self.begin();
        let end = command.start.0.checked_add(command.sectors.0.into());
        let there = command.op == Op::Flush || end.is_some_and(|end| end <= self.capacity.0);
        let outcome = if there { Outcome::Done } else { Outcome::Failed };
        Some(Completion { tag: command.tag, at, outcome, service })
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        None
    }
}
