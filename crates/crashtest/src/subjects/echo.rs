//! Echo on a few keys: a batch of puts is in the store whole or not at all, with its snapshot.
//!
//! A batch may come from an old snapshot. It is then refused if one of its keys has a newer version.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;
use perdura_workloads::check_root;
use perdura_workloads::echo::{Master, Version};
use std::collections::BTreeMap;

const VALUE_BYTES: usize = 200;
/// Keys that are there at first.
const KEYS: u64 = 4;
/// Keys that are drawn.
const DRAWN: u64 = 10;

/// The store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

/// A batch: keys in ascending order, and how many snapshots it is behind.
#[derive(Clone, Debug)]
pub struct Batch {
    keys: Vec<u64>,
    behind: u64,
}

/// The last snapshot's number, and each key's versions, newest first.
type Contents = (u64, BTreeMap<u64, Vec<Version>>);

impl Listed for Echo {
    const ROW: Structure =
        Structure { name: "echo", line: "Echo, with batches of up to four of ten keys" };
}

impl Subject for Echo {
    type Op = Batch;
    type Model = Contents;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    /// Versions are never removed.
    fn most_operations(&self) -> usize {
        16
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let master = Master::create(tx, VALUE_BYTES)?;
        let keys: Vec<u64> = (0..KEYS).collect();
        master.commit(tx, 0, &keys).map(drop)
    }

    fn prepared(&self) -> Contents {
        (1, (0..KEYS).map(|key| (key, vec![Version { snapshot: 1, ordinal: 0 }])).collect())
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Batch {
        let mut keys: Vec<u64> = (0..=random.below(4)).map(|_| random.below(DRAWN)).collect();
        keys.sort_unstable();
        keys.dedup();
        Batch { keys, behind: random.below(8) / 5 }
    }

    fn apply(&self, tx: &mut dyn Tx, batch: &Batch) -> Result<()> {
        let master = Master::find(tx, VALUE_BYTES)?.expect("it was prepared");
        let seen = master.snapshot(tx)?.saturating_sub(batch.behind);
        match master.commit(tx, seen, &batch.keys)? {
            Some(_) => Ok(()),
            None => tx.abort("a newer version"),
        }
    }

    fn step(&self, (last, keys): &mut Contents, batch: &Batch) -> bool {
        let seen = last.saturating_sub(batch.behind);
        let newest = |key: &u64| keys.get(key).and_then(|versions| versions.first());
        if batch.keys.iter().filter_map(newest).any(|version| version.snapshot > seen) {
            return false;
        }
        *last += 1;
        for key in &batch.keys {
            let versions = keys.entry(*key).or_default();
            versions.insert(0, Version { snapshot: *last, ordinal: versions.len() as u64 });
        }
        true
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Contents>> {
        let Some(master) = Master::find(tx, VALUE_BYTES)? else { return Ok(None) };
        let (_, found) = master.scan(tx, 0, u64::MAX)?;
        Ok(Some((master.snapshot(tx)?, found.into_iter().collect())))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        check_root(tx, root, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::Error;
    use perdura::testing::TestHeap;

    #[test]
    fn the_model_is_that_of_the_batches() {
        let (subject, mut heap) = (Echo, TestHeap::new());
        assert!(subject.read(&mut heap).expect("an empty heap").is_none());
        subject.prepare(&mut heap).expect("it is made");
        heap.commit();
        let (mut model, mut random) = (subject.prepared(), SplitMix64::new(1));
        let (mut committed, mut refused) = (0, 0);
        for _ in 0..300 {
            assert_eq!(subject.read(&mut heap).expect("a store").as_ref(), Some(&model));
            let op = subject.draw(&mut random, 0);
            let commits = subject.step(&mut model, &op);
            match subject.apply(&mut heap, &op) {
                Ok(()) if commits => {
                    committed += 1;
                    heap.commit();
                }
                Err(Error::Aborted(_)) if !commits => {
                    refused += 1;
                    heap.abort();
                }
                other => panic!("{op:?}: {other:?}"),
            }
        }
        assert!(committed > 200 && refused > 10, "{committed} {refused}");
    }
}
