//! Many lines, in a table that grows with them. Each slot carries a generation, so that clearing does not touch the
//! table.

use super::line::{LineWrite, entry_at, hash};
use perdura_memory::{Memory, Traced};

/// After a transaction of more lines than this, or more journalled words, memory is freed.
pub(super) const KEPT: usize = 1 << 16;
/// At least this many slots for each line.
const SPARSE: usize = 4;

/// Bytes of own memory, lines and then slots; offsets beyond wrap around.
pub(super) const BYTES: u64 = SLOTS_AT + SLOT * (KEPT * SPARSE * SPARSE) as u64;
const SLOT: u64 = size_of::<u64>() as u64;
const SLOTS_AT: u64 = entry_at(KEPT);

/// The lines. Accesses are reported from offset `BASE` of the write set's object on. A slot holds a generation in its
/// upper half, and a place in its lower one.
pub(super) struct Many<const BASE: u64> {
    lines: Vec<LineWrite>,
    /// A power of two of them, or none.
    slots: Vec<u64>,
    /// The upper half of a used slot.
    generation: u64,
}

impl<const BASE: u64> Default for Many<BASE> {
    fn default() -> Self {
        Many { lines: Vec::new(), slots: Vec::new(), generation: 1 << 32 }
    }
}

impl<const BASE: u64> Many<BASE> {
    /// Whether there are any.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        !self.lines.is_empty()
    }

    /// The lines, in the order in which they were added.
    #[inline]
    pub(super) fn lines(&self) -> &[LineWrite] {
        &self.lines
    }

    /// The entry at a place.
    #[inline]
    pub(super) fn at(&mut self, place: usize) -> &mut LineWrite {
        &mut self.lines[place]
    }

    /// Forgets everything.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.is_used() {
            self.forget();
        }
    }

    fn forget(&mut self) {
        if self.lines.len() > KEPT {
            *self = Many::default();
            return;
        }
        self.lines.clear();
        self.begin();
    }

    /// Makes all slots free.
    fn begin(&mut self) {
        self.generation = self.generation.wrapping_add(1 << 32);
        if self.generation == 0 {
            self.slots.fill(0);
            self.generation = 1 << 32;
        }
    }

    /// Takes these lines, all different, into an empty table.
    pub(super) fn take<M: Memory>(&mut self, lines: &[LineWrite], own: Traced<'_, M>) {
        self.lines.extend_from_slice(lines);
        own.wrote(BASE, entry_at(lines.len()));
        self.fill(own);
    }

    /// Keeps only the first `lines` lines, at least one.
    #[cold]
    pub(super) fn truncate<M: Memory>(&mut self, lines: usize, own: Traced<'_, M>) {
        let many = self.lines.len() > KEPT;
        self.lines.truncate(lines);
        if many {
            self.lines.shrink_to(KEPT);
            self.slots = Vec::new();
        }
        self.fill(own);
    }

    /// Adds a line that will not be looked up.
    #[inline]
    pub(super) fn push<M: Memory>(&mut self, entry: &LineWrite, own: Traced<'_, M>) {
        self.lines.push(*entry);
        own.wrote(Self::entry_at(self.lines.len() - 1), entry_at(1));
    }

    /// The place of the line at `line`, if it is there.
    pub(super) fn find<M: Memory>(&self, line: u64, own: Traced<'_, M>) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.first(line);
        loop {
            own.read(Self::slot_at(slot), SLOT);
            let place = self.place(slot)?;
            own.read(Self::entry_at(place), 8);
            if self.lines[place].line == line {
                return Some(place);
            }
            slot = self.after(slot);
        }
    }

    /// Adds a line that is not there; returns its place.
    pub(super) fn add<M: Memory>(&mut self, line: u64, own: Traced<'_, M>) -> usize {
        let place = self.lines.len();
        self.push(&LineWrite { line, mask: 0, words: [0; 8] }, own);
        if self.lines.len() * SPARSE > self.slots.len() {
            self.fill(own);
        } else {
            self.enter(line, place, own);
        }
        place
    }

    /// Enters all lines into the table, enlarging it if necessary.
    fn fill<M: Memory>(&mut self, own: Traced<'_, M>) {
        self.begin();
        if self.lines.len() * SPARSE > self.slots.len() {
            let slots = (self.lines.len() * SPARSE * 4).next_power_of_two();
            self.slots = vec![0; slots];
            own.wrote(BASE + SLOTS_AT, slots as u64 * SLOT);
        }
        for place in 0..self.lines.len() {
            own.read(Self::entry_at(place), 8);
            self.enter(self.lines[place].line, place, own);
        }
    }

    #[inline]
    fn enter<M: Memory>(&mut self, line: u64, place: usize, own: Traced<'_, M>) {
        let mut slot = self.first(line);
        own.read(Self::slot_at(slot), SLOT);
        while self.place(slot).is_some() {
            slot = self.after(slot);
            own.read(Self::slot_at(slot), SLOT);
        }
        self.slots[slot] = self.generation | place as u64;
        own.wrote(Self::slot_at(slot), SLOT);
    }

    /// The offset of a place's entry in the write set's object.
    #[inline(always)]
    pub(super) const fn entry_at(place: usize) -> u64 {
        BASE + entry_at(place % KEPT)
    }

    #[inline(always)]
    const fn slot_at(slot: usize) -> u64 {
        BASE + SLOTS_AT + slot as u64 * SLOT
    }

    /// The slot to look at first.
    #[inline]
    fn first(&self, line: u64) -> usize {
        hash(line) as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// The place that a slot holds, if it is used.
    #[inline]
    fn place(&self, slot: usize) -> Option<usize> {
        let place = self.slots[slot] ^ self.generation;
        // A slot of another generation has a nonzero upper half.
        (place >> 32 == 0).then_some(place as usize)
    }

    /// How many lines fit in the memory held.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.lines.capacity()
    }

    /// Whether memory is kept.
    #[cfg(test)]
    pub(super) fn has_room(&self) -> bool {
        self.lines.capacity() + self.slots.capacity() > 0
    }

    /// Sets the generation so that it soon wraps around.
    #[cfg(test)]
    pub(super) fn near_the_last_generation(&mut self) {
        self.generation = u64::from(u32::MAX) << 32;
    }
}
