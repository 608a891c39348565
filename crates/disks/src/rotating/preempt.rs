//! Preemption: read-ahead is stopped for the next task, or a task joins an access that already handles its data.

use super::Rotating;
use super::access::Access;
use super::segment::State;
use super::task::{Hit, Task, TaskId};
use crate::mechanics::Picos;
use crate::parameters::{Caching, FastWrite, Fidelity, Preseek};

/// What can happen to the current access in favour of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Preemption {
    /// It continues.
    Impossible,
    /// The task joins it: the task wants what is being read, or extends what is being written.
    Join,
    /// It can be stopped.
    Stop,
}

impl Rotating {
    /// What can happen to the current access in favour of a task. A write over data that is being read ahead ends the read-ahead.
    pub(super) fn preemption(&mut self, now: Picos, id: TaskId) -> Preemption {
        let Some((arm, index)) = self.arm_segment() else { return Preemption::Impossible };
        let state = self.segments[index].state;
        match state {
            State::Reading => self.preemption_of_reading(now, id, arm, index),
            State::Writing if self.joins_writing(id, index) && self.is_next(now, id) => Preemption::Join,
            _ => Preemption::Impossible,
        }
    }

    fn is_next(&mut self, now: Picos, id: TaskId) -> bool {
        self.next_task(now).is_none_or(|next| next == id)
    }

    fn joins_writing(&self, id: TaskId, index: u16) -> bool {
        let task = self.task(id);
        let extends = task.hit == Hit::Append && task.segment == Some(index);
        let alone = self.buffer.fast_write != FastWrite::Sequential || self.waiting.len() == 1;
        extends && alone && self.segments[index].end == task.start
    }

    fn preemption_of_reading(&mut self, now: Picos, id: TaskId, arm: TaskId, index: u16) -> Preemption {
        let (task, reader) = (*self.task(id), *self.task(arm));
        let segment = &mut self.segments[index];
        let inside = segment.start <= task.start && task.start <= segment.end;
        let wants = !task.write && task.segment == Some(index) && inside;
        if !reader.reported && segment.end < segment.ahead_min && !wants {
            return Preemption::Impossible;
        }
        if task.write && self.buffer.write_hit_stops_read_ahead && segment.overlaps(task.start, task.end) {
            (segment.ahead_min, segment.ahead_max) = (segment.end, segment.end);
        }
        let almost = self.buffer.almost_read_hits && task.start == segment.end;
        let (min_reached, end) = (segment.end >= segment.ahead_min, segment.end);
        if wants && self.buffer.caching != Caching::None && (task.start < end || almost) {
            return if self.is_next(now, id) { Preemption::Join } else { Preemption::Impossible };
        }
        if !self.may_be_preempted(&reader) {
            return Preemption::Impossible;
        }
        if !min_reached {
            let segment = &mut self.segments[index];
            segment.ahead_max = segment.ahead_min;
            return Preemption::Impossible;
        }
        Preemption::Stop
    }

    /// Stops read-ahead at the end of the current sector, or within it if the drive can. Sectors that have passed must be accounted
    /// for.
    fn halt(&mut self, now: Picos) {
        let Some((arm, index)) = self.arm_segment() else { return };
        if let Some(access) = self.access.take() {
            self.leave_access(now, &access);
        }
        let keep = self.buffer.caching != Caching::None || !self.task(arm).reported;
        let shared = self.segments[index].users > 1;
        self.segments[index].state = if keep || shared { State::Clean } else { State::Empty };
        self.arm = None;
        if self.task(arm).reported {
            self.finish(arm);
        }
    }

    fn leave_access(&mut self, now: Picos, access: &Access) {
        // A move that has not begun is cancelled. DiskSim's arm makes the move all the same.
        if now < access.begun() && self.fidelity == Fidelity::Drive {
            return;
        }
        self.note_travel(access.next.saturating_add(access.passed(now)).min(access.limit));
        if now < access.landed {
            access.land(&mut self.head);
            self.arm_free_at = access.landed;
            return;
        }
        if now < access.from {
            self.head = self.head_before(access, now);
            if !self.buffer.stop_in_sector {
                self.arm_free_at = access.leaves_at(now);
            }
            return;
        }
        let passed = (access.next + access.passed(now)).min(access.limit);
        self.head = access.head_after(passed);
        if !self.buffer.stop_in_sector && !self.between_sectors {
            self.arm_free_at = access.time_of(passed + 1);
        }
    }

    /// The task takes over an access that reads ahead what it wants.
    fn take_over(&mut self) {
        let Some(arm) = self.arm.filter(|_| self.background) else { return };
        self.arm = None;
        if self.task(arm).reported {
            self.finish(arm);
        }
    }

    pub(super) fn preempt_for(&mut self, now: Picos, id: TaskId) {
        let task = *self.task(id);
        if task.had_arm || self.arm.is_none() || task.hit == Hit::Collision {
            return;
        }
        let own = task.segment.map(|index| self.segments[index].state);
        if !task.write && own == Some(State::Dirty) {
            return;
        }
        if self.needs_no_arm(id) {
            return;
        }
        let same = self.arm_segment().is_some_and(|(_, index)| task.segment == Some(index));
        match self.preemption(now, id) {
            Preemption::Impossible => {}
            _ if task.write && same && task.hit == Hit::Append => {}
            _ if !task.write && same && task.hit != Hit::Miss => self.take_over(),
            _ => self.halt(now),
        }
    }

    /// Whether a read is completely in the buffer while the arm is elsewhere: "If a cache hit occurs, read-ahead mode continues
    /// without interruption and the host transfer begins immediately" (Maxtor's product manuals, 1998 to 2002).
    pub(super) fn needs_no_arm(&self, id: TaskId) -> bool {
        let task = self.task(id);
        let elsewhere = self.arm_segment().is_some_and(|(_, index)| task.segment != Some(index));
        !self.buffer.hit_stops_read_ahead && !task.write && task.hit == Hit::Whole && elsewhere
    }

    /// Preempts read-ahead for the next task, if one waits.
    pub(super) fn check_preemption(&mut self, now: Picos) {
        let Some(next) = self.next_task(now) else { return };
        let chosen = self.task(next).segment.is_none();
        if chosen {
            self.select(now, next);
        }
        self.activate(now, next, chosen);
        self.go_on_if_held(now, next);
    }

    /// Preempts read-ahead after a hit at once if the task may give up the arm.
    pub(super) fn preempt_if_free(&mut self, now: Picos, id: TaskId) {
        if self.may_be_preempted(self.task(id)) {
            self.check_preemption(now);
        }
    }

    /// Whether another task may take the arm from one that needs it only for read-ahead.
    pub(super) fn may_be_preempted(&self, task: &Task) -> bool {
        match self.bus_parameters.preseek {
            Preseek::None => task.reported,
            Preseek::AtCompletion => task.reporting,
            Preseek::AfterMedium => true,
        }
    }
}
