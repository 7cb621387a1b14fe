//! Forks of the process. A child inherits a pool's mapping and lock, and must not use them: the
//! parent does.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

type Handler = Option<extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Forks between the process that first opened a pool and this one.
pub(crate) fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handler does nothing that a child of a process with threads may not do.
        // It fails only without memory: then forks go unnoticed.
        let _ = unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
}
