//! The functions of the header. Each checks its arguments, calls the safe code outside of this
//! folder, and returns a code. All `unsafe` code of the crate is here.
//!
//! What a function cannot check, the caller promises, and the header says so: that a pointer that
//! is not null points to as many bytes as it says, and that a text ends.

// In the order of the header.
pub mod errors;
pub mod pool;
pub mod transaction;

pub mod map;

pub mod archapt;

pub(crate) mod fork;
mod pointers;

use crate::codes::{PERDURA_ERR_PANIC, PERDURA_OK};
use crate::fail::{Fail, Result};
use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function: no panic leaves it, and an error is kept for the thread.
fn call(body: impl FnOnce() -> Result<()>) -> c_int {
    // A session that a panic went through is poisoned in the table.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => PERDURA_OK,
        Ok(Err(fail)) => fail.keep(),
        Err(panic) => {
            let text = format!("the library failed inside ({}); please report it", said(&*panic));
            Fail::new(PERDURA_ERR_PANIC, text).keep()
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::PERDURA_ERR_FULL;
    use crate::fail::{last_code, last_message};

    #[test]
    fn no_panic_leaves_a_call() {
        assert_eq!(call(|| panic!("of {}", "old")), PERDURA_ERR_PANIC);
        assert_eq!(last_code(), PERDURA_ERR_PANIC);
        assert!(!last_message().is_null());
        assert_eq!(call(|| Err(Fail::new(PERDURA_ERR_FULL, "with\0zero"))), PERDURA_ERR_FULL);
        assert_eq!(call(|| Ok(())), PERDURA_OK);
        assert_eq!(last_code(), PERDURA_ERR_FULL, "success leaves the last error as it is");
    }

    #[test]
    fn a_session_that_failed_inside_can_only_be_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broken.pool");
        let wanted = crate::pools::Wanted { size: 8 << 20, ..Default::default() };
        let pool = crate::pools::open(crate::pools::How::Create, &path, &wanted).unwrap();
        let session = crate::sessions::open(pool).unwrap();
        let begin = || crate::sessions::run(session, |s| s.begin(perdura::Mode::Write));
        begin().unwrap();
        let code =
            call(|| crate::sessions::run(session, |s| s.within(|_, _, _, _| panic!("on purpose"))));
        assert_eq!(code, PERDURA_ERR_PANIC);
        assert_eq!(begin().unwrap_err().code, PERDURA_ERR_PANIC);
        crate::sessions::close(session).unwrap();
        assert!(crate::sessions::close(session).is_err());
        // Nobody waits for what it held.
        let other = crate::sessions::open(pool).unwrap();
        crate::sessions::run(other, |s| s.begin(perdura::Mode::Write)).unwrap();
        crate::sessions::close(other).unwrap();
        crate::pools::close(pool).unwrap();
    }
}
