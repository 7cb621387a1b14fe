//! Tracks on which pools the calling thread is inside a transaction: a call that would wait for that transaction would
//! wait for its own thread, and is refused at once.
//!
//! Invariant: a thread has at most one transaction open on a pool, whatever handle, session or clone it is on. One
//! that is a closure stays on its thread. One that was begun by a call belongs to the thread that used it last: its
//! [`OwnerThread`] says which that is, and entries of other threads are stale.
//!
//! Heaps outside of pools are not tracked (their number is 0): the programs of a simulated machine take turns on one
//! thread.

use perdura_engine::{Error, Result};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The thread that is inside a transaction begun by a call; 0 for none.
type Owner = Arc<AtomicUsize>;

/// An open transaction of the thread.
struct OpenTransaction {
    pool: u64,
    /// Set if it was begun by a call.
    owner: Option<Owner>,
}

impl OpenTransaction {
    fn is_stale(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.load(Ordering::Relaxed) != this_thread())
    }
}

/// The value of `ONE` if the thread has more open than one closure: then `OPEN` has the list.
const SEVERAL: u64 = u64::MAX;

thread_local! {
    /// The pool of the running closure, if nothing else is open; 0 for none.
    static ONE: Cell<u64> = const { Cell::new(0) };
    /// The open transactions, if `ONE` is `SEVERAL`.
    static OPEN: RefCell<Vec<OpenTransaction>> = const { RefCell::new(Vec::new()) };
}

/// A number for a pool that is opened, unique in this process.
pub(crate) fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Marks the calling thread as inside a transaction on the pool until it is dropped.
pub(crate) struct Inside(u64);

/// Records that a closure runs as a transaction on the pool.
///
/// # Errors
/// `Nested` if the thread is inside one already.
#[inline]
pub(crate) fn enter(pool: u64) -> Result<Inside, Box<Error>> {
    if pool != 0 {
        match ONE.get() {
            0 => ONE.set(pool),
            one => enter_another(one, OpenTransaction { pool, owner: None })?,
        }
    }
    Ok(Inside(pool))
}

impl Inside {
    /// The thread stays inside, until a value made by [`still`](Self::still) is dropped.
    #[inline(always)]
    pub(crate) fn stay(self) {
        std::mem::forget(self);
    }

    /// For a thread that has [stayed](Self::stay) inside a transaction on the pool.
    #[inline(always)]
    pub(crate) fn still(pool: u64) -> Self {
        Inside(pool)
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        match (self.0, ONE.get()) {
            (0, _) => {}
            (pool, one) if pool == one => ONE.set(0),
            (pool, _) => leave(|open| open.pool == pool && open.owner.is_none()),
        }
    }
}

/// Checks that the calling thread is not inside a transaction on the pool.
///
/// # Errors
/// `Nested` if it is.
#[inline]
pub(crate) fn check_outside(pool: u64) -> Result<()> {
    match ONE.get() {
        0 => Ok(()),
        SEVERAL => check_others(pool, None),
        one => {
            if one == pool {
                Err(Error::Nested)
            } else {
                Ok(())
            }
        }
    }
}

/// Drops stale entries, and looks for the pool; `owner`'s transaction does not count.
fn check_others(pool: u64, owner: Option<&Owner>) -> Result<()> {
    with_open(|all| {
        all.retain(|open| !open.is_stale());
        let own = |open: &OpenTransaction| match (&open.owner, owner) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        let nested = all.iter().any(|open| open.pool == pool && !own(open));
        if nested { Err(Error::Nested) } else { Ok(()) }
    })
    .unwrap_or(Ok(()))
}

#[cold]
fn enter_another(one: u64, open: OpenTransaction) -> Result<(), Box<Error>> {
    match one {
        0 => {}
        SEVERAL => check_others(open.pool, None)?,
        one if one == open.pool => return Err(Box::new(Error::Nested)),
        one => drop(with_open(|all| all.push(OpenTransaction { pool: one, owner: None }))),
    }
    with_open(|all| {
        all.push(open);
        ONE.set(SEVERAL);
    });
    Ok(())
}

#[cold]
fn leave(is_it: impl Fn(&OpenTransaction) -> bool) {
    with_open(|all| {
        if let Some(place) = all.iter().rposition(is_it) {
            all.remove(place);
        }
        if all.is_empty() && ONE.get() == SEVERAL {
            ONE.set(0);
        }
    });
}

/// The open transactions; empty while the thread ends.
fn with_open<R>(body: impl FnOnce(&mut Vec<OpenTransaction>) -> R) -> Option<R> {
    OPEN.try_with(|open| body(&mut open.borrow_mut())).ok()
}

/// A session's transactions that are begun by a call.
#[derive(Default)]
pub(crate) struct OwnerThread(Owner);

impl OwnerThread {
    /// Records that the calling thread begins one.
    ///
    /// # Errors
    /// `Nested` if the thread is inside one on the pool already.
    pub(crate) fn begin(&self, pool: u64) -> Result<()> {
        if pool == 0 {
            return Ok(());
        }
        check_outside(pool)?;
        self.0.store(this_thread(), Ordering::Relaxed);
        Ok(enter_another(ONE.get(), OpenTransaction { pool, owner: Some(self.0.clone()) })?)
    }

    /// Records that the calling thread uses the open one, which belongs to that thread from here on.
    ///
    /// # Errors
    /// `Nested` if the thread is inside another one on the pool.
    pub(crate) fn take(&self, pool: u64) -> Result<()> {
        if pool == 0 || self.0.load(Ordering::Relaxed) == this_thread() {
            return Ok(());
        }
        self.begin(pool)
    }

    /// Checks that the calling thread is inside no transaction on the pool except this one.
    ///
    /// # Errors
    /// `Nested` if it is.
    pub(crate) fn check_others(&self, pool: u64) -> Result<()> {
        match ONE.get() {
            SEVERAL => check_others(pool, Some(&self.0)),
            _ => check_outside(pool),
        }
    }

    /// Records that it has ended.
    pub(crate) fn end(&self) {
        if self.0.swap(0, Ordering::Relaxed) != 0 {
            leave(|open| open.owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, &self.0)));
        }
    }
}

/// A number unique among living threads: the address of a thread-local variable.
fn this_thread() -> usize {
    thread_local!(static OWN: u8 = const { 0 });
    OWN.with(|own| ptr::from_ref(own).addr())
}
