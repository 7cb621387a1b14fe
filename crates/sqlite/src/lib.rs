//! SQLite databases in a Perdura pool, by a VFS that stock SQLite loads or is linked with.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app.pool");
//! perdura_sqlite::register().map_err(|code| format!("SQLite refuses the VFS ({code})"))?;
//! let uri = format!("file:{}?vfs=perdura", path.display());
//! let db = rusqlite::Connection::open(uri)?;
//! db.execute("CREATE TABLE visits (page TEXT)", ())?;
//! db.execute("INSERT INTO visits VALUES ('index')", ())?; // Durable when it returns.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In other programs: `.load libperdura_vfs`, or `load_extension`, once in the process, then open
//! `file:app.pool?vfs=perdura`. docs/sqlite.md has what it promises, and how it is made.
//!
//! Reading order: `session` (whose transactions), `open` (names and pools), `pages` (a database in the pool), `versions`
//! (readers' versions), `database` (its one writer), `page` (bytes in memory), `stage` (a writer's pages), `commit`, `trim`
//! (room in a full pool), `connection` (SQLite's calls, in its order), `pragma`, `journal`; `ffi` has the functions that
//! SQLite calls, and all `unsafe` code. `copy` moves databases between pools and ordinary files, without SQLite.

mod codes;
mod commit;
mod connection;
pub mod copy;
mod database;
mod ffi;
mod journal;
mod open;
mod page;
mod pages;
mod pragma;
mod session;
mod stage;
mod trim;
mod versions;
mod wal;

pub use database::databases;
pub use ffi::load;
#[cfg(feature = "rusqlite")]
pub use ffi::register;
pub use open::{MAIN, Served, serve};
pub use pages::{KIND, check_root};
pub use session::{Body, Databases, Transactions, lend};
