//! The arm: who has it, when it is taken away, what passes under its heads.

use super::Rotating;
use super::access::{Access, Aim};
use super::bus::Bus;
use super::segment::{Segment, State};
use super::task::{Hit, Task, TaskId};
use super::timing::Timing;
use crate::mechanics::Picos;
use crate::parameters::{Caching, FastWrite, Fidelity, Preseek, ReadAhead};

/// Whether what the arm does can make way for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// It cannot.
    No,
    /// The request goes along with it: it wants what is being read, or extends what is being written.
    Join,
    /// It can be stopped.
    Halt,
}

impl Rotating {
    fn arm_segment(&self) -> Option<(TaskId, u8)> {
        let arm = self.arm?;
        Some((arm, self.task(arm).segment?))
    }

    /// Whether the arm makes way for a request. A write over what is being read ahead ends the reading ahead.
    pub(super) fn stoppable(&mut self, now: Picos, id: TaskId) -> Stop {
        let Some((arm, index)) = self.arm_segment() else { return Stop::No };
        let state = self.segments[usize::from(index)].state;
        match state {
            State::Reading => self.reading_stoppable(now, id, arm, index),
            State::Writing if self.joins_writing(id, index) && self.is_next(now, id) => Stop::Join,
            _ => Stop::No,
        }
    }

    fn is_next(&mut self, now: Picos, id: TaskId) -> bool {
        self.next_task(now).is_none_or(|next| next == id)
    }

    fn joins_writing(&self, id: TaskId, index: u8) -> bool {
        let task = self.task(id);
        let extends = task.hit == Hit::Append && task.segment == Some(index);
        let alone = self.buffer.fast_write != FastWrite::Sequential || self.waiting.len() == 1;
        extends && alone && self.segments[usize::from(index)].end == task.start
    }

    fn reading_stoppable(&mut self, now: Picos, id: TaskId, arm: TaskId, index: u8) -> Stop {
        let (task, reader) = (*self.task(id), *self.task(arm));
        let segment = &mut self.segments[usize::from(index)];
        let inside = segment.start <= task.start && task.start <= segment.end;
        let wants = !task.write && task.segment == Some(index) && inside;
        if !reader.reported && segment.end < segment.ahead_min && !wants {
            return Stop::No;
        }
        if task.write && self.buffer.write_hit_stops_read_ahead && segment.overlaps(task.start, task.end) {
            (segment.ahead_min, segment.ahead_max) = (segment.end, segment.end);
        }
        let almost = self.buffer.almost_read_hits && task.start == segment.end;
        let (min_reached, end) = (segment.end >= segment.ahead_min, segment.end);
        if wants && self.buffer.caching != Caching::None && (task.start < end || almost) {
            return if self.is_next(now, id) { Stop::Join } else { Stop::No };
        }
        let busy = match self.wires.preseek {
            Preseek::None => !reader.reported,
            Preseek::AtCompletion => !reader.reporting,
            Preseek::AfterMedium => false,
        };
        if busy {
            return Stop::No;
        }
        if !min_reached {
            let segment = &mut self.segments[usize::from(index)];
            segment.ahead_max = segment.ahead_min;
            return Stop::No;
        }
        Stop::Halt
    }

    /// Stops reading ahead, at the end of the sector that is passing unless the drive can stop within it.
    fn halt(&mut self, now: Picos) {
        self.sync(now);
        let Some((arm, index)) = self.arm_segment() else { return };
        if let Some(access) = self.access.take() {
            self.leave_access(now, &access);
        }
        let keep = self.buffer.caching != Caching::None || !self.task(arm).reported;
        let shared = self.segments[usize::from(index)].users > 1;
        self.segments[usize::from(index)].state = if keep || shared { State::Clean } else { State::Empty };
        self.arm = None;
        if self.task(arm).reported {
            self.finish(arm);
        }
    }

    fn leave_access(&mut self, now: Picos, access: &Access) {
        // A move that has not begun is called off. DiskSim's arm makes it all the same.
        if now < access.begun() && self.fidelity == Fidelity::Drive {
            return;
        }
        if now < access.landed {
            access.land(&mut self.head);
            self.arm_free_at = access.landed;
            return;
        }
        access.land(&mut self.head);
        if now < access.from {
            if !self.buffer.stop_in_sector {
                self.arm_free_at = access.from;
            }
            return;
        }
        let passed = (access.next + access.passed(now)).min(access.limit);
        self.head = access.head_after(passed);
        if !self.buffer.stop_in_sector {
            self.arm_free_at = access.time_of(passed + 1);
        }
    }

    /// The request takes over an access that reads ahead what it wants.
    fn take_over(&mut self) {
        let Some(arm) = self.arm.filter(|_| self.background) else { return };
        self.arm = None;
        if self.task(arm).reported {
            self.finish(arm);
        }
    }

    /// Gets a request going: makes way for it, gives it its segment and the arm, as far as they are to be had.
    /// `chosen` says that its segment was chosen but not attached.
    pub(super) fn activate(&mut self, now: Picos, id: TaskId, chosen: bool) {
        self.make_way(now, id);
        let task = *self.task(id);
        if chosen && task.segment.is_some() {
            if self.arm.is_some() {
                let task = self.task_mut(id);
                (task.segment, task.hit) = (None, Hit::Miss);
            } else {
                self.attach(id);
            }
        }
        let task = *self.task(id);
        if task.segment.is_some() && !task.owns_segment {
            self.own(id);
        }
        if !task.had_arm && task.hit != Hit::Collision {
            self.check_arm(now, Some(id), true);
        }
    }

    fn make_way(&mut self, now: Picos, id: TaskId) {
        let task = *self.task(id);
        if task.had_arm || self.arm.is_none() || task.hit == Hit::Collision {
            return;
        }
        let own = task.segment.map(|index| self.segments[usize::from(index)].state);
        if !task.write && own == Some(State::Dirty) {
            return;
        }
        if self.needs_no_arm(id) {
            return;
        }
        let same = self.arm_segment().is_some_and(|(_, index)| task.segment == Some(index));
        match self.stoppable(now, id) {
            Stop::No => {}
            _ if task.write && same && task.hit == Hit::Append => {}
            _ if !task.write && same && task.hit != Hit::Miss => self.take_over(),
            _ => self.halt(now),
        }
    }

    /// A read wholly from the buffer, while the arm is elsewhere: "If a cache hit occurs, read-ahead mode continues without
    /// interruption and the host transfer begins immediately" (Maxtor's product manuals, 1998 to 2002).
    pub(super) fn needs_no_arm(&self, id: TaskId) -> bool {
        let task = self.task(id);
        let elsewhere = self.arm_segment().is_some_and(|(_, index)| task.segment != Some(index));
        !self.buffer.hit_stops_read_ahead && !task.write && task.hit == Hit::Whole && elsewhere
    }

    /// Reading ahead makes way for the next request, if there is one.
    pub(super) fn check_preemption(&mut self, now: Picos) {
        let Some(next) = self.next_task(now) else { return };
        let chosen = self.task(next).segment.is_none();
        if chosen {
            self.select(now, next);
        }
        self.activate(now, next, chosen);
    }

    /// Gives the arm, if it is free, to a request: that one, or else the best that waits.
    pub(super) fn check_arm(&mut self, now: Picos, id: Option<TaskId>, check_bus: bool) {
        if self.arm.is_some() {
            return;
        }
        let wanted = id.filter(|&id| !self.task(id).had_arm && self.enabled(now, id));
        let Some(id) = wanted.or_else(|| self.next_task(now)) else { return };
        if self.task(id).segment.is_none() {
            self.select(now, id);
            if self.task(id).segment.is_none() {
                return;
            }
            self.attach(id);
        }
        if !self.task(id).owns_segment {
            self.own(id);
        }
        self.start_task(id);
        self.arm = Some(id);
        let task = self.task_mut(id);
        task.had_arm = true;
        task.begun = now;
        let begin = if task.write { self.prepare_write(id) } else { self.prepare_read(id) };
        if check_bus && self.extra != Some(id) {
            self.check_bus(now, Some(id));
        }
        self.begin_or_release(now, id, begin);
    }

    fn begin_or_release(&mut self, now: Picos, id: TaskId, begin: Begin) {
        match begin {
            Begin::Sector(sector, seek_min) => {
                let at = now.max(self.task(id).ready_at).max(self.arm_free_at);
                if !self.begin_access(at, id, sector, seek_min) {
                    self.release_arm(now, id);
                } else if self.task(id).pending && matches!(self.bus, Bus::Idle) {
                    self.foresee_return(id, now);
                }
            }
            Begin::Nothing => {
                self.release_arm(now, id);
                return;
            }
            Begin::Already => {}
        }
        let ahead = self.background && !self.task(id).write;
        if ahead && self.arm == Some(id) && self.access.is_some() {
            self.preempt_if_free(now, id);
        }
    }

    /// Reading ahead after a hit makes way at once if its read is out of the way.
    fn preempt_if_free(&mut self, now: Picos, id: TaskId) {
        if self.out_of_the_way(self.task(id)) {
            self.check_preemption(now);
        }
    }

    /// Whether another task may have the arm of one that needs it no longer for itself.
    fn out_of_the_way(&self, task: &Task) -> bool {
        match self.wires.preseek {
            Preseek::None => task.reported,
            Preseek::AtCompletion => task.reporting,
            Preseek::AfterMedium => true,
        }
    }

    fn prepare_read(&mut self, id: TaskId) -> Begin {
        let task = *self.task(id);
        let Some(index) = task.segment else { return Begin::Already };
        // Who owns a segment has said so when it began to.
        if !task.owns_segment {
            let limits = self.ahead_limits(id, index);
            self.extend_ahead(index, limits);
        }
        self.background = false;
        let decoding = self.decoding(&task);
        let segment = &mut self.segments[usize::from(index)];
        segment.state = State::Reading;
        let begin = if segment.end < task.end || segment.start > task.sent {
            Begin::Sector(segment.end, decoding)
        } else if segment.end < segment.ahead_max {
            self.background = true;
            if self.buffer.read_ahead_on_hit { Begin::Sector(segment.end, 0) } else { Begin::Already }
        } else {
            Begin::Nothing
        };
        if self.access.is_some() { Begin::Already } else { begin }
    }

    /// What a read that misses takes beyond its overhead before anything can be read, if the arm need not move.
    ///
    /// To tell that a read misses takes at least what a hit takes. Where a file says less, the rest stands in its seek
    /// times, with which it was extracted, and an access without a seek would be without it. A drive that begins with
    /// whichever sector comes first has begun by then, for its head is on the track.
    fn decoding(&self, task: &Task) -> Picos {
        if self.fidelity == Fidelity::DiskSim || task.hit != Hit::Miss || self.immediate(false) {
            return 0;
        }
        let Timing { read_hit, read_miss, .. } = self.timing;
        read_hit.get(self.last_was_write).saturating_sub(read_miss.get(self.last_was_write))
    }

    fn prepare_write(&mut self, id: TaskId) -> Begin {
        let task = *self.task(id);
        let Some(index) = task.segment else { return Begin::Already };
        self.background = task.reported;
        let segment = &mut self.segments[usize::from(index)];
        segment.state = State::Writing;
        let follows = task.hit == Hit::Append && self.head.at == self.now;
        let seek_min = if follows { 0 } else { self.timing.minimum_seek_delay };
        if task.media < task.end { Begin::Sector(task.media, seek_min) } else { Begin::Nothing }
    }

    /// Moves the arm. Reading ahead may not be allowed to go there; then nothing moves.
    fn begin_access(&mut self, at: Picos, id: TaskId, sector: u64, seek_min: Picos) -> bool {
        let task = *self.task(id);
        let immediate = self.immediate(task.write);
        let end = match self.task(id).segment.map(|i| &self.segments[usize::from(i)]) {
            Some(segment) if self.background && !task.write => segment.ahead_max,
            Some(segment) if task.write && segment.end < task.end => sector,
            _ => task.end,
        };
        // What comes round last must not push out of the segment what has not been sent.
        let end = if task.write { end } else { end.min(self.room_until(self.task(id))) };
        if sector >= self.layout.capacity() {
            return false;
        }
        let aim = Aim { sector, end, write: task.write, immediate, begin: at, seek_min };
        let access = Access::new(&self.layout, &self.mechanics, &self.sectors, &self.head, &aim);
        if self.background && !task.write && !self.may_follow(&access) {
            return false;
        }
        self.note_positioning(id, &access);
        self.access = Some(access);
        true
    }

    /// Whether the head may begin in the middle. DiskSim's never does, in effect; a drive that keeps the bus meanwhile
    /// sends in order what it reads in order.
    fn immediate(&self, write: bool) -> bool {
        let keeps_bus = self.wires.hold_for_read || self.wires.never_disconnect;
        let wanted = if write { self.buffer.immediate_write } else { self.buffer.immediate_read };
        wanted && !keeps_bus && self.fidelity == Fidelity::Drive
    }

    fn may_follow(&self, access: &Access) -> bool {
        match self.buffer.read_ahead {
            ReadAhead::Cylinder => access.same_cylinder(&self.head),
            ReadAhead::Track => access.same_track(&self.head),
            _ => true,
        }
    }

    fn note_positioning(&mut self, id: TaskId, access: &Access) {
        let background = self.background;
        let task = self.task_mut(id);
        if task.passing.is_none() && !background {
            (task.seek, task.rotation) = (access.seek, access.rotation);
            task.passing = Some(access.from);
        }
    }

    /// How far to read ahead at least and at most.
    pub(super) fn ahead_limits(&self, id: TaskId, index: u8) -> (u64, u64) {
        let task = self.task(id);
        let capacity = self.layout.capacity();
        let (min, max) = (u64::from(self.buffer.read_ahead_min), u64::from(self.buffer.read_ahead_max));
        let size = self.segment_size();
        let (count, end) = (task.end - task.start, task.end);
        let segment = &self.segments[usize::from(index)];
        let most = match self.buffer.read_ahead {
            ReadAhead::None => end,
            ReadAhead::TrackAhead => {
                let (first, last) = self.layout.track(end.min(capacity - 1));
                let stream = segment.start < first;
                if stream { last + u64::from(self.layout.per_track(task.start)) } else { last }
            }
            _ if max > 0 => end + max,
            _ if self.buffer.keep_requested != crate::parameters::KeepRequested::PushOut => end + size,
            _ if count >= size || size - count < min => end + min,
            _ => task.start + size,
        };
        ((end + min).min(capacity), most.min(capacity))
    }

    pub(super) fn extend_ahead(&mut self, index: u8, (min, max): (u64, u64)) {
        let segment = &mut self.segments[usize::from(index)];
        segment.ahead_min = segment.ahead_min.max(min);
        segment.ahead_max = segment.ahead_max.max(max);
    }

    pub(super) fn empty_if_no_cache(&mut self, index: u8) {
        let segment = &mut self.segments[usize::from(index)];
        if self.buffer.caching == Caching::None && segment.users == 0 && segment.state == State::Clean {
            segment.state = State::Empty;
        }
    }

    /// The task is done with the medium: the arm goes to the next one, if this one may let go of it already.
    pub(super) fn release_arm(&mut self, now: Picos, id: TaskId) {
        let task = *self.task(id);
        if !task.reported && !self.out_of_the_way(&task) {
            return;
        }
        self.arm = None;
        if let Some(index) = task.segment {
            self.settle_segment(id, index);
        }
        if task.reported {
            self.finish(id);
        }
        self.check_arm(now, None, true);
        self.admit_write(now);
    }

    /// A write that waits for room has it as soon as a segment is written, not when its turn with the arm comes: its data
    /// is there when the arm gets to it.
    fn admit_write(&mut self, now: Picos) {
        if self.unanswered == 0
            || self.fidelity != Fidelity::Drive
            || self.arm.is_none()
            || !matches!(self.bus, Bus::Idle)
            || self.inbox_at() <= now
        {
            return;
        }
        let waits = |&id: &TaskId| {
            let task = self.task(id);
            task.write && task.pending && task.segment.is_none() && !task.had_arm && self.fast(id)
        };
        let Some(id) = self.live.iter().copied().find(waits) else { return };
        self.select(now, id);
        if self.task(id).segment.is_some() {
            self.attach(id);
            self.check_bus(now, Some(id));
        }
    }

    /// What a segment is once the arm has left it.
    fn settle_segment(&mut self, id: TaskId, index: u8) {
        let task = *self.task(id);
        let more = |d: &Self, other: TaskId| {
            let t = d.task(other);
            other != id && t.segment == Some(index) && t.dirty()
        };
        let dirty = task.write && self.live.iter().any(|&other| more(self, other));
        let keep = self.buffer.caching != Caching::None && (!task.write || self.buffer.read_hits_on_writes);
        let segment = &mut self.segments[usize::from(index)];
        segment.state = match () {
            () if dirty => State::Dirty,
            () if keep || segment.users > 1 || !task.reporting => State::Clean,
            () => State::Empty,
        };
    }

    /// Counts what has passed under the head and over the bus until now.
    pub(super) fn sync(&mut self, now: Picos) {
        self.sync_bus(now);
        self.sync_medium(now);
    }

    /// Counts what has passed under the head until now.
    pub(super) fn sync_medium(&mut self, now: Picos) {
        let Some(access) = &self.access else { return };
        let Some((arm, index)) = self.arm_segment() else { return };
        let passed = access.passed_until(now, self.goal);
        if passed <= access.next && passed != self.goal {
            return;
        }
        let size = self.segment_size();
        if self.task(arm).write {
            let task = self.task_mut(arm);
            task.media = task.media.max(passed);
            return;
        }
        let segment = &mut self.segments[usize::from(index)];
        segment.end = segment.end.max(passed);
        segment.wrap(size);
    }

    /// Where the head's next sector is.
    fn position(&self) -> u64 {
        match self.arm_segment() {
            Some((arm, _)) if self.task(arm).write => self.task(arm).media,
            Some((_, index)) => self.segments[usize::from(index)].end,
            None => 0,
        }
    }

    /// Sets the time at which something changes: the wanted sectors, the track or the room ends, a jump is due, the
    /// bus waits for more.
    pub(super) fn aim_wake(&mut self) {
        let (Some((arm, index)), Some(access)) = (self.arm_segment(), &self.access) else {
            self.wake = Picos::MAX;
            return;
        };
        let (task, segment) = (self.task(arm), &self.segments[usize::from(index)]);
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
            let may_end = segment.end < min && self.out_of_the_way(task);
            if may_end { min.min(segment.ahead_max) } else { segment.ahead_max }
        } else if matches!(self.bus, Bus::Held(id) if id == arm) {
            segment.end + 1
        } else {
            let watermark = task.sent + task.watermark;
            if task.pending && segment.end < watermark { watermark.min(task.end) } else { task.end }
        };
        wanted.min(room)
    }

    /// The access has come to where something changes.
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
            self.access = None;
            if !self.begin_access(now, arm, position, 0) {
                self.release_arm(now, arm);
            }
        } else if now >= access.time_of(position) && self.no_room(position) {
            // Whoever left the bus and could make room by now may have been overlooked while others had it.
            self.check_bus(now, None);
            let period = self.mechanics.period();
            if let Some(access) = &mut self.access {
                access.miss(position, period);
            }
        }
    }

    fn take_jump(&mut self) {
        let position = self.position();
        let Some((arm, index)) = self.arm_segment() else { return };
        let Some(access) = &mut self.access else { return };
        let Some((_, to)) = access.jump.filter(|&(at, _)| at == position) else { return };
        access.skip_to(to);
        if self.task(arm).write {
            self.task_mut(arm).media = to;
        } else {
            let size = self.segment_size();
            let segment = &mut self.segments[usize::from(index)];
            segment.end = to;
            segment.wrap(size);
        }
    }

    /// The next sector cannot be taken: its data is not there (a write), or there is no room for it (a read).
    fn no_room(&self, position: u64) -> bool {
        let Some((arm, index)) = self.arm_segment() else { return false };
        let (task, segment) = (self.task(arm), &self.segments[usize::from(index)]);
        if task.write {
            position >= segment.end || self.too_little_buffered(task, segment)
        } else {
            position >= self.room_until(task)
        }
    }

    /// Up to where a read may fill its segment without pushing out what somebody has not been sent yet.
    pub(super) fn room_until(&self, task: &Task) -> u64 {
        let until = |t: &Task| if t.reporting { u64::MAX } else { t.sent + self.segment_size() };
        let shared = task.segment.is_some_and(|index| self.segments[usize::from(index)].users > 1);
        if !shared {
            return until(task);
        }
        let others = self.live.iter().map(|&other| self.task(other)).filter(|t| t.segment == task.segment);
        others.map(until).min().unwrap_or(u64::MAX)
    }

    /// Whether a write waits for more of its data before the medium has its turn.
    ///
    /// Drives that leave the bus twice in a write begin when ten of its sectors are in the buffer, of a long write
    /// fifteen (DiskSim's reading of HP's drives). Others gather what their watermark says, as reads do on their way out.
    fn too_little_buffered(&self, task: &Task, segment: &Segment) -> bool {
        let count = task.end - task.start;
        let (there, needed) = if self.timing.extra.is_some() {
            (segment.end - segment.start, if count < 45 { count.min(10) } else { 15 })
        } else if self.buffer.write_watermark > 0.0 && self.fidelity == Fidelity::Drive {
            let base = if self.buffer.watermark_of_request { count } else { self.segment_size() };
            let part = (base as f64 * self.buffer.write_watermark).ceil() as u64;
            (task.sent - task.start, part.min(count))
        } else {
            return false;
        };
        there < needed.min(self.segment_size())
    }

    /// What follows from sectors having passed. Whether the access has ended.
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

    fn after_reading(&mut self, now: Picos, arm: TaskId, index: u8) -> bool {
        let task = *self.task(arm);
        let segment = self.segments[usize::from(index)];
        let all = segment.end >= segment.ahead_max;
        if self.background {
            if all {
                self.end_access(now, arm);
            } else if segment.end == segment.ahead_min {
                self.preempt_if_free(now, arm);
            }
            return self.arm != Some(arm) || self.access.is_none();
        }
        self.check_bus(now, Some(arm));
        if segment.end < task.end {
            return false;
        }
        self.task_mut(arm).passed = now;
        if self.buffer.read_ahead == ReadAhead::None || all || !self.waiting.is_empty() {
            self.end_access(now, arm);
            return true;
        }
        self.background = true;
        self.preempt_if_free(now, arm);
        self.arm != Some(arm) || self.access.is_none()
    }

    fn after_writing(&mut self, now: Picos, arm: TaskId, index: u8) -> bool {
        let task = *self.task(arm);
        let end = self.segments[usize::from(index)].end;
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
        }
        if self.task(arm).write && self.fidelity == Fidelity::Drive {
            self.wrote_through(arm, position);
        }
        self.release_arm(now, arm);
    }

    /// What the arm wrote of a segment beyond its own task's end is written for those whose data it is: DiskSim has each
    /// of them written again, a revolution later.
    fn wrote_through(&mut self, arm: TaskId, position: u64) {
        let segment = self.task(arm).segment;
        for n in 0..self.live.len() {
            let id = self.live[n];
            let task = self.task_mut(id);
            if id != arm && task.write && task.segment == segment && task.start <= position {
                task.media = task.media.max(position.min(task.end));
            }
        }
    }

    /// Whether data of a segment is on the bus.
    pub(super) fn moving(&self, segment: &Segment) -> bool {
        use super::bus::Message;
        let Bus::Busy { message: Message::Move { id, since, .. }, .. } = self.bus else { return false };
        since <= self.now
            && self.task(id).segment.is_some_and(|i| core::ptr::eq(segment, &self.segments[usize::from(i)]))
    }
}

/// What the arm does first for a request.
enum Begin {
    /// Goes to a sector, in no less than a time.
    Sector(u64, Picos),
    /// Nothing: what is wanted is in the buffer, and more is not wanted.
    Nothing,
    /// What it does already, or nothing until the request has completed.
    Already,
}
