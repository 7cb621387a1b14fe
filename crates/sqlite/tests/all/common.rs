//! Pools in folders of their own, and connections to their databases.

use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A folder for a pool.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        perdura_sqlite::register().expect("to register the VFS");
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn pool(&self) -> PathBuf {
        self.path().join("app.pool")
    }

    pub(crate) fn open(&self) -> Connection {
        open(&self.pool(), "&size=268435456&log=4194304")
    }

    /// Whether the pool is whole, with every block owned; nothing may have it open.
    pub(crate) fn check(&self) {
        let report =
            perdura::check::check(&self.pool(), &perdura_sqlite::check_root).expect("a pool");
        assert!(report.is_whole(), "{:?}", report.problems);
        assert_eq!(report.unreachable, Some(0));
    }
}

/// The URI of a database: a pool, or a name in a pool.
pub(crate) fn uri(path: &Path, parameters: &str) -> String {
    format!("file:{}?vfs=perdura{parameters}", path.display())
}

pub(crate) fn try_open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(uri(path, parameters), OpenFlags::default())?;
    db.busy_timeout(Duration::from_secs(20))?;
    Ok(db)
}

pub(crate) fn open(path: &Path, parameters: &str) -> Connection {
    try_open(path, parameters).expect("to open")
}

pub(crate) fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, (), |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

pub(crate) fn text(db: &Connection, sql: &str) -> String {
    db.query_row(sql, (), |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

pub(crate) fn run(db: &Connection, sql: &str) {
    db.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub(crate) fn is_whole(db: &Connection) {
    assert_eq!(text(db, "PRAGMA integrity_check"), "ok");
}

/// SQLite's extended result code of a failure.
pub(crate) fn code<T: std::fmt::Debug>(result: rusqlite::Result<T>) -> i32 {
    result.expect_err("a failure").sqlite_error().expect("SQLite's").extended_code
}
