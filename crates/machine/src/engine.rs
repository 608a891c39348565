//! The engine: executes processes in virtual time, one event after the other.

mod barriers;
mod calls;

mod failure;
mod process;
mod results;
mod setup;
mod table;

use std::collections::{BTreeMap, HashMap, VecDeque};

use elevator::queue::{Accepted, Finished, Notice, Submission, SwitchMode, SwitchReport, Token};
use elevator::{Priority, Process, Scheduler, Span, Time, cold_path};

use crate::alarms::{Alarms, earlier};
use crate::array::{Array, ArraySetup};
use crate::block::Block;
use crate::kernel::{Kernel, TaskId};
use crate::limit::LimitRecorder;
use crate::measure::ProcessStats;
use crate::program::{Await, Barrier, Io, Next, Program, Source, Submitter};
use crate::storage::Storage;

pub use self::failure::Failure;
use self::process::{Blocked, Running, Turn};
pub use self::setup::{Setup, Stop};
use self::table::Table;

/// The submitter of an unfinished submission.
#[derive(Clone, Copy)]
enum Outstanding {
    /// A program; the request's latency begins at `since`.
    Process { process: usize, number: u64, io: Io, since: Time },
    /// The kernel: `bio` is the kernel's number of the submission, `task` submitted it.
    Kernel { task: TaskId, bio: u64 },
}

/// Turns for which memory is kept.
const RUNNABLE_KEPT: usize = 4096;

/// Processes, a queue and a drive, in virtual time.
pub struct Machine {
    storage: Storage,
    now: Time,
    processes: Table,
    alarms: Alarms,
    barriers: BTreeMap<u32, Vec<usize>>,
    /// A process arrived at a barrier at this instant and waits there.
    barrier_reached: bool,
    /// Arrivals at barriers across machines that the cluster has not taken yet.
    cluster_arrivals: VecDeque<(Barrier, usize)>,
    outstanding: Vec<Outstanding>,
    free_tokens: Vec<u64>,
    runnable: Vec<Turn>,
    /// Number of processes that have not ended.
    live: usize,
    /// The same by identity in the block layer. The scheduler learns of an exit when the last process of an identity ends.
    processes_by_identity: HashMap<Process, u32>,
    stats: ProcessStats,
    limit_recorder: Option<LimitRecorder>,
    cut: bool,
    kernel: Option<Kernel>,
    /// The scheduler is a split-level policy.
    splits: bool,
    /// Buffer for woken tasks, kept for its allocation.
    woken: Vec<TaskId>,
    /// The time of the last event other than an alarm of the kernel.
    active: Time,
    failure: Option<Failure>,
}

impl Machine {
    /// A machine without processes.
    pub fn new(setup: Setup) -> Self {
        let Setup { options, scheduler, drive, observer } = setup;
        Self::on(Storage::Disk(Block::new(options, scheduler, drive, observer)))
    }

    /// A machine without processes, on an array of disks.
    pub fn with_array(setup: ArraySetup) -> Self {
        Self::on(Storage::Array(Array::new(setup)))
    }

    fn on(storage: Storage) -> Self {
        Self {
            storage,
            now: Time::ZERO,
            processes: Table::default(),
            alarms: Alarms::default(),
            barriers: BTreeMap::new(),
            barrier_reached: false,
            cluster_arrivals: VecDeque::new(),
            outstanding: Vec::new(),
            free_tokens: Vec::new(),
            runnable: Vec::new(),
            live: 0,
            processes_by_identity: HashMap::new(),
            stats: ProcessStats::default(),
            limit_recorder: None,
            cut: false,
            kernel: None,
            splits: false,
            woken: Vec::new(),
            active: Time::ZERO,
            failure: None,
        }
    }

    /// Also records requests and think times, from which [`limit`](Self::limit) computes the physical limit.
    pub fn record_limit(&mut self) {
        let mut limit_recorder = LimitRecorder::new(self.storage.interface());
        for index in (0..self.processes.len()).filter(|&index| self.processes.is_grouped(index)) {
            limit_recorder.group(index);
        }
        self.limit_recorder = Some(limit_recorder);
    }

    /// Starts a process.
    pub fn start(&mut self, who: Submitter, program: Box<dyn Program>) {
        self.spawn(None, who, program);
    }

    /// Starts the processes of a source.
    ///
    /// # Panics
    /// The machine has a source already.
    pub fn start_all(&mut self, source: Box<dyn Source>) {
        let first = self.processes.len();
        for number in 0..source.count() {
            let (process, priority) = source.identity(number);
            self.begin_process(first + number, source.name(number), process, priority);
            if let Some(limit_recorder) = &mut self.limit_recorder
                && source.is_grouped(number)
            {
                limit_recorder.group(first + number);
            }
        }
        self.processes.add(source);
    }

    fn spawn(&mut self, parent: Option<usize>, who: Submitter, program: Box<dyn Program>) {
        let Submitter { process, priority, name } = who;
        self.begin_process(self.processes.len(), &name, process, priority);
        self.processes.push(Running::new(process, priority, program, parent));
    }

    fn begin_process(&mut self, index: usize, name: &str, process: Option<Process>, priority: Priority) {
        self.stats.started(index, name, self.now);
        if let Some(process) = process {
            *self.processes_by_identity.entry(process).or_default() += 1;
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.process_started(index, process, priority);
        }
        self.live += 1;
        self.runnable.push(Turn::Process(index));
    }

    /// Replaces the scheduler at `at`, or now if `at` has passed. Call it between two runs, the first of which stopped at
    /// `at`. Returns the report if the switch is complete; a draining switch reports to the observer later.
    ///
    /// # Panics
    /// On an array, and if either scheduler is a split-level policy: neither can be switched.
    pub fn switch(
        &mut self,
        at: Time,
        mut scheduler: Box<dyn Scheduler>,
        mode: SwitchMode,
    ) -> Option<SwitchReport> {
        assert!(
            !self.splits && scheduler.split().is_none(),
            "a policy above the block layer is not switched"
        );
        self.now = self.now.max(at);
        self.storage.queue().expect("one disk behind one queue").switch(self.now, scheduler, mode)
    }

    /// Runs until every process has ended and its own submissions are finished, or until `stop`; a stopped run can be
    /// continued. Pending writeback of the kernel is not waited for.
    ///
    /// # Errors
    /// [`Failure::Scheduler`] if the scheduler is faulty; [`Failure::Deadlock`] if processes wait for events that cannot happen; [`Failure::Call`] and [`Failure::NoKernel`] for
    /// system calls; [`Failure::NoHooks`] if the scheduler is a split-level policy and there is no kernel.
    pub fn run(&mut self, stop: Stop) -> Result<(), Failure> {
        self.begin()?;
        let mut events = 0u32;
        while let Some(at) = self.next_event() {
            events = events.wrapping_add(1);
            if stop.is_before(at)? || (events.is_multiple_of(4096) && stop.is_asked()) {
                self.cut = true;
                return self.check_schedulers();
            }
            self.advance_to(at)?;
        }
        self.check_finished()
    }

    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        self.cut = false;
        self.connect_policy()?;
        self.settle();
        Ok(())
    }

    /// Processes all events of an instant.
    #[inline]
    pub(crate) fn advance_to(&mut self, at: Time) -> Result<(), Failure> {
        self.now = self.now.max(at);
        self.wake_sleepers();
        self.storage.collect(self.now);
        self.settle();
        if self.failure.is_some() { self.failed() } else { Ok(()) }
    }

    #[cold]
    fn failed(&mut self) -> Result<(), Failure> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn check_schedulers(&mut self) -> Result<(), Failure> {
        let fault = self.storage.device_stats().into_iter().find_map(|stats| stats.fault);
        fault.map_or(Ok(()), |fault| Err(Failure::Scheduler(fault)))
    }

    pub(crate) fn check_finished(&mut self) -> Result<(), Failure> {
        self.failed()?;
        self.check_schedulers()?;
        let waiting = self.processes.active().map(|(index, _)| self.stats.name(index).to_owned());
        let waiting: Vec<String> = waiting.collect();
        if waiting.is_empty() { Ok(()) } else { Err(Failure::Deadlock { waiting }) }
    }

    /// The time of the next event. The kernel sets alarms for ever, so they count only while a process may depend on them.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Time> {
        let outside = earlier(self.alarms.next(), self.storage.next_event());
        let outside = if self.splits {
            cold_path();
            earlier(outside, self.policy_alarm())
        } else {
            outside
        };
        self.with_kernel_alarm(outside)
    }

    #[inline]
    fn wake_sleepers(&mut self) {
        while let Some(process) = self.alarms.due(self.now) {
            self.runnable.push(Turn::Process(process));
        }
        self.advance_kernel();
    }

    /// Dispatches to the device, runs ready processes and handles completions, until nothing more happens at this instant.
    ///
    /// The device comes first: on a completion a kernel asks the scheduler for the next request before the waiting process
    /// runs again. This order causes deceptive idleness; in the other order a process without think time would always submit
    /// its next request in time.
    #[inline]
    fn settle(&mut self) {
        self.storage.pump(self.now);
        self.handle_notices();
        // A split-level policy may have acted while it was notified.
        let mut changed = self.splits || !self.runnable.is_empty();
        while changed {
            self.take_turns();
            self.storage.pump(self.now);
            self.handle_notices();
            changed = !self.runnable.is_empty();
        }
        if std::mem::take(&mut self.barrier_reached) {
            cold_path();
            self.detect_deadlock();
        }
    }

    /// Runs ready processes, and those that they wake, until none is ready.
    fn take_turns(&mut self) {
        let mut taken = 0;
        while taken < self.runnable.len() {
            let round = taken..self.runnable.len();
            taken = round.end;
            for turn in round {
                self.take_turn(self.runnable[turn]);
            }
            self.handle_notices();
        }
        self.runnable.clear();
        // At the start there is one turn for each process.
        if self.runnable.capacity() > RUNNABLE_KEPT {
            cold_path();
            self.runnable.shrink_to(RUNNABLE_KEPT);
        }
    }

    #[inline]
    fn handle_notices(&mut self) {
        if self.storage.has_notice() {
            self.handle_storage_notices();
        }
        self.schedule_woken_tasks();
    }

    // Usually there is no notice, so only the check is inlined.
    #[inline(never)]
    fn handle_storage_notices(&mut self) {
        while let Some(notice) = self.storage.notice() {
            self.handle_notice(&notice);
        }
    }

    #[inline]
    fn handle_notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Woken(token) => match self.outstanding[token.0 as usize] {
                Outstanding::Process { process, .. } => {
                    if self.processes[process].blocked == Blocked::Asleep {
                        self.runnable.push(Turn::Process(process));
                    }
                }
                Outstanding::Kernel { task, .. } => self.runnable.push(Turn::of(task)),
            },
            Notice::Finished(finished) => self.finished(finished),
        }
    }

    #[inline]
    fn finished(&mut self, finished: &Finished) {
        self.free_tokens.push(finished.token.0);
        match self.outstanding[finished.token.0 as usize] {
            Outstanding::Process { process, number, io, since } => {
                self.stats.finished(process, &io, finished.outcome, since, self.now);
                let running = &mut self.processes[process];
                running.ended(number);
                if let Blocked::On(what) = running.blocked
                    && running.is_satisfied(what)
                {
                    running.blocked = Blocked::No;
                    self.runnable.push(Turn::Process(process));
                } else {
                    self.processes.put_away(process);
                }
            }
            Outstanding::Kernel { bio, .. } => self.kernel_finished(bio, finished.outcome),
        }
    }

    /// Runs a process until it blocks.
    fn run_process(&mut self, process: usize) {
        self.processes.wake(process);
        self.storage.plug();
        let mut goes_on = self.resume_call(process);
        while goes_on {
            let running = &mut self.processes[process];
            running.blocked = Blocked::No;
            let next = running.program.next(self.now);
            goes_on = self.step(process, next) && self.failure.is_none();
        }
        let waits =
            matches!(self.processes[process].blocked, Blocked::On(_) | Blocked::Asleep | Blocked::Call);
        self.storage.unplug(self.now, waits);
        self.processes.put_away(process);
    }

    /// Executes one step; returns whether the process can continue at once.
    #[inline]
    fn step(&mut self, process: usize, next: Next) -> bool {
        match next {
            Next::Submit(io) => return self.submit(process, io, self.now),
            Next::Arrive(io, at) => return self.submit(process, io, at.min(self.now)),
            Next::Await(what) => return self.await_own(process, what),
            Next::Call(call) => return self.call(process, call),
            Next::Think(span) => self.think(process, span),
            Next::Until(at) => return self.sleep_until(process, at),
            Next::Barrier(barrier) => return self.meet(process, barrier),
            Next::ClusterBarrier(barrier) => self.gather(process, barrier),
            Next::Spawn(who, program) => {
                self.record_interaction(process);
                if let Some(limit_recorder) = &mut self.limit_recorder {
                    limit_recorder.spawned(process, self.processes.len());
                }
                self.processes[process].children += 1;
                self.spawn(Some(process), who, program);
                return true;
            }
            Next::AwaitChildren => return self.await_children(process),
            Next::Exit => self.leave(process),
        }
        false
    }

    /// Records that a process interacted with another process or with the kernel.
    fn record_interaction(&mut self, process: usize) {
        if let Some(limit_recorder) = &mut self.limit_recorder {
            cold_path();
            limit_recorder.acted(process);
        }
    }

    fn await_children(&mut self, process: usize) -> bool {
        if let Some(limit_recorder) = &mut self.limit_recorder {
            limit_recorder.joins(process);
        }
        let has_none = self.processes[process].children == 0;
        if !has_none {
            self.processes[process].blocked = Blocked::Children;
        }
        has_none
    }

    fn await_own(&mut self, process: usize, what: Await) -> bool {
        let running = &mut self.processes[process];
        if let Some(limit_recorder) = &mut self.limit_recorder {
            limit_recorder.waits(process, what);
            if running.waits_for_all(what) {
                limit_recorder.awaited(process);
            }
        }
        let satisfied = running.is_satisfied(what);
        if !satisfied {
            running.blocked = Blocked::On(what);
        }
        satisfied
    }

    fn think(&mut self, process: usize, span: Span) {
        if let Some(limit_recorder) = &mut self.limit_recorder {
            cold_path();
            let some_unfinished = !self.processes[process].outstanding.is_empty();
            limit_recorder.thought(process, span, some_unfinished);
        }
        self.alarms.set(self.now + span, process);
    }

    /// Returns whether the time has passed.
    #[inline]
    fn sleep_until(&mut self, process: usize, at: Time) -> bool {
        let has_passed = at <= self.now;
        if let Some(limit_recorder) = &mut self.limit_recorder {
            cold_path();
            limit_recorder.continues_at(process, at);
            if !has_passed {
                limit_recorder.slept_until(process, at);
            }
        }
        if !has_passed {
            self.alarms.set(at, process);
        }
        has_passed
    }

    /// Submits a request of which the latency begins at `since`.
    fn submit(&mut self, process: usize, io: Io, since: Time) -> bool {
        let running = &mut self.processes[process];
        let number = running.submitted;
        running.submitted += 1;
        running.outstanding.push(number);
        if let Some(limit_recorder) = &mut self.limit_recorder {
            cold_path();
            if limit_recorder.asked(process, number, &io, running.outstanding.len() > 1) {
                self.storage.fold(limit_recorder);
            }
        }
        let (priority, name) = (running.priority, running.process);
        let submission = Submission {
            token: self.token(Outstanding::Process { process, number, io, since }),
            op: io.op,
            start: io.start,
            sectors: io.sectors,
            flags: io.flags,
            priority,
            process: name,
            causes: None,
        };
        match self.storage.submit(self.now, submission) {
            Accepted::Queued => true,
            Accepted::Asleep => {
                self.processes[process].blocked = Blocked::Asleep;
                false
            }
        }
    }

    /// Allocates a token for a submission.
    fn token(&mut self, outstanding: Outstanding) -> Token {
        let token = self.free_tokens.pop().unwrap_or(self.outstanding.len() as u64);
        match self.outstanding.get_mut(token as usize) {
            Some(slot) => *slot = outstanding,
            None => self.outstanding.push(outstanding),
        }
        Token(token)
    }

    /// Counts the end of a process of this identity; returns whether it was the last one.
    fn is_last_of(&mut self, name: Process) -> bool {
        let Some(count) = self.processes_by_identity.get_mut(&name) else { return true };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.processes_by_identity.remove(&name);
        }
        last
    }

    fn exit(&mut self, process: usize) {
        let running = &mut self.processes[process];
        running.blocked = Blocked::Ended;
        self.live -= 1;
        self.stats.ended(process, self.now);
        if let Some(name) = running.process
            && self.is_last_of(name)
        {
            self.storage.exited(self.now, name);
        }
        if let Some(parent) = self.processes[process].parent {
            let parent_running = &mut self.processes[parent];
            parent_running.children -= 1;
            if let Some(limit_recorder) = &mut self.limit_recorder {
                limit_recorder.child_ended(parent, process);
            }
            if parent_running.children == 0 && parent_running.blocked == Blocked::Children {
                self.runnable.push(Turn::Process(parent));
            }
        }
    }
}
