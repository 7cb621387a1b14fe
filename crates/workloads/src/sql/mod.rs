//! Workloads in SQL, on any database of SQLite: LinkBench, OLTP-bench's YCSB and TPC-C (`tpcc/sql`).
//!
//! A [`Program`] runs on connections, whichever database they have: an ordinary file, one in memory, or one in a pool
//! ([`on_connections`]). As a workload of the list it is an [`InPool`]: each thread lends its session to SQLite, which
//! finds the database in the heap by the VFS of `perdura-sqlite`; so it runs under each engine, in files and on
//! simulated machines, where a single core may use SQLite.
//!
//! SQLite's own memory (its page cache, the VFS's staged pages) is no memory of the simulated machine, and its
//! computation takes no simulated time: what is simulated are the pool's loads, stores, write-backs and fences.
//!
//! All transactions that write begin with `BEGIN IMMEDIATE`. Each thread writes to rows of its own and reads all of
//! them, so that the threads' models together are the whole table.

pub mod linkbench;
mod payload;
#[cfg(test)]
mod tests;
pub mod ycsb;

use crate::phase::Phase;
use crate::random::Random;
use crate::reuse::{Reuse, Uses};
use crate::run::Plan;
use crate::{Failure, Measured, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::{Mode, Result, Ticket};
use perdura_sqlite::{Body, Databases, Transactions};
use rusqlite::Connection;
use std::time::Duration;

/// Statements that a connection keeps prepared: more than any program here has.
const STATEMENTS: usize = 256;
/// The longest that a connection waits for others.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program in SQL, and the right result.
pub trait Program: Sync {
    /// The kinds of operations, for the latency table.
    const KINDS: &'static [&'static str];

    /// Rows that [`load`](Program::load) makes.
    fn load_size(&self) -> u64;

    /// Makes the tables, and their first rows.
    ///
    /// # Errors
    /// Those of SQLite, or `Stopped`.
    fn load(&self, db: &Connection, progress: &Progress) -> Outcome;

    /// Does one thread's share of the operations.
    ///
    /// # Errors
    /// Those of SQLite; `Wrong` if a read returned something else than was written.
    fn run_thread(&self, db: &Connection, share: Share, recorder: &mut Recorder<'_>) -> Outcome;

    /// Compares all rows with the threads' work; no thread is running.
    ///
    /// # Errors
    /// `Wrong` where they differ.
    fn check(&self, db: &Connection) -> Outcome;

    /// The threads' counters so far, by name, besides the kinds of operations.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Opens a database, as all programs want it.
///
/// # Errors
/// Those of SQLite.
pub fn open(uri: &str) -> Outcome<Connection> {
    let db = Connection::open(uri)?;
    prepare(&db)?;
    Ok(db)
}

/// Sets up a connection for programs.
///
/// # Errors
/// Those of SQLite.
pub fn prepare(db: &Connection) -> Outcome {
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    db.busy_timeout(PATIENCE)?;
    Ok(())
}

/// Checks the database as SQLite does.
///
/// # Errors
/// `Wrong` if it is damaged.
pub fn check_integrity(db: &Connection) -> Outcome {
    let mut check = db.prepare("PRAGMA integrity_check")?;
    let found = check.query_map((), |row| row.get::<_, String>(0))?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    if found == ["ok"] { Ok(()) } else { Err(Failure::wrong(found.join("; "))) }
}

/// Runs the body in a transaction that writes.
///
/// # Errors
/// Those of the body and of SQLite: the transaction is rolled back then.
pub(crate) fn writing<R>(db: &Connection, body: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
    transaction(db, "BEGIN IMMEDIATE", body)
}

/// Runs the body in a transaction that only reads, so that all its statements see one state.
///
/// # Errors
/// Those of the body and of SQLite.
pub(crate) fn reading<R>(db: &Connection, body: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
    transaction(db, "BEGIN", body)
}

fn transaction<R>(db: &Connection, begin: &str, body: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
    db.prepare_cached(begin)?.execute(())?;
    let result = body().and_then(|result| {
        db.prepare_cached("COMMIT")?.execute(())?;
        Ok(result)
    });
    if result.is_err() && !db.is_autocommit() {
        db.prepare_cached("ROLLBACK")?.execute(())?;
    }
    result
}

/// Warms up and measures a program whose threads open a connection each.
///
/// # Errors
/// As [`Program::run_thread`].
pub fn on_connections<P: Program>(
    program: &P,
    connect: &(dyn Fn() -> Outcome<Connection> + Sync),
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Measured> {
    let phase = |phase: Phase<'_>| {
        phase.run(connect, |db: &mut Connection, share, recorder| {
            program.run_thread(db, share, recorder)?;
            Ok(perdura::Counters::default())
        })
    };
    progress.restart();
    if plan.warm_up > 0 {
        phase(Phase::warm_up(plan, P::KINDS, progress))?;
    }
    let before = program.counts();
    let mut measured = phase(Phase::measured(plan, P::KINDS, progress))?;
    let now = program.counts().into_iter().zip(before);
    measured.counts = now.map(|((name, count), (_, before))| (name, count - before)).collect();
    Ok(measured)
}

/// A program as a workload: its database is in the heap.
#[derive(Default)]
pub struct InPool<P> {
    program: P,
    databases: Databases,
}

impl<P: Program> InPool<P> {
    /// The program's workload.
    pub fn new(program: P) -> Self {
        InPool { program, databases: Databases::default() }
    }

    /// Runs the body on a connection to the database in the session's heap.
    fn with<S: Session, R>(
        &self,
        session: &mut S,
        body: impl FnOnce(&Connection) -> Outcome<R>,
    ) -> Outcome<R> {
        self.lending(&mut Borrowed { session, uses: None }, body)
    }

    fn lending<S: Session, R>(
        &self,
        session: &mut Borrowed<'_, S>,
        body: impl FnOnce(&Connection) -> Outcome<R>,
    ) -> Outcome<R> {
        perdura_sqlite::register()
            .map_err(|code| Failure::Parameters(format!("SQLite refuses the VFS ({code})")))?;
        perdura_sqlite::lend(session, &self.databases, |uri| body(&open(uri)?))
    }
}

/// A workload's session, for SQLite. Its transactions are durable when they return, or the session's window is for them.
struct Borrowed<'a, S> {
    session: &'a mut S,
    /// Uses of pages, if they are counted.
    uses: Option<&'a mut Uses>,
}

impl<S: Session> Transactions for Borrowed<'_, S> {
    fn submit(&mut self, mode: Mode, body: Body<'_>) -> Result<Ticket> {
        match mode {
            Mode::Write => self.session.transaction(|tx| body(tx))?,
            Mode::Read => self.session.read_part(|tx| body(tx))?,
        }
        Ok(Ticket::default())
    }

    fn is_durable(&self, _: Ticket) -> bool {
        true
    }

    fn wait(&mut self, _: Ticket) -> Result<()> {
        Ok(())
    }

    fn use_page(&mut self, page: u64) {
        if let Some(uses) = &mut self.uses {
            uses.note(page);
        }
    }
}

impl<P: Program> Workload for InPool<P> {
    const KINDS: &'static [&'static str] = P::KINDS;

    const ONE_CORE: bool = true;

    fn rolls_back(&self) -> bool {
        // The VFS commits pages or nothing: the pool's transactions are never rolled back.
        false
    }

    fn load_size(&self) -> u64 {
        self.program.load_size()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        self.with(session, |db| self.program.load(db, progress))
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        self.with(session, |db| self.program.run_thread(db, share, recorder))
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        self.with(session, |db| {
            check_integrity(db)?;
            self.program.check(db)
        })
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.program.counts()
    }

    fn reuse<S: Session>(
        &self,
        session: &mut S,
        operations: u64,
        seed: u64,
        progress: &Progress,
    ) -> Option<Outcome<Reuse>> {
        Some(self.count(session, operations, seed, progress))
    }
}

impl<P: Program> InPool<P> {
    /// How often each page is read from the heap, or committed.
    fn count<S: Session>(
        &self,
        session: &mut S,
        operations: u64,
        seed: u64,
        progress: &Progress,
    ) -> Outcome<Reuse> {
        self.load(session, progress)?;
        let pages = self.with(session, |db| {
            Ok(db.query_row("PRAGMA page_count", (), |row| row.get::<_, u32>(0))?)
        })?;
        let mut uses = Uses::of(pages.into());
        let share = Share { thread: 0, threads: 1, operations, random: Random::new(seed, 0) };
        progress.restart();
        let mut recorder = Recorder::new(P::KINDS.len(), 0, seed, progress);
        self.lending(&mut Borrowed { session, uses: Some(&mut uses) }, |db| {
            self.program.run_thread(db, share, &mut recorder)
        })?;
        self.check(session)?;
        Ok(uses.reuse())
    }
}

/// Parts of the rows, one for each thread that writes.
pub(crate) fn parts<T>(threads: usize, part: impl Fn(u64) -> T) -> Vec<std::sync::Mutex<T>> {
    (0..threads.max(1) as u64).map(|number| std::sync::Mutex::new(part(number))).collect()
}

/// Does a share's operations, each of a kind that is drawn first.
///
/// # Errors
/// Those of `operate`.
pub(crate) fn run_share(
    share: &mut Share,
    recorder: &mut Recorder<'_>,
    kind: impl Fn(&mut Random) -> usize,
    mut operate: impl FnMut(usize, &mut Random) -> Outcome,
) -> Outcome {
    for _ in 0..share.operations {
        if !recorder.go_on() {
            break;
        }
        let kind = kind(&mut share.random);
        recorder.operation(kind, || operate(kind, &mut share.random))?;
    }
    Ok(())
}

/// The part of the share's thread.
///
/// # Errors
/// `Parameters` if there are more threads than the program was made for.
pub(crate) fn part_of<'a, T>(
    parts: &'a [std::sync::Mutex<T>],
    share: &Share,
) -> Outcome<std::sync::MutexGuard<'a, T>> {
    let part = parts.get(share.thread).ok_or_else(|| {
        Failure::Parameters(format!("a program made for {} threads has more", parts.len()))
    })?;
    Ok(part.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}
