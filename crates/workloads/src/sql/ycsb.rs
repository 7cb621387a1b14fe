//! OLTP-bench's YCSB: one table of ten fields of 100 characters, and operations of 50 % reads, 5 % inserts, 15 % scans,
//! 10 % updates, 10 % deletes and 10 % reads that write.
//!
//! Keys of reads, updates and scans are YCSB's zipfian ones. Deletes are uniform: otherwise the hottest records would
//! soon be gone, and most reads would find nothing. As in OLTP-bench an update writes all fields, a scan reads up to
//! 100 records, and inserts have new keys.

use super::{InPool, Program, part_of, parts, payload, run_share, writing};
use crate::list::{self, Given, Listed, OnWorkload, Row};
use crate::random::Random;
use crate::zipf::Scrambled;
use crate::{Failure, Outcome, Progress, Recorder, Share};
use rusqlite::{Connection, OptionalExtension};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// Records of a scan, at most.
const SCANNED: u64 = 100;
/// Records that a transaction of the load makes.
const BATCH: u64 = 1_000;

const TABLE: &str = "CREATE TABLE usertable (ycsb_key INTEGER PRIMARY KEY, version INTEGER, \
     field1 TEXT, field2 TEXT, field3 TEXT, field4 TEXT, field5 TEXT, \
     field6 TEXT, field7 TEXT, field8 TEXT, field9 TEXT, field10 TEXT)";
const INSERT: &str = "INSERT INTO usertable VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)";
const READ: &str = "SELECT * FROM usertable WHERE ycsb_key = ?1";
const SCAN: &str = "SELECT * FROM usertable WHERE ycsb_key > ?1 AND ycsb_key <= ?2";
const UPDATE: &str = "UPDATE usertable SET version=?2, field1=?3, field2=?4, field3=?5, field4=?6, \
     field5=?7, field6=?8, field7=?9, field8=?10, field9=?11, field10=?12 WHERE ycsb_key = ?1";
const DELETE: &str = "DELETE FROM usertable WHERE ycsb_key = ?1";

/// A thread's records: those whose keys leave the thread's number when divided by the number of threads.
struct Part {
    /// The version of each record that there is.
    records: HashMap<u64, u64>,
    /// The next new key.
    next: u64,
    /// Counts up, so that no two contents of a key are alike.
    version: u64,
}

/// The program.
pub struct Ycsb {
    records: u64,
    parts: Vec<Mutex<Part>>,
    keys: Scrambled,
}

impl Ycsb {
    /// With so many records at first, for so many threads.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(records: u64, threads: usize) -> Outcome<Self> {
        let count = threads.max(1) as u64;
        if records < count {
            let what = "YCSB in SQL needs a record for each thread".to_owned();
            return Err(Failure::Parameters(what));
        }
        let part = |number: u64| Part {
            records: (number..records).step_by(count as usize).map(|key| (key, 0)).collect(),
            next: records.next_multiple_of(count) + number,
            version: 0,
        };
        Ok(Ycsb { records, parts: parts(threads, part), keys: Scrambled::new(records) })
    }

    /// A key that the thread writes to.
    fn own(&self, key: u64, thread: u64) -> u64 {
        let threads = self.parts.len() as u64;
        let own = key - key % threads + thread;
        if own < self.records { own } else { own - threads }
    }
}

/// A record's columns.
fn columns(key: u64, version: u64) -> Vec<rusqlite::types::Value> {
    let field = |number: usize| {
        payload::text(payload::name(&[key, version, number as u64]), FIELD_BYTES).into()
    };
    let numbers = [(key as i64).into(), (version as i64).into()];
    numbers.into_iter().chain((0..FIELDS).map(field)).collect()
}

/// Checks a record's contents. Returns its key and version.
fn verified(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<(u64, u64)>> {
    let (key, version) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
    for (number, value) in columns(key, version).iter().enumerate().skip(2) {
        let rusqlite::types::Value::Text(text) = value else { return Ok(None) };
        if row.get_ref(number)?.as_str()? != text {
            return Ok(None);
        }
    }
    Ok(Some((key, version)))
}

fn wrong(key: u64) -> Failure {
    Failure::wrong(format!("record {key} has contents that were never written"))
}

fn read(db: &Connection, key: u64) -> Outcome<Option<u64>> {
    let mut select = db.prepare_cached(READ)?;
    match select.query_row((key as i64,), verified).optional()? {
        None => Ok(None),
        Some(Some((found, version))) if found == key => Ok(Some(version)),
        Some(_) => Err(wrong(key)),
    }
}

fn update(db: &Connection, key: u64, version: u64) -> Outcome<bool> {
    let columns = rusqlite::params_from_iter(columns(key, version));
    Ok(db.prepare_cached(UPDATE)?.execute(columns)? == 1)
}

/// Whether the thread's model and the database agree on a record.
fn agree(key: u64, model: Option<u64>, found: Option<u64>) -> Outcome {
    if model == found {
        return Ok(());
    }
    let version = |version: Option<u64>| version.map_or("none".to_owned(), |it| it.to_string());
    let (model, found) = (version(model), version(found));
    Err(Failure::Wrong(format!("record {key} should have the version {model}, and has {found}")))
}

const READS: usize = 0;
const INSERTS: usize = 1;
const SCANS: usize = 2;
const UPDATES: usize = 3;
const DELETES: usize = 4;
const READ_WRITES: usize = 5;

/// The kind of the next operation.
fn kind(random: &mut Random) -> usize {
    match random.below(100) {
        0..50 => READS,
        50..55 => INSERTS,
        55..70 => SCANS,
        70..80 => UPDATES,
        80..90 => DELETES,
        _ => READ_WRITES,
    }
}

impl Ycsb {
    fn operate(
        &self,
        db: &Connection,
        part: &mut Part,
        thread: u64,
        kind: usize,
        random: &mut Random,
    ) -> Outcome {
        let drawn = self.keys.draw(random);
        let own = self.own(drawn, thread);
        match kind {
            READS => {
                let found = read(db, drawn)?;
                if own == drawn {
                    agree(own, part.records.get(&own).copied(), found)?;
                }
            }
            SCANS => self.scan(db, part, thread, drawn, random)?,
            INSERTS => {
                let key = part.next;
                part.next += self.parts.len() as u64;
                part.version += 1;
                let columns = rusqlite::params_from_iter(columns(key, part.version));
                db.prepare_cached(INSERT)?.execute(columns)?;
                part.records.insert(key, part.version);
            }
            DELETES => {
                let own = self.own(random.below(self.records), thread);
                let gone = db.prepare_cached(DELETE)?.execute((own as i64,))? == 1;
                let known = part.records.remove(&own);
                if gone != known.is_some() {
                    return Err(Failure::wrong(format!("record {own} was there or not")));
                }
            }
            UPDATES => {
                part.version += 1;
                if update(db, own, part.version)? != part.records.contains_key(&own) {
                    return Err(Failure::wrong(format!("record {own} was there or not")));
                }
                part.records.entry(own).and_modify(|version| *version = part.version);
            }
            _ => {
                part.version += 1;
                writing(db, || {
                    agree(own, part.records.get(&own).copied(), read(db, own)?)?;
                    update(db, own, part.version)
                })?;
                part.records.entry(own).and_modify(|version| *version = part.version);
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        db: &Connection,
        part: &Part,
        thread: u64,
        first: u64,
        random: &mut Random,
    ) -> Outcome {
        let last = first + random.between(1, SCANNED);
        let mut select = db.prepare_cached(SCAN)?;
        let mut rows = select.query((first as i64, last as i64))?;
        let (mut before, mut own) = (first, 0);
        while let Some(row) = rows.next()? {
            let (key, version) = verified(row)?.ok_or_else(|| wrong(first))?;
            if key <= before || key > last {
                return Err(Failure::wrong(format!("a scan after {before} has found {key}")));
            }
            before = key;
            if key % self.parts.len() as u64 == thread {
                agree(key, part.records.get(&key).copied(), Some(version))?;
                own += 1;
            }
        }
        let known = (first + 1..=last).filter(|key| {
            key % self.parts.len() as u64 == thread && part.records.contains_key(key)
        });
        match known.count() {
            known if known == own => Ok(()),
            known => {
                let what = format!("a scan after {first} has found {own} of {known} records");
                Err(Failure::Wrong(what))
            }
        }
    }
}

impl Program for Ycsb {
    const KINDS: &'static [&'static str] =
        &["read", "insert", "scan", "update", "delete", "read-update"];

    fn load_size(&self) -> u64 {
        self.records
    }

    fn load(&self, db: &Connection, progress: &Progress) -> Outcome {
        db.execute(TABLE, ())?;
        for first in (0..self.records).step_by(BATCH as usize) {
            let last = (first + BATCH).min(self.records);
            writing(db, || {
                let mut insert = db.prepare_cached(INSERT)?;
                for key in first..last {
                    insert.execute(rusqlite::params_from_iter(columns(key, 0)))?;
                }
                Ok(())
            })?;
            progress.loaded(last - first)?;
        }
        Ok(())
    }

    fn run_thread(
        &self,
        db: &Connection,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let mut part = part_of(&self.parts, &share)?;
        let thread = share.thread as u64;
        run_share(&mut share, recorder, kind, |kind, random| {
            self.operate(db, &mut part, thread, kind, random)
        })
    }

    fn check(&self, db: &Connection) -> Outcome {
        let mut select = db.prepare("SELECT * FROM usertable")?;
        let mut rows = select.query(())?;
        let mut found = HashMap::new();
        while let Some(row) = rows.next()? {
            let (key, version) = verified(row)?.ok_or_else(|| Failure::wrong("a record"))?;
            found.insert(key, version);
        }
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, version) in &part.records {
                agree(*key, Some(*version), found.remove(key))?;
            }
        }
        match found.into_iter().next() {
            Some((key, version)) => agree(key, None, Some(version)),
            None => Ok(()),
        }
    }
}

impl Listed for Ycsb {
    const ROW: Row = Row {
        name: "sqlite-ycsb",
        line: "OLTP-bench's YCSB on SQLite in the pool: 50 % reads, 15 % scans, 35 % writes",
        parameters: &[list::entries("records", 10_000)],
        operations: |_| 20_000,
        rolls_back: |_| false,
        roots: &[],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let records = given.entries();
        let bytes = records.saturating_add(given.operations / 10).saturating_mul(2_200);
        Ok(code.run(InPool::new(Ycsb::new(records, given.threads)?), bytes))
    }
}
