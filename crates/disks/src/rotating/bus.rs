//! The bus: it carries commands, data and completions, one at a time.

use elevator::Outcome;

use super::Rotating;
use super::task::{Hit, TaskId};
use crate::drive::Service;
use crate::mechanics::Picos;
use crate::parameters::{Fidelity, KeepRequested, Preseek, ReadAhead};

/// The state of the bus.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bus {
    /// Free.
    Idle,
    /// In use until a time.
    Busy { message: Message, until: Picos },
    /// Reserved for a task that has nothing to transfer at present.
    Held(TaskId),
}

/// What the bus carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// Preparation of a task's data transfer.
    Ready(TaskId),
    /// The disconnection of a task.
    Leave(TaskId),
    /// A transfer of `count` sectors that begins at `since`; `counted` of them are already accounted for.
    Move { id: TaskId, count: u64, since: Picos, counted: u64 },
    /// The completion of a task.
    Report(TaskId),
    /// A write is between its two disconnections and will reselect. The bus is free meanwhile.
    Between(TaskId),
    /// A reservation for the task in [`BusRequest`].
    Granted,
}

/// The next action of a task on the bus.
enum BusAction {
    Move(u64),
    Wait,
    Leave,
    Done,
}

/// A task that gets the bus after one command that arrived while the bus was busy, and before all later ones: DiskSim's drive
/// has requested the bus by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusRequest {
    by: TaskId,
    /// The serial number of the last command that had arrived.
    since: u64,
}

impl Bus {
    pub(super) fn until(&self) -> Picos {
        match self {
            Self::Busy { until, .. } => *until,
            Self::Idle | Self::Held(_) => Picos::MAX,
        }
    }
}

impl Rotating {
    pub(super) fn send(&mut self, now: Picos, message: Message, delay: Picos) {
        self.bus = Bus::Busy { message, until: now + delay };
    }

    pub(super) fn bus_event(&mut self, now: Picos) {
        let Bus::Busy { message, .. } = core::mem::replace(&mut self.bus, Bus::Idle) else { return };
        self.sync_medium(now);
        match message {
            Message::Ready(id) => self.step(now, id),
            Message::Leave(id) => self.left(now, id),
            Message::Report(id) => self.reported(now, id),
            Message::Granted => self.granted(now),
            Message::Between(id) => {
                self.task_mut(id).pending = true;
                self.check_bus(now, Some(id));
            }
            Message::Move { id, count, counted, .. } => {
                self.count_moved(id, count - counted);
                self.step(now, id);
            }
        }
    }

    /// Accounts for the sectors of the current transfer that have crossed the bus.
    pub(super) fn sync_bus(&mut self, now: Picos) {
        let Bus::Busy { message: Message::Move { id, count, since, counted }, until } = self.bus else {
            return;
        };
        let sector = self.timing.bus_sector(self.task(id).write);
        let moved = match now {
            now if now >= until => count,
            now if now > since => (now - since) / sector,
            _ => 0,
        };
        self.count_moved(id, moved - counted);
        self.bus = Bus::Busy { message: Message::Move { id, count, since, counted: moved }, until };
    }

    fn count_moved(&mut self, id: TaskId, sectors: u64) {
        let size = self.segment_size();
        let task = self.task_mut(id);
        task.sent += sectors;
        let (write, sent) = (task.write, task.sent);
        if let Some(index) = self.task(id).segment.filter(|_| write) {
            let segment = &mut self.segments[index];
            segment.end = segment.end.max(sent);
            segment.wrap(size);
        }
    }

    /// Starts the next action of a task that has the bus.
    pub(super) fn step(&mut self, now: Picos, id: TaskId) {
        let step = if self.task(id).write { self.write_step(id) } else { self.read_step(id) };
        match step {
            BusAction::Move(count) => self.send_data(now, id, count),
            BusAction::Wait => self.bus = Bus::Held(id),
            BusAction::Leave => {
                let overhead = self.leave_overhead(id);
                self.send(now, Message::Leave(id), overhead);
            }
            BusAction::Done => self.report(now, id),
        }
    }

    /// If the bus is reserved for the task, which has the arm now, starts its next action.
    pub(super) fn go_on_if_held(&mut self, now: Picos, id: TaskId) {
        if matches!(self.bus, Bus::Held(_)) {
            self.go_on(now, id);
        }
    }

    #[cold]
    fn go_on(&mut self, now: Picos, id: TaskId) {
        if matches!(self.bus, Bus::Held(holder) if holder == id) {
            self.step(now, id);
        }
    }

    pub(super) fn send_data(&mut self, since: Picos, id: TaskId, count: u64) {
        let message = Message::Move { id, count, since, counted: 0 };
        let sector = self.timing.bus_sector(self.task(id).write);
        self.send(since, message, count * sector);
    }

    fn leave_overhead(&self, id: TaskId) -> Picos {
        let task = self.task(id);
        match (task.write, self.timing.extra) {
            (false, _) => self.timing.read_disconnect.get(self.last_was_write),
            (true, Some(extra)) if task.extra => extra.second_disconnect,
            (true, _) => self.timing.write_disconnect,
        }
    }

    fn read_step(&self, id: TaskId) -> BusAction {
        let task = self.task(id);
        if task.sent >= task.end {
            return BusAction::Done;
        }
        let Some(index) = task.segment else { return BusAction::Wait };
        let segment = &self.segments[index];
        if segment.end > task.sent && segment.start <= task.sent {
            return BusAction::Move(segment.end.min(task.end) - task.sent);
        }
        let hold = self.bus_parameters.hold_for_read || self.bus_parameters.never_disconnect;
        if hold { BusAction::Wait } else { BusAction::Leave }
    }

    fn write_step(&self, id: TaskId) -> BusAction {
        let task = self.task(id);
        if task.sent == task.end {
            return self.written_step(id);
        }
        let Some(index) = task.segment else { return BusAction::Wait };
        let segment = &self.segments[index];
        let room = self.room_of_write(id, index).min(task.end - task.sent);
        if room > 0 && (task.owns_segment || segment.end >= task.sent) {
            return BusAction::Move(room);
        }
        let hold = self.bus_parameters.hold_for_write || self.bus_parameters.never_disconnect;
        if hold { BusAction::Wait } else { BusAction::Leave }
    }

    /// How many more sectors the segment of a write has room for.
    pub(super) fn room_of_write(&self, id: TaskId, index: u16) -> u64 {
        let sent = self.task(id).sent;
        let taken = sent - self.unwritten_from(id, index).min(sent);
        self.segment_size().saturating_sub(taken)
    }

    /// The next action of a write whose data is completely in the buffer.
    fn written_step(&self, id: TaskId) -> BusAction {
        let task = self.task(id);
        if self.fast(id) || task.media >= task.end {
            BusAction::Done
        } else if self.bus_parameters.never_disconnect {
            BusAction::Wait
        } else {
            BusAction::Leave
        }
    }

    /// Sends the completion to the host.
    fn report(&mut self, now: Picos, id: TaskId) {
        let task = self.task_mut(id);
        task.reporting = true;
        let (write, task_end) = (task.write, task.end);
        self.last_was_write = write;
        self.last_end = task_end;
        if !write {
            self.sent_without_arm(id);
            self.stop_waiting(id);
            self.forget_requested(id);
        }
        let delay = if write { self.timing.write_completion } else { self.timing.read_completion };
        if delay == 0 && self.report_changes_nothing(id) {
            self.reported(now, id);
            return;
        }
        self.send(now, Message::Report(id), delay);
        if self.arm == Some(id) {
            if self.access.is_none() {
                self.release_arm(now, id);
            } else if !write && self.bus_parameters.preseek != Preseek::None {
                self.check_preemption(now);
            }
        }
    }

    /// Whether a completion that takes no time can be delivered at once, because no other event lies between.
    fn report_changes_nothing(&self, id: TaskId) -> bool {
        let arm_stays = self.arm != Some(id) || self.bus_parameters.preseek == Preseek::None;
        arm_stays && matches!(self.bus, Bus::Idle) && self.flushes.is_empty()
    }

    fn forget_requested(&mut self, id: TaskId) {
        let task = *self.task(id);
        let Some(index) = task.segment else { return };
        let given_up = match self.buffer.keep_requested {
            KeepRequested::PushOut => self.fidelity == Fidelity::Drive && !self.is_track_buffer(task.start),
            KeepRequested::Keep => false,
            KeepRequested::KeepAll => true,
        };
        let segment = &mut self.segments[index];
        if given_up && segment.users == 1 {
            segment.start = task.sent.min(segment.end);
        }
    }

    /// A drive that reads ahead to the end of the track, and whose segments hold a track, keeps the whole track: nothing has to be
    /// overwritten.
    fn is_track_buffer(&self, sector: u64) -> bool {
        if self.buffer.read_ahead != ReadAhead::Track {
            return false;
        }
        let (first, end) = self.layout.track(sector);
        end - first <= self.segment_size()
    }

    /// The host has received the completion.
    fn reported(&mut self, now: Picos, id: TaskId) {
        let task = *self.task(id);
        self.task_mut(id).reported = true;
        if self.fidelity == Fidelity::DiskSim && self.unanswered == self.queue.depth {
            self.reported_at = Some(now);
        }
        self.complete(now, task.tag, Outcome::Done, self.service(id, now));
        if task.write {
            self.write_reported(now, id)
        } else {
            self.read_reported(now, id)
        }
        self.check_arm(now, None);
        self.check_bus(now, None);
    }

    fn read_reported(&mut self, now: Picos, id: TaskId) {
        if self.arm != Some(id) {
            self.finish_read(id);
        } else if self.access.is_none() {
            self.release_arm(now, id);
        } else {
            self.check_preemption(now);
        }
    }

    fn finish_read(&mut self, id: TaskId) {
        let segment = self.task(id).segment;
        self.finish(id);
        if let Some(index) = segment {
            self.empty_if_no_cache(index);
        }
    }

    fn write_reported(&mut self, now: Picos, id: TaskId) {
        if self.task(id).dirty() {
            if self.arm == Some(id) {
                self.background = true;
            } else {
                self.merge_into_run(id);
            }
        } else if self.arm == Some(id) {
            self.release_arm(now, id);
        } else {
            self.finish(id);
        }
    }

    fn service(&self, id: TaskId, now: Picos) -> Service {
        let task = self.task(id);
        let span = |picos: Picos| elevator::Span::from_nanos(picos / 1000);
        let moved = task.first_pass.filter(|_| task.passed != 0 && task.passed <= now);
        let Some(passing) = moved else {
            let overhead = span(now - task.arrived);
            let started = self.time_of(task.arrived);
            return Service { started, overhead, from_buffer: true, ..Default::default() };
        };
        let transfer = task.passed - passing;
        let mechanical = task.seek + task.rotation + transfer;
        let started = task.begun.max(task.arrived);
        Service {
            started: self.time_of(started),
            overhead: span((now - started).saturating_sub(mechanical)),
            seek: span(task.seek),
            rotation: span(task.rotation),
            transfer: span(transfer),
            from_buffer: false,
        }
    }

    /// The task has disconnected.
    fn left(&mut self, now: Picos, id: TaskId) {
        if let Some(extra) = self.timing.extra
            && self.extra == Some(id)
        {
            // Nothing else uses the bus for such a short time.
            self.send(now, Message::Between(id), extra.between);
            return;
        }
        self.task_mut(id).pending = true;
        self.check_bus(now, None);
    }

    /// Reselects `id`, or else the best disconnected task, if the bus is free.
    #[inline]
    pub(super) fn check_bus(&mut self, now: Picos, id: Option<TaskId>) {
        let away = id.map_or_else(|| self.any_pending(), |id| self.task(id).pending);
        if away && matches!(self.bus, Bus::Idle) {
            self.give_bus(now, id);
        }
    }

    /// Whether any task is disconnected and will reselect.
    pub(super) fn any_pending(&self) -> bool {
        self.live.iter().any(|&id| self.task(id).pending)
    }

    fn give_bus(&mut self, now: Picos, id: Option<TaskId>) {
        let waits = self.inbox_at() <= now;
        if let Some(bus_request) = self.bus_request.take_if(|bus_request| bus_request.since != self.serial) {
            self.reselect(now, bus_request.by);
        } else if !waits && !self.host_may_answer(now) {
            if let Some(id) = self.next_to_reselect(now, id) {
                self.reconnect(now, id);
            }
        } else if self.fidelity == Fidelity::DiskSim && self.bus_request.is_none() {
            self.request_bus(now, id);
            if !waits && self.bus_request.is_some() {
                // One picosecond after the tick of the host's clock at which the host receives the completion.
                self.send(now.next_multiple_of(1000), Message::Granted, 1);
            }
        }
    }

    #[inline(never)]
    fn request_bus(&mut self, now: Picos, id: Option<TaskId>) {
        let Some(by) = self.next_to_reselect(now, id) else { return };
        self.bus_request = Some(BusRequest { by, since: self.serial });
        self.activate(now, by, false);
    }

    /// Whether the host received a completion at this time while it may have held back commands. DiskSim's host then gets the bus
    /// first.
    fn host_may_answer(&self, now: Picos) -> bool {
        self.reported_at == Some(now)
    }

    /// Gives the bus to the task that requested it, unless a command has arrived meanwhile.
    #[cold]
    fn granted(&mut self, now: Picos) {
        if self.inbox_at() > now
            && let Some(bus_request) = self.bus_request.take()
        {
            self.reselect(now, bus_request.by);
        }
    }

    /// The next task to reselect: `id` if it needs the bus, or else the best of the disconnected tasks.
    fn next_to_reselect(&mut self, now: Picos, id: Option<TaskId>) -> Option<TaskId> {
        match id {
            Some(id) => Some(id).filter(|&id| self.needs_bus(id)),
            None => self.next_on_bus(now).or_else(|| self.admit_write(now)),
        }
    }

    /// Whether a disconnected task has something to transfer.
    pub(super) fn needs_bus(&self, id: TaskId) -> bool {
        let task = self.task(id);
        let Some(index) = task.segment.filter(|_| !task.reporting) else { return false };
        let segment = &self.segments[index];
        if !task.write {
            let there = segment.end > task.sent && segment.start <= task.sent;
            return there && (segment.end >= task.end || segment.end - task.sent >= task.watermark);
        }
        let written = self.unwritten_from(id, index);
        let begins = task.sent == task.start && task.hit != Hit::Append;
        let goes_on = segment.end == task.sent
            && segment.end < task.end
            && segment.end.saturating_sub(written) < self.segment_size()
            && segment.end.saturating_sub(task.media) <= task.watermark;
        task.media >= task.end || begins || goes_on
    }

    pub(super) fn reconnect(&mut self, now: Picos, id: TaskId) {
        self.task_mut(id).pending = false;
        // Reserve the bus first: `activate` must not give it to another task.
        self.bus = Bus::Held(id);
        self.activate(now, id, false);
        self.reselect(now, id);
    }

    fn reselect(&mut self, now: Picos, id: TaskId) {
        self.task_mut(id).pending = false;
        let delay = self.reselection(id);
        if self.extra == Some(id) {
            self.extra = None;
        }
        self.prepare(now, id, delay);
    }

    /// The duration from reselection until the task can continue.
    pub(super) fn reselection(&self, id: TaskId) -> Picos {
        let task = self.task(id);
        let again = task.extra && self.extra != Some(id);
        let reselect = if again { self.timing.other_reselect } else { self.timing.first_reselect };
        reselect + if task.sent < task.end { self.timing.data_preparation } else { 0 }
    }
}
