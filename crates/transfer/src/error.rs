//! Why data could not be moved.

use perdura::OpenError;
use perdura::draft::DraftError;
use perdura_server::transfer::TransferError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why data could not be moved. Nothing has the new file's name then.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pool could not be opened, or made.
    #[error("{}", opening(.path, .source))]
    Open {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: OpenError,
    },
    /// A pool was left by an engine without a log.
    #[error(
        "{}: the pool was in use with the engine '{engine}', which keeps no log, when its process ended: its contents are undefined; go back to a copy", .path.display()
    )]
    Undefined {
        /// Its file.
        path: PathBuf,
        /// The engine.
        engine: String,
    },
    /// The new file could not be made.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// A transaction on one of the pools failed.
    #[error(transparent)]
    Pool(#[from] perdura::Error),
    /// The server's keyspace could not be moved.
    #[error(transparent)]
    Keyspace(TransferError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The pool that is read is damaged.
    #[error(
        "the pool is damaged: {0}; `perdura pool check` lists what is wrong; go back to a copy"
    )]
    Damaged(String),
    /// A root is of a program's own kind.
    #[error(
        "the root '{name}' is of kind {kind}, which is a program's own: what it leads to is known to that program alone; {advice}"
    )]
    UnknownRoot {
        /// Its name.
        name: String,
        /// Its kind.
        kind: u32,
        /// The remedy.
        advice: &'static str,
    },
    /// There are objects that no root owns.
    #[error(
        "{blocks} allocated blocks{what} belong to none of the roots' collections: values in these are probably offsets of a program's own objects (or the blocks are leaked), which would lead nowhere elsewhere; {advice}"
    )]
    Hidden {
        /// How many.
        blocks: u64,
        /// The kind of those that stored offsets lead to.
        what: String,
        /// The remedy.
        advice: &'static str,
    },
    /// The data does not fit.
    #[error("the data does not fit into a pool of {size} bytes: {needs}")]
    TooSmall {
        /// The size that was asked for.
        size: u64,
        /// The size that would do.
        needs: String,
    },
    /// A size that cannot be, with offsets as they are.
    #[error("{0}")]
    Size(String),
    /// Both forms have something to say.
    #[error(
        "the pool has a server's data and collections: export them one after the other (`perdura pool export --format resp`, then `json`), or use `perdura pool copy`"
    )]
    TwoForms,
    /// There is nothing in the chosen form.
    #[error("{0}")]
    Nothing(&'static str),
    /// The input cannot be imported.
    #[error("line {line}: {what}")]
    Line {
        /// Where it stands, from 1.
        line: u64,
        /// The fault, and a remedy.
        what: String,
    },
    /// The copy differs from its source.
    #[error(
        "root '{name}': {found} entries were copied, and {expected} should have been: this is a fault in perdura itself, please report it"
    )]
    Count {
        /// The root.
        name: String,
        /// Entries that were copied.
        found: u64,
        /// Entries that should have been.
        expected: u64,
    },
    /// It was ended by its caller.
    #[error("stopped")]
    Stopped,
}

/// The text of `Display`, which `main` and `unwrap` print.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<TransferError> for Error {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Pool(error) => Error::Pool(error),
            TransferError::File(error) => Error::File(error),
            TransferError::Stopped => Error::Stopped,
            other => Error::Keyspace(other),
        }
    }
}

/// An opening's failure with the file's name, once.
fn opening(path: &Path, source: &OpenError) -> String {
    let (path, source) = (path.display().to_string(), source.to_string());
    if source.starts_with(&path) { source } else { format!("{path}: {source}") }
}

/// The advice where contents cannot be copied one by one.
pub(crate) const COPY_PAGES: &str =
    "`perdura pool copy --keep-offsets` takes all pages as they are";
/// And where they are to be written down.
pub(crate) const EXPORT_NOT: &str = "such a pool cannot be exported; `perdura pool copy --keep-offsets` takes all pages as they are";

/// Runs a body of a transaction whose errors may be others than a transaction's.
pub(crate) fn with_cause<R>(
    run: impl FnOnce(&mut dyn FnMut(Result<(), Error>) -> perdura::Result<()>) -> perdura::Result<R>,
) -> Result<R, Error> {
    let mut cause = None;
    let done = run(&mut |done| {
        done.map_err(|error| {
            cause = Some(error);
            perdura::Error::Aborted("the transfer has ended".to_owned())
        })
    });
    match (done, cause) {
        (Err(_), Some(cause)) => Err(cause),
        (done, _) => Ok(done?),
    }
}
