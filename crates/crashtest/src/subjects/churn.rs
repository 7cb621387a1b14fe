//! Allocator churn: blocks of all sizes are allocated, changed, resized and freed.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Purpose, Result, Root, Tx, TxExt};
use perdura_memory::random::SplitMix64;

const ROOT: &str = "churn";
const KIND: u32 = 1_901;
const SLOTS: u64 = 8;
/// The longest length of a block accepted as valid.
const LONGEST: u64 = 20_000;
/// Sizes of slots and of runs of whole pages.
const SIZES: [u64; 8] = [8, 24, 100, 200, 700, 1500, 3000, 9000];

/// A root array of slots, each with a block or none. A block holds its length, then bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Churn;

/// An operation on a slot.
#[derive(Clone, Debug)]
pub enum Action {
    /// Frees its block, and allocates a new one of this many such bytes.
    Replace(u64, u64, u8),
    /// Changes a byte of its block, if it has one.
    Touch(u64, u64, u8),
    /// Fills its block with this byte, in place; a long one needs several log segments.
    Fill(u64, u8),
    /// Frees its block.
    Free(u64),
}

fn slot_of(tx: &mut dyn Tx, slot: u64) -> Result<u64> {
    Ok(tx.root(ROOT)?.expect("it was prepared").at + slot * 8)
}

fn block(tx: &mut dyn Tx, at: u64) -> Result<Vec<u8>> {
    if at == 0 {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; tx.read_word(at)?.min(LONGEST) as usize];
    tx.read_bytes(at + 8, &mut bytes)?;
    Ok(bytes)
}

fn act(tx: &mut dyn Tx, action: &Action) -> Result<()> {
    let (Action::Replace(slot, ..)
    | Action::Touch(slot, ..)
    | Action::Fill(slot, _)
    | Action::Free(slot)) = *action;
    let place = slot_of(tx, slot)?;
    let old = tx.read_word(place)?;
    if old == 0 && matches!(action, Action::Touch(..) | Action::Fill(..)) {
        return Ok(());
    }
    match *action {
        Action::Touch(_, index, byte) => {
            let len = tx.read_word(old)?;
            return tx.write_bytes(old + 8 + index % len, &[byte]);
        }
        Action::Fill(_, byte) => {
            let len = tx.read_word(old)?.min(LONGEST);
            return tx.write_bytes(old + 8, &vec![byte; len as usize]);
        }
        Action::Replace(..) | Action::Free(_) => {}
    }
    if old != 0 {
        tx.free(old)?;
    }
    let new = match *action {
        Action::Replace(_, len, byte) => {
            let bytes = [&len.to_ne_bytes()[..], &vec![byte; len as usize]].concat();
            tx.new_bytes(Purpose::Value, &bytes)?
        }
        _ => 0,
    };
    tx.write_word(place, new)
}

impl Listed for Churn {
    const ROW: Structure = Structure {
        name: "churn",
        line: "blocks of all sizes allocated, changed, resized and freed",
    };
}

impl Subject for Churn {
    /// Actions in one transaction, which aborts at its end if the flag is set.
    type Op = (Vec<Action>, bool);
    type Model = Vec<Vec<u8>>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let at = tx.new_bytes(Purpose::General, &[0; SLOTS as usize * 8])?;
        tx.set_root(ROOT, Root { at, kind: KIND })?;
        act(tx, &Action::Replace(0, 50, 7))
    }

    fn prepared(&self) -> Self::Model {
        let mut model = vec![Vec::new(); SLOTS as usize];
        model[0] = vec![7; 50];
        model
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let mut action = || {
            let slot = random.below(SLOTS);
            match random.below(8) {
                0 => Action::Free(slot),
                7 => Action::Fill(slot, random.next() as u8),
                1 | 2 => Action::Touch(slot, random.below(LONGEST), random.next() as u8),
                _ => {
                    let len = SIZES[random.below(SIZES.len() as u64) as usize];
                    Action::Replace(slot, len, random.next() as u8)
                }
            }
        };
        let mut actions = vec![action()];
        actions.extend((0..2).map(|_| action()));
        actions.truncate(1 + random.below(3) as usize);
        (actions, random.below(8) == 0)
    }

    fn apply(&self, tx: &mut dyn Tx, (actions, aborts): &Self::Op) -> Result<()> {
        actions.iter().try_for_each(|action| act(tx, action))?;
        if *aborts { tx.abort("as drawn") } else { Ok(()) }
    }

    fn step(&self, model: &mut Self::Model, (actions, aborts): &Self::Op) -> bool {
        if *aborts {
            return false;
        }
        for action in actions {
            match *action {
                Action::Replace(slot, len, byte) => model[slot as usize] = vec![byte; len as usize],
                Action::Free(slot) => model[slot as usize].clear(),
                Action::Fill(slot, byte) => model[slot as usize].fill(byte),
                Action::Touch(slot, index, byte) => {
                    let block = &mut model[slot as usize];
                    if !block.is_empty() {
                        let index = index as usize % block.len();
                        block[index] = byte;
                    }
                }
            }
        }
        true
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(root) = tx.root(ROOT)? else { return Ok(None) };
        let mut blocks = Vec::new();
        for slot in 0..SLOTS {
            let at = tx.read_word(root.at + slot * 8)?;
            blocks.push(block(tx, at)?);
        }
        Ok(Some(blocks))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        if root.kind != KIND {
            return Ok(false);
        }
        visit(root.at)?;
        for slot in 0..SLOTS {
            match tx.read_word(root.at + slot * 8)? {
                0 => {}
                at => visit(at)?,
            }
        }
        Ok(true)
    }
}
