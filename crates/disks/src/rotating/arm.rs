//! The arm: who has it, and what it begins with.

use elevator::rarely;

use super::Rotating;
use super::access::{Access, Aim};
use super::bus::Bus;
use super::segment::{Segment, State};
use super::task::{Hit, Task, TaskId};
use super::timing::Timing;
use crate::mechanics::Picos;
use crate::parameters::{Caching, Fidelity};

impl Rotating {
    pub(super) fn arm_segment(&self) -> Option<(TaskId, u16)> {
        let arm = self.arm?;
        Some((arm, self.task(arm).segment?))
    }

    /// Gets a request going: makes way for it, gives it its segment and the arm, as far as they are to be had.
    /// `chosen` says that its segment was chosen but not attached.
    pub(super) fn activate(&mut self, now: Picos, id: TaskId, chosen: bool) {
        self.preempt_for(now, id);
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
            self.check_arm(now, Some(id));
        }
    }

    /// Gives the arm, if it is free, to a request: that one, or else the best that waits.
    #[inline]
    pub(super) fn check_arm(&mut self, now: Picos, id: Option<TaskId>) {
        let wanted = id.is_some() || !self.waiting.is_empty();
        if wanted && self.arm.is_none() {
            self.give_arm(now, id);
        }
    }

    fn give_arm(&mut self, now: Picos, id: Option<TaskId>) {
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
        if self.extra != Some(id) {
            self.check_bus(now, Some(id));
        }
        self.begin_or_release(now, id, begin);
        if wanted.is_none() {
            self.go_on_if_held(now, id);
        }
    }

    fn begin_or_release(&mut self, now: Picos, id: TaskId, begin: Begin) {
        match begin {
            Begin::Sector(sector, seek_min) => {
                if !self.begin_access(self.may_move_at(now, id), id, sector, seek_min) {
                    self.release_arm(now, id);
                } else if self.task(id).pending && matches!(self.bus, Bus::Idle) {
                    self.schedule_return(id, now);
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

    /// The arm is made free while the request is made out. DiskSim's arm begins with the one when it is through with the other.
    fn may_move_at(&self, now: Picos, id: TaskId) -> Picos {
        let ready_at = self.task(id).ready_at;
        match self.fidelity {
            Fidelity::Drive => now.max(ready_at).max(self.arm_free_at),
            Fidelity::DiskSim => {
                rarely();
                now + ready_at.saturating_sub(now) + self.arm_free_at.saturating_sub(now)
            }
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
        let segment = &mut self.segments[index];
        segment.state = State::Reading;
        let begin = if segment.end < task.end || segment.start > task.sent {
            Begin::Sector(segment.end, decoding)
        } else if segment.end < segment.ahead_max {
            self.background = true;
            if self.buffer.read_ahead_on_hit { Begin::Sector(segment.end, 0) } else { Begin::Already }
        } else {
            Begin::Nothing
        };
        if self.access.is_none() {
            return begin;
        }
        self.keep_room(id);
        Begin::Already
    }

    /// What the head would keep of the sectors at which it landed was allowed to whoever had the arm before; it must not push out
    /// what this task has not been sent.
    fn keep_room(&mut self, id: TaskId) {
        let room = self.room_until(self.task(id));
        if let Some(access) = &mut self.access {
            access.jump = access.jump.map(|(at, to)| (at, to.min(room))).filter(|(at, to)| at < to);
        }
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
        let segment = &mut self.segments[index];
        segment.state = State::Writing;
        let follows = task.hit == Hit::Append && self.head.at == self.now;
        let seek_min = if follows { 0 } else { self.timing.minimum_seek_delay };
        if task.media < task.end { Begin::Sector(task.media, seek_min) } else { Begin::Nothing }
    }

    /// Moves the arm. Reading ahead may not be allowed to go there; then nothing moves.
    pub(super) fn begin_access(&mut self, at: Picos, id: TaskId, sector: u64, seek_min: Picos) -> bool {
        if sector >= self.layout.capacity() {
            return false;
        }
        let write = self.task(id).write;
        let immediate = self.immediate(write).then(|| self.wanted_until(id, sector));
        let aim = Aim { sector, write, immediate, begin: at, seek_min };
        let access = Access::new(&self.layout, &self.mechanics, &self.sectors, &self.head, &aim);
        if self.background && !write && !self.may_follow(&access) {
            return false;
        }
        self.note_positioning(id, &access);
        self.access = Some(access);
        self.begins = sector;
        true
    }

    /// The head went where the access began, and leaves the medium in front of a sector.
    pub(super) fn note_travel(&mut self, left: u64) {
        let way = self.begins.abs_diff(self.left);
        self.travel.sectors += way;
        self.travel.seeks += u64::from(way > 0);
        self.left = left;
    }

    /// The sector behind the last that an access to one may take in whichever order they come. What comes round last must not
    /// push out of the segment what has not been sent.
    fn wanted_until(&self, id: TaskId, sector: u64) -> u64 {
        let task = self.task(id);
        match task.segment.map(|index| &self.segments[index]) {
            Some(segment) if task.write && segment.end < task.end => sector,
            _ if task.write => task.end,
            Some(segment) if self.background => segment.ahead_max.min(self.room_until(task)),
            _ => task.end.min(self.room_until(task)),
        }
    }

    /// Whether the head may begin in the middle. DiskSim's never does, in effect; a drive that keeps the bus meanwhile
    /// sends in order what it reads in order.
    fn immediate(&self, write: bool) -> bool {
        let wanted = if write { self.buffer.immediate_write } else { self.buffer.immediate_read };
        let keeps_bus = || self.bus_parameters.hold_for_read || self.bus_parameters.never_disconnect;
        wanted && self.fidelity == Fidelity::Drive && !keeps_bus()
    }

    fn note_positioning(&mut self, id: TaskId, access: &Access) {
        let background = self.background;
        let task = self.task_mut(id);
        if task.first_pass.is_none() && !background {
            (task.seek, task.rotation) = (access.seek, access.rotation);
            task.first_pass = Some(access.from);
        }
    }

    /// The task is done with the medium: the arm goes to the next one, if this one may let go of it already.
    pub(super) fn release_arm(&mut self, now: Picos, id: TaskId) {
        let task = *self.task(id);
        if !task.reported && !self.may_be_preempted(&task) {
            return;
        }
        self.arm = None;
        if let Some(index) = task.segment {
            self.settle_segment(id, index);
        }
        if task.reported {
            self.finish(id);
        }
        self.check_arm(now, None);
        // DiskSim looks only whether who has the arm now needs the bus.
        if self.fidelity == Fidelity::Drive {
            self.check_bus(now, None);
        }
    }

    /// What a segment is once the arm has left it.
    fn settle_segment(&mut self, id: TaskId, index: u16) {
        let task = *self.task(id);
        let more = |d: &Self, other: TaskId| {
            let t = d.task(other);
            other != id && t.segment == Some(index) && t.dirty()
        };
        let dirty = task.write && self.live.iter().any(|&other| more(self, other));
        let keep = self.buffer.caching != Caching::None && (!task.write || self.buffer.read_hits_on_writes);
        let segment = &mut self.segments[index];
        segment.state = match () {
            () if dirty => State::Dirty,
            // DiskSim takes a truth value for the state here, and forgets what the host has not been sent yet.
            () if self.fidelity == Fidelity::DiskSim && !task.write && !task.reported => State::Empty,
            () if keep || segment.users > 1 || !task.reporting => State::Clean,
            () => State::Empty,
        };
    }

    /// Whether data of a segment is on the bus.
    pub(super) fn moving(&self, segment: &Segment) -> bool {
        use super::bus::Message;
        let Bus::Busy { message: Message::Move { id, since, .. }, .. } = self.bus else { return false };
        since <= self.now && self.task(id).segment.is_some_and(|i| core::ptr::eq(segment, &self.segments[i]))
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
