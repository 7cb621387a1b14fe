//! Moving the keyspace from one pool to another, or into a file and back: as records, each of which is a command
//! of Redis.
//!
//! Reading order: `record` (the unit that moves), `read` (from a pool), `load` (into a pool, in bounded transactions),
//! `resp` (as bytes), `stream` (from bytes); then their use.
//!
//! An export is a stream of commands as Redis's append-only file has them, so that `redis-cli --pipe` and Redis itself
//! can load it. It begins and ends with an ECHO, by which an import knows that nothing is missing; streams of Redis's own
//! have none, and are taken as they are. `redis`: all that a Redis leaves, which takes every command.

mod copy;
pub(crate) mod load;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod redis;
pub(crate) mod resp;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use copy::{copy, export, import};
pub use load::Loaded;
pub use read::is_keyspace;
pub use redis::{SNAPSHOT, import_redis};

use perdura::Error;
use std::path::PathBuf;
use std::{fmt, io};

/// Called with the number of bytes moved so far; false ends the transfer with [`TransferError::Stopped`].
pub type Going<'a> = dyn FnMut(u64) -> bool + 'a;

/// Why the keyspace could not be moved.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// One of the pools failed.
    #[error(transparent)]
    Pool(#[from] Error),
    /// The keyspace is another program's.
    #[error("{0}")]
    Keyspace(String),
    /// The file, or the writer, failed.
    #[error("{0}")]
    File(#[from] io::Error),
    /// The input cannot be imported.
    #[error("at byte {at}: {what}")]
    Bad {
        /// Where the command begins.
        at: u64,
        /// The fault, and a remedy.
        what: String,
    },
    /// The input has something that this program cannot keep.
    #[error("at byte {at}: {what}")]
    Foreign {
        /// Where.
        at: u64,
        /// The thing.
        what: String,
    },
    /// The input ends too early.
    #[error("cut off at byte {at}: {what}; get the whole file, or export it again")]
    Cut {
        /// Where the last whole command ends.
        at: u64,
        /// The missing part.
        what: String,
    },
    /// A folder of Redis's files cannot be read.
    #[error("{}: {what}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The fault, and a remedy.
        what: String,
    },
    /// There are not as many keys as there should be.
    #[error(
        "{found} keys are there, and {expected} should be: this is a fault in perdura itself, please report it"
    )]
    Count {
        /// Keys that there are.
        found: u64,
        /// Keys that there should be.
        expected: u64,
    },
    /// It was ended by its caller.
    #[error("stopped")]
    Stopped,
}

impl TransferError {
    /// With the name of the file that has the fault, one of several.
    fn in_file(self, name: &str) -> Self {
        match self {
            TransferError::Bad { at, what } => {
                TransferError::Bad { at, what: format!("{what} (in {name})") }
            }
            TransferError::Foreign { at, what } => {
                TransferError::Foreign { at, what: format!("{what} (in {name})") }
            }
            TransferError::Cut { at, what } => {
                TransferError::Cut { at, what: format!("{what} (in {name})") }
            }
            other => other,
        }
    }
}

/// The text of `Display`, which `main` and `unwrap` print.
impl fmt::Debug for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs a body of a transaction whose errors may be others than a transaction's.
fn with_cause<R>(
    run: impl FnOnce(
        &mut dyn FnMut(Result<(), TransferError>) -> perdura::Result<()>,
    ) -> perdura::Result<R>,
) -> Result<R, TransferError> {
    let mut cause = None;
    let done = run(&mut |done| {
        done.map_err(|error| {
            cause = Some(error);
            Error::Aborted("the transfer has ended".to_owned())
        })
    });
    match (done, cause) {
        (Err(_), Some(cause)) => Err(cause),
        (done, _) => Ok(done?),
    }
}
