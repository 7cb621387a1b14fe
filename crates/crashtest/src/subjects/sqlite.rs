//! A small database of SQLite in the pool: rows of a table with an index, under statements and transactions in SQL.
//!
//! Each operation is a transaction of the pool, in which SQLite opens the database, does its statements and closes it: all
//! of the VFS's transactions are parts of it. An image is read by SQLite too, which checks it first (`PRAGMA
//! integrity_check`). The VFS's own order of several transactions is tested natively, in `crates/sqlite/tests`.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Error, Mode, Result, Root, Ticket, Tx};
use perdura_memory::random::SplitMix64;
use perdura_sqlite::{Body, Databases, Transactions};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Rows have these keys.
const KEYS: u64 = 24;
/// The longest text, in bytes: some rows need overflow pages.
const LONGEST: u64 = 700;
/// Small pages, so that a few rows are a tree.
const TABLE: &str = "PRAGMA page_size = 512;
    CREATE TABLE t (key INTEGER PRIMARY KEY, number INTEGER, text TEXT);
    CREATE INDEX numbers ON t (number);";
const PUT: &str = "REPLACE INTO t VALUES (?1, ?2, printf('%.*c', ?3, 'x'))";

/// The database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sqlite;

/// Statements, or transactions of several.
#[derive(Clone, Debug)]
pub enum SqlOp {
    /// Replaces a row: its key, a number, the length of its text.
    Put(u64, u64, u64),
    /// Replaces several rows in one transaction.
    Several(Vec<(u64, u64, u64)>),
    /// The same, rolled back.
    RolledBack(Vec<(u64, u64, u64)>),
    /// Deletes a row.
    Delete(u64),
    /// Adds to all numbers.
    AddToAll(u64),
    /// Builds the database anew.
    Vacuum,
}

/// The numbers and the lengths of the texts, by key.
type Rows = BTreeMap<u64, (u64, u64)>;

/// A transaction of the pool, as a session. Keeps the pool's reason when one of its transactions fails: SQLite has only a
/// code.
struct Inside<'a> {
    tx: &'a mut dyn Tx,
    failure: Option<Error>,
}

impl Transactions for Inside<'_> {
    fn submit(&mut self, _: Mode, body: Body<'_>) -> Result<Ticket> {
        match body(self.tx) {
            Ok(()) => Ok(Ticket::default()),
            Err(error) => {
                self.failure.get_or_insert(error);
                Err(Error::Invalid("the transaction around it fails"))
            }
        }
    }

    fn is_durable(&self, _: Ticket) -> bool {
        true
    }

    fn wait(&mut self, _: Ticket) -> Result<()> {
        Ok(())
    }
}

/// Runs the body on a connection to the database, in the transaction.
fn with<R>(tx: &mut dyn Tx, body: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R> {
    perdura_sqlite::register().map_err(|_| Error::Invalid("SQLite refuses the VFS"))?;
    let mut inside = Inside { tx, failure: None };
    // The transaction may run again, and another core may have committed since: nothing is kept of the last one.
    let done = perdura_sqlite::lend(&mut inside, &Databases::default(), |uri| {
        Connection::open(uri).and_then(|db| body(&db))
    });
    match (inside.failure, done) {
        (Some(failure), _) => Err(failure),
        (None, Ok(done)) => Ok(done),
        (None, Err(_)) => Err(Error::Invalid("SQLite refuses a statement")),
    }
}

fn put(db: &Connection, (key, number, len): (u64, u64, u64)) -> rusqlite::Result<()> {
    db.prepare_cached(PUT)?.execute((key as i64, number as i64, len as i64)).map(drop)
}

fn read(db: &Connection) -> rusqlite::Result<Option<Rows>> {
    let found: String = db.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    if found != "ok" {
        return Ok(None);
    }
    let mut select = db.prepare("SELECT key, number, text FROM t")?;
    let mut rows = select.query(())?;
    let mut all = Rows::new();
    while let Some(row) = rows.next()? {
        let (key, number, text): (i64, i64, String) = row.try_into()?;
        all.insert(key as u64, (number as u64, text.len() as u64));
    }
    // The index has the same rows.
    let indexed: i64 =
        db.query_row("SELECT count(*) FROM t INDEXED BY numbers WHERE number >= 0", (), |row| {
            row.get(0)
        })?;
    Ok(Some(all).filter(|all| all.len() as i64 == indexed))
}

impl Listed for Sqlite {
    const ROW: Structure = Structure {
        name: "sqlite",
        line: "a database of SQLite: a table, an index, pages of 512 bytes",
    };
}

impl Subject for Sqlite {
    type Op = SqlOp;
    type Model = Rows;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        with(tx, |db| db.execute_batch(TABLE))
    }

    fn prepared(&self) -> Rows {
        Rows::new()
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> SqlOp {
        let row = |random: &mut SplitMix64| {
            // Most texts are short; none is empty, for SQLite repeats a letter once at the least.
            let most = if random.below(4) == 0 { LONGEST } else { 40 };
            (random.below(KEYS), random.below(1_000), 1 + random.below(most))
        };
        match random.below(16) {
            0..6 => {
                let row = row(random);
                SqlOp::Put(row.0, row.1, row.2)
            }
            6..9 => SqlOp::Several((0..2 + random.below(4)).map(|_| row(random)).collect()),
            9..10 => SqlOp::RolledBack((0..3).map(|_| row(random)).collect()),
            10..13 => SqlOp::Delete(random.below(KEYS)),
            13..15 => SqlOp::AddToAll(1 + random.below(5)),
            _ => SqlOp::Vacuum,
        }
    }

    fn apply(&self, tx: &mut dyn Tx, op: &SqlOp) -> Result<()> {
        with(tx, |db| match op {
            SqlOp::Put(key, number, len) => put(db, (*key, *number, *len)),
            SqlOp::Several(rows) => {
                db.execute_batch("BEGIN")?;
                rows.iter().try_for_each(|row| put(db, *row))?;
                db.execute_batch("COMMIT")
            }
            SqlOp::RolledBack(rows) => {
                db.execute_batch("BEGIN")?;
                rows.iter().try_for_each(|row| put(db, *row))?;
                db.execute_batch("ROLLBACK")
            }
            SqlOp::Delete(key) => {
                db.execute("DELETE FROM t WHERE key = ?1", (*key as i64,)).map(drop)
            }
            SqlOp::AddToAll(more) => {
                db.execute("UPDATE t SET number = number + ?1", (*more as i64,)).map(drop)
            }
            SqlOp::Vacuum => db.execute_batch("VACUUM"),
        })
    }

    fn step(&self, model: &mut Rows, op: &SqlOp) -> bool {
        match op {
            SqlOp::Put(key, number, len) => {
                model.insert(*key, (*number, *len));
            }
            SqlOp::Several(rows) => {
                model.extend(rows.iter().map(|(key, number, len)| (*key, (*number, *len))));
            }
            SqlOp::RolledBack(_) | SqlOp::Vacuum => {}
            SqlOp::Delete(key) => {
                model.remove(key);
            }
            SqlOp::AddToAll(more) => model.values_mut().for_each(|(number, _)| *number += more),
        }
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Rows>> {
        let Some(root) = tx.root(&format!("sqlite:{}", perdura_sqlite::MAIN))? else {
            return Ok(None);
        };
        match with(tx, read)? {
            Some(rows) => Ok(Some(rows)),
            None => Err(Error::corrupt("a database that SQLite finds damaged", root.at)),
        }
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        perdura_sqlite::check_root(tx, root, visit)
    }
}
