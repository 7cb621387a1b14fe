//! LMDB, through heed: a copy-on-write B-tree in a memory map, in C.
//!
//! No flag is set, so that a commit syncs the data (`fdatasync`), and then the page that makes it current. One writer
//! at a time; the others wait in `write_txn`.

use super::version;
use crate::puts::{Key, Library, Put, Puts, Session, Store, Work};
use crate::{Error, Result};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions};
use std::fmt::Display;
use std::path::Path;

/// Address space for the tree in addition to its data: reserved, not filled.
const ROOM: u64 = 1 << 30;

pub(super) struct Lmdb {
    name: String,
}

impl Lmdb {
    pub(super) fn new() -> Self {
        let lmdb = heed::lmdb_version();
        let of_lmdb = format!("{}.{}.{}", lmdb.major, lmdb.minor, lmdb.patch);
        Lmdb { name: format!("LMDB {of_lmdb} (heed {})", version("heed")) }
    }
}

fn failed(error: impl Display) -> Error {
    Error::failed("LMDB", error.to_string())
}

/// An environment, and its unnamed database.
struct Opened<'e> {
    env: &'e Env,
    table: Database<'e, Bytes, Bytes>,
}

impl Library for Lmdb {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> &str {
        "no flags: fdatasync of the data and a synced write of the meta page in each commit"
    }

    fn open(&self, folder: &Path, puts: &Puts, work: Work<'_>) -> Result<()> {
        let bytes = puts.data_bytes().saturating_mul(8).saturating_add(ROOM);
        let bytes = usize::try_from(bytes.next_multiple_of(1 << 20)).map_err(failed)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(bytes);
        // SAFETY: the folder is this run's own (`puts::run` has just created it), so that nothing else opens the file,
        // or changes or truncates it, while it is mapped.
        let env = unsafe { options.open(folder) }.map_err(failed)?;
        let transaction = env.write_txn().map_err(failed)?;
        let table = env.create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        let table = table.map_err(failed)?.commit().ok_or_else(|| failed("no database"))?;
        let outcome = work(&Opened { env: &env, table });
        env.prepare_for_closing().wait();
        outcome
    }
}

impl Store for Opened<'_> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }
}

impl Session for &Opened<'_> {
    fn put(&mut self, batch: &[Put]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failed)?;
        for Put { key, value } in batch {
            self.table.put(&mut transaction, key, value).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn get(&mut self, key: &Key) -> Result<Option<Vec<u8>>> {
        let transaction = self.env.read_txn().map_err(failed)?;
        let value = self.table.get(&transaction, key).map_err(failed)?;
        Ok(value.map(<[u8]>::to_vec))
    }
}
