//! Maps and a vector in a pool with little room: allocations that fail move others' objects, and transactions are run
//! again.
//!
//! A list of blocks, the ballast, takes all pages but a few. A transaction for which there is no room even so has no
//! effect, and is no failure.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::{self, Bytes, HashMap, OrderedMap, Vector, Visit, kind};
use perdura::{Purpose, Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use std::collections::BTreeMap;

const BALLAST: &str = "ballast";
const KIND: u32 = 1_908;
const PAGE: u64 = 4096;
/// Pages that the ballast leaves.
const LEFT: u64 = 13;
const KEYS: u64 = 24;
/// Lengths of values, in slots of four classes.
const LENGTHS: [u64; 4] = [60, 300, 1_000, 2_000];

type Hashed = HashMap<u64, Bytes>;
type Ordered = OrderedMap<u64, Bytes>;
/// Its segments have one page from 16 elements on, two from 32, four from 64.
type Row = Vector<[u64; 32]>;

/// Two maps and a vector beside a ballast.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowded;

/// A change.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sets keys to byte strings: whether of the ordered map, the first key, the number of keys, the length, the byte.
    Put(bool, u64, u64, u64, u8),
    /// Removes keys: whether of the ordered map, and of how many keys in a row one stays.
    Thin(bool, u64),
    /// Appends elements to the vector: their number, and their value.
    Push(u64, u64),
    /// Shortens the vector to this many elements.
    Cut(u64),
}

/// The contents of the maps, the ordered one second, and of the vector.
type Contents = ([BTreeMap<u64, Vec<u8>>; 2], Vec<u64>);

fn apply(tx: &mut dyn Tx, step: &Step) -> Result<()> {
    let hashed = Hashed::new(tx.root("hashed")?.expect("it was prepared").at);
    let ordered = Ordered::new(tx.root("ordered")?.expect("it was prepared").at);
    let row = Row::new(tx.root("row")?.expect("it was prepared").at);
    match *step {
        Step::Put(is_ordered, first, count, len, byte) => {
            for key in first..first + count {
                let (key, value) = (key % KEYS, vec![byte; len as usize]);
                match is_ordered {
                    true => ordered.set(tx, key, &value)?,
                    false => hashed.set(tx, key, &value)?,
                };
            }
        }
        Step::Thin(is_ordered, every) => {
            for key in (0..KEYS).filter(|key| key % every != 0) {
                match is_ordered {
                    true => drop(ordered.remove(tx, key)?),
                    false => drop(hashed.remove(tx, key)?),
                }
            }
        }
        Step::Push(count, value) => {
            for _ in 0..count {
                row.push(tx, [value; 32])?;
            }
        }
        Step::Cut(len) => {
            while row.len(tx)? > len {
                row.pop(tx)?;
            }
        }
    }
    Ok(())
}

impl Listed for Crowded {
    const ROW: Structure = Structure {
        name: "crowded",
        line: "maps and a vector with little room, whose objects move",
    };
}

impl Subject for Crowded {
    type Op = Step;
    type Model = Contents;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let (hashed, ordered) = (Hashed::create_seeded(tx, 3)?, Ordered::create(tx)?);
        tx.set_root("hashed", Root { at: hashed.at(), kind: kind::HASH_MAP })?;
        tx.set_root("ordered", Root { at: ordered.at(), kind: kind::ORDERED_MAP })?;
        let row = Row::create(tx)?;
        tx.set_root("row", Root { at: row.at(), kind: kind::VECTOR })?;
        let (left, mut ballast) = (tx.allocate(Purpose::General, LEFT * PAGE)?, 0);
        for pages in (0..10).rev().map(|bit| 1 << bit) {
            while let Some(block) = tx.allocate_now(Purpose::General, pages * PAGE)? {
                tx.write_word(block.at(), ballast)?;
                ballast = block.at();
            }
        }
        tx.free(left.at())?;
        tx.set_root(BALLAST, Root { at: ballast, kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        Contents::default()
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let (is_ordered, first) = (random.below(2) == 0, random.below(KEYS));
        let len = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
        match random.below(8) {
            0..4 => Step::Put(is_ordered, first, 1 + random.below(6), len, random.next() as u8 | 1),
            4 | 5 => Step::Thin(is_ordered, 2 + random.below(8)),
            6 => Step::Push(1 + random.below(12), random.next()),
            _ => Step::Cut(random.below(40)),
        }
    }

    fn apply(&self, tx: &mut dyn Tx, step: &Self::Op) -> Result<()> {
        apply(tx, step)
    }

    fn step(&self, (maps, row): &mut Self::Model, step: &Self::Op) -> bool {
        match *step {
            Step::Put(is_ordered, first, count, len, byte) => {
                for key in first..first + count {
                    maps[usize::from(is_ordered)].insert(key % KEYS, vec![byte; len as usize]);
                }
            }
            Step::Thin(is_ordered, every) => {
                maps[usize::from(is_ordered)].retain(|key, _| key % every == 0);
            }
            Step::Push(count, value) => row.extend((0..count).map(|_| value)),
            Step::Cut(len) => row.truncate(len as usize),
        }
        true
    }

    fn may_be_full(&self) -> bool {
        true
    }

    /// Halves, for a log that is too small.
    fn split(&self, step: &Self::Op) -> Vec<Self::Op> {
        match *step {
            Step::Put(is_ordered, first, count, len, byte) if count > 1 => {
                let half = count / 2;
                vec![
                    Step::Put(is_ordered, first, half, len, byte),
                    Step::Put(is_ordered, first + half, count - half, len, byte),
                ]
            }
            Step::Push(count, value) if count > 1 => {
                vec![Step::Push(count / 2, value), Step::Push(count - count / 2, value)]
            }
            _ => Vec::new(),
        }
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let (Some(hashed), Some(ordered)) = (tx.root("hashed")?, tx.root("ordered")?) else {
            return Ok(None);
        };
        let Some(row) = tx.root("row")? else { return Ok(None) };
        let mut contents = Contents::default();
        let (maps, elements) = (&mut contents.0, &mut contents.1);
        Hashed::new(hashed.at).for_each(tx, &mut |key, value| {
            maps[0].insert(key, value);
            Ok(())
        })?;
        Ordered::new(ordered.at).for_each(tx, &mut |key, value| {
            maps[1].insert(key, value);
            Ok(())
        })?;
        let row = Row::new(row.at);
        for index in 0..row.len(tx)? {
            let element = row.get(tx, index)?.unwrap_or_default();
            let whole = element.iter().all(|word| *word == element[0]);
            elements.push(if whole { element[0] } else { u64::MAX });
        }
        Ok(Some(contents))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        if root.kind != KIND {
            return collections::check_root(tx, root, visit);
        }
        let mut block = root.at;
        while block != 0 {
            visit(block)?;
            block = tx.read_word(block)?;
        }
        Ok(true)
    }
}
