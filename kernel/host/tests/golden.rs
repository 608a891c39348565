//! Identical decisions for identical events in every host of a policy: in the model (`machine`), in a served device
//! (`server::Device`), and in the kernel module ([`Host`]). `golden.txt` has a digest of the decisions of each policy.
//!
//! Events are arrivals, ends of processes and completions of a modelled drive, no two of them at the same time. Merges are omitted,
//! because the kernel decides about merges here; `model.rs` covers them.
//!
//! `DWELL_BLESS=1 cargo test -p dwell-kernel-host --test golden` writes the file anew. A commit that changes it states why.

use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use disks::{Command, Drive, Fixed, Tag};
use elevator::queue::{Cache, Event, Identity, Limits, Observer, Options, Plugging, Queue};
use elevator::{
    Capabilities, Decision, Flags, Growth, Op, Outcome, Priority, Process, Random, Reason, Request,
    RequestId, Scheduler, Sector, Sectors, Span, Time, View,
};
use kernel_host::{ELEVATORS, Host, Next, Submission};
use machine::{Io, Machine, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};
use server::backend::{Backend, Emulated, Nature, Nothing, Payload};
use server::{Device, FrontEndEvent, NewOperation, Watch};

/// A drive that does nothing between a command and its completion: hosts ask a policy at every event of a drive.
const BYTES: u64 = 500 << 30;
const SERVICE: Span = Span::from_micros(6_500);

const PROCESSES: u32 = 6;
const ARRIVALS: u32 = 3_000;

/// What happens to a host, beside completions.
#[derive(Clone, Copy)]
enum What {
    Arrives { op: Op, start: Sector, sectors: Sectors, sync: bool },
    Exits,
}

#[derive(Clone, Copy)]
struct Happens {
    at: Time,
    process: u32,
    what: What,
}

fn drive() -> Box<dyn Drive + Send> {
    Box::new(Fixed::new(BYTES, 31, SERVICE))
}

/// Processes that read or write on from where they were, pause as a program between two reads does, and jump; the last ends
/// half way. A third writes; half of those writes are asynchronous.
fn events(seed: u64) -> Vec<Happens> {
    let mut random = Random::new(seed);
    let capacity = drive().capacity().0;
    let mut positions: Vec<u64> = (0..PROCESSES).map(|_| random.below(capacity - 4096)).collect();
    let (mut now, mut process) = (Time::ZERO, 0);
    let mut events = Vec::new();
    for n in 0..ARRIVALS {
        let pause = if random.once_in(10) { 60_000_000 } else { 16_000_000 };
        now += Span::from_nanos(1 + random.below(pause));
        if n == ARRIVALS / 2 {
            events.push(Happens { at: now, process: PROCESSES - 1, what: What::Exits });
            now += Span::from_nanos(1 + random.below(pause));
        }
        let left = PROCESSES - u32::from(n >= ARRIVALS / 2);
        if random.once_in(4) || process >= left {
            process = random.below(u64::from(left)) as u32;
        }
        let position = &mut positions[process as usize];
        if random.once_in(12) || *position + 2048 > capacity {
            *position = random.below(capacity - 4096);
        }
        let sectors = [8, 8, 32, 128, 256][random.below(5) as usize];
        let op = if process % 3 == 2 { Op::Write } else { Op::Read };
        let sync = op == Op::Read || random.once_in(2);
        let (start, sectors) = (Sector(*position), Sectors(sectors));
        *position += u64::from(sectors.0);
        events.push(Happens { at: now, process, what: What::Arrives { op, start, sectors, sync } });
    }
    for process in 0..PROCESSES - 1 {
        now += Span::from_secs(1);
        events.push(Happens { at: now, process, what: What::Exits });
    }
    events
}

fn name_of(process: u32) -> Process {
    Process::single(100 + process)
}

fn flags(sync: bool) -> Flags {
    Flags { sync, ..Flags::default() }
}

/// Every decision, a line each.
#[derive(Clone, Default)]
struct Decisions(Arc<Mutex<Vec<String>>>);

impl Decisions {
    fn dispatched(&self, now: Time, request: (Sector, Sectors, Op), reason: &dyn std::fmt::Debug) {
        let (start, sectors, op) = request;
        let line = format!("{} {op} {} {} {reason:?}", now.as_nanos(), start.0, sectors.0);
        self.0.lock().unwrap().push(line);
    }

    /// A hold counts once, however often a host asks meanwhile.
    fn held(&self, now: Time, until: Option<Time>, reason: &dyn std::fmt::Debug) {
        let hold = format!(" holds {:?} {reason:?}", until.map(Time::as_nanos));
        let mut lines = self.0.lock().unwrap();
        if !lines.last().is_some_and(|last| last.ends_with(&hold)) {
            lines.push(format!("{}{hold}", now.as_nanos()));
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Decisions {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        match event {
            Event::Dispatched { request: Request { start, sectors, op, .. }, reason, .. } => {
                self.dispatched(now, (*start, *sectors, *op), reason);
            }
            Event::Held { hold, .. } => self.held(now, hold.until, &hold.reason),
            Event::Faulted { fault, .. } => panic!("{fault:?}"),
            _ => {}
        }
    }
}

/// A run of one policy.
#[derive(Clone, Copy)]
struct Setting {
    policy: &'static str,
    depth: u32,
    shown: bool,
}

impl Setting {
    fn scheduler(self) -> Box<dyn Scheduler> {
        Box::new(Unlimited(Spec::parse(self.policy).unwrap().build(&Environment::default()).unwrap()))
    }

    /// What a kernel with an elevator is to the elevator: merges and limits happen elsewhere.
    fn options(self) -> Options {
        Options {
            depth: self.depth,
            merges: false,
            plugging: Plugging::None,
            limits: Limits::NONE,
            identity: if self.shown { Identity::Shown } else { Identity::Hidden },
            cache: Cache::WriteThrough,
            ..Options::default()
        }
    }
}

/// A policy that lets no submitter sleep, which would change the events: hosts ask `may_queue` at different places.
struct Unlimited(Box<dyn Scheduler>);

impl Capabilities for Unlimited {}

impl Scheduler for Unlimited {
    fn insert(&mut self, now: Time, request: &Request) {
        self.0.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.0.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.0.next(now, view)
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.0.completed(now, request, outcome);
    }

    fn exited(&mut self, now: Time, process: Process) {
        self.0.exited(now, process);
    }
}

/// A process of the model that does what the list states.
struct Scripted {
    events: Rc<Vec<Happens>>,
    process: u32,
    next: usize,
    is_due: bool,
}

impl Program for Scripted {
    fn next(&mut self, _now: Time) -> machine::Next {
        while self.events.get(self.next).is_some_and(|event| event.process != self.process) {
            self.next += 1;
        }
        let Some(event) = self.events.get(self.next) else { return machine::Next::Exit };
        if !self.is_due {
            self.is_due = true;
            return machine::Next::Until(event.at);
        }
        (self.next, self.is_due) = (self.next + 1, false);
        match event.what {
            What::Exits => machine::Next::Exit,
            What::Arrives { op, start, sectors, sync } => {
                machine::Next::Submit(Io { op, start, sectors, flags: flags(sync) })
            }
        }
    }
}

fn in_the_model(setting: Setting, events: &Rc<Vec<Happens>>) -> Vec<String> {
    let decisions = Decisions::default();
    let mut machine = Machine::new(Setup {
        options: setting.options(),
        scheduler: setting.scheduler(),
        drive: drive(),
        observer: Some(Box::new(decisions.clone())),
    });
    for process in 0..PROCESSES {
        let who = Submitter {
            process: Some(name_of(process)),
            priority: Priority::default(),
            name: process.to_string(),
        };
        let events = events.clone();
        machine.start(who, Box::new(Scripted { events, process, next: 0, is_due: false }));
    }
    machine.run(Stop::default()).unwrap();
    decisions.take()
}

fn in_a_served_device(setting: Setting, events: &[Happens]) -> Vec<String> {
    let decisions = Decisions::default();
    let drive = drive();
    let store = Nothing::new(BYTES, drive.depth());
    let nature = Nature { cache: Cache::WriteThrough, ..Nature::default() };
    let backend: Box<dyn Backend> = Box::new(Emulated::new(drive, Box::new(store), nature).unwrap());
    let watch = Watch::new(Some(Box::new(decisions.clone())));
    let mut device = Device::new(Queue::observed(setting.options(), setting.scheduler(), watch), backend);
    let mut events = events.iter().copied().zip(0..).peekable();
    while let Some(now) = earliest([events.peek().map(|(event, _)| event.at), device.due().0, device.due().1])
    {
        device.advance(now);
        if let Some((event, cookie)) = events.next_if(|(event, _)| event.at == now) {
            let process = name_of(event.process);
            match event.what {
                What::Exits => device.exited(now, process),
                What::Arrives { op, start, sectors, sync } => {
                    let data = device.pool.take(sectors.0 as usize * 512);
                    let (process, payload) = (Some(process), Payload::Data(data));
                    let operation =
                        NewOperation { cookie, op, start, sectors, flags: flags(sync), process, payload };
                    let _ = device.submit(now, 0, operation);
                }
            }
            device.advance(now);
        }
        while let Some(event) = device.next_event(now) {
            if let FrontEndEvent::Answer(answer) = event {
                answer.result.expect("the drive is sound");
                if let Payload::Data(data) = answer.payload {
                    device.pool.put(data);
                }
            }
        }
    }
    assert_eq!(device.unfinished(), 0);
    decisions.take()
}

/// The host behind what the module's C files do: they ask after an arrival, a completion, an exit and the end of a hold.
///
/// The model and the served device ask when they wake, too, before the arrival that woke them; cfq and bfq may end a slice then. blk-mq does
/// not wake an elevator before an arrival. Here it asks in both places, so that all hosts ask a policy at the same instants.
struct Module {
    host: Host,
    drive: Box<dyn Drive + Send>,
    decisions: Decisions,
    /// The request of each tag.
    flying: Vec<Option<RequestId>>,
    queued: Vec<(Sector, Sectors, Op)>,
    wake: Option<Time>,
}

impl Module {
    /// A light policy does not insert a request into the empty queue if a tag is free. Its requests end when they are dispatched.
    fn passes(&mut self, now: Time, &Submission { op, start, sectors, .. }: &Submission) -> bool {
        let tag = self.flying.iter().position(Option::is_none);
        let Some(tag) = tag.filter(|_| self.host.is_light() && self.host.queued() == 0) else { return false };
        let reason = if self.host.passes_freely() {
            Reason::FirstCome
        } else {
            self.host.pass(now, now, op.direction(), start, sectors)
        };
        self.send(now, tag, (start, sectors, op), reason, RequestId(u32::MAX));
        true
    }

    fn send(&mut self, now: Time, tag: usize, request: (Sector, Sectors, Op), reason: Reason, id: RequestId) {
        let (start, sectors, op) = request;
        self.decisions.dispatched(now, request, &reason);
        self.flying[tag] = Some(id);
        self.drive.submit(now, Command { tag: Tag(tag as u32), op, start, sectors, fua: false });
    }

    fn dispatch(&mut self, now: Time) {
        self.wake = None;
        let is_asked = self.host.queued() > 0 || self.host.may_wait();
        while let Some(tag) = self.flying.iter().position(Option::is_none).filter(|_| is_asked) {
            match self.host.next(now).expect("a sound policy") {
                Next::Dispatch { id, cookie, reason } => {
                    self.send(now, tag, self.queued[cookie], reason, id);
                }
                Next::Hold { until, reason } => {
                    self.wake = until;
                    self.decisions.held(now, until, &reason);
                    return;
                }
                Next::Idle => return,
            }
        }
    }

    fn completions(&mut self, now: Time) {
        while let Some(completion) = self.drive.poll(now) {
            let id = self.flying[completion.tag.0 as usize].take().expect("a tag in use");
            if !self.host.is_light() {
                self.host.completed(now, id, Outcome::Done);
            }
            self.dispatch(now);
        }
    }
}

fn in_the_module(setting: Setting, events: &[Happens]) -> Vec<String> {
    let mut host = Host::new(setting.policy, Environment::default(), setting.depth).unwrap();
    host.show_processes(setting.shown);
    let flying = vec![None; setting.depth as usize];
    let decisions = Decisions::default();
    let mut module = Module { host, drive: drive(), decisions, flying, queued: Vec::new(), wake: None };
    let mut events = events.iter().copied().peekable();
    while let Some(now) = earliest([events.peek().map(|e| e.at), module.drive.next_event(), module.wake]) {
        module.completions(now);
        module.dispatch(now);
        if let Some(event) = events.next_if(|event| event.at == now) {
            let process = name_of(event.process);
            match event.what {
                What::Exits => module.host.exited(now, process),
                What::Arrives { op, start, sectors, sync } => {
                    let (priority, process) = (Priority::default(), Some(process));
                    let submission = Submission { op, start, sectors, flags: flags(sync), priority, process };
                    if !module.passes(now, &submission) {
                        module.host.insert(now, &submission, module.queued.len());
                        module.queued.push((start, sectors, op));
                    }
                }
            }
            module.dispatch(now);
        }
    }
    assert_eq!(module.host.queued(), 0);
    module.decisions.take()
}

fn earliest(times: [Option<Time>; 3]) -> Option<Time> {
    times.into_iter().flatten().min()
}

/// The 64-bit digest of FNV-1a.
fn digest(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn assert_same(what: &str, expected: &[String], found: &[String]) {
    if let Some(i) = (0..expected.len().max(found.len())).find(|&i| expected.get(i) != found.get(i)) {
        let around = i.saturating_sub(3);
        let shown = |lines: &[String]| lines[around.min(lines.len())..(i + 3).min(lines.len())].join("\n  ");
        panic!(
            "{what} decides otherwise than the model from decision {i} on:\n  {}\nthe model:\n  {}",
            shown(found),
            shown(expected)
        );
    }
}

/// The policies that the module registers, the parameter's default left out.
fn policies() -> impl Iterator<Item = &'static str> {
    ELEVATORS.iter().filter(|elevator| !elevator.is_custom()).map(|elevator| elevator.spec)
}

#[test]
fn model_served_device_and_module_take_the_same_decisions() {
    let mut text = String::new();
    for (seed, policy) in (1..).zip(policies()) {
        let events = Rc::new(events(seed));
        for (depth, shown) in [(1, true), (1, false), (8, true), (8, false)] {
            let setting = Setting { policy, depth, shown };
            let name = format!("{policy} depth {depth} {}", if shown { "shown" } else { "hidden" });
            let model = in_the_model(setting, &events);
            assert_same(&format!("{name}: the module"), &model, &in_the_module(setting, &events));
            assert_same(&format!("{name}: the served device"), &model, &in_a_served_device(setting, &events));
            let holds = model.iter().filter(|line| line.contains(" holds ")).count();
            let (dispatches, digest) = (model.len() - holds, digest(&model));
            assert_eq!(dispatches, ARRIVALS as usize, "{name}");
            writeln!(text, "{name}: {dispatches} dispatches, {holds} holds, {digest:016x}").unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt");
    if std::env::var_os("DWELL_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    for (was, is) in golden.lines().zip(text.lines()) {
        assert_eq!(was, is, "if the change is meant: DWELL_BLESS=1, and state why in the commit");
    }
    assert_eq!(
        golden.lines().count(),
        text.lines().count(),
        "kernel/host/tests/golden.txt is of other policies"
    );
}
