//! A benchmark as something to be run again and again: under a fixed scheduler, or under the tuner.

use elevator::queue::{Options, SwitchMode};
use elevator::{Span, Time};
use machine::{Machine, Setup, Stop};
use schedulers::Spec;
use tuner::{Analyser, Observed, Performance, SchedulerId};
use workloads::Workload;
use workloads::builtin::{TpcH, UserBytes};

use super::watch::Watch;
use crate::device::Device;
use crate::error::Error;
use crate::interrupt;

/// The schedulers of the paper's kernel, in the paper's words: NOOP, AS, DL, CFQ.
pub(super) const FIXED: [&str; 4] = ["noop", "anticipatory-2.6.32", "deadline-2.6.32", "cfq-2.6.32"];

/// Where a benchmark runs.
pub(super) struct Lab {
    pub(super) device: Device,
    pub(super) depth: u32,
    specs: Vec<Spec>,
}

impl Lab {
    pub(super) fn new(drive: &str, depth: u32) -> Result<Self, Error> {
        let specs = FIXED.iter().map(|name| Spec::parse(name).map_err(|e| Error::Failed(e.to_string())));
        Ok(Self { device: Device::open(drive)?, depth, specs: specs.collect::<Result<_, _>>()? })
    }

    /// The names of the tuner's schedulers, in the order of [`FIXED`].
    pub(super) fn names(&self) -> Vec<String> {
        self.specs.iter().map(ToString::to_string).collect()
    }

    fn scheduler(&self, id: SchedulerId) -> Result<Box<dyn elevator::Scheduler>, Error> {
        let spec = self.specs.get(id.0).ok_or_else(|| Error::Failed("no such scheduler".to_owned()))?;
        let built = spec.build(&self.device.environment());
        built
            .map(|scheduler| scheduler as Box<dyn elevator::Scheduler>)
            .map_err(|e| Error::Failed(e.to_string()))
    }
}

/// One benchmark; several make a sequence.
pub(super) enum Phase {
    /// Any.
    Plain(Box<dyn Workload>),
    /// One whose users get bytes from a cache, too.
    Cached(TpcH),
}

impl Phase {
    pub(super) fn of(workload: impl Workload + 'static) -> Self {
        Self::Plain(Box::new(workload))
    }

    fn start(&self, machine: &mut Machine) -> Option<UserBytes> {
        match self {
            Self::Plain(workload) => {
                workload.start(machine);
                None
            }
            Self::Cached(queries) => {
                let (processes, user) = queries.counted();
                processes.into_iter().for_each(|(who, program)| machine.start(who, program));
                Some(user)
            }
        }
    }
}

/// What a run took and did.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ran {
    /// Virtual time of the run.
    pub(super) seconds: f64,
    /// Bytes a second of the device.
    pub(super) bandwidth: f64,
    /// Windows that the tuner saw, and switches that it made.
    pub(super) windows: u32,
    pub(super) switches: u32,
}

/// Under one scheduler from start to end.
pub(super) fn fixed(lab: &Lab, phase: &Phase, scheduler: SchedulerId) -> Result<Ran, Error> {
    let mut run = Run::new(lab, phase, scheduler, Watch::default())?;
    run.until(Time::MAX)?;
    Ok(run.ran())
}

/// The tuner, as it goes from one run to the next without being stopped.
pub(super) struct Tuner {
    pub(super) analyser: Analyser,
    pub(super) t: Span,
    /// The scheduler in use, and all virtual time before this run.
    pub(super) scheduler: SchedulerId,
    pub(super) before: Span,
    /// Processor time that windows took.
    pub(super) busy: std::time::Duration,
}

impl Tuner {
    pub(super) fn new(analyser: Analyser, t: Span) -> Self {
        Self { analyser, t, scheduler: SchedulerId(0), before: Span::ZERO, busy: std::time::Duration::ZERO }
    }

    /// Runs a benchmark under the tuner's eyes, which decides after each window.
    pub(super) fn run(&mut self, lab: &Lab, phase: &Phase) -> Result<Ran, Error> {
        let watch = Watch::default();
        let mut run = Run::new(lab, phase, self.scheduler, watch.clone())?;
        let (mut at, mut user) = (Time::ZERO, 0);
        let (mut windows, mut switches) = (0, 0);
        loop {
            at += self.t;
            if run.until(at)? {
                break;
            }
            windows += 1;
            let (mut window, mut performance, drained) = watch.take(at, self.t);
            window.start += self.before;
            window.accesses.iter_mut().for_each(|access| access.time += self.before);
            performance.user_bandwidth = run.user_bandwidth(&mut user, self.t);
            let change = self.decide(&window, performance, drained);
            if change {
                run.machine.switch(at, lab.scheduler(self.scheduler)?, SwitchMode::Drain);
                switches += 1;
            }
        }
        let ran = Ran { windows, switches, ..run.ran() };
        self.before += at.since(Time::ZERO);
        Ok(ran)
    }

    fn decide(&mut self, window: &tuner::Window, performance: Performance, drained: Option<Span>) -> bool {
        let observed = Observed { scheduler: Some(self.scheduler), performance, drained };
        let from = std::time::Instant::now();
        let decision = self.analyser.window(window, &observed);
        self.busy += from.elapsed();
        self.scheduler = decision.scheduler.unwrap_or(self.scheduler);
        decision.change
    }
}

struct Run {
    machine: Machine,
    user: Option<UserBytes>,
}

impl Run {
    fn new(lab: &Lab, phase: &Phase, scheduler: SchedulerId, watch: Watch) -> Result<Self, Error> {
        let mut machine = Machine::new(Setup {
            options: Options { depth: lab.depth, ..Options::default() },
            scheduler: lab.scheduler(scheduler)?,
            drive: lab.device.build(),
            observer: Some(Box::new(watch)),
        });
        let user = phase.start(&mut machine);
        Ok(Self { machine, user })
    }

    /// Runs on; whether everything has ended.
    fn until(&mut self, at: Time) -> Result<bool, Error> {
        let stop = Stop { at, asked: interrupt::requested };
        self.machine.run(stop).map_err(|failure| Error::Failed(failure.to_string()))?;
        if interrupt::requested() { Err(Error::Interrupted) } else { Ok(!self.machine.is_cut()) }
    }

    fn user_bandwidth(&self, before: &mut u64, length: Span) -> Option<f64> {
        let now = self.user.as_ref()?.get();
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
