//! Written data on its way from the buffer to the medium.
//!
//! A drive that completes a write in its buffer keeps no command: what remains is a run of sectors, and the next write that begins
//! at its end extends the run. DiskSim keeps each command and writes it separately, one revolution after the one before.

use super::Rotating;
use super::task::{Task, TaskId};
use crate::mechanics::Picos;
use crate::parameters::{FastWrite, Fidelity};

impl Rotating {
    /// Records that the arm has written its task's segment up to a sector.
    pub(super) fn note_written(&mut self, arm: TaskId, index: u16, position: u64) {
        let task = self.task_mut(arm);
        task.media = task.media.max(position);
        if self.segments[index].users > 1 && self.fidelity == Fidelity::Drive {
            self.write_through(arm, index, position);
        }
    }

    /// Sectors that the arm writes beyond its own task's end belong to other tasks of the segment.
    fn write_through(&mut self, arm: TaskId, index: u16, position: u64) {
        let from = self.task(arm).start;
        let mut n = 0;
        while let Some(&id) = self.live.get(n) {
            let task = self.task_mut(id);
            let behind = id != arm && task.write && task.segment == Some(index) && task.start >= from;
            if behind && task.start <= position {
                task.media = task.media.max(position.min(task.end));
                if task.reported && !task.dirty() {
                    self.finish(id);
                    continue;
                }
            }
            n += 1;
        }
    }

    /// Appends a completed write to the completed write that ends where it begins.
    ///
    /// Not while a flush waits: it would then also wait for data written after it.
    pub(super) fn merge_into_run(&mut self, id: TaskId) {
        if self.fidelity != Fidelity::Drive || !self.flushes.is_empty() || self.arm == Some(id) {
            return;
        }
        let (segment, start, end) = (self.task(id).segment, self.task(id).start, self.task(id).end);
        let ends_there = |&other: &TaskId| {
            let t = self.task(other);
            t.write && t.reported && t.segment == segment && t.end == start
        };
        let Some(before) = self.live.iter().copied().find(ends_there) else { return };
        let run = self.task_mut(before);
        (run.sent, run.end) = (end, end);
        self.finish(id);
    }

    /// The first write that waits for room and can have it now. It need not wait for the arm: its data is in the buffer when the arm
    /// gets there. A write that completes on the medium gets room only behind unwritten data; with a segment of its own the arm would
    /// have to choose among the few writes that have one.
    pub(super) fn admit_write(&mut self, now: Picos) -> Option<TaskId> {
        if self.unanswered == 0 || self.fidelity != Fidelity::Drive {
            return None;
        }
        let may = |&id: &TaskId| self.waits_for_room(id) && (self.may_stay(id) || self.follows_unwritten(id));
        let id = self.live.iter().copied().find(may)?;
        self.select(now, id);
        self.task(id).segment?;
        self.attach(id);
        Some(id)
    }

    /// Whether a write's data may stay in the buffer after its command has completed.
    fn may_stay(&self, id: TaskId) -> bool {
        self.buffer.fast_write == FastWrite::All && !self.task(id).forced
    }

    fn follows_unwritten(&self, id: TaskId) -> bool {
        let start = self.task(id).start;
        self.segments.all().iter().any(|s| s.unwritten() && s.end == start)
    }

    /// A write without room that continues another write gets the arm only when it has room: separately it would be a short run in a
    /// segment that can hold a long one. The same holds for a write that others continue, if it can be buffered before.
    pub(super) fn waits_for_stream(&self, id: TaskId) -> bool {
        if self.fidelity != Fidelity::Drive || !self.waits_for_room(id) {
            return false;
        }
        let (Task { start, end, .. }, stays) = (*self.task(id), self.may_stay(id));
        let adjoins = |t: &Task| t.write && t.dirty() && (t.end == start || (stays && t.start == end));
        self.live.iter().any(|&other| adjoins(self.task(other)))
    }

    /// A disconnected write of which nothing is in the buffer.
    fn waits_for_room(&self, id: TaskId) -> bool {
        let task = self.task(id);
        task.write && task.pending && task.segment.is_none() && !task.had_arm
    }
}
