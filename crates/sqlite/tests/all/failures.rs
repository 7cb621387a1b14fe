//! A full pool, and a medium that fails: the right code, and nothing lost.

use crate::common::{Folder, code, is_whole, number, open, run, text};
use perdura::{Domain, Options};
use perdura_memory::mapped::record::{Faults, Recorder};
use rusqlite::Connection;

#[test]
fn a_full_pool_refuses_a_commit_and_takes_the_next_when_there_is_room() {
    let folder = Folder::new();
    let db = open(&folder.pool(), "&size=12582912&log=1048576");
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
    let mut rows = 0;
    let refused = loop {
        match db.execute("INSERT INTO t VALUES (?1, randomblob(100000))", [rows]) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
        assert!(rows < 1000);
    };
    assert_eq!(refused.sqlite_error().unwrap().extended_code, 13);
    assert_eq!(number(&db, "SELECT count(*) FROM t WHERE length(x) = 100000"), rows);
    is_whole(&db);
    assert_eq!(code(db.execute("INSERT INTO t VALUES (?1, randomblob(9000000))", [rows])), 13);
    run(&db, "DELETE FROM t WHERE i % 2 = 0");
    for _ in 0..5 {
        run(
            &db,
            "INSERT INTO t (x) VALUES (randomblob(100000)); DELETE FROM t WHERE i = (SELECT min(i) FROM t)",
        );
    }
    is_whole(&db);
    drop(db);
    folder.check();
    let db = open(&folder.pool(), "");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), rows - (rows + 1) / 2);
    is_whole(&db);
}

#[test]
fn rows_of_a_full_pool_can_be_changed_as_far_as_the_log_goes() {
    let folder = Folder::new();
    let db = open(&folder.pool(), "&size=12582912&log=1048576");
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
    for rows in [500, 1] {
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
            INSERT INTO t (x) SELECT randomblob(300) FROM n"
        );
        while db.execute_batch(&sql).is_ok() {}
    }
    let rows = number(&db, "SELECT count(*) FROM t");
    assert!(rows > 5000, "{rows}");
    run(&db, "UPDATE t SET x = randomblob(300) WHERE i <= 1000");
    run(&db, "DELETE FROM t WHERE i > 1000");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 1000);
    is_whole(&db);
    drop(db);
    folder.check();
}

#[test]
fn a_large_commit_that_failed_gives_its_pages_back() {
    let folder = Folder::new();
    let db = open(&folder.pool(), "&size=16777216&log=1048576");
    run(&db, "CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(2000000))");
    for _ in 0..3 {
        assert_eq!(code(db.execute_batch("INSERT INTO t VALUES (randomblob(20000000))")), 13);
    }
    run(&db, "INSERT INTO t VALUES (randomblob(5000000))");
    is_whole(&db);
    drop(db);
    folder.check();
}

#[test]
fn a_page_that_a_failed_commit_kept_can_be_replaced() {
    let folder = Folder::new();
    let db = open(&folder.pool(), "&size=12582912&log=1048576");
    run(&db, "CREATE TABLE s (i INTEGER PRIMARY KEY, x); CREATE TABLE large (x)");
    for row in 0..30 {
        db.execute("INSERT INTO s VALUES (?1, zeroblob(100))", [row]).unwrap();
    }
    for row in 0..3 {
        let small = "BEGIN; UPDATE s SET x = randomblob(9) WHERE i = 1";
        run(&db, small);
        let large = "INSERT INTO large VALUES (randomblob(20000000)); COMMIT";
        assert_eq!(code(db.execute_batch(large)), 13);
        if !db.is_autocommit() {
            run(&db, "ROLLBACK");
        }
        db.execute("UPDATE s SET x = randomblob(100) WHERE i <> ?1", [row]).unwrap();
        is_whole(&db);
    }
    drop(db);
    folder.check();
}

#[test]
fn a_failed_sync_is_reported_and_what_was_acknowledged_stays() {
    for fault in 1..12 {
        let folder = Folder::new();
        let setup = Options::new().size(16 << 20).log(1 << 20).create(folder.pool()).unwrap();
        drop(setup);
        let recorder = Recorder::append_to(
            folder.path().join("trace"),
            Faults { fail_sync: Some(fault), ..Faults::default() },
        )
        .unwrap();
        let options = Options::new().domain(Some(Domain::Media)).record(recorder);
        let Ok(pool) = options.open(folder.pool()) else { continue };
        let served = perdura_sqlite::serve(pool);
        let db = folder.open();
        let mut acknowledged = 0;
        let failed = loop {
            let sql = match acknowledged {
                0 => "CREATE TABLE t (x)".to_owned(),
                n => format!("INSERT INTO t VALUES ({n})"),
            };
            match db.execute_batch(&sql) {
                Ok(()) => acknowledged += 1,
                Err(error) => break error,
            }
            assert!(acknowledged < 40, "sync {fault} fails");
        };
        let failed = failed.sqlite_error().unwrap().extended_code;
        assert_eq!(failed & 255, 10, "sync {fault}: {failed}");
        assert!(
            db.execute_batch("CREATE TABLE u (x)").is_err(),
            "nothing is acknowledged any more"
        );
        drop((db, served));
        let db = open(&folder.pool(), "");
        if acknowledged > 0 {
            let there = number(&db, "SELECT count(*) FROM t") + 1;
            assert!((acknowledged..=acknowledged + 1).contains(&there));
        }
        is_whole(&db);
    }
}

/// A pool that a table fills, with an index of it, in a log of 1 MiB.
fn filled(folder: &Folder) -> Connection {
    let db = open(&folder.pool(), "&size=16777216&log=1048576");
    run(&db, "PRAGMA synchronous = OFF; CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
    run(&db, "CREATE INDEX by_x ON t (i % 10, x)");
    for rows in [500, 20] {
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
            INSERT INTO t (x) SELECT randomblob(300) FROM n"
        );
        while db.execute_batch(&sql).is_ok() {}
    }
    db
}

/// SQLite keeps the pages that a DELETE empties for itself: the pool would stay full.
#[test]
fn what_a_delete_leaves_in_a_full_pool_is_room_again() {
    for empty in ["DELETE FROM t", "DROP TABLE t", "DELETE FROM t WHERE i >= 0"] {
        let folder = Folder::new();
        let db = filled(&folder);
        let pages = number(&db, "PRAGMA page_count");
        run(&db, empty);
        // A commit of much more than the log, into pages that SQLite has.
        run(&db, "CREATE TABLE u (x)");
        run(
            &db,
            "BEGIN; INSERT INTO u VALUES (randomblob(5000000)), (randomblob(3000000)); COMMIT",
        );
        assert_eq!(number(&db, "PRAGMA page_count"), pages, "{empty}");
        is_whole(&db);
        // And another database gets it.
        run(&db, "DELETE FROM u");
        let fill = "CREATE TABLE w (x); INSERT INTO w VALUES (randomblob(3000000))";
        let other = open(&folder.pool().join("other"), "");
        run(&other, fill);
        is_whole(&other);
        is_whole(&db);
        drop((db, other));
        folder.check();
        let db = open(&folder.pool(), "");
        assert_eq!(number(&db, "SELECT count(*) FROM u"), 0);
        is_whole(&db);
    }
}

#[test]
fn a_full_pool_is_vacuumed_after_a_delete() {
    for auto in ["NONE", "INCREMENTAL"] {
        let folder = Folder::new();
        drop(open(&folder.pool(), "&size=16777216&log=1048576"));
        run(&open(&folder.pool(), ""), &format!("PRAGMA auto_vacuum = {auto}; VACUUM"));
        let db = filled(&folder);
        let pages = number(&db, "PRAGMA page_count");
        run(&db, "DROP INDEX by_x");
        run(&db, "DELETE FROM t WHERE i > (SELECT max(i) / 4 FROM t)");
        let rows = number(&db, "SELECT count(*) FROM t");
        assert!(rows > 1000);
        run(&db, "VACUUM");
        assert!(number(&db, "PRAGMA page_count") < pages / 4);
        assert_eq!(number(&db, "SELECT count(*) FROM t WHERE length(x) = 300"), rows);
        is_whole(&db);
        drop(db);
        folder.check();
    }
}

/// A reader has its version: what it may read is not given back.
#[test]
fn readers_keep_their_version_when_a_full_pool_gives_pages_back() {
    let folder = Folder::new();
    let db = filled(&folder);
    let reader = open(&folder.pool(), "");
    run(&reader, "PRAGMA cache_size = 0; BEGIN");
    let all = "SELECT count(*) || '/' || sum(i * unicode(hex(substr(x, 299)))) FROM t";
    let before = text(&reader, all);
    run(&db, "DELETE FROM t");
    db.busy_timeout(std::time::Duration::ZERO).unwrap();
    run(&db, "CREATE TABLE u (x)");
    let large = "INSERT INTO u VALUES (randomblob(5000000))";
    assert_eq!(code(db.execute_batch(large)), 13, "the reader has it all");
    assert_eq!(text(&reader, all), before);
    assert_eq!(text(&reader, "PRAGMA integrity_check"), "ok");
    run(&reader, "COMMIT");
    run(&db, large);
    is_whole(&db);
    is_whole(&reader);
    drop((db, reader));
    folder.check();
}

/// A list that is not as SQLite makes it is left alone: an encryption above the VFS may leave the header readable.
#[test]
fn a_free_list_that_is_not_whole_is_not_used() {
    for damaged in [false, true] {
        let folder = Folder::new();
        let ordinary = folder.path().join("ordinary.db");
        let db = Connection::open(&ordinary).unwrap();
        run(&db, "CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(11000000))");
        run(&db, "CREATE TABLE u (x); INSERT INTO u VALUES (zeroblob(60000)); DELETE FROM t");
        drop(db);
        let mut bytes = std::fs::read(&ordinary).unwrap();
        // One page more than the list has; SQLite sees that when it comes to the end.
        let count = u32::from_be_bytes(bytes[36..40].try_into().unwrap());
        bytes[36..40].copy_from_slice(&(count + u32::from(damaged)).to_be_bytes());
        std::fs::write(&ordinary, bytes).unwrap();
        let pool = Options::new().size(16 << 20).log(1 << 20).create(folder.pool()).unwrap();
        perdura_sqlite::copy::import(&pool, "main", &ordinary).unwrap();
        drop(pool);
        let db = open(&folder.pool(), "");
        let inserted = db.execute_batch("INSERT INTO u VALUES (randomblob(8000000))");
        match damaged {
            false => assert_eq!(inserted, Ok(())),
            true => assert_eq!(code(inserted), 13),
        }
        let length = if damaged { 60_000 } else { 8_060_000 };
        assert_eq!(number(&db, "SELECT sum(length(x)) FROM u"), length);
        drop(db);
        folder.check();
    }
}
