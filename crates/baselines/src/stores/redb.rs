//! redb: a copy-on-write B-tree in a file, in Rust.
//!
//! `Durability::Immediate`, its default: a commit returns after one sync of the file (`fdatasync`). One writer at a
//! time; the others wait in `begin_write`.

use super::version;
use crate::puts::{Key, Library, Put, Puts, Session, Store, Work};
use crate::{Error, Result};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::fmt::Display;
use std::path::Path;

const TABLE: TableDefinition<'_, &Key, &[u8]> = TableDefinition::new("puts");

pub(super) struct Redb {
    name: String,
}

impl Redb {
    pub(super) fn new() -> Self {
        Redb { name: format!("redb {}", version("redb")) }
    }
}

fn failed(error: impl Display) -> Error {
    Error::failed("redb", error.to_string())
}

impl Library for Redb {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> &str {
        "Durability::Immediate: fdatasync in each commit"
    }

    fn open(&self, folder: &Path, _: &Puts, work: Work<'_>) -> Result<()> {
        let database = Database::create(folder.join("redb")).map_err(failed)?;
        // Creates the table before anything is timed.
        put(&database, &[])?;
        work(&database)
    }
}

fn put(database: &Database, batch: &[Put]) -> Result<()> {
    let mut transaction = database.begin_write().map_err(failed)?;
    transaction.set_durability(Durability::Immediate).map_err(failed)?;
    let mut table = transaction.open_table(TABLE).map_err(failed)?;
    for Put { key, value } in batch {
        table.insert(key, value.as_slice()).map_err(failed)?;
    }
    drop(table);
    transaction.commit().map_err(failed)
}

impl Store for Database {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }
}

impl Session for &Database {
    fn put(&mut self, batch: &[Put]) -> Result<()> {
        put(self, batch)
    }

    fn get(&mut self, key: &Key) -> Result<Option<Vec<u8>>> {
        let transaction = self.begin_read().map_err(failed)?;
        let table = transaction.open_table(TABLE).map_err(failed)?;
        let value = table.get(key).map_err(failed)?;
        Ok(value.map(|value| value.value().to_vec()))
    }
}
