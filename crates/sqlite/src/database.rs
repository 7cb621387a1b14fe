//! A database that is open in this process, whichever connections have it: its versions, and its one writer.
//!
//! Invariants: the header and the table of the newest version are changed only by the connection that is the writer.
//! The lock is held for a short time, and never while waiting for the medium. A thread that holds several has locked them
//! by [`States`].

use crate::codes::{self, BUSY, BUSY_SNAPSHOT, Result};
use crate::pages::{FAN, Header, PREFIX};
use crate::session::Handle;
use crate::versions::Versions;
use perdura::{Error, Pool, Tx};
use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The most pages of a database for each leaf of its tree: it may have holes, but few.
const MOST_PAGES: u64 = 1 << 20;

/// A connection's number, unique in this process.
pub(crate) type Connection = u64;

/// A database.
pub(crate) struct Database {
    /// Its root's name.
    pub(crate) root: String,
    /// Whether the pool's engine waits for the medium after each store of a commit.
    pub(crate) syncs_stores: bool,
    state: Mutex<State>,
    released: Condvar,
}

/// Who may write.
struct Writer {
    connection: Connection,
    thread: ThreadId,
    /// Until when it has the right though SQLite has not asked for it yet.
    early: Option<Instant>,
}

impl Writer {
    /// Whether it has not used an early right: a statement that only reads the database, and writes elsewhere, does
    /// not give it back if all pages are in SQLite's cache.
    fn is_over(&self) -> bool {
        self.early.is_some_and(|until| Instant::now() >= until)
    }
}

/// A database's state.
pub(crate) struct State {
    pub(crate) versions: Versions,
    writer: Option<Writer>,
    /// Connections that wait to be the writer: the first is next.
    queue: Vec<Connection>,
}

/// The states of several databases, all locked: what is seen or changed in them is of one moment.
pub(crate) struct States<'a>(Vec<(*const Database, MutexGuard<'a, State>)>);

impl<'a> States<'a> {
    /// Locks the databases' states, in an order that all threads have.
    pub(crate) fn lock(databases: impl Iterator<Item = &'a Database>) -> Self {
        let mut databases: Vec<&Database> = databases.collect();
        databases.sort_by_key(|database| ptr::from_ref(*database));
        databases.dedup_by_key(|database| ptr::from_ref(*database));
        let locked =
            databases.into_iter().map(|database| (ptr::from_ref(database), database.state()));
        States(locked.collect())
    }

    /// The versions of one of the databases.
    pub(crate) fn versions(&mut self, database: &Database) -> &mut Versions {
        let found = self.0.iter_mut().find(|(locked, _)| ptr::eq(*locked, database));
        &mut found.expect("one of those that were locked").1.versions
    }
}

impl Database {
    /// Opens the database with this name in the pool; it may not exist yet.
    pub(crate) fn open(handle: &mut Handle, name: &str) -> perdura::Result<Self> {
        let root = format!("{PREFIX}{name}");
        let versions = handle.read(|tx| load(tx, &root))?;
        let state = State { versions, writer: None, queue: Vec::new() };
        Ok(Database {
            root,
            syncs_stores: false,
            state: Mutex::new(state),
            released: Condvar::new(),
        })
    }

    /// The state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the connection the database's writer, which has pinned this version.
    pub(crate) fn reserve(&self, connection: Connection, version: u64) -> Result {
        let mut state = self.state();
        let is_free = state
            .writer
            .as_ref()
            .is_none_or(|writer| writer.connection == connection || writer.is_over());
        if !is_free {
            return Err(BUSY);
        }
        if state.versions.newest().version != version {
            return Err(BUSY_SNAPSHOT);
        }
        let thread = std::thread::current().id();
        state.writer = Some(Writer { connection, thread, early: None });
        Ok(())
    }

    /// Waits for a short time to become the writer, in the order of arrival: a statement that is going to write would
    /// otherwise find that the version that it has pinned is an old one. A thread does not wait for itself.
    pub(crate) fn queue_to_write(&self, connection: Connection, most: Duration) -> bool {
        let thread = std::thread::current().id();
        let mut state = self.state();
        state.queue.push(connection);
        let end = Instant::now() + most;
        let taken = loop {
            let is_first = state.queue.first() == Some(&connection);
            match &state.writer {
                None if is_first => break true,
                Some(writer) if writer.is_over() && is_first => break true,
                Some(writer) if writer.connection == connection => break true,
                Some(writer) if writer.thread == thread => break false,
                _ => {}
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            let waited = self.released.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        };
        state.queue.retain(|waiting| *waiting != connection);
        let is_writer = |writer: &Writer| writer.connection == connection && writer.early.is_none();
        if taken && state.writer.as_ref().is_some_and(is_writer) {
            // It has asked for it meanwhile: the right does not end by itself.
        } else if taken {
            state.writer = Some(Writer { connection, thread, early: Some(Instant::now() + most) });
        } else {
            self.released.notify_all();
        }
        taken
    }

    /// Lets the next connection write.
    pub(crate) fn release(&self, connection: Connection) {
        let mut state = self.state();
        if state.writer.as_ref().is_some_and(|writer| writer.connection == connection) {
            state.writer = None;
            // A call of the system, even if nobody waits.
            if !state.queue.is_empty() {
                self.released.notify_all();
            }
        }
    }

    /// Whether any connection is the writer.
    pub(crate) fn is_reserved(&self) -> bool {
        self.state().writer.is_some()
    }
}

/// Reads a database's table.
fn load(tx: &mut dyn Tx, root: &str) -> perdura::Result<Versions> {
    let Some(root) = tx.root(root)? else { return Ok(Versions::default_new()) };
    let header = Header::read(tx, root)?;
    let mut found = Vec::new();
    header.walk(tx, &mut |_| Ok(()), &mut |leaf, at, words| {
        found.push((leaf, at, words.to_vec()));
        Ok(())
    })?;
    // A damaged header must not take all memory.
    let last = found.last().map_or(0, |(leaf, ..)| leaf + 1);
    if header.pages().max(last * FAN) > (found.len() as u64 + 1) * MOST_PAGES {
        return Err(Error::corrupt(
            "a database's length that its tree does not bear out",
            header.at,
        ));
    }
    let mut pages = vec![0; header.pages() as usize];
    let mut leaves = vec![0; last as usize];
    for (leaf, at, words) in found {
        leaves[leaf as usize] = at;
        let first = (leaf * FAN) as usize;
        for (page, word) in pages.iter_mut().skip(first).zip(words) {
            *page = word;
        }
    }
    let replaced = header.replaced(tx)?;
    Ok(Versions::new(header, pages, leaves, replaced))
}

impl Versions {
    /// Of a database that is not in the pool.
    fn default_new() -> Self {
        Versions::new(Header::default(), Vec::new(), Vec::new(), Vec::new())
    }
}

/// The databases in a pool: their names and lengths in bytes.
///
/// # Errors
/// When the pool is damaged.
pub fn databases(pool: &Pool) -> perdura::Result<Vec<(String, u64)>> {
    pool.session()?.read(|tx| {
        let mut found = Vec::new();
        for named in perdura::roots::all(tx)? {
            let name = String::from_utf8_lossy(&named.name).into_owned();
            if let Some(name) = name.strip_prefix(PREFIX) {
                found.push((name.to_owned(), Header::read(tx, named.root)?.length));
            }
        }
        Ok(found)
    })
}

/// A failure of the pool, as SQLite's code.
pub(crate) fn coded<T>(result: perdura::Result<T>) -> Result<T> {
    result.map_err(|error| codes::of_error(&error))
}
