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
use std::collections::VecDeque;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The most pages of a database for each leaf of its tree: it may have holes, but few.
const MOST_PAGES: u64 = 1 << 20;

/// How long a connection may write again and again while a few others wait: to hand the right over takes longer than a
/// commit in memory.
const TURN: Duration = Duration::from_micros(500);

/// A connection's number, unique in this process.
pub(crate) type Connection = u64;

/// A database.
pub(crate) struct Database {
    /// Its root's name.
    pub(crate) root: String,
    /// Whether the pool's engine waits for the medium after each store of a commit.
    pub(crate) syncs_stores: bool,
    state: Mutex<State>,
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
    /// What wakes connections that wait to be the writer: the first is next, when the turn is over.
    queue: VecDeque<Arc<Condvar>>,
    /// The connection whose turn it is, and until when.
    turn: Option<(Connection, Instant)>,
}

impl State {
    /// Whether the connection, which is not in the queue, may be the writer before those that are.
    fn goes_first(&self, connection: Connection) -> bool {
        let is_its_turn = |(whose, until)| whose == connection && Instant::now() < until;
        self.queue.is_empty() || self.turn.is_some_and(is_its_turn)
    }

    fn is_first(&self, waiting: &Arc<Condvar>) -> bool {
        self.queue.front().is_some_and(|first| Arc::ptr_eq(first, waiting))
    }

    fn wake_first(&self) {
        if let Some(first) = self.queue.front() {
            first.notify_one();
        }
    }

    fn set_early_writer(&mut self, connection: Connection, most: Duration) {
        let is_writer = |writer: &Writer| writer.connection == connection && writer.early.is_none();
        // If it has asked for the right meanwhile, that does not end by itself.
        if !self.writer.as_ref().is_some_and(is_writer) {
            let (thread, early) = (std::thread::current().id(), Some(Instant::now() + most));
            self.writer = Some(Writer { connection, thread, early });
        }
    }
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
        let state = State { versions, writer: None, queue: VecDeque::new(), turn: None };
        Ok(Database { root, syncs_stores: false, state: Mutex::new(state) })
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

    /// Waits for a short time to become the writer, in the order of arrival, unless it is this one's turn: a statement that is going to write would
    /// otherwise find that the version that it has pinned is an old one. A thread does not wait for itself.
    pub(crate) fn queue_to_write(&self, connection: Connection, most: Duration) -> bool {
        let mut state = self.state();
        let is_own = |writer: &Writer| writer.connection == connection;
        let taken = match &state.writer {
            None => state.goes_first(connection),
            Some(writer) => is_own(writer),
        };
        if taken {
            state.set_early_writer(connection, most);
            return true;
        }
        self.wait_to_write(state, connection, most)
    }

    fn wait_to_write(
        &self,
        mut state: MutexGuard<'_, State>,
        connection: Connection,
        most: Duration,
    ) -> bool {
        let thread = std::thread::current().id();
        let wake = Arc::new(Condvar::new());
        state.queue.push_back(wake.clone());
        let end = Instant::now() + most;
        let taken = loop {
            let is_first = state.is_first(&wake);
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
            // The one whose turn it is may not come back, and does not say so.
            let left = if is_first { left.min(TURN) } else { left };
            let waited = wake.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        };
        let was_first = state.is_first(&wake);
        state.queue.retain(|waiting| !Arc::ptr_eq(waiting, &wake));
        if taken {
            // So short that all who wait have theirs in half of their time.
            let turn = TURN.min(most / 2 / (state.queue.len() as u32 + 1));
            state.turn = Some((connection, Instant::now() + turn));
            state.set_early_writer(connection, most);
        }
        if was_first {
            state.wake_first();
        }
        taken
    }

    /// Lets the next connection write. This one may come first again while its turn lasts, unless it `pauses` now.
    pub(crate) fn release(&self, connection: Connection, pauses: bool) {
        let mut state = self.state();
        if state.writer.as_ref().is_none_or(|writer| writer.connection != connection) {
            return;
        }
        state.writer = None;
        if !state.queue.is_empty() && (pauses || !state.goes_first(connection)) {
            state.turn = None;
            state.wake_first();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    const LONG: Duration = Duration::from_secs(20);

    fn database() -> Database {
        let state = State {
            versions: Versions::default_new(),
            writer: None,
            queue: VecDeque::new(),
            turn: None,
        };
        Database { root: String::new(), syncs_stores: false, state: Mutex::new(state) }
    }

    /// Who writes again and again lets one that waits write when its turn is over, and one that stops does not keep it.
    #[test]
    fn the_right_goes_round() {
        let (database, stops) = (database(), AtomicBool::new(false));
        thread::scope(|scope| {
            for connection in 1..=3 {
                let (database, stops) = (&database, &stops);
                scope.spawn(move || {
                    while !stops.load(Ordering::Relaxed) {
                        assert!(database.queue_to_write(connection, LONG));
                        database.release(connection, false);
                    }
                });
            }
            for pauses in [false, true, false] {
                for _ in 0..20 {
                    assert!(database.queue_to_write(9, LONG));
                    database.release(9, pauses);
                }
            }
            stops.store(true, Ordering::Relaxed);
        });
        assert!(!database.is_reserved());
    }

    #[test]
    fn who_has_the_turn_goes_before_those_who_wait() {
        let database = database();
        assert!(database.queue_to_write(1, LONG));
        thread::scope(|scope| {
            let second = scope.spawn(|| database.queue_to_write(2, LONG));
            while database.state().queue.is_empty() {
                thread::yield_now();
            }
            database.state().turn = Some((1, Instant::now() + LONG));
            database.release(1, false);
            assert!(database.state().goes_first(1) && !database.state().goes_first(3));
            // The second has looked by itself after a while.
            assert!(second.join().unwrap());
        });
        assert!(!database.queue_to_write(3, Duration::from_millis(1)), "the second has the right");
        database.release(2, true);
        assert!(database.queue_to_write(3, Duration::ZERO));
    }
}
