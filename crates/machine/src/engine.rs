//! The machine: processes that run in virtual time, one event after the other.

mod alarms;
mod calls;
mod company;
mod failure;
mod process;
mod results;
mod setup;

use std::collections::{BTreeMap, HashMap, VecDeque};

use elevator::queue::{Accepted, Finished, Notice, Submission, SwitchMode, SwitchReport, Token};
use elevator::{Process, Scheduler, Span, Time, cold_path};

use crate::array::{Array, ArraySetup};
use crate::block::Block;
use crate::kernel::{Kernel, TaskId};
use crate::limit::Witness;
use crate::measure::Book;
use crate::program::{Await, Io, Meeting, Next, Program, Who};
use crate::storage::{Storage, sooner};

use self::alarms::Alarms;
use self::calls::Turn;
pub use self::failure::Failure;
use self::process::{Blocked, Running};
pub use self::setup::{Setup, Stop};

/// A submission on its way, and whose it is.
#[derive(Clone, Copy)]
enum Outstanding {
    /// A program's own.
    Process { process: usize, number: u64, io: Io },
    /// The kernel's, under its own number, submitted by this task.
    Kernel { task: TaskId, bio: u64 },
}

/// Processes, a queue and a drive, in virtual time.
pub struct Machine {
    storage: Storage,
    now: Time,
    processes: Vec<Running>,
    alarms: Alarms,
    meetings: BTreeMap<u32, Vec<usize>>,
    /// Somebody came to a meeting at this instant and waits there.
    met: bool,
    /// Who has come to a meeting with processes of other machines, until the cluster knows it.
    gathering: VecDeque<(Meeting, usize)>,
    outstanding: Vec<Outstanding>,
    free_tokens: Vec<u64>,
    runnable: Vec<Turn>,
    /// Processes that have not ended.
    live: usize,
    /// Of these, how many go by one name in the block layer: to it, the last to end is the process's end.
    namesakes: HashMap<Process, u32>,
    book: Book,
    witness: Option<Witness>,
    cut: bool,
    kernel: Option<Kernel>,
    /// The scheduler works above the block layer, too.
    splits: bool,
    /// Kept for the kernel's tasks that may go on.
    woken: Vec<TaskId>,
    /// When something last happened that was not the kernel's own alarm.
    active: Time,
    failure: Option<Failure>,
}

impl Machine {
    /// A machine with no processes yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let Setup { options, scheduler, drive, observer } = setup;
        Self::on(Storage::Disk(Block::new(options, scheduler, drive, observer)))
    }

    /// A machine with an array of disks and no processes yet.
    #[must_use]
    pub fn with_array(setup: ArraySetup) -> Self {
        Self::on(Storage::Array(Array::new(setup)))
    }

    fn on(storage: Storage) -> Self {
        Self {
            storage,
            now: Time::ZERO,
            processes: Vec::new(),
            alarms: Alarms::default(),
            meetings: BTreeMap::new(),
            met: false,
            gathering: VecDeque::new(),
            outstanding: Vec::new(),
            free_tokens: Vec::new(),
            runnable: Vec::new(),
            live: 0,
            namesakes: HashMap::new(),
            book: Book::default(),
            witness: None,
            cut: false,
            kernel: None,
            splits: false,
            woken: Vec::new(),
            active: Time::ZERO,
            failure: None,
        }
    }

    /// Also writes down what each process asked for and how long it thought, for the physical limit.
    pub fn witness(&mut self) {
        self.witness = Some(Witness::default());
    }

    /// Starts a process.
    pub fn start(&mut self, who: Who, program: Box<dyn Program>) {
        self.spawn(None, who, program);
    }

    fn spawn(&mut self, parent: Option<usize>, who: Who, program: Box<dyn Program>) {
        let index = self.processes.len();
        self.book.started(index, &who.name, self.now);
        if let Some(name) = who.process {
            *self.namesakes.entry(name).or_default() += 1;
        }
        self.processes.push(Running {
            who,
            program,
            parent,
            children: 0,
            blocked: Blocked::No,
            submitted: 0,
            outstanding: Vec::new(),
            call: None,
        });
        if let Some(kernel) = &mut self.kernel {
            let who = &self.processes[index].who;
            kernel.born(index, who.process, who.priority);
        }
        self.live += 1;
        self.runnable.push(Turn::Process(index));
    }

    /// Another scheduler takes over at `at`, or now if that has passed. Between two runs, of which the first was stopped at
    /// that time. The report is of a switch that was done at once; one that drains reports to the observer when it is done.
    ///
    /// # Panics
    /// If below is an array, or if either scheduler works above the block layer: neither can be switched.
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

    /// Runs until every process has ended and everything that they asked of the device themselves is finished, or until
    /// told to stop; then it can be run on. What a kernel still has to write is not waited for.
    ///
    /// # Errors
    /// [`Failure::Deadlock`] if processes wait for what cannot come; [`Failure::Call`] and [`Failure::NoKernel`] for calls;
    /// [`Failure::Scheduler`] if a scheduler was faulty; [`Failure::NoHooks`] if the scheduler works above the block layer and there is no kernel.
    pub fn run(&mut self, stop: Stop) -> Result<(), Failure> {
        self.begin()?;
        let mut events = 0u32;
        while let Some(at) = self.next_event() {
            events = events.wrapping_add(1);
            if stop.is_before(at)? || (events.is_multiple_of(4096) && stop.is_asked()) {
                self.cut = true;
                return self.check_schedulers();
            }
            self.go_to(at)?;
        }
        self.stuck()
    }

    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        self.cut = false;
        self.connect_policy()?;
        self.settle();
        Ok(())
    }

    /// Does everything that happens at this instant.
    #[inline]
    pub(crate) fn go_to(&mut self, at: Time) -> Result<(), Failure> {
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

    pub(crate) fn stuck(&mut self) -> Result<(), Failure> {
        self.failed()?;
        self.check_schedulers()?;
        let waiting = self.processes.iter().filter(|p| p.blocked != Blocked::Ended);
        let waiting: Vec<String> = waiting.map(|process| process.who.name.clone()).collect();
        if waiting.is_empty() { Ok(()) } else { Err(Failure::Deadlock { waiting }) }
    }

    fn check_schedulers(&mut self) -> Result<(), Failure> {
        let fault = self.storage.meters().into_iter().find_map(|meter| meter.fault);
        fault.map_or(Ok(()), |fault| Err(Failure::Scheduler(fault)))
    }

    /// When something happens next. A kernel's own alarms go on for ever, so they count only while a process can gain by
    /// them.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Time> {
        let outside = sooner(self.alarms.next(), self.storage.next_event());
        let outside = if self.splits {
            cold_path();
            sooner(outside, self.policy_alarm())
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

    /// Feeds the device, runs whoever can run, and hears what it finished, until nothing more happens at this instant.
    ///
    /// The device comes first: a kernel that hears of a completion asks the scheduler for the next request before the
    /// process that waited is running again. That order is the whole of deceptive idleness; the other way round, a process
    /// with no think time would always be in time with its next request.
    #[inline]
    fn settle(&mut self) {
        self.storage.pump(self.now);
        self.hear();
        // A policy above the block layer may have done something in hearing.
        let mut stirred = self.splits || !self.runnable.is_empty();
        while stirred {
            self.take_turns();
            self.storage.pump(self.now);
            self.hear();
            stirred = !self.runnable.is_empty();
        }
        if std::mem::take(&mut self.met) {
            cold_path();
            self.notice_standstill();
        }
    }

    /// Runs whoever can run until nobody can: those who are there, then those whom that has woken.
    fn take_turns(&mut self) {
        let mut taken = 0;
        while taken < self.runnable.len() {
            let round = taken..self.runnable.len();
            taken = round.end;
            for turn in round {
                self.take_turn(self.runnable[turn]);
            }
            self.hear();
        }
        self.runnable.clear();
    }

    /// Whether all who could still come to a meeting wait at one, or for children that do: those who run beside them would
    /// otherwise keep the machine busy for ever.
    fn notice_standstill(&mut self) {
        let counts = |p: &&Running| p.blocked != Blocked::Ended && !p.program.is_beside();
        let waits = |p: &Running| matches!(p.blocked, Blocked::Meeting | Blocked::Children);
        let mut counted = self.processes.iter().filter(counts);
        if counted.clone().all(waits) && counted.any(|p| p.blocked == Blocked::Meeting) {
            let waiting = self.processes.iter().filter(counts).map(|p| p.who.name.clone()).collect();
            self.failure.get_or_insert(Failure::Deadlock { waiting });
        }
    }

    #[inline]
    fn hear(&mut self) {
        if self.storage.has_notice() {
            self.hear_from_below();
        }
        self.hear_kernel();
    }

    // Most often there is nothing to hear, and finding that out is all that stands in line.
    #[inline(never)]
    fn hear_from_below(&mut self) {
        while let Some(notice) = self.storage.notice() {
            self.heard(&notice);
        }
    }

    #[inline]
    fn heard(&mut self, notice: &Notice) {
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
            Outstanding::Process { process, number, io } => {
                self.book.finished(process, &io, finished, self.now);
                let running = &mut self.processes[process];
                running.ended(number);
                if let Blocked::On(what) = running.blocked
                    && running.is_satisfied(what)
                {
                    running.blocked = Blocked::No;
                    self.runnable.push(Turn::Process(process));
                }
            }
            Outstanding::Kernel { bio, .. } => self.kernel_finished(bio, finished.outcome),
        }
    }

    /// Runs a process until it has to wait.
    fn go_on(&mut self, process: usize) {
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
    }

    /// Does one step; whether the process can go on at once.
    #[inline]
    fn step(&mut self, process: usize, next: Next) -> bool {
        match next {
            Next::Submit(io) => return self.submit(process, io),
            Next::Await(what) => return self.await_own(process, what),
            Next::Call(call) => return self.call(process, call),
            Next::Think(span) => self.think(process, span),
            Next::Until(at) if at <= self.now => return true,
            Next::Until(at) => self.sleep_until(process, at),
            Next::Meet(meeting) => return self.meet(process, meeting),
            Next::Gather(meeting) => self.gather(process, meeting),
            Next::Spawn(who, program) => {
                self.acts(process);
                self.processes[process].children += 1;
                self.spawn(Some(process), who, program);
                return true;
            }
            Next::AwaitChildren if self.processes[process].children == 0 => return true,
            Next::AwaitChildren => self.processes[process].blocked = Blocked::Children,
            Next::Exit => self.leave(process),
        }
        false
    }

    /// A process does something with others, or with a kernel.
    fn acts(&mut self, process: usize) {
        if let Some(witness) = &mut self.witness {
            cold_path();
            witness.acted(process);
        }
    }

    fn await_own(&mut self, process: usize, what: Await) -> bool {
        let running = &mut self.processes[process];
        if let Some(witness) = &mut self.witness
            && running.waits_for_all(what)
        {
            witness.awaited(process);
        }
        let satisfied = running.is_satisfied(what);
        if !satisfied {
            running.blocked = Blocked::On(what);
        }
        satisfied
    }

    fn think(&mut self, process: usize, span: Span) {
        if let Some(witness) = &mut self.witness {
            cold_path();
            let some_unfinished = !self.processes[process].outstanding.is_empty();
            witness.thought(process, span, some_unfinished);
        }
        self.alarms.set(self.now + span, process);
    }

    #[inline]
    fn sleep_until(&mut self, process: usize, at: Time) {
        if let Some(witness) = &mut self.witness {
            cold_path();
            witness.slept_until(process, at);
        }
        self.alarms.set(at, process);
    }

    fn submit(&mut self, process: usize, io: Io) -> bool {
        let running = &mut self.processes[process];
        let number = running.submitted;
        running.submitted += 1;
        running.outstanding.push(number);
        if let Some(witness) = &mut self.witness {
            cold_path();
            witness.asked(process, &io, running.outstanding.len() > 1);
        }
        let who = &running.who;
        let (priority, name) = (who.priority, who.process);
        let submission = Submission {
            token: self.token(Outstanding::Process { process, number, io }),
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

    /// A name for a submission until it is finished.
    fn token(&mut self, outstanding: Outstanding) -> Token {
        let token = self.free_tokens.pop().unwrap_or(self.outstanding.len() as u64);
        match self.outstanding.get_mut(token as usize) {
            Some(slot) => *slot = outstanding,
            None => self.outstanding.push(outstanding),
        }
        Token(token)
    }

    #[inline(never)]
    fn meet(&mut self, process: usize, meeting: Meeting) -> bool {
        self.acts(process);
        let present = self.meetings.entry(meeting.name).or_default();
        if present.len() + 1 < meeting.members as usize {
            present.push(process);
            self.processes[process].blocked = Blocked::Meeting;
            self.met = true;
            return false;
        }
        self.runnable.extend(present.drain(..).map(Turn::Process));
        true
    }

    /// One of those that go by this name has ended; whether it was the last.
    fn is_last_of(&mut self, name: Process) -> bool {
        let Some(count) = self.namesakes.get_mut(&name) else { return true };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.namesakes.remove(&name);
        }
        last
    }

    fn exit(&mut self, process: usize) {
        let running = &mut self.processes[process];
        running.blocked = Blocked::Ended;
        self.live -= 1;
        self.book.ended(process, self.now);
        if let Some(name) = running.who.process
            && self.is_last_of(name)
        {
            self.storage.exited(self.now, name);
        }
        if let Some(parent) = self.processes[process].parent {
            let parent_running = &mut self.processes[parent];
            parent_running.children -= 1;
            if parent_running.children == 0 && parent_running.blocked == Blocked::Children {
                self.runnable.push(Turn::Process(parent));
            }
        }
    }
}
