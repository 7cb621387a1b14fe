//! Ownership records: for each line, by a hash, the stamp of the commit that stored to it last, or the session that has
//! it locked.
//!
//! | bits | a stamp | a lock |
//! |---|---|---|
//! | 0 | 0 | 1 |
//! | 1 to 12 | | the session's lane |
//! | from 1, from 13 | the stamp | where the session has noted the previous word |

use super::stamp::{LANE_BITS, LANES, Stamp};
use crate::planted::{self, Bug};
use perdura_memory::atomics::{
    AtomicU64, Ordering, WordTable, WordTableView, fence, prefetch, sequential,
};
use perdura_memory::own::{exchange, read_as_one, write_as_one};
use perdura_memory::{LINE, Memory, Object, Speculation, Traced, WORD};

/// The least and the most records: the latter suffice for 64 MiB, beyond which lines share them.
const LEAST: u64 = if cfg!(loom) { 2 } else { 1 << 10 };
const MOST: u64 = 1 << 20;
const NOTED: u32 = 1 + LANE_BITS;

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordWord(u64);

impl RecordWord {
    /// Of a record that no commit has stored to.
    pub(crate) const NONE: RecordWord = RecordWord(0);

    /// Whether a commit has locked it.
    #[inline(always)]
    pub(crate) const fn is_locked(self) -> bool {
        self.0 & 1 != 0
    }

    /// The lane of the session that has locked it.
    #[inline(always)]
    pub(crate) const fn owner(self) -> usize {
        (self.0 >> 1) as usize % LANES
    }

    /// Where that session has noted the previous word.
    #[inline(always)]
    pub(crate) const fn noted(self) -> usize {
        (self.0 >> NOTED) as usize
    }

    /// The stamp, if it is not locked.
    #[inline(always)]
    pub(crate) const fn stamp(self) -> Stamp {
        Stamp(self.0 >> 1)
    }
}

/// A record that a session has locked, and its previous word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locked {
    pub(crate) place: u32,
    pub(crate) before: RecordWord,
}

/// The contents of a record that a session has locked.
#[inline(always)]
const fn locked(lane: usize, noted: usize) -> u64 {
    (noted as u64) << NOTED | (lane as u64) << 1 | 1
}

/// The records.
pub(crate) struct Records {
    words: WordTable,
    own: Object,
}

impl Records {
    /// For a memory, all of them with no stamp.
    pub(crate) fn new<M: Memory>(memory: &M) -> Self {
        let count = (memory.limit() / LINE).next_power_of_two().clamp(LEAST, MOST);
        let words = WordTable::new(count as usize);
        // What a lost speculation has locked is put back.
        let own = match memory.speculation() {
            Speculation::Absent => memory.object(count * WORD),
            _ => memory.words_object(words.shared()),
        };
        Records { words, own }
    }

    /// The records, to look at several: their places stay in registers.
    #[inline(always)]
    pub(crate) fn view(&self) -> RecordsView<'_> {
        RecordsView { words: self.words.view(), own: self.own }
    }

    /// The number of the record of the line of `at`. Neighbouring lines have neighbouring records.
    #[inline(always)]
    pub(crate) fn place(at: u64) -> u32 {
        let line = at / LINE;
        // Where lines share records, there are as many as there may be.
        (line ^ line >> MOST.ilog2()) as u32 % MOST as u32
    }
}

/// The records.
#[derive(Clone, Copy)]
pub(crate) struct RecordsView<'a> {
    words: WordTableView<'a>,
    own: Object,
}

impl<'a> RecordsView<'a> {
    #[inline(always)]
    fn word(self, place: u32) -> &'a AtomicU64 {
        self.words.at(place)
    }

    /// Where a record is among all of them, in bytes.
    #[inline(always)]
    fn at(self, place: u32) -> u64 {
        self.words.wrapped(place) * WORD
    }

    /// Prefetches the record of the line of `at`.
    #[inline(always)]
    pub(crate) fn prefetch(self, at: u64) {
        prefetch(self.word(Records::place(at)));
    }

    /// Loads a record, before its data is loaded.
    #[inline(always)]
    pub(crate) fn load<M: Memory>(self, memory: &M, place: u32) -> RecordWord {
        Traced::new(memory, self.own).read(u64::from(place) * WORD, WORD);
        RecordWord(self.word(place).load(Ordering::SeqCst))
    }

    /// Whether it still holds `word`, after its data was loaded.
    #[inline(always)]
    pub(crate) fn holds<M: Memory>(self, memory: &M, place: u32, word: RecordWord) -> bool {
        fence(Ordering::Acquire);
        self.load(memory, place) == word
    }

    /// Locks a record that holds `before`, which is unlocked. The previous word is noted at `noted`.
    #[inline(always)]
    pub(crate) fn lock<M: Memory>(
        self,
        memory: &M,
        place: u32,
        before: RecordWord,
        (lane, noted): (usize, usize),
    ) -> bool {
        let locked = locked(lane, noted);
        let (succeeds, fails) = (Ordering::SeqCst, Ordering::Relaxed);
        if planted::has(Bug::LockedInTwoSteps) {
            Traced::new(memory, self.own).exchange(u64::from(place) * WORD, WORD);
            let unlocked = self.word(place).load(Ordering::SeqCst) == before.0;
            Traced::new(memory, self.own).wrote(u64::from(place) * WORD, WORD);
            if unlocked {
                self.word(place).store(locked, Ordering::SeqCst);
            }
            return unlocked;
        }
        let locks = exchange(memory, self.own, self.at(place), || {
            self.word(place).compare_exchange(before.0, locked, succeeds, fails).is_ok()
        });
        sequential();
        locks
    }

    /// Loads a record in a speculation; `None` if that is lost.
    #[inline(always)]
    pub(crate) fn load_in_speculation<M: Memory>(
        self,
        memory: &M,
        place: u32,
    ) -> Option<RecordWord> {
        read_as_one(memory, self.own, self.at(place), || {
            RecordWord(self.word(place).load(Ordering::Relaxed))
        })
    }

    /// Locks a record that is not locked in a speculation, in which it was loaded: others see that when the hardware
    /// commits.
    #[inline(always)]
    pub(crate) fn lock_in_speculation<M: Memory>(
        self,
        memory: &M,
        place: u32,
        (lane, noted): (usize, usize),
    ) {
        write_as_one(memory, self.own, self.at(place), || {
            self.word(place).store(locked(lane, noted), Ordering::Relaxed);
        });
    }

    /// The same for the only session that locks: it needs no locked instruction for each record, and one
    /// [fence](Self::after_locks) for all.
    #[inline(always)]
    pub(crate) fn lock_alone<M: Memory>(
        self,
        memory: &M,
        place: u32,
        (lane, noted): (usize, usize),
    ) {
        self.word(place).store(locked(lane, noted), Ordering::Relaxed);
        Traced::new(memory, self.own).wrote(u64::from(place) * WORD, WORD);
    }

    /// Loads from here on happen with the locks visible to all other sessions.
    #[inline(always)]
    pub(crate) fn after_locks(self) {
        fence(Ordering::SeqCst);
    }

    /// Stores from here on become visible no earlier than the locks.
    #[inline(always)]
    pub(crate) fn before_stores(self) {
        fence(Ordering::Release);
    }

    /// Unlocks a record, with this stamp for its data.
    #[inline(always)]
    pub(crate) fn unlock<M: Memory>(self, memory: &M, place: u32, stamp: Stamp) {
        self.word(place).store(stamp.0 << 1, Ordering::Release);
        Traced::new(memory, self.own).wrote(u64::from(place) * WORD, WORD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn a_lock_names_its_lane_and_the_noted_word() {
        let ram = Ram::new(1 << 20);
        let table = Records::new(&ram);
        let records = table.view();
        let place = Records::place(640);
        let before = records.load(&ram, place);
        assert!(!before.is_locked() && before.stamp() == Stamp::default());
        assert!(records.lock(&ram, place, before, (LANES - 1, 70_000)));
        let word = records.load(&ram, place);
        assert!(word.is_locked());
        assert_eq!((word.owner(), word.noted()), (LANES - 1, 70_000));
        assert!(!records.lock(&ram, place, before, (3, 0)));
        let stamp = Stamp::new(5, 9);
        records.unlock(&ram, place, stamp);
        assert_eq!(records.load(&ram, place).stamp(), stamp);
        assert!(!records.holds(&ram, place, before));
    }

    #[test]
    fn lines_of_one_page_have_records_of_their_own() {
        let places: std::collections::BTreeSet<u32> =
            (0..64).map(|line| Records::place(4096 * 7 + line * LINE)).collect();
        assert_eq!(places.len(), 64);
        assert_eq!(Records::place(64), Records::place(127));
    }
}
