//! N-Store: a table in each storage, and transactions that update tuples of several of them, all or none.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;
use perdura_workloads::check_root;
use perdura_workloads::nstore::{Layout, Storage, Table};

const TUPLES: u64 = 6;

/// The tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct NStore;

/// Updates of tuples, by table and key; the transaction aborts after them if the flag is set.
type Updates = (Vec<(usize, u64)>, bool);

fn layout(storage: Storage) -> Layout {
    Layout { storage, tuples: TUPLES, fields: 2, field_bytes: 60, fanout: 2 }
}

impl Listed for NStore {
    const ROW: Structure =
        Structure { name: "n-store", line: "N-Store, with a table of six tuples in each storage" };
}

impl Subject for NStore {
    type Op = Updates;
    /// The tuples' versions, in each storage.
    type Model = [Vec<u64>; Storage::ALL.len()];

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        for storage in Storage::ALL {
            let table = Table::create(tx, layout(storage))?;
            (0..TUPLES).try_for_each(|key| table.insert(tx, key))?;
        }
        Ok(())
    }

    fn prepared(&self) -> Self::Model {
        Storage::ALL.map(|_| vec![0; TUPLES as usize])
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Updates {
        let mut update =
            || (random.below(Storage::ALL.len() as u64) as usize, random.below(TUPLES));
        let mut updates = vec![update(), update(), update()];
        updates.truncate(1 + random.below(3) as usize);
        (updates, random.below(8) == 0)
    }

    fn apply(&self, tx: &mut dyn Tx, (updates, aborts): &Updates) -> Result<()> {
        for (table, key) in updates {
            let table = Table::find(tx, Storage::ALL[*table])?.expect("it was prepared");
            table.update(tx, *key)?;
        }
        if *aborts { tx.abort("as drawn") } else { Ok(()) }
    }

    fn step(&self, model: &mut Self::Model, (updates, aborts): &Updates) -> bool {
        if !aborts {
            updates.iter().for_each(|(table, key)| model[*table][*key as usize] += 1);
        }
        !aborts
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let mut versions = self.prepared();
        for (storage, versions) in Storage::ALL.into_iter().zip(&mut versions) {
            let Some(table) = Table::find(tx, storage)? else { return Ok(None) };
            for (key, version) in (0..).zip(versions) {
                *version = table.read(tx, key)?;
            }
        }
        Ok(Some(versions))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        check_root(tx, root, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;

    #[test]
    fn the_model_is_that_of_the_updates() {
        let (subject, mut heap) = (NStore, TestHeap::new());
        assert!(subject.read(&mut heap).expect("an empty heap").is_none());
        subject.prepare(&mut heap).expect("it is made");
        heap.commit();
        let (mut model, mut random) = (subject.prepared(), SplitMix64::new(1));
        for _ in 0..300 {
            assert_eq!(subject.read(&mut heap).expect("tables").as_ref(), Some(&model));
            let op = subject.draw(&mut random, 0);
            let commits = subject.step(&mut model, &op);
            assert_eq!(subject.apply(&mut heap, &op).is_ok(), commits);
            if commits { heap.commit() } else { heap.abort() }
        }
        assert!(model.iter().flatten().all(|version| *version > 5), "{model:?}");
    }
}
