//! Errors of a call: a code, and a message for the thread to ask for.

use crate::codes::*;
use perdura::{Error, MapError, OpenError};
use std::cell::RefCell;
use std::ffi::{CString, c_char};

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Fail {
    pub(crate) code: i32,
    pub(crate) message: String,
}

/// A call's result.
pub(crate) type Result<T> = std::result::Result<T, Fail>;

impl Fail {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Fail { code, message: message.into() }
    }

    /// Keeps the message for the thread, and returns the code.
    pub(crate) fn keep(self) -> i32 {
        let mut message = self.message.into_bytes();
        message.retain(|&byte| byte != 0);
        // A thread that is ending has no caller left to read it.
        let _ = LAST.try_with(|last| {
            *last.borrow_mut() = (self.code, CString::new(message).unwrap_or_default());
        });
        self.code
    }
}

thread_local! {
    static LAST: RefCell<(i32, CString)> = RefCell::new((PERDURA_OK, CString::default()));
}

/// The code of the thread's last failure.
pub(crate) fn last_code() -> i32 {
    LAST.try_with(|last| last.borrow().0).unwrap_or(PERDURA_OK)
}

/// The message of the thread's last failure, good until the thread's next failure.
pub(crate) fn last_message() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The code of a transaction's failure.
fn code_of(error: &Error) -> i32 {
    match error {
        Error::Corrupt { .. } | Error::Lost { .. } => PERDURA_ERR_CORRUPT,
        Error::Full { .. } | Error::NoSpace { .. } => PERDURA_ERR_FULL,
        Error::TooLarge { .. } => PERDURA_ERR_TOO_LARGE,
        Error::ReadOnly => PERDURA_ERR_READ_ONLY,
        Error::Sessions { .. } => PERDURA_ERR_TOO_MANY,
        Error::Aborted(_) => PERDURA_ERR_ROLLED_BACK,
        Error::Invalid(_) => PERDURA_ERR_INVALID,
        Error::WrongType { .. } => PERDURA_ERR_TYPE,
        Error::Misuse { .. } => PERDURA_ERR_OFFSET,
        Error::Nested => PERDURA_ERR_TX_OPEN,
        Error::Forked => PERDURA_ERR_FORKED,
        Error::NotSafe { .. } | Error::NoSections { .. } => PERDURA_ERR_UNSUPPORTED,
        Error::Deadlock { .. } => PERDURA_ERR_DEADLOCK,
        Error::Io(_) => PERDURA_ERR_IO,
        _ => PERDURA_ERR_OTHER,
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Fail::new(code_of(&error), error.to_string())
    }
}

impl From<OpenError> for Fail {
    fn from(error: OpenError) -> Self {
        let (code, flag) = match error {
            OpenError::Contents { ref source, .. } => (code_of(source), ""),
            OpenError::Map(error) => return error.into(),
            OpenError::NotAPool { .. } => (PERDURA_ERR_NOT_A_POOL, ""),
            OpenError::Version { .. } => (PERDURA_ERR_VERSION, ""),
            OpenError::Damaged { .. } | OpenError::Truncated { .. } => (PERDURA_ERR_CORRUPT, ""),
            OpenError::UnknownEngine { .. } => (PERDURA_ERR_UNSUPPORTED, ""),
            OpenError::Weaker { .. } => (PERDURA_ERR_WEAKER, "PERDURA_ACCEPT_WEAKER"),
            OpenError::NotConsistent { .. } => (PERDURA_ERR_NOT_CONSISTENT, "PERDURA_FORCE"),
            OpenError::Limit { .. } => (PERDURA_ERR_INVALID, ""),
            _ => (PERDURA_ERR_OTHER, ""),
        };
        match flag {
            "" => Fail::new(code, error.to_string()),
            // The message names the option of the Rust library.
            flag => Fail::new(code, format!("{error} (from C: {flag} in the options' flags)")),
        }
    }
}

impl From<MapError> for Fail {
    fn from(error: MapError) -> Self {
        let code = match &error {
            MapError::NotFound(_) | MapError::NoDirectory(_) | MapError::DanglingLink { .. } => {
                PERDURA_ERR_NOT_FOUND
            }
            MapError::Exists(_) => PERDURA_ERR_EXISTS,
            MapError::NotAFile { .. } | MapError::TooShort { .. } => PERDURA_ERR_NOT_A_POOL,
            MapError::Permission(_) | MapError::ReadOnly(_) => PERDURA_ERR_PERMISSION,
            MapError::Locked(_) => PERDURA_ERR_IN_USE,
            MapError::NoSpace { .. } | MapError::NoAddressSpace { .. } | MapError::Holes { .. } => {
                PERDURA_ERR_FULL
            }
            MapError::Domain { .. } => PERDURA_ERR_UNSUPPORTED,
            MapError::Io { .. } => PERDURA_ERR_IO,
            _ => PERDURA_ERR_OTHER,
        };
        Fail::new(code, error.to_string())
    }
}
