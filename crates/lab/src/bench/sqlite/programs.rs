//! The programs, each on a new database, whose answers are checked after it was closed and opened again.

use super::database::{Database, Kind};
use super::sql;
use crate::bench::options::usual_warm_up;
use crate::failure::{Failure, Outcome};
use perdura_workloads::random::{Random, splitmix64};
use perdura_workloads::sql::linkbench::LinkBench;
use perdura_workloads::sql::ycsb::Ycsb;
use perdura_workloads::sql::{Program as SqlProgram, check_integrity, on_connections};
use perdura_workloads::tpcc::Scale;
use perdura_workloads::tpcc::sql::TpccInSql;
use perdura_workloads::{Plan, Progress};
use rusqlite::Connection;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Rows of a transaction of [`Program::Batches`].
pub(crate) const BATCH: u64 = 1_000;
/// Bytes of a value of puts.
const VALUE: usize = 100;
/// Bytes of a row of large tables, about.
const ROW: u64 = 1_000;
/// Rows of a transaction that loads.
const LOADED: u64 = 10_000;
/// Rows that a cursor is open on.
const SCANNED: u64 = 10_000;

const REPLACE: &str = "REPLACE INTO puts VALUES (?1, ?2)";

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "program", rename_all = "kebab-case")]
pub(crate) enum Program {
    /// REPLACE of 100 bytes, each a transaction, by connections on threads.
    Puts { puts: u64, keys: u64, threads: u32 },
    /// The same, 1,000 rows a transaction.
    Batches { batches: u64, keys: u64 },
    /// One UPDATE of all rows of a table of so many bytes.
    Update { bytes: u64 },
    /// VACUUM of a database of so many bytes, a tenth of which was deleted.
    Vacuum { bytes: u64 },
    /// A workload in SQL, by connections on threads.
    Workload { name: Workload, entries: u64, operations: u64, threads: u32 },
    /// Puts while a cursor is open: the longest.
    Cursor { seconds: f64 },
}

/// The workloads in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    LinkBench,
    Ycsb,
    Tpcc,
}

/// One run's figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    /// Transactions in a second; of a cursor's, those beside it.
    pub(crate) per_second: f64,
    /// Bytes written to the medium for each transaction, checkpoint included.
    pub(crate) bytes_each: Option<f64>,
    /// The longest transaction, where it is looked for.
    pub(crate) longest_ns: Option<f64>,
    /// Bytes kept for the reader when it ends.
    pub(crate) kept_bytes: Option<f64>,
}

impl Program {
    pub(crate) fn name(self) -> String {
        match self {
            Program::Puts { threads: 1, .. } => "puts".to_owned(),
            Program::Puts { threads, .. } => format!("puts, {threads} connections"),
            Program::Batches { .. } => "transactions of 1,000 rows".to_owned(),
            Program::Update { .. } => "UPDATE of all".to_owned(),
            Program::Vacuum { .. } => "VACUUM".to_owned(),
            Program::Workload { name, threads, .. } => {
                let name = match name {
                    Workload::LinkBench => "LinkBench",
                    Workload::Ycsb => "YCSB",
                    Workload::Tpcc => "TPC-C",
                };
                let s = if threads == 1 { "" } else { "s" };
                format!("{name}, {threads} connection{s}")
            }
            Program::Cursor { .. } => "puts beside a cursor".to_owned(),
        }
    }

    /// Bytes of its database, about.
    pub(crate) fn data(self) -> u64 {
        match self {
            Program::Puts { keys, .. } | Program::Batches { keys, .. } => keys * 2 * VALUE as u64,
            Program::Update { bytes } | Program::Vacuum { bytes } => 2 * bytes,
            Program::Workload { entries, operations, .. } => {
                (64 << 20) + 4_000 * (entries + operations)
            }
            Program::Cursor { .. } => 64 << 20,
        }
    }

    /// Whether it can run on the kind: a cursor's writer is another connection, which a rollback journal keeps out.
    pub(crate) fn runs_on(self, kind: Kind) -> bool {
        match self {
            Program::Puts { threads, .. } => threads == 1 || kind.is_shared(),
            // The threads' connections are others than the one that loads.
            Program::Workload { .. } => kind.is_shared(),
            Program::Cursor { .. } => kind.is_shared() && kind != Kind::Journal,
            Program::Batches { .. } | Program::Update { .. } | Program::Vacuum { .. } => true,
        }
    }

    /// Runs it on a new database.
    pub(crate) fn run(self, database: Database, seed: u64, progress: &Progress) -> Outcome<Sample> {
        match self {
            Program::Puts { puts, keys, threads } => {
                let task = Puts { puts, keys, threads, batch: 1, seed };
                task.run(database, progress)
            }
            Program::Batches { batches, keys } => {
                let task = Puts { puts: batches * BATCH, keys, threads: 1, batch: BATCH, seed };
                task.run(database, progress)
            }
            Program::Update { bytes } => update(database, bytes, seed),
            Program::Vacuum { bytes } => vacuum(database, bytes, seed),
            Program::Workload { name, entries, operations, threads } => {
                let plan = plan(operations, threads, seed);
                match name {
                    Workload::LinkBench => {
                        workload(&LinkBench::new(entries, plan.threads)?, database, &plan, progress)
                    }
                    Workload::Ycsb => {
                        workload(&Ycsb::new(entries, plan.threads)?, database, &plan, progress)
                    }
                    Workload::Tpcc => {
                        let scale = Scale::small(threads);
                        workload(&TpccInSql::new(scale, seed)?, database, &plan, progress)
                    }
                }
            }
            Program::Cursor { seconds } => cursor(database, seconds, seed, progress),
        }
    }
}

/// The value of a key, which says how often it was put.
fn value(key: u64, number: u64, seed: u64) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    let mut word = splitmix64(key ^ seed.rotate_left(20) ^ number.rotate_left(40));
    for part in value.chunks_mut(8) {
        word = splitmix64(word);
        part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
    }
    value
}

struct Puts {
    puts: u64,
    keys: u64,
    threads: u32,
    batch: u64,
    seed: u64,
}

/// The number of the last put of each key.
type Model = HashMap<u64, u64>;

impl Puts {
    /// A thread's puts: of keys of its own, so that the threads' models are the whole table.
    fn thread(&self, db: &Connection, thread: u64, progress: &Progress) -> Outcome<Model> {
        let threads = u64::from(self.threads);
        let mut random = Random::new(self.seed, thread);
        let mut model = Model::new();
        let mut replace = sql(db.prepare(REPLACE))?;
        let mut number = 0;
        while number < self.puts / threads && !progress.is_stopped() {
            if self.batch > 1 {
                sql(db.execute_batch("BEGIN IMMEDIATE"))?;
            }
            for _ in 0..self.batch {
                number += 1;
                let key = random.below((self.keys / threads).max(1)) * threads + thread;
                sql(replace.execute((key as i64, value(key, number, self.seed))))?;
                model.insert(key, number);
            }
            if self.batch > 1 {
                sql(db.execute_batch("COMMIT"))?;
            }
        }
        Ok(model)
    }

    fn run(&self, database: Database, progress: &Progress) -> Outcome<Sample> {
        let db = database.connect()?;
        sql(db.execute_batch("CREATE TABLE puts (key INTEGER PRIMARY KEY, value BLOB NOT NULL)"))?;
        let (before, db) = database.renew(db)?;
        let (models, seconds) = match self.threads {
            1 => {
                let begin = Instant::now();
                (vec![self.thread(&db, 0, progress)?], begin.elapsed().as_secs_f64())
            }
            _ => self.on_threads(&database, progress)?,
        };
        database.checkpoint(&db)?;
        let (written, _database, db) = database.reopen(db)?;
        self.check(&db, models)?;
        let commits = (self.puts / self.batch).max(1) as f64;
        let bytes_each =
            written.zip(before).map(|(written, before)| (written - before) as f64 / commits);
        Ok(Sample { per_second: commits / seconds, bytes_each, longest_ns: None, kept_bytes: None })
    }

    fn on_threads(&self, database: &Database, progress: &Progress) -> Outcome<(Vec<Model>, f64)> {
        let ready = Barrier::new(self.threads as usize + 1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..u64::from(self.threads))
                .map(|thread| {
                    let ready = &ready;
                    scope.spawn(move || {
                        let db = database.connect();
                        // Before anything that can fail: the others wait.
                        ready.wait();
                        self.thread(&db?, thread, progress)
                    })
                })
                .collect();
            ready.wait();
            let begin = Instant::now();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<Model>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let models = threads.into_iter().map(join).collect::<Outcome<Vec<_>>>()?;
            Ok((models, begin.elapsed().as_secs_f64()))
        })
    }

    fn check(&self, db: &Connection, models: Vec<Model>) -> Outcome {
        check_integrity(db)?;
        let mut model: Model = models.into_iter().flatten().collect();
        let mut select = sql(db.prepare("SELECT key, value FROM puts"))?;
        let mut rows = sql(select.query(()))?;
        while let Some(row) = sql(rows.next())? {
            let (key, found): (i64, Vec<u8>) = sql(row.try_into())?;
            let number = model.remove(&(key as u64));
            if number.is_none_or(|number| found != value(key as u64, number, self.seed)) {
                return Err(Failure::new(format!("wrong answer: key {key} has another value")));
            }
        }
        match model.len() {
            0 => Ok(()),
            lost => Err(Failure::new(format!("wrong answer: {lost} keys were lost"))),
        }
    }
}

/// Fills a table with rows of about a kilobyte.
fn fill(db: &Connection, bytes: u64, seed: u64) -> Outcome<u64> {
    let rows = (bytes / ROW).max(10);
    sql(db.execute_batch("CREATE TABLE large (id INTEGER PRIMARY KEY, n INTEGER, text TEXT)"))?;
    let mut insert =
        sql(db.prepare("INSERT INTO large VALUES (?1, 0, hex(?2) || printf('%.*c', 768, 'x'))"))?;
    for first in (0..rows).step_by(LOADED as usize) {
        sql(db.execute_batch("BEGIN IMMEDIATE"))?;
        for id in first..(first + LOADED).min(rows) {
            sql(insert.execute((id as i64, value(id, 0, seed))))?;
        }
        sql(db.execute_batch("COMMIT"))?;
    }
    Ok(rows)
}

/// A number that follows from all rows of a table.
fn digest(db: &Connection) -> Outcome<(i64, i64, i64)> {
    sql(db.query_row(
        "SELECT count(*), sum(n + id), sum(length(text) + unicode(substr(text, 1 + id % 200))) FROM large",
        (),
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    ))
}

/// Times one statement, on a database that was filled.
fn timed(
    database: Database,
    db: Connection,
    statement: &str,
    expected: (i64, i64, i64),
) -> Outcome<Sample> {
    let (before, db) = database.renew(db)?;
    let begin = Instant::now();
    sql(db.execute_batch(statement))?;
    let seconds = begin.elapsed().as_secs_f64();
    database.checkpoint(&db)?;
    let (written, _database, db) = database.reopen(db)?;
    check_integrity(&db)?;
    let found = digest(&db)?;
    if found != expected {
        return Err(Failure::new(format!(
            "wrong answer: after {statement} the table sums up to {found:?}, not {expected:?}"
        )));
    }
    let bytes_each = written.zip(before).map(|(written, before)| (written - before) as f64);
    Ok(Sample { per_second: 1.0 / seconds, bytes_each, longest_ns: None, kept_bytes: None })
}

fn update(database: Database, bytes: u64, seed: u64) -> Outcome<Sample> {
    let db = database.connect()?;
    let rows = fill(&db, bytes, seed)? as i64;
    let (count, sum, texts) = digest(&db)?;
    timed(database, db, "UPDATE large SET n = n + 7", (count, sum + 7 * rows, texts))
}

fn vacuum(database: Database, bytes: u64, seed: u64) -> Outcome<Sample> {
    let db = database.connect()?;
    fill(&db, bytes, seed)?;
    sql(db.execute_batch("DELETE FROM large WHERE id % 10 = 3"))?;
    let expected = digest(&db)?;
    timed(database, db, "VACUUM", expected)
}

fn plan(operations: u64, threads: u32, seed: u64) -> Plan {
    Plan {
        threads: threads as usize,
        operations,
        warm_up: usual_warm_up(operations),
        seed,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

fn workload<P: SqlProgram>(
    program: &P,
    database: Database,
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Sample> {
    let db = database.connect()?;
    program.load(&db, progress)?;
    let (before, db) = database.renew(db)?;
    let connect = || {
        database.connect().map_err(|failure| match failure {
            Failure::Message(why) | Failure::Usage(why) => perdura_workloads::Failure::Remote(why),
            Failure::Interrupted | Failure::BrokenPipe => perdura_workloads::Failure::Stopped,
        })
    };
    let measured = on_connections(program, &connect, plan, progress)?;
    database.checkpoint(&db)?;
    let (written, _database, db) = database.reopen(db)?;
    check_integrity(&db)?;
    program.check(&db)?;
    // Those of the warm-up are among what was written.
    let all = (plan.operations + plan.warm_up).max(1) as f64;
    let bytes_each = written.zip(before).map(|(written, before)| (written - before) as f64 / all);
    let per_second = measured.per_second();
    Ok(Sample { per_second, bytes_each, longest_ns: None, kept_bytes: None })
}

fn cursor(database: Database, seconds: f64, seed: u64, progress: &Progress) -> Outcome<Sample> {
    let reader = database.connect()?;
    fill(&reader, SCANNED * ROW, seed)?;
    let expected = digest(&reader)?;
    sql(reader.execute_batch("CREATE TABLE puts (key INTEGER PRIMARY KEY, value BLOB NOT NULL)"))?;
    let mut select = sql(reader.prepare("SELECT id, n FROM large ORDER BY id"))?;
    let mut rows = sql(select.query(()))?;
    sql(rows.next())?;
    let writer = database.connect()?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut random, mut longest, mut commits) = (Random::new(seed, 0), Duration::ZERO, 0_u64);
    {
        let mut replace = sql(writer.prepare(REPLACE))?;
        let mut change = sql(writer.prepare("UPDATE large SET n = n + 1 WHERE id = ?1"))?;
        while Instant::now() < end && !progress.is_stopped() {
            let key = random.below(SCANNED) as i64;
            let begin = Instant::now();
            // Pages that the cursor has still to read are changed too.
            match commits % 2 {
                0 => sql(replace.execute((key, value(key as u64, 0, seed))))?,
                _ => sql(change.execute((key,)))?,
            };
            longest = longest.max(begin.elapsed());
            commits += 1;
        }
    }
    let kept = database.kept(&writer)?;
    // The cursor goes on in the version in which it began.
    let mut seen = (1, 0_i64);
    while let Some(row) = sql(rows.next())? {
        let (_, n): (i64, i64) = sql(row.try_into())?;
        seen = (seen.0 + 1, seen.1 + n);
    }
    drop(rows);
    drop(select);
    if seen != (expected.0, 0) {
        return Err(Failure::new(format!(
            "wrong answer: the cursor has seen {} rows of {}, changed {} times",
            seen.0, expected.0, seen.1
        )));
    }
    sql(reader.close().map_err(|(_, error)| error))?;
    let (_, _database, db) = database.reopen(writer)?;
    check_integrity(&db)?;
    let changed = digest(&db)?.1 - expected.1;
    if changed != (commits / 2) as i64 {
        return Err(Failure::new(format!(
            "wrong answer: {changed} of {} changes beside the cursor are there",
            commits / 2
        )));
    }
    Ok(Sample {
        per_second: commits as f64 / seconds,
        bytes_each: None,
        longest_ns: Some(longest.as_nanos() as f64),
        kept_bytes: Some(kept as f64),
    })
}
