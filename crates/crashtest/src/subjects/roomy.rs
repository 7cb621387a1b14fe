//! Blocks of up to 140 KB, in a pool whose page table has several pages, between small ones.
//!
//! Allocations that only a larger pool has: memory that goes past the log also on a block device (from 64 KiB on), in
//! one piece or several; runs of many pages that are freed, split and joined; page tables with a sum for each of their
//! pages.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Root, Tx};
use perdura_memory::random::SplitMix64;

const ROOT: &str = "roomy";
const KIND: u32 = 1_907;
const SLOTS: u64 = 5;
const BYTES: u64 = 2 << 20;
/// Sizes of slots, of few pages, and of many.
const SIZES: [u64; 7] = [16, 300, 3_000, 9_000, 20_000, 70_000, 140_000];
/// The longest block that can be filled in place: a longer one would not fit into the log.
const FILLED: u64 = 3_000;
const LONGEST: u64 = SIZES[SIZES.len() - 1];
/// A piece in which a block is written: past the log on every domain.
const PIECE: u64 = 70_000;

/// A root array of slots, each with a block or none. A block holds its length, then bytes that are all the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roomy;

/// An operation on a slot.
#[derive(Clone, Debug)]
pub enum Action {
    /// Frees its block, and allocates a new one of this many such bytes.
    Replace(u64, u64, u8),
    /// Fills its block with this byte, in place, if it has a short one.
    Fill(u64, u8),
    /// Frees its block.
    Free(u64),
}

/// The contents of a slot: length, byte, and whether all bytes are the same.
type Block = Option<(u64, u8, bool)>;

fn slot_of(tx: &mut dyn Tx, slot: u64) -> Result<u64> {
    Ok(tx.root(ROOT)?.expect("it was prepared").at + slot * 8)
}

fn new_block(tx: &mut dyn Tx, len: u64, byte: u8) -> Result<u64> {
    let new = tx.allocate(Purpose::Value, 8 + len)?;
    let bytes = [&len.to_ne_bytes()[..], &vec![byte; len as usize]].concat();
    for (piece, from) in bytes.chunks(PIECE as usize).zip((0..).step_by(PIECE as usize)) {
        tx.write_fresh(new, from, piece)?;
    }
    Ok(new.at())
}

fn act(tx: &mut dyn Tx, action: &Action) -> Result<()> {
    let (Action::Replace(slot, ..) | Action::Fill(slot, _) | Action::Free(slot)) = *action;
    let place = slot_of(tx, slot)?;
    let old = tx.read_word(place)?;
    if let Action::Fill(_, byte) = *action {
        let len = if old == 0 { 0 } else { tx.read_word(old)? };
        return match len {
            1..=FILLED => tx.write_bytes(old + 8, &vec![byte; len as usize]),
            _ => Ok(()),
        };
    }
    if old != 0 {
        tx.free(old)?;
    }
    let new = match *action {
        Action::Replace(_, len, byte) => new_block(tx, len, byte)?,
        Action::Fill(..) | Action::Free(_) => 0,
    };
    tx.write_word(place, new)
}

impl Listed for Roomy {
    const ROW: Structure = Structure {
        name: "roomy",
        line: "blocks of up to 140 KB, in a pool with several pages of page table",
    };
}

impl Subject for Roomy {
    /// Actions in one transaction, which aborts at its end if the flag is set.
    type Op = (Vec<Action>, bool);
    type Model = Vec<Block>;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn pool_bytes(&self) -> u64 {
        BYTES
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let array = tx.allocate(Purpose::General, SLOTS * 8)?;
        tx.write_fresh(array, 0, &[0; SLOTS as usize * 8])?;
        tx.set_root(ROOT, Root { at: array.at(), kind: KIND })?;
        act(tx, &Action::Replace(0, PIECE, 7))
    }

    fn prepared(&self) -> Self::Model {
        let mut model = vec![None; SLOTS as usize];
        model[0] = Some((PIECE, 7, true));
        model
    }

    /// Each stores thousands of words.
    fn most_operations(&self) -> usize {
        6
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Self::Op {
        let mut action = || {
            let slot = random.below(SLOTS);
            match random.below(6) {
                0 => Action::Free(slot),
                1 => Action::Fill(slot, random.next() as u8),
                _ => {
                    let len = SIZES[random.below(SIZES.len() as u64) as usize];
                    Action::Replace(slot, len, random.next() as u8)
                }
            }
        };
        let mut actions: Vec<Action> = (0..2).map(|_| action()).collect();
        actions.truncate(1 + random.below(2) as usize);
        (actions, random.below(8) == 0)
    }

    fn apply(&self, tx: &mut dyn Tx, (actions, aborts): &Self::Op) -> Result<()> {
        actions.iter().try_for_each(|action| act(tx, action))?;
        if *aborts { Err(Error::Aborted("as drawn".to_owned())) } else { Ok(()) }
    }

    /// Where nothing may go past the log: one action after the other, with smaller blocks.
    fn split(&self, (actions, aborts): &Self::Op) -> Vec<Self::Op> {
        let smaller = |action: &Action| match *action {
            Action::Replace(slot, len, byte) => Action::Replace(slot, len.min(FILLED), byte),
            Action::Fill(..) | Action::Free(_) => action.clone(),
        };
        match actions[..] {
            [Action::Replace(_, ..=FILLED, _) | Action::Fill(..) | Action::Free(_)] => Vec::new(),
            _ => actions.iter().map(|action| (vec![smaller(action)], *aborts)).collect(),
        }
    }

    fn step(&self, model: &mut Self::Model, (actions, aborts): &Self::Op) -> bool {
        if *aborts {
            return false;
        }
        for action in actions {
            match *action {
                Action::Replace(slot, len, byte) => model[slot as usize] = Some((len, byte, true)),
                Action::Free(slot) => model[slot as usize] = None,
                Action::Fill(slot, byte) => {
                    if let Some((1..=FILLED, old, _)) = &mut model[slot as usize] {
                        *old = byte;
                    }
                }
            }
        }
        true
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Self::Model>> {
        let Some(root) = tx.root(ROOT)? else { return Ok(None) };
        let (mut blocks, mut bytes) = (Vec::new(), Vec::new());
        for slot in 0..SLOTS {
            let at = tx.read_word(root.at + slot * 8)?;
            if at == 0 {
                blocks.push(None);
                continue;
            }
            bytes.resize(tx.read_word(at)?.clamp(1, LONGEST) as usize, 0);
            tx.read_bytes(at + 8, &mut bytes)?;
            let same = bytes.iter().all(|byte| *byte == bytes[0]);
            blocks.push(Some((bytes.len() as u64, bytes[0], same)));
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
