//! Imports and exports, of ordinary database files.

use crate::common::{Folder, is_whole, number, open, run, text};
use perdura::Options;
use perdura_sqlite::copy::{check, export, import};
use rusqlite::Connection;

const ROWS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    INSERT INTO t SELECT i, printf('%0200d', i) FROM n";

#[test]
fn an_ordinary_database_comes_in_and_goes_out_unchanged() {
    let folder = Folder::new();
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    for size in [512, 4096, 65536] {
        let _ = std::fs::remove_file(&old);
        let _ = std::fs::remove_file(&new);
        let db = Connection::open(&old).unwrap();
        run(&db, &format!("PRAGMA page_size = {size}; CREATE TABLE t (i INTEGER PRIMARY KEY, x)"));
        run(&db, ROWS);
        drop(db);
        let options = Options::new().size(64 << 20);
        let pool = options.open_or_create(folder.pool()).unwrap();
        let name = format!("of {size}");
        let moved = import(&pool, &name, &old).unwrap();
        assert_eq!((moved.page_size, moved.from_wal), (size, 0));
        let again = import(&pool, &name, &old).unwrap_err().to_string();
        assert!(again.contains("already"), "{again}");
        export(&pool, &name, &new).unwrap();
        assert!(std::fs::read(&old).unwrap() == std::fs::read(&new).unwrap());
        assert!(export(&pool, &name, &new).is_err(), "the file is there");
        drop(pool);
        folder.check();
        assert_eq!(check(&folder.pool(), &name).unwrap(), [""; 0]);
        let db = open(&folder.pool().join(&name), "");
        run(&db, "UPDATE t SET x = 'new' WHERE i % 2 = 0");
        is_whole(&db);
    }
}

/// Its newest transactions are in its log alone.
#[test]
fn a_database_in_wal_mode_comes_in_with_its_log() {
    let folder = Folder::new();
    let (live, old) = (folder.path().join("live.db"), folder.path().join("old.db"));
    let db = Connection::open(&live).unwrap();
    run(&db, "PRAGMA page_size = 1024");
    assert_eq!(text(&db, "PRAGMA journal_mode = WAL"), "wal");
    run(&db, "PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (i INTEGER PRIMARY KEY, x)");
    run(&db, "INSERT INTO t VALUES (1, 'checkpointed'); PRAGMA wal_checkpoint");
    run(&db, ROWS.replace("SELECT i,", "SELECT i + 1,").as_str());
    // The files as they are while it is open, as a crash leaves them.
    for suffix in ["", "-wal"] {
        let name = |stem: &std::path::Path| format!("{}{suffix}", stem.display());
        std::fs::copy(name(&live), name(&old)).unwrap();
    }
    let pool = Options::new().size(64 << 20).create(folder.pool()).unwrap();
    let moved = import(&pool, "main", &old).unwrap();
    assert!(moved.from_wal > 1000);
    drop(pool);
    let copy = open(&folder.pool(), "");
    assert_eq!(number(&copy, "SELECT count(*) FROM t"), 20001);
    assert_eq!(text(&copy, "PRAGMA journal_mode"), "memory");
    run(&copy, "INSERT INTO t VALUES (0, 'x')");
    is_whole(&copy);
    drop((copy, db));
    folder.check();
}

#[test]
fn what_cannot_be_imported_is_refused_and_leaves_nothing() {
    let folder = Folder::new();
    let old = folder.path().join("old.db");
    let pool = Options::new().size(16 << 20).log(1 << 20).create(folder.pool()).unwrap();
    std::fs::write(&old, "no database".repeat(100)).unwrap();
    assert!(import(&pool, "main", &old).unwrap_err().to_string().contains("no database"));
    std::fs::remove_file(&old).unwrap();
    let db = Connection::open(&old).unwrap();
    run(
        &db,
        "CREATE TABLE t (i INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, zeroblob(20000000))",
    );
    drop(db);
    // No room; then there is, and what was left is gone.
    assert!(import(&pool, "main", &old).is_err());
    let db = Connection::open(&old).unwrap();
    run(&db, "UPDATE t SET x = zeroblob(7000000); VACUUM");
    drop(db);
    import(&pool, "main", &old).unwrap();
    drop(pool);
    folder.check();
    let db = open(&folder.pool(), "");
    assert_eq!(number(&db, "SELECT sum(length(x)) FROM t"), 7_000_000);
    is_whole(&db);
}
