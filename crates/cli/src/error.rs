//! Errors and their exit codes.

use std::process::ExitCode;

/// Exit code after Ctrl-C, with partial results.
pub(crate) const INTERRUPTED: u8 = 130;

/// Exit code when another program changed a device that the tuner controls. The unit in `packaging/` does not restart after it.
const OVERRULED: u8 = 7;

/// An error that ends the program. Each prints as one line: what happened, to what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation failed that should have succeeded.
    #[error("{0}")]
    Failed(String),
    /// The command line names something that does not exist or does not fit.
    #[error("{0}")]
    Usage(String),
    /// A file has the wrong content.
    #[error("{0}")]
    Input(String),
    /// The process lacks a permission.
    #[error("{0}")]
    Permission(String),
    /// The kernel lacks a feature.
    #[error("{0}")]
    Kernel(String),
    /// Another program controls the device now; a restart must not override it.
    #[error("{0}")]
    Overruled(String),
    /// The user pressed Ctrl-C; results so far have been printed.
    #[error("interrupted: the results above are partial")]
    Interrupted,
    /// The user pressed Ctrl-C; the results so far are stored, and the same command continues.
    #[error("interrupted: complete runs are kept; the same command continues")]
    Suspended,
    /// The reader of standard output closed it, which is not reported.
    #[error("")]
    Pipe,
}

impl Error {
    /// 1 failed, 2 usage, 4 kernel feature missing, 5 permission, 6 bad input, 7 device changed or used by another program, 130 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Kernel(_) => 4,
            Self::Permission(_) => 5,
            Self::Input(_) => 6,
            Self::Overruled(_) => OVERRULED,
            Self::Interrupted | Self::Suspended => INTERRUPTED,
            Self::Pipe => 0,
        })
    }

    /// The error for a file that cannot be read.
    pub(crate) fn file(path: impl std::fmt::Display, error: &std::io::Error) -> Self {
        evaluation::Error::file(path, error).into()
    }

    /// The error for a file that cannot be written.
    pub(crate) fn written(path: impl std::fmt::Display, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => evaluation::Error::written(path, error).into(),
        }
    }
}

impl From<evaluation::Error> for Error {
    fn from(error: evaluation::Error) -> Self {
        match error {
            evaluation::Error::Failed(text) => Self::Failed(text),
            evaluation::Error::Usage(text) => Self::Usage(text),
            evaluation::Error::Input(text) => Self::Input(text),
            evaluation::Error::Permission(text) => Self::Permission(text),
            evaluation::Error::Interrupted => Self::Interrupted,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Failed(format!(
                "standard output: cannot be written: {}",
                server::control::problem::writing(&error)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_does_not_restart_an_overruled_tuner() {
        let (device, ours, theirs) = ("sda".to_owned(), "none".to_owned(), "bfq".to_owned());
        let overruled = Error::from(tuner_live::Error::Foreign { device, ours, theirs });
        assert!(matches!(overruled, Error::Overruled(_)), "{overruled:?}");
        let unit = include_str!("../../../packaging/dwell-tune@.service");
        assert!(unit.contains(&format!("\nRestartPreventExitStatus={OVERRULED}\n")));
    }
}
