//! Histories of processes, and the rules by which 2.6.9 and 2.6.32 decide whether to wait (`as_can_break_anticipation`).

use elevator::{HoldReason, Process, Request, Sector};

use super::Version;
use super::judgement::{Break, GroupId, Judgement, Queued, Requester, Situation};
use super::lists::Kind;
use crate::parts::averages::{NewcomersMean, ONE, Probability, SeekDistance, ThinkTime};
use crate::parts::jiffies::{Jiffies, Ticks};
use crate::parts::processes::{Processes, Slot};

/// The history of a process (`as_io_context`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    /// A synchronous request was inserted (`AS_TASK_IOSTARTED`).
    started: bool,
    /// A synchronous request completed (`AS_TASK_IORUNNING`).
    io_running: bool,
    pub(crate) ttime: ThinkTime,
    pub(crate) seek: SeekDistance,
    pub(crate) nr_queued: u32,
    last_end_request: Jiffies,
    last_request_pos: Sector,
    /// Its group, and its serial number among all processes; used by the cooperative scheduler.
    pub(crate) group: Option<GroupId>,
    pub(crate) serial: u64,
}

/// Averages over new processes, used for processes without a history.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Newcomers {
    /// The probability that a process ends, or falls silent, after its first request.
    pub(crate) exit_prob: Probability,
    /// The probability that no process continues where one ended.
    pub(crate) exit_no_coop: Probability,
    pub(crate) ttime: NewcomersMean,
    pub(crate) seek: NewcomersMean,
}

impl Newcomers {
    /// The reason against waiting by the think time of new processes.
    pub(crate) fn too_thoughtful(&self, antic_expire: Jiffies) -> Option<Break> {
        (self.ttime.mean() > antic_expire).then_some(Break::NewcomersThink)
    }
}

/// Think times are limited to this (`MAX_THINKTIME`, HZ/50): longer ones would not decay fast enough.
const MAX_THINKTIME: elevator::Span = elevator::Span::from_millis(20);

/// A process unused for this long may be evicted; the kernel keeps its history until it ends.
const STALE: elevator::Span = elevator::Span::from_secs(60);

/// The close window of 2.6.9: 32 KiB, doubled with each millisecond of waiting beyond the first.
const CLOSE_2_6_9: u64 = 64;

/// The close window of 2.6.32: 4 MiB, doubled with each tick of waiting.
const CLOSE_2_6_32: u64 = 8192;

/// After this wait every request is close enough.
const CLOSE_LIMIT: elevator::Span = elevator::Span::from_millis(20);

/// Whether `next` lies within `delta` sectors ahead of `last`, or half as many behind it.
pub(crate) const fn in_window(last: Sector, next: Sector, delta: u64) -> bool {
    last.0 <= next.0.saturating_add(delta / 2) && next.0 <= last.0.saturating_add(delta)
}

/// `window << steps`, saturating.
const fn widened(window: u64, steps: u64) -> u64 {
    if steps < window.leading_zeros() as u64 { window << steps } else { u64::MAX }
}

/// Whether `next` lies in a window around `last` of `window` sectors, doubled `steps` times.
pub(crate) const fn is_close(last: Sector, next: Sector, window: u64, steps: u64) -> bool {
    in_window(last, next, widened(window, steps))
}

/// The judgement of the versions without groups.
pub(crate) struct ByProcess {
    version: Version,
    pub(crate) ticks: Ticks,
    processes: Processes<History>,
    pub(crate) newcomers: Newcomers,
    serials: u64,
}

impl ByProcess {
    pub(crate) fn new(version: Version, ticks: Ticks) -> Self {
        Self { version, ticks, processes: Processes::default(), newcomers: Newcomers::default(), serials: 0 }
    }

    /// 2.6.9 has a record per task, 2.6.32 one per I/O context, which tasks may share.
    const fn key(&self, process: Process) -> u32 {
        match self.version {
            Version::V2_6_9 => process.task,
            Version::V2_6_32 => process.context,
        }
    }

    pub(crate) fn history(&self, slot: Slot) -> &History {
        &self.processes[slot]
    }

    pub(crate) fn history_mut(&mut self, slot: Slot) -> &mut History {
        &mut self.processes[slot]
    }

    pub(crate) fn find(&self, process: Process) -> Option<Slot> {
        self.processes.find(self.key(process))
    }

    pub(crate) fn is_running(&self, slot: Slot) -> bool {
        self.processes.is_running(slot)
    }

    /// Whether the process with that serial number, which had that slot, has not ended.
    pub(crate) fn is_alive(&self, slot: Slot, serial: u64) -> bool {
        self.processes[slot].serial == serial && self.processes.is_running(slot)
    }

    fn enter(&mut self, now: Jiffies, process: Process) -> Slot {
        let stale = now.saturating_sub(self.ticks.of(STALE));
        let slot = self.processes.enter(self.key(process), now, stale, drop);
        let history = &mut self.processes[slot];
        if history.serial == 0 {
            self.serials += 1;
            history.serial = self.serials;
        }
        slot
    }

    /// The limit on think times, in ticks.
    pub(crate) const fn max_thinktime(&self) -> Jiffies {
        self.ticks.of(MAX_THINKTIME).saturating_sub(1)
    }

    /// Adds a synchronous request at `start` to a process's history (`as_update_iohist`).
    fn update_iohist(&mut self, slot: Slot, now: Jiffies, start: Sector, end: Sector) {
        let history = self.processes[slot];
        if history.started || history.io_running {
            let thinking = history.io_running && history.nr_queued == 0;
            let ttime = if thinking { now.saturating_sub(history.last_end_request) } else { 0 };
            self.add_thinktime(slot, ttime.min(self.max_thinktime()));
            self.add_seek(slot, history.last_request_pos.distance(start));
        }
        let history = &mut self.processes[slot];
        history.last_request_pos = end;
        history.started = true;
    }

    fn add_thinktime(&mut self, slot: Slot, ttime: Jiffies) {
        let history = &mut self.processes[slot];
        if history.ttime.is_empty() {
            self.newcomers.ttime.add(ttime);
            self.newcomers.exit_prob.down();
        }
        history.ttime.add(ttime);
    }

    fn add_seek(&mut self, slot: Slot, sectors: u64) {
        let history = &mut self.processes[slot];
        if history.seek.is_empty() {
            self.newcomers.seek.add(sectors);
        }
        history.seek.add(sectors);
    }

    /// The awaited process has ended, or the time is over: if it was new, this counts for other new processes.
    pub(crate) fn note_exit(&mut self, slot: Slot) {
        if self.processes[slot].ttime.is_empty() {
            self.newcomers.exit_prob.up();
        }
    }

    /// The expected seek distance of the process's next request.
    pub(crate) fn expected_seek(&self, slot: Slot) -> u64 {
        let seek = self.processes[slot].seek;
        if seek.is_empty() { self.newcomers.seek.mean() } else { seek.mean() }
    }

    /// A close request of another process arrived: the think time is counted from here.
    pub(crate) fn restart_thinking(&mut self, slot: Slot, now: Jiffies) {
        self.processes[slot].last_end_request = now;
    }

    /// The window of 2.6.9 (`as_close_req`).
    fn is_close_2_6_9(&self, s: &Situation, request: &Queued) -> bool {
        let ms = self.ticks.span(s.delay()).as_nanos() / 1_000_000;
        let limit = CLOSE_LIMIT.as_nanos() / 1_000_000;
        ms > limit || is_close(s.last_sector, request.start, CLOSE_2_6_9, ms.saturating_sub(1))
    }

    /// The window of 2.6.32, or anything nearer than the process's expected seek (`as_close_req`).
    fn is_close_2_6_32(&self, s: &Situation, request: &Queued) -> bool {
        let delay = s.delay();
        delay > self.ticks.of(CLOSE_LIMIT).min(s.antic_expire)
            || is_close(s.last_sector, request.start, CLOSE_2_6_32, delay)
            || self.expected_seek(s.awaited.process) > s.last_sector.distance(request.start)
    }

    /// The rules of 2.6.9, in the order of the source.
    fn can_break_2_6_9(&mut self, s: &Situation, request: Option<&Queued>) -> Option<Break> {
        let awaited = s.awaited.process;
        if !self.processes.is_running(awaited) {
            self.note_exit(awaited);
            return Some(Break::Exited);
        }
        let history = self.processes[awaited];
        if history.nr_queued > 0 {
            return Some(Break::HasQueued);
        }
        if request.is_some_and(|r| r.kind == Kind::Sync && self.is_close_2_6_9(s, r)) {
            self.restart_thinking(awaited, s.now);
            return Some(Break::Close);
        }
        if history.ttime.is_empty() {
            if let Some(thoughtful) = self.newcomers.too_thoughtful(s.antic_expire) {
                return Some(thoughtful);
            }
            if self.newcomers.exit_prob.is_likely() {
                return Some(Break::NewcomersExit);
            }
        } else if history.ttime.mean() > s.antic_expire {
            return Some(Break::ThinksTooLong);
        }
        let distance = s.last_sector.distance(request?.start);
        (self.expected_seek(awaited) > distance).then_some(Break::ShorterSeek)
    }

    /// The rules from "something is queued" on.
    fn can_break_2_6_32(&mut self, s: &Situation, request: Option<&Queued>) -> Option<Break> {
        let awaited = s.awaited.process;
        if self.processes[awaited].nr_queued > 0 {
            return Some(Break::HasQueued);
        }
        let close = request.filter(|r| r.kind == Kind::Sync && self.is_close_2_6_32(s, r));
        let exited = !self.processes.is_running(awaited);
        if exited {
            self.note_exit(awaited);
        }
        if let Some(close) = close {
            if exited {
                self.newcomers.exit_no_coop.down();
            }
            self.update_iohist(awaited, s.now, close.start, close.end);
            return Some(Break::Close);
        }
        if exited && self.newcomers.exit_no_coop.is_likely() {
            return Some(Break::Exited);
        }
        self.thinks_too_long_2_6_32(awaited, s)
    }

    /// The rules about new processes and think times.
    fn thinks_too_long_2_6_32(&self, awaited: Slot, s: &Situation) -> Option<Break> {
        let ttime = self.processes[awaited].ttime;
        if !ttime.is_empty() {
            return (ttime.mean() > s.antic_expire).then_some(Break::ThinksTooLong);
        }
        let Newcomers { exit_prob, exit_no_coop, .. } = self.newcomers;
        let silent = exit_prob.get() * exit_no_coop.get() > ONE / 2 * ONE;
        self.newcomers.too_thoughtful(s.antic_expire).or(silent.then_some(Break::NewcomersExit))
    }
}

impl Judgement for ByProcess {
    fn arrived(&mut self, now: Jiffies, request: &Request) -> Option<Requester> {
        let slot = self.enter(now, request.process?);
        if request.is_sync() {
            self.update_iohist(slot, now, request.start, request.end());
        }
        self.processes[slot].nr_queued += 1;
        self.processes.pin(slot);
        Some(Requester { process: slot, group: None })
    }

    fn left_queue(&mut self, requester: Requester, _kind: Kind) {
        self.processes[requester.process].nr_queued -= 1;
    }

    fn completed(&mut self, now: Jiffies, requester: Requester, kind: Kind) {
        if kind == Kind::Sync {
            let history = &mut self.processes[requester.process];
            history.io_running = true;
            history.last_end_request = now;
        }
    }

    fn gone(&mut self, requester: Requester) {
        self.processes.unpin(requester.process);
    }

    fn awaits(&mut self, was: Option<Requester>, is: Option<Requester>) {
        if let Some(is) = is {
            self.processes.pin(is.process);
        }
        if let Some(was) = was {
            self.processes.unpin(was.process);
        }
    }

    /// An I/O context ends with the task that it was created for; other tasks that share it only leave it.
    fn exited(&mut self, process: Process) {
        if self.version == Version::V2_6_9 || process.context == process.task {
            self.processes.end(self.key(process));
        }
    }

    fn can_break(&mut self, s: &Situation, request: Option<&Queued>) -> Option<Break> {
        if request.and_then(|r| r.requester).is_some_and(|r| r.process == s.awaited.process) {
            return Some(Break::SameProcess);
        }
        if s.is_over() {
            return Some(Break::TimeOver);
        }
        match self.version {
            Version::V2_6_9 => self.can_break_2_6_9(s, request),
            Version::V2_6_32 => self.can_break_2_6_32(s, request),
        }
    }

    fn timed_out(&mut self, _now: Jiffies, awaited: Requester) {
        self.note_exit(awaited.process);
        if self.version == Version::V2_6_32 && !self.processes.is_running(awaited.process) {
            self.newcomers.exit_no_coop.up();
        }
    }

    fn is_awaited(&self, awaited: Requester, process: Process) -> bool {
        self.find(process) == Some(awaited.process)
    }

    fn hold_reason(&self, _awaited: Requester) -> HoldReason {
        HoldReason::AwaitProcess
    }
}
