//! What can go wrong before a device serves, or while it is taken down.

use std::io;
use std::path::{Path, PathBuf};

/// Why a server did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file or device is refused, for its own good.
    #[error("{}: {problem}", path.display())]
    Refused {
        /// Which.
        path: PathBuf,
        /// Why, and what would help.
        problem: String,
    },
    /// A file or device is not what it should be, or not there.
    #[error("{}: {problem}", path.display())]
    Unfit {
        /// Which.
        path: PathBuf,
        /// Why, and what would help.
        problem: String,
    },
    /// The block device that was served was taken away.
    #[error("{} is gone", .0.display())]
    Gone(PathBuf),
    /// The configuration cannot be served.
    #[error("{0}")]
    Configuration(String),
}

impl ServeError {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }

    pub(crate) fn refused(path: &Path, problem: &str) -> Self {
        Self::Refused { path: path.to_path_buf(), problem: problem.to_string() }
    }

    pub(crate) fn unfit(path: &Path, problem: &str) -> Self {
        Self::Unfit { path: path.to_path_buf(), problem: problem.to_string() }
    }
}
