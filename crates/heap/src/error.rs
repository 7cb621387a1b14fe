//! What can go wrong when a pool is created, opened or closed.

use perdura_memory::{Domain, Survives};

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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file is no pool.
    #[error("this is not a Perdura pool ({why}); create one with `perdura pool create`")]
    NotAPool {
        /// Why it is not one.
        why: &'static str,
    },
    /// The pool has another format.
    #[error(
        "the pool has format version {found}, and this program reads version {known}; open it with a program of that version"
    )]
    Version {
        /// The pool's version.
        found: u64,
        /// The version that this program reads.
        known: u64,
    },
    /// The pool is damaged: it contains something impossible.
    #[error(
        "the pool is damaged ({what}, at offset {at:#x}); run `perdura pool check` on it, or go back to a copy"
    )]
    Damaged {
        /// What was found.
        what: &'static str,
        /// Where.
        at: u64,
    },
    /// The file is shorter than its header says.
    #[error(
        "the pool is truncated: it has {len} bytes and needs at least {needed}; go back to a copy"
    )]
    Truncated {
        /// The file's length in bytes.
        len: u64,
        /// The length according to the header.
        needed: u64,
    },
    /// The pool was written by an engine that this program does not have.
    #[error(
        "the pool was written by the engine '{name}', which this program does not have; it has {known}"
    )]
    UnknownEngine {
        /// The pool's engine.
        name: String,
        /// The engines of this program.
        known: &'static str,
    },
    /// The pool requires transactions to outlive more than they would here.
    #[error(
        "transactions on this pool are to outlive {requires}, but here, with domain '{domain}', they would outlive only {survives}; \
         put it where it gets that, or accept less with `--accept-weaker`"
    )]
    Weaker {
        /// What transactions must outlive.
        requires: Survives,
        /// What they would outlive.
        survives: Survives,
        /// The persistence domain.
        domain: Domain,
    },
    /// The pool was in use without crash consistency when its process ended.
    #[error(
        "the pool was in use with the engine '{engine}', which keeps no log, when its process ended: its contents are undefined. \
         Go back to a copy, or take what is there with `--force`"
    )]
    NotConsistent {
        /// The engine.
        engine: String,
    },
    /// The pool is larger than the limit asked for, or the limit is larger than the pool can ever be.
    #[error("{0}")]
    Limit(String),
    /// The log, or the allocator's structures, are damaged.
    #[error(transparent)]
    Contents(#[from] perdura_engine::Error),
    /// The file could not be mapped.
    #[error(transparent)]
    Map(#[from] perdura_memory::MapError),
}
