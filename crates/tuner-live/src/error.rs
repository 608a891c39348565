//! What can go wrong with a live device. Each says what, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why tuning ended or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device is gone: unplugged, or detached.
    #[error("{0}: is gone")]
    Gone(String),
    /// Somebody else set the scheduler meanwhile.
    #[error(
        "{device}: somebody else changed the scheduler from {ours} to {theirs}; theirs stays, and this device is left alone from now on"
    )]
    Foreign {
        /// The device.
        device: String,
        /// What had been set here.
        ours: String,
        /// What is set now.
        theirs: String,
    },
    /// The kernel, or a server, refused a setting.
    #[error("{what} = {value}: refused ({source})")]
    Refused {
        /// The setting.
        what: String,
        /// Its value.
        value: String,
        /// The answer.
        source: io::Error,
    },
    /// Every arm was refused, and what is in use is none of them.
    #[error("{device}: none of the arms can be set; the last: {last}")]
    NoArm {
        /// The device.
        device: String,
        /// Why the last one was refused.
        last: Box<Error>,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The settings before tuning cannot be stored, so nothing was changed.
    #[error("{}: {source}; the present settings cannot be stored there, so nothing was changed", path.display())]
    Backup {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database cannot be used.
    #[error("{}: {problem}", path.display())]
    Database {
        /// Its file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Something was asked for that does not exist or does not fit.
    #[error("{0}")]
    Usage(String),
    /// The device can no longer be watched.
    #[error(transparent)]
    Capture(#[from] capture::Error),
}

impl Error {
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    /// Whether it is for lack of leave.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Refused { source, .. } | Self::File { source, .. } | Self::Backup { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            Self::NoArm { last, .. } => last.is_permission(),
            Self::Capture(error) => matches!(error, capture::Error::Permission { .. }),
            _ => false,
        }
    }
}
