//! A model of the layers above the block layer drives every split policy: calls enter and return, pages are dirtied by one or several
//! processes, submitted and discarded, in random order.

mod endurance;

use std::collections::BTreeMap;
use std::hash::Hasher;

use dwell_schedulers::{Environment, Listing, Spec, registry};
use elevator::Random;
use elevator::queue::{Options, Queue, Step, Submission, Token};
use elevator::split::{Account, Action, CallId, CallKind, File, Page, SystemCall, Terms, Verdict};
use elevator::{CauseSet, Flags, Op, Outcome, Priority, Process, Sector, Sectors, Span, Time};
use endurance::{about, each, from_environment};
use fnv::FnvHasher;

const ACCOUNTS: u32 = 5;
const FILES: u64 = 4;
const PAGES: u64 = 3_000;
/// Processes per account. A process makes one call at a time.
const PROCESSES: usize = 40;

struct Machine {
    queue: Queue,
    random: Random,
    now: Time,
    calls: u32,
    held: BTreeMap<CallId, SystemCall>,
    running: Vec<SystemCall>,
    sets: Vec<Vec<Account>>,
    dirty: BTreeMap<(u64, u64), CauseSet>,
    in_flight: Vec<elevator::queue::Ticket>,
    alarm: Option<Time>,
    digest: FnvHasher,
    admitted: u64,
}

/// The first sets are the single accounts; every pair of accounts follows.
fn sets() -> Vec<Vec<Account>> {
    let alone = (0..ACCOUNTS).map(|a| vec![Account(a)]);
    let pairs = (0..ACCOUNTS).flat_map(|a| (0..a).map(move |b| vec![Account(b), Account(a)]));
    alone.chain(pairs).collect()
}

fn page(file: u64, number: u64) -> Page {
    Page { file: File(file), offset: number * 4096, bytes: 4096 }
}

impl Machine {
    fn new(spec: &Spec, seed: u64) -> Self {
        let scheduler = spec.build(&Environment::default()).unwrap();
        let mut queue = Queue::new(Options { depth: 4, ..Options::default() }, scheduler);
        let split = queue.split().expect("a split policy");
        for account in 0..ACCOUNTS {
            let terms = Terms {
                priority: Priority { level: (account % 8) as u8, ..Priority::default() },
                rate: [None, Some(30_000_000), None, Some(20_000), None][account as usize],
                fsync_deadline: (account == 2).then(|| Span::from_millis(100)),
                has_ended: false,
            };
            split.account(Time::ZERO, Account(account), terms);
        }
        for (set, members) in (0..).zip(sets()) {
            split.causes(CauseSet(set), &members);
        }
        Self {
            queue,
            random: Random::new(seed),
            now: Time::ZERO,
            calls: 0,
            held: BTreeMap::new(),
            running: Vec::new(),
            sets: sets(),
            dirty: BTreeMap::new(),
            in_flight: Vec::new(),
            alarm: None,
            digest: FnvHasher::default(),
            admitted: 0,
        }
    }

    fn note(&mut self, what: u64) {
        self.digest.write(&what.to_le_bytes());
    }

    fn enters(&mut self) {
        let account = Account(self.random.below(u64::from(ACCOUNTS)) as u32);
        let calls = self.held.values().chain(&self.running);
        if calls.filter(|call| call.account == account).count() == PROCESSES {
            return;
        }
        let file = File(self.random.below(FILES));
        let kind = match self.random.below(8) {
            0 => CallKind::Fsync { file },
            1 => CallKind::Create,
            2 => CallKind::Mkdir,
            3 => CallKind::Read { bytes: 4096 },
            _ => CallKind::Write { file, bytes: 4096 },
        };
        let call = SystemCall { id: CallId(self.calls), account, kind };
        self.calls += 1;
        match self.queue.split().unwrap().entered(self.now, &call) {
            Verdict::Proceed => self.running.push(call),
            Verdict::Hold => assert!(self.held.insert(call.id, call).is_none()),
        }
    }

    /// A call goes on although it is held.
    fn goes_on(&mut self) {
        if !self.held.is_empty() {
            let nth = self.random.below(self.held.len() as u64) as usize;
            let call = *self.held.values().nth(nth).unwrap();
            self.held.remove(&call.id);
            self.queue.split().unwrap().returned(self.now, &call);
        }
    }

    fn returns(&mut self) {
        if !self.running.is_empty() {
            let nth = self.random.below(self.running.len() as u64) as usize;
            let call = self.running.swap_remove(nth);
            self.queue.split().unwrap().returned(self.now, &call);
        }
    }

    /// Dirties a page on behalf of an account that has a process that is not held.
    fn dirties(&mut self) {
        let (file, number) = (self.random.below(FILES), self.random.below(PAGES));
        let nth = self.random.below(self.sets.len() as u64) as usize;
        if !self.running.iter().any(|call| self.sets[nth].contains(&call.account)) {
            return;
        }
        let set = CauseSet(nth as u32);
        let before = self.dirty.insert((file, number), set);
        self.queue.split().unwrap().dirtied(self.now, &page(file, number), set, before);
    }

    /// Submits or discards a dirty page: the first of this file, or of any.
    fn cleans(&mut self, file: Option<u64>, throw_away: bool) -> bool {
        let files = file.map_or(0..=u64::MAX, |file| file..=file);
        let mut pages = self.dirty.range((*files.start(), 0)..=(*files.end(), u64::MAX));
        let Some((&(file, number), _)) = pages.next() else { return false };
        let set = self.dirty.remove(&(file, number)).unwrap();
        let split = self.queue.split().unwrap();
        if throw_away {
            split.freed(self.now, &page(file, number), set);
            return true;
        }
        split.submitted(self.now, &page(file, number), set);
        self.submit(Op::Write, file * 10_000_000 + number * 8, set);
        true
    }

    fn submit(&mut self, op: Op, start: u64, set: CauseSet) {
        let submission = Submission {
            token: Token(0),
            op,
            start: Sector(start),
            sectors: Sectors(8),
            flags: Flags { sync: self.random.below(3) == 0, ..Flags::default() },
            priority: Priority::default(),
            process: Some(Process::single(set.0 % ACCOUNTS)),
            causes: Some(set),
        };
        let _ = self.queue.submit(self.now, submission);
    }

    fn reads(&mut self) {
        let set = self.random.below(u64::from(ACCOUNTS)) as u32;
        let start = self.random.below(100_000_000);
        self.submit(Op::Read, start, CauseSet(set));
    }

    fn completes(&mut self) {
        if !self.in_flight.is_empty() {
            let nth = self.random.below(self.in_flight.len() as u64) as usize;
            let ticket = self.in_flight.swap_remove(nth);
            self.queue.complete(self.now, ticket, Outcome::Done);
        }
    }

    /// The host's work after every event: fills the device and executes the policy's actions.
    fn settle(&mut self) {
        self.alarm = None;
        loop {
            match self.queue.next(self.now, None) {
                Step::Dispatch(ticket) => {
                    self.note(self.queue.request(&ticket).start.0);
                    self.in_flight.push(ticket);
                }
                Step::Wait(hold) => {
                    self.alarm = hold.until;
                    break;
                }
                Step::Full | Step::Idle => break,
            }
        }
        while let Some(action) = self.queue.split().unwrap().act(self.now) {
            match action {
                Action::Admit(id) => {
                    self.note(u64::from(id.0));
                    self.admitted += 1;
                    let call = self.held.remove(&id).expect("the policy admits a held call exactly once");
                    self.running.push(call);
                }
                Action::WriteBack { file, pages } => {
                    let _ = (0..pages).all(|_| self.cleans(Some(file.0), false));
                }
            }
        }
        while self.queue.notice().is_some() {}
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..3 => self.enters(),
            3 if self.random.below(50) == 0 => self.goes_on(),
            3..6 => self.returns(),
            6..10 => self.dirties(),
            10 => _ = self.cleans(None, true),
            11 => _ = self.cleans(None, false),
            12 => self.reads(),
            _ => self.completes(),
        }
        self.now += Span::from_micros(self.random.below(2_000));
        self.settle();
    }

    /// Makes no further calls: every held call must complete.
    fn drain(&mut self) {
        for _ in 0..1_000_000 {
            if self.held.is_empty() && self.queue.unfinished() == 0 && self.running.is_empty() {
                return;
            }
            self.returns();
            self.completes();
            let alarms = [self.alarm, self.queue.split().unwrap().alarm()];
            let next = alarms.into_iter().flatten().min().unwrap_or(self.now + Span::from_millis(1));
            self.now = next.max(self.now + Span::from_micros(1));
            self.settle();
        }
        panic!(
            "{} calls are held for ever, {} submissions unfinished",
            self.held.len(),
            self.queue.unfinished()
        );
    }
}

fn run(spec: &Spec, seed: u64, steps: u64) -> (u64, u64) {
    let mut machine = Machine::new(spec, seed);
    for _ in 0..steps {
        machine.step();
    }
    machine.drain();
    (machine.digest.finish(), machine.admitted)
}

fn specs() -> Vec<Spec> {
    let split = || registry::all().filter(|listing| listing.split);
    let wrapped = split().filter(|listing| listing.is_work_conserving());
    let wrapped = wrapped.map(|l| Spec::parse(&format!("stream({})", l.full_name())).unwrap());
    split().map(Spec::of).chain(wrapped).collect()
}

/// Runs one policy with one seed; returns an error if it violates the contract.
fn endures(spec: &Spec, seed: u64, steps: u64) -> Result<(), String> {
    let (_, admitted) = run(spec, seed, steps);
    let holds_none = ["token-block", "split-noop"].iter().any(|name| spec.name().contains(name));
    if (admitted == 0) != holds_none {
        return Err(format!("{admitted} calls were held and admitted"));
    }
    if run(spec, seed, 2_000) != run(spec, seed, 2_000) {
        return Err("it decides differently on the same input".to_owned());
    }
    Ok(())
}

#[test]
fn every_held_call_continues_once() {
    let steps = from_environment("DWELL_OPERATIONS", 400_000);
    let first = from_environment("DWELL_SEED", 1);
    let specs = specs();
    let runs: Vec<_> =
        specs.iter().flat_map(|spec| (first..first + 4).map(move |seed| (spec, seed))).collect();
    each(&runs, |&(spec, seed)| {
        about(format_args!("{}, seed {seed}", spec.name()), || endures(spec, seed, steps / 4))
    });
}

#[test]
fn there_are_split_policies_to_test() {
    let names: Vec<String> = registry::all().filter(|l| l.split).map(Listing::full_name).collect();
    assert_eq!(names, ["afq", "split-deadline", "split-token", "token-block", "token-call", "split-noop"]);
}
