//! SPS: swaps of two random entries in an array of words (NV-Heaps, Kiln, LOC).
//!
//! A transaction of `k` swaps reads and writes `2k` words on about `2k` lines: the smallest
//! update that is scattered. At the end each number is there exactly once.

use crate::random::Random;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::{Access, Purpose, Result, Root, Tx};

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
}

impl Sps {
    /// Fails if there are too few entries for the threads.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn validate(&self, threads: usize) -> Outcome {
        let parts = if self.disjoint { threads as u64 } else { 1 };
        if self.swaps == 0 || self.entries / parts < 2 {
            let what = "SPS needs a swap in a transaction and two entries for each thread";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(())
    }

    fn array<S: Session>(&self, session: &mut S) -> Outcome<u64> {
        let root = session.read(|tx| tx.root(ROOT))?;
        root.map(|root| root.at).ok_or_else(|| Failure::wrong("the array's root is gone"))
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
                *pair = Pair::draw(&mut share.random, part.start, part.end - part.start);
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
