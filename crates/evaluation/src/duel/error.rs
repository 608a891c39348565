//! What can go wrong in a duel.

use std::io;

use server::ServeError;

/// Why a duel could not go on.
#[derive(Debug, thiserror::Error)]
pub enum DuelError {
    /// A system call or a program failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server did not start or broke.
    #[error(transparent)]
    Server(#[from] ServeError),
    /// A process of ours said what is wrong.
    #[error("{0}")]
    Helper(String),
    /// Something that is needed is not here.
    #[error("{0}")]
    Missing(String),
    /// A scheduler or benchmark that cannot be.
    #[error("{0}")]
    Usage(String),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl DuelError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
