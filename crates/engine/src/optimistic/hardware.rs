//! Bodies in hardware, of the engine `htm`: a transaction runs as a speculation of the memory's hardware from its begin to
//! the moment at which it has its locks, and commits as all others from there on. (NV-HALT's way: Coccimiglio, Brown and
//! Ravi, arXiv 2501.14783: hardware to read and to take fine-grained locks, which outlive it until the log is durable.)
//!
//! | | software | hardware |
//! |---|---|---|
//! | a word read | its ownership record, the word, the record again, an entry in the read set | the record, and the word: both are the hardware's read set now |
//! | a word written | buffered | the same |
//! | commit | an exchange for each record, the stamp, each read again | for each record a store, the stamp, and the end of the speculation, which makes all of it visible at one moment |
//! | then | log record, fence, words in place, unlock | the same |
//!
//! Nothing is stored in place by a speculation, so that nothing of it can be evicted to a medium before its record is
//! durable.
//!
//! What always holds:
//! - a speculation loads the ownership record of each line that it reads, and goes on only if it is not locked: whoever locks
//!   it makes the speculation lose. So it sees no half of a commit.
//! - it reads the gate and the clock before it ends: whoever changes them makes it lose. So what is said in
//!   [`lanes`](crate::sync::stm) and of the clock of commits that have announced themselves, and have their locks, holds of it.
//! - its stamp's number is later than those of all that it has read or overwrites, as every commit's; if the clock must
//!   move for that, it is given up, and the clock is moved outside.
//! - room for its record was reserved before it began: making room takes fences.
//!
//! One that the hardware gives up too often runs in software. On a processor a loss comes back to the begin of the
//! transaction ([`speculation`](perdura_memory::speculation)), so that the code behind `stop_speculating` runs in simulators only.

use super::session::{OptimisticSession, Way};
use super::state::Durability;
use crate::error::{Boxed, boxed};
use crate::planted::{self, Bug};
use crate::sync::stm::{Records, Stamp};
use crate::{Error, Mode, Ticket};
use perdura_memory::elision::{CANCELLED, TAKEN};
use perdura_memory::{HardwareAbort, LINE, Memory, line_of};

/// Codes with which speculations are given up, besides those of [`elision`](perdura_memory::elision): the clock must move
/// first; only the software path can go on.
const CLOCK: u8 = 1;
const SOFTWARE: u8 = 2;

impl<M: Memory, C: Durability, S> OptimisticSession<M, C, S> {
    /// Begins a transaction in hardware, unless it was lost too often or is forced to run in software; then it runs
    /// concurrently. None is running.
    pub(super) fn begin_speculating(&mut self, mode: Mode) {
        self.begin_as(mode, Way::Concurrent);
        self.seen = 0;
        let forced = match &self.engine.hardware {
            Some(patience) => {
                let (attempts, delay) = patience.now();
                self.elision.tune(attempts, delay);
                let lane = self.lane.number() as u32;
                patience.falls_back(&*self.engine.core.memory, lane)
            }
            None => true,
        };
        if forced || mode == Mode::Write && !self.reserve_ahead() {
            return;
        }
        let OptimisticSession { engine, elision, .. } = &mut *self;
        let memory = &*engine.core.memory;
        if elision.begin(memory, |why| engine.move_clock_after(why)) {
            self.way = Way::Hardware;
        } else {
            self.writer.give_back_room(&self.engine.core);
        }
    }

    /// Reserves room for a record as large as the session's largest so far; false if there is none.
    fn reserve_ahead(&mut self) -> bool {
        let OptimisticSession { engine, writer, largest, .. } = self;
        let core = &engine.core;
        let reserved =
            writer.reserve_bytes(core, *largest, |counters| match core.segments.may_release() {
                true => engine.empty(counters).map(drop),
                false => core.check_usable(),
            });
        if reserved.is_err() {
            // The software path says why, if it finds none either.
            self.writer.counters.aborts_capacity -= 1;
        }
        reserved.is_ok()
    }

    /// The word at `at`, which the transaction has not written.
    pub(super) fn load_in_hardware(&mut self, at: u64) -> Boxed<u64> {
        self.look_at_record(at)?;
        let memory = &*self.engine.core.memory;
        let value = memory.try_load(at).ok_or_else(|| Box::new(Error::outside(at)))?;
        self.still_runs()?;
        Ok(value)
    }

    /// Fills `to` from `at`, without what the transaction has written; in bounds.
    pub(super) fn load_bytes_in_hardware(&mut self, at: u64, to: &mut [u8]) -> Boxed<()> {
        let (mut at, mut rest) = (at, to);
        while !rest.is_empty() {
            let len = ((line_of(at) + LINE - at) as usize).min(rest.len());
            let (part, more) = rest.split_at_mut(len);
            self.look_at_record(at)?;
            self.engine.core.memory.copy_out(at, part);
            self.still_runs()?;
            (at, rest) = (at + len as u64, more);
        }
        Ok(())
    }

    /// Loads the record of the line of `at`, which must not be locked.
    #[inline]
    fn look_at_record(&mut self, at: u64) -> Boxed<()> {
        if planted::has(Bug::RecordUnread) {
            return Ok(());
        }
        let engine = &*self.engine;
        let (memory, records) = (&*engine.core.memory, engine.records.view());
        match records.load_in_speculation(memory, Records::place(at)) {
            Some(word) if word.is_locked() => Err(self.give_up(TAKEN)),
            Some(word) => {
                let stamp = word.stamp();
                if stamp.lane() != self.lane.number() {
                    self.seen = self.seen.max(stamp.number());
                }
                Ok(())
            }
            None => self.still_runs(),
        }
    }

    /// Fails if the speculation is lost.
    #[inline]
    fn still_runs(&mut self) -> Boxed<()> {
        match self.engine.core.memory.lost() {
            None => Ok(()),
            Some(why) => {
                self.engine.core.memory.stop_speculating(SOFTWARE);
                Err(self.lost(why))
            }
        }
    }

    /// Gives the speculation up.
    #[cold]
    pub(super) fn give_up(&mut self, code: u8) -> Box<Error> {
        let memory = &*self.engine.core.memory;
        let why = memory.lost().unwrap_or(HardwareAbort::Explicit(code));
        memory.stop_speculating(code);
        self.lost(why)
    }

    /// Gives it up for what hardware cannot do.
    #[cold]
    pub(super) fn leave_hardware(&mut self) -> Box<Error> {
        self.give_up(SOFTWARE)
    }

    /// The speculation is over, without a commit.
    #[cold]
    fn lost(&mut self, why: HardwareAbort) -> Box<Error> {
        self.elision.note(why);
        self.engine.move_clock_after(why);
        self.locks.forget_lost();
        self.way = Way::Failed;
        Box::new(Error::Conflict)
    }

    /// The program rolls the transaction back. False if it was lost before.
    pub(super) fn cancel_speculation(&mut self) -> bool {
        let memory = &*self.engine.core.memory;
        if let Some(why) = memory.lost() {
            memory.stop_speculating(SOFTWARE);
            self.lost(why);
            return false;
        }
        memory.stop_speculating(CANCELLED);
        self.elision.count_cancelled();
        true
    }

    /// Commits the transaction, whose body has run in hardware.
    pub(super) fn commit_in_hardware(&mut self, stored: bool) -> Boxed<Ticket> {
        if self.engine.core.is_broken() {
            return Err(self.leave_hardware());
        }
        if !stored {
            return self.end_reading();
        }
        let changes_sums = self.changes_sums();
        let sums = if changes_sums { self.writer.writes.stored_lines() as u64 } else { 0 };
        let bytes = self.writer.bytes_for(sums * super::commit::SUM_BYTES);
        if !self.writer.has_reserved(bytes) {
            // On a processor this is undone, too: sessions with large transactions have tried some of them first.
            self.largest = bytes.min(self.engine.core.geometry.segment_bytes);
            return Err(self.give_up(SOFTWARE));
        }
        let memory = &*self.engine.core.memory;
        let Some(begun) = self.lane.begin_commit_in_speculation(memory) else {
            return Err(self.give_up(SOFTWARE));
        };
        let stamp = match self.lock_in_hardware(changes_sums) {
            Ok(stamp) => stamp,
            Err(code) => {
                let error = self.give_up(code);
                self.lane.end_commit(&*self.engine.core.memory);
                return Err(error);
            }
        };
        self.serial = self.engine.clock.serial_at_end(&*self.engine.core.memory, true);
        if let Err(why) = self.engine.core.memory.end_speculation() {
            let error = self.lost(why);
            self.lane.end_commit(&*self.engine.core.memory);
            return Err(error);
        }
        // It has its locks.
        self.way = Way::Concurrent;
        self.largest = self.largest.max(bytes);
        let committed = self.commit_begun(|session| {
            session.engine.core.memory.check_fence().map_err(boxed)?;
            session.commit_stamped(begun.keeps, stamp)
        });
        if committed.is_ok() {
            self.elision.count_hardware();
        }
        committed
    }

    /// Ends a transaction that has stored nothing.
    fn end_reading(&mut self) -> Boxed<Ticket> {
        let engine = &*self.engine;
        let seen = self.latest_seen();
        let serial = engine.clock.serial_at_end(&*engine.core.memory, false);
        if let Err(why) = engine.core.memory.end_speculation() {
            return Err(self.lost(why));
        }
        self.serial = serial;
        self.writer.counters.read_only += 1;
        self.elision.count_hardware();
        Ok(seen)
    }

    /// Locks what the transaction stores to, and takes its stamp; or says with which code to give it up.
    fn lock_in_hardware(&mut self, changes_sums: bool) -> Result<Stamp, u8> {
        let early = match planted::has(Bug::StampBeforeLocks) {
            true => Some(self.stamp_in_hardware()?),
            false => None,
        };
        (self.locks.are_alone, self.locks.in_speculation) = (false, true);
        let mut locked = self.lock_lines();
        if changes_sums && locked.is_ok() {
            locked = self.lock_sums();
        }
        self.locks.in_speculation = false;
        locked.map_err(|_| TAKEN)?;
        match early {
            Some(stamp) => Ok(stamp),
            None => self.stamp_in_hardware(),
        }
    }

    fn stamp_in_hardware(&mut self) -> Result<Stamp, u8> {
        let OptimisticSession { engine, lane, locks, seen, .. } = &mut *self;
        let memory = &*engine.core.memory;
        let number = engine.clock.number_in_speculation(memory).ok_or(SOFTWARE)?;
        if locks.latest_of_others().max(*seen) > number {
            return Err(CLOCK);
        }
        if !Stamp::is_number(number + 1) {
            return Err(SOFTWARE);
        }
        lane.next_stamp(memory, number + 1).ok_or(CLOCK)
    }
}

impl<M: Memory, C, S> super::Optimistic<M, C, S> {
    /// Moves the clock, if a speculation has been given up for that: no stamp has a number later than the next one.
    fn move_clock_after(&self, why: HardwareAbort) {
        if why == HardwareAbort::Explicit(CLOCK) {
            let memory = &*self.core.memory;
            let number = self.clock.now(memory).number;
            self.clock.raise(memory, number + 1);
        }
    }
}
