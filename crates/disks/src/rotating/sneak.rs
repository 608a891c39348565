//! Data transfers while the arm works for another task: DiskSim's "sneaky" hits and prebuffered writes.
//!
//! There are four kinds, each a parameter:
//! - a read that finds all of its data in the buffer on arrival;
//! - a read that finds the first part of its data there;
//! - a waiting read that finds either later (checked whenever the bus is free and no task has precedence);
//! - a write whose data goes into the buffer before the arm is free.

use super::Rotating;
use super::bus::Bus;
use super::segment::State;
use super::task::{Hit, TaskId};
use crate::mechanics::Picos;
use crate::parameters::FastWrite;

/// Bus priority of a task whose segment was selected only to find out whether it needs the bus.
const GUESSED_READ: u8 = 4;
const GUESSED_WRITE: u8 = 0;

impl Rotating {
    /// Whether a read that arrives sends data from the buffer although it cannot have the arm.
    pub(super) fn sneaks(&self, id: TaskId) -> bool {
        self.extra.is_none()
            && match self.task(id).hit {
                Hit::Whole => self.buffer.sneaky_full_read_hits,
                Hit::Partial => self.buffer.sneaky_partial_read_hits,
                Hit::Miss | Hit::Append | Hit::Collision => false,
            }
    }

    /// The best of the disconnected tasks: completions and hits first, then the arm's owner, then writes that extend a segment, then
    /// waiting tasks that may transfer data meanwhile. Attaches a segment to the latter if they need one.
    pub(super) fn next_on_bus(&mut self, now: Picos) -> Option<TaskId> {
        let mut best: Option<(u8, TaskId, bool)> = None;
        for n in (0..self.live.len()).rev() {
            let id = self.live[n];
            if !self.task(id).pending {
                continue;
            }
            let most = best.map_or(0, |(rank, ..)| rank);
            let Some((rank, guessed)) = self.right_to_bus(now, id, most) else { continue };
            let loser =
                if rank < most { Some((id, guessed)) } else { best.map(|(_, old, guess)| (old, guess)) };
            if rank >= most {
                best = Some((rank, id, guessed));
            }
            if let Some((loser, true)) = loser {
                self.forget_segment(loser);
            }
        }
        let (_, id, guessed) = best?;
        if guessed {
            self.attach(id);
        }
        Some(id)
    }

    /// A task's bus priority, if it needs the bus, and whether its segment is only tentative. Tasks that cannot reach `most` are not
    /// examined.
    #[inline]
    fn right_to_bus(&mut self, now: Picos, id: TaskId, most: u8) -> Option<(u8, bool)> {
        let task = self.task(id);
        let (had_arm, write) = (task.had_arm, task.write);
        let appends = self.buffer.fast_write == FastWrite::Sequential && task.hit == Hit::Append;
        if had_arm || appends {
            let rank = match () {
                () if !had_arm => 8,
                () if self.arm == Some(id) => 9,
                () => 10,
            };
            return self.needs_bus(id).then_some((rank, false));
        }
        match write {
            false if self.buffer.sneaky_intermediate_read_hits && most <= 7 => {
                self.right_of_read(now, id, most)
            }
            true if self.buffer.prebuffer_writes && most <= 3 => self.right_of_write(now, id, most),
            _ => None,
        }
    }

    /// Priority of a waiting read: data in its own segment before data found now, all of it before a part.
    fn right_of_read(&mut self, now: Picos, id: TaskId, most: u8) -> Option<(u8, bool)> {
        let task = *self.task(id);
        if let Some(index) = task.segment {
            if self.needs_bus(id) {
                let all = self.segments[index].end >= task.end;
                return Some((if all { 7 } else { 6 }, false));
            }
            // The data that it should have had from there is gone.
            let there = self.segments[index].holds(task.sent);
            if there || task.sent != task.start || task.reporting {
                return None;
            }
            self.detach(id);
            self.forget_segment(id);
        }
        if most > GUESSED_READ + 1 || !self.guess_segment(now, id) || self.task(id).hit == Hit::Miss {
            self.forget_guess(id);
            return None;
        }
        if self.needs_bus(id) {
            let all = self.task(id).hit == Hit::Whole;
            return Some((GUESSED_READ + u8::from(all), true));
        }
        self.forget_segment(id);
        None
    }

    /// Priority of a waiting write: data for the segment that is being written comes first.
    fn right_of_write(&mut self, now: Picos, id: TaskId, most: u8) -> Option<(u8, bool)> {
        if let Some(index) = self.task(id).segment {
            let with_arm = self.arm_segment().is_some_and(|(_, busy)| busy == index);
            return self.needs_bus(id).then_some((if with_arm { 3 } else { 1 }, false));
        }
        if most > GUESSED_WRITE || !self.guess_segment(now, id) {
            return None;
        }
        if self.needs_bus(id) {
            return Some((GUESSED_WRITE, true));
        }
        self.forget_segment(id);
        None
    }

    /// A read that has sent its first part without the arm keeps its room in the segment until it has sent the rest. The arm's owner
    /// may need that room: reselects the read. DiskSim's drives wait for ever.
    pub(super) fn resume_blocked_read(&mut self, now: Picos) {
        let Some((arm, index)) = self.arm_segment().filter(|_| matches!(self.bus, Bus::Idle)) else { return };
        let segment = &self.segments[index];
        let sent_last = |&&id: &&TaskId| {
            let task = self.task(id);
            let there = task.segment == Some(index) && segment.holds(task.sent);
            id != arm && there && task.pending && !task.write && !task.had_arm
        };
        if let Some(&id) = self.live.iter().filter(sent_last).min_by_key(|&&id| self.task(id).sent) {
            self.reconnect(now, id);
        }
    }

    /// Selects a segment for a task without attaching it.
    fn guess_segment(&mut self, now: Picos, id: TaskId) -> bool {
        self.select(now, id);
        let found = self.task(id).segment.is_some();
        if found {
            self.task_mut(id).watermark = self.watermark(id);
        }
        found
    }

    fn forget_guess(&mut self, id: TaskId) {
        if self.task(id).hit == Hit::Miss {
            self.task_mut(id).segment = None;
        }
    }

    fn forget_segment(&mut self, id: TaskId) {
        let task = self.task_mut(id);
        (task.segment, task.hit) = (None, Hit::Miss);
    }

    /// What the buffer would do with a task: answer a read, completely or partly, or append a write to the segment that is being
    /// written. Used by the orders that consider the buffer.
    pub(super) fn buffer_meets(&self, id: TaskId) -> Hit {
        let task = self.task(id);
        let mut met = Hit::Miss;
        for segment in self.order.iter().map(|&index| &self.segments[index]) {
            let meets = segment.holds(task.start) && segment.state != State::Empty;
            match (task.write, segment.state) {
                (true, State::Reading) => return Hit::Miss,
                (true, State::Writing) if self.appends(task, segment) => met = Hit::Append,
                (true, _) if segment.unwritten() && segment.overlaps(task.start, task.end) => {
                    return Hit::Miss;
                }
                (true, _) => {}
                (false, State::Reading) if segment.end == task.start && self.buffer.almost_read_hits => {
                    if met == Hit::Miss {
                        met = Hit::Partial;
                    }
                }
                (false, State::Dirty | State::Writing) if meets && !self.buffer.read_hits_on_writes => {
                    return Hit::Miss;
                }
                (false, State::Clean) if segment.written && !self.buffer.read_hits_on_writes => {}
                (false, _) if meets && segment.end >= task.end => met = Hit::Whole,
                (false, _) if meets && met != Hit::Whole => met = Hit::Partial,
                (false, _) => {}
            }
        }
        met
    }
}
