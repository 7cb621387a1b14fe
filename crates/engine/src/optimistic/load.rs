//! Loads that are consistent with everything the transaction has read.

use super::session::{ANY, OptimisticSession, Way, sees_until};
use super::state::Durability;
use crate::error::Boxed;
use crate::planted::{self, Bug};
use crate::sync::stm::{RecordWord, Records};
use crate::writes::range::lay_over;
use crate::{Error, Result};
use perdura_memory::{LINE, Memory, line_of};

impl<M: Memory, C: Durability, S> OptimisticSession<M, C, S> {
    /// The word at `at`, which the transaction has not written.
    #[inline(always)]
    pub(super) fn load(&mut self, at: u64) -> Boxed<u64> {
        if self.way != Way::Concurrent {
            return self.load_otherwise(at);
        }
        if let Some(value) = self.load_concurrently(at) {
            return Ok(value);
        }
        if self.engine.core.memory.try_load(at).is_none() {
            return Err(Box::new(Error::outside(at)));
        }
        self.load_slowly(at, |memory| memory.load(at))
    }

    /// The same, for a concurrent transaction, if there is such a word, it is as of the transaction's moment, and the
    /// read set has room for it.
    #[inline(always)]
    pub(super) fn load_concurrently(&mut self, at: u64) -> Option<u64> {
        let engine = &*self.engine;
        let (memory, records) = (&*engine.core.memory, engine.records.view());
        let place = Records::place(at);
        let word = records.load(memory, place);
        let value = memory.try_load(at)?;
        let is_consistent = self.is_visible(word) && records.holds(memory, place, word);
        (is_consistent && self.reads.add_at_once(memory, place, word)).then_some(value)
    }

    /// Fills `to` from `at`, without what the transaction has written.
    pub(super) fn load_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if !self.engine.core.memory.contains(at, to.len() as u64) {
            return Err(Error::outside(at));
        }
        if self.way != Way::Concurrent {
            return self.load_bytes_otherwise(at, to);
        }
        let (mut at, mut rest) = (at, to);
        while !rest.is_empty() {
            let len = ((line_of(at) + LINE - at) as usize).min(rest.len());
            let (part, more) = rest.split_at_mut(len);
            // A snapshot may begin between two lines.
            match self.way {
                Way::Concurrent => self.load_slowly(at, |memory| memory.copy_out(at, part))?,
                _ => self.load_bytes_otherwise(at, part)?,
            }
            (at, rest) = (at + len as u64, more);
        }
        Ok(())
    }

    /// Whether the data guarded by a record that holds `word` is as it was at the transaction's moment, or has since
    /// been changed by this session only.
    #[inline(always)]
    fn is_visible(&self, word: RecordWord) -> bool {
        let stamp = word.stamp();
        !word.is_locked()
            && (stamp.number() <= self.moment.number || stamp.lane() == self.lane.number())
    }

    /// Adds a record to the read set.
    #[inline(always)]
    fn added(&mut self, place: u32, word: RecordWord) -> Boxed<()> {
        self.reads.add(&*self.engine.core.memory, place, word);
        if self.reads.is_full() { self.go_on_with_snapshot() } else { Ok(()) }
    }

    /// Loads with `load` from the line of `at`, once no commit has it locked; the transaction's moment moves to one at
    /// which everything it has read, including this, holds.
    #[inline(never)]
    fn load_slowly<R>(&mut self, at: u64, mut load: impl FnMut(&M) -> R) -> Boxed<R> {
        let mut turn = 0;
        loop {
            let engine = &*self.engine;
            let memory = &*engine.core.memory;
            let place = Records::place(at);
            let word = engine.records.view().load(memory, place);
            if word.is_locked() {
                memory.pause(turn);
                turn += 1;
                continue;
            }
            let loaded = load(memory);
            if !engine.records.view().holds(memory, place, word) {
                continue;
            }
            if self.is_visible(word) {
                return self.added(place, word).map(|()| loaded);
            }
            self.move_to(word.stamp().number())?;
        }
    }

    /// Moves the transaction's moment to now, and the clock to `number` at least.
    ///
    /// # Errors
    /// `Conflict` if anything that it has read has been changed.
    #[cold]
    pub(super) fn move_to(&mut self, number: u64) -> Boxed<()> {
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        if engine.clock.now(memory).number < number {
            engine.clock.raise(memory, number);
        }
        let moment = engine.clock.now(memory);
        // Before anything of that moment is taken for read: memory reused meanwhile shows in what leads there.
        if !planted::has(Bug::MovedUnpinned) {
            self.lane.sees_until(memory, sees_until(moment.number));
        }
        if !planted::has(Bug::MovedUnchecked) && !self.reads_hold() {
            return Err(self.fail());
        }
        self.moment = moment;
        Ok(())
    }

    /// Whether nothing that was read is locked or has been changed.
    fn reads_hold(&self) -> bool {
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        self.reads.all(memory, |read| engine.records.view().load(memory, read.place) == read.word)
    }

    /// From here on the transaction reads a snapshot, of a moment at which everything it has read holds.
    #[cold]
    fn go_on_with_snapshot(&mut self) -> Boxed<()> {
        let memory = &*self.engine.core.memory;
        // The snapshot will have what is allocated from now on until its moment, even if that is freed then.
        if !planted::has(Bug::SnapshotUnannounced) {
            self.lane.sees_until(memory, ANY);
        }
        let moment = self.engine.begin_snapshot(self.lane.number());
        self.lane.sees_until(memory, moment.number);
        if !self.reads_hold() {
            self.engine.end_snapshot(self.lane.number());
            return Err(self.fail());
        }
        (self.moment, self.way) = (moment, Way::Snapshot);
        self.reads.clear();
        Ok(())
    }

    /// As [`load`](Self::load), for transactions whose reads are not checked.
    #[inline(never)]
    fn load_otherwise(&mut self, at: u64) -> Boxed<u64> {
        match self.way {
            Way::Failed => return Err(Box::new(Error::Conflict)),
            Way::Hardware => return self.load_in_hardware(at),
            _ => {}
        }
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        let value = memory.try_load(at).ok_or_else(|| Error::outside(at))?;
        if self.way == Way::Snapshot && engine.versions.may_have(memory, at) {
            return Ok(engine.versions.word_at(at, self.moment.number).unwrap_or(value));
        }
        Ok(value)
    }

    fn load_bytes_otherwise(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        match self.way {
            Way::Failed => return Err(Error::Conflict),
            Way::Hardware => return Ok(self.load_bytes_in_hardware(at, to)?),
            _ => {}
        }
        let engine = &*self.engine;
        let memory = &*engine.core.memory;
        memory.copy_out(at, to);
        if self.way == Way::Snapshot {
            let kept = |line| match engine.versions.may_have(memory, line) {
                true => engine.versions.line_at(line, self.moment.number),
                false => None,
            };
            lay_over(kept, at, to);
        }
        Ok(())
    }
}
