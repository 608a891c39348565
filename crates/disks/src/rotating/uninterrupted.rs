//! Data whose way over the bus is known before it begins: nothing can come in between, and what would be several moves, an
//! absence and a return is one step.
//!
//! Which of them are is decided so that no answer depends on it: what moves in one piece is what would have moved in pieces, at
//! the same times.

use super::Rotating;
use super::access::Access;
use super::bus::Message;
use super::task::TaskId;
use crate::mechanics::Picos;
use crate::parameters::{Preseek, ReadAhead};

impl Rotating {
    /// The task has the bus and its data can move after a delay. Where it is plain by now that all of it will, that is
    /// on its way at once.
    pub(super) fn prepare(&mut self, now: Picos, id: TaskId, delay: Picos) {
        match self.steady_move(now, id) {
            Some(count) => self.send_data(now + delay, id, count),
            None => self.send(now, Message::Ready(id), delay),
        }
    }

    /// A read that has left the bus, or is about to until `left`, comes back when its watermark has passed. Where nobody else
    /// can want the bus before, nor anything stop the arm, it is known when: its data is on its way from then on.
    pub(super) fn schedule_return(&mut self, id: TaskId, left: Picos) {
        let task = self.task(id);
        let (Some(access), Some(index)) = (&self.access, task.segment) else { return };
        let nothing_there = self.segments[index].end == task.sent && access.next == task.sent;
        let alone = self.queue.depth == 1 && self.unanswered == 1 && self.timing.extra.is_none();
        if task.write || !alone || !nothing_there || task.watermark == 0 || !self.keeps_up(id, access) {
            return;
        }
        let enough = (task.sent + task.watermark).min(task.end);
        let since = left.max(access.time_of(enough)) + self.reselection(id);
        let (count, passed) = (task.end - task.sent, access.time_of(task.end));
        let goes_on = self.segments[index].ahead_max > task.end && self.may_go_on();
        let task = self.task_mut(id);
        task.pending = false;
        if goes_on {
            // That it reads on behind the request's end is all that will happen there.
            task.passed = passed;
            self.background = true;
        }
        self.send_data(since, id, count);
    }

    fn may_go_on(&self) -> bool {
        let alone = self.waiting.is_empty() && self.bus_parameters.preseek == Preseek::None;
        alone && self.buffer.read_ahead != ReadAhead::None
    }

    /// How many sectors move without a break, if they are all that a task has left and nothing can come in between.
    fn steady_move(&self, now: Picos, id: TaskId) -> Option<u64> {
        let task = self.task(id);
        let left = task.end - task.sent;
        let steady =
            left > 0 && if task.write { self.has_room_for(id, left) } else { self.read_keeps_up(now, id) };
        steady.then_some(left)
    }

    /// What a write has not sent yet has room in its segment. More may be made meanwhile, but none is lost.
    fn has_room_for(&self, id: TaskId, sectors: u64) -> bool {
        let task = self.task(id);
        let Some(index) = task.segment.filter(|_| task.owns_segment) else { return false };
        self.room_of_write(id, index) >= sectors
    }

    /// A read's data passes under the head at least as fast as the bus takes it, to its end: what the bus would otherwise
    /// fetch in several moves, as much as is there each time, is one move. Only while nothing can come in that stops
    /// the arm.
    fn read_keeps_up(&self, now: Picos, id: TaskId) -> bool {
        let task = self.task(id);
        let (Some(access), Some(index)) = (&self.access, task.segment) else { return false };
        let segment = &self.segments[index];
        let there = segment.start <= task.sent && task.sent < segment.end;
        there && access.from <= now && self.unanswered >= self.queue.depth && self.keeps_up(id, access)
    }

    /// Whether an access goes on to the end of a read, at least as fast as the bus.
    fn keeps_up(&self, id: TaskId, access: &Access) -> bool {
        let task = self.task(id);
        self.arm == Some(id)
            && !self.background
            && access.jump.is_none()
            && access.limit >= task.end
            && access.sector_time <= self.timing.bus_read
            && self.room_until(task) >= task.end
    }
}
