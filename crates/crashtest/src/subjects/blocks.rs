//! Blocks too large for the log of a block device, which are stored in place by their transaction's body, and words
//! that small transactions change.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Purpose, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;

const ROOT: &str = "blocks";
const KIND: u32 = 1_907;
const SLOTS: u64 = 3;
const COUNTS: u64 = 2;
/// Just more than the largest fresh memory that is logged anywhere.
const LEN: usize = (64 << 10) + 64;
/// Few blocks more than are in use, so that their pages are used again.
const POOL: u64 = 544 << 10;
/// One operation in this many replaces a block; the others are small.
const RARE: u64 = 2;

/// A root block of places of blocks, and of words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks;

/// An operation.
#[derive(Clone, Debug)]
pub enum Step {
    /// Frees a slot's block, and allocates one filled with this byte.
    Replace(u64, u8),
    /// Frees a slot's block.
    Free(u64),
    /// Adds to a word.
    Add(u64, u64),
}

fn place_of(tx: &mut dyn Tx, index: u64) -> Result<u64> {
    Ok(tx.root(ROOT)?.expect("it was prepared").at + index * 64)
}

impl Listed for Blocks {
    const ROW: Structure = Structure {
        name: "blocks",
        line: "blocks too large for a block device's log, stored in place, beside small changes",
    };
}

impl Subject for Blocks {
    type Op = Step;
    /// The byte of each slot's block, or 256 where it is not filled with one; then the words.
    type Model = Vec<u64>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let bytes = vec![0; ((SLOTS + COUNTS) * 64) as usize];
        let at = tx.new_bytes(Purpose::General, &bytes)?;
        tx.set_root(ROOT, Root { at, kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        vec![0; (SLOTS + COUNTS) as usize]
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let (value, rare) = (random.next(), random.below(RARE) == 0);
        match rare {
            true => Step::Replace(random.below(SLOTS), value as u8 | 1),
            false => Step::Add(random.below(COUNTS), value >> 32),
        }
    }

    fn apply(&self, tx: &mut dyn Tx, step: &Self::Op) -> Result<()> {
        match *step {
            Step::Replace(slot, byte) => {
                let place = place_of(tx, slot)?;
                let old = tx.read_word(place)?;
                if old != 0 {
                    tx.free(old)?;
                }
                let new = tx.new_bytes(Purpose::Value, &vec![byte; LEN])?;
                tx.write_word(place, new)
            }
            Step::Free(slot) => {
                let place = place_of(tx, slot)?;
                let old = tx.read_word(place)?;
                if old != 0 {
                    tx.free(old)?;
                }
                tx.write_word(place, 0)
            }
            Step::Add(index, more) => {
                let place = place_of(tx, SLOTS + index)?;
                let sum = tx.read_word(place)?.wrapping_add(more);
                tx.write_word(place, sum)
            }
        }
    }

    fn step(&self, model: &mut Self::Model, step: &Self::Op) -> bool {
        match *step {
            Step::Replace(slot, byte) => model[slot as usize] = u64::from(byte),
            Step::Free(slot) => model[slot as usize] = 0,
            Step::Add(index, more) => {
                let word = &mut model[(SLOTS + index) as usize];
                *word = word.wrapping_add(more);
            }
        }
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    /// Memory of lines that an engine protects goes through the log, whatever its size, and a small pool's log has no
    /// room for a block.
    fn split(&self, step: &Self::Op) -> Vec<Self::Op> {
        match *step {
            Step::Replace(slot, _) => vec![Step::Free(slot)],
            Step::Free(_) | Step::Add(..) => Vec::new(),
        }
    }

    /// Each event of a large block is a crash point.
    fn most_operations(&self) -> usize {
        10
    }

    fn pool_bytes(&self) -> u64 {
        POOL
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(root) = tx.root(ROOT)? else { return Ok(None) };
        let (mut model, mut bytes) = (Vec::new(), vec![0; LEN]);
        for index in 0..SLOTS + COUNTS {
            let word = tx.read_word(root.at + index * 64)?;
            model.push(if index >= SLOTS || word == 0 {
                word
            } else {
                tx.read_bytes(word, &mut bytes)?;
                let whole = bytes.iter().all(|byte| *byte == bytes[0]);
                if whole { u64::from(bytes[0]) } else { 256 }
            });
        }
        Ok(Some(model))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        if root.kind != KIND {
            return Ok(false);
        }
        visit(root.at)?;
        for slot in 0..SLOTS {
            match tx.read_word(root.at + slot * 64)? {
                0 => {}
                at => visit(at)?,
            }
        }
        Ok(true)
    }
}
