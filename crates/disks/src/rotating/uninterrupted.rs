//! Transfers whose course is known before they begin, because nothing can interrupt them. Several transfers, a disconnection and a
//! reselection then become one event.
//!
//! The conditions guarantee that no completion changes: the single transfer ends exactly when its parts would have ended.

use super::Rotating;
use super::access::Access;
use super::bus::Message;
use super::task::TaskId;
use crate::mechanics::Picos;
use crate::parameters::{Preseek, ReadAhead};

impl Rotating {
    /// Starts the transfer of a task that has the bus, after a delay: as one event if it cannot be interrupted.
    pub(super) fn prepare(&mut self, now: Picos, id: TaskId, delay: Picos) {
        match self.steady_move(now, id) {
            Some(count) => self.send_data(now + delay, id, count),
            None => self.send(now, Message::Ready(id), delay),
        }
    }

    /// A read that has disconnected, or will at `left`, reselects when its watermark has passed. If no other task can request the bus
    /// and nothing can stop the arm before that, the time is known: schedules the transfer.
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
            // The only event at the end of the request is that read-ahead begins.
            task.passed = passed;
            self.background = true;
        }
        self.send_data(since, id, count);
    }

    fn may_go_on(&self) -> bool {
        let alone = self.waiting.is_empty() && self.bus_parameters.preseek == Preseek::None;
        alone && self.buffer.read_ahead != ReadAhead::None
    }

    /// The number of sectors of an uninterrupted transfer, if it covers the rest of the task.
    fn steady_move(&self, now: Picos, id: TaskId) -> Option<u64> {
        let task = self.task(id);
        let left = task.end - task.sent;
        let steady =
            left > 0 && if task.write { self.has_room_for(id, left) } else { self.read_keeps_up(now, id) };
        steady.then_some(left)
    }

    /// Whether the unsent part of a write has room in its segment. Room can only grow meanwhile.
    fn has_room_for(&self, id: TaskId, sectors: u64) -> bool {
        let task = self.task(id);
        let Some(index) = task.segment.filter(|_| task.owns_segment) else { return false };
        self.room_of_write(id, index) >= sectors
    }

    /// Whether a read's sectors pass under the head at least as fast as the bus carries them, up to the read's end. The transfers of
    /// the sectors available at each time then form one transfer. Holds only while no command can arrive that stops the arm.
    fn read_keeps_up(&self, now: Picos, id: TaskId) -> bool {
        let task = self.task(id);
        let (Some(access), Some(index)) = (&self.access, task.segment) else { return false };
        let segment = &self.segments[index];
        let there = segment.start <= task.sent && task.sent < segment.end;
        there && access.from <= now && self.unanswered >= self.queue.depth && self.keeps_up(id, access)
    }

    /// Whether an access continues to the end of a read, at least as fast as the bus.
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
