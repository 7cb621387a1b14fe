//! kmeans: points gathered around the nearest of some centres, which move to their middle (STAMP).
//!
//! ```text
//! root         accumulators, centres, next point, points that changed their centre, rounds that are over, 1 at the end
//! accumulator  points, sum of each coordinate; filled up to whole lines
//! centre       coordinates
//! ```
//!
//! A round: each thread takes the next points, a chunk at a time, finds their nearest centres by itself, and adds each
//! point to its centre's accumulator; then it adds up how many changed. When all have, one thread moves the centres.
//! It ends when few points change.
//!
//! Coordinates are whole numbers, multiples of 2^-20: so sums do not depend on their order, and several threads find
//! the same as one alone, to the last bit (`reference`). Invariants: after each round the
//! accumulators have counted each point once.

mod points;
mod reference;
#[cfg(test)]
mod tests;

use super::Input;
use super::block::{self, WORD, word};
use super::party::{Meeting, Party};
use crate::zeroed;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit;
use perdura::{Access, Result, Root, Tx};
use points::Points;
use reference::Answer;
use std::sync::atomic::{AtomicU32, Ordering};

const ROOT: &str = "bench.kmeans";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_012;
/// Points that a thread takes at once.
const CHUNK: u64 = 3;
const LINE: u64 = 64;
/// In the root's block.
const ROUNDS: u64 = 4;
const OVER: u64 = 5;
const ROOT_WORDS: usize = 6;

/// How many points, and how they are gathered: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Points.
    pub points: u64,
    /// Coordinates of each.
    pub dimensions: u64,
    /// Centres around which they are drawn.
    pub drawn_around: u64,
    /// `-m`, `-n`: centres to find.
    pub clusters: u64,
    /// `-t`: it ends when no larger share of the points changes its centre.
    pub threshold: f64,
}

impl Parameters {
    /// More centres: threads seldom add to the same one.
    pub const fn low(input: Input) -> Self {
        let (points, dimensions, threshold) = match input {
            Input::Small => (120, 4, 0.05),
            Input::Plain => (2_048, 16, 0.05),
            Input::Plus => (16_384, 24, 0.05),
            Input::Native => (65_536, 32, 0.000_01),
        };
        let clusters = if matches!(input, Input::Small) { 8 } else { 40 };
        Parameters { points, dimensions, drawn_around: 16, clusters, threshold }
    }

    /// Fewer centres.
    pub const fn high(input: Input) -> Self {
        let clusters = if matches!(input, Input::Small) { 3 } else { 15 };
        Parameters { clusters, ..Self::low(input) }
    }
}

/// The workload.
#[derive(Debug)]
pub struct KMeans {
    points: Points,
    clusters: usize,
    threshold: f64,
    /// The result of a single thread.
    expected: Answer,
    /// The centre that each point was added to last.
    nearest: Vec<AtomicU32>,
    meeting: Meeting,
}

/// Where things are in the heap.
#[derive(Clone, Copy, Debug)]
struct Places {
    root: u64,
    accumulators: u64,
    centres: u64,
    next: u64,
    changed: u64,
}

impl KMeans {
    /// With the points that follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { points, dimensions, drawn_around, clusters, threshold } = parameters;
        let enough = clusters > 0 && points >= clusters && dimensions > 0 && drawn_around > 0;
        if !enough || !(0.0..1.0).contains(&threshold) || points > 1 << 32 {
            let what = "kmeans needs a centre, and as many points (2^32 at most)";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let points = Points::drawn(points, dimensions, drawn_around, seed);
        let expected = reference::run(&points, clusters as usize, threshold);
        let nearest = (0..points.len()).map(|_| AtomicU32::new(u32::MAX)).collect();
        let (clusters, meeting) = (clusters as usize, Meeting::default());
        Ok(KMeans { points, clusters, threshold, expected, nearest, meeting })
    }

    /// Upper bound of its bytes.
    pub fn bytes(&self) -> u64 {
        2 * self.clusters as u64 * self.stride() + 4 * LINE
    }

    /// Bytes from one accumulator to the next.
    fn stride(&self) -> u64 {
        ((1 + self.points.dimensions() as u64) * WORD).next_multiple_of(LINE)
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Places> {
        let (root, words) = block::of_root::<S, ROOT_WORDS>(session, ROOT)?;
        let [accumulators, centres, next, changed, ..] = words;
        Ok(Places { root, accumulators, centres, next, changed })
    }

    /// The centres, and whether the program is over.
    fn centres<S: Session>(&self, session: &mut S, at: Places) -> Outcome<(Vec<i64>, bool)> {
        let mut centres = vec![0; self.clusters * self.points.dimensions()];
        let over = session.read(|tx| {
            block::read(tx, at.centres, bytemuck::cast_slice_mut(&mut centres))?;
            tx.read_word(word(at.root, OVER))
        })?;
        Ok((centres, over != 0))
    }

    /// One thread's part of a round. False if the run is to stop.
    fn round<S: Session>(
        &self,
        session: &mut S,
        at: Places,
        centres: &[i64],
        recorder: &mut Recorder<'_>,
    ) -> Outcome<bool> {
        let mut changed = 0;
        let computation = session.computation();
        loop {
            let take = || session.transaction(|tx| block::add(tx, at.next, CHUNK));
            let first = recorder.operations(1, 0, take)?;
            if first >= self.points.len() {
                break;
            }
            for index in first..self.points.len().min(first + CHUNK) {
                if !recorder.go_on() {
                    return Ok(false);
                }
                let point = self.points.get(index);
                let nearest = points::nearest(point, centres);
                computation.charge(centres.len() as u64);
                let before = self.nearest[index as usize].swap(nearest as u32, Ordering::Relaxed);
                changed += u64::from(before != nearest as u32);
                let to = at.accumulators + nearest as u64 * self.stride();
                recorder.operation(0, || session.transaction(|tx| add_point(tx, to, point)))?;
            }
        }
        let tell = || session.transaction(|tx| block::add(tx, at.changed, changed));
        recorder.operations(2, 0, tell)?;
        Ok(true)
    }

    /// Moves the centres to the middle of their points, and prepares the next round. Returns how many points were
    /// counted.
    fn turn<T: Tx + ?Sized>(&self, tx: &mut T, at: Places) -> Result<u64> {
        let dimensions = self.points.dimensions();
        let (mut counted, mut sums) = (0, vec![0; 1 + dimensions]);
        for cluster in 0..self.clusters as u64 {
            let accumulator = at.accumulators + cluster * self.stride();
            block::read(tx, accumulator, &mut sums)?;
            counted += sums[0];
            if sums[0] > 0 {
                let first = word(at.centres, cluster * dimensions as u64);
                for (index, sum) in (0..).zip(&sums[1..]) {
                    let middle = (*sum as i64).div_euclid(sums[0] as i64);
                    tx.write_word(word(first, index), middle as u64)?;
                }
                sums.fill(0);
                tx.write_bytes(accumulator, bytemuck::cast_slice(&sums))?;
            }
        }
        let changed = tx.read_word(at.changed)?;
        tx.write_word(at.changed, 0)?;
        tx.write_word(at.next, 0)?;
        let rounds = block::add(tx, word(at.root, ROUNDS), 1)? + 1;
        let over = reference::is_over(changed, self.points.len(), rounds, self.threshold);
        tx.write_word(word(at.root, OVER), u64::from(over))?;
        Ok(counted)
    }

    fn rounds<S: Session>(
        &self,
        session: &mut S,
        is_first: bool,
        party: Party<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let at = Self::open(session)?;
        loop {
            let (centres, over) = self.centres(session, at)?;
            if over {
                party.end();
                return Ok(());
            }
            if !self.round(session, at, &centres, recorder)? || !party.wait(session) {
                return Ok(());
            }
            if is_first {
                let turn = || session.transaction(|tx| self.turn(tx, at));
                let counted = recorder.operations(3, 0, turn)?;
                if counted != self.points.len() {
                    let points = self.points.len();
                    let what = format!("a round has counted {counted} of {points} points");
                    return Err(Failure::Wrong(what));
                }
            }
            if !party.wait(session) {
                return Ok(());
            }
        }
    }
}

fn add_point<T: Tx + ?Sized>(tx: &mut T, accumulator: u64, point: &[i64]) -> Result<()> {
    block::add(tx, accumulator, 1)?;
    for (index, coordinate) in (1..).zip(point) {
        block::add(tx, word(accumulator, index), *coordinate as u64)?;
    }
    Ok(())
}

/// The workload of 40 centres.
pub struct Low;

/// The workload of 15 centres.
pub struct High;

super::listed! {
    Low: "kmeans-low", "STAMP: points gathered around 40 centres, to the end", "points" points, Parameters::low,
    KMeans, |values| values.entries()
}

super::listed! {
    High: "kmeans-high", "the same around 15 centres", "points" points, Parameters::high,
    KMeans, |values| values.entries()
}

impl Workload for KMeans {
    const KINDS: &'static [&'static str] = &["point", "chunk", "changes", "centres"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        self.clusters as u64
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let first = reference::first_centres(&self.points, self.clusters);
        session.transaction(|tx| {
            let accumulators = zeroed::allocate(tx, self.clusters as u64 * self.stride())?;
            let centres = block::new_slice(tx, bytemuck::cast_slice(first))?;
            let [next, changed] = [zeroed::allocate(tx, LINE)?, zeroed::allocate(tx, LINE)?];
            let at = block::new(tx, [accumulators, centres, next, changed, 0, 0])?;
            tx.set_root(ROOT, Root { at, kind: KIND })
        })?;
        progress.loaded(self.clusters as u64)
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let party = self.meeting.join(share.threads);
        self.rounds(session, share.thread == 0, party, recorder)
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        if self.meeting.was_left() {
            return Ok(());
        }
        let (root, words) = block::of_root::<S, ROOT_WORDS>(session, ROOT)?;
        let at = Self::open(session)?;
        debug_assert_eq!(root, at.root);
        let (centres, _) = self.centres(session, at)?;
        if words[ROUNDS as usize] != self.expected.rounds || centres != self.expected.centres {
            let (rounds, expected) = (words[ROUNDS as usize], self.expected.rounds);
            let what = format!(
                "the centres after {rounds} rounds are not those that a thread alone finds, after {expected}"
            );
            return Err(Failure::Wrong(what));
        }
        let nearest = self.nearest.iter().map(|nearest| nearest.load(Ordering::Relaxed));
        if !nearest.eq(self.expected.nearest.iter().copied()) {
            return Err(Failure::wrong("a point is with another centre than its own"));
        }
        Ok(())
    }
}

/// Reports the blocks that the root leads to.
///
/// # Errors
/// The errors of `visit`.
pub fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    (0..4).try_for_each(|field| visit(tx.read_word(word(at, field))?))
}
