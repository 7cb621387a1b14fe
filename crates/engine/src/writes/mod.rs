//! A transaction's buffered stores: a set of words, kept by cache line.
//!
//! Keeping it by line means that one entry serves all words of a line, in the log and when the line is written back. A
//! few lines are in arrays of a fixed size, in which nothing is checked twice; more are in a table that grows. A
//! transaction that has written nothing does no lookups.
//!
//! A [short](WriteSet::short) set keeps its words in the form of their log record, for engines that log new words: until
//! there are too many, or whole lines, or a mark. Then, and when [told to](WriteSet::to_lines), it keeps them by line as
//! others do.
//!
//! Several transactions may follow one another on one set, each [sealed](WriteSet::seal) when it commits: a later one
//! sees the words of the earlier ones, can be undone without them, and the words stored in the end are the last ones.
//! Only words of earlier transactions that it overwrites are journalled.
//!
//! It is ordinary memory: accesses are reported to the memory of the pool, for simulators ([`Traced`]).

mod few;
mod index;
mod kept;
mod line;
mod many;
pub(crate) mod overlay;
pub(crate) mod range;
mod sealed;
mod short;
#[cfg(test)]
mod tests;
mod versions;

use crate::access::{Mark, words_from};
use few::Few;
use index::{Index, first};
pub use line::{ALL, LineWrite};
use line::{entry_at, read_word, wrote_word};
pub(crate) use line::{hash, word_in_line};
use many::{KEPT, Many};
use perdura_memory::{LINE, Memory, Object, Traced, WORD, line_of};
use short::Short;
pub use short::ShortWords;
pub(crate) use short::{HEADER_WORDS, number_and_mask};
use std::convert::Infallible;
use std::ops::Range;
pub(crate) use versions::{Ended, Versions};

/// After a transaction that stored this many words by line, the next one begins by line too: more do not fit in a short
/// one.
const SHORT_AGAIN: usize = 56;

/// The value of a word before a write since a mark.
struct Previous {
    entry: u32,
    word: u8,
    present: bool,
    value: u64,
}

/// Offsets of the parts in a set's object. Offsets beyond the journal's end wrap around.
const FIELDS: u64 = 0;
const SHORT: u64 = 2 * LINE;
const INDEX: u64 = SHORT + short::BYTES;
const FEW: u64 = INDEX + index::BYTES;
const MANY: u64 = FEW + few::BYTES;
const JOURNAL: u64 = MANY + many::BYTES;
const NOTE: u64 = size_of::<Previous>() as u64;
const BYTES: u64 = JOURNAL + KEPT as u64 * NOTE;

/// The set.
pub struct WriteSet {
    own: Object,
    /// The words, as long as they are kept in the form of a record.
    short: Short<SHORT, INDEX>,
    /// Whether they are when a transaction begins.
    begins_short: bool,
    /// Finds the places of lines, in `short` or `few`, and tells which lines may be in `many`.
    index: Index<INDEX>,
    /// Whether writes are journalled, or there are many lines.
    unusual: bool,
    marked: bool,
    /// How many of the first lines transactions before the running one have written to.
    sealed: usize,
    /// Words to be stored beyond the first one of each line: so a line's first word is counted by the line.
    extra: usize,
    /// Lines without words to be stored.
    empty: usize,
    /// A lower bound of the lines that have been written to.
    lowest: u64,
    /// The lines, until there are more than it has room for.
    few: Few<FEW, INDEX>,
    /// All lines, once they do not fit there.
    many: Many<MANY>,
    journal: Vec<Previous>,
}

/// Calls `put` with the offset and value of each of the words from `at` on.
#[inline(always)]
fn put_each(at: u64, words: &[u64], mut put: impl FnMut(u64, u64)) {
    words.iter().zip(words_from(at)).for_each(|(word, at)| put(at, *word));
}

/// The words in a mask beyond the first one.
fn extra(mask: u8) -> usize {
    (mask.count_ones() as usize).saturating_sub(1)
}

impl WriteSet {
    /// An empty set, whose accesses are reported to `memory`.
    pub fn new<M: Memory>(memory: &M) -> Self {
        Self::begin_short(memory, false)
    }

    /// The same, as a short one: words may be [put](Self::put_word) one by one, and are kept in the form of a record as
    /// long as that is possible.
    pub fn short<M: Memory>(memory: &M) -> Self {
        Self::begin_short(memory, true)
    }

    fn begin_short<M: Memory>(memory: &M, begins_short: bool) -> Self {
        WriteSet {
            own: memory.object(BYTES),
            short: Short::new(begins_short),
            begins_short,
            index: Index::default(),
            unusual: false,
            marked: false,
            sealed: 0,
            extra: 0,
            empty: 0,
            lowest: u64::MAX,
            few: Few::default(),
            many: Many::default(),
            journal: Vec::new(),
        }
    }

    #[inline(always)]
    fn traced<'m, M: Memory>(&self, memory: &'m M) -> Traced<'m, M> {
        Traced::new(memory, self.own)
    }

    /// The lines, in the order of their first write.
    ///
    /// # Panics
    /// If the words are kept in the form of a record: see [`to_lines`](Self::to_lines).
    #[inline]
    pub fn entries(&self) -> &[LineWrite] {
        assert!(!self.short.is_open() || self.short.is_empty(), "the words are kept by line");
        if self.many.is_used() { self.many.lines() } else { self.few.lines() }
    }

    /// As [`entries`](Self::entries), for one pass over them, which is reported to `memory`.
    #[inline]
    pub fn read<M: Memory>(&self, memory: &M) -> &[LineWrite] {
        let entries = self.entries();
        self.traced(memory).read(self.entry_at(0), entry_at(entries.len()));
        entries
    }

    /// As [`read`](Self::read), for some of them.
    #[inline]
    pub fn read_part<M: Memory>(&self, memory: &M, part: Range<usize>) -> &[LineWrite] {
        self.traced(memory).read(self.entry_at(part.start), entry_at(part.len()));
        &self.entries()[part]
    }

    /// The offset of a place's entry in the object.
    #[inline(always)]
    fn entry_at(&self, place: usize) -> u64 {
        if self.many.is_used() {
            Many::<MANY>::entry_at(place)
        } else {
            Few::<FEW, INDEX>::entry_at(place)
        }
    }

    /// Whether nothing is to be stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        if self.short.is_open() {
            self.short.is_empty()
        } else {
            self.entries().len() == self.empty
        }
    }

    /// Words to be stored.
    #[inline]
    pub fn words(&self) -> usize {
        match self.short.is_open() {
            true => self.short.words(),
            false => self.stored_lines() + self.extra,
        }
    }

    /// The number of lines with words to be stored; an upper bound of it for words that are kept in the form of a record.
    #[inline]
    pub fn stored_lines(&self) -> usize {
        match self.short.is_open() {
            true => self.short.len(),
            false => self.entries().len() - self.empty,
        }
    }

    /// A lower bound of the offsets of lines that have been written to.
    #[inline]
    pub fn lowest(&self) -> u64 {
        debug_assert!(!self.short.is_open(), "for sets whose words are kept by line");
        self.lowest
    }

    /// Words of the record, padding to whole lines included, if the words are kept in the form of one.
    #[inline(always)]
    pub fn record_words(&self) -> Option<usize> {
        self.short.record_words()
    }

    /// Pads the record that the words are kept in the form of to whole lines. Returns it as a whole, and how many of its
    /// words are in use; the caller fills in its header.
    ///
    /// # Panics
    /// If they are kept by line.
    #[inline(always)]
    pub fn pad<M: Memory>(&mut self, memory: &M) -> (&mut [u64], usize) {
        let own = self.traced(memory);
        self.short.pad(own)
    }

    /// The number, in the memory, and the value of each word, in the order of their first writes, if the words are kept
    /// in the form of a record.
    #[inline(always)]
    pub fn record<M: Memory>(&self, memory: &M) -> Option<ShortWords<'_>> {
        self.short.is_open().then(|| self.short.iter(self.traced(memory)))
    }

    /// Calls `word` with the offset and value of each word to be stored. Words that are kept in the form of a record come
    /// in the order of their first writes; otherwise lines do, each with its words in ascending order.
    #[inline(always)]
    pub fn for_each<M: Memory>(&self, memory: &M, mut word: impl FnMut(u64, u64)) {
        let put = |at, value| {
            word(at, value);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = self.try_for_each(memory, |_| true, put);
    }

    /// As [`for_each`](Self::for_each), for lines that are `wanted`, up to the first error.
    ///
    /// # Errors
    /// That of `word`.
    #[inline(always)]
    pub fn try_for_each<M: Memory, E>(
        &self,
        memory: &M,
        wanted: impl Fn(u64) -> bool,
        mut word: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.short.is_open() {
            let mut words = self.short.iter(self.traced(memory));
            return words.try_for_each(|(number, value)| match number * WORD {
                at if wanted(line_of(at)) => word(at, value),
                _ => Ok(()),
            });
        }
        for entry in self.read(memory) {
            let mut mask = if wanted(entry.line) { entry.mask } else { 0 };
            while mask != 0 {
                let index = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                word(entry.line + index as u64 * WORD, entry.words[index])?;
            }
        }
        Ok(())
    }

    /// Keeps the words by line from here on, until the set is cleared.
    #[inline(never)]
    pub fn to_lines<M: Memory>(&mut self, memory: &M) {
        let Some((entries, used)) = self.short.close() else { return };
        if used != 0 {
            self.index.clear();
            self.traced(memory).read(SHORT + HEADER_WORDS as u64 * WORD, used as u64 * WORD);
            let words = ShortWords::new(&entries[..used]);
            words.for_each(|(number, value)| self.put(memory, number * WORD, value));
        }
    }

    /// Forgets everything.
    #[inline(always)]
    pub fn clear<M: Memory>(&mut self, memory: &M) {
        self.traced(memory).wrote(FIELDS, 8);
        self.index.clear();
        if self.short.is_open() {
            self.short.reopen();
        } else {
            self.clear_lines();
        }
    }

    #[inline(never)]
    fn clear_lines(&mut self) {
        // What a transaction did, the next one mostly does too.
        if self.begins_short && !self.unusual && self.words() < SHORT_AGAIN {
            self.short.reopen();
        }
        self.few.clear();
        self.extra = 0;
        self.lowest = u64::MAX;
        if self.unusual || self.sealed != 0 || self.many.is_used() {
            self.clear_unusual();
        }
    }

    fn clear_unusual(&mut self) {
        self.empty = 0;
        self.sealed = 0;
        self.many.clear();
        self.journal.clear();
        self.journal.shrink_to(KEPT);
        (self.unusual, self.marked) = (false, false);
    }

    /// Whether the line of `at` may have words to be stored: a quick test, with few false positives unless there are
    /// hundreds of lines.
    #[inline(always)]
    pub fn may_have<M: Memory>(&self, memory: &M, at: u64) -> bool {
        !self.short.is_empty() && self.index.may_have(at, self.traced(memory))
    }

    /// The word at `at`, if it is to be stored.
    #[inline(always)]
    pub fn get<M: Memory>(&self, memory: &M, at: u64) -> Option<u64> {
        let (own, line, word) = (self.traced(memory), line_of(at), word_in_line(at));
        if self.short.is_open() {
            return self.short.get(&self.index, at, own);
        }
        if !self.index.may_have(line, own) {
            return None;
        }
        let entry = if self.many.is_used() {
            let place = self.many.find(line, own)?;
            read_word(own, Many::<MANY>::entry_at(place), word);
            &self.many.lines()[place]
        } else {
            let place = self.few.find(&self.index, line, own).ok()?;
            read_word(own, Few::<FEW, INDEX>::entry_at(place), word);
            &self.few.lines()[place]
        };
        (entry.mask & 1 << word != 0).then(|| entry.words[word])
    }

    /// The writes to the line at `line`, if there are any.
    #[inline]
    pub fn line<M: Memory>(&self, memory: &M, line: u64) -> Option<LineWrite> {
        let own = self.traced(memory);
        if self.short.is_open() {
            return self.short.line(&self.index, line, own);
        }
        if !self.index.may_have(line, own) {
            return None;
        }
        if self.many.is_used() {
            let place = self.many.find(line, own)?;
            own.value(Many::<MANY>::entry_at(place), entry_at(1));
            return Some(self.many.lines()[place]);
        }
        let place = self.few.find(&self.index, line, own).ok()?;
        own.value(Few::<FEW, INDEX>::entry_at(place), entry_at(1));
        Some(self.few.lines()[place])
    }

    /// As [`put`](Self::put), in the form of a record as long as that is possible.
    #[inline(always)]
    pub fn put_word<M: Memory>(&mut self, memory: &M, at: u64, value: u64) {
        let (own, slot) = (self.traced(memory), first(at));
        // In this order it takes two branches and nothing else.
        if self.short.has_room() && self.index.is_free(slot, own) {
            self.short.add(&mut self.index, slot, (at, value), own);
        } else {
            self.put_otherwise(memory, at, value);
        }
    }

    /// As [`put_word`](Self::put_word), if the word's line may be there, or there is no room for more words, or they are
    /// kept by line already.
    #[inline(never)]
    fn put_otherwise<M: Memory>(&mut self, memory: &M, at: u64, value: u64) {
        let own = self.traced(memory);
        if !self.short.is_open() {
            self.put(memory, at, value);
        } else if !self.short.put(&mut self.index, (at, value), own) {
            self.to_lines(memory);
            self.put(memory, at, value);
        }
    }

    /// Sets the words from `at` on, all in one line: as [`put_word`](Self::put_word) for each of them, and faster.
    #[inline]
    pub fn put_run<M: Memory>(&mut self, memory: &M, at: u64, words: &[u64]) {
        if self.short.is_open() && self.put_short_run(memory, at, words) {
            return;
        }
        self.put_run_by_line(memory, at, words);
    }

    /// The same, in the form of a record, unless there is no room: then words are kept by line from here on.
    fn put_short_run<M: Memory>(&mut self, memory: &M, at: u64, words: &[u64]) -> bool {
        let own = self.traced(memory);
        // Records of lines have no room for zeros: memory that is cleared is better kept so.
        let zeros = words.iter().filter(|word| **word == 0).count();
        let is_cleared = zeros >= 4 && 2 * zeros > words.len();
        if words.len() > 1 && !is_cleared && self.short.put_run(&mut self.index, at, words, own) {
            return true;
        }
        if self.short.has_room() && !is_cleared {
            put_each(at, words, |at, word| self.put_word(memory, at, word));
            return true;
        }
        self.to_lines(memory);
        false
    }

    /// The same, as [`put`](Self::put) for each of them.
    #[inline]
    pub fn put_run_by_line<M: Memory>(&mut self, memory: &M, at: u64, words: &[u64]) {
        match words.try_into() {
            Ok(line) => self.put_line(memory, at, line),
            Err(_) => put_each(at, words, |at, word| self.put(memory, at, word)),
        }
    }

    /// Sets the word at `at` to `value`, by line.
    #[inline(always)]
    pub fn put<M: Memory>(&mut self, memory: &M, at: u64, value: u64) {
        let (own, line, word) = (self.traced(memory), line_of(at), word_in_line(at));
        debug_assert!(!self.short.is_open(), "the words are kept by line");
        if self.unusual {
            return self.put_noting(own, at, value);
        }
        match self.few.find(&self.index, line, own) {
            Ok(place) if place < self.sealed => self.put_noting(own, at, value),
            Ok(place) => {
                wrote_word(own, Few::<FEW, INDEX>::entry_at(place), word);
                let entry = self.few.at(place);
                let old = entry.mask;
                entry.mask |= 1 << word;
                entry.words[word] = value;
                // Without a journal nothing is undone, so that no line is empty.
                self.extra += usize::from(old & 1 << word == 0);
            }
            Err(slot) => {
                let Some(place) = self.few.add(&mut self.index, slot, line, own) else {
                    return self.put_noting(own, at, value);
                };
                wrote_word(own, Few::<FEW, INDEX>::entry_at(place), word);
                let entry = self.few.at(place);
                entry.mask = 1 << word;
                entry.words[word] = value;
                // Seldom stored, since fewer and fewer lines are lower.
                if line < self.lowest {
                    self.lowest = line;
                }
            }
        }
    }

    /// As [`put`](Self::put), if writes are journalled or there are many lines.
    #[inline(never)]
    fn put_noting<M: Memory>(&mut self, own: Traced<'_, M>, at: u64, value: u64) {
        let (line, word) = (line_of(at), word_in_line(at));
        let place = self.place_of(line, own);
        wrote_word(own, self.entry_at(place), word);
        let entry = self.entry(place);
        let (bit, old, previous) = (1 << word, entry.mask, entry.words[word]);
        entry.mask = old | bit;
        entry.words[word] = value;
        self.extra += usize::from(old != 0 && old & bit == 0);
        self.empty -= usize::from(old == 0);
        if self.marked || place < self.sealed {
            let (entry, word, present) = (place as u32, word as u8, old & bit != 0);
            self.journal.push(Previous { entry, word, present, value: previous });
            own.wrote(JOURNAL + (self.journal.len() - 1) as u64 * NOTE, NOTE);
        }
    }

    /// Sets a whole line to `words`: as eight times [`put`](Self::put), for the price of one.
    #[inline]
    fn put_line<M: Memory>(&mut self, memory: &M, line: u64, words: &[u64; 8]) {
        debug_assert!(!self.short.is_open(), "the words are kept by line");
        let own = self.traced(memory);
        let place = self.place_of(line, own);
        if self.marked || place < self.sealed {
            for (index, &word) in words.iter().enumerate() {
                self.put_noting(own, line + index as u64 * 8, word);
            }
            return;
        }
        own.wrote(self.entry_at(place), entry_at(1));
        let entry = self.entry(place);
        let old = entry.mask;
        entry.mask = ALL;
        entry.words = *words;
        self.extra += 8 - (old.count_ones() as usize).max(1);
        self.empty -= usize::from(old == 0);
    }

    /// Adds words of a line, at least one, and none that are there already: for sets that are only iterated by
    /// [`entries`](Self::entries), since they will not be looked up.
    #[inline]
    pub fn push<M: Memory>(&mut self, memory: &M, entry: &LineWrite) {
        debug_assert!(entry.mask != 0 && self.few.lines().is_empty() && !self.short.is_open());
        self.extra += extra(entry.mask);
        self.lowest = self.lowest.min(entry.line);
        self.many.push(entry, Traced::new(memory, self.own));
    }

    /// The place of a line, which is added if it is not there.
    #[inline]
    fn place_of<M: Memory>(&mut self, line: u64, own: Traced<'_, M>) -> usize {
        let there = match self.many.is_used() {
            true => self.many.find(line, own),
            false => self.few.find(&self.index, line, own).ok(),
        };
        there.unwrap_or_else(|| self.add(line, own))
    }

    fn add<M: Memory>(&mut self, line: u64, own: Traced<'_, M>) -> usize {
        self.lowest = self.lowest.min(line);
        self.empty += 1;
        if !self.many.is_used() {
            let slot = self.few.find(&self.index, line, own).err();
            let added = slot.and_then(|slot| self.few.add(&mut self.index, slot, line, own));
            if let Some(place) = added {
                return place;
            }
            self.many.take(self.few.lines(), own);
            self.unusual = true;
        }
        self.index.note(line, own);
        self.many.add(line, own)
    }

    #[inline]
    fn entry(&mut self, place: usize) -> &mut LineWrite {
        if self.many.is_used() { self.many.at(place) } else { self.few.at(place) }
    }

    /// A point to return to; from now on every write is journalled.
    pub fn mark<M: Memory>(&mut self, memory: &M) -> Mark {
        self.to_lines(memory);
        (self.unusual, self.marked) = (true, true);
        Mark(self.journal.len())
    }

    /// Undoes the writes since `mark`. Lines that only these writes touched stay, with an empty mask.
    pub fn rollback_to<M: Memory>(&mut self, memory: &M, mark: Mark) {
        let own = self.traced(memory);
        while self.journal.len() > mark.0 {
            own.read(JOURNAL + (self.journal.len() - 1) as u64 * NOTE, NOTE);
            let Some(previous) = self.journal.pop() else { return };
            wrote_word(own, self.entry_at(previous.entry as usize), previous.word as usize);
            let entry = self.entry(previous.entry as usize);
            if previous.present {
                entry.words[previous.word as usize] = previous.value;
            } else {
                entry.mask &= !(1 << previous.word);
                let empty = entry.mask == 0;
                self.extra -= usize::from(!empty);
                self.empty += usize::from(empty);
            }
        }
    }
}
