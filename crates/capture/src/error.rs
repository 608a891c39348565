//! What can go wrong when a live device is looked at.

use std::io;
use std::path::PathBuf;

/// Each says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device was there, and is gone: unplugged, or detached.
    #[error("{}: is gone", .0.display())]
    Gone(PathBuf),
    /// There is no such block device.
    #[error("{}: {problem}", path.display())]
    Device {
        /// What was named.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody else set the scheduler while it was measured.
    #[error(
        "{device}: somebody else changed the scheduler from {ours} to {theirs} while it was measured; theirs stays"
    )]
    Foreign {
        /// The device.
        device: String,
        /// What had been set here.
        ours: String,
        /// What is set now.
        theirs: String,
    },
    /// There is no leave to do this.
    #[error("{what}: not permitted; needs {needs}")]
    Permission {
        /// What was tried.
        what: String,
        /// Which capability or setting it takes.
        needs: &'static str,
    },
    /// The kernel cannot.
    #[error("{what}: {problem}")]
    Kernel {
        /// What was tried.
        what: String,
        /// Its answer.
        problem: String,
    },
    /// A file or a device could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The answer.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }

    pub(crate) fn device(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Device { path: path.into(), problem: problem.into() }
    }

    pub(crate) fn kernel(what: impl Into<String>, problem: impl ToString) -> Self {
        Self::Kernel { what: what.into(), problem: problem.to_string() }
    }
}
