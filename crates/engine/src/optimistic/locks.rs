//! The ownership records that a commit has locked.

use crate::Error;
use crate::error::Boxed;
use crate::sync::stm::{Locked, RecordWord, Records, RecordsView, Stamp};
use perdura_memory::atomics::pause;
use perdura_memory::{Memory, Object, Traced};

/// The most records locked at a time that have distinct addresses in a simulator.
const TOLD: usize = 1 << 12;
const LOCK: u64 = size_of::<Locked>() as u64;

/// The records, each with its previous word.
pub(crate) struct Locks {
    /// The session's lane.
    lane: usize,
    /// Whether this is the only session that locks.
    pub(crate) are_alone: bool,
    /// Whether it locks in a speculation of the memory's hardware.
    pub(crate) in_speculation: bool,
    locked: Vec<Locked>,
    /// The latest number of another session's commit that is overwritten.
    latest: u64,
    own: Object,
}

impl Locks {
    pub(crate) fn new<M: Memory>(memory: &M, lane: usize) -> Self {
        let own = memory.object(TOLD as u64 * LOCK);
        let locked = Vec::with_capacity(64);
        Locks { lane, are_alone: false, in_speculation: false, locked, latest: 0, own }
    }

    fn at(index: usize) -> u64 {
        (index % TOLD) as u64 * LOCK
    }

    /// Locks the record of a line, unless that is done. Waits for sessions in higher lanes, and gives way to those in
    /// lower ones. `records` is a view of `all`.
    ///
    /// # Errors
    /// `Conflict`, to give way.
    #[inline(always)]
    pub(crate) fn lock<M: Memory>(
        &mut self,
        memory: &M,
        (all, records): (&Records, RecordsView<'_>),
        line: u64,
    ) -> Boxed<()> {
        let place = Records::place(line);
        if self.in_speculation {
            return self.lock_in_speculation(memory, records, place);
        }
        let before = records.load(memory, place);
        let noted = (self.lane, self.locked.len());
        if self.are_alone {
            if !before.is_locked() {
                records.lock_alone(memory, place, noted);
                self.note(memory, Locked { place, before });
            }
            return Ok(());
        }
        if !before.is_locked() && records.lock(memory, place, before, noted) {
            self.note(memory, Locked { place, before });
            return Ok(());
        }
        self.lock_slowly(memory, all, place)
    }

    #[inline(never)]
    fn lock_in_speculation<M: Memory>(
        &mut self,
        memory: &M,
        records: RecordsView<'_>,
        place: u32,
    ) -> Boxed<()> {
        match records.load_in_speculation(memory, place) {
            Some(before) if !before.is_locked() => {
                records.lock_in_speculation(memory, place, (self.lane, self.locked.len()));
                self.note(memory, Locked { place, before });
                Ok(())
            }
            // Another line with the same record.
            Some(before) if before.owner() == self.lane => Ok(()),
            _ => Err(Box::new(Error::Conflict)),
        }
    }

    #[inline(always)]
    fn note<M: Memory>(&mut self, memory: &M, locked: Locked) {
        Traced::new(memory, self.own).wrote(Self::at(self.locked.len()), LOCK);
        self.locked.push(locked);
        let stamp = locked.before.stamp();
        if stamp.lane() != self.lane && stamp.number() > self.latest {
            self.latest = stamp.number();
        }
    }

    #[inline(never)]
    fn lock_slowly<M: Memory>(&mut self, memory: &M, records: &Records, place: u32) -> Boxed<()> {
        let records = records.view();
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
                return Err(Box::new(Error::Conflict));
            } else {
                pause(memory, turn);
                turn += 1;
            }
        }
    }

    /// All locks have been taken.
    #[inline(always)]
    pub(crate) fn complete(&self, records: RecordsView<'_>) {
        if self.are_alone {
            records.after_locks();
        }
    }

    /// Whether a record that holds `now` is locked by this session, and held `word` before.
    #[inline(always)]
    pub(crate) fn held(&self, now: RecordWord, word: RecordWord) -> bool {
        now.is_locked()
            && now.owner() == self.lane
            && self.locked.get(now.noted()).is_some_and(|locked| locked.before == word)
    }

    /// The latest number of another session's commit that is overwritten.
    #[inline]
    pub(crate) fn latest_of_others(&self) -> u64 {
        self.latest
    }

    /// Unlocks all records, with this stamp for their data.
    #[inline]
    pub(crate) fn unlock<M: Memory>(&mut self, memory: &M, records: RecordsView<'_>, stamp: Stamp) {
        for locked in &self.locked {
            records.unlock(memory, locked.place, stamp);
        }
        self.forget();
    }

    /// Forgets records that were locked in a speculation, which is lost: the hardware has put them back.
    #[cold]
    pub(crate) fn forget_lost(&mut self) {
        self.forget();
        self.in_speculation = false;
    }

    /// Unlocks all records, with their previous words.
    #[cold]
    pub(crate) fn give_back<M: Memory>(&mut self, memory: &M, records: RecordsView<'_>) {
        for locked in &self.locked {
            records.unlock(memory, locked.place, locked.before.stamp());
        }
        self.forget();
    }

    #[inline(always)]
    fn forget(&mut self) {
        self.locked.clear();
        if self.latest != 0 {
            self.latest = 0;
        }
    }
}
