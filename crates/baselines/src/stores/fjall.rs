//! fjall: a log-structured merge tree with a journal, in Rust.
//!
//! A put is in the journal and in the tree when it returns, and durable once `persist` has returned. `SyncData` is
//! `fdatasync`, which on Linux makes a file's bytes durable with all metadata needed to find them again; `SyncAll`
//! would add the file's times. As its documentation recommends for such use, the journal's buffer is flushed by
//! `persist` only. The journal has one lock, held for the sync too: threads take turns, and no sync serves two of them.

use super::version;
use crate::puts::{Key, Library, Put, Puts, Session, Store, Work};
use crate::{Error, Result};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::fmt::Display;
use std::path::Path;

const DURABLE: PersistMode = PersistMode::SyncData;

pub(super) struct Fjall {
    name: String,
}

impl Fjall {
    pub(super) fn new() -> Self {
        Fjall { name: format!("fjall {}", version("fjall")) }
    }
}

fn failed(error: impl Display) -> Error {
    Error::failed("fjall", error.to_string())
}

/// A database and its only keyspace.
struct Opened {
    database: Database,
    keyspace: Keyspace,
}

impl Library for Fjall {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> &str {
        "persist(SyncData) after each put: fdatasync of the journal"
    }

    fn open(&self, folder: &Path, _: &Puts, work: Work<'_>) -> Result<()> {
        let builder = Database::builder(folder.join("fjall")).manual_journal_persist(true);
        let database = builder.open().map_err(failed)?;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
        let keyspace = database.keyspace("puts", options).map_err(failed)?;
        work(&Opened { database, keyspace })
    }
}

impl Store for Opened {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }
}

impl Session for &Opened {
    fn put(&mut self, batch: &[Put]) -> Result<()> {
        if let [Put { key, value }] = batch {
            self.keyspace.insert(*key, value.as_slice()).map_err(failed)?;
            return self.database.persist(DURABLE).map_err(failed);
        }
        let mut together = self.database.batch().durability(Some(DURABLE));
        for Put { key, value } in batch {
            together.insert(&self.keyspace, *key, value.as_slice());
        }
        together.commit().map_err(failed)
    }

    fn get(&mut self, key: &Key) -> Result<Option<Vec<u8>>> {
        let value = self.keyspace.get(key).map_err(failed)?;
        Ok(value.map(|value| value.to_vec()))
    }
}
