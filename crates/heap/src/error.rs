//! Errors of creating, opening and closing a pool.

use perdura_engine::EngineKind;
use perdura_memory::{Domain, MapError, Survives};
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a pool could not be opened or created. Nothing has been written to it then.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.pool");
/// use perdura::{OpenError, Options};
///
/// std::fs::write(&path, "something else")?;
/// match Options::new().open(&path) {
///     Err(OpenError::NotAPool { .. }) => println!("move it out of the way, or take another name"),
///     Err(other) => println!("{other}"),
///     Ok(_) => unreachable!("it is no pool"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file is no pool.
    #[error("{}this is not a Perdura pool ({why}); give another path, or move the file away to create a pool there", of(.path))]
    NotAPool {
        /// The file.
        path: Option<PathBuf>,
        /// Why it is not one.
        why: &'static str,
    },
    /// The pool has another format.
    #[error(
        "{}the pool has format version {found}, and this program reads version {known}; open it with a program of that version", of(.path)
    )]
    Version {
        /// The file.
        path: Option<PathBuf>,
        /// The pool's version.
        found: u64,
        /// The version that this program reads.
        known: u64,
    },
    /// The pool is damaged: it contains something impossible.
    #[error(
        "{}the pool is damaged ({what}, at offset {at:#x}); run `perdura pool check` on it, or go back to a copy", of(.path)
    )]
    Damaged {
        /// The file.
        path: Option<PathBuf>,
        /// The damaged part, and how.
        what: &'static str,
        /// Where.
        at: u64,
    },
    /// The file is shorter than its header says.
    #[error(
        "{}the pool is truncated: it has {len} bytes and needs at least {needed}; go back to a copy", of(.path)
    )]
    Truncated {
        /// The file.
        path: Option<PathBuf>,
        /// The file's length in bytes.
        len: u64,
        /// The length according to the header.
        needed: u64,
    },
    /// The pool was written by an engine that this program does not have.
    #[error(
        "{}the pool was written by the engine '{name}', which this program does not have; it has {known}", of(.path)
    )]
    UnknownEngine {
        /// The file.
        path: Option<PathBuf>,
        /// The pool's engine.
        name: String,
        /// The engines of this program.
        known: &'static str,
    },
    /// The pool requires transactions to outlive more than they would here.
    #[error(
        "{}transactions on this pool are to outlive {requires}, but here, with domain '{domain}', they would outlive only {survives}; \
         put it where it gets that, or accept less with `Options::accept_weaker`", of(.path)
    )]
    Weaker {
        /// The file.
        path: Option<PathBuf>,
        /// The failures that transactions must outlive.
        requires: Survives,
        /// Those that they would outlive.
        survives: Survives,
        /// The persistence domain.
        domain: Domain,
    },
    /// The pool was in use without crash consistency when its process ended.
    #[error(
        "{}the pool was in use with the engine '{engine}', which keeps no log, when its process ended: its contents are undefined. \
         Go back to a copy, or take what is there with `Options::force`", of(.path)
    )]
    NotConsistent {
        /// The file.
        path: Option<PathBuf>,
        /// The engine.
        engine: String,
    },
    /// No pool can have the size or the log that were asked for, or this pool cannot.
    #[error("{}{why}", of(.path))]
    Limit {
        /// The file.
        path: Option<PathBuf>,
        /// The fault, and the possible values.
        why: String,
    },
    /// The log, or the allocator's structures, are damaged.
    #[error("{}{source}", of(.path))]
    Contents {
        /// The file.
        path: Option<PathBuf>,
        /// The fault.
        source: perdura_engine::Error,
    },
    /// The file could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// The beginning of a text about a file.
fn of(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()))
}

/// The text of `Display`, which `main` and `unwrap` print.
impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<perdura_engine::Error> for OpenError {
    fn from(source: perdura_engine::Error) -> Self {
        OpenError::Contents { path: None, source }
    }
}

impl OpenError {
    /// Shorthand for [`OpenError::UnknownEngine`].
    pub fn unknown_engine(name: &str) -> Self {
        let (name, known) = (name.to_owned(), EngineKind::NAMES);
        OpenError::UnknownEngine { path: None, name, known }
    }

    /// The error with the name of the pool's file in its text.
    #[must_use]
    pub fn at(mut self, file: &Path) -> Self {
        match &mut self {
            OpenError::NotAPool { path, .. }
            | OpenError::Version { path, .. }
            | OpenError::Damaged { path, .. }
            | OpenError::Truncated { path, .. }
            | OpenError::UnknownEngine { path, .. }
            | OpenError::Weaker { path, .. }
            | OpenError::NotConsistent { path, .. }
            | OpenError::Limit { path, .. }
            | OpenError::Contents { path, .. } => *path = Some(file.to_owned()),
            // It names its file itself.
            OpenError::Map(_) => {}
        }
        self
    }
}
