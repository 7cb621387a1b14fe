//! Unaligned strings of bytes, written, read back and written elsewhere: by the transaction itself, and by earlier ones
//! whose words may not be in place yet.

use super::{Listed, Structure};
use crate::Subject;
use perdura::{Purpose, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;

const ROOT: &str = "bytes";
const KIND: u32 = 1_904;
/// Small, so that a transaction meets its own and others' writes.
const LEN: u64 = 400;
/// The longest string.
const LONGEST: u64 = 150;

/// A block of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strings;

/// An operation on a string, given by its start and length.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// It is filled with bytes that count up from this one.
    Put(u64, u64, u8),
    /// It is read, and written to this place.
    Copy(u64, u64, u64),
    /// It is read, and written back to front.
    Turn(u64, u64),
}

fn put(len: u64, byte: u8) -> Vec<u8> {
    (0..len).map(|index| byte.wrapping_add(index as u8)).collect()
}

impl Listed for Strings {
    const ROW: Structure = Structure {
        name: "bytes",
        line: "unaligned strings, written, read back and written elsewhere",
    };
}

impl Subject for Strings {
    /// Steps of one transaction, which aborts at its end if the flag is set.
    type Op = (Vec<Step>, bool);
    type Model = Vec<u8>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let at = tx.new_bytes(Purpose::General, &put(LEN, 0))?;
        tx.set_root(ROOT, Root { at, kind: KIND })
    }

    fn prepared(&self) -> Self::Model {
        put(LEN, 0)
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let mut step = || {
            let longest = [9, LONGEST][random.below(2) as usize];
            let len = 1 + random.below(longest);
            let mut place = || random.below(LEN - len);
            let (from, to) = (place(), place());
            match random.below(5) {
                0 | 1 => Step::Put(from, len, random.next() as u8),
                2 | 3 => Step::Copy(from, to, len),
                _ => Step::Turn(from, len),
            }
        };
        let mut steps: Vec<Step> = (0..4).map(|_| step()).collect();
        steps.truncate(1 + random.below(4) as usize);
        (steps, random.below(8) == 0)
    }

    fn apply(&self, tx: &mut dyn Tx, (steps, aborts): &Self::Op) -> Result<()> {
        let start = tx.root(ROOT)?.expect("it was prepared").at;
        for step in steps {
            let (Step::Put(from, len, _) | Step::Copy(from, _, len) | Step::Turn(from, len)) =
                *step;
            let mut bytes = vec![0; len as usize];
            let to = match *step {
                Step::Put(_, _, byte) => {
                    bytes = put(len, byte);
                    from
                }
                Step::Copy(_, to, _) => {
                    tx.read_bytes(start + from, &mut bytes)?;
                    to
                }
                Step::Turn(..) => {
                    tx.read_bytes(start + from, &mut bytes)?;
                    bytes.reverse();
                    from
                }
            };
            tx.write_bytes(start + to, &bytes)?;
        }
        if *aborts { tx.abort("as drawn") } else { Ok(()) }
    }

    fn step(&self, model: &mut Self::Model, (steps, aborts): &Self::Op) -> bool {
        if *aborts {
            return false;
        }
        for step in steps {
            match *step {
                Step::Put(at, len, byte) => {
                    model[at as usize..(at + len) as usize].copy_from_slice(&put(len, byte));
                }
                Step::Copy(from, to, len) => {
                    model.copy_within(from as usize..(from + len) as usize, to as usize);
                }
                Step::Turn(at, len) => model[at as usize..(at + len) as usize].reverse(),
            }
        }
        true
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(root) = tx.root(ROOT)? else { return Ok(None) };
        let mut bytes = vec![0; LEN as usize];
        tx.read_bytes(root.at, &mut bytes)?;
        Ok(Some(bytes))
    }
}
