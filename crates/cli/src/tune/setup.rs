//! Builds the observation of the device and the decider from the command line.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capture::topology::{DeviceType, Layer, Reach, Scheduling, Stack, honours_priorities};
use capture::{Backend, Capture, Options, Source, devices_below};
use clap::ValueEnum;
use elevator::text::did_you_mean;
use elevator::{Sector, Span};
use schedulers::registry::Catalogue;
use server::control::{Client, array_of};
use tuner::{Analyser, Better, DeciderName, LatencyClass, LatencyStatistic, Metric, Parameters, Random};
use tuner_live::arms::{Arms, KernelArms, ServedArms};
use tuner_live::settings_backup::{self, LeftBehind, SettingsBackup};
use tuner_live::{Cgroups, Counters, FairnessUnit, QueueSettings, ThreadGroups, Windower, identity, outside};

use super::args::{DeciderArgument, MetricName, Watching};
use crate::commands::ctl::no_server;
use crate::commands::profile;
use crate::device_capture;
use crate::error::Error;
use crate::input::quantity::span;
use crate::input::scheduler_arg::{self, Host, specs};

/// The device to tune.
pub(super) struct Target {
    pub(super) stack: Stack,
    /// The layer that is watched: the device itself, or the disk below it.
    pub(super) layer: Layer,
    /// The queue of the disk, or of each member of an array.
    pub(super) queues: Vec<QueueSettings>,
    /// Its name in the database.
    pub(super) drive: String,
    /// The members of an array that no block device joins, as under btrfs: they are watched together, and `layer` is the first one.
    pub(super) members: Vec<Layer>,
}

impl From<tuner_live::Error> for Error {
    fn from(error: tuner_live::Error) -> Self {
        let text = error.to_string();
        match error {
            tuner_live::Error::Capture(error) => Self::from(error),
            _ if error.is_permission() && text.contains("as root") => Self::Permission(text),
            _ if error.is_permission() => Self::Permission(format!("{text}; run it as root")),
            tuner_live::Error::Usage(_) | tuner_live::Error::NoArm { .. } => Self::Usage(text),
            tuner_live::Error::Database { .. } => Self::Input(text),
            tuner_live::Error::Foreign { .. } | tuner_live::Error::Claimed { .. } => Self::Overruled(text),
            tuner_live::Error::Rejected { .. } => Self::Kernel(text),
            _ => Self::Failed(text),
        }
    }
}

impl Target {
    /// By its node, or by its members, if `--control` names the socket of an array.
    pub(super) fn find(device: &Path, watching: &Watching) -> Result<Self, Error> {
        match Self::of_array(device, watching)? {
            Some(array) => Ok(array),
            None => Self::of_node(device, watching.reached.reach()),
        }
    }

    /// The array whose socket `--control` names, if the path is one of its members, or on a file system of several of them. An error if the socket
    /// serves other devices, or one of several.
    fn of_array(path: &Path, watching: &Watching) -> Result<Option<Self>, Error> {
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let below = devices_below(&path);
        let Some(socket) = &watching.control else { return served_below(&path, &below).map(|()| None) };
        // A server that does not answer, or serves one device, is reported later.
        let Ok(mut client) = Client::connect(socket) else { return Ok(None) };
        let Ok(array) = client.array() else {
            let member = client.show().ok().and_then(|state| state.member);
            return member.map_or(Ok(()), |member| is_member(&path, &below, socket, member)).map(|()| None);
        };
        let devices: Vec<PathBuf> = array.members.iter().filter_map(|member| member.device.clone()).collect();
        let is_on = below.len() > 1 && below.iter().all(|device| devices.contains(device));
        if devices.len() < 2 || !(is_on || devices.contains(&path)) {
            return match devices.is_empty() || devices.iter().any(|device| uses(&path, device)) {
                true => Ok(None),
                false => Err(Error::Usage(format!(
                    "{}: serves an array whose members are {}, and {} is on none of them; name the device of md or LVM on them, one of them, or the \
                     mount point of a btrfs on them",
                    socket.display(),
                    displayed(&devices),
                    path.display()
                ))),
            };
        }
        let stacks = devices.iter().map(|device| Stack::of(device)).collect::<Result<Vec<_>, _>>()?;
        let members: Vec<Layer> = stacks.iter().map(|stack| stack.itself().clone()).collect();
        let queues: Vec<QueueSettings> = members.iter().map(|layer| QueueSettings::of(&layer.name)).collect();
        let sectors = queues.iter().filter_map(QueueSettings::sectors).sum::<u64>();
        let name = array.layout.unwrap_or_else(|| format!("array of {} members", devices.len()));
        let (Some(layer), Some(stack)) = (members.first().cloned(), stacks.into_iter().next()) else {
            return Ok(None);
        };
        Ok(Some(Self { stack, layer, queues, drive: format!("{name}, {sectors} sectors"), members }))
    }

    /// The name of the watched device, or of the members that are watched together: `loop0+loop1`.
    pub(super) fn name(&self) -> String {
        match &*self.members {
            [] => self.layer.name.clone(),
            members => members.iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>().join("+"),
        }
    }

    /// The stack as text, or what joins the members.
    pub(super) fn describe(&self) -> String {
        match &*self.members {
            [] => self.stack.describe_with(&device_capture::scheduler_of),
            _ => format!("{}: {}", self.name(), self.drive),
        }
    }

    /// The kernel's counters of what is watched.
    pub(super) fn counters(&self) -> Option<Counters> {
        let block = Path::new("/sys/block");
        let names: Vec<&str> = self.members.iter().map(|layer| layer.name.as_str()).collect();
        if names.is_empty() {
            Counters::within(block, &self.layer.name)
        } else {
            Counters::of_several(block, &names)
        }
    }

    /// By its node.
    pub(super) fn of_node(device: &Path, reach: Reach) -> Result<Self, Error> {
        let stack = Stack::of(device).map_err(|error| match device.is_file() {
            true => Error::Usage(format!(
                "{error}; 'dwell trace patterns' shows what the tuner would recognise in a recording"
            )),
            false => error.into(),
        })?;
        Self::over(stack, reach)
    }

    /// By its node, or by a file or directory that it holds.
    pub(super) fn holding(path: &Path, watching: &Watching) -> Result<Self, Error> {
        match Self::of_array(path, watching)? {
            Some(array) => Ok(array),
            None => Self::over(Stack::holding(path)?, watching.reached.reach()),
        }
    }

    fn over(stack: Stack, reach: Reach) -> Result<Self, Error> {
        let scheduling = stack.scheduling_within(reach)?;
        let drive = identity::of(Path::new("/sys/block"), &scheduling);
        let Scheduling { above: layer, queues } = scheduling;
        let queues = queues.iter().map(|queue| QueueSettings::of(&queue.name)).collect();
        Ok(Self { stack, layer, queues, drive, members: Vec::new() })
    }

    /// Whether settings of its queues are recorded, to be restored.
    pub(super) fn has_backup(&self, backups: &Path) -> bool {
        self.queues.iter().any(|queue| settings_backup::is_kept(backups, queue))
    }

    /// Claims its queues until the files are closed.
    pub(super) fn claim(&self) -> Result<Vec<File>, tuner_live::Error> {
        self.queues.iter().map(QueueSettings::claim).collect()
    }

    /// Reasons why the choice of a scheduler may have no effect on this device. They concern the kernel's queue, so that `--control` has none.
    pub(super) fn doubts(&self, watching: &Watching) -> Vec<String> {
        if watching.control.is_some() {
            return Vec::new();
        }
        let own = self.stack.scheduling().map_or_else(|_| Vec::new(), |of| doubts(&of));
        self.served().into_iter().chain(own).collect()
    }

    /// A note if the queues are those of attached members of an array that `dwell serve` serves: the schedulers behind them are to be chosen.
    fn served(&self) -> Option<String> {
        let mut attached =
            self.queues.iter().map(QueueSettings::name).filter(|name| name.starts_with("loop"));
        let member = attached.next()?;
        let socket = array_of(&Path::new("/dev").join(member))?;
        let top = self.stack.layers()[0].node();
        // What md or LVM has made of it. A btrfs is named by any of its members.
        let holder = if top == Path::new("/dev").join(member) { holder(member) } else { None };
        let device = holder.unwrap_or(top).display().to_string();
        Some(format!(
            "{member} is a member of an array that dwell serves: the kernel's schedulers are in front of those of the members; for these, name the \
             array and its socket: {device} --control {}",
            socket.display()
        ))
    }

    /// What a killed tuner left on its queues, and a line for each backup that is of no use.
    pub(super) fn left_behind(&self) -> (Vec<LeftBehind>, Vec<String>) {
        let backups = Path::new(settings_backup::DIRECTORY);
        let (mut left, mut unusable) = (Vec::new(), Vec::new());
        for queue in &self.queues {
            match settings_backup::left_behind(backups, queue) {
                Ok(found) => left.extend(found),
                Err(found) => unusable.push(format!("{found}; {}", found.remedy())),
            }
        }
        (left, unusable)
    }

    /// The same as lines with the remedies.
    pub(super) fn left_behind_in_words(&self) -> impl Iterator<Item = String> {
        let (left, unusable) = self.left_behind();
        left.into_iter().map(|left| left.with_remedy()).chain(unusable)
    }

    /// Restores what a killed tuner left on its queues; prints and returns a line each, also for other devices that have such settings.
    pub(super) fn restore_leftovers(&self) -> Vec<String> {
        device_capture::restore_leftovers(self.queues.iter().map(QueueSettings::name))
    }

    /// An error if the profile is of another device.
    pub(super) fn has_profile(&self, watching: &Watching) -> Result<(), Error> {
        let Some(path) = &watching.profile else { return Ok(()) };
        let Layer { name, rotational, .. } = &self.layer;
        let size = std::fs::read_to_string(Path::new("/sys/class/block").join(name).join("size"));
        let Some(sectors) = size.ok().and_then(|size| size.trim().parse().ok()) else { return Ok(()) };
        profile::is_of(path, &profile::read_steady(path)?, name, (Sector(sectors).bytes(), *rotational))
    }

    /// Watches the queue for `metric`.
    pub(super) fn watch(&self, window: Duration, metric: Metric) -> Result<Windower<Capture>, Error> {
        self.watch_through(window, metric, |capture| capture)
    }

    /// The same; `through` wraps each capture.
    pub(super) fn watch_through<S: Source + 'static>(
        &self,
        window: Duration,
        metric: Metric,
        through: impl Fn(Capture) -> S + 'static,
    ) -> Result<Windower<S>, Error> {
        let options = Options { completions: true, ..Options::default() };
        let node = self.layer.node();
        let members: Vec<PathBuf> = self.members.iter().map(Layer::node).collect();
        let mut is_first = true;
        let open = move || {
            let capture = match &*members {
                [] => Capture::open(&node, &options)?,
                members => Capture::open_several(members, &options)?,
            };
            if std::mem::take(&mut is_first) {
                capture.notes().iter().for_each(|note| say!("{note}"));
            }
            Ok(through(capture))
        };
        let windows = Windower::new(open, window)?;
        let unit = match metric {
            Metric::CgroupFairness => FairnessUnit::Cgroups(Cgroups::new("/proc")),
            // The tracer reports threads, not processes.
            Metric::Fairness if windows.backend() != Some(Backend::Bpf) => {
                FairnessUnit::Threads(ThreadGroups::new("/proc"))
            }
            _ => FairnessUnit::Processes,
        };
        Ok(windows.among(unit))
    }
}

/// The block device that is made of a disk, if there is one.
fn holder(disk: &str) -> Option<PathBuf> {
    let mut holders = std::fs::read_dir(format!("/sys/block/{disk}/holders")).ok()?.flatten();
    holders.next().map(|holder| Path::new("/dev").join(holder.file_name()))
}

/// Paths in a message.
pub(super) fn displayed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Whether a device, or that of a file or directory, is another device or is made of it.
fn uses(path: &Path, device: &Path) -> bool {
    let number = Stack::of(device).map(|stack| stack.layers()[0].number);
    number.is_ok_and(|number| Stack::holding(path).is_ok_and(|stack| stack.contains(number)))
}

/// An error with the socket of the array for a file system of several members: its devices (`below`) have no common queue.
fn served_below(path: &Path, below: &[PathBuf]) -> Result<(), Error> {
    let socket = below.get(1).and_then(|_| below.iter().find_map(|device| array_of(device)));
    match socket {
        Some(socket) => Err(Error::Usage(format!(
            "{0}: is on {1}, members of an array that dwell serves; name its socket: {0} --control {2}",
            path.display(),
            displayed(below),
            socket.display()
        ))),
        None => Ok(()),
    }
}

/// An error if this member's socket is not that of the device. The array's is the same without the number.
fn is_member(path: &Path, below: &[PathBuf], socket: &Path, member: u32) -> Result<(), Error> {
    let name = socket.to_str().and_then(|name| name.strip_suffix(&format!(".{member}")));
    let array = name.and_then(|name| Client::connect(Path::new(name)).and_then(|mut of| of.array()).ok());
    let (Some(name), Some(array)) = (name, array) else { return Ok(()) };
    let of_array = std::path::absolute(name).unwrap_or_else(|_| name.into());
    let devices: Vec<(u32, PathBuf)> =
        (0..).zip(array.members).filter_map(|(index, of)| Some((index, of.device?))).collect();
    let Some((_, own)) = devices.iter().find(|(index, _)| *index == member) else { return Ok(()) };
    let used = |device: &PathBuf| below.contains(device) || device == path || uses(path, device);
    let found: Vec<&(u32, PathBuf)> = devices.iter().filter(|(_, device)| used(device)).collect();
    let is = match &*found {
        [(index, _)] if *index == member => return Ok(()),
        [] => "is another device".to_owned(),
        [(index, _)] => format!("is member {index}, whose socket is {}.{index}", of_array.display()),
        several => format!("is on {} members", several.len()),
    };
    Err(Error::Usage(format!(
        "{}: is the socket of member {member}, {}, and {} {is}; the socket of the whole array is {}",
        socket.display(),
        own.display(),
        path.display(),
        of_array.display()
    )))
}

/// The arms; `backups` hold the previous settings of the kernel's queues.
pub(super) fn arms(
    target: &Target,
    watching: &Watching,
    catalogue: Catalogue,
    backups: Vec<SettingsBackup>,
) -> Result<Box<dyn Arms>, Error> {
    let Some(socket) = &watching.control else {
        // A wrong name or setting is reported before the lack of a choice.
        let arms = KernelArms::for_tuning(target.queues.clone(), &watching.arms)?;
        let arms = arms.checked()?.with_a_choice()?;
        return Ok(Box::new(arms.with_backups(backups)));
    };
    let on_array = target.queues.len() > 1;
    let specs = match &*watching.arms {
        [] => specs(catalogue, &[], Host::Disk, true)?,
        names if on_array => {
            names.iter().map(|name| scheduler_arg::for_member(catalogue, name)).collect::<Result<_, _>>()?
        }
        names => {
            let one = |name: &String| scheduler_arg::for_one_device(catalogue, name);
            names.iter().map(one).collect::<Result<_, _>>()?
        }
    };
    // The user's spelling stays, unless the array's coordinator is added.
    let names = specs.into_iter().enumerate().map(|(index, spec)| {
        let given = watching.arms.get(index).cloned().unwrap_or_else(|| spec.to_string());
        if !on_array {
            return Ok(given);
        }
        let coordinated = scheduler_arg::coordinated(catalogue, &spec)?;
        Ok(coordinated.map_or(given, |spec| spec.to_string()))
    });
    let names = names.collect::<Result<_, Error>>()?;
    let arms = ServedArms::new(socket, &target.queues, names).and_then(ServedArms::with_a_choice);
    if let Some(member) = arms.as_ref().ok().and_then(ServedArms::member) {
        say!(
            "{}: is the socket of member {member} of an array alone; a switch leaves this member uncoordinated until the former scheduler is back",
            socket.display()
        );
    }
    let arms = arms.map_err(|error| match error {
        tuner_live::Error::File { path, source } => no_server(&path, &source),
        other => other.into(),
    });
    Ok(Box::new(arms?))
}

pub(super) fn metric(watching: &Watching) -> Metric {
    if watching.command.is_some() {
        return Metric::External(if watching.less_is_better { Better::Lower } else { Better::Higher });
    }
    match watching.metric {
        MetricName::Bandwidth => Metric::Bandwidth,
        MetricName::Iops => Metric::Iops,
        MetricName::MeanReadLatency => Metric::Latency(LatencyStatistic::Mean, LatencyClass::Reads),
        MetricName::P99ReadLatency => Metric::Latency(LatencyStatistic::P99, LatencyClass::Reads),
        MetricName::MeanWriteLatency => Metric::Latency(LatencyStatistic::Mean, LatencyClass::Writes),
        MetricName::P99WriteLatency => Metric::Latency(LatencyStatistic::P99, LatencyClass::Writes),
        MetricName::MeanSyncLatency => Metric::Latency(LatencyStatistic::Mean, LatencyClass::Synchronous),
        MetricName::P99SyncLatency => Metric::Latency(LatencyStatistic::P99, LatencyClass::Synchronous),
        MetricName::Fairness => Metric::Fairness,
        MetricName::CgroupFairness => Metric::CgroupFairness,
        MetricName::UserBandwidth => Metric::UserBandwidth,
        MetricName::UserMinusSystem => Metric::UserMinusSystem,
    }
}

/// An error if the metric cannot be measured. A command is run once for this.
pub(super) fn measurable(metric: Metric, watching: &Watching) -> Result<(), Error> {
    if let Some(command) = &watching.command {
        let patience = outside::patience(span("--window", &watching.window)?);
        let wrong = |problem| Error::Usage(format!("--command: {problem}; it must print a number in time"));
        return outside::number(command, patience).map(drop).map_err(wrong);
    }
    match metric {
        Metric::UserBandwidth | Metric::UserMinusSystem => {
            Ok(outside::user_bytes(Path::new("/proc")).map(drop)?)
        }
        _ => Ok(()),
    }
}

/// The parameters that a decider reads.
fn parameters_of(decider: DeciderArgument) -> Vec<&'static str> {
    let all = Parameters::TABLE.iter().map(|tunable| tunable.name).filter(|name| *name != "t");
    match decider {
        DeciderArgument::Kinds => Vec::new(),
        DeciderArgument::Ioanalyzer => all.collect(),
        DeciderArgument::Bandit => {
            all.filter(|name| name.starts_with("bandit_") || *name == "values").collect()
        }
    }
}

/// An error for a parameter that the decider does not read.
fn has_effect(decider: DeciderArgument, setting: &str) -> Result<(), Error> {
    let name = setting.split('=').next().unwrap_or(setting);
    if parameters_of(decider).contains(&name) {
        return Ok(());
    }
    let argument = |of: DeciderArgument| of.to_possible_value().map(|of| of.get_name().to_owned());
    let others = DeciderArgument::value_variants().iter().copied();
    let others = others.filter(|of| parameters_of(*of).contains(&name)).filter_map(argument);
    let others = others.map(|of| format!("--decider {of}")).collect::<Vec<_>>().join(" or ");
    let chosen = argument(decider).unwrap_or_default();
    Err(Error::Usage(format!(
        "--set {setting}: the decider '{chosen}' has no parameter '{name}'; add {others}, or omit --set"
    )))
}

/// Sets a parameter. The length of a window has its own option.
fn set(parameters: &mut Parameters, setting: &str) -> Result<(), Error> {
    let problem = |what: String| Error::Usage(format!("--set {setting}: {what}"));
    let (name, value) = setting.split_once('=').ok_or_else(|| problem("write NAME=VALUE".to_owned()))?;
    if name == "t" {
        return Err(problem("the length of a window is --window".to_owned()));
    }
    let known = || Parameters::TABLE.iter().filter(|tunable| tunable.name != "t");
    let Some(tunable) = known().find(|tunable| tunable.name == name) else {
        let all: Vec<&str> = known().map(|tunable| tunable.name).collect();
        let hint = did_you_mean(name, all.iter().copied());
        return Err(problem(format!("no such parameter; known: {}{hint}", all.join(", "))));
    };
    let value = tunable.parse(value).map_err(|error| problem(error.to_string()))?;
    parameters.set(name, value).map_err(|error| problem(error.to_string()))
}

/// The length of a window, and an analyser without history.
pub(super) fn analyser(
    names: &[String],
    watching: &Watching,
    seed: u64,
) -> Result<(Duration, Analyser), Error> {
    let length = span("--window", &watching.window)?;
    let t = Span::from_nanos(length.as_nanos() as u64);
    let mut parameters = Parameters { t, ..Parameters::default() };
    let wrong = |problem: String| Error::Usage(format!("--window: {}", problem.replace("tunable 't' ", "")));
    parameters.check().map_err(|problem| wrong(problem.to_string()))?;
    // A wrong name or value is reported before a parameter of another decider.
    watching.settings.iter().try_for_each(|setting| set(&mut parameters, setting))?;
    watching.settings.iter().try_for_each(|setting| has_effect(watching.decider, setting))?;
    let random = Random::new(seed);
    let made = Analyser::new(names.to_vec(), metric(watching), parameters, random);
    let made = made.map_err(|problem| Error::Usage(format!("--set or --arm: {problem}")))?;
    let made = made.with_decider(match watching.decider {
        DeciderArgument::Kinds => DeciderName::Kinds,
        DeciderArgument::Ioanalyzer => DeciderName::IoAnalyzer,
        DeciderArgument::Bandit => DeciderName::Bandit,
    });
    let profile = watching.profile.as_deref().map(profile::read_steady).transpose()?;
    Ok((
        length,
        match profile {
            Some(profile) => made.with_a_priori(profile.table(names)),
            None => made,
        },
    ))
}

/// A random seed.
pub(super) fn drawn_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// Why the choice of a scheduler may not matter in these queues, which are of one type.
fn doubts(scheduling: &Scheduling) -> Vec<String> {
    let names = scheduling.names();
    let of_type = match scheduling.queues[0].kind {
        DeviceType::Virtual => Some(format!(
            "{names}: a virtual machine's disk, whose host schedules below, and sees one process where here are many"
        )),
        DeviceType::Nvme => Some(format!(
            "{names}: an NVMe drive, which has queues of its own, and schedulers mostly cost it time"
        )),
        _ => None,
    };
    let active = |layer: &Layer| layer.scheduler.clone().unwrap_or_else(|| "none".to_owned());
    let deaf = scheduling.queues.iter().find(|layer| !honours_priorities(&active(layer)));
    let of_ionice =
        deaf.map(|layer| format!("{} has the scheduler {}, which ignores ionice", layer.name, active(layer)));
    of_type.into_iter().chain(of_ionice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_state_why_a_choice_may_not_matter() {
        let queue = |name: &str, kind, scheduler: &str| {
            Scheduling::by(&Layer {
                name: name.to_owned(),
                number: (8, 0),
                kind,
                scheduler: Some(scheduler.to_owned()),
                available: Vec::new(),
                rotational: false,
            })
        };
        assert_eq!(doubts(&queue("sda", DeviceType::Disk, "bfq")), [""; 0]);
        let ignored = ["sdb has the scheduler none, which ignores ionice"];
        assert_eq!(doubts(&queue("sdb", DeviceType::Disk, "none")), ignored);
        assert_eq!(doubts(&queue("vda", DeviceType::Virtual, "none")).len(), 2);
        let nvme = doubts(&queue("nvme0n1", DeviceType::Nvme, "mq-deadline"));
        assert!(nvme.len() == 1 && nvme[0].contains("NVMe"), "{nvme:?}");
    }

    /// Regression: parameters of another decider were accepted and ignored.
    #[test]
    fn a_parameter_of_another_decider_is_rejected() {
        let problem = |decider, setting| has_effect(decider, setting).map_err(|error| error.to_string());
        assert_eq!(
            problem(DeciderArgument::Kinds, "x=1").unwrap_err(),
            "--set x=1: the decider 'kinds' has no parameter 'x'; add --decider ioanalyzer, or omit --set"
        );
        let of_both = problem(DeciderArgument::Kinds, "bandit_rate=10%").unwrap_err();
        assert!(of_both.contains("add --decider ioanalyzer or --decider bandit,"), "{of_both}");
        assert!(problem(DeciderArgument::Bandit, "similarity=90%").unwrap_err().contains("'bandit' has no"));
        for (decider, setting) in
            [(DeciderArgument::Ioanalyzer, "x=1"), (DeciderArgument::Bandit, "bandit_best=80%")]
        {
            assert_eq!(problem(decider, setting), Ok(()));
        }
    }

    /// Regression: a command that never printed a number was accepted, and the tuner ran without effect.
    #[test]
    fn a_command_that_prints_no_number_is_rejected_at_the_start() {
        use crate::commands::{Arguments, Command};
        use clap::Parser;
        let start = |command: &str| {
            let line = ["dwell", "tune", "/dev/sda", "--window", "60s", "--command", command];
            let Command::Tune(arguments) = Arguments::parse_from(line).command else { panic!("{line:?}") };
            measurable(metric(&arguments.watching), &arguments.watching).map_err(|error| error.to_string())
        };
        assert_eq!(start("echo tps 5"), Ok(()));
        for (command, problem) in [
            ("echo abc", "--command: 'echo abc' printed no number of at most"),
            ("false", "--command: 'false' ended with exit status: 1 and printed nothing"),
        ] {
            let message = start(command).unwrap_err();
            assert!(message.starts_with(problem), "{message}");
        }
    }

    #[test]
    fn parameters_are_set_by_name_and_checked() {
        let mut parameters = Parameters::default();
        set(&mut parameters, "x=500").expect("a count");
        set(&mut parameters, "similarity=90%").expect("a share");
        assert!(parameters.x == 500 && parameters.similarity == 90);
        let message =
            |setting: &str| set(&mut Parameters::default(), setting).expect_err(setting).to_string();
        assert!(message("similarty=90%").contains("did you mean 'similarity'?"));
        assert!(message("similarity").contains("NAME=VALUE"));
        assert!(message("similarity=900").contains("similarity"));
        assert!(message("x=99999999999999999999").contains("must be from 0 to 100000"));
        assert!(message("t=1s").contains("--window"));
    }
}
