//! Many lines, in a table that grows with them. Each slot carries a generation, so that clearing does
//! not touch the table.

use super::line::{LineWrite, hash};

/// After a transaction of more lines than this, or more journalled words, memory is given back.
pub(super) const KEPT: usize = 1 << 16;
/// At least this many slots for each line.
const SPARSE: usize = 4;

/// The lines. A slot holds a generation in its upper half, and a place in its lower one.
pub(super) struct Many {
    lines: Vec<LineWrite>,
    /// A power of two of them, or none.
    slots: Vec<u64>,
    /// What a slot that is taken has in its upper half.
    generation: u64,
}

impl Default for Many {
    fn default() -> Self {
        Many { lines: Vec::new(), slots: Vec::new(), generation: 1 << 32 }
    }
}

impl Many {
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

    /// What is at a place.
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

    /// No slot is taken from here on.
    fn begin(&mut self) {
        self.generation = self.generation.wrapping_add(1 << 32);
        if self.generation == 0 {
            self.slots.fill(0);
            self.generation = 1 << 32;
        }
    }

    /// Takes these, that are all different, where there are none.
    pub(super) fn take(&mut self, lines: &[LineWrite]) {
        self.lines.extend_from_slice(lines);
        self.fill();
    }

    /// Adds a line that is not looked up.
    #[inline]
    pub(super) fn push(&mut self, entry: &LineWrite) {
        self.lines.push(*entry);
    }

    /// The place of the line at `line`, if it is there.
    pub(super) fn find(&self, line: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.first(line);
        loop {
            let place = self.place(slot)?;
            if self.lines[place].line == line {
                return Some(place);
            }
            slot = self.after(slot);
        }
    }

    /// Adds a line that is not there: its place.
    pub(super) fn add(&mut self, line: u64) -> usize {
        let place = self.lines.len();
        self.lines.push(LineWrite { line, mask: 0, words: [0; 8] });
        if self.lines.len() * SPARSE > self.slots.len() {
            self.fill();
        } else {
            self.enter(line, place);
        }
        place
    }

    /// Enters all lines into the table, a larger one if they need it.
    fn fill(&mut self) {
        self.begin();
        if self.lines.len() * SPARSE > self.slots.len() {
            let slots = (self.lines.len() * SPARSE * 4).next_power_of_two();
            self.slots = vec![0; slots];
        }
        for place in 0..self.lines.len() {
            self.enter(self.lines[place].line, place);
        }
    }

    #[inline]
    fn enter(&mut self, line: u64, place: usize) {
        let mut slot = self.first(line);
        while self.place(slot).is_some() {
            slot = self.after(slot);
        }
        self.slots[slot] = self.generation | place as u64;
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

    /// What a slot holds, if it is taken.
    #[inline]
    fn place(&self, slot: usize) -> Option<usize> {
        let place = self.slots[slot] ^ self.generation;
        // What another generation has left has something in the upper half.
        (place >> 32 == 0).then_some(place as usize)
    }

    /// Whether memory is kept.
    #[cfg(test)]
    pub(super) fn has_room(&self) -> bool {
        self.lines.capacity() + self.slots.capacity() > 0
    }

    /// The generations soon begin anew.
    #[cfg(test)]
    pub(super) fn near_the_last_generation(&mut self) {
        self.generation = u64::from(u32::MAX) << 32;
    }
}
