//! Programs of SQLite, run on databases in pools and on stock SQLite's own, taking turns on one medium.
//!
//! Reading order: [`database`] (where a program's database is), [`programs`] (what is timed), [`contest`] (their turns).

pub(crate) mod contest;
pub(crate) mod database;
pub(crate) mod programs;

use crate::failure::{Failure, Outcome};

/// A failure of SQLite.
pub(crate) fn sql<T>(result: rusqlite::Result<T>) -> Outcome<T> {
    result.map_err(|error| Failure::new(format!("SQLite: {error}")))
}
