//! Errors of a live device. Each names what failed, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use control::problem;
use elevator::text::did_you_mean;

/// Why tuning ended or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device was unplugged or detached.
    #[error("{0}: the device was removed")]
    Gone(String),
    /// Another process has set the scheduler.
    #[error(
        "{device}: another process changed the scheduler from {ours} to {theirs}; keeping {theirs} and ending"
    )]
    Foreign {
        /// The device.
        device: String,
        /// The scheduler that this process had set.
        ours: String,
        /// The present one.
        theirs: String,
    },
    /// The kernel, or a server, rejected a setting.
    #[error("{what}: rejected '{value}' ({source})")]
    Rejected {
        /// The setting.
        what: String,
        /// Its value.
        value: String,
        /// The reason.
        source: io::Error,
    },
    /// Every arm was rejected, and the scheduler in use is none of them.
    #[error("{device}: no arm can be set; the last: {last}")]
    NoArm {
        /// The device.
        device: String,
        /// Why the last one was rejected.
        last: Box<Error>,
    },
    /// A file could not be read or written.
    #[error("{}: {}", path.display(), problem::reading(source))]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The settings before tuning cannot be stored, so nothing was changed.
    #[error("{}: {}; the present settings cannot be stored there, so nothing was changed", path.display(), problem::writing(source))]
    Backup {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The settings before a killed tuner were stored in a file that cannot be used.
    #[error("{}: {problem}; {device} is not tuned while it exists, because tuning would replace it", path.display())]
    Damaged {
        /// The device.
        device: String,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The database cannot be used.
    #[error("{}: {problem}", path.display())]
    Database {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Another process has claimed the device.
    #[error(
        "{device}: {} tunes or measures it{}",
        pid.map_or_else(|| "another process".to_owned(), process),
        ends.map_or_else(|| "; end that first".to_owned(), |s| format!(" and ends by itself within {s} s; wait for it, or end it first"))
    )]
    Claimed {
        /// The device.
        device: String,
        /// The process, if it is known.
        pid: Option<u32>,
        /// The seconds until it ends by itself, if they are known.
        ends: Option<u64>,
    },
    /// An option or argument names something that does not exist or does not fit.
    #[error("{0}")]
    Usage(String),
    /// The device cannot be watched.
    #[error(transparent)]
    Capture(#[from] capture::Error),
}

/// A process with its command line, if that can be read: `process 7 ('dwell advise /dev/sda')`.
fn process(pid: u32) -> String {
    const SHOWN: usize = 100;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default();
    let words = words.filter(|word| !word.is_empty()).map(|word| format!(" {}", word.escape_debug()));
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let line: String = program.chars().chain(words.collect::<String>().chars()).take(SHOWN).collect();
    if line.is_empty() { format!("process {pid}") } else { format!("process {pid} ('{line}')") }
}

impl Error {
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    /// The error for a file or directory that cannot be written.
    pub(crate) fn written(path: &Path, source: &io::Error) -> Self {
        let words = format!("cannot be written: {}", problem::writing(source));
        Self::file(path, io::Error::new(source.kind(), words))
    }

    /// The error for a setting that a scheduler does not have.
    pub(crate) fn no_setting<'a>(
        device: &str,
        scheduler: &str,
        setting: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.collect();
        let has = if known.is_empty() {
            "it has no settings".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        let hint = did_you_mean(setting, known.iter().copied());
        Self::Usage(format!("{device}: {scheduler} has no setting '{setting}'; {has}{hint}"))
    }

    /// Whether a permission is missing.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Rejected { source, .. } | Self::File { source, .. } | Self::Backup { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            Self::NoArm { last, .. } => last.is_permission(),
            Self::Capture(error) => matches!(error, capture::Error::Permission { .. }),
            _ => false,
        }
    }
}
