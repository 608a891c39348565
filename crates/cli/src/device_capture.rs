//! What commands that look at a live device share.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use capture::topology::{Layer, Reach, Scheduling, Stack};
use capture::{Capture, Options, Source};
use clap::Args;
use elevator::text::counted;

use crate::error::Error;

impl From<capture::Error> for Error {
    fn from(error: capture::Error) -> Self {
        let text = error.to_string();
        match error {
            capture::Error::Device { path, .. } => Self::Usage(text + &node_meant(&path)),
            capture::Error::Foreign { .. } => Self::Overruled(text),
            capture::Error::Permission { .. } => Self::Permission(text),
            capture::Error::Kernel { .. } => Self::Kernel(text),
            capture::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Self::Permission(text)
            }
            capture::Error::Io { .. } | capture::Error::Gone(_) => Self::Failed(text),
        }
    }
}

/// `; did you mean '/dev/sda'?`, for the end of what is said of a path that is not there but names a device as sysfs does; empty
/// for any other.
pub(crate) fn node_meant(path: &Path) -> String {
    let node = Path::new("/dev").join(path);
    let is_device = node.metadata().is_ok_and(|found| found.file_type().is_block_device());
    let meant = is_device && !path.exists();
    if meant { format!("; did you mean '{}'?", node.display()) } else { String::new() }
}

/// Options of commands that change a queue or recommend a change.
#[derive(Args, Clone, Copy, Default, Debug)]
pub(crate) struct Reached {
    /// Use this device's own queue, not that of the device below it that schedules
    #[arg(long, conflicts_with = "follow")]
    here: bool,
    /// Follow a loop device down to the disk that holds its file, and change that disk's scheduler
    #[arg(long)]
    follow: bool,
}

impl Reached {
    pub(crate) const fn reach(self) -> Reach {
        match self {
            Self { here: true, .. } => Reach::Here,
            Self { follow: true, .. } => Reach::Followed,
            Self { .. } => Reach::AboveLoops,
        }
    }
}

/// The queues that order a device's requests, within reach. Reports which they are.
pub(crate) fn scheduling_of(device: &Path, reach: Reach) -> Result<Scheduling, Error> {
    let stack = Stack::of(device)?;
    let scheduling = stack.scheduling_within(reach)?;
    if stack.layers().len() > 1 || scheduling.queues.len() > 1 {
        say!("{}; looking at {}", stack.describe(), scheduling.above.name);
    }
    Ok(scheduling)
}

/// Looks at a device, and says aloud how.
pub(crate) fn look(layer: &Layer, options: &Options) -> Result<Capture, Error> {
    let capture = Capture::open(&layer.node(), options)?;
    capture.notes().iter().for_each(|note| say!("{}: {note}", layer.name));
    Ok(capture)
}

/// What was left out of what a source reported, in words; `None` if nothing was.
pub(crate) fn missing(source: &impl Source) -> Result<Option<String>, Error> {
    let counts = source.counts()?;
    let left_out = [
        (counts.skipped, "left out above the rate"),
        (counts.lost, "lost as they were not fetched in time"),
        (counts.ends_lost, "whose ends were lost"),
    ];
    let left_out = left_out.into_iter().filter(|&(count, _)| count > 0);
    let all: Vec<String> = left_out.map(|(count, what)| format!("{count} {what}")).collect();
    Ok((!all.is_empty()).then(|| format!("of {}, {}", counted(counts.arrived, "request"), all.join(", "))))
}
