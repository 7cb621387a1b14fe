//! Checksums of data at rest: a sum for each page, kept in an area of its own in the pool.
//!
//! ```text
//! sum of a page = odd(page) * Σ over its words of (mix(word ^ key[place]) - mix(key[place]))    mod 2^64
//! ```
//! `mix` is the bijection of [`keyed`](perdura_memory::keyed): a plain sum would be the same after two words have
//! changed places, or one has lost what another has gained. A page of zeros has the sum 0, so that new pages need none;
//! a changed word changes the sum by the difference of the two words' terms, so that only the words that a transaction
//! stores are read.
//!
//! What always holds: words in place and their sums change together, while the writer is alone. A transaction's sums
//! are words of its write set like all others, and atomic and durable by the same means. So a page in place that does
//! not have its sum has been damaged.
//!
//! The pages of the page table, and the one of the named roots, always have a sum; the pages of objects have one if the
//! pool was created so, and are then checked when they are first read or stored to.

use crate::planted::{self, Bug};
use crate::writes::{LineWrite, WriteSet, word_in_line};
use crate::{Error, Result};
use perdura_memory::keyed::mix::mix;
use perdura_memory::{Memory, Object, PAGE, Touch, WORD, line_of};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a page.
const WORDS: usize = (PAGE / WORD) as usize;
/// The multiplier that turns a word's place in its page into its key: 2^64 over the golden ratio.
const KEY: u64 = 0x9E37_79B9_7F4A_7C15;
/// The sum of the terms of a page of zeros, which is subtracted.
const ZEROS: u64 = {
    let (mut sum, mut place) = (0_u64, 0);
    while place < WORDS {
        sum = sum.wrapping_add(mix(key(place)));
        place += 1;
    }
    sum
};

/// Which pages of a pool have a sum, and where the sums are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The page of the named roots.
    pub catalogue: u64,
    /// Where the page table begins, at a page boundary.
    pub table: u64,
    /// Where it ends, and the sums begin: of the catalogue, of the page table's pages, of the objects' pages.
    pub sums: u64,
    /// Where the pages of objects begin.
    pub pages: u64,
    /// Where they end: equal to `pages`, if these have no sums.
    pub end: u64,
}

impl Places {
    /// Bytes of sums for a page table of `table` bytes, and for `pages` pages of objects.
    pub const fn bytes(table: u64, pages: u64) -> u64 {
        (1 + table.div_ceil(PAGE) + pages) * WORD
    }

    /// Whether the pages of objects have sums.
    pub const fn has_all(&self) -> bool {
        self.end > self.pages
    }

    /// The offset of the sum of the page of `at`, if it has one.
    #[inline(always)]
    pub fn of(&self, at: u64) -> Option<u64> {
        if at >= self.pages {
            let before = 1 + (self.sums - self.table) / PAGE;
            let place = self.sums + (before + (at - self.pages) / PAGE) * WORD;
            return (at < self.end).then_some(place);
        }
        self.of_others(at)
    }

    #[inline]
    fn of_others(&self, at: u64) -> Option<u64> {
        if (self.table..self.sums).contains(&at) {
            return Some(self.sums + (1 + (at - self.table) / PAGE) * WORD);
        }
        (self.catalogue..self.catalogue + PAGE).contains(&at).then_some(self.sums)
    }

    /// The ranges of pages that have a sum, in a memory of `len` bytes.
    pub fn ranges(&self, len: u64) -> [Range<u64>; 3] {
        let end = self.end.min(len - len % PAGE).max(self.pages);
        [self.catalogue..self.catalogue + PAGE, self.table..self.sums, self.pages..end]
    }
}

/// The sums of an engine's pool, and which pages have been checked.
pub struct Sums {
    places: Places,
    /// A bit for each page that has been compared with its sum since the pool was opened.
    looked_at: Box<[AtomicU64]>,
    own: Object,
}

impl Sums {
    /// For a pool in `memory`, with no page checked yet.
    pub fn new<M: Memory + ?Sized>(memory: &M, places: Places) -> Self {
        let pages = if places.has_all() { memory.limit().div_ceil(PAGE) } else { 0 };
        let words = pages.div_ceil(64);
        let looked_at = (0..words).map(|_| AtomicU64::new(0)).collect();
        Sums { places, looked_at, own: memory.object(words * WORD) }
    }

    /// The places of the pages and sums.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether pages are checked when they are read: those of objects have sums.
    pub fn has_all(&self) -> bool {
        self.places.has_all()
    }

    /// Compares the page of `at` with its sum, unless that has been done. The caller is in a
    /// transaction.
    ///
    /// # Errors
    /// `Corrupt` where they differ.
    #[inline(always)]
    pub fn look_at<M: Memory>(&self, memory: &M, at: u64) -> Result<()> {
        let page = at / PAGE;
        memory.touch(self.own, page / 64 * WORD, WORD, Touch::Read);
        match self.looked_at.get((page / 64) as usize) {
            Some(bits) if bits.load(Ordering::Relaxed) & 1 << (page % 64) != 0 => Ok(()),
            Some(bits) => self.compare(memory, at, bits),
            // Beyond the pool, or these pages are not checked.
            None => Ok(()),
        }
    }

    /// As [`look_at`](Self::look_at), for each page of `[at, at + len)`.
    ///
    /// # Errors
    /// As [`look_at`](Self::look_at).
    #[inline]
    pub fn look_at_all<M: Memory>(&self, memory: &M, at: u64, len: u64) -> Result<()> {
        (at - at % PAGE..at + len)
            .step_by(PAGE as usize)
            .try_for_each(|at| self.look_at(memory, at))
    }

    #[cold]
    #[inline(never)]
    fn compare<M: Memory>(&self, memory: &M, at: u64, bits: &AtomicU64) -> Result<()> {
        let page = at - at % PAGE;
        if !is_right(memory, &self.places, page) {
            return Err(wrong(page));
        }
        bits.fetch_or(1 << (page / PAGE % 64), Ordering::Relaxed);
        memory.touch(self.own, page / PAGE / 64 * WORD, WORD, Touch::Exchange);
        Ok(())
    }

    /// Adds the sums that the words of `writes` change to `writes`; the old values come from `overlaid` for committed
    /// words not yet in place, and otherwise from the memory. The caller is the writer, and keeps `changes` for the
    /// next call.
    ///
    /// # Errors
    /// `Corrupt` where a page that is stored to does not have its sum.
    pub fn add_to<M: Memory>(
        &self,
        memory: &M,
        writes: &mut WriteSet,
        changes: &mut Vec<Change>,
        overlaid: impl Fn(u64) -> Option<LineWrite>,
    ) -> Result<()> {
        changes.clear();
        let (mut line, mut old) = (u64::MAX, None);
        // All pages with a sum are before the end, and most words behind it.
        let has_sum = |line| line < self.places.end && self.places.of(line).is_some();
        writes.try_for_each(memory, has_sum, |at, word| {
            let Some(place) = self.places.of(at) else { return Ok(()) };
            if line != line_of(at) {
                line = line_of(at);
                self.look_at(memory, line)?;
                old = overlaid(line);
            }
            note(changes, place, change(at, value_before(memory, &old, at), word));
            Ok::<_, Error>(())
        })?;
        if changes.len() > UNIQUE {
            changes.sort_unstable_by_key(|change| change.place);
        }
        for of_page in changes.chunk_by(|one, other| one.place == other.place) {
            let place = of_page[0].place;
            let by = of_page.iter().fold(0_u64, |sum, change| sum.wrapping_add(change.by));
            // A sum that is in the set already was changed for words that are now back at their old values.
            let there = || writes.get(memory, place).is_some() && !planted::has(Bug::SumKept);
            if by == 0 && !there() {
                continue;
            }
            let before = value_before(memory, &overlaid(line_of(place)), place);
            writes.put_word(memory, place, before.wrapping_add(by));
        }
        Ok(())
    }
}

/// Up to this many changes are found by looking at each.
const UNIQUE: usize = 16;

/// The change of a page's sum.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    place: u64,
    by: u64,
}

/// Adds to the change of the sum at `place`. As long as there are few, there is one for each sum.
#[inline]
fn note(changes: &mut Vec<Change>, place: u64, by: u64) {
    let of_place = match changes.len() > UNIQUE {
        true => changes.last_mut().filter(|last| last.place == place),
        false => changes.iter_mut().rev().find(|change| change.place == place),
    };
    match of_place {
        Some(change) => change.by = change.by.wrapping_add(by),
        None => changes.push(Change { place, by }),
    }
}

/// The word at `at` before the transaction: as in `old`, the words of its line that are committed and not in place yet,
/// or in the memory.
#[inline(always)]
fn value_before<M: Memory>(memory: &M, old: &Option<LineWrite>, at: u64) -> u64 {
    let word = word_in_line(at);
    match old {
        Some(old) if old.mask & 1 << word != 0 => old.words[word],
        _ => memory.load(at),
    }
}

/// The change of the sum of the page of `at` when the word there changes.
#[inline(always)]
pub fn change(at: u64, before: u64, after: u64) -> u64 {
    let key = key((at % PAGE / WORD) as usize);
    mix(after ^ key).wrapping_sub(mix(before ^ key)).wrapping_mul(odd(at / PAGE))
}

#[inline(always)]
const fn key(place: usize) -> u64 {
    (place as u64 + 1).wrapping_mul(KEY)
}

/// A page's factor: two pages that change places together with their sums are detected.
#[inline(always)]
fn odd(page: u64) -> u64 {
    mix(page ^ KEY) | 1
}

/// The sum of the page at `page`.
fn sum_of<M: Memory + ?Sized>(memory: &M, page: u64) -> u64 {
    let mut words = [0_u64; WORDS];
    memory.copy_out(page, bytemuck::cast_slice_mut(&mut words));
    let sum =
        (0..).zip(words).fold(0_u64, |sum, (place, word)| sum.wrapping_add(mix(word ^ key(place))));
    sum.wrapping_sub(ZEROS).wrapping_mul(odd(page / PAGE))
}

/// Whether the page at `page` has its sum, if it should have one.
pub fn is_right<M: Memory + ?Sized>(memory: &M, places: &Places, page: u64) -> bool {
    match places.of(page) {
        Some(place) if memory.contains(page, PAGE) => memory.load(place) == sum_of(memory, page),
        _ => true,
    }
}

/// The pages in `ranges` that should have a sum and do not. Nothing else may be running.
pub fn wrong_pages<M: Memory + ?Sized>(
    memory: &M,
    places: &Places,
    ranges: impl IntoIterator<Item = Range<u64>>,
) -> Vec<u64> {
    let pages = ranges.into_iter().flat_map(|range| range.step_by(PAGE as usize));
    pages.filter(|page| !is_right(memory, places, *page)).collect()
}

/// The error for such a page.
#[cold]
pub const fn wrong(page: u64) -> Error {
    Error::corrupt("a page that does not match its checksum,", page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;
    use perdura_memory::random::SplitMix64;

    const PLACES: Places = Places {
        catalogue: 8192,
        table: 5 * PAGE,
        sums: 7 * PAGE,
        pages: 8 * PAGE,
        end: 40 * PAGE,
    };

    #[test]
    fn each_page_has_a_place_of_its_own() {
        let pages = [2, 5, 6].into_iter().chain(8..40);
        let places: Vec<u64> = pages.filter_map(|page| PLACES.of(page * PAGE + 8)).collect();
        let wanted: Vec<u64> = (0..35).map(|index| 7 * PAGE + index * 8).collect();
        assert_eq!(places, wanted);
        assert!(Places::bytes(2 * PAGE, 32) == 35 * 8 && PLACES.has_all());
        for page in [0, 1, 3, 4, 7, 40, 41] {
            assert_eq!(PLACES.of(page * PAGE), None, "page {page}");
        }
    }

    /// Random transactions: the stored sums are those of the pages, and any other contents are detected.
    #[test]
    fn sums_are_kept_and_damage_shows() {
        let (ram, sums) = (Ram::new(40 * PAGE), Sums::new(&Ram::new(40 * PAGE), PLACES));
        let (mut random, mut writes, mut changes) =
            (SplitMix64::new(1), WriteSet::new(&ram), Vec::new());
        for _ in 0..200 {
            for _ in 0..random.below(30) {
                let page = [2, 5, 6, 8, 9, 20, 39][random.below(7) as usize];
                let value = if random.below(4) == 0 { 0 } else { random.next() };
                writes.put(&ram, page * PAGE + random.below(512) * 8, value);
            }
            sums.add_to(&ram, &mut writes, &mut changes, |_| None).unwrap();
            for entry in writes.entries() {
                for word in (0..8).filter(|word| entry.mask & 1 << word != 0) {
                    ram.store(entry.line + word as u64 * 8, entry.words[word]);
                }
            }
            writes.clear(&ram);
        }
        let all = || wrong_pages(&ram, &PLACES, PLACES.ranges(ram.len()));
        assert_eq!(all(), [0; 0]);
        assert!(sums.look_at_all(&ram, 8 * PAGE, 32 * PAGE).is_ok());
        for page in [2, 6, 9, 39] {
            for _ in 0..300 {
                let at = page * PAGE + random.below(512) * 8;
                let (old, bit) = (ram.load(at), 1 << random.below(64));
                ram.store(at, old ^ bit);
                assert_eq!(all(), [page * PAGE]);
                ram.store(at, old);
            }
        }
        // Two pages change places, together with their sums.
        for page in [8, 20] {
            let place = PLACES.of(page * PAGE).unwrap();
            let (other, other_place) = (page + 1, place + 8);
            for word in 0..512 {
                ram.store(other * PAGE + word * 8, ram.load(page * PAGE + word * 8));
            }
            ram.store(other_place, ram.load(place));
            assert_eq!(all(), [other * PAGE]);
            (0..512).for_each(|word| ram.store(other * PAGE + word * 8, 0));
            ram.store(other_place, 0);
        }
    }

    #[test]
    fn checks_pages_at_first_use() {
        let ram = Ram::new(40 * PAGE);
        let (mut writes, mut changes) = (WriteSet::new(&ram), Vec::new());
        ram.store(9 * PAGE, 1);
        let sums = Sums::new(&ram, PLACES);
        assert!(sums.look_at(&ram, 8 * PAGE).is_ok());
        assert!(matches!(
            sums.look_at(&ram, 9 * PAGE + 64),
            Err(Error::Corrupt { at, .. }) if at == 9 * PAGE
        ));
        writes.put(&ram, 9 * PAGE + 800, 5);
        assert!(sums.add_to(&ram, &mut writes, &mut changes, |_| None).is_err());
        ram.store(9 * PAGE, 0);
        assert!(sums.add_to(&ram, &mut writes, &mut changes, |_| None).is_ok());
    }
}
