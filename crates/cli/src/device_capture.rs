//! Code that commands for live devices share.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use capture::topology::{Layer, Reach, Scheduling, Stack, together};
use capture::{Capture, Options, Source};
use clap::Args;
use elevator::text::counted;
use tuner_live::arms::{Arms, KernelArms};
use tuner_live::{QueueSettings, settings_backup};

use crate::error::Error;

impl From<capture::Error> for Error {
    fn from(error: capture::Error) -> Self {
        let text = error.to_string();
        match error {
            capture::Error::Device { path, .. } => Self::Usage(text + &node_meant(&path)),
            capture::Error::Foreign { .. } => Self::Overruled(text),
            capture::Error::Unsteady { .. } => Self::Failed(text),
            capture::Error::Permission { .. } => Self::Permission(text),
            capture::Error::Kernel { .. } => Self::Kernel(text),
            capture::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Self::Permission(text)
            }
            capture::Error::Io { .. } | capture::Error::Gone(_) => Self::Failed(text),
        }
    }
}

/// The hint `; did you mean '/dev/sda'?` for a path that does not exist but is the sysfs name of a device; empty otherwise.
pub(crate) fn node_meant(path: &Path) -> String {
    let node = Path::new("/dev").join(path);
    let is_device = node.metadata().is_ok_and(|found| found.file_type().is_block_device());
    let is_sysfs_name = is_device && !path.exists();
    if is_sysfs_name { format!("; did you mean '{}'?", node.display()) } else { String::new() }
}

/// Which queue a command uses. Without an option: down partitions, device mapper and RAID, but not below a loop device.
#[derive(Args, Clone, Copy, Default, Debug)]
pub(crate) struct Reached {
    /// Use this device itself, not the device below it that schedules; a loop device is used itself in any case
    #[arg(long, conflicts_with = "follow")]
    here: bool,
    /// Follow a loop device down to the disk that holds its file, and use that disk
    #[arg(long)]
    follow: bool,
}

impl Reached {
    /// The option that was given, with a space before it.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self { here: true, .. } => " --here",
            Self { follow: true, .. } => " --follow",
            Self { .. } => "",
        }
    }

    pub(crate) const fn reach(self) -> Reach {
        match self {
            Self { here: true, .. } => Reach::Here,
            Self { follow: true, .. } => Reach::Followed,
            Self { .. } => Reach::AboveLoops,
        }
    }
}

/// The scheduler of a layer, with the settings by which the tuner distinguishes schedulers: `bfq{low_latency=0}`.
pub(crate) fn scheduler_of(layer: &Layer) -> Option<String> {
    let plain = layer.scheduler.clone()?;
    let arms = KernelArms::for_tuning(vec![QueueSettings::of(&layer.name)], &[]);
    Some(arms.and_then(|mut arms| arms.current()).unwrap_or(plain))
}

/// The schedulers in use of the queues, with those settings.
pub(crate) fn schedulers_of(scheduling: &Scheduling) -> String {
    let in_use = |layer: &Layer| scheduler_of(layer).unwrap_or_else(|| "none".to_owned());
    together(scheduling.queues.iter().map(|layer| (&*layer.name, in_use(layer))))
}

/// The queues within reach that order a device's requests. Prints the stack if it has several layers or queues.
pub(crate) fn scheduling_of(device: &Path, reach: Reach) -> Result<Scheduling, Error> {
    let stack = Stack::of(device)?;
    let scheduling = stack.scheduling_within(reach)?;
    if stack.layers().len() > 1 || scheduling.queues.len() > 1 {
        say!("{}; observing {}", stack.describe_with(&scheduler_of), scheduling.above.name);
    }
    Ok(scheduling)
}

/// As [`scheduling_of`], to observe it only: a device without a choice of schedulers, or above unlike ones, is observed itself.
pub(crate) fn observed(device: &Path, reach: Reach) -> Result<Scheduling, Error> {
    let found = scheduling_of(device, reach);
    if reach == Reach::AboveLoops { found.or_else(|_| scheduling_of(device, Reach::Here)) } else { found }
}

/// Restores what killed tuners left on these queues; prints and returns a line each, also for other devices with such settings.
pub(crate) fn restore_leftovers<'a>(queues: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (backups, queues) = (Path::new(settings_backup::DIRECTORY), queues.collect::<Vec<_>>());
    let lines = settings_backup::restore_leftovers(backups, Path::new("/sys/block"), &queues);
    lines.iter().for_each(|line| say!("{line}"));
    lines
}

/// Restores what killed tuners left on the queues, so that it does not count as the previous settings, and claims the queues that `switches` is true
/// for: a running tuner would switch during the measurement, and mistake the switches of the measurement for those of another program.
pub(crate) fn claim_queues(scheduling: &Scheduling, switches: bool) -> Result<Vec<File>, Error> {
    restore_leftovers(scheduling.queues.iter().map(|layer| &*layer.name));
    let switched = scheduling.queues.iter().filter(|_| switches);
    Ok(switched.map(|layer| QueueSettings::of(&layer.name).claim()).collect::<Result<_, _>>()?)
}

/// Opens a capture of a device, and prints its notes.
pub(crate) fn open_capture(layer: &Layer, options: &Options) -> Result<Capture, Error> {
    let capture = Capture::open(&layer.node(), options)?;
    capture.notes().iter().for_each(|note| say!("{}: {note}", layer.name));
    Ok(capture)
}

/// The requests that the source did not report, in words; `None` if it reported all.
pub(crate) fn missing(source: &impl Source) -> Result<Option<String>, Error> {
    let counts = source.counts()?;
    let left_out = [
        (counts.skipped, "request", "left out above the rate"),
        (counts.lost, "request", "lost because they were not read in time"),
        (counts.ends_lost, "completion", "lost"),
    ];
    let left_out = left_out.into_iter().filter(|&(count, ..)| count > 0);
    let all: Vec<String> =
        left_out.map(|(count, what, why)| format!("{} {why}", counted(count, what))).collect();
    // The source counts requests also after the end of what was recorded, so that their number would contradict the recording's.
    Ok((!all.is_empty()).then(|| format!("incomplete: {}", all.join(", "))))
}
