//! The words of a short transaction, in the form of its log record: to log them is to fill in the record's header.
//!
//! An entry is a head and its words' values. A head with a mask in its low byte is of several words of a line, as in all
//! records; one without is of a single word, whose number it has. Each word is in one entry. A word is added to an entry
//! of its line if that is the last one, since the entry can grow then, and is an entry of its own otherwise: so a line
//! may have several.

use super::index::{Index, after, first};
use super::line::{LineWrite, word_in_line};
use perdura_memory::{LINE, Memory, Traced, WORD};

/// Words of a record before its first entry.
pub(crate) const HEADER_WORDS: usize = 3;
const LINE_WORDS: usize = (LINE / WORD) as usize;

/// Words of the longest record, padding to whole lines included.
const MOST: usize = 136;
/// An entry of one word can be added if there are no more words than this.
const LAST: usize = HEADER_WORDS + 2 * 63;
/// Instead of the number of words: the set keeps its words by line.
const CLOSED: usize = usize::MAX;
/// The first bit of the number of an entry's word or line.
const NUMBER: u32 = 8;
/// Numbers have fewer bits than this.
const NUMBER_BITS: u32 = 48;

/// Bytes of own memory.
pub(super) const BYTES: u64 = MOST as u64 * WORD;

/// The head of an entry of the word at `at`, a multiple of 8.
#[inline(always)]
const fn head_of(at: u64) -> u64 {
    at << (NUMBER - WORD.ilog2())
}

/// The head of an entry: the number of the line or word, and the mask, 0 for a single word.
#[inline(always)]
pub(crate) const fn number_and_mask(head: u64) -> (u64, u8) {
    ((head >> NUMBER) % (1 << NUMBER_BITS), head as u8)
}

/// The number of the line of an entry.
#[inline(always)]
const fn line_of_head(head: u64) -> u64 {
    match number_and_mask(head) {
        (word, 0) => word / LINE_WORDS as u64,
        (line, _) => line,
    }
}

/// The mask of an entry, also if it is of a single word.
#[inline(always)]
const fn mask_of_head(head: u64) -> u8 {
    match number_and_mask(head) {
        (word, 0) => 1 << (word % LINE_WORDS as u64),
        (_, mask) => mask,
    }
}

/// The words, and the header before them. Accesses are reported from offset `BASE` of the write set's object on, those
/// to the index from `INDEX` on.
pub(super) struct Short<const BASE: u64, const INDEX: u64> {
    /// Words of the record so far, or `CLOSED`.
    used: usize,
    /// Words beyond the first one of their entry.
    extra: usize,
    /// With room for padding.
    record: [u64; MOST + LINE_WORDS],
}

/// Words of an entry.
pub(crate) struct Entry<'a> {
    /// The number of its line.
    line: u64,
    mask: u8,
    values: &'a [u64],
}

impl Entry<'_> {
    /// Calls `word` with the number, in the memory, and the value of each word.
    #[inline(always)]
    fn for_each(&self, mut word: impl FnMut(u64, u64)) {
        let mut mask = self.mask;
        for value in self.values {
            word(self.line * LINE_WORDS as u64 + u64::from(mask.trailing_zeros()), *value);
            mask &= mask.wrapping_sub(1);
        }
    }
}

impl<const BASE: u64, const INDEX: u64> Short<BASE, INDEX> {
    /// No words; `open` says whether there may be some.
    pub(super) fn new(open: bool) -> Self {
        let used = if open { HEADER_WORDS } else { CLOSED };
        Short { used, extra: 0, record: [0; MOST + LINE_WORDS] }
    }

    /// Whether the words are here.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.used != CLOSED
    }

    /// Whether the words would be here, and there are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.used == HEADER_WORDS
    }

    /// Forgets everything, and is open from here on; the caller clears the index.
    #[inline(always)]
    pub(super) fn reopen(&mut self) {
        self.used = HEADER_WORDS;
        if self.extra != 0 {
            self.extra = 0;
        }
    }

    /// Has no words from here on. Returns the record's words behind the header so far, with room for more, and how many
    /// there are, if it was open.
    pub(super) fn close(&mut self) -> Option<([u64; MOST], usize)> {
        let used = std::mem::replace(&mut self.used, CLOSED);
        self.extra = 0;
        let behind = used.checked_sub(HEADER_WORDS).filter(|_| used != CLOSED)?;
        let mut words = [0; MOST];
        words[..behind].copy_from_slice(&self.record[HEADER_WORDS..used]);
        Some((words, behind))
    }

    /// The number of entries.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        (self.used - HEADER_WORDS - self.extra) / 2
    }

    /// The number of words.
    #[inline(always)]
    pub(super) fn words(&self) -> usize {
        // Entries have a word and a head each, and further words.
        (self.used - HEADER_WORDS + self.extra) / 2
    }

    /// Words of the record, padding to whole lines included.
    #[inline(always)]
    pub(super) fn record_words(&self) -> Option<usize> {
        (self.used <= MOST).then(|| self.used.next_multiple_of(LINE_WORDS))
    }

    /// Whether there is room for an entry of one word.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.used <= LAST
    }

    /// Adds an entry of one word, for which `slot` is free, if there is [room](Self::has_room).
    #[inline(always)]
    pub(super) fn add<M: Memory>(
        &mut self,
        index: &mut Index<INDEX>,
        slot: usize,
        (at, value): (u64, u64),
        own: Traced<'_, M>,
    ) {
        let place = self.used;
        if place <= LAST {
            (self.record[place], self.record[place + 1]) = (head_of(at), value);
            self.used = place + 2;
            index.set(slot, place, own);
            own.wrote(word_at::<BASE>(place), 2 * WORD);
        }
    }

    /// Sets the word at `at`, if it is here, or can be added; returns whether it was.
    pub(super) fn put<M: Memory>(
        &mut self,
        index: &mut Index<INDEX>,
        (at, value): (u64, u64),
        own: Traced<'_, M>,
    ) -> bool {
        let (line, bit) = (at / LINE, 1 << word_in_line(at));
        let mut slot = first(at);
        while let Some(place) = index.place(slot, own) {
            own.read(word_at::<BASE>(place), WORD);
            let head = self.record[place];
            if line_of_head(head) == line {
                let mask = mask_of_head(head);
                let to = place + 1 + (mask & (bit - 1)).count_ones() as usize;
                if mask & bit != 0 {
                    self.record[to] = value;
                    own.wrote(word_at::<BASE>(to), WORD);
                    return true;
                }
                let end = place + 1 + mask.count_ones() as usize;
                if end == self.used && end < MOST {
                    // Words mostly come in ascending order.
                    if to != end {
                        self.record.copy_within(to..end, to + 1);
                    }
                    self.record[to] = value;
                    self.record[place] = line << NUMBER | u64::from(mask | bit);
                    self.used += 1;
                    self.extra += 1;
                    own.wrote(word_at::<BASE>(place), (end + 1 - place) as u64 * WORD);
                    return true;
                }
            }
            slot = after(slot);
        }
        let has_room = self.has_room();
        self.add(index, slot, (at, value), own);
        has_room
    }

    /// Adds an entry of `words`, at least one, from `at` on, all in one line, if there is room and the line's first slot
    /// is free; returns whether it was added.
    #[inline]
    pub(super) fn put_run<M: Memory>(
        &mut self,
        index: &mut Index<INDEX>,
        at: u64,
        words: &[u64],
        own: Traced<'_, M>,
    ) -> bool {
        let (slot, place, count) = (first(at), self.used, words.len());
        debug_assert!((1..=LINE_WORDS - word_in_line(at)).contains(&count), "words of one line");
        if place > MOST - 1 - LINE_WORDS || !index.is_free(slot, own) {
            return false;
        }
        let mask = ((1_u64 << count) - 1) << word_in_line(at);
        self.record[place] = (at / LINE) << NUMBER | mask;
        self.record[place + 1..][..count].copy_from_slice(words);
        self.used = place + 1 + count;
        self.extra += count - 1;
        index.set(slot, place, own);
        own.wrote(word_at::<BASE>(place), (1 + count) as u64 * WORD);
        true
    }

    /// The entry at a place.
    #[inline(always)]
    fn entry(&self, place: usize) -> Entry<'_> {
        let head = self.record[place];
        let mask = mask_of_head(head);
        let count = mask.count_ones() as usize;
        let values = &self.record[place + 1..place + 1 + count];
        Entry { line: line_of_head(head), mask, values }
    }

    /// The word at `at`, if it is here.
    #[inline]
    pub(super) fn get<M: Memory>(
        &self,
        index: &Index<INDEX>,
        at: u64,
        own: Traced<'_, M>,
    ) -> Option<u64> {
        let (line, bit) = (at / LINE, 1 << word_in_line(at));
        let mut slot = first(at);
        loop {
            let place = index.place(slot, own)?;
            own.value(word_at::<BASE>(place), 2 * WORD);
            let head = self.record[place];
            if head == head_of(at) {
                return Some(self.record[place + 1]);
            }
            if line_of_head(head) == line && mask_of_head(head) & bit != 0 {
                let earlier = (mask_of_head(head) & (bit - 1)).count_ones() as usize;
                return Some(self.record[place + 1 + earlier]);
            }
            slot = after(slot);
        }
    }

    /// The words of the line at `line`, if there are any.
    pub(super) fn line<M: Memory>(
        &self,
        index: &Index<INDEX>,
        line: u64,
        own: Traced<'_, M>,
    ) -> Option<LineWrite> {
        let mut found = LineWrite { line, mask: 0, words: [0; 8] };
        let mut slot = first(line);
        while let Some(place) = index.place(slot, own) {
            own.value(word_at::<BASE>(place), 2 * WORD);
            let entry = self.entry(place);
            if entry.line == line / LINE {
                found.mask |= entry.mask;
                entry.for_each(|word, value| found.words[word as usize % LINE_WORDS] = value);
            }
            slot = after(slot);
        }
        (found.mask != 0).then_some(found)
    }

    /// The number, in the memory, and the value of each word, in the order in which they came.
    #[inline(always)]
    pub(super) fn iter<M: Memory>(&self, own: Traced<'_, M>) -> ShortWords<'_> {
        let used = self.used.min(MOST);
        own.read(word_at::<BASE>(HEADER_WORDS), (used - HEADER_WORDS) as u64 * WORD);
        ShortWords::new(&self.record[HEADER_WORDS..used])
    }

    /// Pads the record with zeros to whole lines. Returns it as a whole, and how many of its words are in use; the caller
    /// fills in its header.
    #[inline(always)]
    pub(super) fn pad<M: Memory>(&mut self, own: Traced<'_, M>) -> (&mut [u64], usize) {
        let used = self.used.min(MOST);
        let whole = used.next_multiple_of(LINE_WORDS);
        // No more than the padding, by a store for each power of two that it has: a loop would become a call.
        let mut end = used;
        if end & 1 != 0 {
            self.record[end] = 0;
            end += 1;
        }
        if end & 2 != 0 {
            *self.record[end..].first_chunk_mut().expect("room for a line") = [0; 2];
            end += 2;
        }
        if end & 4 != 0 {
            *self.record[end..].first_chunk_mut().expect("room for a line") = [0; 4];
        }
        own.wrote(BASE, HEADER_WORDS as u64 * WORD);
        own.read(BASE, whole as u64 * WORD);
        (&mut self.record[..whole], used)
    }
}

/// The words of a record, each with its number in the memory.
pub struct ShortWords<'a> {
    rest: std::slice::Iter<'a, u64>,
    /// Of an entry of several words: its line's first word, and a mask of those that are still to come.
    first: u64,
    mask: u8,
}

impl<'a> ShortWords<'a> {
    /// The words of a record's entries.
    #[inline(always)]
    pub(super) fn new(entries: &'a [u64]) -> Self {
        ShortWords { rest: entries.iter(), first: 0, mask: 0 }
    }
}

impl Iterator for ShortWords<'_> {
    type Item = (u64, u64);

    #[inline(always)]
    fn next(&mut self) -> Option<(u64, u64)> {
        let mut next = *self.rest.next()?;
        if self.mask == 0 {
            self.mask = next as u8;
            if self.mask == 0 {
                return Some((next >> NUMBER, *self.rest.next()?));
            }
            self.first = (next >> NUMBER) * LINE_WORDS as u64;
            next = *self.rest.next()?;
        }
        let number = self.first + u64::from(self.mask.trailing_zeros());
        self.mask &= self.mask - 1;
        Some((number, next))
    }

    /// Entry by entry: whether words are left of one is not asked for each word.
    #[inline(always)]
    fn fold<B, F: FnMut(B, (u64, u64)) -> B>(mut self, init: B, mut add: F) -> B {
        let mut sum = init;
        while self.mask != 0 {
            let Some(word) = self.next() else { return sum };
            sum = add(sum, word);
        }
        let mut rest = self.rest.as_slice();
        while let [head, value, more @ ..] = rest {
            let (mut mask, number) = (*head as u8, head >> NUMBER);
            rest = more;
            if mask == 0 {
                sum = add(sum, (number, *value));
                continue;
            }
            let (first, mut value) = (number * LINE_WORDS as u64, *value);
            loop {
                sum = add(sum, (first + u64::from(mask.trailing_zeros()), value));
                mask &= mask - 1;
                match rest {
                    [next, more @ ..] if mask != 0 => (value, rest) = (*next, more),
                    _ => break,
                }
            }
        }
        sum
    }
}

/// The offset of a word of the record in the write set's object.
#[inline(always)]
const fn word_at<const BASE: u64>(place: usize) -> u64 {
    BASE + place as u64 * WORD
}
