//! Swaps in an array: the smallest scattered update.

use super::{Listed, Structure};
use crate::Subject;
use perdura::{Purpose, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;

const ROOT: &str = "sps";
const KIND: u32 = 1_900;
const WORD: u64 = 8;

/// The array.
#[derive(Clone, Copy, Debug)]
pub struct Sps {
    /// Words in it.
    pub entries: u64,
}

impl Default for Sps {
    fn default() -> Self {
        Sps { entries: 256 }
    }
}

impl Listed for Sps {
    const ROW: Structure = Structure { name: "sps", line: "swaps in an array of 256 words" };
}

impl Subject for Sps {
    type Op = (u64, u64);
    type Model = Vec<u64>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let bytes: Vec<u8> = (0..self.entries).flat_map(u64::to_ne_bytes).collect();
        let at = tx.new_bytes(Purpose::General, &bytes)?;
        tx.set_root(ROOT, Root { at, kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        (0..self.entries).collect()
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let first = random.below(self.entries);
        (first, (first + 1 + random.below(self.entries - 1)) % self.entries)
    }

    fn apply(&self, tx: &mut dyn Tx, (first, second): &Self::Op) -> Result<()> {
        let at = tx.root(ROOT)?.expect("it was prepared").at;
        let [first, second] = [first, second].map(|index| at + index * WORD);
        let (x, y) = (tx.read_word(first)?, tx.read_word(second)?);
        tx.write_word(first, y)?;
        tx.write_word(second, x)
    }

    fn step(&self, model: &mut Self::Model, (first, second): &Self::Op) -> bool {
        model.swap(*first as usize, *second as usize);
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(root) = tx.root(ROOT)? else { return Ok(None) };
        let mut words = vec![0; self.entries as usize];
        tx.read_bytes(root.at, bytemuck::cast_slice_mut(&mut words))?;
        Ok(Some(words))
    }
}
