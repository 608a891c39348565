//! Test bench: a machine, programs as lists of calls, and an observer of the queue.

use std::cell::RefCell;
use std::rc::Rc;

use disks::{Command, Completion, Drive, Tag};
use elevator::queue::{Event, Observer};
use elevator::{CauseSet, Op, Outcome, Positioning, Process, Scheduler, Sector, Time};
use machine::kernel::{Call, Description, Descriptor, Image, Kernel, Open, Returned};
use machine::{Machine, Measured, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

/// A request as the scheduler saw it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub at: Time,
    pub op: Op,
    pub start: u64,
    pub sectors: u32,
    pub process: Option<Process>,
    pub causes: Option<CauseSet>,
    pub completed: bool,
}

/// Requests dispatched and completed, in order.
#[derive(Clone, Default)]
pub struct Ear(pub Rc<RefCell<Vec<Seen>>>);

impl Observer for Ear {
    fn event(&mut self, at: Time, event: &Event<'_>) {
        let (request, completed) = match event {
            Event::Dispatched { request, .. } => (request, false),
            Event::Completed { request, .. } => (request, true),
            _ => return,
        };
        self.0.borrow_mut().push(Seen {
            at,
            op: request.op,
            start: request.start.0,
            sectors: request.sectors.0,
            process: request.process,
            causes: request.causes,
            completed,
        });
    }
}

/// A program of fixed steps.
pub struct Script {
    steps: Box<dyn Iterator<Item = Next>>,
    heard: Rc<RefCell<Vec<(Time, Returned)>>>,
    latest: Option<Returned>,
}

impl Script {
    pub fn of(steps: impl Iterator<Item = Next> + 'static) -> Box<Self> {
        Box::new(Self { steps: Box::new(steps), heard: Heard::default(), latest: None })
    }
}

impl Program for Script {
    fn next(&mut self, now: Time) -> Next {
        if let Some(returned) = self.latest.take() {
            self.heard.borrow_mut().push((now, returned));
        }
        self.steps.next().unwrap_or(Next::Exit)
    }

    fn returned(&mut self, returned: Returned) -> bool {
        self.latest = Some(returned);
        true
    }
}

pub type Heard = Rc<RefCell<Vec<(Time, Returned)>>>;

pub struct Bench {
    pub machine: Machine,
    pub ear: Ear,
    number: u32,
}

pub fn read_only() -> Open {
    Open::default()
}

pub fn create() -> Open {
    Open { create: true, ..Open::default() }
}

pub const FIRST: Descriptor = Descriptor(0);

impl Bench {
    pub fn new(description: &Description, scheduler: &str, image: &Image) -> Self {
        Self::on("ide-2003", description, scheduler, image)
    }

    pub fn on(drive: &str, description: &Description, scheduler: &str, image: &Image) -> Self {
        Self::with(built_in(drive), description, scheduler, image)
    }

    pub fn with(drive: Box<dyn Drive>, description: &Description, scheduler: &str, image: &Image) -> Self {
        let spec: Spec = Spec::parse(scheduler).expect("a scheduler");
        Self::under(drive, description, spec.build(&Environment::default()).expect("a scheduler"), image)
    }

    pub fn under(
        drive: Box<dyn Drive>,
        description: &Description,
        scheduler: Box<dyn Scheduler>,
        image: &Image,
    ) -> Self {
        let kernel = Kernel::new(description, drive.capacity(), image).expect("a kernel");
        let ear = Ear::default();
        let mut machine = Machine::new(Setup {
            options: description.queue(),
            scheduler,
            drive,
            observer: Some(Box::new(ear.clone())),
        });
        machine.boot(kernel);
        Self { machine, ear, number: 0 }
    }

    pub fn start(&mut self, name: &str, steps: impl Iterator<Item = Next> + 'static) -> Heard {
        self.number += 1;
        let heard = Heard::default();
        let script = Script { steps: Box::new(steps), heard: Rc::clone(&heard), latest: None };
        self.machine.start(Submitter::process(self.number, name), Box::new(script));
        heard
    }

    pub fn calls(&mut self, name: &str, calls: impl Iterator<Item = Call> + 'static) -> Heard {
        self.start(name, calls.map(Next::Call))
    }

    pub fn run(&mut self) -> Measured {
        self.machine.run(Stop::default()).expect("a run to its end");
        self.machine.measured()
    }
}

pub fn built_in(drive: &str) -> Box<dyn Drive> {
    let (drive, _) = disks::catalogue::open(drive, &mut |_: &str| Err(std::io::ErrorKind::NotFound.into()))
        .expect("a built-in drive");
    drive
}

/// A drive with unreadable sectors.
pub struct Worn {
    pub drive: Box<dyn Drive>,
    pub bad: std::ops::Range<u64>,
    pub failing: Vec<Tag>,
}

impl Drive for Worn {
    fn capacity(&self) -> Sector {
        self.drive.capacity()
    }

    fn depth(&self) -> u32 {
        self.drive.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        let (start, end) = (command.start.0, (command.start + command.sectors).0);
        if command.op == Op::Read && start < self.bad.end && end > self.bad.start {
            self.failing.push(command.tag);
        }
        self.drive.submit(now, command);
    }

    fn next_event(&self) -> Option<Time> {
        self.drive.next_event()
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        let mut completion = self.drive.poll(now)?;
        if let Some(failed) = self.failing.iter().position(|tag| *tag == completion.tag) {
            self.failing.remove(failed);
            completion.outcome = Outcome::Failed;
        }
        Some(completion)
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.drive.positioning()
    }
}

/// Open, then read in parts.
pub fn read_file(path: &str, bytes: u64, piece: u64) -> impl Iterator<Item = Call> + use<> {
    let open = Call::Open(path.into(), read_only());
    std::iter::once(open).chain((0..bytes.div_ceil(piece)).map(move |_| Call::Read(FIRST, piece)))
}

/// Create, then write in parts.
pub fn write_file(path: &str, bytes: u64, piece: u64) -> impl Iterator<Item = Call> + use<> {
    let open = Call::Open(path.into(), create());
    std::iter::once(open).chain((0..bytes.div_ceil(piece)).map(move |_| Call::Write(FIRST, piece)))
}
