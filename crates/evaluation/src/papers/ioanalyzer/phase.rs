//! Runs a benchmark under a fixed scheduler, or under the tuner, which keeps its state from run to run.

use std::rc::Rc;

use disks::Drive;
use elevator::queue::{Limits, Options, SwitchMode};
use elevator::{Span, Time};
use machine::{Machine, Setup, Stop};
use schedulers::Spec;
use tuner::{Analyser, Observed, Performance, SchedulerId};
use workloads::Workload;
use workloads::builtin::{TpcH, UserBytes};
use workloads::programs::os::Session;
use workloads::scenario::{Scenario, papers};

use crate::device::Device;
use crate::error::Error;
use crate::interrupt;
use crate::run_setup::{Overrides, RunSetup};
use crate::watch::Watch;

/// The schedulers of the paper's kernel; the paper names them NOOP, AS, DL, CFQ.
pub(super) const FIXED: [&str; 4] = ["noop", "anticipatory-2.6.32", "deadline-2.6.32", "cfq-2.6.32"];

/// The device of a benchmark: a drive, or drives that a controller combines into one device.
pub(super) struct Lab {
    device: Device,
    depth: u32,
}

impl Lab {
    pub(super) fn new(drive: &str, depth: u32) -> Result<Self, Error> {
        Ok(Self { device: Device::open(drive)?, depth })
    }

    /// Drives striped behind a controller with a queue of `depth` commands.
    pub(super) fn striped(drive: &str, array: &str, depth: u32) -> Result<Self, Error> {
        Ok(Self { device: Device::open(drive)?.in_array(array)?, depth })
    }

    /// The names of the tuner's schedulers, in the order of [`FIXED`].
    pub(super) fn names(&self) -> Vec<String> {
        FIXED.map(str::to_owned).to_vec()
    }

    fn scheduler(&self, name: &str) -> Result<Box<dyn elevator::Scheduler>, Error> {
        let built = spec(name)?.build(&self.device.environment(&Limits::default()));
        built
            .map(|scheduler| scheduler as Box<dyn elevator::Scheduler>)
            .map_err(|e| Error::Failed(e.to_string()))
    }

    fn drive(&self) -> Box<dyn Drive> {
        match self.device.array() {
            Some(array) => self.device.build_behind_card(array, self.depth),
            None => self.device.build(),
        }
    }
}

fn spec(name: &str) -> Result<Spec, Error> {
    Spec::parse(name).map_err(|e| Error::Failed(e.to_string()))
}

/// One benchmark; several make a sequence.
pub(super) enum Phase {
    /// A workload at the level of requests.
    Plain(Box<dyn Workload>),
    /// Requests below a cache of the workload's own, which serves a part of the users' bytes.
    Cached(TpcH),
    /// Programs on a modelled machine with its own drive.
    OnMachine(Box<RunSetup>),
}

impl Phase {
    pub(super) fn of(workload: impl Workload + 'static) -> Self {
        Self::Plain(Box::new(workload))
    }

    pub(super) fn script(name: &str, scale: f64) -> Result<Self, Error> {
        let text = papers::IOANALYZER.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        let scenario = Scenario::parse(name, text, scale).map_err(|e| Error::Failed(e.to_string()))?;
        Ok(Self::OnMachine(Box::new(RunSetup::open(scenario, Overrides::default())?)))
    }

    fn scheduler(&self, lab: &Lab, name: &str) -> Result<Box<dyn elevator::Scheduler>, Error> {
        match self {
            Self::OnMachine(setup) => setup.scheduler(&spec(name)?),
            _ => lab.scheduler(name),
        }
    }

    /// A machine with the phase's processes, and the counter of the users' bytes.
    fn start(&self, lab: &Lab, name: &str, watch: Watch) -> Result<(Machine, User), Error> {
        if let Self::OnMachine(setup) = self {
            let (machine, session) = setup.start(&spec(name)?, Box::new(watch))?;
            return Ok((machine, User::Calls(session)));
        }
        let mut machine = Machine::new(Setup {
            options: Options { depth: lab.depth, ..Options::default() },
            scheduler: lab.scheduler(name)?,
            drive: lab.drive(),
            observer: Some(Box::new(watch)),
        });
        let user = match self {
            Self::Plain(workload) => {
                workload.start(&mut machine);
                User::Device
            }
            Self::Cached(queries) => {
                let (processes, user) = queries.counted();
                processes.into_iter().for_each(|(who, program)| machine.start(who, program));
                User::Bytes(user)
            }
            Self::OnMachine(_) => User::Device,
        };
        Ok((machine, user))
    }
}

/// The counter of the bytes that users received.
enum User {
    /// The bytes of the device: there is no cache.
    Device,
    Bytes(UserBytes),
    /// The bytes that system calls read and wrote.
    Calls(Rc<Session>),
}

impl User {
    fn bytes(&self) -> Option<u64> {
        match self {
            Self::Device => None,
            Self::Bytes(bytes) => Some(bytes.get()),
            Self::Calls(session) => {
                Some(session.diary().iter().map(|(_, seen)| seen.read_bytes + seen.written_bytes).sum())
            }
        }
    }
}

/// The result of a run.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ran {
    /// Virtual time of the run.
    pub(super) seconds: f64,
    /// Bytes per second of the device.
    pub(super) bandwidth: f64,
    /// Windows that the tuner received, and its switches.
    pub(super) windows: u32,
    pub(super) switches: u32,
    /// Seconds for which switches stopped the device.
    pub(super) stopped: f64,
}

/// Runs a phase under one scheduler.
pub(super) fn fixed(lab: &Lab, phase: &Phase, scheduler: SchedulerId) -> Result<Ran, Error> {
    let watch = Watch::default();
    let mut run = Run::new(lab, phase, FIXED[scheduler.0], watch.clone())?;
    run.until(Time::MAX)?;
    let ran = run.ran();
    // All bytes of the device, including those that the modelled kernel reads and writes on its own.
    let elapsed = Span::from_nanos((ran.seconds * 1e9) as u64);
    let (_, performance, _) = watch.take(Time::ZERO + elapsed, elapsed);
    Ok(Ran { bandwidth: performance.bandwidth, ..ran })
}

/// Seconds under a plan: a scheduler for each part of the time; the last one also serves the rest.
pub(super) fn planned(lab: &Lab, phase: &Phase, plan: &[SchedulerId], part: Span) -> Result<f64, Error> {
    let mut run = Run::new(lab, phase, FIXED[plan[0].0], Watch::default())?;
    for (i, parts) in plan.windows(2).enumerate() {
        let end = Time::ZERO + part * (i as u64 + 1);
        if run.until(end)? {
            return Ok(run.ran().seconds);
        }
        if parts[0] != parts[1] {
            run.machine.switch(end, phase.scheduler(lab, FIXED[parts[1].0])?, SwitchMode::Drain);
        }
    }
    run.until(Time::MAX)?;
    Ok(run.ran().seconds)
}

/// The tuner, whose state is kept from one run to the next.
pub(super) struct Tuner {
    pub(super) analyser: Analyser,
    pub(super) t: Span,
    /// The scheduler in use.
    pub(super) scheduler: SchedulerId,
    /// Virtual time of the previous runs.
    pub(super) before: Span,
    /// Processor time of the decisions.
    pub(super) busy: std::time::Duration,
}

impl Tuner {
    pub(super) fn new(analyser: Analyser, t: Span) -> Self {
        Self { analyser, t, scheduler: SchedulerId(0), before: Span::ZERO, busy: std::time::Duration::ZERO }
    }

    /// Runs a phase; the tuner decides after each window.
    pub(super) fn run(&mut self, lab: &Lab, phase: &Phase) -> Result<Ran, Error> {
        let watch = Watch::default();
        let mut run = Run::new(lab, phase, &self.arm(), watch.clone())?;
        let (mut at, mut user) = (Time::ZERO, 0);
        let (mut windows, mut switches, mut stopped) = (0, 0, 0.0);
        loop {
            at += self.t;
            if run.until(at)? {
                break;
            }
            windows += 1;
            let (mut window, mut performance, drained) = watch.take(at, self.t);
            window.start += self.before;
            window.accesses.iter_mut().for_each(|access| access.time += self.before);
            stopped += drained.map_or(0.0, Span::as_secs_f64);
            let counted = run.user_bandwidth(&mut user, self.t);
            performance.user_bandwidth = counted.or(Some(performance.bandwidth));
            let change = self.decide(&window, performance);
            if change {
                run.machine.switch(at, phase.scheduler(lab, &self.arm())?, SwitchMode::Drain);
                switches += 1;
            }
        }
        let ran = Ran { windows, switches, stopped, ..run.ran() };
        self.before += at.since(Time::ZERO);
        Ok(ran)
    }

    /// The name of the scheduler in use, with its settings.
    fn arm(&self) -> String {
        self.analyser.schedulers()[self.scheduler.0].clone()
    }

    fn decide(&mut self, window: &tuner::Window, performance: Performance) -> bool {
        let observed = Observed { scheduler: Some(self.scheduler), performance };
        let from = std::time::Instant::now();
        let decision = self.analyser.window(window, &observed);
        self.busy += from.elapsed();
        self.scheduler = decision.scheduler.unwrap_or(self.scheduler);
        decision.change
    }
}

struct Run {
    machine: Machine,
    user: User,
}

impl Run {
    fn new(lab: &Lab, phase: &Phase, scheduler: &str, watch: Watch) -> Result<Self, Error> {
        let (machine, user) = phase.start(lab, scheduler, watch)?;
        Ok(Self { machine, user })
    }

    /// Runs until `at`; returns whether all processes have ended.
    fn until(&mut self, at: Time) -> Result<bool, Error> {
        let stop = Stop { at, asked: interrupt::requested };
        self.machine.run(stop).map_err(|failure| Error::Failed(failure.to_string()))?;
        if interrupt::requested() { Err(Error::Interrupted) } else { Ok(!self.machine.is_cut()) }
    }

    fn user_bandwidth(&self, before: &mut u64, length: Span) -> Option<f64> {
        let now = self.user.bytes()?;
        let got = now - std::mem::replace(before, now);
        Some(got as f64 / length.as_secs_f64())
    }

    fn ran(&mut self) -> Ran {
        let measured = self.machine.measured();
        Ran {
            seconds: measured.elapsed_ns as f64 / 1e9,
            bandwidth: measured.megabytes_per_second() * 1e6,
            ..Ran::default()
        }
    }
}
