//! SQLite, through rusqlite: a B-tree with a write-ahead log, in C.
//!
//! In WAL mode `synchronous=FULL` syncs the log in each commit; `NORMAL` would lose the last ones in a power cut. There
//! is one writer at a time, and one that finds the database locked sleeps and tries again. So threads take turns on one
//! connection, whose statement is prepared once: no thread sleeps, and no connection invalidates another one's cache.
//! The lock on the file is held throughout (`locking_mode=EXCLUSIVE`), as the other stores hold theirs.

use super::version;
use crate::puts::{Key, Library, Put, Puts, Session, Store, Work};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PUT: &str = "REPLACE INTO puts VALUES (?1, ?2)";
const GET: &str = "SELECT value FROM puts WHERE key = ?1";
/// One tree, ordered by the key: with a row number there would be a second one.
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS puts (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
/// What SQLite's C code is compiled with: see `.cargo/config.toml`.
const FLAGS: Option<&str> = option_env!("LIBSQLITE3_FLAGS");

pub(super) struct Sqlite {
    name: String,
}

impl Sqlite {
    pub(super) fn new() -> Self {
        let rusqlite = version("rusqlite");
        Sqlite { name: format!("SQLite {} (rusqlite {rusqlite})", rusqlite::version()) }
    }
}

fn failed(error: impl Display) -> Error {
    Error::failed("SQLite", error.to_string())
}

/// The one connection.
struct Opened(Mutex<Connection>);

impl Opened {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Library for Sqlite {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> &str {
        if FLAGS.is_some_and(|flags| flags.contains("HAVE_FDATASYNC")) {
            "WAL, synchronous=FULL: fdatasync of the log in each commit; one connection"
        } else {
            "WAL, synchronous=FULL: fsync of the log in each commit; one connection"
        }
    }

    fn open(&self, folder: &Path, _: &Puts, work: Work<'_>) -> Result<()> {
        let connection = Connection::open(folder.join("sqlite")).map_err(failed)?;
        for (name, value) in
            [("locking_mode", "EXCLUSIVE"), ("journal_mode", "WAL"), ("synchronous", "FULL")]
        {
            connection.pragma_update(None, name, value).map_err(failed)?;
        }
        // A file system that does not support a WAL would silently get another kind of journal.
        let mode: String = connection
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .map_err(failed)?;
        if mode != "wal" {
            return Err(failed(format!("the journal's mode is {mode}, not wal")));
        }
        connection.execute_batch(TABLE).map_err(failed)?;
        let opened = Opened(Mutex::new(connection));
        work(&opened)?;
        let connection = opened.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, error)| failed(error))
    }
}

impl Store for Opened {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }
}

fn put(connection: &Connection, put: &Put) -> rusqlite::Result<usize> {
    connection.prepare_cached(PUT)?.execute((&put.key, &put.value))
}

fn put_together(connection: &mut Connection, batch: &[Put]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    batch.iter().try_for_each(|one| put(&transaction, one).map(drop))?;
    transaction.commit()
}

impl Session for &Opened {
    fn put(&mut self, batch: &[Put]) -> Result<()> {
        let mut connection = self.lock();
        match batch {
            // A single statement is a transaction.
            [single] => put(&connection, single).map(drop),
            batch => put_together(&mut connection, batch),
        }
        .map_err(failed)
    }

    fn get(&mut self, key: &Key) -> Result<Option<Vec<u8>>> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(GET).map_err(failed)?;
        statement.query_row((key,), |row| row.get(0)).optional().map_err(failed)
    }
}
