//! The ownership records that a commit has locked.

use crate::sync::stm::{Locked, Records, Stamp, Word};
use crate::{Error, Result};
use perdura_memory::{Memory, Object, Traced};

/// Records that are locked at a time are told apart in a simulator up to this many.
const TOLD: usize = 1 << 12;
const LOCK: u64 = size_of::<Locked>() as u64;

/// The records, each with what was there.
pub(super) struct Locks {
    /// The session's lane.
    lane: usize,
    locked: Vec<Locked>,
    own: Object,
}

impl Locks {
    pub(super) fn new<M: Memory>(memory: &M, lane: usize) -> Self {
        let own = memory.object(TOLD as u64 * LOCK);
        Locks { lane, locked: Vec::with_capacity(64), own }
    }

    fn at(index: usize) -> u64 {
        (index % TOLD) as u64 * LOCK
    }

    /// Locks the record of a line, unless that is done. Waits for sessions in lanes behind this one's, and gives way to
    /// those before it.
    ///
    /// # Errors
    /// `Conflict`, to give way.
    #[inline(always)]
    pub(super) fn lock<M: Memory>(
        &mut self,
        memory: &M,
        records: &Records,
        line: u64,
    ) -> Result<()> {
        let place = records.place(line);
        let before = records.load(memory, place);
        let noted = (self.lane, self.locked.len());
        if !before.is_locked() && records.lock(memory, place, before, noted) {
            self.note(memory, Locked { place, before });
            return Ok(());
        }
        self.lock_slowly(memory, records, place)
    }

    #[inline(always)]
    fn note<M: Memory>(&mut self, memory: &M, locked: Locked) {
        Traced::new(memory, self.own).wrote(Self::at(self.locked.len()), LOCK);
        self.locked.push(locked);
    }

    #[inline(never)]
    fn lock_slowly<M: Memory>(&mut self, memory: &M, records: &Records, place: u32) -> Result<()> {
        let mut turn = 0;
        loop {
            let before = records.load(memory, place);
            if !before.is_locked() {
                if records.lock(memory, place, before, (self.lane, self.locked.len())) {
                    self.note(memory, Locked { place, before });
                    return Ok(());
                }
            } else if before.owner() == self.lane {
                return Ok(());
            } else if before.owner() < self.lane {
                return Err(Error::Conflict);
            } else {
                memory.pause(turn);
                turn += 1;
            }
        }
    }

    /// Whether a record that holds `now` is locked by this session, and held `word` before.
    #[inline(always)]
    pub(super) fn held(&self, now: Word, word: Word) -> bool {
        now.is_locked()
            && now.owner() == self.lane
            && self.locked.get(now.noted()).is_some_and(|locked| locked.before == word)
    }

    /// The latest number of other sessions' commits that are stored over.
    #[inline]
    pub(super) fn latest_of_others(&self) -> u64 {
        let stamps = self.locked.iter().map(|locked| locked.before.stamp());
        let others = stamps.filter(|stamp| stamp.lane() != self.lane);
        others.map(Stamp::number).max().unwrap_or(0)
    }

    /// Unlocks all: what they guard has this stamp.
    #[inline]
    pub(super) fn unlock<M: Memory>(&mut self, memory: &M, records: &Records, stamp: Stamp) {
        for locked in self.locked.drain(..) {
            records.unlock(memory, locked.place, stamp);
        }
    }

    /// Unlocks all: what they guard is as it was.
    #[cold]
    pub(super) fn give_back<M: Memory>(&mut self, memory: &M, records: &Records) {
        for locked in self.locked.drain(..) {
            records.unlock(memory, locked.place, locked.before.stamp());
        }
    }
}
