//! `dwell replay`: a recording or fio job on a real device, under each of its schedulers, with the model's prediction.

mod results;
mod schedule;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capture::profile::claim;
use capture::topology::Scheduling;
use clap::{Args, ValueEnum};
use elevator::Sector;
use elevator::Span;
use elevator::queue::Options;
use elevator::text::counted;
use evaluation::device::Device;
use evaluation::device_replay::{self, Access, Target};
use evaluation::runs::{Plan, Run, run as run_plan};
use schedulers::Spec;
use schedulers::registry::Catalogue;
use tuner_live::arms::{Arms, KernelArms};
use tuner_live::{QueueSettings, released_within};

use self::results::Results;
pub(crate) use self::schedule::OptionNames;
use self::schedule::{Schedule, limit};
use crate::device_capture::{self, Reached};
use crate::error::Error;
use crate::input::scheduler_arg;
use crate::input::shared_args::Reading;
use crate::interrupt;
use evaluation::input::{self as workload, Opened, Replaying};

/// Options of `dwell replay`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell replay io.trace.zst /dev/sdb                 its reads, in closed loops, under each scheduler
  dwell replay io.trace.zst /dev/sdb --timing stamps -s none -s bfq --rounds 5
  dwell replay io.trace.zst /dev/sdb -s mq-deadline -s 'mq-deadline{fifo_batch=1}'
  dwell replay job.fio /dev/sdb --allow-writes       destroys the data on /dev/sdb")]
pub(crate) struct ReplayArguments {
    /// A recording ('-' for standard input), a fio job file, or a built-in workload, as in 'dwell compare'
    pub(crate) workload: String,
    /// The device. Partitions, dm and md are followed down to the device that schedules; the replay accesses that device
    #[arg(value_name = "DEVICE")]
    pub(crate) target: PathBuf,
    /// When requests of a recording are issued
    #[arg(long, value_enum, default_value_t = Timing::Closed)]
    pub(crate) timing: Timing,
    /// Execute writes as well, which destroys the data on the device. The device must not be mounted or open
    #[arg(long)]
    pub(crate) allow_writes: bool,
    /// A scheduler of the kernel, with settings in braces: 'bfq{low_latency=0}'; repeatable. Default: every scheduler that the device offers, and 'bfq{low_latency=0}'
    #[arg(long = "scheduler", short = 's', value_name = "NAME")]
    pub(crate) schedulers: Vec<String>,
    /// Replay under the active scheduler only; switch nothing
    #[arg(long, conflicts_with = "schedulers")]
    pub(crate) no_switch: bool,
    /// Switch schedulers even if the device is mounted or in use; reads only
    #[arg(long, conflicts_with = "allow_writes")]
    pub(crate) even_if_used: bool,
    /// Number of measurements of each scheduler; the order alternates between forwards and backwards
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Stop each replay after this time; 'none' for no limit. Default: twice the length of the recording, at least 10s and at most 60s; for jobs with a runtime, 10s longer; else 60s
    #[arg(long, value_name = "TIME")]
    pub(crate) at_most: Option<String>,
    /// The modelled drive of the prediction; 'none' for no prediction. Default: wd5000aaks for a rotating device, else ssd-sata
    #[arg(long, value_name = "DRIVE")]
    pub(crate) drive: Option<String>,
    #[command(flatten)]
    pub(crate) reached: Reached,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the table as Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Print no progress and no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Names of options in messages
    #[arg(skip)]
    pub(crate) names: OptionNames,
}

/// When requests of a recording are issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Timing {
    /// When the process's previous request has completed and its recorded think time has passed
    Closed,
    /// At the recorded times, however fast the device is
    Stamps,
}

/// How to measure a device that is in use.
const ADVICE: &str = "--no-switch measures the active scheduler only, --even-if-used switches nevertheless";

pub(crate) fn run(arguments: &ReplayArguments, catalogue: Catalogue) -> Result<(), Error> {
    let device = Prepared::of(arguments)?;
    let by_stamps = (arguments.timing == Timing::Stamps).then_some("--timing stamps");
    let how = Replaying { open: by_stamps, reads_only: !arguments.allow_writes, on_device: true, seed: 0 };
    let reading = arguments.reading.options();
    let opened = workload::open(&arguments.workload, &reading, how, device.capacity())?;
    let note = |line: &str| {
        if !arguments.quiet {
            say!("{line}");
        }
    };
    note(&opened.workload.describe());
    opened.notes.iter().chain(&opened.missing).for_each(|line| note(line));
    device.claim(ADVICE)?.replay(&opened, catalogue)?;
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// A device and the schedulers under which it is measured; nothing is changed yet.
pub(super) struct Prepared<'a> {
    arguments: &'a ReplayArguments,
    scheduling: Scheduling,
    names: Vec<String>,
    facts: QueueFacts,
    switches: bool,
}

impl<'a> Prepared<'a> {
    pub(super) fn of(arguments: &'a ReplayArguments) -> Result<Self, Error> {
        // A wrong value is reported before the recording is read.
        limit(arguments.names, arguments.at_most.as_deref(), None)?;
        let scheduling = device_capture::scheduling_of(&arguments.target, arguments.reached.reach())?;
        let names = schedulers(arguments, &scheduling)?;
        let facts = QueueFacts::of(&scheduling)?;
        if arguments.allow_writes {
            check_target(arguments, &scheduling)?;
            if facts.is_read_only {
                let device = arguments.target.display();
                return Err(Error::Usage(format!(
                    "{device}: is read-only; omit --allow-writes, or name another device"
                )));
            }
        }
        let switches = !arguments.no_switch && scheduling.offers_a_choice();
        Ok(Self { arguments, scheduling, names, facts, switches })
    }

    pub(super) fn capacity(&self) -> Sector {
        self.facts.capacity
    }

    /// Reserves the device for the measurement. `advice` ends the error for a device that is in use and is only read.
    pub(super) fn claim(self, advice: &str) -> Result<Claimed<'a>, Error> {
        let Self { arguments, scheduling, facts, switches, .. } = &self;
        let queues = device_capture::claim_queues(scheduling, *switches)?;
        let advice = match arguments.allow_writes {
            true => "writing to it would destroy its data; unmount it and stop the programs that use it, or omit --allow-writes".to_owned(),
            false => format!("switching its scheduler would disturb its users; {advice}"),
        };
        let is_claimed = arguments.allow_writes || (*switches && !arguments.even_if_used);
        let claim = is_claimed.then(|| claim(scheduling, &advice)).transpose()?;
        let &QueueFacts { block_bytes, fua, .. } = facts;
        let access = Access { writes: arguments.allow_writes, direct: true, block_bytes, fua };
        let target = Target::open(&scheduling.above.node(), access)?;
        Ok(Claimed { device: self, target, queues, _claim: claim })
    }
}

/// A device that no other measurement, and no mount, disturbs.
pub(super) struct Claimed<'a> {
    device: Prepared<'a>,
    target: Target,
    queues: Vec<File>,
    _claim: Option<File>,
}

impl Claimed<'_> {
    /// Replays a workload under each scheduler, and prints the results.
    pub(super) fn replay(&self, opened: &Opened, catalogue: Catalogue) -> Result<(), Error> {
        let Prepared { arguments, scheduling, names, .. } = &self.device;
        let at_most = limit(arguments.names, arguments.at_most.as_deref(), opened.length)?;
        let (models, remark) = predict(arguments, opened, scheduling, catalogue, names, at_most)?;
        remark.iter().filter(|_| !arguments.quiet).for_each(|line| say!("{line}"));
        let done = self.measure(opened, Schedule::new(names, arguments.rounds, at_most, arguments.names))?;
        let (rounds, slow) = (&done.results[..], !done.dropped().is_empty());
        let results = Results { names, rounds, models: &models, by_time: opened.by_time, slow };
        results.print(arguments, scheduling, opened)
    }

    /// Replays under each scheduler in turn; the order alternates, so that a drift of the device affects all alike.
    fn measure<'a>(&self, opened: &Opened, mut schedule: Schedule<'a>) -> Result<Schedule<'a>, Error> {
        let Prepared { arguments, scheduling, names, switches, .. } = &self.device;
        let mut arms: Option<KernelArms> = None;
        let device = &scheduling.above.name;
        if !arguments.quiet {
            say!("{device}: {}", schedule.announcement());
        }
        schedule.longest().iter().for_each(|time| released_within(&self.queues, *time));
        let bar = schedule.bar(arguments.quiet);
        for round in 0..arguments.rounds {
            for index in schedule.order(round) {
                if interrupt::requested() {
                    return Ok(schedule);
                }
                if *switches && arms.is_none() {
                    arms = Some(self::arms(scheduling, names)?.with_guards()?);
                }
                if let Some(arms) = &mut arms {
                    arms.switch(index)?;
                    arms.adjusted().iter().filter(|_| round == 0).for_each(|line| say!("{line}"));
                }
                let line = schedule.progress(round, index);
                if bar.is_hidden() && !arguments.quiet {
                    say!("{device}: {line}");
                }
                bar.set_message(line);
                let (began, end) = (Instant::now(), schedule.end());
                let stop = || interrupt::requested() || end.is_some_and(|end| began.elapsed() >= end);
                // To switch the scheduler makes the kernel dispatch all requests first.
                let mut starved = || {
                    let restored =
                        if arms.take().is_some() { "; the previous scheduler is restored" } else { "" };
                    say!(
                        "{device}: a request does not complete beside the load of other programs{restored}; the replay ends when it does, at the latest when you stop that load"
                    );
                };
                let replayed = device_replay::run(&*opened.workload, &self.target, &stop, &mut starved)?;
                bar.inc(1);
                if let Some(theirs) =
                    arms.as_mut().map(Arms::current).transpose()?.filter(|now| *now != names[index])
                {
                    let (device, ours) = (device.clone(), names[index].clone());
                    return Err(tuner_live::Error::Foreign { device, ours, theirs }.into());
                }
                if !interrupt::requested() {
                    schedule.add(index, replayed, began.elapsed());
                }
            }
        }
        bar.finish_and_clear();
        let left_out = schedule.results.iter().flatten().map(|replayed| replayed.left_out).max();
        if let Some(left_out) = left_out.filter(|&n| n > 0) {
            say!("{} left out: discards, and flushes without --allow-writes", counted(left_out, "request"));
        }
        if !arguments.quiet {
            schedule.dropped().iter().for_each(|line| say!("{device}: {line}"));
        }
        Ok(schedule)
    }
}

/// The schedulers to replay under.
fn schedulers(arguments: &ReplayArguments, scheduling: &Scheduling) -> Result<Vec<String>, Error> {
    if arguments.no_switch || !scheduling.offers_a_choice() {
        if let Some(name) = arguments.schedulers.iter().find(|name| **name != scheduling.scheduler()) {
            let (device, only) = (&scheduling.above.name, scheduling.scheduler());
            return Err(Error::Usage(format!(
                "{device} has no choice of schedulers: '{name}' is not '{only}'"
            )));
        }
        return Ok(vec![scheduling.scheduler()]);
    }
    Ok(arms(scheduling, &arguments.schedulers)?.names().to_vec())
}

/// These schedulers on the queues that decide, or all that they offer.
fn arms(scheduling: &Scheduling, names: &[String]) -> Result<KernelArms, Error> {
    let queues = scheduling.queues.iter().map(|layer| QueueSettings::of(&layer.name)).collect();
    Ok(KernelArms::any_number(queues, names)?.checked()?)
}

/// An error unless the named device is the one that schedules, because writes must go to no other device than the named one.
fn check_target(arguments: &ReplayArguments, scheduling: &Scheduling) -> Result<(), Error> {
    let named =
        arguments.target.canonicalize().map_err(|error| Error::file(arguments.target.display(), &error))?;
    let node = scheduling.above.node();
    if node.canonicalize().is_ok_and(|node| node == named) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} is not the device that schedules: sector numbers on {} differ; with --allow-writes, name that device or add --here",
        named.display(),
        node.display()
    )))
}

/// Properties of the device from sysfs.
struct QueueFacts {
    capacity: Sector,
    block_bytes: u64,
    is_read_only: bool,
    /// Whether it executes writes with forced unit access.
    fua: bool,
}

impl QueueFacts {
    fn of(scheduling: &Scheduling) -> Result<Self, Error> {
        let layer = &scheduling.above;
        let read = |file: &str| {
            let path = Path::new("/sys/class/block").join(&layer.name).join(file);
            std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        };
        let capacity = Sector(read("size").unwrap_or(0));
        if capacity == Sector(0) {
            return Err(Error::Usage(format!(
                "{}: has no sectors: insert a medium or attach a file first",
                layer.node().display()
            )));
        }
        // A partition has the block size of its disk.
        let of_disk = || read("../queue/logical_block_size");
        let block_bytes = read("queue/logical_block_size").or_else(of_disk).unwrap_or(4096);
        let fua = read("queue/fua").or_else(|| read("../queue/fua")) == Some(1);
        Ok(Self { capacity, block_bytes, is_read_only: read("ro") == Some(1), fua })
    }
}

/// The modelled drive for a device that has no description.
const ROTATING: &str = "wd5000aaks";
const SOLID: &str = "ssd-sata";

/// The model's results, by scheduler, and why there is none.
type Predictions = (Vec<Option<Run>>, Option<String>);

/// The model's prediction for each scheduler.
fn predict(
    arguments: &ReplayArguments,
    opened: &Opened,
    scheduling: &Scheduling,
    catalogue: Catalogue,
    names: &[String],
    at_most: Option<Duration>,
) -> Result<Predictions, Error> {
    let none = || names.iter().map(|_| None).collect();
    let default = if scheduling.above.rotational { ROTATING } else { SOLID };
    let drive = arguments.drive.as_deref().unwrap_or(default);
    if drive == "none" {
        return Ok((none(), None));
    }
    let device = Device::open(drive)?;
    let (end, capacity) = (opened.workload.end(), device.capacity());
    if end > capacity {
        let remark = format!(
            "no prediction: the workload reaches to sector {end}, and {drive} ends at {capacity}; name a larger one with --drive"
        );
        return Ok((none(), Some(remark)));
    }
    let specs: Vec<Option<Spec>> =
        names.iter().map(|name| scheduler_arg::of_kernel(catalogue, name)).collect();
    let known: Vec<Spec> = specs.iter().flatten().cloned().collect();
    let plan = Plan {
        workload: &*opened.workload,
        device: &device,
        schedulers: &known,
        options: Options { depth: device.depth(), ..Options::default() },
        before: Span::ZERO,
        at_most: at_most.map(|time| Span::from_nanos(time.as_nanos() as u64)),
        chart_requests: 0,
        explain: None,
    };
    let mut runs = run_plan(&plan, &|_| {}).map_err(Error::Failed)?.into_iter();
    let models = specs.iter().map(|spec| spec.as_ref().and_then(|_| runs.next())).collect();
    Ok((models, Some(format!("prediction: {}", device.describe()))))
}
