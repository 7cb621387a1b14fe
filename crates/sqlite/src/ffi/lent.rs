//! A session that is lent: a reference whose life the compiler does not see, since SQLite has the connections that use
//! it.

use crate::session::Transactions;
use perdura::{Error, Result};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, ThreadId};

/// Where a lent session is, as long as it is lent.
#[derive(Clone)]
pub(crate) struct Place(Arc<Shared>);

struct Shared {
    session: Mutex<Option<NonNull<dyn Transactions>>>,
    lender: ThreadId,
}

// SAFETY: the session is reached on the lender's thread only (`with` looks), and other threads move and drop no more
// than the pointer.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

const GONE: Error = Error::Invalid("the session is not lent any more, or to another thread");

impl Place {
    /// Runs the body with the session.
    pub(crate) fn with<R>(
        &self,
        body: impl FnOnce(&mut dyn Transactions) -> Result<R>,
    ) -> Result<R> {
        if thread::current().id() != self.0.lender {
            return Err(GONE);
        }
        // Nobody else waits for it: this thread has it already if the session itself uses SQLite.
        let mut session = match self.0.session.try_lock() {
            Ok(session) => session,
            Err(TryLockError::Poisoned(session)) => session.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(GONE),
        };
        match &mut *session {
            // SAFETY: `lending` has the reference that this was made of, and takes it away before it returns; the lock
            // makes it the only one meanwhile.
            Some(session) => body(unsafe { session.as_mut() }),
            None => Err(GONE),
        }
    }

    /// Whether it is lent.
    pub(crate) fn is_lent(&self) -> bool {
        self.with(|_| Ok(())).is_ok()
    }
}

/// Takes the session away when `lending` ends, by a panic too.
struct Guard(Place);

impl Drop for Guard {
    fn drop(&mut self) {
        *self.0.0.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Runs the body while the session is in a place.
pub(crate) fn lending<R>(session: &mut dyn Transactions, body: impl FnOnce(Place) -> R) -> R {
    // SAFETY: only the lifetime changes: the guard takes the pointer away before the reference ends.
    let session: &mut (dyn Transactions + 'static) = unsafe { std::mem::transmute(session) };
    let shared = Shared {
        session: Mutex::new(Some(NonNull::from(session))),
        lender: thread::current().id(),
    };
    let guard = Guard(Place(Arc::new(shared)));
    body(guard.0.clone())
}
