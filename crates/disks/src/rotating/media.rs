//! Events on the medium: counting the sectors that have passed, computing the next event, and its consequences.

use elevator::cold_path;

use super::Rotating;
use super::access::{Access, Rotation};
use super::bus::Bus;
use super::segment::Segment;
use super::task::{Task, TaskId};
use crate::mechanics::Picos;
use crate::parameters::{Fidelity, ReadAhead};

impl Rotating {
    /// Accounts for all sectors that have passed under the head and over the bus until `now`.
    #[inline]
    pub(super) fn sync(&mut self, now: Picos) {
        self.sync_bus(now);
        self.sync_medium(now);
    }

    /// Accounts for all sectors that have passed under the head until `now`.
    pub(super) fn sync_medium(&mut self, now: Picos) {
        let Some(access) = &self.access else { return };
        let Some((arm, index)) = self.arm_segment() else { return };
        let passed = access.passed_until(now, self.goal);
        if passed <= access.next && passed != self.goal {
            return;
        }
        let size = self.segment_size();
        if self.task(arm).write {
            self.note_written(arm, index, passed);
            return;
        }
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(passed);
        segment.wrap(size);
    }

    /// The next sector between head and buffer.
    fn position(&self) -> u64 {
        match self.arm_segment() {
            Some((arm, _)) if self.task(arm).write => self.task(arm).media,
            Some((_, index)) => self.segments[index].end,
            None => 0,
        }
    }

    /// Computes the next event of the access: the end of the wanted sectors, of the track or of the room, sectors that are already
    /// in the buffer, or a watermark.
    pub(super) fn aim_wake(&mut self) {
        let (Some((arm, index)), Some(access)) = (self.arm_segment(), &self.access) else {
            self.wake = Picos::MAX;
            return;
        };
        let (task, segment) = (self.task(arm), &self.segments[index]);
        let wanted =
            if task.write { self.write_goal(task, segment) } else { self.read_goal(arm, task, segment) };
        let jump = access.jump.map_or(u64::MAX, |(at, _)| at);
        self.goal = wanted.min(access.limit).min(jump);
        self.wake = access.time_of(self.goal).max(self.now);
    }

    fn write_goal(&self, task: &Task, segment: &Segment) -> u64 {
        let mut goal = segment.end;
        if self.too_little_buffered(task, segment) {
            goal = goal.min(task.media);
        }
        if self.background {
            return goal;
        }
        let watermark = task.sent.saturating_sub(task.watermark);
        let waits = task.pending && task.sent < task.end && watermark > task.media;
        goal.min(if waits { watermark } else { task.end })
    }

    fn read_goal(&self, arm: TaskId, task: &Task, segment: &Segment) -> u64 {
        let room = self.room_until(task).max(segment.end);
        let wanted = if self.background {
            let min = segment.ahead_min;
            let may_end = segment.end < min && self.may_be_preempted(task);
            if may_end { min.min(segment.ahead_max) } else { segment.ahead_max }
        } else if matches!(self.bus, Bus::Held(id) if id == arm) {
            segment.end + 1
        } else {
            let watermark = task.sent + task.watermark;
            if task.pending && segment.end < watermark { watermark.min(task.end) } else { task.end }
        };
        wanted.min(room)
    }

    /// The access has reached its goal.
    pub(super) fn medium_event(&mut self, now: Picos) {
        self.sync(now);
        self.take_jump();
        if self.after_passing(now) {
            return;
        }
        let Some(arm) = self.arm else { return };
        let Some(access) = self.access else { return };
        let position = self.position();
        if position >= access.limit {
            self.head = access.head_after(position);
            self.note_travel(position);
            self.access = None;
            if !self.begin_access(now, arm, position, 0) {
                self.release_arm(now, arm);
            }
        } else if now >= access.time_of(position) && self.no_room(position) {
            // A disconnected task that could make room may have been passed over while others had the bus.
            self.check_bus(now, None);
            self.resume_blocked_read(now);
            let revolution = self.lost_revolution(&access, position);
            if let Some(access) = &mut self.access {
                access.miss(position, revolution);
            }
        }
    }

    /// The rotation until a missed sector passes again. DiskSim adds up the track's data sectors one by one: spare and slipped
    /// sectors take no time, and each data sector loses the rounding of its conversion.
    fn lost_revolution(&self, access: &Access, position: u64) -> Rotation {
        match self.fidelity {
            Fidelity::Drive => Rotation::revolution(self.mechanics.period()),
            Fidelity::DiskSim => access.sectors(self.layout.on_track(position)),
        }
    }

    fn take_jump(&mut self) {
        let Some((at, to)) = self.access.as_ref().and_then(|access| access.jump) else { return };
        cold_path();
        if self.position() != at {
            return;
        }
        let Some((arm, index)) = self.arm_segment() else { return };
        if let Some(access) = &mut self.access {
            access.skip_to(to);
        }
        if self.task(arm).write {
            self.note_written(arm, index, to);
        } else {
            let size = self.segment_size();
            let segment = &mut self.segments[index];
            segment.end = to;
            segment.wrap(size);
        }
    }

    /// Whether the next sector cannot be taken: its data has not arrived (write) or the segment has no room (read).
    fn no_room(&self, position: u64) -> bool {
        let Some((arm, index)) = self.arm_segment() else { return false };
        let (task, segment) = (self.task(arm), &self.segments[index]);
        if task.write {
            position >= segment.end || self.too_little_buffered(task, segment)
        } else {
            position >= self.room_until(task)
        }
    }

    /// The sector before which a read may fill its segment without overwriting data that some task has not sent.
    pub(super) fn room_until(&self, task: &Task) -> u64 {
        let shared = task.segment.is_some_and(|index| self.segments[index].users > 1);
        if shared { self.room_of_sharers(task.segment) } else { self.room_of(task) }
    }

    fn room_of(&self, task: &Task) -> u64 {
        if task.reporting { u64::MAX } else { task.sent + self.segment_size() }
    }

    #[cold]
    fn room_of_sharers(&self, segment: Option<u16>) -> u64 {
        let sharers = self.live.iter().map(|&id| self.task(id)).filter(|task| task.segment == segment);
        sharers.map(|task| self.room_of(task)).min().unwrap_or(u64::MAX)
    }

    /// Whether a write waits for more of its data before the access to the medium begins.
    ///
    /// Drives that disconnect twice in a write begin with 10 sectors in the buffer, or 15 for a write of 45 sectors or more
    /// (DiskSim's rule for HP's drives). Others gather the share given by the write watermark.
    fn too_little_buffered(&self, task: &Task, segment: &Segment) -> bool {
        self.gathers && self.too_little_gathered(task, segment)
    }

    #[inline(never)]
    fn too_little_gathered(&self, task: &Task, segment: &Segment) -> bool {
        let count = task.end - task.start;
        let (there, needed) = if self.timing.extra.is_some() {
            (segment.end - segment.start, if count < 45 { count.min(10) } else { 15 })
        } else {
            let base = if self.buffer.watermark_of_request { count } else { self.segment_size() };
            let part = (base as f64 * self.buffer.write_watermark).ceil() as u64;
            (task.sent - task.start, part.min(count))
        };
        there < needed.min(self.segment_size())
    }

    /// Handles sectors that have passed. Returns whether the access has ended.
    fn after_passing(&mut self, now: Picos) -> bool {
        if let Bus::Held(id) = self.bus {
            self.step(now, id);
        }
        let Some((arm, index)) = self.arm_segment() else { return true };
        if self.task(arm).write {
            self.after_writing(now, arm, index)
        } else {
            self.after_reading(now, arm, index)
        }
    }

    fn after_reading(&mut self, now: Picos, arm: TaskId, index: u16) -> bool {
        let task = *self.task(arm);
        let segment = self.segments[index];
        let all = segment.end >= segment.ahead_max;
        if self.background {
            if all {
                self.end_access(now, arm);
            } else if segment.end == segment.ahead_min {
                self.preempt_between_sectors(now, arm);
            }
            return self.arm != Some(arm) || self.access.is_none();
        }
        self.check_bus(now, Some(arm));
        if segment.end < task.end {
            return false;
        }
        self.task_mut(arm).passed = now;
        if self.buffer.read_ahead == ReadAhead::None || all || self.leaves_for_others(&task) {
            self.end_access(now, arm);
            return true;
        }
        self.background = true;
        self.preempt_between_sectors(now, arm);
        self.arm != Some(arm) || self.access.is_none()
    }

    /// Whether the arm leaves a read that has all its sectors because other tasks wait. While the arm must stay until the
    /// completion, it reads ahead instead, because nothing else could be done. DiskSim's arm always reads ahead to the minimum.
    fn leaves_for_others(&self, task: &Task) -> bool {
        self.fidelity == Fidelity::Drive && !self.waiting.is_empty() && self.may_be_preempted(task)
    }

    /// At a sector boundary the arm can leave at once.
    fn preempt_between_sectors(&mut self, now: Picos, arm: TaskId) {
        self.between_sectors = true;
        self.preempt_if_free(now, arm);
        self.between_sectors = false;
    }

    fn after_writing(&mut self, now: Picos, arm: TaskId, index: u16) -> bool {
        let task = *self.task(arm);
        let end = self.segments[index].end;
        let done = if self.background { task.media >= end } else { task.media >= task.end };
        if !done {
            self.check_bus(now, Some(arm));
            return false;
        }
        self.task_mut(arm).passed = now;
        self.check_bus(now, Some(arm));
        self.end_access(now, arm);
        true
    }

    fn end_access(&mut self, now: Picos, arm: TaskId) {
        let position = self.position();
        if let Some(access) = self.access.take() {
            self.head = access.head_after(position);
            self.note_travel(position);
        }
        self.release_arm(now, arm);
    }
}
