//! History management (Archapt III-B): which lines wait for their write-back, and which have waited longest.
//!
//! The paper's LRU queue, with two generations instead of a position for each line: a line that is stored to joins the
//! young generation; at a [turn](History::turn) the young generation becomes the old one, whose lines all have to leave
//! before the next turn. An old line that is written again moves to the young ones, without a write-back, if the new
//! words include all words that it waits with: a later log record has them all. So a line leaves between one and two
//! generations after its last complete write, many lines leave in address order, and recording a store costs a byte and
//! a bit where a queue and its hash table would cost two cache misses.
//!
//! Only the writer uses it, with the stores of a whole group of transactions: the local buffers and the bulk update of
//! the paper's section IV.
//!
//! What always holds: a line is in one generation exactly when it has been stored to in place and has not left since;
//! then its mask is not 0. With records of new words, every word that an old line waits with is in a record of the old
//! generation or of the young one, every word of a young line in a record of the young one, and a line that has left
//! has no mask. With records of old words a line that leaves while these stay keeps its mask until [they are
//! freed](History::log_is_cut): words in the log need not be logged twice.
//!
//! It is ordinary memory: accesses are reported to the memory of the pool, for simulators ([`Traced`]).

use perdura_memory::{LINE, Memory, Object, Traced, WORD};

/// The waiting lines.
pub(super) struct History {
    /// For each line of the memory, the words stored since it began to wait, or since the log was truncated.
    masks: Vec<u8>,
    masks_own: Object,
    old: Lines,
    young: Lines,
    /// Lines that have left since the log was truncated, if they keep their masks.
    left: Lines,
    /// Old lines that were stored to since they became old.
    again: Vec<u64>,
    again_own: Object,
    /// A line stays old while a word that it waits with is in an old record only.
    by_records: bool,
    /// The number of lines that may wait.
    capacity: usize,
}

/// A line of the old generation on its way out.
pub(crate) struct Leaving {
    pub(crate) line: u64,
    /// The words that it waits with.
    pub(crate) mask: u8,
    /// Whether it was stored to since it became old.
    pub(crate) recent: bool,
}

impl History {
    /// A history of at most `capacity` lines of a memory of `len` bytes. Memory: a byte and four bits for each line of
    /// the memory, resident only where lines were stored to. With `by_records`, the records of the old generation are
    /// freed when its lines have left.
    pub(crate) fn new<M: Memory>(memory: &M, len: u64, capacity: usize, by_records: bool) -> Self {
        let lines = (len / LINE) as usize;
        History {
            masks: vec![0; lines],
            masks_own: memory.object(lines as u64),
            old: Lines::new(memory, lines),
            young: Lines::new(memory, lines),
            left: Lines::new(memory, lines),
            again: vec![0; lines.div_ceil(64)],
            again_own: memory.object(lines.div_ceil(64) as u64 * WORD),
            by_records,
            capacity: capacity.max(1),
        }
    }

    /// Changes how many lines may wait.
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    /// How many lines may wait.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the queue is over capacity.
    pub(crate) fn is_full(&self) -> bool {
        self.excess_with(0) > 0
    }

    /// Whether no line waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.old.count + self.young.count == 0
    }

    /// How many of these lines do not wait yet.
    pub(crate) fn joining<M: Memory>(&self, memory: &M, lines: impl Iterator<Item = u64>) -> usize {
        lines.filter(|line| self.stored(memory, *line) == 0).count()
    }

    /// How far over capacity the queue would be with `joining` more lines.
    pub(crate) fn excess_with(&self, joining: usize) -> usize {
        (self.old.count + self.young.count + joining).saturating_sub(self.capacity)
    }

    /// Whether the young generation alone is as large as the queue's capacity: a line that has not been written to for
    /// that long is assumed to have left the caches.
    pub(crate) fn has_passed(&self) -> bool {
        self.young.count >= self.capacity
    }

    /// How many lines of the old generation have not left.
    pub(crate) fn old_lines(&self) -> usize {
        self.old.count
    }

    /// The words of a line that were stored since it began to wait; with records of old words, since the log was
    /// truncated.
    #[inline]
    pub(crate) fn stored<M: Memory>(&self, memory: &M, line: u64) -> u8 {
        self.masks_in(memory).read(line / LINE, 1);
        self.masks.get((line / LINE) as usize).copied().unwrap_or(0)
    }

    /// Records that the words in `mask` have been stored. Returns whether the line was waiting already: one write-back
    /// will serve both.
    ///
    /// # Panics
    /// For a line beyond the memory.
    #[inline]
    pub(crate) fn note<M: Memory>(&mut self, memory: &M, line: u64, mask: u8) -> bool {
        let index = (line / LINE) as usize;
        self.masks_in(memory).read(index as u64, 1);
        let before = self.masks[index];
        self.masks[index] = before | mask;
        self.masks_in(memory).wrote(index as u64, 1);
        if before == 0 || self.left.count > 0 && self.left.remove(memory, index) {
            self.young.add(memory, index);
            return false;
        }
        let all_again = before & !mask == 0;
        if (all_again || !self.by_records) && self.old.remove(memory, index) {
            if self.by_records {
                self.masks[index] = mask;
                self.set_again(memory, index, false);
            }
            self.young.add(memory, index);
        } else if self.by_records && self.old.has(memory, index) {
            self.set_again(memory, index, true);
        }
        true
    }

    /// Takes a line out of the old generation, with the words that it waits with: if there are many lines, the next one
    /// in address order.
    pub(crate) fn leave<M: Memory>(&mut self, memory: &M) -> Option<(u64, u8)> {
        let index = self.old.take_next(memory)?;
        self.set_again(memory, index, false);
        self.masks_in(memory).wrote(index as u64, 1);
        Some((index as u64 * LINE, std::mem::take(&mut self.masks[index])))
    }

    /// As [`leave`](Self::leave), for when records of old words stay; also tells whether the line was stored to since
    /// it became old.
    pub(crate) fn leave_before_records<M: Memory>(&mut self, memory: &M) -> Option<Leaving> {
        let index = self.old.take_next(memory)?;
        let recent = self.set_again(memory, index, false);
        self.masks_in(memory).read(index as u64, 1);
        let mask = self.masks[index];
        if self.by_records {
            self.masks[index] = 0;
            self.masks_in(memory).wrote(index as u64, 1);
        } else {
            self.left.add(memory, index);
        }
        Some(Leaving { line: index as u64 * LINE, mask, recent })
    }

    /// Puts a line that has left back among the old ones.
    pub(crate) fn keep<M: Memory>(&mut self, memory: &M, leaving: &Leaving) {
        let index = (leaving.line / LINE) as usize;
        self.masks[index] = leaving.mask;
        self.masks_in(memory).wrote(index as u64, 1);
        self.old.add(memory, index);
    }

    /// The log has no records any more of the lines that have left.
    pub(crate) fn log_is_cut<M: Memory>(&mut self, memory: &M) {
        self.left.start_over();
        while let Some(index) = self.left.take_next(memory) {
            self.masks[index] = 0;
            self.masks_in(memory).wrote(index as u64, 1);
        }
    }

    #[inline(always)]
    fn masks_in<'m, M: Memory>(&self, memory: &'m M) -> Traced<'m, M> {
        Traced::new(memory, self.masks_own)
    }

    /// Sets whether a line was stored to since it became old; returns the previous value.
    #[inline]
    fn set_again<M: Memory>(&mut self, memory: &M, index: usize, to: bool) -> bool {
        let own = Traced::new(memory, self.again_own);
        let (again, bit) = (&mut self.again[index / 64], 1 << (index % 64));
        own.read((index / 64) as u64 * WORD, WORD);
        let was = *again & bit != 0;
        *again = if to { *again | bit } else { *again & !bit };
        own.wrote((index / 64) as u64 * WORD, WORD);
        was
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

/// The most lines that a set lists in addition to their bits.
const LISTED: usize = 1024;

/// A set of lines, as bits; while there are few, also as a list, so that removing them all does not scan the whole
/// memory. Many are found by bits that stand for 64 lines each.
struct Lines {
    bits: Vec<u64>,
    /// For each word of `bits`, whether it may have any.
    words: Vec<u64>,
    bits_own: Object,
    words_own: Object,
    list_own: Object,
    count: usize,
    /// All lines, if there were never more than `LISTED`; some may have been removed since.
    list: Vec<usize>,
    listed: bool,
    /// Words of `words` before this one are empty, unless lines were added since it was 0.
    next: usize,
}

impl Lines {
    fn new<M: Memory>(memory: &M, lines: usize) -> Self {
        let (bits, words) = (vec![0; lines.div_ceil(64)], vec![0; lines.div_ceil(64 * 64)]);
        Lines {
            bits_own: memory.object(bits.len() as u64 * WORD),
            words_own: memory.object(words.len() as u64 * WORD),
            list_own: memory.object(LISTED as u64 * WORD),
            bits,
            words,
            count: 0,
            list: Vec::new(),
            listed: true,
            next: 0,
        }
    }

    #[inline(always)]
    fn bits_in<'m, M: Memory>(&self, memory: &'m M) -> Traced<'m, M> {
        Traced::new(memory, self.bits_own)
    }

    /// Adds a line, which must not be in the set.
    #[inline]
    fn add<M: Memory>(&mut self, memory: &M, index: usize) {
        let (word, own) = (index / 64, self.bits_in(memory));
        own.read(word as u64 * WORD, WORD);
        self.bits[word] |= 1 << (index % 64);
        own.wrote(word as u64 * WORD, WORD);
        self.words[word / 64] |= 1 << (word % 64);
        Traced::new(memory, self.words_own).wrote((word / 64) as u64 * WORD, WORD);
        self.count += 1;
        if self.listed {
            self.listed = self.list.len() < LISTED;
            Traced::new(memory, self.list_own).wrote(self.list.len() as u64 * WORD, WORD);
            self.list.push(index);
        }
    }

    #[inline]
    fn has<M: Memory>(&self, memory: &M, index: usize) -> bool {
        self.bits_in(memory).read((index / 64) as u64 * WORD, WORD);
        self.bits[index / 64] & 1 << (index % 64) != 0
    }

    /// Removes a line; returns whether it was in the set.
    #[inline]
    fn remove<M: Memory>(&mut self, memory: &M, index: usize) -> bool {
        let own = self.bits_in(memory);
        own.read((index / 64) as u64 * WORD, WORD);
        let (word, bit) = (&mut self.bits[index / 64], 1 << (index % 64));
        // A branch: `count -= usize::from(there)` lost the subtraction in optimised builds (rustc 1.95).
        if *word & bit == 0 {
            return false;
        }
        *word ^= bit;
        own.wrote((index / 64) as u64 * WORD, WORD);
        self.count -= 1;
        if self.count == 0 {
            self.list.clear();
            self.listed = true;
        }
        true
    }

    /// Removes a line, from the list or the first one from `next` on; no lines are added meanwhile.
    fn take_next<M: Memory>(&mut self, memory: &M) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let index = if self.listed { self.take_listed(memory) } else { self.first(memory) };
        self.remove(memory, index);
        Some(index)
    }

    /// To be called before lines are removed, if some have been added.
    fn start_over(&mut self) {
        self.next = 0;
    }

    fn take_listed<M: Memory>(&mut self, memory: &M) -> usize {
        loop {
            Traced::new(memory, self.list_own)
                .read(self.list.len().saturating_sub(1) as u64 * WORD, WORD);
            let index = self.list.pop().expect("a set that is listed and not empty");
            if self.bits[index / 64] & 1 << (index % 64) != 0 {
                return index;
            }
        }
    }

    fn first<M: Memory>(&mut self, memory: &M) -> usize {
        let words = Traced::new(memory, self.words_own);
        loop {
            words.read(self.next as u64 * WORD, WORD);
            while self.words[self.next] == 0 {
                self.next += 1;
                words.read(self.next as u64 * WORD, WORD);
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
