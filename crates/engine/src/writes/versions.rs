//! The version store: words that commits have overwritten, kept for snapshots. A transaction on a snapshot reads one
//! committed state, however long that takes, without waiting for a commit or making one wait.
//!
//! A commit that finds snapshots notes, before it stores anything in place, the present values of the words that it
//! will store to, with its number. A snapshot of the number `n` loads a word and then looks here: if commits with later
//! numbers have noted the word's value, the oldest of these gives its value at `n`.
//!
//! What always holds: while there are snapshots, a word that a commit in progress may store to in place has its old
//! value here first. It stays until no older snapshot is left.

use super::kept::{self, Kept};
use super::{LineWrite, hash, word_in_line};
use perdura_memory::{Memory, Object, Traced, WORD, line_of};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shards, each with a lock, which is held during no access to the memory.
const SHARDS: usize = 64;
/// Counts of lines, by a hash: for most words that are read they show that there is nothing here.
const COUNTS: usize = 4096;
const COUNT: u64 = size_of::<u32>() as u64;
/// Where the notes of what is kept begin, behind the counts.
const NOTES: u64 = COUNTS as u64 * COUNT;

/// The contents of a line before a commit.
struct Version {
    number: u64,
    before: LineWrite,
}

/// Hashes lines as everything here does.
#[derive(Default)]
struct LineHasher(u64);

impl Hasher for LineHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("lines are numbers");
    }

    fn write_u64(&mut self, line: u64) {
        // The map takes a place from the last bits and a tag from the first ones; a shard has one value of the last.
        let hash = hash(line);
        self.0 = hash >> 6 | hash << 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Shard = HashMap<u64, Vec<Version>, BuildHasherDefault<LineHasher>>;

/// The versions.
pub(crate) struct Versions {
    shards: Box<[Mutex<Shard>]>,
    counts: Box<[AtomicU32]>,
    kept: Kept,
    own: Object,
}

impl Versions {
    pub(crate) fn new<M: Memory>(memory: &M) -> Self {
        Versions {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            kept: Kept::new(memory.limit()),
            own: memory.object(NOTES + kept::BYTES),
        }
    }

    /// Says that a snapshot begins. No commit that asks what the others find is in progress.
    pub(crate) fn begin(&self) {
        self.kept.begin_era();
    }

    fn shard(&self, line: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[hash(line) as usize % SHARDS])
    }

    #[inline(always)]
    fn count(&self, line: u64) -> (u64, &AtomicU32) {
        let place = (hash(line) >> 8) as usize % COUNTS;
        (place as u64 * COUNT, &self.counts[place])
    }

    /// Notes the present values of the words that the commit with this number is about to store to.
    pub(crate) fn keep<M: Memory>(&self, memory: &M, number: u64, write: &LineWrite) {
        let mut before = LineWrite { line: write.line, mask: write.mask, words: [0; 8] };
        for word in (0..8).filter(|word| write.mask & 1 << word != 0) {
            before.words[word] = memory.load(write.line + word as u64 * WORD);
        }
        let (at, count) = self.count(write.line);
        Traced::new(memory, self.own).exchange(at, COUNT);
        self.shard(write.line).entry(write.line).or_default().push(Version { number, before });
        count.fetch_add(1, Ordering::SeqCst);
    }

    /// As [`keep`](Self::keep), unless every snapshot, of which none is of a later commit than `newest`, finds all of the
    /// words here already.
    pub(crate) fn keep_for<M: Memory>(
        &self,
        memory: &M,
        number: u64,
        newest: u64,
        write: &LineWrite,
    ) {
        let own = || (Traced::new(memory, self.own), NOTES);
        let noted = self.kept.words(own(), write.line);
        if write.mask & !noted == 0 {
            return;
        }
        let found = match self.may_have(memory, write.line) {
            true => self.words_since(write.line, newest),
            false => 0,
        };
        if write.mask & !found != 0 {
            self.keep(memory, number, write);
        }
        // A commit that was in progress when the newest of them began may have an earlier number: they do not find it.
        let kept = if number > newest { write.mask } else { 0 };
        self.kept.note(own(), write.line, noted | found | kept);
    }

    /// The words of the line of which there are versions later than `number`.
    fn words_since(&self, line: u64, number: u64) -> u8 {
        self.shard(line).get(&line).map_or(0, |versions| {
            let later = versions.iter().rev().take_while(|version| version.number > number);
            later.fold(0, |mask, version| mask | version.before.mask)
        })
    }

    /// Whether there is anything of the line of `at`, which must have been loaded before.
    #[inline]
    pub(crate) fn may_have<M: Memory>(&self, memory: &M, at: u64) -> bool {
        fence(Ordering::Acquire);
        let (place, count) = self.count(line_of(at));
        Traced::new(memory, self.own).read(place, COUNT);
        count.load(Ordering::SeqCst) != 0
    }

    /// The words that the line at `line` held at `number` and that commits have stored to since.
    pub(crate) fn line_at(&self, line: u64, number: u64) -> Option<LineWrite> {
        let shard = self.shard(line);
        let mut found = LineWrite { line, mask: 0, words: [0; 8] };
        // A line's older versions come first, since the commits had its lock.
        for version in shard.get(&line)?.iter().filter(|version| version.number > number) {
            let more = version.before.mask & !found.mask;
            found.mask |= more;
            for word in (0..8).filter(|word| more & 1 << word != 0) {
                found.words[word] = version.before.words[word];
            }
        }
        (found.mask != 0).then_some(found)
    }

    /// As [`line_at`](Self::line_at), for the word at `at`.
    pub(crate) fn word_at(&self, at: u64, number: u64) -> Option<u64> {
        let word = word_in_line(at);
        let line = self.line_at(line_of(at), number)?;
        (line.mask & 1 << word != 0).then(|| line.words[word])
    }

    /// Forgets the versions with numbers up to `known` that none of the snapshots of these `numbers`, which are in
    /// order, needs: each finds the oldest version that is later than itself.
    pub(crate) fn forget_for(&self, numbers: &[u64], known: u64) {
        for shard in &self.shards {
            lock(shard).retain(|line, versions| {
                let before = versions.len();
                let (mut covered, mut since) = (0, None);
                versions.retain(|version| {
                    if version.number > known {
                        return true;
                    }
                    let earlier = numbers.partition_point(|number| *number < version.number);
                    if since.replace(earlier) != Some(earlier) {
                        covered = 0;
                    }
                    let needed = version.before.mask & !covered;
                    covered |= version.before.mask;
                    earlier > 0 && needed != 0
                });
                let gone = (before - versions.len()) as u32;
                self.count(*line).1.fetch_sub(gone, Ordering::SeqCst);
                if versions.len() * 4 < versions.capacity() {
                    versions.shrink_to_fit();
                }
                !versions.is_empty()
            });
        }
    }

    /// How many lines have versions.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).values().map(Vec::len).sum::<usize>()).sum()
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn a_snapshot_finds_the_oldest_word_that_is_later_than_it() {
        let ram = Ram::new(4096);
        let versions = Versions::new(&ram);
        let write = |mask| LineWrite { line: 64, mask, words: [9; 8] };
        ram.store(64, 1);
        versions.keep(&ram, 5, &write(0b01));
        ram.store(64, 2);
        ram.store(72, 20);
        versions.keep(&ram, 7, &write(0b11));
        ram.store(64, 3);
        assert!(versions.may_have(&ram, 72) && !versions.may_have(&ram, 4032));
        assert_eq!(versions.word_at(64, 4), Some(1));
        assert_eq!(versions.word_at(64, 5), Some(2));
        assert_eq!(versions.word_at(64, 6), Some(2));
        assert_eq!(versions.word_at(64, 7), None);
        assert_eq!(versions.word_at(72, 4), Some(20));
        assert_eq!(versions.word_at(80, 4), None);
        versions.forget_for(&[5], u64::MAX);
        assert_eq!((versions.len(), versions.word_at(64, 5)), (1, Some(2)));
        versions.forget_for(&[], 6);
        assert_eq!(versions.len(), 1, "a snapshot may be beginning");
        versions.forget_for(&[], u64::MAX);
        assert!(versions.len() == 0 && !versions.may_have(&ram, 64));
    }

    #[test]
    fn what_is_between_two_snapshots_goes() {
        let ram = Ram::new(4096);
        let versions = Versions::new(&ram);
        let write = |mask| LineWrite { line: 64, mask, words: [9; 8] };
        for number in 1..100 {
            ram.store(64, number);
            ram.store(72, 1000 + number);
            versions.keep(&ram, number, &write(if number % 2 == 0 { 0b11 } else { 0b01 }));
        }
        let found = |number| (versions.word_at(64, number), versions.word_at(72, number));
        let (all, live) = ((0..100).map(found).collect::<Vec<_>>(), [20, 21, 60]);
        versions.forget_for(&live, 80);
        // At most one for each word and snapshot, and those that may be needed by one that begins.
        assert!(versions.len() <= 2 * live.len() + 19, "{}", versions.len());
        for number in live.into_iter().chain(80..100) {
            assert_eq!(found(number), all[number as usize], "{number}");
        }
    }

    #[test]
    fn words_that_all_snapshots_find_are_kept_once() {
        let ram = Ram::new(4096);
        let versions = Versions::new(&ram);
        let write = |mask| LineWrite { line: 64, mask, words: [9; 8] };
        // Beside one snapshot after commit 4.
        for number in 5..1000 {
            ram.store(64, number - 4);
            versions.keep_for(&ram, number, 4, &write(0b01));
        }
        assert_eq!((versions.len(), versions.word_at(64, 4)), (1, Some(1)));
        // Another word of the line, and a later snapshot.
        ram.store(72, 7);
        versions.keep_for(&ram, 1000, 4, &write(0b11));
        assert_eq!((versions.len(), versions.word_at(72, 4)), (2, Some(7)));
        ram.store(64, 5000);
        versions.begin();
        versions.keep_for(&ram, 1001, 1000, &write(0b01));
        versions.keep_for(&ram, 1002, 1000, &write(0b01));
        assert_eq!((versions.len(), versions.word_at(64, 1000)), (3, Some(5000)));
        assert_eq!(versions.word_at(64, 4), Some(1));
    }
}
