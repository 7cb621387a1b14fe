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
