//! Transactions of several log segments between small ones.

use super::{Listed, Structure};
use crate::Subject;
use perdura::{Purpose, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;

const ROOT: &str = "wide";
const KIND: u32 = 1_903;
/// More than fit in a segment of the smallest log.
const WORDS: u64 = 600;

/// An array of words that is overwritten partly or as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wide;

impl Listed for Wide {
    const ROW: Structure =
        Structure { name: "wide", line: "transactions of several log segments between small ones" };
}

impl Subject for Wide {
    /// The start, the number of words, and the value.
    type Op = (u64, u64, u64);
    type Model = Vec<u64>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let at = tx.new_bytes(Purpose::General, &[0; WORDS as usize * 8])?;
        tx.set_root(ROOT, Root { at, kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        vec![0; WORDS as usize]
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let from = random.below(WORDS);
        match random.below(3) {
            0 => (0, WORDS, random.next()),
            1 => (from, 1 + random.below(WORDS - from), random.next()),
            _ => (from, 1, random.next()),
        }
    }

    fn apply(&self, tx: &mut dyn Tx, (from, count, value): &Self::Op) -> Result<()> {
        let at = tx.root(ROOT)?.expect("it was prepared").at;
        let words = vec![*value; *count as usize];
        tx.write_bytes(at + from * 8, bytemuck::cast_slice(&words))
    }

    fn step(&self, model: &mut Self::Model, (from, count, value): &Self::Op) -> bool {
        model[*from as usize..(from + count) as usize].fill(*value);
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(root) = tx.root(ROOT)? else { return Ok(None) };
        let mut words = vec![0; WORDS as usize];
        tx.read_bytes(root.at, bytemuck::cast_slice_mut(&mut words))?;
        Ok(Some(words))
    }
}
