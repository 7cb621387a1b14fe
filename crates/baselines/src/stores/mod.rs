//! Other projects' embedded stores, in this process: redb, LMDB, fjall and SQLite.
//!
//! They are built only with the feature `stores`; without it [`all`] says how to get them. Each is configured as its
//! authors recommend where every put must survive a power cut, and no weaker: what a put waits for is in its
//! [`settings`](crate::puts::Library::settings). If a library has one writer at a time, threads take turns, which is
//! its own recommendation too.
//!
//! sled is not among them: its last release is of 2021, and the one after it is not finished.

#[cfg(feature = "stores")]
mod fjall;
#[cfg(feature = "stores")]
mod lmdb;
#[cfg(feature = "stores")]
mod redb;
#[cfg(feature = "stores")]
mod sqlite;
#[cfg(all(test, feature = "stores"))]
mod tests;

use crate::Result;
use crate::puts::Library;

/// All of them, in the order of tables.
///
/// # Errors
/// `Unavailable`, with the command that builds them, in a program that was built without.
pub fn all() -> Result<Vec<Box<dyn Library>>> {
    #[cfg(feature = "stores")]
    return Ok(vec![
        Box::new(redb::Redb::new()),
        Box::new(lmdb::Lmdb::new()),
        Box::new(fjall::Fjall::new()),
        Box::new(sqlite::Sqlite::new()),
    ]);
    #[cfg(not(feature = "stores"))]
    Err(crate::Error::Unavailable(
        "embedded stores are not built in unless asked for: \
         cargo run --release -p perdura-lab --features stores -- bench versus --only stores"
            .to_owned(),
    ))
}

/// A crate's version in this workspace.
#[cfg(feature = "stores")]
fn version(name: &str) -> &'static str {
    const LOCKED: &str = include_str!("../../../../Cargo.lock");
    let heading = format!("name = \"{name}\"\nversion = \"");
    let after = LOCKED.find(&heading).map(|at| &LOCKED[at + heading.len()..]);
    after.and_then(|rest| rest.split('"').next()).unwrap_or("of an unknown version")
}
