//! What a program sees that uses a database: contents, pragmas, page sizes, rollbacks.

use crate::common::{Folder, code, is_whole, number, open, run, text, try_open, uri};
use perdura::{Domain, Options};
use rusqlite::Connection;

const ROWS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
    INSERT INTO t SELECT i, printf('%0200d', i) FROM n";

#[test]
fn what_is_committed_is_there_after_reopening() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x TEXT)");
    run(&db, ROWS);
    run(&db, "DELETE FROM t WHERE i % 3 = 0; UPDATE t SET x = 'short' WHERE i % 5 = 0");
    let sum = "SELECT sum(i * length(x)) FROM t";
    let before = number(&db, sum);
    is_whole(&db);
    drop(db);
    folder.check();
    let db = folder.open();
    assert_eq!(number(&db, sum), before);
    is_whole(&db);
}

#[test]
fn pragmas_tell_the_truth() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (x)");
    for mode in ["WAL", "delete", "TRUNCATE", "persist"] {
        assert_eq!(text(&db, &format!("PRAGMA journal_mode = {mode}")), "memory");
    }
    assert_eq!(text(&db, "PRAGMA locking_mode = EXCLUSIVE"), "exclusive");
    assert_eq!(text(&db, "PRAGMA journal_mode = WAL"), "memory");
    run(&db, "INSERT INTO t VALUES (1)");
    assert_eq!(text(&db, "PRAGMA locking_mode = NORMAL"), "normal");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 1);
    assert_eq!(number(&db, "PRAGMA mmap_size = 1000000"), 0);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the pool: {left:?}");
}

/// `PRAGMA journal_mode` of an ordinary database changes that of all attached ones, without asking.
#[test]
fn a_mode_set_from_another_database_does_no_harm() {
    let folder = Folder::new();
    let db = Connection::open(folder.path().join("ordinary.db")).unwrap();
    let pool = uri(&folder.pool(), "&size=67108864");
    run(&db, &format!("ATTACH '{pool}' AS p; CREATE TABLE p.t (x); INSERT INTO p.t VALUES (1)"));
    for mode in ["DELETE", "PERSIST", "TRUNCATE", "WAL"] {
        let _ = text(&db, &format!("PRAGMA journal_mode = {mode}"));
        run(&db, "BEGIN; INSERT INTO p.t VALUES (2); ROLLBACK; INSERT INTO p.t VALUES (3)");
    }
    assert_eq!(number(&db, "SELECT count(*) FROM p.t"), 5);
    drop(db);
    let db = open(&folder.pool(), "");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 5);
    is_whole(&db);
}

/// Exclusive locking lets SQLite believe that it can have a write-ahead log.
#[test]
fn a_database_never_needs_a_write_ahead_log() {
    let folder = Folder::new();
    let db = Connection::open(folder.path().join("ordinary.db")).unwrap();
    let pool = uri(&folder.pool(), "&size=67108864");
    run(&db, &format!("ATTACH '{pool}' AS p; CREATE TABLE p.t (x); INSERT INTO p.t VALUES (1)"));
    run(&db, "PRAGMA locking_mode = EXCLUSIVE");
    let _ = db.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO p.t VALUES (2)");
    drop(db);
    let db = open(&folder.pool(), "");
    assert!(number(&db, "SELECT count(*) FROM t") >= 1);
    run(&db, "INSERT INTO t VALUES (3)");
    is_whole(&db);
}

/// Pages that are free when a transaction ends are not written: SQLite extends the file over them.
#[test]
fn a_file_that_grows_over_pages_it_had_before() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
    for _ in 0..3 {
        run(&db, ROWS);
        run(&db, "DELETE FROM t; VACUUM; INSERT INTO t VALUES (-1, randomblob(3000))");
        run(&db, &format!("BEGIN; {ROWS}; DELETE FROM t; COMMIT"));
        assert!(number(&db, "PRAGMA page_count") > 100);
        run(&db, "CREATE TABLE IF NOT EXISTS u (x); INSERT INTO u VALUES (randomblob(100000))");
    }
    is_whole(&db);
    drop(db);
    folder.check();
}

#[test]
fn all_page_sizes() {
    for size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let folder = Folder::new();
        let db = folder.open();
        run(&db, &format!("PRAGMA page_size = {size}; CREATE TABLE t (i INTEGER PRIMARY KEY, x)"));
        run(&db, ROWS);
        run(&db, "UPDATE t SET x = 'new' WHERE i % 7 = 0");
        assert_eq!(number(&db, "PRAGMA page_size"), size);
        drop(db);
        let db = folder.open();
        assert_eq!(number(&db, "PRAGMA page_size"), size);
        assert_eq!(number(&db, "SELECT count(*) FROM t WHERE x = 'new'"), 285);
        is_whole(&db);
        drop(db);
        folder.check();
    }
}

#[test]
fn every_engine() {
    let mut tried = 0;
    for engine in perdura::EngineKind::ALL.iter().filter(|engine| engine.is_crash_consistent()) {
        let folder = Folder::new();
        // In the page cache: some engines sync after each store on a disk.
        let options = Options::new().size(64 << 20).log(4 << 20).domain(Some(Domain::Process));
        // Not each engine works on each machine and medium.
        let Ok(pool) = options.engine(*engine).create(folder.pool()) else { continue };
        let served = perdura_sqlite::serve(pool);
        let db = folder.open();
        run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
        run(&db, ROWS);
        let reader = open(&folder.pool(), "");
        run(&reader, "BEGIN");
        assert_eq!(number(&reader, "SELECT count(*) FROM t"), 2000, "{engine}");
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let db = open(&folder.pool(), "");
                scope.spawn(move || {
                    for n in 0..20 {
                        run(
                            &db,
                            &format!(
                                "UPDATE t SET x = x || 'a' WHERE i % 40 = {n} + 20 * {thread}"
                            ),
                        );
                    }
                });
            }
        });
        assert_eq!(number(&reader, "SELECT count(*) FROM t WHERE x LIKE '%a'"), 0, "{engine}");
        run(&reader, "COMMIT");
        run(&db, "DELETE FROM t WHERE i > 1000; VACUUM");
        assert_eq!(number(&reader, "SELECT count(*) FROM t WHERE x LIKE '%a'"), 1000, "{engine}");
        is_whole(&reader);
        drop((db, reader, served));
        folder.check();
        let db = open(&folder.pool(), "");
        assert_eq!(number(&db, "SELECT count(*) FROM t WHERE x LIKE '%a'"), 1000, "{engine}");
        is_whole(&db);
        tried += 1;
    }
    assert!(tried >= 5, "{tried} engines");
}

#[test]
fn vacuum_and_auto_vacuum_give_pages_back() {
    for auto in ["NONE", "FULL", "INCREMENTAL"] {
        let folder = Folder::new();
        let db = folder.open();
        run(
            &db,
            &format!("PRAGMA auto_vacuum = {auto}; CREATE TABLE t (i INTEGER PRIMARY KEY, x)"),
        );
        run(&db, ROWS);
        let full = number(&db, "PRAGMA page_count");
        run(&db, "DELETE FROM t WHERE i > 10");
        match auto {
            "NONE" => run(&db, "VACUUM"),
            "INCREMENTAL" => {
                let mut step = db.prepare("PRAGMA incremental_vacuum").unwrap();
                let mut rows = step.query(()).unwrap();
                while rows.next().unwrap().is_some() {}
            }
            _ => {}
        }
        assert!(number(&db, "PRAGMA page_count") < full / 10);
        is_whole(&db);
        drop(db);
        folder.check();
        let db = folder.open();
        run(&db, ROWS.replace("SELECT i,", "SELECT i + 5000,").as_str());
        is_whole(&db);
        assert_eq!(number(&db, "SELECT count(*) FROM t"), 2010);
        drop(db);
        folder.check();
    }
}

/// SQLite ignores another page size in the VACUUM of a database that says that it is in memory.
#[test]
fn vacuum_keeps_the_page_size_also_into_another_database() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
    run(&db, ROWS);
    run(&db, "PRAGMA page_size = 8192; VACUUM");
    assert_eq!(number(&db, "PRAGMA page_size"), 4096);
    let other = folder.pool().join("other");
    run(&db, &format!("VACUUM INTO '{}'", uri(&other, "")));
    let other = open(&other, "");
    assert_eq!(number(&other, "SELECT count(*) FROM t"), 2000);
    assert_eq!(number(&other, "PRAGMA page_size"), 4096);
    is_whole(&other);
    is_whole(&db);
}

#[test]
fn rollbacks_of_statements_savepoints_and_spilled_transactions() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x TEXT UNIQUE)");
    run(&db, ROWS);
    let sum = "SELECT sum(i) || '/' || count(*) || '/' || sum(length(x)) FROM t";
    let before = text(&db, sum);
    // A statement that fails in the middle.
    run(&db, "PRAGMA cache_size = 10; BEGIN; INSERT INTO t VALUES (9000, 'mark')");
    let failed = db.execute_batch("UPDATE t SET x = 'same' || (i / 1900)");
    assert_eq!(code(failed), 2067);
    run(&db, "ROLLBACK");
    assert_eq!(text(&db, sum), before);
    // A savepoint inside a transaction larger than the cache.
    run(&db, "BEGIN; UPDATE t SET x = x || 'a'; SAVEPOINT s; DELETE FROM t WHERE i % 2 = 0");
    run(&db, "UPDATE t SET x = x || 'bb'; ROLLBACK TO s");
    assert_eq!(number(&db, "SELECT count(*) FROM t WHERE x LIKE '%a'"), 2000);
    assert_eq!(number(&db, "SELECT count(*) FROM t WHERE x LIKE '%bb'"), 0);
    run(&db, "ROLLBACK");
    assert_eq!(text(&db, sum), before);
    // The same, committed.
    run(&db, "BEGIN; UPDATE t SET x = x || 'a'; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT");
    assert_eq!(number(&db, "SELECT count(*) FROM t WHERE x LIKE '%a'"), 2000);
    is_whole(&db);
    // Without a journal a transaction is still rolled back as a whole.
    assert_eq!(text(&db, "PRAGMA journal_mode = OFF"), "off");
    let before = text(&db, sum);
    run(&db, "BEGIN; DELETE FROM t WHERE i % 3 = 0; UPDATE t SET x = x || 'c'; ROLLBACK");
    assert_eq!(text(&db, sum), before);
    is_whole(&db);
}

#[test]
fn several_databases_in_a_pool() {
    let folder = Folder::new();
    let main = folder.open();
    run(&main, "CREATE TABLE t (x); INSERT INTO t VALUES ('main')");
    let other = open(&folder.pool().join("other"), "");
    run(&other, "CREATE TABLE t (x); INSERT INTO t VALUES ('other')");
    assert_eq!(text(&main, "SELECT x FROM t"), "main");
    assert_eq!(text(&other, "SELECT x FROM t"), "other");
    drop((main, other));
    let pool = perdura::Options::new().open(folder.pool()).unwrap();
    let mut found = perdura_sqlite::databases(&pool).unwrap();
    found.sort();
    assert_eq!(found, [("main".to_owned(), 8192), ("other".to_owned(), 8192)]);
    drop(pool);
    folder.check();
}

#[test]
fn files_that_are_no_pools_and_missing_folders_are_refused() {
    let folder = Folder::new();
    let missing = folder.path().join("no/such/app.pool");
    assert_eq!(
        code(try_open(&missing, "").and_then(|db| db.execute_batch("CREATE TABLE t (x)"))),
        14
    );
    let file = folder.path().join("text");
    std::fs::write(&file, "x".repeat(10000)).unwrap();
    assert_eq!(code(try_open(&file, "")), 26);
    assert_eq!(code(try_open(&file.join("name"), "")), 26);
    let absent = folder.path().join("absent.pool");
    assert_eq!(code(try_open(&absent, "&mode=rw")), 14);
    assert!(!absent.exists());
}

#[test]
fn read_only_connections_do_not_write() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (x)");
    let reader = open(&folder.pool(), "&mode=ro");
    assert_eq!(code(reader.execute_batch("INSERT INTO t VALUES (1)")) & 255, 8);
    assert_eq!(number(&reader, "SELECT count(*) FROM t"), 0);
}

#[test]
fn shared_caches_and_temporary_tables() {
    let folder = Folder::new();
    let one = open(&folder.pool(), "&size=67108864&cache=shared");
    let two = open(&folder.pool(), "&cache=shared");
    let other = open(&folder.pool().join("other"), "&cache=shared");
    run(
        &one,
        "CREATE TABLE t (x); CREATE TEMP TABLE u AS SELECT 5 AS x; INSERT INTO t SELECT x FROM u",
    );
    assert_eq!(number(&two, "SELECT x FROM t"), 5);
    assert_eq!(number(&other, "SELECT count(*) FROM sqlite_schema"), 0);
    run(&two, "BEGIN; INSERT INTO t VALUES (6); COMMIT");
    assert_eq!(number(&one, "SELECT sum(x) FROM t"), 11);
}

#[test]
fn a_name_that_is_not_there_is_opened_only_by_those_who_may_create_it() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (x)");
    let name = folder.pool().join("other");
    for mode in ["&mode=ro", "&mode=rw"] {
        assert_eq!(code(try_open(&name, mode)), 14, "{mode}");
    }
    let other = open(&name, "");
    drop(open(&name, "&mode=rw"));
    run(&other, "CREATE TABLE u (x)");
    drop(other);
    assert_eq!(number(&open(&name, "&mode=ro"), "SELECT count(*) FROM u"), 0);
    assert_eq!(number(&open(&folder.pool(), "&mode=ro"), "SELECT count(*) FROM t"), 0);
}

#[test]
fn files_beside_a_pool_are_not_taken_for_its_journals() {
    let folder = Folder::new();
    run(&folder.open(), "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    for name in ["app.pool-journal", "app.pool-wal"] {
        std::fs::write(folder.path().join(name), [1; 2000]).unwrap();
    }
    let db = folder.open();
    run(&db, "INSERT INTO t VALUES (2)");
    assert_eq!(number(&db, "SELECT sum(x) FROM t"), 3);
}

#[test]
fn connections_without_locks_have_the_version_of_their_opening_and_only_read() {
    for parameter in ["&nolock=1", "&immutable=on"] {
        let folder = Folder::new();
        let db = folder.open();
        run(&db, "CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(20000)), (1)");
        let reader = open(&folder.pool(), parameter);
        run(&db, "PRAGMA cache_size = 5; UPDATE t SET x = randomblob(30000)");
        run(&db, "DELETE FROM t; INSERT INTO t VALUES (randomblob(50000))");
        assert_eq!(number(&reader, "SELECT sum(length(x)) FROM t"), 20001, "{parameter}");
        is_whole(&reader);
        assert_eq!(code(reader.execute_batch("INSERT INTO t VALUES (2)")), 8);
        drop(reader);
        is_whole(&db);
    }
}

#[test]
fn a_pool_is_known_by_its_file() {
    let folder = Folder::new();
    let db = folder.open();
    run(&db, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    let (pool, link) = (folder.pool(), folder.path().join("link.pool"));
    std::fs::hard_link(&pool, &link).unwrap();
    let other = open(&link, "");
    run(&other, "INSERT INTO t VALUES (2)");
    assert_eq!(number(&db, "SELECT sum(x) FROM t"), 3);
    // Both names go: a new pool has the first, while the old one's connections are there yet.
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_file(&pool).unwrap();
    let new = folder.open();
    assert_eq!(number(&new, "SELECT count(*) FROM sqlite_schema"), 0);
    run(&new, "CREATE TABLE u (x)");
    assert_eq!(number(&db, "SELECT sum(x) FROM t"), 3);
    drop((db, other));
    drop(new);
    assert_eq!(number(&folder.open(), "SELECT count(*) FROM u"), 0);
    folder.check();
}
