//! N-Store: YCSB as WHISPER runs it, on a table in one of N-Store's storages.
//!
//! A transaction reads tuples, or gives all their fields new values. Every byte of a tuple follows from its key and
//! from a version, which counts its updates: every read is checked, and at the end each tuple's version with the
//! updates that were committed.

mod table;
#[cfg(test)]
mod tests;

pub use table::{Layout, MERGE, Storage, Table};

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::random::Random;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tuples inserted, or checked, by one transaction.
const LOAD_BATCH: u64 = 8;
/// Children of a page of 4 KiB, N-Store's.
const FANOUT: u64 = 512;
/// Keys of which the first gets a tenth of the accesses, and the others none.
const HOT: u64 = 10;

const STORAGE: &str = "storage";
const WRITES: &str = "writes";
const FIELDS: &str = "fields";
const FIELD_BYTES: &str = "field-bytes";

/// The workload.
#[derive(Debug)]
pub struct NStore {
    layout: Layout,
    /// Of a hundred transactions, those that write.
    writes: u64,
    /// Tuples in a transaction.
    together: usize,
    /// The expected version of each tuple.
    versions: Vec<AtomicU64>,
}

impl NStore {
    /// On a table with these sizes; `writes` of a hundred transactions write, `together` tuples in each.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(layout: Layout, writes: u64, together: usize) -> Outcome<Self> {
        layout.validate()?;
        if writes > 100 || together == 0 {
            let what = "N-Store needs a share of writes of at most 100 per cent, and a tuple in a transaction";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let versions = (0..layout.tuples).map(|_| AtomicU64::new(0)).collect();
        Ok(NStore { layout, writes, together, versions })
    }

    fn table<S: Session>(&self, session: &mut S) -> Outcome<Table> {
        let table = session.read(|tx| Table::find(tx, self.layout.storage))?;
        match table {
            Some(table) if *table.layout() == self.layout => Ok(table),
            _ => Err(Failure::wrong("the table is gone")),
        }
    }

    /// N-Store's skew: a tenth of the accesses is to key 0, the others are uniform over the upper nine tenths of the
    /// keys.
    fn draw(&self, random: &mut Random) -> u64 {
        let (tuples, z) = (self.layout.tuples, random.unit());
        match tuples.checked_sub(HOT) {
            None | Some(0) => random.below(tuples),
            Some(_) if z < 0.1 => 0,
            Some(rest) => HOT + ((z * rest as f64) as u64).min(rest - 1),
        }
    }

    /// Upper bound of the bytes.
    pub fn bytes(&self) -> u64 {
        let Layout { storage, tuples, fields, field_bytes, .. } = self.layout;
        let tuple = match storage {
            Storage::InPlace | Storage::CopyOnWrite => fields * (field_bytes * 5 / 4 + 48) + 128,
            Storage::Log => MERGE * (fields * field_bytes * 5 / 4 + 64),
        };
        tuples.saturating_mul(tuple + 64)
    }
}

impl Listed for NStore {
    const ROW: Row = Row {
        name: "n-store",
        line: "N-Store: tuples read or replaced, in one of its storages",
        parameters: &[
            list::entries("tuples", 10_000),
            Parameter {
                name: STORAGE,
                line: "how tuples are stored: in-place, copy-on-write or log",
                usual: Usual::OneOf(&Storage::NAMES),
            },
            Parameter {
                name: WRITES,
                line: "of a hundred transactions, those that write",
                usual: Usual::Number(50),
            },
            list::ops_per_tx("tuples in a transaction", 1),
            Parameter { name: FIELDS, line: "fields of a tuple", usual: Usual::Number(5) },
            Parameter { name: FIELD_BYTES, line: "bytes of a field", usual: Usual::Number(100) },
        ],
        operations: |_| 200_000,
        rolls_back: |_| false,
        roots: &[(table::KIND, table::check_blocks)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let name = given.values.name(STORAGE);
        let storage = Storage::ALL.into_iter().find(|own| own.name() == name);
        let layout = Layout {
            storage: storage.unwrap_or(Storage::InPlace),
            tuples: given.entries(),
            fields: given.values.number(FIELDS),
            field_bytes: given.values.number(FIELD_BYTES),
            fanout: FANOUT,
        };
        let workload = NStore::new(layout, given.values.number(WRITES), given.ops_per_tx())?;
        let bytes = workload.bytes();
        Ok(code.run(workload, bytes))
    }
}

impl Workload for NStore {
    const KINDS: &'static [&'static str] = &["read", "update"];

    fn load_size(&self) -> u64 {
        self.layout.tuples
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let table = session.transaction(|tx| Table::create(tx, self.layout))?;
        let tuples = self.layout.tuples;
        for first in (0..tuples).step_by(LOAD_BATCH as usize) {
            let end = tuples.min(first + LOAD_BATCH);
            session.transaction(|tx| (first..end).try_for_each(|key| table.insert(tx, key)))?;
            progress.loaded(end - first)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let table = self.table(session)?;
        let mut keys = vec![0; self.together];
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let is_write = share.random.below(100) < self.writes;
            keys.fill_with(|| self.draw(&mut share.random));
            recorder.operation(usize::from(is_write), || {
                if is_write {
                    session.transaction(|tx| keys.iter().try_for_each(|key| table.update(tx, *key)))
                } else {
                    session
                        .read(|tx| keys.iter().try_for_each(|key| table.read(tx, *key).map(drop)))
                }
            })?;
            if is_write {
                for key in &keys {
                    self.versions[*key as usize].fetch_add(1, Relaxed);
                }
            }
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let table = self.table(session)?;
        let tuples = session.read(|tx| table.len(tx))?;
        if tuples != self.layout.tuples {
            let what = format!("the table has {tuples} tuples, not {}", self.layout.tuples);
            return Err(Failure::Wrong(what));
        }
        for first in (0..tuples).step_by(LOAD_BATCH as usize) {
            let keys = first..tuples.min(first + LOAD_BATCH);
            let found = session.read(|tx| {
                let versions = keys.clone().map(|key| table.read(tx, key));
                versions.collect::<perdura::Result<Vec<_>>>()
            })?;
            for (key, found) in keys.zip(found) {
                let expected = self.versions[key as usize].load(Relaxed);
                if found != expected {
                    let what = format!("tuple {key} has version {found}, not {expected}");
                    return Err(Failure::Wrong(what));
                }
            }
        }
        Ok(())
    }
}
