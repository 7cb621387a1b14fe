//! SQLite's result codes, and which of them an error of the pool is.
//!
//! Invariant: an error that leaves the database as it was and may pass (no room, another writer) has a code after which
//! SQLite lets the program try again.

use perdura::{Error, MapError, OpenError};
use std::ffi::c_int;

/// Why a call failed: SQLite's result code.
pub(crate) type Code = c_int;
/// A call's result.
pub(crate) type Result<T = (), E = Code> = std::result::Result<T, E>;

pub(crate) const OK: Code = 0;
pub(crate) const ERROR: Code = 1;
pub(crate) const BUSY: Code = 5;
pub(crate) const BUSY_SNAPSHOT: Code = BUSY | 2 << 8;
pub(crate) const NOMEM: Code = 7;
pub(crate) const READONLY: Code = 8;
pub(crate) const IOERR: Code = 10;
pub(crate) const CORRUPT: Code = 11;
pub(crate) const NOTFOUND: Code = 12;
pub(crate) const FULL: Code = 13;
pub(crate) const CANTOPEN: Code = 14;
pub(crate) const PERM: Code = 3;
/// SQLite prepares the statement again, and runs it from its beginning.
pub(crate) const SCHEMA: Code = 17;
pub(crate) const NOTADB: Code = 26;
pub(crate) const IOERR_SHORT_READ: Code = IOERR | 2 << 8;
pub(crate) const IOERR_NOMEM: Code = IOERR | 12 << 8;
pub(crate) const IOERR_FSYNC: Code = IOERR | 4 << 8;
pub(crate) const OK_LOAD_PERMANENTLY: Code = 1 << 8;

/// The code of a transaction's failure.
pub(crate) fn of_error(error: &Error) -> Code {
    match error {
        Error::Full { .. } | Error::NoSpace { .. } | Error::TooLarge { .. } => FULL,
        Error::Corrupt { .. } | Error::Lost { .. } | Error::Misuse { .. } => CORRUPT,
        Error::Sessions { .. } => NOMEM,
        Error::ReadOnly => READONLY,
        Error::Io(error) if error.kind() == std::io::ErrorKind::OutOfMemory => IOERR_NOMEM,
        Error::Io(_) => IOERR_FSYNC,
        _ => IOERR,
    }
}

/// The code of a commit's failure: SQLite reads its pages again after these alone, and has rolled nothing back yet.
pub(crate) fn of_failed_commit(error: &Error) -> Code {
    match of_error(error) {
        code if code == FULL || code & 0xff == IOERR => code,
        _ => IOERR,
    }
}

/// The code of a pool that does not open.
pub(crate) fn of_open_error(error: &OpenError) -> Code {
    match error {
        OpenError::NotAPool { .. } => NOTADB,
        OpenError::Damaged { .. } | OpenError::Truncated { .. } => CORRUPT,
        OpenError::Contents { source, .. } => of_error(source),
        OpenError::Map(MapError::Locked(_)) => BUSY,
        OpenError::Map(MapError::NoSpace { .. }) => FULL,
        OpenError::Map(MapError::Permission(_) | MapError::ReadOnly(_)) => PERM,
        OpenError::Map(MapError::NotAFile { .. } | MapError::TooShort { .. }) => NOTADB,
        _ => CANTOPEN,
    }
}

/// The failure of a page for which there is no memory, as one of the pool.
pub(crate) fn no_memory(_: Code) -> Error {
    Error::Io(std::io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After other codes its pager goes on with its cache.
    #[test]
    fn a_failed_commit_makes_sqlite_read_its_pages_again() {
        for error in [Error::corrupt("a page", 0), Error::ReadOnly, Error::full(1)] {
            let code = of_failed_commit(&error);
            assert!([FULL, IOERR].contains(&(code & 0xff)), "{error}: {code}");
        }
        let sync = Error::Io(std::io::ErrorKind::Other.into());
        assert_eq!(of_failed_commit(&sync), IOERR_FSYNC);
    }
}
