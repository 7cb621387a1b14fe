//! A full pool, and a medium that fails: the right code, and nothing lost.

use crate::common::{Folder, code, is_whole, number, open, run};
use perdura::{Domain, Options};
use perdura_memory::mapped::record::{Faults, Recorder};

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
