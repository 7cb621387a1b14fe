//! A transaction that a writer has moved: it continues on a [snapshot](crate::consistency::snapshots), and does not hold
//! the writer up.

use super::session::{Buffered, Reading};
use super::state::Logged;
use crate::consistency::protocol::{Consistency, Groups as _};
use crate::sync::Synchronisation;
use crate::writes::range::lay_over;
use crate::writes::{LineWrite, word_in_line};
use crate::{Mode, Result};
use perdura_memory::lock::Seat;
use perdura_memory::{LINE, Memory, line_of};

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    /// The word at `at`, which the memory holds, or has held, as `value`, for a transaction that has been moved.
    #[inline(never)]
    pub(super) fn word_of_snapshot(&mut self, at: u64, value: u64) -> u64 {
        self.take_snapshot();
        let core = &self.engine.core;
        let has_joined = self.late.as_ref().is_some_and(|snapshot| !snapshot.joined.is_empty());
        if !has_joined && !core.snapshots.may_have(&*core.memory, at) {
            return value;
        }
        self.overwritten(at, value)
    }

    #[cold]
    fn overwritten(&self, at: u64, value: u64) -> u64 {
        self.line_of_snapshot(line_of(at))
            .filter(|line| line.mask & 1 << word_in_line(at) != 0)
            .map_or(value, |line| line.words[word_in_line(at)])
    }

    /// As [`word_of_snapshot`](Self::word_of_snapshot), for bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn bytes_of_snapshot(&mut self, at: u64, to: &mut [u8]) {
        self.take_snapshot();
        lay_over(|line| self.line_of_snapshot(line), at, to);
    }

    /// The words of a line that differ, or may differ, from the memory.
    fn line_of_snapshot(&self, line: u64) -> Option<LineWrite> {
        let snapshot = self.late.as_ref()?;
        let core = &self.engine.core;
        let kept = core.snapshots.line_at(&*core.memory, line, snapshot.number);
        let Some(joined) = snapshot.joined.get(&line) else { return kept };
        let mut words = kept.unwrap_or(LineWrite { line, mask: 0, words: [0; 8] });
        for word in (0..(LINE / 8) as usize).filter(|word| joined.mask & 1 << word != 0) {
            words.words[word] = joined.words[word];
        }
        words.mask |= joined.mask;
        Some(words)
    }

    /// Takes the snapshot that the writer which has moved the transaction gives it, unless that has been done.
    #[inline]
    pub(super) fn take_snapshot(&mut self) {
        if self.late.is_none() {
            self.wait_for_snapshot();
        }
    }

    /// The writer may still be about to give it.
    #[cold]
    fn wait_for_snapshot(&mut self) {
        let Logged { core, .. } = &*self.engine;
        let memory = &*core.memory;
        self.snapshot = 0;
        if !C::Groups::WINDOWS && !self.compares {
            self.reading = Reading::Moved;
        }
        let mut turn = 0;
        self.late = loop {
            let taken = core.snapshots.take(memory, |turn| self.seat.is_at(turn));
            // A writer that has panicked may never give it; what this transaction reads is worth nothing then, and its
            // commit fails.
            if taken.is_some() || core.is_broken() {
                break taken;
            }
            memory.pause(turn);
            turn += 1;
        };
    }

    /// [Compares](Self::compare) pages that may have been changing while they were compared, since the transaction has
    /// been moved: in a transaction beside it.
    #[cold]
    pub(super) fn compare_again(&self, at: u64, len: u64) -> Result<()> {
        let Logged { core, lock } = &*self.engine;
        let memory = &*core.memory;
        let Some(sums) = &core.sums else { return Ok(()) };
        loop {
            let Some(mut seat) = Seat::new(lock) else {
                return lock.writing(memory, |_| sums.look_at_all(memory, at, len));
            };
            seat.enter(Mode::Read, memory);
            let compared = sums.look_at_all(memory, at, len);
            let is_moved = seat.is_moved(memory);
            if is_moved {
                core.snapshots.end(memory, |turn| seat.is_at(turn));
            }
            seat.leave(memory);
            if compared.is_ok() || !is_moved {
                return compared;
            }
        }
    }

    /// Ends the snapshot of a transaction that has been moved.
    #[cold]
    pub(super) fn end_snapshot(&mut self) {
        self.late = None;
        let core = &self.engine.core;
        core.snapshots.end(&*core.memory, |turn| self.seat.is_at(turn));
    }
}
