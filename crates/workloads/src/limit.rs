//! The hardware's cost of durability: write-backs and fences, through the `Memory` trait.
//!
//! The limit of a synchronous durable transaction is one line written back and one fence
//! ([`line_and_fence`]). Engines are reported as multiples of it, measured in the same run.

use crate::random::Random;
use perdura::Memory;
use serde::Serialize;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

const LINE: u64 = 64;
/// A batch is at least this long, so that reading the clock does not count.
const BATCH: Duration = Duration::from_millis(1);
/// Steps of computation between a write-back and its fence, a few nanoseconds each.
const WORK_STEPS: u64 = 100;

/// A primitive to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// Whole lines in a row, as a log is written: stored, written back, one fence.
    Sequential(u64),
    /// As many lines anywhere, a word in each: stored, written back, one fence.
    Scattered(u64),
    /// Whole lines in a row, stored past the caches, one fence.
    Streamed(u64),
    /// The same line, stored to and written back again and again.
    Hot,
    /// The same line, written back without having been stored to.
    Clean,
    /// One line as in `Sequential(1)`, but with computation between the write-back and the
    /// fence; the time of the computation alone is subtracted.
    Covered,
    /// A fence with nothing to wait for.
    Fence,
}

impl Primitive {
    /// The figures of `perdura-lab bench limit`.
    pub const ALL: [Primitive; 15] = [
        Primitive::Sequential(1),
        Primitive::Sequential(4),
        Primitive::Sequential(8),
        Primitive::Sequential(16),
        Primitive::Scattered(1),
        Primitive::Scattered(4),
        Primitive::Scattered(8),
        Primitive::Scattered(16),
        Primitive::Streamed(1),
        Primitive::Streamed(4),
        Primitive::Streamed(16),
        Primitive::Hot,
        Primitive::Clean,
        Primitive::Covered,
        Primitive::Fence,
    ];

    /// In words.
    pub fn name(self) -> String {
        let lines =
            |count: u64| if count == 1 { "1 line".into() } else { format!("{count} lines") };
        match self {
            Primitive::Sequential(1) => "1 line, written back, and a fence".to_owned(),
            Primitive::Sequential(count) => format!("{} in a row, 1 fence", lines(count)),
            Primitive::Scattered(count) => format!("{} scattered, 1 fence", lines(count)),
            Primitive::Streamed(count) => format!("{} non-temporal, 1 fence", lines(count)),
            Primitive::Hot => "the same line again, 1 fence".to_owned(),
            Primitive::Clean => "a clean line, 1 fence".to_owned(),
            Primitive::Covered => "1 line, other work (not counted), 1 fence".to_owned(),
            Primitive::Fence => "a fence alone".to_owned(),
        }
    }
}

/// How long a primitive takes, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Timing {
    /// The primitive.
    pub name: String,
    /// The median of the batches.
    pub median_ns: f64,
    /// The fastest batch.
    pub least_ns: f64,
    /// The slowest batch.
    pub most_ns: f64,
}

/// Times primitives on the lines of one area, whose contents are lost.
pub struct Bench<'m, M: Memory> {
    memory: &'m M,
    area: Range<u64>,
    at: u64,
    random: Random,
}

impl<'m, M: Memory> Bench<'m, M> {
    /// A bench on `area`: whole lines, at least 64 of them, inside of `memory`. Touches them
    /// all, so that no page fault is timed.
    ///
    /// # Panics
    /// If the area is not.
    pub fn new(memory: &'m M, area: Range<u64>, seed: u64) -> Self {
        let bytes = area.end - area.start;
        assert!(area.start.is_multiple_of(LINE) && bytes >= 64 * LINE, "too small an area");
        for at in area.clone().step_by(LINE as usize) {
            memory.store(at, at);
        }
        memory.write_back(area.start, bytes);
        memory.fence();
        Bench { memory, at: area.start, area, random: Random::new(seed, 0) }
    }

    /// Times `primitive` in `batches` batches of a millisecond or more.
    pub fn time(&mut self, primitive: Primitive, batches: usize) -> Timing {
        let mut count = 1;
        while self.batch(primitive, count) < BATCH && count < 1 << 24 {
            count *= 2;
        }
        let excluded = if primitive == Primitive::Covered { time_of_work(count) } else { 0.0 };
        let one = |elapsed: Duration| elapsed.as_nanos() as f64 / count as f64 - excluded;
        let mut times: Vec<f64> =
            (0..batches.max(1)).map(|_| one(self.batch(primitive, count))).collect();
        times.sort_by(f64::total_cmp);
        Timing {
            name: primitive.name(),
            median_ns: times[times.len() / 2],
            least_ns: times[0],
            most_ns: times[times.len() - 1],
        }
    }

    fn batch(&mut self, primitive: Primitive, count: u64) -> Duration {
        let start = Instant::now();
        for turn in 0..count {
            self.once(primitive, turn);
        }
        start.elapsed()
    }

    #[inline]
    fn once(&mut self, primitive: Primitive, turn: u64) {
        let memory = self.memory;
        match primitive {
            Primitive::Sequential(lines) => self.store_row(lines, turn),
            Primitive::Scattered(lines) => {
                for _ in 0..lines {
                    let at = self.any_line();
                    memory.store(at, turn);
                    memory.write_back(at, LINE);
                }
            }
            Primitive::Streamed(lines) => {
                let words = [turn; 16 * 8];
                let at = self.next_row(lines);
                memory.stream(at, &words[..lines as usize * 8]);
            }
            Primitive::Hot => {
                memory.store(self.area.start, turn);
                memory.write_back(self.area.start, LINE);
            }
            Primitive::Clean => memory.write_back(self.area.start, LINE),
            Primitive::Covered => {
                self.store_row(1, turn);
                black_box(work(turn));
            }
            Primitive::Fence => {}
        }
        memory.fence();
    }

    #[inline]
    fn store_row(&mut self, lines: u64, turn: u64) {
        let at = self.next_row(lines);
        for word in 0..lines * 8 {
            self.memory.store(at + word * 8, turn);
        }
        self.memory.write_back(at, lines * LINE);
    }

    /// The next lines in a row, from the start again at the end.
    #[inline]
    fn next_row(&mut self, lines: u64) -> u64 {
        if self.at + lines * LINE > self.area.end {
            self.at = self.area.start;
        }
        let at = self.at;
        self.at += lines * LINE;
        at
    }

    #[inline]
    fn any_line(&mut self) -> u64 {
        let lines = (self.area.end - self.area.start) / LINE;
        self.area.start + self.random.below(lines) * LINE
    }
}

/// The cost of writing back one line and one fence, in nanoseconds: the median of 21 batches.
pub fn line_and_fence<M: Memory>(memory: &M, area: Range<u64>) -> f64 {
    Bench::new(memory, area, 0).time(Primitive::Sequential(1), 21).median_ns
}

/// Computation in which each step needs the one before.
#[inline(never)]
fn work(seed: u64) -> u64 {
    (0..WORK_STEPS).fold(seed, |sum, step| (sum ^ step).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn time_of_work(count: u64) -> f64 {
    let start = Instant::now();
    for turn in 0..count {
        black_box(work(black_box(turn)));
    }
    start.elapsed().as_nanos() as f64 / count as f64
}
