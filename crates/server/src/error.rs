//! Errors at the start and at the end of a server.

use std::io;
use std::path::{Path, PathBuf};

/// Why a server did not start, or did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file or device is rejected to protect its data.
    #[error("{}: {problem}", path.display())]
    Refused {
        path: PathBuf,
        /// The reason, and what to do.
        problem: String,
    },
    /// A file or device is missing or unsuitable.
    #[error("{}: {problem}", path.display())]
    Unfit {
        path: PathBuf,
        /// Why, and what would help.
        problem: String,
    },
    /// The served block device was removed.
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
