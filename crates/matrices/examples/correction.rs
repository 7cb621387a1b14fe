//! How many loss patterns of a page are corrected: 1 to 10 lost blocks of 7 x 7, every pattern of few
//! blocks, random patterns of many; compared with what is possible (no cycle of rows and columns) and
//! with elimination alone.
//!
//! ```console
//! $ cargo run --release -p perdura-matrices --example correction -- [PATTERNS] [SEED] [FEWEST]
//! ```

use perdura_matrices::{Coverage, Known, Matrix, Outcome, Shape, Summer, Sums, correct};
use perdura_memory::random::SplitMix64;
use std::time::{Duration, Instant};

const SHAPE: Shape = Shape::PAGE;
const CELLS: usize = SHAPE.cells();
/// Patterns of up to this many blocks are all tried.
const EXHAUSTIVE: usize = 4;

#[derive(Default)]
struct Count {
    patterns: u64,
    acyclic: u64,
    eliminated: u64,
    corrected: u64,
    wrong: u64,
    slowest: Duration,
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let patterns = numbers.next().unwrap_or(20_000);
    let seed = numbers.next().unwrap_or(1);
    let fewest = numbers.next().unwrap_or(1) as usize;
    println!(
        "Up to {EXHAUSTIVE} blocks every pattern, then {patterns} random ones. Seed {seed}.\n"
    );
    println!(
        "| lost | patterns | without a cycle | by elimination alone | corrected | wrong | slowest |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    let mut random = SplitMix64::new(seed);
    for lost in fewest..=10 {
        let mut count = Count::default();
        if lost <= EXHAUSTIVE {
            every(lost, &mut |cells| count.try_out(cells, &mut random));
        } else {
            for _ in 0..patterns {
                let mut cells: Vec<usize> = (0..CELLS).collect();
                random.shuffle(&mut cells);
                count.try_out(&cells[..lost], &mut random);
            }
        }
        let share = |part: u64| format!("{:.3} %", 100.0 * part as f64 / count.patterns as f64);
        println!(
            "| {lost} | {} | {} | {} | {} | {} | {:.1} ms |",
            count.patterns,
            share(count.acyclic),
            share(count.eliminated),
            share(count.corrected),
            count.wrong,
            count.slowest.as_secs_f64() * 1e3
        );
    }
}

/// Calls `each` with every set of `count` cells.
fn every(count: usize, each: &mut impl FnMut(&[usize])) {
    let mut cells: Vec<usize> = (0..count).collect();
    loop {
        each(&cells);
        let end = |index: usize| cells.get(index + 1).copied().unwrap_or(CELLS);
        let Some(index) = (0..count).find(|index| cells[*index] + 1 < end(*index)) else { return };
        cells[index] += 1;
        (0..index).for_each(|index| cells[index] = index);
    }
}

impl Count {
    /// Loses these cells, as whole blocks, from random contents.
    fn try_out(&mut self, cells: &[usize], random: &mut SplitMix64) {
        let all = Coverage::all(SHAPE);
        let mut matrix = Matrix::new(SHAPE);
        matrix.blocks_mut().as_flattened_mut().iter_mut().for_each(|word| *word = random.next());
        let sums = Sums::build(Summer::best(), &matrix, &all);
        let mut found = matrix.clone();
        for cell in cells {
            found.blocks_mut()[*cell] = std::array::from_fn(|_| random.next());
        }
        let start = Instant::now();
        let outcome = correct(Summer::best(), &found, [&all; 2], &sums, &Known::nothing(SHAPE));
        self.slowest = self.slowest.max(start.elapsed());
        self.patterns += 1;
        self.acyclic += u64::from(is_peelable(cells));
        self.eliminated += u64::from(is_eliminable(cells));
        match outcome {
            Outcome::Uncorrectable { .. } => {}
            Outcome::Consistent => self.wrong += 1,
            Outcome::Corrected(corrections) => {
                for correction in &corrections {
                    found.blocks_mut()[correction.cell] = correction.block;
                }
                if found == matrix { self.corrected += 1 } else { self.wrong += 1 }
            }
        }
    }
}

fn degree(cells: &[usize], of: usize, place: fn(usize) -> usize) -> usize {
    cells.iter().filter(|cell| place(**cell) == place(of)).count()
}

fn row(cell: usize) -> usize {
    SHAPE.place(cell).0
}

fn column(cell: usize) -> usize {
    SHAPE.place(cell).1
}

/// Whether the lost blocks can be solved for one by one if it is known which they are.
fn is_peelable(cells: &[usize]) -> bool {
    let mut rest = cells.to_vec();
    while let Some(index) = (0..rest.len()).find(|index| {
        degree(&rest, rest[*index], row) == 1 || degree(&rest, rest[*index], column) == 1
    }) {
        rest.swap_remove(index);
    }
    rest.is_empty()
}

/// Whether they can if it is only known which rows and columns do not add up, and a block is taken as
/// lost if its row, which does not add up, meets just one column that does not, or the other way round.
fn is_eliminable(cells: &[usize]) -> bool {
    let mut rest = cells.to_vec();
    while !rest.is_empty() {
        let count = |place: fn(usize) -> usize| {
            let mut places: Vec<usize> = rest.iter().map(|cell| place(*cell)).collect();
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        if count(row) > 1 && count(column) > 1 {
            return false;
        }
        rest.pop();
    }
    true
}
