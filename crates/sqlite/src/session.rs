//! Where the VFS's transactions run: a session of an open pool, or one that a program lends for a while.
//!
//! A program may have a heap that is no pool in a file: in ordinary memory, or in a simulated machine. It [`lend`]s a
//! session of that heap, and for so long SQLite finds the databases in the heap under a name of their own.
//!
//! Invariant: a lent session is used only while it is lent, and only by the thread that lends it. Connections that are
//! left over get `SQLITE_IOERR`.

use crate::database::Database;
use crate::ffi::lent::{Place, lending};
use crate::open::{self, OpenPool};
use perdura::{Domain, Error, Memory as _, Mode, Pool, Result, Ticket, Tx};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A transaction's body.
pub type Body<'a> = &'a mut dyn FnMut(&mut dyn Tx) -> Result<()>;

/// A session of a heap, as databases need it.
pub trait Transactions {
    /// Runs `body` in a transaction, once or more often. Returns when others may see it, with the ticket of its
    /// durability; the default ticket if it is durable already, or if nobody shall wait for it.
    ///
    /// # Errors
    /// The error of `body`, or why the transaction could not commit; it has no effect then.
    fn submit(&mut self, mode: Mode, body: Body<'_>) -> Result<Ticket>;

    /// Whether the commit with this ticket is durable, without waiting.
    fn is_durable(&self, ticket: Ticket) -> bool;

    /// Returns when the commit with this ticket is durable.
    ///
    /// # Errors
    /// When the medium failed.
    fn wait(&mut self, ticket: Ticket) -> Result<()>;

    /// SQLite has read a page from the heap, or committed one, for those who count: its number, from 0.
    fn use_page(&mut self, page: u64) {
        let _ = page;
    }
}

/// A session, whosever it is.
pub(crate) enum Handle {
    Pool(perdura::Handle),
    Lent(Place),
}

impl Handle {
    fn run<R>(
        &mut self,
        mode: Mode,
        mut body: impl FnMut(&mut dyn Tx) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        match (self, mode) {
            (Handle::Pool(handle), Mode::Write) => handle.submit(|tx| body(tx)),
            (Handle::Pool(handle), Mode::Read) => handle.submit_read(|tx| body(tx)),
            (Handle::Lent(place), mode) => {
                let mut result = None;
                let ticket = place.with(|session| {
                    session.submit(mode, &mut |tx| {
                        result = Some(body(tx)?);
                        Ok(())
                    })
                })?;
                let result = result.ok_or(Error::Invalid("a session that runs no transactions"));
                Ok((result?, ticket))
            }
        }
    }

    pub(crate) fn submit<R>(
        &mut self,
        body: impl FnMut(&mut dyn Tx) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run(Mode::Write, body)
    }

    pub(crate) fn submit_read<R>(
        &mut self,
        body: impl FnMut(&mut dyn Tx) -> Result<R>,
    ) -> Result<(R, Ticket)> {
        self.run(Mode::Read, body)
    }

    /// Returns when it is durable.
    pub(crate) fn transaction<R>(
        &mut self,
        body: impl FnMut(&mut dyn Tx) -> Result<R>,
    ) -> Result<R> {
        let (result, ticket) = self.submit(body)?;
        self.wait(ticket)?;
        Ok(result)
    }

    /// Reads what is durable.
    pub(crate) fn read<R>(&mut self, mut body: impl FnMut(&mut dyn Tx) -> Result<R>) -> Result<R> {
        if let Handle::Pool(handle) = self {
            return handle.read(|tx| body(tx));
        }
        let (result, ticket) = self.run(Mode::Read, body)?;
        self.wait(ticket)?;
        Ok(result)
    }

    /// Tells those who lend a session which pages are used.
    pub(crate) fn use_pages(&self, mut pages: impl Iterator<Item = u64>) {
        if let Handle::Lent(place) = self {
            // Whoever has taken the session back counts no more.
            let _ = place.with(|session| {
                pages.by_ref().for_each(|page| session.use_page(page));
                Ok(())
            });
        }
    }

    pub(crate) fn is_durable(&self, ticket: Ticket) -> bool {
        match self {
            Handle::Pool(handle) => handle.is_durable(ticket),
            Handle::Lent(place) => {
                place.with(|session| Ok(session.is_durable(ticket))).unwrap_or(false)
            }
        }
    }

    pub(crate) fn wait(&mut self, ticket: Ticket) -> Result<()> {
        match self {
            Handle::Pool(handle) => handle.wait(ticket),
            Handle::Lent(place) => place.with(|session| session.wait(ticket)),
        }
    }
}

/// Where sessions come from.
pub(crate) enum Source {
    Pool(Pool),
    Lent(Place),
}

/// The log of a heap whose session is lent, as far as full pools are concerned.
const LENT_LOG: usize = 1 << 20;

impl Source {
    pub(crate) fn session(&self) -> Result<Handle> {
        match self {
            Source::Pool(pool) => pool.session().map(Handle::Pool),
            Source::Lent(place) => Ok(Handle::Lent(place.clone())),
        }
    }

    pub(crate) fn log_bytes(&self) -> usize {
        match self {
            Source::Pool(pool) => pool.info().log_bytes as usize,
            Source::Lent(_) => LENT_LOG,
        }
    }

    /// Whether it was lent, and is not any more: SQLite's cache would answer by itself.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Source::Pool(_) => false,
            Source::Lent(place) => !place.is_lent(),
        }
    }

    /// Whether each store in place is a sync of its own.
    pub(crate) fn syncs_stores(&self) -> bool {
        let Source::Pool(pool) = self else { return false };
        pool.engine().syncs_stores() && pool.memory().domain() == Domain::Media
    }

    /// Whether it is known that nothing becomes durable any more.
    pub(crate) fn has_failed_to_sync(&self) -> bool {
        match self {
            Source::Pool(pool) => pool.memory().check_fence().is_err(),
            Source::Lent(_) => self.is_gone(),
        }
    }

    /// Whether nothing can be committed any more. Looks at the pool's file, which takes several calls of the system.
    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Source::Pool(pool) => pool.failure().is_some(),
            Source::Lent(_) => self.is_gone(),
        }
    }

    pub(crate) fn is_forked(&self) -> bool {
        match self {
            Source::Pool(pool) => pool.memory().is_forked(),
            Source::Lent(_) => false,
        }
    }
}

/// The databases of one heap that sessions are lent of: they are open once, whichever session a connection has.
#[derive(Clone, Default)]
pub struct Databases(pub(crate) Arc<Mutex<HashMap<String, Weak<Database>>>>);

/// Lends a session to the connections that `body` opens: under the URI that it gets, they find the heap's database
/// `main`. They must be closed before it returns. Several threads may lend sessions of one heap at a time, with the
/// same `databases`.
pub fn lend<R>(
    session: &mut dyn Transactions,
    databases: &Databases,
    body: impl FnOnce(&str) -> R,
) -> R {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let path = PathBuf::from(format!("/perdura-lent/{number}"));
    lending(session, |place| {
        let pool = Arc::new(OpenPool::new(Source::Lent(place), false, databases.0.clone()));
        let _lent = open::insert_lent(&path, pool);
        body(&format!("file:{}?vfs=perdura", path.display()))
    })
}

#[cfg(all(test, feature = "rusqlite"))]
mod tests {
    use super::*;
    use perdura::Options;
    use rusqlite::Connection;

    struct Own(perdura::Handle, u64);

    impl Transactions for Own {
        fn submit(&mut self, mode: Mode, body: Body<'_>) -> Result<Ticket> {
            self.1 += u64::from(mode == Mode::Write);
            match mode {
                Mode::Write => self.0.submit(|tx| body(tx)),
                Mode::Read => self.0.submit_read(|tx| body(tx)),
            }
            .map(|((), ticket)| ticket)
        }

        fn is_durable(&self, ticket: Ticket) -> bool {
            self.0.is_durable(ticket)
        }

        fn wait(&mut self, ticket: Ticket) -> Result<()> {
            self.0.wait(ticket)
        }
    }

    fn count(db: &Connection) -> rusqlite::Result<i64> {
        db.query_row("SELECT count(*) FROM t", (), |row| row.get(0))
    }

    #[test]
    fn a_lent_session_has_the_databases_and_is_given_back() {
        crate::register().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pool = Options::new().size(64 << 20).create(folder.path().join("a.pool")).unwrap();
        let databases = Databases::default();
        let mut own = Own(pool.session().unwrap(), 0);
        let kept = lend(&mut own, &databases, |uri| {
            let db = Connection::open(uri).unwrap();
            db.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
            db
        });
        assert_eq!(own.1, 2, "a commit for each statement");
        // Left over, it reaches nothing.
        assert!(count(&kept).is_err());
        drop(kept);
        lend(&mut own, &databases, |uri| {
            let db = Connection::open(uri).unwrap();
            db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
            assert_eq!(count(&db), Ok(2));
            // Another thread may not use it, since the session may be bound to this one.
            let there = std::thread::spawn(move || count(&db).is_err());
            assert!(there.join().unwrap());
        });
        assert_eq!(crate::databases(&pool).unwrap().len(), 1);
        drop(own);
        pool.close().unwrap();
    }
}
