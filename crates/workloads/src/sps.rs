//! SPS: swaps of two random entries in an array of words (NV-Heaps, Kiln, LOC).
//!
//! A transaction of `k` swaps reads and writes `2k` words on about `2k` lines: the smallest
//! update that is scattered. At the end each number is there exactly once.
//!
//! With `within`, both entries of a swap are in one block of that many words: local swaps, whose two words
//! share a line more often in smaller blocks.

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::random::Random;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::{Access, Purpose, Result, Root, Tx};
use std::ops::Range;

const ROOT: &str = "bench.sps";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_000;
/// Words written by one transaction of the load.
const CHUNK: u64 = 512;
const WORD: u64 = 8;

/// The workload.
#[derive(Clone, Debug)]
pub struct Sps {
    /// Words in the array.
    pub entries: u64,
    /// Swaps in a transaction.
    pub swaps: usize,
    /// Whether each thread swaps in its own part of the array only.
    pub disjoint: bool,
    /// Words of the aligned blocks that both entries of a swap are in; `None`: anywhere in the array.
    pub within: Option<u64>,
}

impl Sps {
    /// Fails if there are too few entries for the threads.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn validate(&self, threads: usize) -> Outcome {
        let parts = if self.disjoint { threads as u64 } else { 1 };
        let parameters = |what: &str| Err(Failure::Parameters(what.to_owned()));
        if self.swaps == 0 || self.entries / parts < 2 {
            return parameters("SPS needs a swap in a transaction and two entries for each thread");
        }
        match self.within {
            Some(block) if block < 2 || self.entries / parts / block < 2 => parameters(
                "local swaps need blocks of two words or more, and an array of two blocks for each thread",
            ),
            _ => Ok(()),
        }
    }

    /// The indices that a thread with this part of the array swaps next.
    #[inline]
    fn draw(&self, random: &mut Random, part: &Range<u64>) -> Pair {
        let Some(block) = self.within else {
            return Pair::draw(random, part.start, part.end - part.start);
        };
        // Aligned in the array, whatever the part; incomplete blocks at its ends are not swapped.
        let first = part.start.next_multiple_of(block);
        let blocks = (part.end - first) / block;
        let start = first + random.below(blocks) * block;
        Pair::draw(random, start, block)
    }

    fn array<S: Session>(&self, session: &mut S) -> Outcome<u64> {
        let root = session.read(|tx| tx.root(ROOT))?;
        root.map(|root| root.at).ok_or_else(|| Failure::wrong("the array's root is gone"))
    }
}

/// The workload with local swaps: within two lines, unless told otherwise.
pub struct Local;

const fn row(name: &'static str, line: &'static str, parameters: &'static [Parameter]) -> Row {
    Row {
        name,
        line,
        parameters,
        operations: |_| 2_000_000,
        rolls_back: |_| false,
        roots: &[(KIND, |_, at, visit| visit(at))],
    }
}

const ENTRIES: Parameter = list::entries("words in the array", 65_536);
const SWAPS: Parameter = list::ops_per_tx("swaps in a transaction", 1);
const DISJOINT: Parameter = list::disjoint("each thread swaps in its own part of the array");

const fn within(usual: Usual) -> Parameter {
    let line = "both entries of a swap are in one aligned block of this number of words";
    Parameter { name: "within", line, usual }
}

impl Listed for Sps {
    const ROW: Row = row(
        "sps",
        "swaps of random words in an array",
        &[ENTRIES, SWAPS, DISJOINT, within(Usual::Follows("anywhere", |_, _| None))],
    );

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let (entries, swaps) = (given.entries(), given.ops_per_tx());
        let (disjoint, within) =
            (given.values.is_on(list::DISJOINT), given.values.optional("within"));
        let sps = Sps { entries, swaps, disjoint, within };
        sps.validate(given.threads)?;
        Ok(code.run(sps, entries.saturating_mul(WORD)))
    }
}

impl Listed for Local {
    const ROW: Row = row(
        "sps-local",
        "the same within 16 words",
        &[ENTRIES, SWAPS, DISJOINT, within(Usual::Number(16))],
    );

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        Sps::run(given, code)
    }
}

/// The indices of two different entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair(u64, u64);

impl Pair {
    /// Draws two different indices of `first..first + len`; `len` is 2 or more.
    #[inline]
    pub fn draw(random: &mut Random, first: u64, len: u64) -> Self {
        let a = random.below(len);
        let b = random.below(len - 1);
        Pair(first + a, first + b + u64::from(b >= a))
    }

    /// Where the two are in an array at `array`.
    #[inline]
    pub fn places(self, array: u64) -> (u64, u64) {
        (array + self.0 * WORD, array + self.1 * WORD)
    }
}

/// Swaps each pair in turn, in the array at `array`.
///
/// # Errors
/// As the transaction's reads and writes.
#[inline]
pub fn swap<T: Tx + ?Sized>(tx: &mut T, array: u64, pairs: &[Pair]) -> Result<()> {
    // The processor fetches all of them while it works on the first.
    for pair in pairs {
        let (a, b) = pair.places(array);
        tx.prefetch(a);
        tx.prefetch(b);
    }
    for pair in pairs {
        let (a, b) = pair.places(array);
        let (x, y) = (tx.read_word(a)?, tx.read_word(b)?);
        tx.write_word(a, y)?;
        tx.write_word(b, x)?;
    }
    Ok(())
}

impl Workload for Sps {
    const KINDS: &'static [&'static str] = &["swap"];

    const STATIC: bool = true;

    fn load_size(&self) -> u64 {
        self.entries
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let array = session.transaction(|tx| {
            let at = tx.allocate(Purpose::General, self.entries * WORD)?.at();
            tx.set_root(ROOT, Root { at, kind: KIND })?;
            Ok(at)
        })?;
        for first in (0..self.entries).step_by(CHUNK as usize) {
            let end = self.entries.min(first + CHUNK);
            let bytes: Vec<u8> = (first..end).flat_map(u64::to_le_bytes).collect();
            session.transaction(|tx| tx.write_bytes(array + first * WORD, &bytes))?;
            progress.loaded(end - first)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        self.validate(share.threads)?;
        let array = self.array(session)?;
        let part = if self.disjoint { share.part_of(self.entries) } else { 0..self.entries };
        let mut pairs = vec![Pair::default(); self.swaps];
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            // Drawn outside: the body may run more than once.
            for pair in &mut pairs {
                *pair = self.draw(&mut share.random, &part);
            }
            recorder.operation(0, || session.transaction(|tx| swap(tx, array, &pairs)))?;
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let array = self.array(session)?;
        let mut seen = vec![false; self.entries as usize];
        for first in (0..self.entries).step_by(CHUNK as usize) {
            let count = CHUNK.min(self.entries - first);
            let mut bytes = vec![0; (count * WORD) as usize];
            session.read(|tx| tx.read_bytes(array + first * WORD, &mut bytes))?;
            for (index, word) in bytes.chunks_exact(WORD as usize).enumerate() {
                let value = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                match seen.get_mut(value as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => {
                        let at = first + index as u64;
                        let what = format!("entry {at} holds {value}, which is not a permutation");
                        return Err(Failure::Wrong(what));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_swaps_stay_in_aligned_blocks_of_the_threads_part() {
        let sps = Sps { entries: 1_000, swaps: 1, disjoint: true, within: Some(16) };
        let mut random = Random::new(1, 0);
        let (part, mut lines, mut seen) = (250..500, 0, [false; 1_000]);
        for _ in 0..30_000 {
            let Pair(a, b) = sps.draw(&mut random, &part);
            assert!(a != b && a / 16 == b / 16 && part.contains(&a) && part.contains(&b));
            lines += if a / 8 == b / 8 { 1 } else { 2 };
            seen[a as usize] = true;
        }
        // Two of sixteen words are in the same of two lines in 7 of 15 cases.
        assert!((lines as f64 / 30_000.0 - 1.533).abs() < 0.02, "{lines}");
        assert_eq!(seen.iter().filter(|seen| **seen).count(), 240, "all blocks that lie within");
    }

    #[test]
    fn refuses_impossible_swaps() {
        let sps = |entries, within| Sps { entries, swaps: 1, disjoint: true, within };
        assert!(sps(64, Some(16)).validate(2).is_ok());
        for wrong in [sps(63, Some(16)), sps(64, Some(1)), sps(64, Some(0)), sps(3, None)] {
            assert!(matches!(wrong.validate(2), Err(Failure::Parameters(_))), "{wrong:?}");
        }
    }
}
