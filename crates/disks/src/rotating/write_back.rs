//! Written data on its way from the buffer to the medium, and whose it is.
//!
//! A drive that answers a write from its buffer forgets the command: what is left is a run of sectors to be written, and the
//! next write that goes on behind it makes the run longer. DiskSim keeps each command and has each written on its own, a
//! revolution after the one before.

use super::Rotating;
use super::task::{Task, TaskId};
use crate::mechanics::Picos;
use crate::parameters::{FastWrite, Fidelity};

impl Rotating {
    /// The arm has written its task's segment up to a sector.
    pub(super) fn note_written(&mut self, arm: TaskId, index: u16, position: u64) {
        let task = self.task_mut(arm);
        task.media = task.media.max(position);
        if self.segments[index].users > 1 && self.fidelity == Fidelity::Drive {
            self.write_through(arm, index, position);
        }
    }

    /// What the arm writes of a segment beyond its own task's end is written for those whose data it is.
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

    /// A write whose host has its answer becomes part of the one that it goes on behind.
    ///
    /// While a flush waits for what came before it the two stay apart, or it would wait for what came after it as well.
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

    /// The first write that waits for room and has it by now, which need not wait for its turn with the arm: its data is there
    /// when the arm gets to it. One that completes on the medium gets room behind what is to be written, but no segment of
    /// its own before it has the arm: the arm's choice would be among those few that have one.
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

    /// Whether its data may stay in the buffer when its command is over, wherever it goes.
    fn may_stay(&self, id: TaskId) -> bool {
        self.buffer.fast_write == FastWrite::All && !self.task(id).forced
    }

    fn follows_unwritten(&self, id: TaskId) -> bool {
        let start = self.task(id).start;
        self.segments.all().iter().any(|s| s.unwritten() && s.end == start)
    }

    /// A write that has no room and goes on behind another has the arm only when it has room: on its own it would be a short
    /// run in a segment that holds a long one. So has one that others go on behind, if it can be in the buffer before.
    pub(super) fn waits_for_stream(&self, id: TaskId) -> bool {
        if self.fidelity != Fidelity::Drive || !self.waits_for_room(id) {
            return false;
        }
        let (Task { start, end, .. }, stays) = (*self.task(id), self.may_stay(id));
        let adjoins = |t: &Task| t.write && t.dirty() && (t.end == start || (stays && t.start == end));
        self.live.iter().any(|&other| adjoins(self.task(other)))
    }

    /// A write of which nothing is in the buffer and that has left the bus.
    fn waits_for_room(&self, id: TaskId) -> bool {
        let task = self.task(id);
        task.write && task.pending && task.segment.is_none() && !task.had_arm
    }
}
