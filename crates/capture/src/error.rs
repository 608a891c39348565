//! Errors of observing a live device.

use std::io;
use std::path::PathBuf;

/// Each names what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device was unplugged or detached.
    #[error("{}: the device was removed", .0.display())]
    Gone(PathBuf),
    /// There is no such block device.
    #[error("{}: {problem}", path.display())]
    Device {
        /// The name.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another process set the scheduler during the measurement.
    #[error(
        "{device}: another process changed the scheduler from {ours} to {theirs} during the measurement; keeping {theirs}"
    )]
    Foreign {
        device: String,
        /// The scheduler that this process had set.
        ours: String,
        /// The present one.
        theirs: String,
    },
    /// `none` gave different results from round to round.
    #[error(
        "{}: {why}, so that schedulers cannot be compared: a cache filled, or other programs used the device; measure again while it is idle",
        path.display()
    )]
    Unsteady {
        /// The device.
        path: PathBuf,
        /// The results.
        why: String,
    },
    /// A permission is missing.
    #[error("{what}: not permitted; needs {needs}")]
    Permission {
        /// The operation.
        what: String,
        /// The missing capability or setting.
        needs: &'static str,
    },
    /// The kernel is not able to.
    #[error("{what}: {problem}")]
    Kernel {
        /// The operation.
        what: String,
        /// The reason.
        problem: String,
    },
    /// A file or a device could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The reason.
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
