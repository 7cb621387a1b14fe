//! Several connections: versions, the one writer, and who waits for durability.

use crate::common::{Folder, code, is_whole, number, open, run, text, uri};
use perdura::{Domain, Options};
use perdura_memory::mapped::record::{Faults, Record, Recorder};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

const ROWS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
    INSERT INTO t SELECT i, printf('%0200d', i) FROM n";

fn filled(folder: &Folder) -> Connection {
    let db = folder.open();
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x TEXT)");
    run(&db, ROWS);
    db
}

/// Bytes of old pages that are kept in memory.
fn kept(db: &Connection) -> i64 {
    text(db, "PRAGMA perdura_kept_bytes").parse().unwrap()
}

#[test]
fn two_connections_on_one_thread() {
    let folder = Folder::new();
    let (one, two) = (filled(&folder), folder.open());
    two.busy_timeout(Duration::ZERO).unwrap();
    run(&one, "BEGIN IMMEDIATE; UPDATE t SET x = 'one' WHERE i = 1");
    let begun = Instant::now();
    assert_eq!(code(two.execute_batch("UPDATE t SET x = 'two' WHERE i = 2")), 5);
    assert!(begun.elapsed() < Duration::from_secs(5), "a thread does not wait for itself");
    assert_ne!(text(&two, "SELECT x FROM t WHERE i = 1"), "one");
    run(&one, "COMMIT");
    assert_eq!(text(&two, "SELECT x FROM t WHERE i = 1"), "one");
    run(&two, "UPDATE t SET x = 'two' WHERE i = 2");
    assert_eq!(text(&one, "SELECT x FROM t WHERE i = 2"), "two");
}

#[test]
fn a_reader_keeps_its_version_whatever_is_committed() {
    let folder = Folder::new();
    // The pool is small: pages that are freed too early are used again.
    let writer = open(&folder.pool(), "&size=16777216&log=1048576");
    run(&writer, "CREATE TABLE t (i INTEGER PRIMARY KEY, x TEXT)");
    run(&writer, ROWS);
    let reader = folder.open();
    // So that each read reaches the VFS.
    run(&reader, "PRAGMA cache_size = 0; BEGIN");
    let sum = "SELECT count(*) || '/' || sum(i) || '/' || sum(length(x)) || '/' || min(x)
        || '/' || sum(i * unicode(substr(x, 199))) FROM t";
    let before = text(&reader, sum);
    for round in 0..20 {
        run(
            &writer,
            &format!("UPDATE t SET x = '{round}' || substr(x, 3) WHERE i % 10 = {round} % 10"),
        );
        run(
            &writer,
            &format!("UPDATE t SET x = hex(randomblob(100)) WHERE i / 200 = {round} % 15"),
        );
        run(&writer, "UPDATE t SET x = x || 'a' WHERE i = 77");
        assert_eq!(text(&reader, sum), before);
    }
    run(&writer, "DELETE FROM t WHERE i > 100; VACUUM");
    assert_eq!(text(&reader, sum), before);
    assert_eq!(text(&reader, "PRAGMA integrity_check"), "ok");
    run(&writer, "INSERT INTO t SELECT i + 5000, printf('%0300d', i) FROM t");
    assert_eq!(text(&reader, sum), before);
    // It cannot write on an old version.
    assert_eq!(code(reader.execute_batch("INSERT INTO t VALUES (-1, 'x')")), 517);
    run(&reader, "COMMIT");
    assert_eq!(number(&reader, "SELECT count(*) FROM t"), 200);
    is_whole(&reader);
    run(&reader, "INSERT INTO t VALUES (-1, 'x')");
    assert_eq!(kept(&writer), 0, "nobody reads an old version");
    drop((writer, reader));
    folder.check();
}

/// All that an open cursor holds back is one state of each page: the pool has room for that, not for each commit's.
#[test]
fn an_open_cursor_holds_up_nobody_and_holds_back_one_version() {
    let folder = Folder::new();
    let path = folder.pool();
    let writer = open(&path, "&size=33554432&log=1048576");
    run(&writer, "CREATE TABLE t (i INTEGER PRIMARY KEY, x TEXT)");
    run(&writer, ROWS);
    let bytes = number(&writer, "PRAGMA page_count") * 4096;
    let reader = open(&path, "");
    let mut cursor = reader.prepare("SELECT i, x FROM t ORDER BY i").unwrap();
    let mut rows = cursor.query(()).unwrap();
    rows.next().unwrap();
    let (mut longest, mut replaced) = (Duration::ZERO, 0);
    for round in 0..600_i64 {
        let begun = Instant::now();
        // Every other commit changes pages whole, the others a few bytes.
        match round % 2 {
            0 => {
                run(&writer, "UPDATE t SET x = hex(randomblob(100)) WHERE i % 100 < 50");
                replaced += bytes / 2;
            }
            _ => run(&writer, &format!("UPDATE t SET x = x WHERE i = {round}")),
        }
        longest = longest.max(begun.elapsed());
        assert!(kept(&writer) <= bytes);
    }
    assert!(replaced > 33554432, "more than the pool holds");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    let mut count = 1;
    while let Some(row) = rows.next().unwrap() {
        count += 1;
        let (i, x): (i64, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        assert_eq!((i, x), (count, format!("{count:0200}")));
    }
    assert_eq!(count, 3000);
    drop(rows);
    drop(cursor);
    is_whole(&reader);
    drop((writer, reader));
    folder.check();
}

#[test]
fn four_threads_write_and_none_is_refused() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE count (n); INSERT INTO count VALUES (0); CREATE TABLE t (thread, n)");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = folder.open();
            scope.spawn(move || {
                for n in 0..150 {
                    match n % 3 {
                        0 => run(&db, "UPDATE count SET n = n + 1"),
                        _ => run(&db, "BEGIN IMMEDIATE; UPDATE count SET n = n + 1; COMMIT"),
                    }
                    run(&db, &format!("INSERT INTO t VALUES ({thread}, {n})"));
                    let seen =
                        number(&db, &format!("SELECT count(*) FROM t WHERE thread = {thread}"));
                    assert_eq!(seen, n + 1, "a connection reads what it has written");
                }
            });
        }
    });
    assert_eq!(number(&db, "SELECT n FROM count"), 600);
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 600);
    is_whole(&db);
    drop(db);
    folder.check();
}

/// Commits overwrite pages in place while a reader reads them.
#[test]
fn a_reader_sees_no_part_of_a_commit() {
    let folder = Folder::new();
    let writer = filled(&folder);
    run(&writer, "CREATE TABLE a (i INTEGER PRIMARY KEY, n, pad)");
    run(&writer, "INSERT INTO a SELECT i, 100, printf('%03000d', i) FROM t WHERE i <= 20");
    let ended = std::sync::atomic::AtomicBool::new(false);
    let ended = &ended;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            run(&writer, "PRAGMA synchronous = OFF");
            let mut n = 0;
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                n = n % 19 + 1;
                run(
                    &writer,
                    &format!(
                        "UPDATE a SET n = n + (i = {n}) - (i = {n} + 1) WHERE i IN ({n}, {n} + 1)"
                    ),
                );
            }
        });
        // More of them than processors, so that they are interrupted anywhere.
        let readers = [(); 4].map(|()| {
            let reader = folder.open();
            run(&reader, "PRAGMA cache_size = 0");
            scope.spawn(move || {
                let mut sums = (0..perdura_testing::times(10_000))
                    .map(|_| number(&reader, "SELECT sum(n) FROM a"));
                sums.find(|&sum| sum != 2000)
            })
        });
        let parts = readers.map(|reader| reader.join().unwrap());
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(parts, [None; 4]);
    });
}

/// Without a busy timeout: a statement that writes waits for its turn for a short time.
#[test]
fn a_statement_that_writes_waits_for_its_turn() {
    let folder = Folder::new();
    let (one, mut two) = (filled(&folder), folder.open());
    two.busy_timeout(Duration::ZERO).unwrap();
    // A machine that is busy may take longer than the queue waits.
    let in_turn = (0..20).filter(|_| {
        run(&one, "BEGIN IMMEDIATE; UPDATE t SET x = 'one' WHERE i = 1");
        std::thread::scope(|scope| {
            let two = &mut two;
            let write = "UPDATE t SET x = 'two' WHERE i = 2";
            let written = scope.spawn(move || two.execute(write, ()));
            std::thread::sleep(Duration::from_millis(20));
            run(&one, "COMMIT");
            written.join().unwrap().is_ok()
        })
    });
    let in_turn = in_turn.count();
    assert!(in_turn > 10, "{in_turn} of 20");
}

#[test]
fn a_connection_moves_between_threads() {
    let folder = Folder::new();
    let mut db = folder.open();
    run(&db, "CREATE TABLE t (x)");
    for n in 0..6 {
        db = std::thread::spawn(move || {
            match n % 2 {
                0 => run(&db, "BEGIN; INSERT INTO t VALUES (1)"),
                _ => run(&db, "INSERT INTO t VALUES (2); COMMIT"),
            }
            db
        })
        .join()
        .unwrap();
    }
    assert_eq!(number(&db, "SELECT sum(x) FROM t"), 9);
}

/// Counts the syncs in a trace.
fn syncs(trace: &Path) -> usize {
    let bytes = std::fs::read(trace).unwrap();
    let (mut at, mut count) = (0, 0);
    while let Some((record, len)) = Record::decode(&bytes[at..]) {
        count += usize::from(record == Record::Synced(true));
        at += len;
    }
    count
}

/// A pool on a block device, as far as the library knows.
fn recorded(folder: &Folder) -> (perdura_sqlite::Served, std::path::PathBuf) {
    let trace = folder.path().join("trace");
    let recorder = Recorder::append_to(&trace, Faults::default()).unwrap();
    let options = Options::new().size(64 << 20).log(8 << 20).domain(Some(Domain::Media));
    let pool = options.record(recorder).create(folder.pool()).unwrap();
    (perdura_sqlite::serve(pool), trace)
}

#[test]
fn no_row_is_read_that_a_power_cut_could_take_back() {
    let folder = Folder::new();
    let (served, trace) = recorded(&folder);
    let (writer, reader) = (folder.open(), folder.open());
    run(&writer, "CREATE TABLE t (x); CREATE TABLE u (x); INSERT INTO u VALUES (0)");
    run(&writer, "PRAGMA synchronous = OFF");
    let reads =
        ["SELECT sum(x) FROM t", "SELECT count(*) FROM sqlite_schema", "PRAGMA user_version"];
    for read in reads {
        let before = syncs(&trace);
        run(&writer, "INSERT INTO t VALUES (1); PRAGMA user_version = 3");
        number(&writer, read);
        assert_eq!(syncs(&trace), before, "its writer waits for nothing");
        let mut statement = reader.prepare(read).unwrap();
        let mut rows = statement.query(()).unwrap();
        rows.next().unwrap().unwrap();
        let after = syncs(&trace);
        assert!(after > before, "{read}: before the row is returned");
        drop(rows);
        drop(statement);
        number(&reader, read);
        assert_eq!(syncs(&trace), after, "it is durable now");
    }
    // A writer waits for its own commit alone.
    run(&writer, "INSERT INTO t VALUES (1)");
    let before = syncs(&trace);
    run(&reader, "BEGIN IMMEDIATE; UPDATE u SET x = 1");
    assert_eq!(syncs(&trace), before);
    run(&reader, "COMMIT");
    let after = syncs(&trace);
    assert!(after > before);
    // One that gives up has read what it may keep in its cache.
    run(&writer, "INSERT INTO t VALUES (1)");
    run(&reader, "BEGIN IMMEDIATE; UPDATE u SET x = 2; ROLLBACK");
    assert!(syncs(&trace) > after);
    drop((writer, reader, served));
}

/// Bytes written to the file, according to a trace.
fn written(trace: &Path) -> usize {
    let bytes = std::fs::read(trace).unwrap();
    let (mut at, mut written) = (0, 0);
    while let Some((record, len)) = Record::decode(&bytes[at..]) {
        if let Record::Write(_, bytes) = record {
            written += bytes.len();
        }
        at += len;
    }
    written
}

/// A write-ahead log would take a page and a header of 24 bytes for each of the two pages that a small commit changes,
/// and the pages again later.
#[test]
fn a_small_commit_writes_a_fraction_of_its_pages() {
    let folder = Folder::new();
    let (served, trace) = recorded(&folder);
    let db = folder.open();
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
    run(&db, ROWS);
    let before = written(&trace);
    const COMMITS: usize = 500;
    for n in 0..COMMITS {
        run(
            &db,
            &format!("UPDATE t SET x = hex(randomblob(50)) WHERE i = {}", 7919 * n % 3000 + 1),
        );
    }
    drop((db, served));
    // What the checkpoint writes when the pool is closed is among it.
    let each = (written(&trace) - before) / COMMITS;
    println!("{each} bytes for each commit");
    assert!(each < 2 * (4096 + 24) / 4, "{each} bytes for each commit");
}

#[test]
fn connections_share_syncs() {
    let folder = Folder::new();
    let (served, trace) = recorded(&folder);
    let db = folder.open();
    run(&db, "CREATE TABLE t (thread, n)");
    let before = syncs(&trace);
    const EACH: i64 = 60;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let db = folder.open();
            scope.spawn(move || {
                for n in 0..EACH {
                    run(&db, &format!("INSERT INTO t VALUES ({thread}, {n})"));
                }
            });
        }
    });
    let made = syncs(&trace) - before;
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 8 * EACH);
    assert!(made < 8 * EACH as usize * 3 / 4, "{made} syncs for {} commits", 8 * EACH);
    drop((db, served));
}

#[test]
fn exclusive_locking_waits_for_each_commit() {
    let folder = Folder::new();
    let (served, trace) = recorded(&folder);
    let db = folder.open();
    run(&db, "PRAGMA locking_mode = EXCLUSIVE; CREATE TABLE t (x)");
    for n in 0..5 {
        let before = syncs(&trace);
        run(&db, &format!("INSERT INTO t VALUES ({n})"));
        assert!(syncs(&trace) > before);
    }
    run(&db, "BEGIN; INSERT INTO t VALUES (9); ROLLBACK");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 5);
    let other = folder.open();
    other.busy_timeout(Duration::ZERO).unwrap();
    assert_eq!(code(other.execute_batch("INSERT INTO t VALUES (1)")), 5);
    drop((other, db, served));
}

/// A table of the numbers from 1 to 400.
const NUMBERS: &str =
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 400)";

/// SQLite cuts the file after it has asked for the sync.
#[test]
fn a_commit_that_cuts_the_database_is_waited_for() {
    let folder = Folder::new();
    let (served, trace) = recorded(&folder);
    let db = folder.open();
    run(&db, "PRAGMA auto_vacuum = FULL; CREATE TABLE t (n, text)");
    let rows = "INSERT INTO t SELECT n, printf('%.*c', 900, 'x') FROM numbers";
    run(&db, &format!("{NUMBERS} {rows}"));
    let pages = number(&db, "PRAGMA page_count");
    for statement in ["DELETE FROM t WHERE n > 300", "DELETE FROM t WHERE n % 2 = 0", "VACUUM"] {
        let before = syncs(&trace);
        run(&db, statement);
        assert!(syncs(&trace) > before, "{statement}");
    }
    assert!(number(&db, "PRAGMA page_count") < pages / 2);
    drop((db, served));
}

/// Of a `main` that is elsewhere, the pragma is not heard here.
#[test]
fn exclusive_locking_from_a_main_elsewhere_waits_for_each_commit() {
    let elsewhere = Folder::new();
    for main in [Connection::open_in_memory().unwrap(), elsewhere.open()] {
        let folder = Folder::new();
        let (served, trace) = recorded(&folder);
        run(&main, "PRAGMA locking_mode = EXCLUSIVE");
        run(&main, &format!("ATTACH '{}' AS p", uri(&folder.pool(), "")));
        run(&main, "PRAGMA locking_mode = EXCLUSIVE; CREATE TABLE p.t (x)");
        for n in 0..3 {
            let before = syncs(&trace);
            run(&main, &format!("INSERT INTO p.t VALUES ({n})"));
            assert!(syncs(&trace) > before);
        }
        drop((main, served));
    }
}

#[test]
fn another_connections_changes_are_not_committed_before_they_end() {
    let folder = Folder::new();
    let orders = folder.pool().join("orders");
    let first = open(&folder.pool(), "&cache=shared");
    run(&first, "CREATE TABLE t (n, text)");
    run(
        &first,
        &format!("{NUMBERS} INSERT INTO t SELECT 1, printf('%.*c', 900, 'x') FROM numbers"),
    );
    run(&first, &format!("ATTACH '{}' AS orders", uri(&orders, "&cache=shared")));
    run(&first, "CREATE TABLE orders.o (x); PRAGMA cache_size = 10");
    // More pages than the cache has: most are written before the transaction ends.
    run(&first, "BEGIN; UPDATE t SET n = 2");
    let second = open(&orders, "&cache=shared");
    run(&second, "INSERT INTO o VALUES (1)");
    run(&first, "ROLLBACK");
    drop((first, second));
    let db = folder.open();
    is_whole(&db);
    assert_eq!(number(&db, "SELECT sum(n) FROM t"), 400);
    assert_eq!(number(&open(&orders, ""), "SELECT count(*) FROM o"), 1);
}

#[test]
fn a_transaction_that_writes_elsewhere_keeps_nobody_from_writing() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (x); INSERT INTO t VALUES (1); CREATE TEMP TABLE u (x)");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 1);
    // Its pages are in the cache: nothing tells that it only reads.
    run(&db, "BEGIN; INSERT INTO u SELECT x FROM t");
    let other = folder.open();
    std::thread::spawn(move || run(&other, "INSERT INTO t VALUES (2)")).join().unwrap();
    let other = folder.open();
    run(&other, "INSERT INTO t VALUES (3)");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 1);
    assert_eq!(code(db.execute_batch("INSERT INTO t VALUES (4)")), 517);
    run(&db, "COMMIT; INSERT INTO t VALUES (4)");
    assert_eq!(number(&other, "SELECT count(*) FROM t"), 4);
}

/// An engine that waits for the medium after each store must not make a commit last longer than others wait for it.
#[test]
fn a_commit_takes_few_syncs_under_each_engine() {
    for engine in perdura::EngineKind::ALL.iter().filter(|engine| engine.is_crash_consistent()) {
        let folder = Folder::new();
        let trace = folder.path().join("trace");
        let recorder = Recorder::append_to(&trace, Faults::default()).unwrap();
        let options = Options::new().size(64 << 20).log(4 << 20).domain(Some(Domain::Media));
        let options = options.engine(*engine).record(recorder);
        // Not each engine works on each machine and medium.
        let Ok(pool) = options.create(folder.pool()) else { continue };
        let served = perdura_sqlite::serve(pool);
        let db = folder.open();
        run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
        run(&db, ROWS);
        // In about 75 of 160 pages.
        let before = syncs(&trace);
        run(&db, "UPDATE t SET x = x || 'a' WHERE i % 40 = 1");
        let made = syncs(&trace) - before;
        println!("{engine}: {made} syncs");
        assert!(made < 1000, "{engine}: {made} syncs");
        is_whole(&db);
        drop((db, served));
    }
}
