//! Transactions that are too large for the log, and are then done in parts, between small ones on the same lines.

use super::{Listed, Structure};
use crate::Subject;
use perdura::{Purpose, Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use perdura_memory::{LINE, WORD};

const ROOT: &str = "large";
const KIND: u32 = 1_905;
/// Their words do not fit into the log of a test pool.
const LINES: u64 = 1_000;
/// Lines of a part that fits.
const PART: u64 = 250;
/// One in this many changes is too large: it takes all lines away from the checksums.
const RARE: u64 = 100;
/// The words of a line that small changes use, and that are checked: the first and the last.
const ENDS: [u64; 2] = [0, LINE / WORD - 1];
/// The lines that small changes use: few enough to be changed again, and some in every part.
const OFTEN: u64 = 100;
const APART: u64 = LINES / OFTEN;
/// The maximum number of lines of a small change.
const MOST: u64 = 12;

/// An array of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Large;

/// A change of the array.
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets all words of a range of lines (first, count) to this value.
    Fill(u64, u64, u64),
    /// Sets the ends of these lines.
    Touch(Vec<u64>, u64),
}

impl Listed for Large {
    const ROW: Structure =
        Structure { name: "large", line: "transactions too large for the log, done in parts" };
}

impl Subject for Large {
    type Op = Change;
    type Model = Vec<u64>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        // A new pool's memory is zero; writing it would be too large for the log of a block device.
        let at = tx.allocate(Purpose::General, LINES * LINE)?.at();
        tx.set_root(ROOT, Root { at, kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        vec![0; LINES as usize * ENDS.len()]
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let value = random.next();
        match random.below(RARE) {
            0 => Change::Fill(0, LINES, value),
            1 | 2 => {
                let len = 1 + random.below(OFTEN / 2);
                Change::Fill(random.below(LINES - len), len, value)
            }
            _ => {
                let count = 1 + random.below(MOST);
                Change::Touch((0..count).map(|_| random.below(OFTEN) * APART).collect(), value)
            }
        }
    }

    fn apply(&self, tx: &mut dyn Tx, change: &Self::Op) -> Result<()> {
        let at = tx.root(ROOT)?.expect("it was prepared").at;
        match change {
            Change::Fill(first, count, value) => {
                let words = vec![*value; (count * LINE / WORD) as usize];
                tx.write_bytes(at + first * LINE, bytemuck::cast_slice(&words))
            }
            Change::Touch(lines, value) => lines.iter().try_for_each(|line| {
                ENDS.into_iter()
                    .try_for_each(|word| tx.write_word(at + line * LINE + word * WORD, *value))
            }),
        }
    }

    fn split(&self, change: &Self::Op) -> Vec<Self::Op> {
        match change {
            Change::Fill(first, count, value) => (*first..first + count)
                .step_by(PART as usize)
                .map(|from| Change::Fill(from, PART.min(first + count - from), *value))
                .collect(),
            Change::Touch(..) => Vec::new(),
        }
    }

    fn step(&self, model: &mut Self::Model, change: &Self::Op) -> bool {
        let mut set = |line: u64, value| {
            let first = line as usize * ENDS.len();
            model[first..first + ENDS.len()].fill(value);
        };
        match change {
            Change::Fill(first, count, value) => {
                (*first..first + count).for_each(|line| set(line, *value));
            }
            Change::Touch(lines, value) => lines.iter().for_each(|line| set(*line, *value)),
        }
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(root) = tx.root(ROOT)? else { return Ok(None) };
        let mut model = Vec::with_capacity(LINES as usize * ENDS.len());
        for line in 0..LINES {
            for word in ENDS {
                model.push(tx.read_word(root.at + line * LINE + word * WORD)?);
            }
        }
        Ok(Some(model))
    }
}
