//! The thread for occasional work: checkpoints, giving space back, compaction, sessions.

use super::layout::SLOTS;
use super::live::{Life, Wrong, benign};
use super::pace::Pace;
use perdura::collections::compact::move_block;
use perdura::{Handle, Result};
use perdura_memory::random::SplitMix64;
use std::sync::atomic::Ordering;

/// Sessions that begin and end together.
const SESSIONS: u64 = 4;

/// Looks after the pool until the round ends.
pub(super) fn look_after(life: &Life<'_>) -> Result<(), Wrong> {
    let (mut random, mut pace) = (SplitMix64::new(life.seed ^ 0x75), Pace::new(life.seed ^ 0x75));
    while !life.is_over() {
        let done = match random.below(8) {
            0..3 => life.pool.checkpoint(),
            3 => life.pool.release_all().map(drop),
            4 => life.pool.release_some().map(drop),
            5 => compact(life),
            _ => sessions(life, 1 + random.below(SESSIONS)),
        };
        match done {
            Err(error) if !benign(&error) => return Err(error.into()),
            _ => {}
        }
        life.witness.reads(life.reads.load(Ordering::Relaxed));
        pace.idle(4);
    }
    Ok(())
}

/// Empties pages that are mostly free.
fn compact(life: &Life<'_>) -> Result<()> {
    let Some(compaction) = life.pool.compact(1) else { return Ok(()) };
    let mut handle = life.pool.session()?;
    for slot in 0..SLOTS {
        let moved = handle.transaction(|tx| {
            let place = life.layout.slot(slot);
            let at = tx.read_word(place)?;
            let new = if at == 0 { 0 } else { move_block(tx, at)? };
            if new == at { Ok(()) } else { tx.write_word(place, new) }
        });
        match moved {
            Err(error) if benign(&error) => break,
            moved => moved?,
        }
    }
    drop(handle);
    compaction.finish().map(drop)
}

/// Sessions that begin, read a word, and end.
fn sessions(life: &Life<'_>, count: u64) -> Result<()> {
    let handles: Result<Vec<Handle>> = (0..count).map(|_| life.pool.session()).collect();
    handles?
        .iter_mut()
        .try_for_each(|handle| handle.read(|tx| tx.read_word(life.layout.account(0))).map(drop))
}
