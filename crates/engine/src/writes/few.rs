//! A few lines in arrays of a fixed size: places and slots are masked, and so never out of bounds.
//!
//! Nearly every access looks a line up, and most of these lines are not there. The table of slots is sparse, so that
//! its first slot nearly always says so, and one KiB, so that it stays in the first-level cache. Each slot carries a
//! generation: clearing costs nothing.

use super::line::{LineWrite, NOTHING, entry_at};
use perdura_memory::{LINE, Memory, Traced};

/// The number of lines that fit.
pub(super) const ROOM: usize = 64;
const SLOTS: usize = 256;
/// Bits of a slot that are a place.
const PLACE: u32 = u32::BITS - GENERATION;
/// Bits of a slot that are a generation.
const GENERATION: u32 = 24;

/// The first generation, in its place in a slot.
const FIRST: u32 = 1 << PLACE;

/// Bytes of own memory: the slots, then the lines.
pub(super) const BYTES: u64 = LINES_AT + entry_at(ROOM);
const SLOT: u64 = size_of::<u32>() as u64;
const LINES_AT: u64 = SLOTS as u64 * SLOT;

/// The lines. Accesses are reported from offset `BASE` of the write set's object on.
pub(super) struct Few<const BASE: u64> {
    used: usize,
    /// The generation, from 1, in its place in a slot.
    generation: u32,
    slots: [u32; SLOTS],
    /// Those from `used` on are left over from earlier transactions.
    lines: [LineWrite; ROOM],
}

impl<const BASE: u64> Default for Few<BASE> {
    fn default() -> Self {
        Few { used: 0, generation: FIRST, slots: [0; SLOTS], lines: [NOTHING; ROOM] }
    }
}

impl<const BASE: u64> Few<BASE> {
    /// The lines, in the order in which they were added.
    #[inline(always)]
    pub(super) fn lines(&self) -> &[LineWrite] {
        &self.lines[..self.used]
    }

    /// Forgets everything.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.generation = self.generation.wrapping_add(FIRST);
        if self.generation == 0 {
            self.begin_anew();
        }
    }

    #[cold]
    fn begin_anew(&mut self) {
        self.slots.fill(0);
        self.generation = FIRST;
    }

    /// Keeps only the first `lines` lines.
    #[cold]
    pub(super) fn truncate<M: Memory>(&mut self, lines: usize, own: Traced<'_, M>) {
        let kept = lines.min(self.used);
        self.clear();
        for place in 0..kept {
            let line = self.lines[place].line;
            let mask = self.lines[place].mask;
            if let Err(slot) = self.find(line, own)
                && let Some(place) = self.add(slot, line, own)
            {
                self.lines[place].mask = mask;
            }
        }
    }

    /// Whether the contents of a slot are of this generation.
    #[inline(always)]
    fn is_current(&self, slot: u32) -> bool {
        slot ^ self.generation < FIRST
    }

    /// Whether the line of `at` may be there: few false positives.
    #[inline(always)]
    pub(super) fn may_have<M: Memory>(&self, at: u64, own: Traced<'_, M>) -> bool {
        self.used != 0 && {
            let slot = first(at);
            own.read(BASE + slot as u64 * SLOT, SLOT);
            self.is_current(self.slots[slot])
        }
    }

    /// From now on every line may be there.
    pub(super) fn may_have_all<M: Memory>(&mut self, own: Traced<'_, M>) {
        self.slots.fill(self.generation);
        own.wrote(BASE, LINES_AT);
    }

    /// The place of the line at `line`, or the slot where it would be.
    #[inline(always)]
    pub(super) fn find<M: Memory>(&self, line: u64, own: Traced<'_, M>) -> Result<usize, usize> {
        let mut slot = first(line);
        loop {
            own.read(BASE + slot as u64 * SLOT, SLOT);
            let there = self.slots[slot];
            if !self.is_current(there) {
                return Err(slot);
            }
            let place = there as usize % ROOM;
            own.read(Self::entry_at(place), 8);
            if self.lines[place].line == line {
                return Ok(place);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Adds the line at `line`, for which [`find`](Self::find) gave `slot`, if there is room; returns its place.
    #[inline(always)]
    pub(super) fn add<M: Memory>(
        &mut self,
        slot: usize,
        line: u64,
        own: Traced<'_, M>,
    ) -> Option<usize> {
        let place = self.used;
        if place >= ROOM {
            return None;
        }
        self.used = place + 1;
        self.slots[slot % SLOTS] = self.generation | place as u32;
        let entry = &mut self.lines[place % ROOM];
        (entry.line, entry.mask) = (line, 0);
        own.wrote(BASE + slot as u64 * SLOT, SLOT);
        own.wrote(Self::entry_at(place), 8);
        Some(place)
    }

    /// The offset of a place's entry in the write set's object.
    #[inline(always)]
    pub(super) const fn entry_at(place: usize) -> u64 {
        BASE + LINES_AT + entry_at(place)
    }

    /// The entry at a place.
    #[inline(always)]
    pub(super) fn at(&mut self, place: usize) -> &mut LineWrite {
        &mut self.lines[place % ROOM]
    }

    /// Sets the generation so that it soon wraps around.
    #[cfg(test)]
    pub(super) fn near_the_last_generation(&mut self) {
        self.generation = FIRST.wrapping_neg();
    }
}

/// The slot to look at first for the line of `at`.
#[inline(always)]
fn first(at: u64) -> usize {
    ((at / LINE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOTS.ilog2())) as usize
}
