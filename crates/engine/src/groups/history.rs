//! History management (Archapt III-B): which lines wait for their write-back, and which of them
//! have waited longest.
//!
//! The paper's LRU queue, in two generations instead of one place for each line: a line that is
//! stored to joins the young generation; at a [turn](History::turn) the young generation becomes
//! the old one, of which every line has to leave before the next turn. An old line that is
//! written again moves to the young ones, without a write-back, if the new words cover all that
//! it waits with: a later log record has them all. So a line leaves between one and two
//! generations after its last whole write, many lines leave in the order of their addresses, and a
//! note costs a byte and a bit where a queue and its hash table cost two cache misses.
//!
//! Only the writer works on it, with what a whole group of transactions has written: the local
//! buffers and the bulk update of the paper's section IV.
//!
//! What always holds: a line is in one generation exactly when it has been stored to in place and
//! has not left since; then its mask is not 0. With records of new words, every word that an old
//! line waits with is in a record of the old generation or of the young one, every word of a young
//! line in a record of the young one, and a line that has left has no mask. With records of old
//! words a line that leaves while these stay keeps its mask until [they go](History::log_is_cut):
//! what the log has of a word need not be written there twice.

use perdura_memory::LINE;

/// The lines that wait.
pub(super) struct History {
    /// Of each line of the memory, the words stored since it began to wait, or since the log was
    /// cut.
    masks: Vec<u8>,
    old: Lines,
    young: Lines,
    /// Lines that have left since the log was cut, if they keep their masks.
    left: Lines,
    /// Old lines that were stored to since they became old.
    again: Vec<u64>,
    /// A line stays old while a word that it waits with is in an old record alone.
    by_records: bool,
    /// Lines that may wait.
    capacity: usize,
}

/// A line of the old generation that leaves.
pub(crate) struct Leaving {
    pub(crate) line: u64,
    /// The words that it waits with.
    pub(crate) mask: u8,
    /// It was stored to since it became old.
    pub(crate) recent: bool,
}

impl History {
    /// A history of at most `capacity` lines of a memory of `len` bytes. Memory: a byte and four
    /// bits for each line of the memory, resident where lines were stored to. With `by_records`,
    /// the records of the old generation go when its lines have left.
    pub(crate) fn new(len: u64, capacity: usize, by_records: bool) -> Self {
        let lines = (len / LINE) as usize;
        History {
            masks: vec![0; lines],
            old: Lines::new(lines),
            young: Lines::new(lines),
            left: Lines::new(lines),
            again: vec![0; lines.div_ceil(64)],
            by_records,
            capacity: capacity.max(1),
        }
    }

    /// Changes how many lines may wait.
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    /// Lines that may wait.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether more lines wait than may.
    pub(crate) fn is_full(&self) -> bool {
        self.excess_with(0) > 0
    }

    /// Whether no line waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.old.count + self.young.count == 0
    }

    /// How many of these lines do not wait yet.
    pub(crate) fn joining(&self, lines: impl Iterator<Item = u64>) -> usize {
        lines.filter(|line| self.stored(*line) == 0).count()
    }

    /// By how many lines more would wait than may, if so many joined them.
    pub(crate) fn excess_with(&self, joining: usize) -> usize {
        (self.old.count + self.young.count + joining).saturating_sub(self.capacity)
    }

    /// Whether the young generation alone has as many lines as may wait: who has not been written
    /// to for that long is taken to have left the caches.
    pub(crate) fn has_passed(&self) -> bool {
        self.young.count >= self.capacity
    }

    /// Lines of the old generation that have not left.
    pub(crate) fn old_lines(&self) -> usize {
        self.old.count
    }

    /// The words of a line that were stored since it began to wait; with records of old words, since
    /// the log was cut.
    #[inline]
    pub(crate) fn stored(&self, line: u64) -> u8 {
        self.masks.get((line / LINE) as usize).copied().unwrap_or(0)
    }

    /// Notes that the words in `mask` have been stored. Whether the line was waiting already:
    /// one write-back will serve both.
    ///
    /// # Panics
    /// For a line beyond the memory.
    #[inline]
    pub(crate) fn note(&mut self, line: u64, mask: u8) -> bool {
        let index = (line / LINE) as usize;
        let before = self.masks[index];
        self.masks[index] = before | mask;
        if before == 0 || self.left.count > 0 && self.left.remove(index) {
            self.young.add(index);
            return false;
        }
        let all_again = before & !mask == 0;
        if (all_again || !self.by_records) && self.old.remove(index) {
            if self.by_records {
                self.masks[index] = mask;
                self.again[index / 64] &= !(1 << (index % 64));
            }
            self.young.add(index);
        } else if self.by_records && self.old.has(index) {
            self.again[index / 64] |= 1 << (index % 64);
        }
        true
    }

    /// Takes a line of the old generation, and the words that it waits with: where there are many
    /// lines, the next one in the order of addresses.
    pub(crate) fn leave(&mut self) -> Option<(u64, u8)> {
        let index = self.old.take_next()?;
        self.again[index / 64] &= !(1 << (index % 64));
        Some((index as u64 * LINE, std::mem::take(&mut self.masks[index])))
    }

    /// As [`leave`](Self::leave), where records of old words stay; and whether the line was stored to
    /// since it became old.
    pub(crate) fn leave_before_records(&mut self) -> Option<Leaving> {
        let index = self.old.take_next()?;
        let (again, bit) = (&mut self.again[index / 64], 1 << (index % 64));
        let recent = *again & bit != 0;
        *again &= !bit;
        let mask = self.masks[index];
        if self.by_records {
            self.masks[index] = 0;
        } else {
            self.left.add(index);
        }
        Some(Leaving { line: index as u64 * LINE, mask, recent })
    }

    /// A line that has left waits as before, with the old ones.
    pub(crate) fn keep(&mut self, leaving: &Leaving) {
        let index = (leaving.line / LINE) as usize;
        self.masks[index] = leaving.mask;
        self.old.add(index);
    }

    /// The log has nothing any more of the lines that have left.
    pub(crate) fn log_is_cut(&mut self) {
        self.left.start_over();
        while let Some(index) = self.left.take_next() {
            self.masks[index] = 0;
        }
    }

    /// The young generation becomes the old one.
    ///
    /// # Panics
    /// If the old generation has not left.
    pub(crate) fn turn(&mut self) {
        assert_eq!(self.old.count, 0, "the old generation has left");
        std::mem::swap(&mut self.old, &mut self.young);
        self.old.start_over();
    }
}

/// Lines that a set lists besides having their bits.
const LISTED: usize = 1024;

/// A set of lines, as bits; while there are few, also as a list, so that taking them all out does
/// not cost a look at the whole memory. Many are found by bits for 64 lines each.
struct Lines {
    bits: Vec<u64>,
    /// Of each word of `bits`, whether it may have any.
    words: Vec<u64>,
    count: usize,
    /// All lines, if there were never more than `LISTED`; some may have been removed since.
    list: Vec<usize>,
    listed: bool,
    /// Words of `words` before this one are empty, unless lines were added since it was 0.
    next: usize,
}

impl Lines {
    fn new(lines: usize) -> Self {
        let (bits, words) = (vec![0; lines.div_ceil(64)], vec![0; lines.div_ceil(64 * 64)]);
        Lines { bits, words, count: 0, list: Vec::new(), listed: true, next: 0 }
    }

    /// Adds a line that is not there.
    #[inline]
    fn add(&mut self, index: usize) {
        let word = index / 64;
        self.bits[word] |= 1 << (index % 64);
        self.words[word / 64] |= 1 << (word % 64);
        self.count += 1;
        if self.listed {
            self.listed = self.list.len() < LISTED;
            self.list.push(index);
        }
    }

    #[inline]
    fn has(&self, index: usize) -> bool {
        self.bits[index / 64] & 1 << (index % 64) != 0
    }

    /// Takes a line out. Whether it was there.
    #[inline]
    fn remove(&mut self, index: usize) -> bool {
        let (word, bit) = (&mut self.bits[index / 64], 1 << (index % 64));
        // A branch: `count -= usize::from(there)` lost the subtraction in optimised builds (rustc 1.95).
        if *word & bit == 0 {
            return false;
        }
        *word ^= bit;
        self.count -= 1;
        if self.count == 0 {
            self.list.clear();
            self.listed = true;
        }
        true
    }

    /// Takes out a line, from the list or the first one from `next` on; lines are not added
    /// meanwhile.
    fn take_next(&mut self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let index = if self.listed { self.take_listed() } else { self.first() };
        self.remove(index);
        Some(index)
    }

    /// To be called before lines are taken out, where some have been added.
    fn start_over(&mut self) {
        self.next = 0;
    }

    fn take_listed(&mut self) -> usize {
        loop {
            let index = self.list.pop().expect("a set that is listed and not empty");
            if self.bits[index / 64] & 1 << (index % 64) != 0 {
                return index;
            }
        }
    }

    fn first(&mut self) -> usize {
        loop {
            while self.words[self.next] == 0 {
                self.next += 1;
            }
            let word = self.next * 64 + self.words[self.next].trailing_zeros() as usize;
            if self.bits[word] != 0 {
                return word * 64 + self.bits[word].trailing_zeros() as usize;
            }
            self.words[self.next] &= self.words[self.next] - 1;
        }
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
