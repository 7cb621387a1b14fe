//! Blocks in a non-volatile last-level cache: where each is, and when writes of it are done.
//!
//! What always holds: a block and its tag (home line, transaction) become durable together; a block is given up only
//! when newer contents of its line are durable, in the cache or at home. This is a table apart from the simulated
//! caches, which know themselves which lines they hold: it has room for every block of theirs, older contents included.

use super::log::bits;
use super::window::Number;
use crate::Ps;
use crate::by_number::ByNumber;
use crate::hardware::Hardware;
use crate::mechanism::Home;
use perdura_memory::image::LineWords;
use std::collections::VecDeque;
use std::ops::Range;

/// Lines of a slot: a block and its tag.
const SLOT: u64 = 2;
/// First word of a valid tag; the next words are home line and transaction.
const COUNTS: u64 = 1;

/// Contents of a line that the cache keeps over a power cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptContents {
    pub(super) slot: u64,
    pub(super) number: Number,
    pub(super) words: LineWords,
    /// When its transaction is durable.
    pub(super) committed: Ps,
}

/// The blocks.
#[derive(Debug)]
pub(super) struct Nonvolatile {
    /// Free slots, each with the time from which it is free.
    free: VecDeque<(u64, Ps)>,
    /// The contents of each line as the last committed transaction has left them.
    kept: ByNumber<KeptContents>,
    write: Ps,
    banks: Vec<Ps>,
    pub(super) writes: u64,
}

impl Nonvolatile {
    /// Lines for `slots` blocks.
    pub(super) fn lines(slots: u64) -> u64 {
        slots * SLOT
    }

    /// Empty: recovery has brought home what was there before a power cut.
    pub(super) fn new(own: &Range<u64>, write: Ps, banks: usize) -> Self {
        let free = (own.start..own.end).step_by(SLOT as usize);
        Nonvolatile {
            free: free.map(|slot| (slot, Ps::default())).collect(),
            kept: ByNumber::default(),
            write,
            banks: vec![Ps::default(); banks],
            writes: 0,
        }
    }

    /// The kept contents of a line.
    pub(super) fn kept(&self, line: u64) -> Option<KeptContents> {
        self.kept.get(&line).copied()
    }

    /// Time of a write to the cache.
    pub(super) fn write_time(&self) -> Ps {
        self.write
    }

    /// Writes a transaction's contents of a line to a new slot, not before `from`. Returns when they are durable;
    /// `None` if there is no room. `moves`: the line comes from a cache nearer to a core; otherwise it was written when
    /// it left that cache, and only its tag is still to be written.
    pub(super) fn write(
        &mut self,
        hardware: &mut Hardware,
        (line, words): (u64, LineWords),
        number: Number,
        (from, moves): (Ps, bool),
    ) -> Option<(KeptContents, Ps)> {
        let (slot, free) = self.free.pop_front()?;
        let bank = (line % self.banks.len() as u64) as usize;
        let begins = from.max(free).max(if moves { self.banks[bank] } else { from });
        let durable = begins + self.write;
        if moves {
            self.banks[bank] = durable;
            self.writes += 1;
        }
        hardware.keep("cache block", slot, words, durable);
        hardware.keep("cache tag", slot + 1, [COUNTS, line, number, 0, 0, 0, 0, 0], durable);
        Some((KeptContents { slot, number, words, committed: durable }, durable))
    }

    /// These are the line's committed contents from `time` on; those kept before are given up then.
    pub(super) fn settle(
        &mut self,
        hardware: &mut Hardware,
        line: u64,
        kept: KeptContents,
        time: Ps,
    ) {
        if let Some(older) = self.kept.insert(line, KeptContents { committed: time, ..kept }) {
            self.free_slot(hardware, older, time);
        }
    }

    /// The line's contents, or newer ones, are home at `time`, and are no longer kept. Returns when their tag is
    /// cleared.
    pub(super) fn give_up(&mut self, hardware: &mut Hardware, line: u64, time: Ps) -> Ps {
        let kept = self.kept.remove(&line);
        kept.map_or(time, |kept| self.free_slot(hardware, kept, time))
    }

    fn free_slot(&mut self, hardware: &mut Hardware, kept: KeptContents, time: Ps) -> Ps {
        let cleared = time + self.write;
        hardware.keep("cleared tag", kept.slot + 1, [0; 8], cleared);
        self.free.push_back((kept.slot, cleared));
        cleared
    }

    /// The blocks that a power cut has left of transactions in `dead..recorded`: number, line, line of the block.
    pub(super) fn found(
        home: &Home<'_>,
        own: &Range<u64>,
        (dead, recorded): (Number, Number),
    ) -> Vec<(Number, u64, u64)> {
        let slots = (own.start..own.end).step_by(SLOT as usize);
        let counting = slots.filter_map(|slot| {
            let [counts, line, number, ..] = home.line(slot + 1);
            let counts = counts == COUNTS && (dead..recorded).contains(&number);
            (counts && line < 1 << bits::ADDR).then_some((number, line, slot))
        });
        counting.collect()
    }
}
