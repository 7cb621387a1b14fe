//! Committed words that are not in the memory yet: looked through by readers while a writer adds to
//! them.
//!
//! Each transaction that joins adds a *version* of every line that it stores to, with all words
//! of that line that have joined so far; a version is never changed. Only then is the transaction
//! counted as joined. A reader remembers how many had joined when it began, its *snapshot*, and
//! overlooks the versions of later ones: so it sees one state of everything, and no writer waits
//! for it. Versions of a line are found newest first, from a table of hashes.
//!
//! There is one writer. What it changes is atomic, for readers are there; only emptying the overlay,
//! and getting more room, want it alone.

use crate::lock::Apart;
use crate::writes::{LineWrite, WriteSet, hash, word_in_line};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Versions that there is room for at least.
const LEAST: usize = 512;
/// More room than this is given back.
const KEPT: usize = 1 << 17;
/// Bits of the filter for each version.
const BITS: usize = 16;

/// What a line's words have become.
#[derive(Default)]
struct Version {
    line: AtomicU64,
    words: [AtomicU64; 8],
    /// How many transactions had joined with the one that made it.
    joined: AtomicU64,
    /// The version before it in the table, of this line or another one; as in [`Overlay::newest`].
    before: AtomicU32,
    mask: AtomicU8,
}

/// The words, by line and version.
pub struct Overlay {
    versions: Box<[Version]>,
    /// By hash the newest version, counted from 1; 0 where there is none.
    newest: Box<[AtomicU32]>,
    /// A bit for each hash: what it has not is not there.
    filter: Box<[AtomicU64]>,
    /// On a line of its own: readers come for the rest all the time.
    counts: Apart<Counts>,
}

/// A version of a line.
#[derive(Clone, Copy)]
pub struct Found(usize);

#[derive(Default)]
struct Counts {
    /// Transactions that have joined.
    joined: AtomicU64,
    /// How many versions there are; the writer's own.
    used: AtomicU32,
}

impl Default for Overlay {
    fn default() -> Self {
        Overlay::with_room(LEAST)
    }
}

impl Overlay {
    /// For so many versions, a power of two.
    fn with_room(versions: usize) -> Self {
        Overlay {
            versions: (0..versions).map(|_| Version::default()).collect(),
            newest: (0..2 * versions).map(|_| AtomicU32::new(0)).collect(),
            filter: (0..versions * BITS / 64).map(|_| AtomicU64::new(0)).collect(),
            counts: Apart::default(),
        }
    }

    /// How many transactions have joined: the snapshot of a reader that begins now.
    #[inline(always)]
    pub fn joined(&self) -> u64 {
        // What they have added is seen by who sees them counted.
        self.counts.0.joined.load(Ordering::Acquire)
    }

    /// Whether there may be a version of the line of `at`; that is soon said, and seldom wrong. To be
    /// asked first.
    #[inline(always)]
    pub fn may_have(&self, at: u64) -> bool {
        let (word, bit) = self.in_filter(hash(at));
        self.filter[word].load(Ordering::Relaxed) & bit != 0
    }

    /// The words of the line at `line` as of `snapshot`, if any are here; for as long as a transaction
    /// with that snapshot goes on.
    #[inline]
    pub fn find(&self, line: u64, snapshot: u64) -> Option<Found> {
        // A version is whole before it is in the table, and so are those before it.
        let mut next = self.newest[self.in_table(line)].load(Ordering::Acquire);
        while next != 0 {
            let index = next as usize - 1;
            let version = &self.versions[index];
            if version.line.load(Ordering::Relaxed) == line
                && version.joined.load(Ordering::Relaxed) <= snapshot
            {
                return Some(Found(index));
            }
            next = version.before.load(Ordering::Relaxed);
        }
        None
    }

    /// The word at `at`, if it is among those of its line that were found.
    #[inline]
    pub fn word(&self, found: Found, at: u64) -> Option<u64> {
        let version = self.versions.get(found.0)?;
        let word = word_in_line(at);
        (version.mask.load(Ordering::Relaxed) & 1 << word != 0)
            .then(|| version.words[word].load(Ordering::Relaxed))
    }

    /// All words that were found of a line.
    #[inline]
    pub fn words(&self, found: Found) -> LineWrite {
        let version = &self.versions[found.0];
        LineWrite {
            line: version.line.load(Ordering::Relaxed),
            mask: version.mask.load(Ordering::Relaxed),
            words: std::array::from_fn(|word| version.words[word].load(Ordering::Relaxed)),
        }
    }

    /// Whether a transaction of so many lines finds room. For the writer, as the rest.
    #[inline]
    pub fn has_room(&self, lines: usize) -> bool {
        self.counts.0.used.load(Ordering::Relaxed) as usize + lines <= self.versions.len()
    }

    /// Adds a version of a line, of the transaction that is the next to join: all words of the line
    /// that have joined, with its own. There is room.
    #[inline]
    pub fn add(&self, entry: &LineWrite) {
        let Counts { joined, used } = &self.counts.0;
        let index = used.load(Ordering::Relaxed);
        used.store(index + 1, Ordering::Relaxed);
        let version = &self.versions[index as usize];
        version.line.store(entry.line, Ordering::Relaxed);
        for (to, word) in version.words.iter().zip(entry.words) {
            to.store(word, Ordering::Relaxed);
        }
        version.joined.store(joined.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        version.mask.store(entry.mask, Ordering::Relaxed);
        let newest = &self.newest[self.in_table(entry.line)];
        version.before.store(newest.load(Ordering::Relaxed), Ordering::Relaxed);
        newest.store(index + 1, Ordering::Release);
        let (word, bit) = self.in_filter(hash(entry.line));
        let word = &self.filter[word];
        // One writer needs no locked instruction.
        word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
    }

    /// The transaction whose versions have been added has joined: who begins from now on sees it.
    #[inline]
    pub fn join(&self) {
        let joined = &self.counts.0.joined;
        joined.store(joined.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Makes room for `more` lines. Of what has joined, `writes`, one version of each line is left.
    #[cold]
    pub fn make_room(&mut self, writes: &WriteSet, more: usize) {
        let joined = *self.counts.0.joined.get_mut();
        let needed = (2 * (writes.stored_lines() + more)).next_power_of_two();
        if needed > self.versions.len() {
            *self = Overlay::with_room(needed);
        } else {
            self.clear();
        }
        // They have joined, all of them, before whoever reads next.
        for entry in writes.entries().iter().filter(|entry| entry.mask != 0) {
            self.add(entry);
        }
        *self.counts.0.joined.get_mut() = joined;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.versions.len() > KEPT {
            *self = Overlay::default();
            return;
        }
        for index in 0..*self.counts.0.used.get_mut() as usize {
            let line = *self.versions[index].line.get_mut();
            let (slot, (word, _)) = (self.in_table(line), self.in_filter(hash(line)));
            *self.newest[slot].get_mut() = 0;
            *self.filter[word].get_mut() = 0;
        }
        self.counts = Apart::default();
    }

    #[inline(always)]
    fn in_table(&self, line: u64) -> usize {
        hash(line) as usize & (self.newest.len() - 1)
    }

    #[inline(always)]
    fn in_filter(&self, hash: u64) -> (usize, u64) {
        let bit = hash as usize & (self.filter.len() * 64 - 1);
        (bit / 64, 1 << (bit % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::line_of;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    type Words = HashMap<u64, u64>;

    /// Lets a transaction join as a group does; `joined` has all of those before. Whether room had to
    /// be made, with which earlier snapshots are nobody's.
    fn join(overlay: &mut Overlay, joined: &mut WriteSet, words: &[(u64, u64)]) -> bool {
        let mut transaction = WriteSet::default();
        words.iter().for_each(|&(at, value)| transaction.put(at, value));
        let full = !overlay.has_room(transaction.stored_lines());
        if full {
            overlay.make_room(joined, transaction.stored_lines());
        }
        joined.absorb(&transaction, |entry, _| overlay.add(entry));
        overlay.join();
        full
    }

    fn compare(overlay: &Overlay, snapshot: u64, wanted: &Words, universe: u64) {
        for at in (0..universe).map(|word| word * 8) {
            let wanted = wanted.get(&at).copied();
            let found = overlay.find(line_of(at), snapshot);
            let got = found.and_then(|found| overlay.word(found, at));
            assert_eq!(got, wanted, "{at} as of {snapshot}");
            let words = found.map(|found| overlay.words(found));
            let (word, bit) = (word_in_line(at), 1 << word_in_line(at));
            let got = words.filter(|line| line.mask & bit != 0).map(|line| line.words[word]);
            assert_eq!(got, wanted);
            assert!(wanted.is_none() || overlay.may_have(at));
        }
    }

    proptest! {
        #[test]
        fn each_snapshot_stays_as_it_was(
            groups in vec(vec(vec((0..400u64, any::<u64>()), 1..30), 1..20), 1..4)
        ) {
            let (mut overlay, mut joined) = (Overlay::with_room(32), WriteSet::default());
            for group in groups {
                let (mut states, mut since) = (vec![Words::new()], 0);
                for transaction in group {
                    let words: Vec<_> = transaction.iter().map(|&(at, to)| (at * 8, to)).collect();
                    let last = states.len() - 1;
                    if join(&mut overlay, &mut joined, &words) {
                        since = last;
                    }
                    let mut state = states[last].clone();
                    state.extend(words);
                    states.push(state);
                }
                prop_assert_eq!(overlay.joined(), states.len() as u64 - 1);
                for (snapshot, state) in states.iter().enumerate().skip(since) {
                    compare(&overlay, snapshot as u64, state, 400);
                }
                overlay.clear();
                joined.clear();
                compare(&overlay, 0, &Words::new(), 400);
            }
        }
    }
}
