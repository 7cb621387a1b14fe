use super::linkbench::LinkBench;
use super::ycsb::Ycsb;
use super::*;
use crate::random::Random;
use crate::tpcc::Scale;
use crate::tpcc::sql::TpccInSql;
use crate::{load, measure};
use perdura::{AnyHeap, EngineKind, Format, Options};
use perdura_memory::{AnyMemory, Ram};
use std::sync::Arc;

const OPERATIONS: u64 = 900;

fn plan(threads: usize, window: usize) -> Plan {
    Plan {
        threads,
        operations: OPERATIONS,
        warm_up: 30,
        seed: 7,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window,
    }
}

/// Runs the program on one connection in memory. Returns the connection.
fn in_memory<P: Program>(program: &P) -> Connection {
    let db = Connection::open_in_memory().unwrap();
    prepare(&db).unwrap();
    let progress = Progress::default();
    program.load(&db, &progress).unwrap();
    program.check(&db).unwrap();
    let random = Random::new(7, 0);
    let share = Share { thread: 0, threads: 1, operations: 3_000, random };
    let mut recorder = Recorder::new(P::KINDS.len(), 0, 7, &progress);
    program.run_thread(&db, share, &mut recorder).unwrap();
    check_integrity(&db).unwrap();
    program.check(&db).unwrap();
    db
}

/// Each change of the tables, alone, is noticed by the check.
fn notices<P: Program>(program: &P, db: &Connection, changes: &[&str]) {
    for change in changes {
        db.execute_batch("BEGIN").unwrap();
        assert!(db.execute(change, ()).unwrap() > 0, "{change}");
        assert!(program.check(db).is_err(), "{change}");
        db.execute_batch("ROLLBACK").unwrap();
    }
    program.check(db).unwrap();
}

#[test]
fn ycsb_knows_its_records() {
    let ycsb = Ycsb::new(500, 1).unwrap();
    let db = in_memory(&ycsb);
    notices(
        &ycsb,
        &db,
        &[
            "DELETE FROM usertable WHERE ycsb_key = (SELECT max(ycsb_key) FROM usertable)",
            "INSERT INTO usertable SELECT 9999, version, 1,2,3,4,5,6,7,8,9,10 FROM usertable LIMIT 1",
            "UPDATE usertable SET version = version + 1 WHERE ycsb_key = (SELECT min(ycsb_key) FROM usertable)",
            "UPDATE usertable SET field7 = field6 WHERE ycsb_key = (SELECT min(ycsb_key) FROM usertable)",
        ],
    );
}

#[test]
fn linkbench_knows_its_rows() {
    let bench = LinkBench::new(800, 1).unwrap();
    let db = in_memory(&bench);
    notices(
        &bench,
        &db,
        &[
            "DELETE FROM nodetable WHERE id = (SELECT min(id) FROM nodetable)",
            "UPDATE nodetable SET data = x'00' WHERE id = (SELECT min(id) FROM nodetable)",
            "UPDATE linktable SET visibility = 0 WHERE id1 = (SELECT min(id1) FROM linktable WHERE visibility = 1)",
            "DELETE FROM linktable WHERE id1 = (SELECT min(id1) FROM linktable)",
            "UPDATE counttable SET count = count + 1 WHERE id = (SELECT min(id) FROM counttable)",
            "INSERT INTO linktable VALUES (7, 99999, 0, 0, x'', 0, 0)",
        ],
    );
}

/// A reader sees a wrong row while the program runs, not only at its end.
#[test]
fn a_lost_update_is_seen_by_the_next_read() {
    let ycsb = Ycsb::new(50, 1).unwrap();
    let db = in_memory(&ycsb);
    db.execute("UPDATE usertable SET field3 = 'x'", ()).unwrap();
    let progress = Progress::default();
    let share = Share { thread: 0, threads: 1, operations: 500, random: Random::new(8, 0) };
    let mut recorder = Recorder::new(Ycsb::KINDS.len(), 0, 7, &progress);
    let failed = ycsb.run_thread(&db, share, &mut recorder);
    assert!(matches!(failed, Err(Failure::Wrong(_))), "{failed:?}");
}

fn in_a_pool<P: Program>(program: P, engine: EngineKind, threads: usize, window: usize) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options::new().size(512 << 20).engine(engine);
    let pool = options.create(folder.path().join("a.pool")).unwrap();
    let (workload, progress) = (InPool::new(program), Progress::default());
    load(&workload, pool.heap(), &progress).unwrap();
    let plan = plan(threads, window);
    let measured = measure(&workload, pool.heap(), &plan, &progress).unwrap();
    assert_eq!(measured.operations, OPERATIONS);
    workload.check(&mut pool.heap().session().unwrap()).unwrap();
    pool.close().unwrap();
}

#[test]
fn each_engine_has_the_databases() {
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.isolates()) {
        in_a_pool(Ycsb::new(300, 1).unwrap(), engine, 1, 1);
        in_a_pool(LinkBench::new(300, 1).unwrap(), engine, 1, 1);
    }
}

#[test]
fn threads_and_windows_give_the_same_answers() {
    let scale = Scale { customers: 30, items: 100, new_orders: 9, ..Scale::small(1) };
    for (threads, window) in [(3, 1), (1, 64), (2, 64)] {
        in_a_pool(Ycsb::new(300, threads).unwrap(), EngineKind::ArchaptUndo, threads, window);
        in_a_pool(LinkBench::new(300, threads).unwrap(), EngineKind::Redo, threads, window);
        in_a_pool(TpccInSql::new(scale, 3).unwrap(), EngineKind::ArchaptRedo, threads, window);
    }
}

#[test]
fn threads_share_an_ordinary_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let connect = || {
        let db = open(path.to_str().unwrap())?;
        db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")?;
        Ok(db)
    };
    let (bench, progress) = (LinkBench::new(500, 3).unwrap(), Progress::default());
    let db = connect().unwrap();
    bench.load(&db, &progress).unwrap();
    let measured = on_connections(&bench, &connect, &plan(3, 1), &progress).unwrap();
    assert_eq!(measured.operations, OPERATIONS);
    bench.check(&db).unwrap();
    check_integrity(&db).unwrap();
}

/// Uses of pages are counted after loading: each operation reads or commits some.
#[test]
fn uses_of_pages_are_counted() {
    let reuse = |operations| {
        let memory = Arc::new(AnyMemory::new(Arc::new(Ram::new(128 << 20))));
        let format =
            Format { limit: 128 << 20, log: None, id: 1, requires: None, checksums: false };
        let heap = <dyn AnyHeap>::create(EngineKind::Volatile, memory, format).unwrap();
        let workload = InPool::new(Ycsb::new(9_000, 1).unwrap());
        let session = &mut heap.session().unwrap();
        workload.reuse(session, operations, 7, &Progress::default()).unwrap().unwrap()
    };
    let none = reuse(0);
    assert_eq!((none.once + none.twice + none.more, none.never > 1_000), (0, true), "{none:?}");
    let some = reuse(300);
    assert_eq!(some, reuse(300));
    assert!(some.never < none.never && some.never > 300 && some.once > some.twice, "{some:?}");
    assert!(some.objects() >= none.objects(), "{some:?}");
}
