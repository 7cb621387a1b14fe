//! Errors of baselines.

use std::io;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that it needs is not installed on this machine.
    #[error("not available: {0}")]
    Unavailable(String),
    /// It ran, and failed or gave a wrong answer.
    #[error("{who} failed: {why}")]
    Failed {
        /// Which program.
        who: String,
        /// Its message.
        why: String,
    },
    /// Its files or processes could not be handled.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it did not work.
        error: io::Error,
    },
}

impl Error {
    /// Shorthand for [`Error::Failed`].
    pub fn failed(who: impl Into<String>, why: impl Into<String>) -> Self {
        Error::Failed { who: who.into(), why: why.into() }
    }

    /// For `map_err`: an [`Error::Io`] about `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |error| Error::Io { what, error }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
