//! The version store: words that commits have overwritten, kept for snapshots. A transaction on a snapshot reads one
//! committed state, however long that takes, without waiting for a commit or making one wait.
//!
//! A commit that finds snapshots notes, before it stores anything in place, the present values of the words that it
//! will store to, with its number. A snapshot of the number `n` loads a word and then looks here: if commits with later
//! numbers have noted the word's value, the oldest of these gives its value at `n`.
//!
//! What always holds: while there are snapshots, a word that a commit in progress may store to in place has its old
//! value here first. It stays until no older snapshot is left.

use super::kept::{self, Kept, Note};
use super::{LineWrite, hash, word_in_line};
use perdura_memory::{Memory, Object, Traced, WORD, line_of};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shards, each with a lock, which is held during no access to the memory.
const SHARDS: usize = 64;
/// Counts of lines, by a hash: for most words that are read they show that there is nothing here.
const COUNTS: usize = 4096;
const COUNT: u64 = size_of::<u32>() as u64;
/// Versions that are no reason to look at all of them.
const FEW: usize = 4096;
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

/// Some of the lines.
#[derive(Default)]
struct Shard {
    lines: HashMap<u64, Vec<Version>, BuildHasherDefault<LineHasher>>,
    /// The number and the line of each version, as they were kept: nearly in the order of the numbers.
    log: Vec<(u64, u64)>,
}

/// When snapshots have ended: what the others need.
pub(crate) struct Ended<'a> {
    /// The numbers of those that are left, in order.
    pub(crate) left: &'a [u64],
    /// The numbers of those that have ended.
    pub(crate) ended: &'a [u64],
    /// Up to this number, no snapshot needs any version but those that are left.
    pub(crate) known: u64,
}

/// The versions.
pub(crate) struct Versions {
    shards: Box<[Mutex<Shard>]>,
    counts: Box<[AtomicU32]>,
    kept: Kept,
    /// How many versions there are, and how many were left when all had been looked at.
    total: AtomicUsize,
    swept: AtomicUsize,
    /// How many parts have been looked at for that.
    sweeps: AtomicUsize,
    /// The highest number of one that has been kept.
    newest: AtomicU64,
    own: Object,
}

impl Versions {
    pub(crate) fn new<M: Memory>(memory: &M) -> Self {
        Versions {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            kept: Kept::new(memory.limit()),
            total: AtomicUsize::new(0),
            swept: AtomicUsize::new(0),
            sweeps: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            own: memory.object(NOTES + kept::BYTES),
        }
    }

    /// Says that a snapshot of this number begins. No commit that asks what the others find is in progress.
    pub(crate) fn begin(&self, number: u64) {
        self.kept.begin(number);
    }

    /// The highest number of a version that has been kept.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
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
        self.newest.fetch_max(number, Ordering::SeqCst);
        let mut shard = self.shard(write.line);
        shard.lines.entry(write.line).or_default().push(Version { number, before });
        shard.log.push((number, write.line));
        // Inside the lock: what another thread forgets has been counted. A line that is forgotten before would seem to have
        // no version at all, though an older one is there.
        self.total.fetch_add(1, Ordering::Relaxed);
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
        let note = self.kept.get(own(), write.line, number);
        if note.number > newest && write.mask & !note.words == 0 {
            return;
        }
        let mut note = match self.may_have(memory, write.line) {
            true => self.words_since(write.line, newest),
            false => Note { words: 0, number: u64::MAX },
        };
        if write.mask & !note.words != 0 {
            self.keep(memory, number, write);
            // A commit that was in progress when the newest of them began may have an earlier number.
            if number > newest {
                note = Note { words: note.words | write.mask, number: note.number.min(number) };
            }
        }
        if note.words != 0 {
            self.kept.set(own(), write.line, note);
        }
    }

    /// The words of the line of which there are versions later than `number`, and the first of these.
    fn words_since(&self, line: u64, number: u64) -> Note {
        let nothing = Note { words: 0, number: u64::MAX };
        self.shard(line).lines.get(&line).map_or(nothing, |versions| {
            let later = versions.iter().rev().take_while(|version| version.number > number);
            later.fold(nothing, |note, version| Note {
                words: note.words | version.before.mask,
                number: note.number.min(version.number),
            })
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
        for version in shard.lines.get(&line)?.iter().filter(|version| version.number > number) {
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

    /// Forgets the versions that no snapshot needs: each needs the first version of a word that is later than itself.
    ///
    /// One that has ended needed versions only up to the next snapshot: these are looked at. All are looked at if none is
    /// left, and when they have become twice as many: those kept by commits beside a beginning snapshot are passed over.
    pub(crate) fn forget(&self, ended: &Ended<'_>) {
        let total = || self.total.load(Ordering::Relaxed);
        if ended.left.is_empty() {
            self.shards.iter().for_each(|shard| self.sweep(&mut lock(shard), ended));
            return self.swept.store(total(), Ordering::Relaxed);
        }
        if total() > 2 * self.swept.load(Ordering::Relaxed) + FEW {
            // A part each time, so that no reader's end takes long.
            let part = self.sweeps.fetch_add(1, Ordering::Relaxed) % SHARDS;
            self.sweep(&mut lock(&self.shards[part]), ended);
            if part == SHARDS - 1 {
                self.swept.store(total(), Ordering::Relaxed);
            }
        }
        for &number in ended.ended {
            let next = ended.left.iter().find(|left| **left > number).copied().unwrap_or(u64::MAX);
            for shard in &self.shards {
                self.forget_between(&mut lock(shard), (number, next), ended);
            }
        }
    }

    /// Looks at all lines of a shard.
    fn sweep(&self, shard: &mut Shard, ended: &Ended<'_>) {
        let Shard { lines, log } = shard;
        log.clear();
        lines.retain(|line, versions| {
            self.prune(*line, versions, ended);
            log.extend(versions.iter().map(|version| (version.number, *line)));
            !versions.is_empty()
        });
        log.sort_unstable();
        if log.len() * 4 < log.capacity() {
            log.shrink_to_fit();
        }
    }

    /// Looks at the lines that have versions later than the first number and up to the second one.
    fn forget_between(&self, shard: &mut Shard, (from, to): (u64, u64), ended: &Ended<'_>) {
        let Shard { lines, log } = shard;
        let begin = log.partition_point(|entry| entry.0 <= from);
        let end = log.partition_point(|entry| entry.0 <= to).max(begin);
        for (_, line) in &log[begin..end] {
            if let Some(versions) = lines.get_mut(line) {
                self.prune(*line, versions, ended);
                if versions.is_empty() {
                    lines.remove(line);
                }
            }
        }
        let stays = |(number, line): &(u64, u64)| {
            let versions = lines.get(line);
            versions.is_some_and(|some| some.iter().any(|version| version.number == *number))
        };
        let left: Vec<_> = log.drain(begin..end).filter(stays).collect();
        log.splice(begin..begin, left);
    }

    fn prune(&self, line: u64, versions: &mut Vec<Version>, ended: &Ended<'_>) {
        let before = versions.len();
        let (mut covered, mut since) = (0, None);
        versions.retain(|version| {
            if version.number > ended.known {
                return true;
            }
            let earlier = ended.left.partition_point(|number| *number < version.number);
            if since.replace(earlier) != Some(earlier) {
                covered = 0;
            }
            let needed = version.before.mask & !covered;
            covered |= version.before.mask;
            earlier > 0 && needed != 0
        });
        let gone = before - versions.len();
        self.count(line).1.fetch_sub(gone as u32, Ordering::SeqCst);
        self.total.fetch_sub(gone, Ordering::Relaxed);
        if versions.len() * 4 < versions.capacity() {
            versions.shrink_to_fit();
        }
    }

    /// How many lines have versions.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| lock(shard).lines.values().map(Vec::len).sum::<usize>())
            .sum()
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::random::SplitMix64;
    use perdura_memory::{LINE, Ram};

    fn forget(versions: &Versions, left: &[u64], ended: &[u64], known: u64) {
        versions.forget(&Ended { left, ended, known });
    }

    /// A line whose old words a snapshot needs never seems to have none, while newer versions come and are forgotten.
    #[test]
    fn a_needed_version_is_always_seen() {
        const WRITERS: usize = 6;
        let ram = Ram::new(4096);
        let versions = Versions::new(&ram);
        let write = LineWrite { line: 64, mask: 1, words: [9; 8] };
        versions.keep(&ram, 2, &write);
        // More threads than processors, so that some are preempted anywhere.
        let (next, running) = (AtomicU64::new(3), AtomicUsize::new(WRITERS));
        let (versions, ram, next, running) = (&versions, &ram, &next, &running);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        versions.keep(ram, next.fetch_add(1, Ordering::Relaxed), &write);
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            for _ in 0..2 {
                scope.spawn(move || {
                    while running.load(Ordering::Relaxed) > 0 {
                        forget(versions, &[1], &[2], u64::MAX);
                    }
                });
            }
            while running.load(Ordering::Relaxed) > 0 {
                assert!(versions.may_have(ram, 64));
            }
        });
    }

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
        forget(&versions, &[5], &[4], u64::MAX);
        assert_eq!((versions.len(), versions.word_at(64, 5)), (1, Some(2)));
        forget(&versions, &[], &[], 6);
        assert_eq!(versions.len(), 1, "a snapshot may be beginning");
        forget(&versions, &[], &[], u64::MAX);
        assert!(versions.len() == 0 && !versions.may_have(&ram, 64));
    }

    #[test]
    fn drops_versions_between_snapshots() {
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
        let ended: Vec<u64> = (0..80).filter(|number| !live.contains(number)).collect();
        forget(&versions, &live, &ended, 80);
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
        versions.begin(1000);
        versions.keep_for(&ram, 1001, 1000, &write(0b01));
        versions.keep_for(&ram, 1002, 1000, &write(0b01));
        assert_eq!((versions.len(), versions.word_at(64, 1000)), (3, Some(5000)));
        assert_eq!(versions.word_at(64, 4), Some(1));
    }

    /// Commits, and snapshots that begin and end, at random: each snapshot always reads its state, and little is kept.
    #[test]
    fn snapshots_read_their_states() {
        const LINES: u64 = 40;
        let words = || (0..LINES * 8).map(|word| 64 + word * WORD);
        for seed in 0..30 {
            let mut random = SplitMix64::new(seed);
            let (ram, mut live) = (Ram::new(4096), Vec::<(u64, Vec<u64>)>::new());
            let (versions, mut most) = (Versions::new(&ram), 0);
            for number in 1..600 {
                let newest = live.iter().map(|snapshot| snapshot.0).max();
                for _ in 0..=random.below(3) {
                    let line = 64 + random.below(LINES) * LINE;
                    let mask = random.below(256) as u8 & random.below(256) as u8;
                    if let Some(newest) = newest {
                        let write = LineWrite { line, mask, words: [0; 8] };
                        versions.keep_for(&ram, number, newest, &write);
                    }
                    for word in (0..8).filter(|word| mask & 1 << word != 0) {
                        ram.store(line + word * WORD, random.below(1 << 60));
                    }
                }
                match random.below(6) {
                    0 if live.len() < 4 => {
                        versions.begin(number);
                        live.push((number, words().map(|at| ram.load(at)).collect()));
                    }
                    1 if !live.is_empty() => {
                        let (ended, _) = live.swap_remove(random.below(live.len() as u64) as usize);
                        let mut left: Vec<u64> = live.iter().map(|snapshot| snapshot.0).collect();
                        left.sort_unstable();
                        forget(&versions, &left, &[ended], versions.newest());
                        most = most.max(versions.len() as u64);
                        // A version for each word and snapshot, if no two of them share one.
                        assert!(versions.len() as u64 <= left.len() as u64 * LINES * 8);
                    }
                    _ => {}
                }
                for (number, state) in &live {
                    for (at, value) in words().zip(state) {
                        let found = versions.word_at(at, *number).unwrap_or(ram.load(at));
                        assert_eq!(found, *value, "the word at {at} at {number}, seed {seed}");
                    }
                }
            }
            assert!(most > 50, "{most} versions, seed {seed}");
            forget(&versions, &[], &[], versions.newest());
            assert!(versions.len() == 0 && words().all(|at| !versions.may_have(&ram, at)));
        }
    }
}
