//! Assignment of the arm to tasks, and the first access of each task.

use elevator::cold_path;

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

    /// Starts a task: preempts what the arm does, and assigns segment and arm if they are available.
    /// `chosen`: the task's segment was selected but not attached.
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

    /// Assigns the arm, if it is free, to `id`, or else to the best waiting task.
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

    /// When the arm may begin to move. A drive frees the arm while it decodes the command; DiskSim adds the two delays.
    fn may_move_at(&self, now: Picos, id: TaskId) -> Picos {
        let ready_at = self.task(id).ready_at;
        match self.fidelity {
            Fidelity::Drive => now.max(ready_at).max(self.arm_free_at),
            Fidelity::DiskSim => {
                cold_path();
                now + ready_at.saturating_sub(now) + self.arm_free_at.saturating_sub(now)
            }
        }
    }

    fn prepare_read(&mut self, id: TaskId) -> Begin {
        let task = *self.task(id);
        let Some(index) = task.segment else { return Begin::Already };
        // A task that owns its segment extended the read-ahead limits when it became the owner.
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

    /// The sectors that the head may keep out of order were computed for the previous owner of the arm. Limits them so that
    /// they do not overwrite data that this task has not sent.
    fn keep_room(&mut self, id: TaskId) {
        let room = self.room_until(self.task(id));
        if let Some(access) = &mut self.access {
            access.jump = access.jump.map(|(at, to)| (at, to.min(room))).filter(|(at, to)| at < to);
        }
    }

    /// Time after the overhead before a read that misses can begin, if the arm need not move.
    ///
    /// Detecting a miss takes at least the overhead of a hit. Where a parameter file states less, the rest is contained in its
    /// seek times, which were extracted together with it; an access without a seek would omit it. A drive that begins with
    /// whichever sector passes first has begun by then, because its head is on the track.
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

    /// Moves the arm. Returns false if read-ahead may not continue there; then the arm does not move.
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

    /// Counts the head's travel to the beginning of the access; the head leaves the medium before sector `left`.
    pub(super) fn note_travel(&mut self, left: u64) {
        let way = self.begins.abs_diff(self.left);
        self.travel.sectors += way;
        self.travel.seeks += u64::from(way > 0);
        self.left = left;
    }

    /// The sector behind the last that an access to `sector` may take out of order. Sectors that pass in the next revolution must
    /// not overwrite unsent data in the segment.
    fn wanted_until(&self, id: TaskId, sector: u64) -> u64 {
        let task = self.task(id);
        match task.segment.map(|index| &self.segments[index]) {
            Some(segment) if task.write && segment.end < task.end => sector,
            _ if task.write => task.end,
            Some(segment) if self.background => segment.ahead_max.min(self.room_until(task)),
            _ => task.end.min(self.room_until(task)),
        }
    }

    /// Whether an access may begin in the middle of a request. DiskSim's parameter has no effect in practice. A drive that keeps
    /// the bus during the access sends sectors in order, and therefore reads them in order.
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

    /// The task needs the medium no more: passes the arm on, if the task may already give it up.
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
        // DiskSim checks only whether the arm's owner needs the bus.
        if self.fidelity == Fidelity::Drive {
            self.check_bus(now, None);
        }
    }

    /// Sets a segment's state when the arm leaves it.
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
            // DiskSim uses a truth value as the state here, and loses data that was not yet sent to the host.
            () if self.fidelity == Fidelity::DiskSim && !task.write && !task.reported => State::Empty,
            () if keep || segment.users > 1 || !task.reporting => State::Clean,
            () => State::Empty,
        };
    }

    /// Whether data of the segment is on the bus.
    pub(super) fn moving(&self, segment: &Segment) -> bool {
        use super::bus::Message;
        let Bus::Busy { message: Message::Move { id, since, .. }, .. } = self.bus else { return false };
        since <= self.now && self.task(id).segment.is_some_and(|i| core::ptr::eq(segment, &self.segments[i]))
    }
}

/// The first action of the arm for a task.
enum Begin {
    /// Access a sector; the move takes at least the given time.
    Sector(u64, Picos),
    /// None: the wanted data is in the buffer, and read-ahead is complete.
    Nothing,
    /// Continue the current access, or wait until the command has completed.
    Already,
}
