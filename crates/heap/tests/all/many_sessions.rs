//! A thousand readers on a pool made with the defaults, each a thread with a session of its own, beside writers.

use perdura::collections::HashMap;
use perdura::{EngineKind, Error, Handle, Options, Pool, Result, Tx, TxExt};
use perdura_memory::random::SplitMix64;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const READERS: u64 = 1000;
const WRITERS: u64 = 4;
/// Times that a reader adds all accounts up.
const ROUNDS: u64 = 3;
/// One reader in so many begins a transaction before all others, and ends it after them.
const IDLE: u64 = 10;
const ACCOUNTS: u64 = 32;
const EACH: u64 = 1000;

type Accounts = HashMap<u64, u64>;

fn accounts(tx: &mut dyn Tx) -> Result<Accounts> {
    tx.open_or_create("accounts")
}

/// The sum of all accounts.
fn sum(tx: &mut dyn Tx) -> Result<u64> {
    let accounts = accounts(tx)?;
    (0..ACCOUNTS).try_fold(0, |sum, number| Ok(sum + accounts.get(tx, number)?.unwrap_or(0)))
}

/// Moves something from one account to another.
fn transfer(session: &mut Handle, random: &mut SplitMix64) -> Result<()> {
    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
    session.transaction(|tx| {
        let accounts = accounts(tx)?;
        let balance = accounts.get(tx, from)?.unwrap_or(0);
        let amount = balance.min(7);
        accounts.insert(tx, from, balance - amount)?;
        let balance = accounts.get(tx, to)?.unwrap_or(0);
        accounts.insert(tx, to, balance + amount).map(drop)
    })
}

/// A pool, and how far its threads have come.
struct Stage {
    pool: Pool,
    engine: EngineKind,
    /// All threads have their sessions.
    all_there: Barrier,
    /// Those readers are in their transactions that stay there.
    idle_are_in: Barrier,
    /// Readers that have not read everything yet.
    reading: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Stage {
    fn is_over(&self) -> bool {
        self.reading.load(Ordering::Relaxed) == 0
    }

    /// Other threads go on.
    fn stay(&self) {
        self.reading.fetch_sub(1, Ordering::Relaxed);
        while !self.is_over() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn read(&self) {
        let mut session = self.pool.session().unwrap();
        self.all_there.wait();
        self.idle_are_in.wait();
        for _ in 0..ROUNDS {
            assert_eq!(session.read(|tx| sum(tx)).unwrap(), ACCOUNTS * EACH, "{}", self.engine);
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
        self.stay();
    }

    /// One transaction, which begins before all writers' and ends after them.
    fn idle(&self) {
        let mut session = self.pool.session().unwrap();
        self.all_there.wait();
        let mut tx = session.begin_read().unwrap();
        assert_eq!(accounts(&mut tx).unwrap().get(&mut tx, 0).unwrap(), Some(EACH));
        self.idle_are_in.wait();
        self.stay();
        let optimistic =
            matches!(self.engine, EngineKind::CcStm | EngineKind::CcStmUndo | EngineKind::Stm);
        match sum(&mut tx) {
            Ok(all) => assert_eq!(all, ACCOUNTS * EACH, "{}", self.engine),
            // It has read too little to have a snapshot.
            Err(Error::Conflict) if optimistic => {}
            Err(error) => panic!("{}: {error}", self.engine),
        }
    }

    fn write(&self, number: u64) {
        let mut random = SplitMix64::new(number);
        let mut session = self.pool.session().unwrap();
        self.all_there.wait();
        self.idle_are_in.wait();
        while !self.is_over() {
            transfer(&mut session, &mut random).unwrap();
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn run(folder: &std::path::Path, engine: EngineKind) {
    let pool = Options::new().engine(engine).create(folder.join("a.pool")).unwrap();
    let fill = |tx: &mut dyn Tx| {
        let accounts = accounts(tx)?;
        (0..ACCOUNTS).try_for_each(|number| accounts.insert(tx, number, EACH).map(drop))
    };
    pool.session().unwrap().transaction(|tx| fill(tx)).unwrap();
    let all_there = Barrier::new((READERS + WRITERS) as usize);
    let idle_are_in = Barrier::new((READERS + WRITERS) as usize);
    let [reading, reads, writes] = [READERS, 0, 0].map(AtomicU64::new);
    let stage = Stage { pool, engine, all_there, idle_are_in, reading, reads, writes };
    // Engines without a log have no snapshots: a reader holds their writers up.
    let idles = engine.is_crash_consistent() || engine == EngineKind::Stm;
    thread::scope(|scope| {
        let stage = &stage;
        for number in 0..READERS + WRITERS {
            let body = move || match number.checked_sub(READERS) {
                Some(number) => stage.write(number),
                None if idles && number % IDLE == 0 => stage.idle(),
                None => stage.read(),
            };
            thread::Builder::new().stack_size(512 << 10).spawn_scoped(scope, body).unwrap();
        }
    });
    let [reads, writes] = [stage.reads, stage.writes].map(AtomicU64::into_inner);
    println!("{engine}: {reads} reads by {READERS} sessions beside {writes} commits");
    assert!(writes > 0);
    assert_eq!(stage.pool.session().unwrap().read(|tx| sum(tx)).unwrap(), ACCOUNTS * EACH);
    stage.pool.close().unwrap();
}

#[test]
fn a_thousand_readers() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.isolates()) {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        run(folder.path(), engine);
    }
}
