//! Why an experiment could not run.

/// An error that ends a command. Each prints as one line that says what happened, to what, and what to do.
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
    /// The user pressed Ctrl-C; results so far are valid.
    #[error("interrupted: the results above are partial")]
    Interrupted,
}

impl Error {
    /// The error for a file that cannot be read.
    pub fn file(path: impl std::fmt::Display, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::Permission(format!("{path}: {error}")),
            _ => Self::Input(format!("{path}: {error}")),
        }
    }

    /// The error for a file that cannot be written.
    pub fn written(path: impl std::fmt::Display, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::Permission(format!("{path}: {error}")),
            std::io::ErrorKind::NotFound => Self::Failed(format!(
                "{path}: cannot be written: its directory does not exist; create that first"
            )),
            _ => Self::Failed(format!("{path}: cannot be written: {error}")),
        }
    }
}
