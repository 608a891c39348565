//! A lower bound for the time of the next completion, until which a host in real time may sleep.
//!
//! While data crosses the bus at the rate of the medium, every sector is an event. A thread that woke for each of them would
//! occupy a processor for a millisecond at a time. The bound of a command is the least that it still needs, whatever else the
//! drive does: its data must cross the bus, the part that the current access brings must pass under the head first, and the
//! completion follows.

use super::Rotating;
use super::bus::{Bus, Message};
use super::task::TaskId;
use crate::drive::Command;
use crate::mechanics::Picos;
use elevator::Op;

impl Rotating {
    /// No command completes before the returned time; `step` is the time of the drive's next event.
    pub(super) fn no_completion_before(&self, step: Picos) -> Picos {
        let unanswered = self.live.iter().filter(|&&id| !self.task(id).reported);
        let inside = unanswered.map(|&id| self.not_completed_before(id, step));
        let outside = self.inbox.iter().map(|(_, command)| self.not_taken_before(command, step));
        let flush = self.flushes.first().map(|&(serial, ..)| self.not_flushed_before(serial, step));
        inside.chain(outside).chain(flush).min().unwrap_or(step).max(step)
    }

    /// A flush waits for all data written before it.
    fn not_flushed_before(&self, serial: u64, step: Picos) -> Picos {
        let before = self.live.iter().filter(|&&id| self.task(id).dirty() && self.task(id).serial < serial);
        before.map(|&id| self.not_written_before(id, step)).max().unwrap_or(step)
    }

    /// The sectors of a write must pass under the head: in the current access if the access is for that write, otherwise afterwards.
    fn not_written_before(&self, id: TaskId, step: Picos) -> Picos {
        match (&self.access, self.arm) {
            (Some(access), Some(arm)) if arm == id => access.time_of(self.task(id).end.min(access.limit)),
            (Some(access), Some(arm)) if !self.background && access.jump.is_none() => {
                access.time_of(self.task(arm).end.min(access.limit))
            }
            _ => step,
        }
    }

    /// The bound of a command that the drive has not accepted yet.
    fn not_taken_before(&self, command: &Command, step: Picos) -> Picos {
        match command.op {
            Op::Flush => step,
            op => step + self.on_the_bus(u64::from(command.sectors.0), op == Op::Write),
        }
    }

    fn not_completed_before(&self, id: TaskId, step: Picos) -> Picos {
        let task = self.task(id);
        if task.reporting {
            return step;
        }
        let (from, sent) = match self.bus {
            Bus::Busy { message: Message::Move { id: moving, count, counted, .. }, until }
                if moving == id =>
            {
                (until, task.sent + count - counted)
            }
            _ => (step, task.sent),
        };
        let crossed = from + self.on_the_bus(task.end.saturating_sub(sent), task.write);
        crossed.max(self.not_passed_before(id))
    }

    /// The time that `sectors` and the completion take on the bus.
    fn on_the_bus(&self, sectors: u64, write: bool) -> Picos {
        sectors * self.timing.bus_sector(write) + self.timing.least_completion()
    }

    /// A read whose last sector is part of the current access waits for that sector.
    fn not_passed_before(&self, id: TaskId) -> Picos {
        let task = self.task(id);
        match (&self.access, self.arm_segment()) {
            (Some(access), Some((arm, index)))
                if !task.write && !self.task(arm).write && access.jump.is_none() =>
            {
                let brings = task.segment == Some(index)
                    && (access.next..access.limit).contains(&(task.end - 1))
                    && self.segments[index].end < task.end;
                if brings { access.time_of(task.end) + self.on_the_bus(1, false) } else { 0 }
            }
            _ => 0,
        }
    }
}
