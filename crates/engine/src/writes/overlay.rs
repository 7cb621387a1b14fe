//! The version store of group commit: committed words that are not in the memory yet, read by readers while a writer
//! adds to them.
//!
//! Each joining transaction adds a *version* of every line that it stores to, with all words of that line that have
//! joined so far; a version is never changed. Only then is the transaction counted as joined. A reader remembers how
//! many had joined when it began, its *snapshot*, and ignores the versions of later ones: so it sees one state of
//! everything, and no writer waits for it. Versions of a line are found newest first, from a table of hashes.
//!
//! The newest versions are everything that has joined; storing it [iterates over them](Overlay::lines).
//!
//! There is one writer. Its changes are atomic, since readers are inside; only emptying the overlay, and getting more
//! room, need it to be alone.
//!
//! It is ordinary memory: accesses are reported to the memory of the pool, for simulators ([`Traced`]).

use super::line::{LineWrite, hash, word_in_line};
use perdura_memory::atomics::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use perdura_memory::lock::Apart;
use perdura_memory::{Memory, Object, Traced, WORD};

/// The least room, in versions; little for the model checker, to which each is many objects.
const LEAST: usize = if cfg!(loom) { 4 } else { 512 };
/// Room beyond this is freed.
const KEPT: usize = 1 << 17;
/// Bits of the filter for each version.
const BITS: usize = 16;

/// Offsets of the overlay's parts in its object. Offsets beyond the kept room wrap around.
const COUNTS: u64 = 0;
const FILTER: u64 = size_of::<Apart<Counts>>() as u64;
const NEWEST: u64 = FILTER + (KEPT * BITS / 8) as u64;
const VERSIONS: u64 = NEWEST + 2 * KEPT as u64 * PLACE;
const BYTES: u64 = VERSIONS + KEPT as u64 * VERSION;
const PLACE: u64 = size_of::<AtomicU32>() as u64;
const VERSION: u64 = size_of::<Version>() as u64;
/// The offset of the fields of a version that are looked at first: its line, how many had joined, the one before it.
const HEAD: u64 = VERSION - 8 * WORD;

/// The words of a line after a transaction.
#[derive(Default)]
struct Version {
    line: AtomicU64,
    words: [AtomicU64; 8],
    /// How many transactions had joined, including the one that made it.
    joined: AtomicU64,
    /// The version before it in its hash chain, of this line or another one; as in [`Overlay::newest`].
    before: AtomicU32,
    mask: AtomicU8,
    /// Whether there is a newer one of its line; the writer's own.
    is_old: AtomicBool,
}

/// The data that transactions share with the writer: they may have an overlay of committed words.
pub trait MayOverlay {
    /// Committed words that are not in the memory yet; `None` if there never are any.
    #[inline(always)]
    fn overlay(&self) -> Option<&Overlay> {
        None
    }
}

impl MayOverlay for () {}

impl MayOverlay for Overlay {
    #[inline(always)]
    fn overlay(&self) -> Option<&Overlay> {
        Some(self)
    }
}

/// The words, by line and version.
pub struct Overlay {
    own: Object,
    versions: Box<[Version]>,
    /// By hash the newest version, counted from 1; 0 if there is none.
    newest: Box<[AtomicU32]>,
    /// A bit for each hash: a line whose bit is clear has no version.
    filter: Box<[AtomicU64]>,
    /// On a cache line of its own: readers access the rest all the time.
    counts: Apart<Counts>,
}

/// A version of a line.
#[derive(Clone, Copy)]
pub struct FoundVersion(usize);

#[derive(Default)]
struct Counts {
    /// How many transactions have joined.
    joined: AtomicU64,
    /// How many versions there are; the writer's own, like the rest.
    used: AtomicU32,
    /// How many lines they are of.
    lines: AtomicU32,
    /// How many words the newest ones have.
    words: AtomicU64,
}

impl Overlay {
    /// An empty overlay, whose accesses are reported to `memory`.
    pub fn new<M: Memory>(memory: &M) -> Self {
        Overlay::with_room(memory.object(BYTES), LEAST)
    }

    /// With room for `versions` versions, a power of two.
    fn with_room(own: Object, versions: usize) -> Self {
        Overlay {
            own,
            versions: (0..versions).map(|_| Version::default()).collect(),
            newest: (0..2 * versions).map(|_| AtomicU32::new(0)).collect(),
            filter: (0..versions * BITS / 64).map(|_| AtomicU64::new(0)).collect(),
            counts: Apart::default(),
        }
    }

    #[inline(always)]
    fn traced<'m, M: Memory>(&self, memory: &'m M) -> Traced<'m, M> {
        Traced::new(memory, self.own)
    }

    /// How many transactions have joined: the snapshot of a reader that begins now.
    #[inline(always)]
    pub fn joined<M: Memory>(&self, memory: &M) -> u64 {
        self.traced(memory).read(COUNTS, WORD);
        // A thread that sees them counted sees what they have added.
        self.counts.0.joined.load(Ordering::Acquire)
    }

    /// Whether there may be a version of the line of `at`: a quick test with few false positives. To be called first.
    #[inline(always)]
    pub fn may_have<M: Memory>(&self, memory: &M, at: u64) -> bool {
        let (word, bit) = self.in_filter(hash(at));
        self.traced(memory).read(filter_at(word), WORD);
        self.filter[word].load(Ordering::Relaxed) & bit != 0
    }

    /// The version of the line at `line` as of `snapshot`, if there is one; valid for as long as a transaction with
    /// that snapshot goes on.
    #[inline]
    pub fn find<M: Memory>(&self, memory: &M, line: u64, snapshot: u64) -> Option<FoundVersion> {
        let own = self.traced(memory);
        own.read(newest_at(self.in_table(line)), PLACE);
        // A version is complete before it is in the table, and so are those before it.
        let mut next = self.newest[self.in_table(line)].load(Ordering::Acquire);
        while next != 0 {
            let index = next as usize - 1;
            own.read(version_at(index), HEAD);
            let version = &self.versions[index];
            if version.line.load(Ordering::Relaxed) == line
                && version.joined.load(Ordering::Relaxed) <= snapshot
            {
                return Some(FoundVersion(index));
            }
            next = version.before.load(Ordering::Relaxed);
        }
        None
    }

    /// The word at `at`, if the version has it.
    #[inline]
    pub fn word<M: Memory>(&self, memory: &M, found: FoundVersion, at: u64) -> Option<u64> {
        let version = self.versions.get(found.0)?;
        let word = word_in_line(at);
        self.traced(memory).value(version_at(found.0) + HEAD + word as u64 * WORD, WORD);
        (version.mask.load(Ordering::Relaxed) & 1 << word != 0)
            .then(|| version.words[word].load(Ordering::Relaxed))
    }

    /// All words of a version.
    #[inline]
    pub fn words<M: Memory>(&self, memory: &M, found: FoundVersion) -> LineWrite {
        self.traced(memory).value(version_at(found.0), VERSION);
        let version = &self.versions[found.0];
        LineWrite {
            line: version.line.load(Ordering::Relaxed),
            mask: version.mask.load(Ordering::Relaxed),
            words: std::array::from_fn(|word| version.words[word].load(Ordering::Relaxed)),
        }
    }

    /// All lines of which a transaction with this snapshot finds something, some of them several times. A writer may
    /// add more meanwhile.
    pub fn found_lines<'o, M: Memory>(
        &'o self,
        memory: &'o M,
        snapshot: u64,
    ) -> impl Iterator<Item = LineWrite> + use<'o, M> {
        let used = self.counts.0.used.load(Ordering::Relaxed) as usize;
        (0..used).filter_map(move |index| {
            self.traced(memory).read(version_at(index), HEAD);
            // Of a version that is just being added this may be anything.
            let line = self.versions[index].line.load(Ordering::Relaxed);
            self.find(memory, line, snapshot).map(|found| self.words(memory, found))
        })
    }

    /// Whether a transaction of this many lines fits. For the writer, like the rest.
    #[inline]
    pub fn has_room<M: Memory>(&self, memory: &M, lines: usize) -> bool {
        self.traced(memory).read(COUNTS, WORD);
        self.counts.0.used.load(Ordering::Relaxed) as usize + lines <= self.versions.len()
    }

    /// The number of lines that have versions, and of the words of the newest ones.
    #[inline]
    pub fn size<M: Memory>(&self, memory: &M) -> (usize, usize) {
        self.traced(memory).read(COUNTS, WORD);
        let Counts { lines, words, .. } = &self.counts.0;
        (lines.load(Ordering::Relaxed) as usize, words.load(Ordering::Relaxed) as usize)
    }

    /// Everything that has joined, each line once.
    pub fn lines<'o, M: Memory>(
        &'o self,
        memory: &'o M,
    ) -> impl Iterator<Item = LineWrite> + use<'o, M> {
        let used = self.counts.0.used.load(Ordering::Relaxed) as usize;
        let newest = move |index: &usize| {
            self.traced(memory).read(version_at(*index), HEAD);
            !self.versions[*index].is_old.load(Ordering::Relaxed)
        };
        (0..used).filter(newest).map(move |index| self.words(memory, FoundVersion(index)))
    }

    /// Adds a version of a line for the transaction that joins next: its words, and those that have joined before.
    /// Returns the mask of the latter. There must be room.
    #[inline]
    pub fn add<M: Memory>(&self, memory: &M, entry: &LineWrite) -> u8 {
        let own = self.traced(memory);
        let Counts { joined, used, lines, words } = &self.counts.0;
        let index = used.load(Ordering::Relaxed);
        used.store(index + 1, Ordering::Relaxed);
        let version = &self.versions[index as usize];
        let (word, bit) = self.in_filter(hash(entry.line));
        own.read(filter_at(word), WORD);
        let filter = self.filter[word].load(Ordering::Relaxed);
        // The newest one: all versions have joined, or are of this transaction's other lines.
        let earlier =
            if filter & bit == 0 { None } else { self.find(memory, entry.line, u64::MAX) };
        let had = earlier.map_or(0, |earlier| self.supersede(memory, earlier, entry, version));
        if earlier.is_none() {
            for (to, word) in version.words.iter().zip(entry.words) {
                to.store(word, Ordering::Relaxed);
            }
            // With a single writer no locked instruction is needed.
            lines.store(lines.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.filter[word].store(filter | bit, Ordering::Relaxed);
            own.wrote(filter_at(word), WORD);
        }
        let more = u64::from((entry.mask & !had).count_ones());
        words.store(words.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        version.line.store(entry.line, Ordering::Relaxed);
        version.joined.store(joined.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        version.mask.store(entry.mask | had, Ordering::Relaxed);
        version.is_old.store(false, Ordering::Relaxed);
        own.wrote(version_at(index as usize), VERSION);
        own.read(newest_at(self.in_table(entry.line)), PLACE);
        let newest = &self.newest[self.in_table(entry.line)];
        version.before.store(newest.load(Ordering::Relaxed), Ordering::Relaxed);
        newest.store(index + 1, Ordering::Release);
        own.wrote(newest_at(self.in_table(entry.line)), PLACE);
        own.wrote(COUNTS, WORD);
        had
    }

    /// Fills a version of a line, newer than `earlier`, with the words of `entry` and of that one. Returns the mask of
    /// the latter.
    fn supersede<M: Memory>(
        &self,
        memory: &M,
        earlier: FoundVersion,
        entry: &LineWrite,
        version: &Version,
    ) -> u8 {
        let own = self.traced(memory);
        own.read(version_at(earlier.0), VERSION);
        own.wrote(version_at(earlier.0), 1);
        let earlier = &self.versions[earlier.0];
        earlier.is_old.store(true, Ordering::Relaxed);
        for (word, to) in version.words.iter().enumerate() {
            let before = earlier.words[word].load(Ordering::Relaxed);
            let stored = entry.mask & 1 << word != 0;
            to.store(if stored { entry.words[word] } else { before }, Ordering::Relaxed);
        }
        earlier.mask.load(Ordering::Relaxed)
    }

    /// Counts the transaction whose versions have been added as joined: readers that begin from now on see it.
    #[inline]
    pub fn join<M: Memory>(&self, memory: &M) {
        let joined = &self.counts.0.joined;
        joined.store(joined.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.traced(memory).wrote(COUNTS, WORD);
    }

    /// Makes room for `more` lines. One version of each line is left.
    #[cold]
    pub fn make_room<M: Memory>(&mut self, memory: &M, more: usize) {
        let joined = self.counts.0.joined.load(Ordering::Relaxed);
        let lines: Vec<LineWrite> = self.lines(memory).collect();
        let needed = (2 * (lines.len() + more)).next_power_of_two();
        // If there is more room than is kept, clearing would leave too little.
        if needed > self.versions.len() || self.versions.len() > KEPT {
            *self = Overlay::with_room(self.own, needed.max(LEAST));
        } else {
            self.clear(memory);
        }
        // All of them have joined before the next reader begins.
        for entry in &lines {
            self.add(memory, entry);
        }
        self.counts.0.joined.store(joined, Ordering::Relaxed);
    }

    /// Forgets everything.
    pub fn clear<M: Memory>(&mut self, memory: &M) {
        if self.versions.len() > KEPT {
            *self = Overlay::with_room(self.own, LEAST);
            return;
        }
        let own = self.traced(memory);
        for index in 0..self.counts.0.used.load(Ordering::Relaxed) as usize {
            own.read(version_at(index), WORD);
            let line = self.versions[index].line.load(Ordering::Relaxed);
            let (slot, (word, _)) = (self.in_table(line), self.in_filter(hash(line)));
            self.newest[slot].store(0, Ordering::Relaxed);
            self.filter[word].store(0, Ordering::Relaxed);
            own.wrote(newest_at(slot), PLACE);
            own.wrote(filter_at(word), WORD);
        }
        own.wrote(COUNTS, WORD);
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

/// The offset of this word in the overlay's object.
#[inline(always)]
fn filter_at(word: usize) -> u64 {
    FILTER + word as u64 * WORD
}

#[inline(always)]
fn newest_at(slot: usize) -> u64 {
    NEWEST + slot as u64 * PLACE
}

#[inline(always)]
fn version_at(index: usize) -> u64 {
    VERSIONS + index as u64 * VERSION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writes::WriteSet;
    use perdura_memory::{Ram, line_of};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::LazyLock;

    /// A memory that traces nothing.
    static RAM: LazyLock<Ram> = LazyLock::new(|| Ram::new(64));

    type Words = HashMap<u64, u64>;

    /// Lets a transaction join as a group does. Returns whether room had to be made, which invalidates earlier
    /// snapshots.
    fn join(overlay: &mut Overlay, words: &[(u64, u64)]) -> bool {
        let memory = &*RAM;
        let mut transaction = WriteSet::new(memory);
        words.iter().for_each(|&(at, value)| transaction.put(memory, at, value));
        let full = !overlay.has_room(memory, transaction.stored_lines());
        if full {
            overlay.make_room(memory, transaction.stored_lines());
        }
        for entry in transaction.entries() {
            let before = overlay.lines(memory).find(|line| line.line == entry.line);
            assert_eq!(overlay.add(memory, entry), before.map_or(0, |line| line.mask));
        }
        overlay.join(memory);
        full
    }

    /// All that has joined, word by word.
    fn all(overlay: &Overlay) -> Words {
        let lines: Vec<LineWrite> = overlay.lines(&*RAM).collect();
        let words = lines.iter().flat_map(|line| {
            let stored = (0..8).filter(|word| line.mask & 1 << word != 0);
            stored.map(|word| (line.line + word * 8, line.words[word as usize]))
        });
        let words: Words = words.collect();
        assert_eq!(overlay.size(&*RAM), (lines.len(), words.len()), "no line is there twice");
        words
    }

    fn compare(overlay: &Overlay, snapshot: u64, wanted: &Words, universe: u64) {
        let memory = &*RAM;
        for at in (0..universe).map(|word| word * 8) {
            let wanted = wanted.get(&at).copied();
            let found = overlay.find(memory, line_of(at), snapshot);
            let got = found.and_then(|found| overlay.word(memory, found, at));
            assert_eq!(got, wanted, "{at} as of {snapshot}");
            let words = found.map(|found| overlay.words(memory, found));
            let (word, bit) = (word_in_line(at), 1 << word_in_line(at));
            let got = words.filter(|line| line.mask & bit != 0).map(|line| line.words[word]);
            assert_eq!(got, wanted);
            assert!(wanted.is_none() || overlay.may_have(memory, at));
        }
    }

    proptest! {
        #[test]
        fn each_snapshot_stays_as_it_was(
            groups in vec(vec(vec((0..400u64, any::<u64>()), 1..30), 1..20), 1..4)
        ) {
            let mut overlay = Overlay::with_room(Object::NONE, 32);
            for group in groups {
                let (mut states, mut since) = (vec![Words::new()], 0);
                for transaction in group {
                    let words: Vec<_> = transaction.iter().map(|&(at, to)| (at * 8, to)).collect();
                    let last = states.len() - 1;
                    if join(&mut overlay, &words) {
                        since = last;
                    }
                    let mut state = states[last].clone();
                    state.extend(words);
                    states.push(state);
                }
                prop_assert_eq!(overlay.joined(&*RAM), states.len() as u64 - 1);
                for (snapshot, state) in states.iter().enumerate().skip(since) {
                    compare(&overlay, snapshot as u64, state, 400);
                }
                prop_assert_eq!(&all(&overlay), &states[states.len() - 1]);
                overlay.clear(&*RAM);
                compare(&overlay, 0, &Words::new(), 400);
            }
        }
    }
}
