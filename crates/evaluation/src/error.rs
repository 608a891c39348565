//! Why an experiment could not run.

use std::io::{self, ErrorKind};
use std::path::Path;

use server::control::problem;

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
    pub fn file(path: impl std::fmt::Display, error: &io::Error) -> Self {
        let text = format!("{path}: {}", problem::reading(error));
        match error.kind() {
            ErrorKind::PermissionDenied => Self::Permission(text),
            _ => Self::Input(text),
        }
    }

    /// The error for a file that cannot be written.
    pub fn written(path: impl std::fmt::Display, error: &io::Error) -> Self {
        let path = path.to_string();
        let directory = Path::new(&path).parent().filter(|directory| !directory.as_os_str().is_empty());
        let why = match error.kind() {
            ErrorKind::NotFound if directory.is_some_and(|directory| !directory.exists()) => {
                "its directory does not exist; create that first".to_owned()
            }
            _ => problem::writing(error),
        };
        let text = format!("{path}: cannot be written: {why}");
        match error.kind() {
            ErrorKind::PermissionDenied => Self::Permission(text),
            _ => Self::Failed(text),
        }
    }
}
