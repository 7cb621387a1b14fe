//! Databases that one connection has attached: one commit.

use crate::common::{Folder, code, is_whole, number, open, run, text, uri};
use perdura::{Domain, Options};
use perdura_disktest::Trace;
use perdura_memory::mapped::record::{Faults, Record, Recorder};
use rusqlite::Connection;

fn attached(folder: &Folder) -> Connection {
    let db = folder.open();
    for name in ["b", "c"] {
        run(&db, &format!("ATTACH '{}' AS {name}", uri(&folder.pool().join(name), "")));
    }
    db
}

const TABLES: &str = "CREATE TABLE main.t (x); CREATE TABLE b.u (x); CREATE TABLE c.v (x)";
const ALL: &str =
    "BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); INSERT INTO v VALUES (1)";

#[test]
fn a_commit_of_several_databases_waits_for_one_sync() {
    let folder = Folder::new();
    let path = folder.path().join("trace");
    let recorder = Recorder::append_to(&path, Faults::default()).unwrap();
    let options = Options::new().size(64 << 20).log(8 << 20).domain(Some(Domain::Media));
    let served = perdura_sqlite::serve(options.record(recorder).create(folder.pool()).unwrap());
    let db = attached(&folder);
    run(&db, TABLES);
    for _ in 0..4 {
        run(&db, ALL);
        let before = Trace::read(&path).unwrap().len();
        run(&db, "COMMIT");
        let trace = Trace::read(&path).unwrap();
        let syncs = (before..trace.len()).filter(|&at| trace.record(at) == Record::Synced(true));
        assert_eq!(syncs.count(), 1);
    }
    drop((db, served));
}

#[test]
fn attached_databases_commit_and_roll_back_together() {
    let folder = Folder::new();
    let db = attached(&folder);
    run(&db, TABLES);
    run(&db, "PRAGMA main.cache_size = 5; PRAGMA b.cache_size = 5; PRAGMA c.cache_size = 5");
    run(&db, ALL);
    run(&db, "COMMIT");
    let big = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
        INSERT INTO {} SELECT printf('%0500d', i) FROM n";
    for table in ["t", "u", "v"] {
        run(&db, "BEGIN");
        for table in ["t", "u", "v"] {
            run(&db, &big.replace("{}", table));
        }
        let end = if table == "u" { "ROLLBACK" } else { "COMMIT" };
        run(&db, end);
        for schema in ["main", "b", "c"] {
            assert_eq!(text(&db, &format!("PRAGMA {schema}.integrity_check")), "ok");
        }
    }
    for table in ["t", "u", "v"] {
        assert_eq!(number(&db, &format!("SELECT count(*) FROM {table}")), 1001);
    }
    // Each of them can be written by another connection as soon as the commit has returned.
    let other = open(&folder.pool().join("c"), "");
    run(&other, "INSERT INTO v VALUES (5)");
    assert_eq!(number(&db, "SELECT count(*) FROM v"), 1002);
    drop((db, other));
    folder.check();
}

/// SQLite cuts a file after the first of them has ended phase two.
#[test]
fn attached_databases_that_shrink() {
    let folder = Folder::new();
    let db = attached(&folder);
    for schema in ["main", "b", "c"] {
        run(&db, &format!("PRAGMA {schema}.auto_vacuum = FULL"));
    }
    run(&db, TABLES);
    run(&db, "BEGIN");
    for table in ["t", "u", "v"] {
        run(&db, &format!("INSERT INTO {table} SELECT zeroblob(300000)"));
    }
    run(&db, "COMMIT; BEGIN; DELETE FROM t; DELETE FROM u; DELETE FROM v; COMMIT");
    drop(db);
    folder.check();
    let db = attached(&folder);
    for schema in ["main", "b", "c"] {
        assert!(number(&db, &format!("PRAGMA {schema}.page_count")) < 10);
    }
    is_whole(&db);
}

#[test]
fn a_commit_that_finds_no_room_leaves_all_of_them_as_they_were() {
    let folder = Folder::new();
    drop(open(&folder.pool(), "&size=12582912&log=1048576"));
    let db = attached(&folder);
    run(&db, TABLES);
    run(&db, ALL);
    run(&db, "COMMIT");
    run(&db, ALL);
    run(&db, "INSERT INTO u SELECT zeroblob(30000000)");
    assert_eq!(code(db.execute_batch("COMMIT")), 13);
    for table in ["t", "u", "v"] {
        assert_eq!(number(&db, &format!("SELECT count(*) FROM {table}")), 1);
    }
    run(&db, ALL);
    run(&db, "COMMIT");
    for table in ["t", "u", "v"] {
        assert_eq!(number(&db, &format!("SELECT count(*) FROM {table}")), 2);
    }
    drop(db);
    folder.check();
}

/// Two databases of a pool with an account in each, whose sum is 1,000.
fn accounts(folder: &Folder) -> [Connection; 2] {
    let one = attached(folder);
    let account = "TABLE t (i INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (1, 500)";
    for schema in ["main", "b", "c"] {
        let account = account.replace("TABLE t", &format!("TABLE {schema}.t"));
        run(&one, &format!("CREATE {}", account.replace("INTO t", &format!("INTO {schema}.t"))));
    }
    [one, attached(folder)]
}

const MOVE: &str = "BEGIN IMMEDIATE; UPDATE main.t SET n = n - 1; UPDATE b.t SET n = n + 1; COMMIT";
const SUM: &str = "SELECT (SELECT n FROM main.t) + (SELECT n FROM b.t)";

#[test]
fn a_transaction_sees_one_moment_of_all_databases() {
    let folder = Folder::new();
    let [writer, reader] = accounts(&folder);
    run(&reader, "BEGIN");
    assert_eq!(number(&reader, "SELECT n FROM main.t"), 500);
    run(&writer, MOVE);
    assert_eq!(number(&reader, "SELECT n FROM b.t"), 500);
    assert_eq!(number(&reader, SUM), 1000);
    // It was read, and is old.
    assert_eq!(code(reader.execute_batch("UPDATE main.t SET n = 0")), 517);
    // It was not read; but what was is old, so that this one cannot be written either.
    reader.busy_timeout(std::time::Duration::ZERO).unwrap();
    assert_eq!(code(reader.execute_batch("UPDATE b.t SET n = 0")) & 255, 5);
    run(&reader, "COMMIT");
    assert_eq!(number(&reader, "SELECT n FROM b.t"), 501);
    run(&reader, "UPDATE b.t SET n = 501");
    // The cursor alone holds the moment.
    let mut cursor = reader.prepare("SELECT n FROM b.t").unwrap();
    let mut rows = cursor.query(()).unwrap();
    rows.next().unwrap();
    run(&writer, MOVE);
    assert_eq!(number(&reader, SUM), 1000);
    assert_eq!(number(&reader, "SELECT n FROM main.t"), 499);
    drop(rows);
    drop(cursor);
    assert_eq!(number(&reader, "SELECT n FROM main.t"), 498);
}

/// While nothing that was read has changed, the moment is now.
#[test]
fn a_database_that_was_not_read_can_be_written_whatever_was_committed_to_it() {
    let folder = Folder::new();
    let [writer, reader] = accounts(&folder);
    run(&reader, "BEGIN");
    assert_eq!(number(&reader, "SELECT n FROM main.t"), 500);
    run(&writer, "UPDATE b.t SET n = 700");
    run(&reader, "UPDATE b.t SET n = n + 1; COMMIT");
    assert_eq!(number(&writer, "SELECT n FROM b.t"), 701);
    run(&reader, "BEGIN IMMEDIATE");
    assert_eq!(number(&reader, "SELECT n FROM main.t"), 500);
    run(&reader, "UPDATE c.t SET n = 1; COMMIT");
}

#[test]
fn databases_that_are_not_read_keep_no_version_afterwards() {
    let folder = Folder::new();
    let [writer, reader] = accounts(&folder);
    let kept = || {
        ["main", "b", "c"].map(|schema| {
            text(&writer, &format!("PRAGMA {schema}.perdura_kept_bytes")).parse::<i64>().unwrap()
        })
    };
    for end in ["COMMIT", "COMMIT; DETACH c", "COMMIT"] {
        run(&reader, "BEGIN");
        number(&reader, "SELECT n FROM main.t");
        run(&writer, MOVE);
        run(&writer, "UPDATE c.t SET n = n + 1");
        let all = kept();
        assert!(all[0] > 0 && all[1] > 0, "of the moment: {all:?}");
        run(&reader, end);
        assert_eq!(kept(), [0; 3], "after {end}");
    }
    run(&reader, "BEGIN");
    number(&reader, "SELECT n FROM main.t");
    run(&writer, MOVE);
    drop(reader);
    assert_eq!(kept(), [0; 3], "after closing");
    drop(writer);
    folder.check();
}

/// A database that is attached in the middle of a transaction was not pinned when it began.
#[test]
fn a_database_attached_later_shows_its_newest_version() {
    let folder = Folder::new();
    let [writer, reader] = accounts(&folder);
    run(&reader, "DETACH c; BEGIN");
    number(&reader, "SELECT n FROM main.t");
    run(&writer, MOVE);
    run(&writer, "UPDATE c.t SET n = 7");
    run(&reader, &format!("ATTACH '{}' AS c", uri(&folder.pool().join("c"), "")));
    assert_eq!(number(&reader, "SELECT n FROM c.t"), 7);
    assert_eq!(number(&reader, SUM), 1000);
    run(&reader, "COMMIT; UPDATE c.t SET n = 8");
}

#[test]
fn readers_of_two_databases_see_each_commit_in_both() {
    let folder = Folder::new();
    let [writer, other] = accounts(&folder);
    drop(other);
    let ended = std::sync::atomic::AtomicBool::new(false);
    let (ended, folder) = (&ended, &folder);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            run(&writer, "PRAGMA main.synchronous = OFF; PRAGMA b.synchronous = OFF");
            let mut moves = 0;
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                run(&writer, MOVE);
                moves += 1;
            }
            moves
        });
        let readers = [0, 1, 2].map(|way| {
            scope.spawn(move || {
                let reader = attached(folder);
                for _ in 0..perdura_testing::times(2000) {
                    let sum = match way {
                        0 => number(&reader, SUM),
                        _ => {
                            let order = if way == 1 { ["main", "b"] } else { ["b", "main"] };
                            run(&reader, "BEGIN");
                            let each = order.map(|schema| {
                                std::thread::yield_now();
                                number(&reader, &format!("SELECT n FROM {schema}.t"))
                            });
                            run(&reader, "COMMIT");
                            each.iter().sum()
                        }
                    };
                    if sum != 1000 {
                        return Some(sum);
                    }
                }
                None
            })
        });
        let wrong = readers.map(|reader| reader.join().unwrap());
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(wrong, [None; 3]);
        assert!(writer.join().unwrap() > 100);
    });
}

/// A statement that was refused queues when SQLite tries it again.
#[test]
fn threads_write_to_several_databases_each() {
    let folder = Folder::new();
    let [first, _] = accounts(&folder);
    let folder = &folder;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let db = attached(folder);
                for n in 0..60 {
                    match (thread + n) % 3 {
                        0 => run(&db, MOVE),
                        1 => run(&db, "UPDATE c.t SET n = n + 1"),
                        _ => run(&db, "UPDATE b.t SET n = n + (SELECT n - n FROM main.t)"),
                    }
                    assert_eq!(number(&db, SUM), 1000);
                }
            });
        }
    });
    assert_eq!(number(&first, "SELECT n FROM c.t"), 500 + 80);
    drop(first);
    folder.check();
}
