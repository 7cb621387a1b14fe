//! The heap's own maps, from words to words.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::{HashMap, OrderedMap, kind};
use perdura::{Error, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;
use std::collections::BTreeMap;

const ROOT: &str = "map";

/// A change of a map.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Sets the key to this value.
    Set(u64, u64),
    /// Removes the key, if present.
    Remove(u64),
}

/// Changes in one transaction, which aborts at its end if the flag is set.
pub(super) type Changes = (Vec<Change>, bool);

fn draw(random: &mut SplitMix64, keys: u64) -> Changes {
    let count = [1, 1, 2, 5][random.below(4) as usize];
    let mut change = || match (random.below(keys), random.below(5)) {
        (key, 0 | 1) => Change::Remove(key),
        (key, _) => Change::Set(key, random.next()),
    };
    let changes = (0..count).map(|_| change()).collect();
    (changes, random.below(8) == 0)
}

fn step(model: &mut BTreeMap<u64, u64>, (changes, aborts): &Changes) -> bool {
    if *aborts {
        return false;
    }
    for change in changes {
        match *change {
            Change::Set(key, value) => _ = model.insert(key, value),
            Change::Remove(key) => _ = model.remove(&key),
        }
    }
    true
}

macro_rules! map_subject {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $line:literal, $map:ty, $kind:expr, $keys:literal, $first:literal,
     $create:expr, $before:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $subject;

        impl Listed for $subject {
            const ROW: Structure = Structure { name: $name, line: $line };
        }

        impl Subject for $subject {
            type Op = Changes;
            type Model = BTreeMap<u64, u64>;

            fn name(&self) -> &str {
                Self::ROW.name
            }

            fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
                let map = $create(tx)?;
                for key in 0..$first {
                    map.set(tx, key, key)?;
                }
                tx.set_root(ROOT, Root { at: map.at(), kind: $kind })
            }

            fn prepared(&self) -> Self::Model {
                (0..$first).map(|key| (key, key)).collect()
            }

            fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
                draw(random, $keys)
            }

            fn apply(&self, tx: &mut dyn Tx, (changes, aborts): &Self::Op) -> Result<()> {
                let map = <$map>::new(tx.root(ROOT)?.expect("it was prepared").at);
                $before(map, tx)?;
                for change in changes {
                    match *change {
                        Change::Set(key, value) => _ = map.set(tx, key, value)?,
                        Change::Remove(key) => _ = map.remove(tx, key)?,
                    }
                }
                if *aborts { tx.abort("as drawn") } else { Ok(()) }
            }

            fn step(&self, model: &mut Self::Model, op: &Self::Op) -> bool {
                step(model, op)
            }

            fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
                let Some(root) = tx.root(ROOT)? else { return Ok(None) };
                let mut model = BTreeMap::new();
                <$map>::new(root.at).for_each(tx, &mut |key, value| {
                    model.insert(key, value);
                    Ok(())
                })?;
                Ok(Some(model))
            }
        }
    };
}

map_subject! {
    /// The hash map; small, so that it grows during the run.
    Hash, "hash-map", "the heap's hash map, which grows", HashMap<u64, u64>, kind::HASH_MAP, 48, 10,
    |tx| HashMap::<u64, u64>::create_seeded(tx, 5), |_, _: &mut dyn Tx| Ok::<(), Error>(())
}

map_subject! {
    /// The hash map with its count in lanes, which it drops now and then, since it is small.
    Laned, "laned-map", "the same with its count in lanes", HashMap<u64, u64>, kind::HASH_MAP, 48, 10,
    |tx| HashMap::<u64, u64>::create_seeded(tx, 5), |map: HashMap<u64, u64>, tx| map.use_lanes(tx)
}

map_subject! {
    /// The ordered map, with enough keys for nodes that split and merge.
    Ordered, "ordered-map", "the ordered map, whose nodes split and merge", OrderedMap<u64, u64>, kind::ORDERED_MAP, 90, 40,
    OrderedMap::<u64, u64>::create, |_, _: &mut dyn Tx| Ok::<(), Error>(())
}
