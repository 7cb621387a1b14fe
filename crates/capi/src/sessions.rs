//! Open sessions, their transactions, and the threads that may use them.
//!
//! Invariants: a session is in one call at a time; a transaction is used by the thread that
//! began it. A call that fails inside a transaction leaves it to be rolled back only. That a thread
//! has at most one transaction open on a pool, and so never waits for itself, is checked by the heap,
//! for C as for Rust.

use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::guard::{self, Catalogue, Guard};
use crate::maps::cursors::Cursors;
use crate::pools::{self, Shared};
use crate::table::{Slot, Table};
use perdura::{Handle, Locked, Mode, Ticket, Tx};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sessions that can be open in a process at once: those of several pools.
const MOST: usize = 16_384;
static SLOTS: [Slot<Session>; MOST] = [const { Slot::new() }; MOST];
static SESSIONS: Table<Session> = Table { kind: 2, what: "session", slots: &SLOTS };

/// A session.
pub(crate) struct Session {
    handle: Handle,
    pub(crate) pool: Arc<Shared>,
    open: Option<Open>,
    catalogue: Catalogue,
    /// The thread whose transaction was begun last.
    owner: u64,
}

/// The transaction or section that is open.
struct Open {
    guard: Guard,
    cursors: Cursors,
    /// The message of its first failure.
    failed: Option<String>,
    /// The count of changes to the named roots when it began.
    began: u64,
    /// It may have changed the named roots.
    roots: bool,
    /// The locks of a section.
    locks: Option<Vec<Locked>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.pool.sessions.fetch_sub(1, Ordering::Release);
    }
}

static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// This thread's number.
    static ME: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// This thread's number; a number of no thread while it ends.
fn me() -> u64 {
    ME.try_with(|&me| me).unwrap_or(u64::MAX)
}

/// A session on the pool.
pub(crate) fn open(pool_id: u64) -> Result<u64> {
    let pool = pools::get(pool_id)?;
    let handle = pool.pool.session()?;
    pool.sessions.fetch_add(1, Ordering::Relaxed);
    let catalogue = Catalogue::default();
    SESSIONS.insert(Session { handle, pool, open: None, catalogue, owner: 0 })
}

/// Ends a session; a transaction that is open is rolled back.
pub(crate) fn close(id: u64) -> Result<()> {
    drop(SESSIONS.get_broken(id)?.take());
    Ok(())
}

/// Runs `body` on the session, for this thread alone.
pub(crate) fn run<R>(id: u64, body: impl FnOnce(&mut Session) -> Result<R>) -> Result<R> {
    let mut held = SESSIONS.get(id)?;
    let session = &mut *held;
    if session.open.is_some() && session.owner != me() {
        let why = "the session's transaction was begun by another thread, which must end it";
        return Err(Fail::new(PERDURA_ERR_THREAD, why));
    }
    let result = body(session);
    if let (Err(fail), Some(open)) = (&result, &mut session.open) {
        open.failed.get_or_insert_with(|| fail.message.clone());
    }
    result
}

impl Session {
    /// Begins a transaction.
    pub(crate) fn begin(&mut self, mode: Mode) -> Result<()> {
        if self.open.is_some() {
            return Err(perdura::Error::Nested.into());
        }
        // Counted before it begins: a later count might be of a change that it does not see.
        let began = self.pool.root_changes.load(Ordering::Acquire);
        self.handle.begin(mode)?;
        self.begun(began, None);
        Ok(())
    }

    /// Begins a section.
    pub(crate) fn begin_section(&mut self) -> Result<()> {
        if self.open.is_some() {
            return Err(perdura::Error::Nested.into());
        }
        // Read now, by a transaction: in a section the named roots' list may be changing.
        let began = self.pool.root_changes.load(Ordering::Acquire);
        self.begin(Mode::Read)?;
        let renewed = self.within(|tx, _, catalogue, _| catalogue.renew(tx, began));
        self.abort()?;
        renewed?;
        self.handle.begin_section()?;
        self.begun(began, Some(Vec::new()));
        Ok(())
    }

    fn begun(&mut self, began: u64, locks: Option<Vec<Locked>>) {
        self.owner = me();
        let (guard, cursors) = (Guard::default(), Cursors::default());
        self.open = Some(Open { guard, cursors, failed: None, began, roots: false, locks });
    }

    /// Takes a lock in the open section.
    pub(crate) fn lock(&mut self, id: u64) -> Result<()> {
        let lock = self.within(|tx, _, _, _| Ok(tx.lock(id)?))?;
        if let Some(locks) = self.locks() {
            locks.push(lock);
        }
        Ok(())
    }

    /// Releases a lock of the open section.
    pub(crate) fn unlock(&mut self, id: u64) -> Result<()> {
        let held = self.locks().and_then(|locks| {
            let place = locks.iter().position(|lock| lock.id() == id)?;
            Some(locks.swap_remove(place))
        });
        self.within(|tx, _, _, _| match held {
            Some(lock) => Ok(tx.unlock(lock)?),
            None => Err(Fail::new(PERDURA_ERR_INVALID, format!("the lock {id} is not held here"))),
        })
    }

    fn locks(&mut self) -> Option<&mut Vec<Locked>> {
        self.open.as_mut()?.locks.as_mut()
    }

    /// Commits it logically.
    pub(crate) fn submit(&mut self) -> Result<Ticket> {
        self.commit_by(Handle::commit)
    }

    /// Commits it, and returns when that is durable.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.commit_by(Handle::commit_awaited).map(drop)
    }

    fn commit_by(
        &mut self,
        commit: impl FnOnce(&mut Handle) -> perdura::Result<Ticket>,
    ) -> Result<Ticket> {
        let mut open = self.end()?;
        let result = match open.failed.take() {
            None => commit(&mut self.handle).map_err(Fail::from),
            Some(failed) => {
                self.handle.abort();
                Err(already_failed(&failed, "it is rolled back; begin again"))
            }
        };
        self.ended(&open);
        Ok(self.pool.gave(result?))
    }

    /// Rolls it back.
    pub(crate) fn abort(&mut self) -> Result<()> {
        let open = self.end()?;
        self.handle.abort();
        self.ended(&open);
        Ok(())
    }

    /// Known facts about the named roots may not hold after the transaction.
    fn ended(&mut self, open: &Open) {
        if open.roots {
            self.pool.root_changes.fetch_add(1, Ordering::Release);
        }
        self.catalogue.leave(open.began);
    }

    /// Returns when the commit with this ticket is durable.
    pub(crate) fn wait(&mut self, ticket: u64) -> Result<()> {
        let ticket = self.pool.ticket(ticket)?;
        if self.open.is_some() {
            let why = "a transaction is open, for which others wait: end it before waiting";
            return Err(Fail::new(PERDURA_ERR_TX_OPEN, why));
        }
        Ok(self.handle.wait(ticket)?)
    }

    /// Whether the commit with this ticket is durable.
    pub(crate) fn is_durable(&self, ticket: u64) -> Result<bool> {
        Ok(self.handle.is_durable(self.pool.ticket(ticket)?))
    }

    /// Whether a transaction is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The cursors of the open transaction.
    pub(crate) fn cursors(&mut self) -> Result<&mut Cursors> {
        Ok(&mut self.open.as_mut().ok_or_else(none_open)?.cursors)
    }

    /// Bytes that the pool can have.
    pub(crate) fn limit(&self) -> u64 {
        perdura::Memory::limit(self.pool.pool.memory())
    }

    /// `[at, at + len)` must lie in the pool.
    #[inline]
    pub(crate) fn check_inside(&self, at: u64, len: u64) -> Result<()> {
        guard::check_inside(perdura::Memory::len(self.pool.pool.memory()), at, len)
    }

    /// Runs `body` in the open transaction.
    #[inline]
    pub(crate) fn within<R>(
        &mut self,
        body: impl FnOnce(&mut dyn Tx, &mut Guard, &mut Catalogue, u64) -> Result<R>,
    ) -> Result<R> {
        let open = self.open.as_mut().ok_or_else(none_open)?;
        if let Some(failed) = &open.failed {
            return Err(already_failed(failed, "abort it and begin again"));
        }
        let changes = match open.locks {
            // As they were when the section began: see there.
            Some(_) => open.began,
            None => self.pool.root_changes.load(Ordering::Acquire),
        };
        let (guard, catalogue) = (&mut open.guard, &mut self.catalogue);
        // The reason of a failure is kept here: the heap has no type for it.
        let mut result = None;
        let outcome = self.handle.within(|tx| {
            result = Some(body(tx, guard, catalogue, changes));
            Ok(())
        });
        outcome?;
        result.unwrap_or_else(|| Err(none_open()))
    }

    /// As [`within`](Self::within), for calls that may change the named roots.
    pub(crate) fn change_roots<R>(
        &mut self,
        body: impl FnOnce(&mut dyn Tx, &mut Catalogue, u64) -> Result<R>,
    ) -> Result<R> {
        let result = self.within(|tx, guard, catalogue, changes| {
            guard.forget();
            body(tx, catalogue, changes)
        });
        // For later calls in this transaction; again when it ends, for the others.
        self.pool.root_changes.fetch_add(1, Ordering::Release);
        if let Some(open) = &mut self.open {
            open.roots = true;
        }
        result
    }

    fn end(&mut self) -> Result<Open> {
        self.open.take().ok_or_else(none_open)
    }
}

/// Whether a session is open, and its transaction.
pub(crate) fn state(id: u64) -> Result<bool> {
    run(id, |session| Ok(session.is_open()))
}

fn none_open() -> Fail {
    Fail::new(PERDURA_ERR_NO_TX, "no transaction is open in the session: begin one first")
}

fn already_failed(why: &str, advice: &str) -> Fail {
    let text = format!("an earlier call in the transaction failed ({why}): {advice}");
    Fail::new(PERDURA_ERR_ROLLED_BACK, text)
}
