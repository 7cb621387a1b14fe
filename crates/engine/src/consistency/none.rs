//! No consistency at all: stores go in place at once.
//!
//! Overwritten words may be kept in ordinary memory ([`Unlogging`]), so that a transaction can still be rolled back
//! while the program runs. After a crash the pool holds whatever had reached it; after a clean close it is whole.

use super::core::{Attempt, cut_short};
use crate::access::put_bytes;
use crate::engine::{Named, SESSIONS};
use crate::sums::{self, Sums};
use crate::sync::Synchronisation;
use crate::{Access, Counters, Engine, Error, Mark, Mode, Recovery, Result, Session, Ticket};
use perdura_memory::lock::{Lock, Seat, Stays};
use perdura_memory::{DirtyLines, HardwareAbort, LINE, Memory, Object, PAGE, Touch, WORD};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is done in addition to storing in place.
pub trait Unlogging: 'static {
    /// Whether a transaction keeps the words that it overwrites, so that it can be rolled back.
    const KEEPS_OLD_WORDS: bool;
}

/// No consistency; old words are kept.
pub struct Nothing;

impl Unlogging for Nothing {
    const KEEPS_OLD_WORDS: bool = true;
}

/// The engine.
pub struct Unlogged<M: Memory, C: Unlogging, S: Synchronisation> {
    memory: Arc<M>,
    lock: Arc<Lock<S, (), ()>>,
    /// What a clean close must write back, where it cannot write back everything.
    dirty: Option<DirtyLines>,
    /// A panic has cut a rollback or a checkpoint short: the memory holds no committed state, or it may not be durable.
    broken: AtomicBool,
    /// A transaction that had stored was rolled back without old words.
    spoilt: AtomicBool,
    /// Transactions that have stored something, in the order in which they ended, where no lock orders them.
    ended: AtomicU64,
    /// Checksums of data at rest, if the memory has any.
    sums: Option<Sums>,
    consistency: PhantomData<fn() -> C>,
}

/// One thread's transactions on [`Unlogged`].
pub struct UnloggedSession<M: Memory, C: Unlogging, S: Synchronisation> {
    engine: Arc<Unlogged<M, C, S>>,
    seat: Seat<S, (), ()>,
    /// The transaction writes. Where nothing keeps writers apart, its seat is a reader's nevertheless.
    writes: bool,
    /// Its place among those that have ended.
    serial: u64,
    /// Offsets and old values of the words stored, oldest first.
    old: Vec<(u64, u64)>,
    /// Stores so far of a transaction that keeps no old words.
    stored: usize,
    /// The memory's handle for its fields, its counters and the old words.
    own: Object,
    counters: Counters,
    wrote: bool,
    /// Pages are compared with their sums before their contents are trusted.
    compares: bool,
    /// No page from this offset on has a sum.
    summed: u64,
    /// Words before this offset may be written: 0 unless the transaction may write.
    writable: u64,
    /// Why the memory's hardware has refused to begin the transaction.
    refused: Option<HardwareAbort>,
}

/// Offsets of a session's counters and old words in its object, and how many of the latter have distinct addresses.
const COUNTERS: u64 = LINE;
const OLD: u64 = 2 * LINE;
const OLD_WORDS: u64 = 1 << 16;
const OLD_BYTES: u64 = size_of::<(u64, u64)>() as u64;

impl<M, C, S> Engine<M> for Unlogged<M, C, S>
where
    M: Memory + 'static,
    C: Unlogging,
    S: Synchronisation,
    (C, S): Named,
{
    const NAME: &'static str = <(C, S)>::NAME;
    const CRASH_CONSISTENT: bool = false;
    const ROLLS_BACK: bool = C::KEEPS_OLD_WORDS;
    const ISOLATES: bool = S::EXCLUDES;
    const IN_ORDER: bool = S::EXCLUDES;
    // Threads that share nothing would share sums.
    const KEEPS_CHECKSUMS: bool = S::EXCLUDES;
    type Session = UnloggedSession<M, C, S>;

    fn format(_memory: &M, _area: Range<u64>) {}

    fn inspect(_memory: &M, _area: Range<u64>) -> Result<Recovery> {
        Ok(Recovery::default())
    }

    fn recover(_memory: &M, _area: Range<u64>) -> Result<Recovery> {
        Ok(Recovery::default())
    }

    fn start_with_sums(memory: Arc<M>, _area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        let dirty = (!memory.domain().evicts()).then(|| DirtyLines::new(memory.limit()));
        Ok(Arc::new(Unlogged {
            lock: Arc::new(Lock::new(&*memory, SESSIONS, (), ())),
            memory,
            dirty,
            broken: AtomicBool::new(false),
            spoilt: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            sums,
            consistency: PhantomData,
        }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        let seat = Seat::new(&self.lock).ok_or(Error::Sessions { limit: SESSIONS as u64 })?;
        Ok(UnloggedSession {
            engine: self.clone(),
            seat,
            writes: false,
            serial: 0,
            old: Vec::new(),
            stored: 0,
            own: self.memory.object(OLD + OLD_WORDS * OLD_BYTES),
            counters: Counters::default(),
            wrote: false,
            compares: self.sums.as_ref().is_some_and(Sums::has_all),
            summed: self.sums.as_ref().map_or(0, |sums| sums.places().end),
            writable: 0,
            refused: None,
        })
    }

    fn reclaimable(&self) -> Ticket {
        Ticket(u64::MAX)
    }

    fn checkpoint(&self) -> Result<()> {
        self.check_usable()?;
        self.lock.writing(&*self.memory, |mut right| {
            if !S::EXCLUDES {
                right.shared.be_alone(&*self.memory, &Stays);
            }
            self.check_whole()?;
            let mut attempt = Attempt { failed: &self.broken, finished: false };
            match &self.dirty {
                Some(dirty) => {
                    dirty.drain(|run| self.memory.write_back(run.start, run.end - run.start));
                }
                None => self.memory.write_back(0, self.memory.len()),
            }
            self.memory.fence();
            self.memory.check_fence()?;
            attempt.finished = true;
            Ok(())
        })
    }
}

impl<M: Memory, C: Unlogging, S: Synchronisation> Unlogged<M, C, S> {
    /// Whether the memory holds the committed state.
    #[inline]
    fn check_whole(&self) -> Result<()> {
        if !C::KEEPS_OLD_WORDS && self.spoilt.load(Ordering::Relaxed) {
            return Err(spoilt());
        }
        if self.broken.load(Ordering::Relaxed) { Err(cut_short()) } else { Ok(()) }
    }

    /// Checks that the memory is this process's, and its file not lost.
    #[inline]
    fn check_usable(&self) -> Result<()> {
        if self.memory.is_usable() { Ok(()) } else { Ok(self.memory.check_fence()?) }
    }
}

#[cold]
fn spoilt() -> Error {
    Error::Invalid(
        "a transaction was rolled back after it had stored, which the engines 'plain' and 'seq' cannot undo: nothing \
         is committed any more; go back to a copy of the pool, or use an engine that can roll back",
    )
}

impl<M: Memory, C: Unlogging, S: Synchronisation> UnloggedSession<M, C, S> {
    #[inline(always)]
    fn check_write(&self, at: u64, len: u64) -> Result<()> {
        if !self.writes {
            return Err(Error::ReadOnly);
        }
        if let Some(abort) = self.refused {
            return Err(Error::Hardware(abort));
        }
        if !at.is_multiple_of(8) || !self.engine.memory.contains(at, len) {
            return Err(Error::outside(at));
        }
        if C::KEEPS_OLD_WORDS { Ok(()) } else { self.engine.check_whole() }
    }

    /// Rechecks the bounds: the memory may have grown since the transaction began.
    #[cold]
    #[inline(never)]
    fn look_for_room(&mut self, at: u64) -> Result<()> {
        self.check_write(at, WORD)?;
        self.writable = self.engine.memory.len() & !(WORD - 1);
        Ok(())
    }

    /// Writes a word of a page that has a sum.
    #[inline(never)]
    fn write_summed(&mut self, at: u64, value: u64) -> Result<()> {
        self.compare(at, WORD)?;
        let before = self.engine.memory.load(at);
        self.change_sum(at, || sums::change(at, before, value));
        self.keep(at, before);
        self.engine.memory.store(at, value);
        self.note_dirty(at, WORD);
        Ok(())
    }

    /// Keeps the word at `at`, `before`, which is about to be stored to.
    #[inline(always)]
    fn keep(&mut self, at: u64, before: u64) {
        if C::KEEPS_OLD_WORDS {
            self.old.push((at, before));
            self.touch_old(self.old.len() - 1, Touch::Write);
        } else {
            self.stored += 1;
        }
    }

    /// Keeps the words of `[start, start + len)`, which are about to be stored to.
    fn keep_all(&mut self, start: u64, len: u64) {
        let mut before = [0_u64; 64];
        let together = size_of_val(&before) as u64;
        for at in (start..start + len).step_by(together as usize) {
            let len = together.min(start + len - at);
            let before = &mut before[..(len / WORD) as usize];
            self.engine.memory.copy_out(at, bytemuck::cast_slice_mut(before));
            let (first, kept) = (self.old.len(), before.len() as u64);
            self.old.extend((at..).step_by(WORD as usize).zip(before.iter().copied()));
            let place = OLD + first as u64 % OLD_WORDS * OLD_BYTES;
            self.engine.memory.touch(self.own, place, kept * OLD_BYTES, Touch::Write);
        }
    }

    #[inline(always)]
    fn touch_old(&self, index: usize, access: Touch) {
        let at = OLD + index as u64 % OLD_WORDS * OLD_BYTES;
        self.engine.memory.touch(self.own, at, OLD_BYTES, access);
    }

    #[inline]
    fn note_dirty(&mut self, at: u64, len: u64) {
        self.wrote = true;
        self.counters.dirty_bytes += len;
        if let Some(dirty) = &self.engine.dirty {
            dirty.mark_range(at, len);
        }
    }

    /// Commits in the memory's hardware too, if that runs transactions. It takes no part in read-only transactions.
    #[inline(always)]
    fn commit_in_hardware(&mut self) -> std::result::Result<Ticket, HardwareAbort> {
        if !self.writes {
            return Ok(Ticket(0));
        }
        match self.refused {
            Some(abort) => Err(abort),
            None => self.engine.memory.tx_commit().map(|ticket| Ticket(ticket.0)),
        }
    }

    /// The hardware has refused to commit, and undone its transaction.
    #[cold]
    fn aborted_in_hardware(&mut self, abort: HardwareAbort) -> Error {
        if self.refused.take().is_none() {
            self.undone();
        }
        self.roll_back();
        self.counters.aborts_conflict += 1;
        Error::Hardware(abort)
    }

    /// Forgets the transaction's stores, which the hardware has undone.
    fn undone(&mut self) {
        self.old.clear();
        self.stored = 0;
    }

    /// Undoes the transaction's stores, and ends it, even if that panics.
    fn roll_back(&mut self) {
        struct Ending<'a, M: Memory, C: Unlogging, S: Synchronisation>(
            &'a mut UnloggedSession<M, C, S>,
        );
        impl<M: Memory, C: Unlogging, S: Synchronisation> Drop for Ending<'_, M, C, S> {
            fn drop(&mut self) {
                if !self.0.old.is_empty() {
                    self.0.engine.broken.store(true, Ordering::Relaxed);
                }
                self.0.finish();
            }
        }
        let runs = self.writes && self.refused.is_none();
        if runs && self.engine.memory.tx_abort() {
            self.undone();
        }
        Ending(self).0.rollback_to(Mark(0));
    }

    /// Compares the pages of `[at, at + len)` with their sums, once. Not outside a transaction, where they may be
    /// changing.
    #[inline]
    fn compare(&self, at: u64, len: u64) -> Result<()> {
        match &self.engine.sums {
            Some(sums) if self.compares && self.seat.mode().is_some() => {
                sums.look_at_all(&*self.engine.memory, at, len)
            }
            _ => Ok(()),
        }
    }

    /// Changes the sum of the page of `at`, if it has one, by what `change` gives. Undone on rollback like any store.
    #[inline]
    fn change_sum(&mut self, at: u64, change: impl FnOnce() -> u64) {
        let place = self.engine.sums.as_ref().and_then(|sums| sums.places().of(at));
        if let Some(place) = place {
            let sum = self.engine.memory.load(place);
            self.keep(place, sum);
            self.engine.memory.store(place, sum.wrapping_add(change()));
            self.note_dirty(place, WORD);
        }
    }

    /// As [`change_sum`](Self::change_sum), for the words stored since there were `next` old ones.
    fn change_sums(&mut self, mut next: usize) {
        let stored = self.old.len();
        if self.engine.sums.is_none() {
            return;
        }
        while next < stored {
            let (page, mut by) = (self.old[next].0 / PAGE, 0_u64);
            while let Some((word, before)) = self.old[..stored].get(next).copied()
                && word / PAGE == page
            {
                by = by.wrapping_add(sums::change(word, before, self.engine.memory.load(word)));
                next += 1;
            }
            self.change_sum(page * PAGE, || by);
        }
    }

    #[inline]
    fn finish(&mut self) {
        self.seat.leave(&*self.engine.memory);
        self.old.clear();
        (self.writes, self.wrote, self.writable, self.refused) = (false, false, 0, None);
        if !C::KEEPS_OLD_WORDS {
            self.stored = 0;
        }
    }
}

impl<M: Memory, C: Unlogging, S: Synchronisation> Access for UnloggedSession<M, C, S> {
    #[inline(always)]
    fn read_word(&mut self, at: u64) -> Result<u64> {
        let value = self.engine.memory.try_load(at).ok_or_else(|| Error::outside(at))?;
        if self.compares {
            self.compare(at, WORD)?;
        }
        Ok(value)
    }

    #[inline(always)]
    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        if at >= self.writable || !at.is_multiple_of(WORD) {
            self.look_for_room(at)?;
        }
        if at < self.summed {
            return self.write_summed(at, value);
        }
        // Bounds are checked again here: after a fork inside the transaction the memory has no bytes.
        if C::KEEPS_OLD_WORDS {
            let before = self.engine.memory.try_load(at).ok_or_else(|| Error::outside(at))?;
            self.keep(at, before);
        } else if self.engine.memory.contains(at, WORD) {
            self.stored += 1;
        } else {
            return Err(Error::outside(at));
        }
        self.engine.memory.store(at, value);
        self.note_dirty(at, WORD);
        Ok(())
    }

    #[inline(always)]
    fn prefetch(&mut self, at: u64) {
        self.engine.memory.prefetch(at);
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        if self.engine.memory.try_copy_out(at, to) {
            self.compare(at, to.len() as u64)
        } else {
            Err(Error::outside(at))
        }
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        let len = from.len() as u64;
        let start = at & !7;
        if !self.engine.memory.contains(at, len) {
            return Err(Error::outside(at));
        }
        let words = (at + len).next_multiple_of(8) - start;
        self.check_write(start, words)?;
        // Without old words a sum is changed word by word, and bytes are stored as bytes.
        let by_words = if C::KEEPS_OLD_WORDS { len < 64 } else { start < self.summed };
        if by_words {
            return put_bytes(self, at, from);
        }
        self.compare(start, words)?;
        let first = self.old.len();
        if C::KEEPS_OLD_WORDS {
            self.keep_all(start, words);
        } else {
            self.stored += 1;
        }
        self.engine.memory.copy_in(at, from);
        self.note_dirty(at, len);
        self.change_sums(first);
        Ok(())
    }

    fn mode(&self) -> Mode {
        if self.writes { Mode::Write } else { Mode::Read }
    }

    #[inline]
    fn lane(&self) -> u32 {
        self.seat.slot() as u32
    }
}

impl<M: Memory, C: Unlogging, S: Synchronisation> Session for UnloggedSession<M, C, S> {
    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        if self.compares {
            // Stores of a transaction that is rolled back would be in no sum.
            return self.write_bytes(at, from);
        }
        self.check_write(at, from.len() as u64)?;
        self.engine.memory.copy_in(at, from);
        self.note_dirty(at, from.len() as u64);
        Ok(())
    }

    fn mark(&mut self) -> Mark {
        Mark(if C::KEEPS_OLD_WORDS { self.old.len() } else { self.stored })
    }

    fn rollback_to(&mut self, mark: Mark) {
        if self.engine.memory.is_forked() {
            // The parent rolls back what it has stored.
            return self.undone();
        }
        if !C::KEEPS_OLD_WORDS && self.stored > mark.0 {
            self.engine.spoilt.store(true, Ordering::Relaxed);
        }
        while let Some(&(at, value)) = self.old.get(mark.0..).and_then(<[_]>::last) {
            self.touch_old(self.old.len() - 1, Touch::Read);
            self.engine.memory.store(at, value);
            self.old.pop();
        }
    }

    #[inline]
    fn begin(&mut self, mode: Mode) {
        if self.seat.mode().is_some() {
            return self.abort();
        }
        self.engine.memory.touch(self.own, 0, LINE, Touch::Write);
        self.writes = mode == Mode::Write;
        self.seat.enter(if S::EXCLUDES { mode } else { Mode::Read }, &*self.engine.memory);
        if let Some(mut right) = self.seat.writing() {
            // Stores go in place at once: there is no state to move readers to.
            right.shared.be_alone(&*self.engine.memory, &Stays);
        }
        if self.writes {
            self.refused = self.engine.memory.tx_begin().err();
            let whole = C::KEEPS_OLD_WORDS || self.engine.check_whole().is_ok();
            if whole && self.refused.is_none() {
                self.writable = self.engine.memory.len() & !(WORD - 1);
            }
        }
    }

    #[inline]
    fn commit(&mut self) -> Result<Ticket> {
        if self.seat.mode().is_none() {
            return Err(Error::Invalid("a commit outside of a transaction"));
        }
        let usable = if self.wrote { self.engine.check_usable() } else { Ok(()) };
        if let Err(error) = usable.and_then(|()| self.engine.check_whole()) {
            self.roll_back();
            return Err(error);
        }
        self.engine.memory.touch(self.own, COUNTERS, WORD, Touch::Write);
        let ticket = match self.commit_in_hardware() {
            Ok(ticket) => ticket,
            Err(abort) => return Err(self.aborted_in_hardware(abort)),
        };
        if !S::EXCLUDES {
            let more = u64::from(self.wrote);
            self.serial = self.engine.ended.fetch_add(more, Ordering::Relaxed) + more;
        }
        if self.wrote {
            self.counters.commits += 1;
        } else {
            self.counters.read_only += 1;
        }
        self.finish();
        Ok(ticket)
    }

    fn abort(&mut self) {
        self.counters.aborts_user += u64::from(self.seat.mode().is_some());
        self.roll_back();
    }

    fn serial(&self) -> Option<u64> {
        (!S::EXCLUDES).then_some(self.serial)
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.engine.memory.tx_durable().0
    }

    fn wait_durable(&mut self, ticket: Ticket) -> Result<()> {
        if !self.is_durable(ticket) {
            self.engine.memory.tx_flush();
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<M: Memory, C: Unlogging, S: Synchronisation> Drop for UnloggedSession<M, C, S> {
    fn drop(&mut self) {
        // In a forked child the transaction is the parent's.
        if self.engine.memory.is_forked() {
            return;
        }
        self.roll_back();
    }
}
