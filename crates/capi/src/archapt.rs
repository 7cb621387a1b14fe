//! The paper's names: one pool for the process, a session for each thread, made when it is first
//! needed and closed when the thread ends.

use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::pools::{self, How, Wanted};
use crate::{memory, sessions};
use perdura::{EngineKind, Mode};
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The engine of the paper, and the one to take where the library lacks it.
const ENGINES: [&str; 2] = ["archapt-redo", "redo"];

/// The process's pool; zero for none. Changed under the lock [`CHANGING`].
static POOL: AtomicU64 = AtomicU64::new(0);
static CHANGING: Mutex<()> = Mutex::new(());

/// A thread's session on it.
struct Mine {
    pool: u64,
    session: u64,
    /// The ticket of the last logical commit, until Tx_End has made it durable.
    ticket: Option<u64>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        // It may be closed already, or be the parent process's.
        let _ = sessions::close(self.session);
    }
}

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// Opens the process's pool.
pub(crate) fn init(path: &Path, mut wanted: Wanted) -> Result<()> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    if POOL.load(Ordering::Acquire) != 0 {
        let text = "Archapt_Init was called before: call Archapt_Exit first";
        return Err(Fail::new(PERDURA_ERR_IN_USE, text));
    }
    if wanted.engine.is_none() {
        let known = ENGINES.into_iter().find(|name| name.parse::<EngineKind>().is_ok());
        wanted.engine = known.map(str::to_owned);
    }
    POOL.store(pools::open(How::OpenOrCreate, path, &wanted)?, Ordering::Release);
    Ok(())
}

/// Closes this thread's session, then the pool.
pub(crate) fn exit() -> Result<()> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let id = pool()?;
    let mine = MINE.try_with(|mine| mine.borrow_mut().take());
    drop(mine);
    let closed = pools::close(id);
    if !matches!(&closed, Err(fail) if fail.code == PERDURA_ERR_BUSY) {
        POOL.store(0, Ordering::Release);
    }
    closed
}

/// The process's pool.
pub(crate) fn pool() -> Result<u64> {
    match POOL.load(Ordering::Acquire) {
        0 => Err(none()),
        pool => Ok(pool),
    }
}

/// This thread's session.
pub(crate) fn session() -> Result<u64> {
    with(|mine| Ok(mine.session))
}

fn with<R>(body: impl FnOnce(&mut Mine) -> Result<R>) -> Result<R> {
    let pool = pool()?;
    let result = MINE.try_with(|mine| {
        let mut mine = mine.borrow_mut();
        if mine.as_ref().is_none_or(|mine| mine.pool != pool || !is_usable(mine.session)) {
            *mine = None;
            *mine = Some(Mine { pool, session: sessions::open(pool)?, ticket: None });
        }
        body(mine.as_mut().ok_or_else(none)?)
    });
    result.unwrap_or_else(|_| Err(Fail::new(PERDURA_ERR_THREAD, "the thread is ending")))
}

/// Whether the session is open, and no call in it has panicked.
fn is_usable(session: u64) -> bool {
    match sessions::state(session) {
        Ok(_) => true,
        Err(fail) => ![PERDURA_ERR_HANDLE, PERDURA_ERR_PANIC].contains(&fail.code),
    }
}

/// Begins a transaction that may write.
pub(crate) fn start() -> Result<()> {
    with(|mine| sessions::run(mine.session, |session| session.begin(Mode::Write)))
}

/// Commits logically.
pub(crate) fn commit_logically() -> Result<u64> {
    with(|mine| {
        let ticket = sessions::run(mine.session, |session| session.submit())?.0;
        mine.ticket = Some(ticket);
        Ok(ticket)
    })
}

/// Commits logically, unless that is done, and returns when it is durable.
pub(crate) fn end() -> Result<()> {
    with(|mine| {
        let last = mine.ticket;
        let ticket = sessions::run(mine.session, |session| match last {
            Some(ticket) if !session.is_open() => Ok(ticket),
            _ => Ok(session.submit()?.0),
        })?;
        // Kept until the wait has succeeded: Tx_End can be called again after an error.
        mine.ticket = Some(ticket);
        sessions::run(mine.session, |session| session.wait(ticket))?;
        mine.ticket = None;
        Ok(())
    })
}

/// Rolls the transaction back.
pub(crate) fn abort() -> Result<()> {
    with(|mine| sessions::run(mine.session, |session| session.abort()))
}

/// Allocates from the type's pool.
pub(crate) fn malloc(kind: i32, size: u64) -> Result<u64> {
    with(|mine| sessions::run(mine.session, |session| memory::alloc(session, kind, size)))
}

/// Frees to the type's pool.
pub(crate) fn free(kind: i32, at: u64) -> Result<()> {
    with(|mine| sessions::run(mine.session, |session| memory::free(session, at, Some(kind))))
}

fn none() -> Fail {
    Fail::new(PERDURA_ERR_HANDLE, "no pool is open: call Archapt_Init first")
}
