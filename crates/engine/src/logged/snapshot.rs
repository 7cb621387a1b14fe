//! A transaction that reads for long: it continues on a [snapshot](crate::consistency::snapshots), and does not hold
//! the writer up.

use super::session::Buffered;
use crate::consistency::core::cut_short;
use crate::consistency::protocol::Consistency;
use crate::consistency::snapshots::Snapshot;
use crate::sync::Synchronisation;
use crate::writes::range::lay_over;
use crate::writes::{LineWrite, word_in_line};
use crate::{Mode, Result, Ticket};
use perdura_memory::{LINE, Memory, line_of, lines_in};
use std::collections::HashMap;

impl<M: Memory, C: Consistency, S: Synchronisation> Buffered<M, C, S> {
    /// How much a transaction that begins now may read inside the lock: without bound, if it cannot continue outside.
    #[inline(always)]
    pub(super) fn most_reads(&self, mode: Mode) -> u32 {
        match mode {
            Mode::Read if !self.compares => self.engine.core.snapshots.most_reads(),
            _ => u32::MAX,
        }
    }

    /// The word at `at`, which the memory holds as `value`, for a transaction that has used up its reads inside the
    /// lock.
    #[inline(never)]
    pub(super) fn word_of_snapshot(&mut self, at: u64, value: u64) -> u64 {
        if self.late.is_none() {
            // Inside the lock the loaded value is also the old one.
            self.go_on_with_snapshot();
        }
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
        self.go_on_with_snapshot();
        if self.late.is_some() {
            lay_over(|line| self.line_of_snapshot(line), at, to);
        }
    }

    /// Counts a read of bytes; returns whether reads inside the lock are used up.
    #[inline]
    pub(super) fn count_lines(&mut self, at: u64, len: u64) -> bool {
        let lines = u32::try_from(lines_in(at, len)).unwrap_or(u32::MAX);
        self.reads_left = self.reads_left.saturating_sub(lines);
        self.reads_left == 0
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

    /// Leaves the lock with a snapshot, unless that has been done, or the transaction may write.
    #[cold]
    fn go_on_with_snapshot(&mut self) {
        if self.late.is_some() {
            return;
        }
        if self.seat.mode() != Some(Mode::Read) {
            self.reads_left = u32::MAX;
            return;
        }
        self.overlaid |= self.snapshot > 0;
        let seen = self.seen();
        let core = &self.engine.core;
        let memory = &*core.memory;
        let mut joined = HashMap::new();
        if let Some(overlay) = self.overlay().filter(|_| self.snapshot > 0) {
            let lines = overlay.found_lines(memory, self.snapshot);
            joined.extend(lines.map(|found| (found.line, found)));
        }
        let number = core.committed();
        core.snapshots.begin(memory, number);
        self.snapshot = 0;
        self.seat.leave(memory);
        self.late = Some(Box::new(Snapshot { number, joined, seen }));
    }

    /// Ends the transaction, if it has a snapshot; returns the ticket of everything it has seen.
    pub(super) fn commit_snapshot(&mut self) -> Option<Result<Ticket>> {
        let seen = self.late.as_ref()?.seen;
        let is_broken = self.engine.core.is_broken();
        self.finish();
        if is_broken {
            return Some(Err(cut_short()));
        }
        self.writer.counters.read_only += 1;
        Some(Ok(seen))
    }

    /// Ends the snapshot.
    #[cold]
    pub(super) fn end_snapshot(&mut self) {
        if let Some(snapshot) = self.late.take() {
            let core = &self.engine.core;
            core.snapshots.end(&*core.memory, snapshot.number);
        }
    }
}
