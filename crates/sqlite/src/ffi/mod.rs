//! SQLite calls these functions. Each catches panics, makes safe values of its arguments, and calls the safe code
//! outside of this folder. All `unsafe` code of the crate is here.
//!
//! What SQLite promises, and is relied on: a file's methods are called with a file that `open` has filled, by one
//! thread at a time; buffers have as many bytes as it says; texts end.

pub(crate) mod abi;
mod file;
pub(crate) mod lent;
mod register;
mod vfs;

pub use register::load;
#[cfg(feature = "rusqlite")]
pub use register::register;

use crate::codes::{Code, IOERR, OK, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function: no panic leaves it.
fn guarded(body: impl FnOnce() -> Result) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(code)) => code,
        Err(_) => IOERR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_leaves_a_call() {
        assert_eq!(guarded(|| panic!("on purpose")), IOERR);
        assert_eq!(guarded(|| Err(7)), 7);
        assert_eq!(guarded(|| Ok(())), OK);
    }
}
