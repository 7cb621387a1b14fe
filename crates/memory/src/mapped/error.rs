//! Failures to map a pool's file, each with a remedy.

use super::Backing;
use crate::Domain;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why a file could not be mapped as a pool.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// There is no such file.
    #[error("{}: there is no such file; check the path, or create the pool first", .0.display())]
    NotFound(PathBuf),
    /// The directory that should hold a new file is missing.
    #[error("{}: the directory that should hold it does not exist; create the directory first", .0.display())]
    NoDirectory(PathBuf),
    /// A file is already there.
    #[error("{}: there is a file already; open it, or remove it before creating a pool", .0.display())]
    Exists(PathBuf),
    /// The path is a symbolic link that leads to no file.
    #[error("{}: it is a symbolic link to {}, which does not exist; give that path itself, or remove the link", path.display(), target.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
        /// The path that it holds.
        target: PathBuf,
    },
    /// The path names something that is not a regular file.
    #[error("{}: it is {what}, not a regular file; give the path of a file in a file system", path.display())]
    NotAFile {
        /// The path that was asked for.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The operating system denies access.
    #[error("{}: permission denied; the pool's file and its directory must be writable for this user", .0.display())]
    Permission(PathBuf),
    /// The file system is mounted read-only.
    #[error("{}: the file system is read-only; mount it writable, or only inspect the pool", .0.display())]
    ReadOnly(PathBuf),
    /// Another open pool holds the lock, in this process or in another.
    #[error("{}: the pool is in use; close it where it is open (one process at a time may open it, once; one that was forked from a process that had it open keeps it in use until it ends, or runs another program)", .0.display())]
    Locked(PathBuf),
    /// The file cannot hold a pool.
    #[error("{}: {len} bytes are too few for a pool (at least {need}); is it the right file, and was it copied whole?", path.display())]
    TooShort {
        /// The path that was asked for.
        path: PathBuf,
        /// Bytes in the file, or asked for.
        len: u64,
        /// Bytes that the smallest pool has.
        need: u64,
    },
    /// The file system, or the user's quota, is full.
    #[error("{}: no space for a file of {need} bytes; free some on its file system, or raise the quota or `ulimit -f` (a new pool may also be made smaller)", path.display())]
    NoSpace {
        /// The path that was asked for.
        path: PathBuf,
        /// Bytes that the file was to have.
        need: u64,
    },
    /// The file has too many holes to be looked at on its file system, where a load from a hole takes space.
    #[error("{}: the file was copied sparsely, with {holes} holes, too many to look at it where it is; copy it again without holes (`cp --sparse=never`)", path.display())]
    Holes {
        /// The path that was asked for.
        path: PathBuf,
        /// How many there are.
        holes: usize,
    },
    /// The address space cannot hold the pool's limit.
    #[error("{}: cannot reserve {limit} bytes of address space; lower the pool's limit, or raise `ulimit -v`", path.display())]
    NoAddressSpace {
        /// The path that was asked for.
        path: PathBuf,
        /// Bytes that were to be reserved.
        limit: u64,
    },
    /// This machine cannot provide the domain that was asked for.
    #[error("{}: the domain '{domain}' is not supported on {backing}: {reason}", path.display())]
    Domain {
        /// The path that was asked for.
        path: PathBuf,
        /// The domain that was asked for.
        domain: Domain,
        /// The medium of the file.
        backing: Backing,
        /// The reason, and another domain to ask for.
        reason: &'static str,
    },
    /// Any other failure of the operating system.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The path that was asked for.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// The text of `Display`, which `main` and `unwrap` print of an error.
impl fmt::Debug for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl MapError {
    /// The error for `errno` at the step `doing`.
    pub(super) fn from_errno(path: &Path, doing: &'static str, errno: Errno) -> Self {
        let path = path.to_path_buf();
        match errno {
            Errno::NOENT | Errno::NOTDIR => MapError::NotFound(path),
            Errno::EXIST => MapError::Exists(path),
            Errno::ISDIR => MapError::NotAFile { path, what: "a directory" },
            Errno::ACCESS | Errno::PERM => MapError::Permission(path),
            Errno::ROFS => MapError::ReadOnly(path),
            errno => MapError::Io { path, doing, source: errno.into() },
        }
    }

    /// The error for a failure to give the file `need` bytes.
    pub(super) fn from_space(path: &Path, need: u64, errno: Errno) -> Self {
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
                MapError::NoSpace { path: path.to_path_buf(), need }
            }
            errno => Self::from_errno(path, "allocate the file's space", errno),
        }
    }
}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> Self {
        let kind = match &error {
            MapError::NotFound(_) | MapError::NoDirectory(_) | MapError::DanglingLink { .. } => {
                io::ErrorKind::NotFound
            }
            MapError::Exists(_) => io::ErrorKind::AlreadyExists,
            MapError::Permission(_) => io::ErrorKind::PermissionDenied,
            MapError::ReadOnly(_) => io::ErrorKind::ReadOnlyFilesystem,
            MapError::Locked(_) => io::ErrorKind::ResourceBusy,
            MapError::NoSpace { .. } => io::ErrorKind::StorageFull,
            MapError::Holes { .. } | MapError::NoAddressSpace { .. } => io::ErrorKind::OutOfMemory,
            MapError::NotAFile { .. } | MapError::TooShort { .. } => io::ErrorKind::InvalidInput,
            MapError::Domain { .. } => io::ErrorKind::Unsupported,
            MapError::Io { source, .. } => source.kind(),
        };
        io::Error::new(kind, error)
    }
}

/// Why a pool that is open can be used no longer, in this process or at all. The inner error of an [`io::Error`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The process is a forked child of the one that opened the pool.
    #[error(
        "the pool was opened before this process was forked, and is the parent's: nothing was done with it here; use it in \
         the parent, or fork first and open the pool later"
    )]
    Forked,
    /// The pool's file was deleted, replaced, moved or cut short.
    #[error("the pool's file {0}; nothing is committed any more")]
    Lost(String),
}

impl Unusable {
    /// The reason in an error of the operating system's kind, if it has one.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<Unusable> for io::Error {
    fn from(why: Unusable) -> Self {
        let kind = match why {
            Unusable::Forked => io::ErrorKind::PermissionDenied,
            Unusable::Lost(_) => io::ErrorKind::NotFound,
        };
        io::Error::new(kind, why)
    }
}
