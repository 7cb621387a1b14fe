//! A few lines in an array of a fixed size, found by the [index](super::index).

use super::index::{Index, after, first};
use super::line::{LineWrite, NOTHING, entry_at};
use perdura_memory::{Memory, Traced};

/// The number of lines that fit.
pub(super) const ROOM: usize = 64;

/// Bytes of own memory.
pub(super) const BYTES: u64 = entry_at(ROOM);

/// The lines. Accesses are reported from offset `BASE` of the write set's object on, those to the index from `INDEX` on.
pub(super) struct Few<const BASE: u64, const INDEX: u64> {
    used: usize,
    /// Those from `used` on are left over from earlier transactions.
    lines: [LineWrite; ROOM],
}

impl<const BASE: u64, const INDEX: u64> Default for Few<BASE, INDEX> {
    fn default() -> Self {
        Few { used: 0, lines: [NOTHING; ROOM] }
    }
}

impl<const BASE: u64, const INDEX: u64> Few<BASE, INDEX> {
    /// The lines, in the order in which they were added.
    #[inline(always)]
    pub(super) fn lines(&self) -> &[LineWrite] {
        &self.lines[..self.used]
    }

    /// Forgets everything; the caller clears the index.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Keeps only the first `lines` lines.
    #[cold]
    pub(super) fn truncate<M: Memory>(
        &mut self,
        index: &mut Index<INDEX>,
        lines: usize,
        own: Traced<'_, M>,
    ) {
        let kept = lines.min(self.used);
        self.clear();
        index.clear();
        for place in 0..kept {
            let line = self.lines[place].line;
            let mask = self.lines[place].mask;
            if let Err(slot) = self.find(index, line, own)
                && let Some(place) = self.add(index, slot, line, own)
            {
                self.lines[place].mask = mask;
            }
        }
    }

    /// The place of the line at `line`, or the slot where it would be.
    #[inline(always)]
    pub(super) fn find<M: Memory>(
        &self,
        index: &Index<INDEX>,
        line: u64,
        own: Traced<'_, M>,
    ) -> Result<usize, usize> {
        let mut slot = first(line);
        loop {
            let Some(place) = index.place(slot, own) else { return Err(slot) };
            let place = place % ROOM;
            own.read(Self::entry_at(place), 8);
            if self.lines[place].line == line {
                return Ok(place);
            }
            slot = after(slot);
        }
    }

    /// Adds the line at `line`, for which [`find`](Self::find) gave `slot`, if there is room; returns its place.
    #[inline(always)]
    pub(super) fn add<M: Memory>(
        &mut self,
        index: &mut Index<INDEX>,
        slot: usize,
        line: u64,
        own: Traced<'_, M>,
    ) -> Option<usize> {
        let place = self.used;
        if place >= ROOM {
            return None;
        }
        self.used = place + 1;
        index.set(slot, place, own);
        let entry = &mut self.lines[place % ROOM];
        (entry.line, entry.mask) = (line, 0);
        own.wrote(Self::entry_at(place), 8);
        Some(place)
    }

    /// The offset of a place's entry in the write set's object.
    #[inline(always)]
    pub(super) const fn entry_at(place: usize) -> u64 {
        BASE + entry_at(place)
    }

    /// The entry at a place.
    #[inline(always)]
    pub(super) fn at(&mut self, place: usize) -> &mut LineWrite {
        &mut self.lines[place % ROOM]
    }
}
