//! Errors of a duel.

use std::io;

use server::ServeError;

/// Why a duel could not continue.
#[derive(Debug, thiserror::Error)]
pub enum DuelError {
    /// A system call or a program failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The server did not start, or failed.
    #[error(transparent)]
    Server(#[from] ServeError),
    /// An error of a helper process.
    #[error("{0}")]
    Helper(String),
    /// A required program or feature is missing.
    #[error("{0}")]
    Missing(String),
    /// An invalid scheduler or benchmark.
    #[error("{0}")]
    Usage(String),
    /// The user requested to stop.
    #[error("interrupted")]
    Interrupted,
}

impl DuelError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
