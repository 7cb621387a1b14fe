//! A bare, packed redo log: the least work that any redo engine on this memory does for a transaction.
//!
//! Each transaction's words go into a record as pairs of an offset and a value, with a check of 64 bits, past
//! the caches; one fence; then the words are stored in place and their lines noted in a bitmap. When the log
//! has been filled, those lines are written back, fenced, and the log begins again. There is no lock, a
//! transaction does not see its own writes, only the memory checks bounds, and there is no recovery: an
//! engine's cost beyond this is its software.

use crate::random::Random;
use crate::sps::Pair;
use crate::{Failure, Outcome};
use perdura::Memory;
use std::ops::Range;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

const WORD: u64 = 8;
const LINE: u64 = 64;
/// Words of a record before its pairs: check, number, words.
const HEADER: usize = 3;

/// The log, and an array of words that it protects.
pub struct Packed<'m, M: Memory> {
    memory: &'m M,
    array: u64,
    entries: u64,
    log: Range<u64>,
    tail: u64,
    number: u64,
    record: Vec<u64>,
    used: usize,
    /// A bit for each line of the array.
    dirty: Vec<u64>,
}

impl<'m, M: Memory> Packed<'m, M> {
    /// An array of `entries` words, each its index, at the start of `memory`, and a log in all the rest.
    /// Touches everything, so that no page fault is timed.
    ///
    /// # Errors
    /// `Parameters` if there is no room for a log of 64 KiB.
    pub fn new(memory: &'m M, entries: u64) -> Outcome<Self> {
        let start = (entries * WORD).next_multiple_of(LINE);
        let log = start..memory.len() / LINE * LINE;
        if entries < 2 || log.start + (64 << 10) > log.end {
            let what = "the bare log needs two entries, and 64 KiB beside them";
            return Err(Failure::Parameters(what.to_owned()));
        }
        (0..entries).for_each(|entry| memory.store(entry * WORD, entry));
        log.clone().step_by(LINE as usize).for_each(|at| memory.store(at, 1));
        memory.write_back(0, log.end);
        memory.fence();
        Ok(Packed {
            memory,
            array: 0,
            entries,
            tail: log.start,
            log,
            number: 0,
            record: vec![0; HEADER],
            used: HEADER,
            dirty: vec![0; (start / LINE).div_ceil(64) as usize],
        })
    }

    /// Runs `count` transactions of `swaps` swaps each. Returns how long they took. Each swap of a transaction is
    /// in its own part of the array, since here a transaction does not see its own writes.
    ///
    /// # Panics
    /// If the array has fewer than two entries for each swap.
    pub fn swaps(&mut self, swaps: usize, count: u64, random: &mut Random) -> Duration {
        let part = self.entries / swaps as u64;
        let mut pairs = vec![Pair::default(); swaps];
        self.record.resize((HEADER + 4 * swaps).next_multiple_of(8), 0);
        let start = Instant::now();
        for _ in 0..count {
            for (pair, first) in pairs.iter_mut().zip((0..).step_by(part as usize)) {
                *pair = Pair::draw(random, first, part);
            }
            for pair in &pairs {
                let (a, b) = pair.places(self.array);
                let (x, y) = (self.memory.load(a), self.memory.load(b));
                self.note(a, y);
                self.note(b, x);
            }
            self.commit();
        }
        start.elapsed()
    }

    /// Runs `count` transactions that each add one to a word. Returns how long they took.
    pub fn additions(&mut self, count: u64, random: &mut Random) -> Duration {
        self.record.resize(8, 0);
        let start = Instant::now();
        for _ in 0..count {
            let at = self.array + random.below(self.entries) * WORD;
            self.note(at, self.memory.load(at) + 1);
            self.commit();
        }
        start.elapsed()
    }

    #[inline]
    fn note(&mut self, at: u64, value: u64) {
        self.record[self.used] = at;
        self.record[self.used + 1] = value;
        self.used += 2;
    }

    #[inline]
    fn commit(&mut self) {
        self.number += 1;
        let end = self.used.next_multiple_of(8);
        self.record[self.used..end].fill(0);
        (self.record[1], self.record[2]) = (self.number, self.used as u64);
        let words = &self.record[1..self.used];
        self.record[0] = xxh3_64(bytemuck::cast_slice(words));
        if self.tail + end as u64 * WORD > self.log.end {
            self.checkpoint();
        }
        self.memory.stream(self.tail, &self.record[..end]);
        self.tail += end as u64 * WORD;
        self.memory.fence();
        for pair in self.record[HEADER..self.used].chunks_exact(2) {
            self.memory.store(pair[0], pair[1]);
            let line = pair[0] / LINE;
            self.dirty[(line / 64) as usize] |= 1 << (line % 64);
        }
        self.used = HEADER;
    }

    #[cold]
    fn checkpoint(&mut self) {
        for (index, bits) in self.dirty.iter_mut().enumerate() {
            let mut rest = std::mem::take(bits);
            while rest != 0 {
                let line = index as u64 * 64 + u64::from(rest.trailing_zeros());
                self.memory.write_back(line * LINE, LINE);
                rest &= rest - 1;
            }
        }
        self.memory.fence();
        self.tail = self.log.start;
    }

    /// Compares the array with the result of `additions` additions or of any swaps, not of both.
    ///
    /// # Errors
    /// `Wrong` if it is something else.
    pub fn check(&self, additions: u64) -> Outcome {
        let values = (0..self.entries).map(|entry| self.memory.load(self.array + entry * WORD));
        let sum = values.clone().fold(0, u64::wrapping_add);
        let expected = self.entries * (self.entries - 1) / 2 + additions;
        let mut seen = vec![additions > 0; self.entries as usize];
        if additions == 0 {
            values.for_each(|value| {
                if let Some(seen) = seen.get_mut(value as usize) {
                    *seen = true;
                }
            });
        }
        if sum == expected && seen.into_iter().all(|seen| seen) {
            return Ok(());
        }
        Err(Failure::wrong("the bare log's array is not what its transactions leave"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn swaps_and_additions_leave_what_they_should_through_checkpoints() {
        let ram = Ram::new(256 << 10);
        let mut random = Random::new(3, 0);
        let mut packed = Packed::new(&ram, 1000).expect("room");
        packed.swaps(5, 4_000, &mut random);
        packed.check(0).expect("a permutation");
        packed.additions(3_000, &mut random);
        packed.check(3_000).expect("a sum");
        ram.store(0, ram.load(0) + 1);
        assert!(packed.check(3_000).is_err());
    }
}
