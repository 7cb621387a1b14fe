//! Where a line's words are: a table of slots that finds them by the line.
//!
//! Nearly every access looks a line up, and most of these lines are not there. The table is sparse, so that a line's
//! first slot nearly always says so, and one KiB, so that it stays in the first-level cache. Each slot carries a
//! generation: clearing costs nothing. Places and slots are masked, and so never out of bounds.

use perdura_memory::{LINE, Memory, Traced};

const SLOTS: usize = 512;
/// Places are less than this.
const PLACES: u16 = 1 << 8;

/// Bytes of own memory.
pub(super) const BYTES: u64 = SLOTS as u64 * SLOT;
const SLOT: u64 = size_of::<u16>() as u64;

/// The table. Accesses are reported from offset `BASE` of the write set's object on.
pub(super) struct Index<const BASE: u64> {
    /// The generation, a multiple of `PLACES`: slots with a place have it added to their generation, so that those of
    /// this one, the latest, are the largest.
    generation: u16,
    slots: [u16; SLOTS],
}

impl<const BASE: u64> Default for Index<BASE> {
    fn default() -> Self {
        Index { generation: PLACES, slots: [0; SLOTS] }
    }
}

impl<const BASE: u64> Index<BASE> {
    /// Forgets everything.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(PLACES);
        if self.generation == 0 {
            self.begin_anew();
        }
    }

    #[cold]
    fn begin_anew(&mut self) {
        self.slots.fill(0);
        self.generation = PLACES;
    }

    /// Whether the line of `at` may be there: few false positives.
    #[inline(always)]
    pub(super) fn may_have<M: Memory>(&self, at: u64, own: Traced<'_, M>) -> bool {
        !self.is_free(first(at), own)
    }

    /// The line at `line` may be there from here on.
    #[inline]
    pub(super) fn note<M: Memory>(&mut self, line: u64, own: Traced<'_, M>) {
        self.set(first(line), 0, own);
    }

    /// The place in a slot, if there is one.
    #[inline(always)]
    pub(super) fn place<M: Memory>(&self, slot: usize, own: Traced<'_, M>) -> Option<usize> {
        own.read(BASE + slot as u64 * SLOT, SLOT);
        let there = self.slots[slot % SLOTS];
        (there >= self.generation).then_some((there % PLACES) as usize)
    }

    /// Whether a slot has no place.
    #[inline(always)]
    pub(super) fn is_free<M: Memory>(&self, slot: usize, own: Traced<'_, M>) -> bool {
        own.read(BASE + slot as u64 * SLOT, SLOT);
        self.slots[slot % SLOTS] < self.generation
    }

    /// Puts a place into a slot.
    #[inline(always)]
    pub(super) fn set<M: Memory>(&mut self, slot: usize, place: usize, own: Traced<'_, M>) {
        self.slots[slot % SLOTS] = self.generation + place as u16;
        own.wrote(BASE + slot as u64 * SLOT, SLOT);
    }

    /// Sets the generation so that it soon wraps around.
    #[cfg(test)]
    pub(super) fn near_the_last_generation(&mut self) {
        self.generation = PLACES.wrapping_neg();
    }
}

/// The slot to look at first for the line of `at`.
#[inline(always)]
pub(super) fn first(at: u64) -> usize {
    ((at / LINE) as u32).wrapping_mul(0x9E37_79B9) as usize >> (u32::BITS - SLOTS.ilog2())
}

/// The slot after one.
#[inline(always)]
pub(super) fn after(slot: usize) -> usize {
    (slot + 1) % SLOTS
}
