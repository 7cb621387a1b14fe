//! Call sites behind a virtual call.
//!
//! `#[track_caller]` ends at a `dyn Memory`: a method called through one sees the place of its own definition. A wrapper
//! that knows the caller leaves it here for the length of the call, and the memory inside takes it.

use std::cell::Cell;
use std::panic::Location;

/// A place in a program's source.
pub type Site = &'static Location<'static>;

thread_local! {
    static PASSED: Cell<Option<Site>> = const { Cell::new(None) };
}

/// The call site that a wrapper has passed to the running call, else `caller`. To be asked first, and once: nested calls
/// have callers of their own.
#[inline]
pub fn passed_or(caller: Site) -> Site {
    PASSED.take().unwrap_or(caller)
}

/// Runs `call`, a call through `dyn Memory`, as if made at `site`.
#[inline]
pub(crate) fn pass<R>(site: Site, call: impl FnOnce() -> R) -> R {
    PASSED.set(Some(site));
    let result = call();
    // A memory that asks for no call site has left it.
    PASSED.set(None);
    result
}
