//! Byte strings in pieces, and a map whose keys and values are moved, as when pages are emptied.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::{Blob, Bytes, HashMap, Visit};
use perdura::testing::ScatteredTx;
use perdura::{Access, Purpose, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;
use std::collections::BTreeMap;

const ROOT: &str = "pieces";
const KIND: u32 = 1_906;
const KEYS: u64 = 6;
/// Lengths of values: in their entry, in slots, in two pieces, and in several once something is appended.
const LENGTHS: [u64; 5] = [5, 40, 300, 2_100, 4_200];
/// The longest string that is created.
const LONGEST: u64 = 6_000;
/// The maximum number of bytes in a piece.
const PIECE: u64 = 4096;

/// A root block with a map and a byte string.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pieces;

type Map = HashMap<Bytes, Bytes>;

/// A change of the map, or of the string.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sets a key to this many such bytes.
    Put(u64, u64, u8),
    /// Removes a key.
    Remove(u64),
    /// Appends this many such bytes to the string.
    Append(u64, u8),
    /// Resizes the string to this percentage of its length.
    Resize(u64),
    /// Fills the string with this byte, from this percentage of its length on.
    Write(u64, u8),
    /// Sets the string to this many such bytes.
    Set(u64, u8),
    /// Moves all blocks.
    Move,
}

/// The contents of the map and of the string.
type Contents = (BTreeMap<u64, Vec<u8>>, Vec<u8>);

fn name(key: u64) -> Vec<u8> {
    // Some keys have blocks of their own.
    let long = if key.is_multiple_of(3) { "a key that is too long for its entry " } else { "" };
    format!("{long}{key}").into_bytes()
}

fn parts(tx: &mut dyn Tx) -> Result<(u64, Map, Blob)> {
    let at = tx.root(ROOT)?.expect("it was prepared").at;
    Ok((at, Map::new(tx.read_word(at)?), Blob::new(tx.read_word(at + 8)?)))
}

fn act(tx: &mut dyn Tx, step: &Step) -> Result<()> {
    let (at, map, blob) = parts(tx)?;
    let tx = &mut ScatteredTx::new(tx, PIECE, matches!(step, Step::Move));
    let moved = match *step {
        Step::Put(key, len, byte) => {
            map.set(tx, &name(key), &vec![byte; len as usize])?;
            blob
        }
        Step::Remove(key) => {
            map.remove(tx, &name(key))?;
            blob
        }
        Step::Append(len, byte) => blob.append(tx, &vec![byte; len as usize])?,
        Step::Resize(share) => {
            let len = blob.len(tx)? * share / 100;
            blob.resize(tx, len.min(LONGEST))?
        }
        Step::Write(share, byte) => {
            let len = blob.len(tx)?;
            let from = len * share / 100;
            blob.write_range(tx, from, &vec![byte; (len - from).min(200) as usize])?;
            blob
        }
        Step::Set(len, byte) => blob.set(tx, &vec![byte; len as usize])?,
        Step::Move => {
            map.compact_some(tx, 0, u64::MAX, &mut |_, _| Ok(()))?;
            blob.compact(tx)?
        }
    };
    if moved != blob { tx.write_word(at + 8, moved.at()) } else { Ok(()) }
}

impl Listed for Pieces {
    const ROW: Structure = Structure {
        name: "pieces",
        line: "byte strings in pieces, and a map whose keys and values are moved",
    };
}

impl Subject for Pieces {
    /// Steps of one transaction, which aborts at its end if the flag is set.
    type Op = (Vec<Step>, bool);
    type Model = Contents;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let map = Map::create_seeded(tx, 1)?;
        let blob = Blob::create(tx, Purpose::Value, b"")?;
        let at = tx.new_bytes(Purpose::General, bytemuck::bytes_of(&[map.at(), blob.at()]))?;
        tx.set_root(ROOT, Root { at, kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        Contents::default()
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let mut step = || {
            let len = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
            let (key, byte) = (random.below(KEYS), random.next() as u8);
            match random.below(10) {
                0..4 => Step::Put(key, len, byte),
                4 => Step::Remove(key),
                5 | 6 => Step::Append(len, byte),
                7 => Step::Resize(random.below(150)),
                8 => Step::Write(random.below(100), byte),
                _ => Step::Set(len, byte),
            }
        };
        let mut steps = vec![step()];
        steps.extend((0..2).map(|_| step()));
        steps.truncate(1 + random.below(3) as usize);
        // Moving all blocks takes as much as fits into the log of a test pool.
        if random.below(5) == 0 {
            steps = vec![Step::Move];
        }
        (steps, random.below(8) == 0)
    }

    fn apply(&self, tx: &mut dyn Tx, (steps, aborts): &Self::Op) -> Result<()> {
        for step in steps {
            let (_, _, blob) = parts(tx)?;
            // A growing string is truncated now and then.
            let long = matches!(step, Step::Append(..)) && blob.len(tx)? > LONGEST / 2;
            act(tx, if long { &Step::Set(100, 1) } else { step })?;
        }
        if *aborts { tx.abort("as drawn") } else { Ok(()) }
    }

    fn step(&self, (map, string): &mut Self::Model, (steps, aborts): &Self::Op) -> bool {
        if *aborts {
            return false;
        }
        for step in steps {
            match *step {
                Step::Put(key, len, byte) => drop(map.insert(key, vec![byte; len as usize])),
                Step::Remove(key) => drop(map.remove(&key)),
                Step::Append(..) if string.len() as u64 > LONGEST / 2 => *string = vec![1; 100],
                Step::Append(len, byte) => string.resize(string.len() + len as usize, byte),
                Step::Resize(share) => {
                    string.resize((string.len() * share as usize / 100).min(LONGEST as usize), 0);
                }
                Step::Write(share, byte) => {
                    let from = string.len() * share as usize / 100;
                    let end = string.len().min(from + 200);
                    string[from..end].fill(byte);
                }
                Step::Set(len, byte) => *string = vec![byte; len as usize],
                Step::Move => {}
            }
        }
        true
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        if tx.root(ROOT)?.is_none() {
            return Ok(None);
        }
        let (_, map, blob) = parts(tx)?;
        let mut found = BTreeMap::new();
        for key in 0..KEYS {
            if let Some(value) = map.get(tx, &name(key))? {
                found.insert(key, value);
            }
        }
        Ok(Some((found, blob.read(tx)?)))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        if root.kind != KIND {
            return Ok(false);
        }
        visit(root.at)?;
        let (_, map, blob) = parts(tx)?;
        map.check(tx, visit)?;
        blob.check(tx, visit)?;
        Ok(true)
    }
}
