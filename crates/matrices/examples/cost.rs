//! Cost of writing back an object, of creating checksums for it, and of updating them: prints
//! what `cost` measures, as a table.
//!
//! ```console
//! $ cargo run --release -p perdura-matrices --example cost -- \
//!       [OBJECTS] [BATCH] [DIRECTORY] [SEED] [BYTES...]
//! ```
//! `perdura-lab reproduce archapt-fig6` compares the same figures with the paper's.

use perdura_matrices::cost::{Bench, Cost, Costs, Demand, When};
use perdura_matrices::{Coverage, Matrix, Shape, Summer, Sums};
use perdura_memory::{Domain, MapOptions, Mapped};
use std::hint::black_box;
use std::time::Instant;

const SIZES: [u64; 5] = [128, 256, 512, 1024, 2048];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (objects, batch) = (number(1_300_000), number(64) as usize);
    let mut arguments = std::env::args().skip(3);
    let directory = arguments.next().unwrap_or_else(|| "/dev/shm".to_owned());
    let seed = arguments.next().map_or(1, |text| text.parse().expect("a number"));
    let sizes: Vec<u64> = arguments.map(|text| text.parse().expect("a size in bytes")).collect();
    for summer in Summer::all() {
        println!("{}: {:.1} ns to sum a block that is at hand", summer.name(), sum_time(summer));
    }
    println!("{objects} objects, batches of {batch}, {}, seed {seed}.", Summer::best().name());
    println!("Nanoseconds for an object, lines written back for it, and time beside that of the");
    println!("first column of the same row (less than 100 %: cheaper).\n");
    println!("| bytes | when | write back | create | create, packed | update |");
    println!("|---:|---|---:|---:|---:|---:|");
    for &size in if sizes.is_empty() { &SIZES[..] } else { &sizes } {
        let demand = Demand { size, objects, batch, seed };
        demand.validate().expect("a size that can be measured");
        let path = format!("{directory}/perdura-checksum-cost-{}", std::process::id());
        let options = MapOptions { domain: Some(Domain::Transient), limit: demand.bytes() };
        let memory = Mapped::create(&path, demand.bytes(), options).expect("a file for objects");
        // The file stays mapped without a name, so that nothing is left behind.
        std::fs::remove_file(&path).expect("the file that was made");
        let bench = Bench::new(&memory, demand, &|_| true).expect("objects");
        for when in When::ALL {
            let costs = bench.measure(when).expect("checksums that add up");
            println!("{}", row(size, when, &costs));
        }
    }
}

fn row(size: u64, when: When, costs: &Costs) -> String {
    let show = |cost: &Cost| {
        let share = 100.0 * cost.nanoseconds / costs.flush.nanoseconds;
        format!("{:.0} ns, {:.1} lines, {share:.0} %", cost.nanoseconds, cost.lines)
    };
    let all = [Some(&costs.flush), Some(&costs.create), Some(&costs.packed), costs.update.as_ref()];
    let cells = all.map(|cost| cost.map_or(String::new(), show));
    format!("| {size} | {} | {} |", when.name(), cells.join(" | "))
}

/// Nanoseconds to add a block to both of its sums, for a whole page in the nearest cache.
fn sum_time(summer: Summer) -> f64 {
    const TURNS: u32 = 2000;
    let (matrix, all) = (Matrix::new(Shape::PAGE), Coverage::all(Shape::PAGE));
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..TURNS {
            black_box(Sums::build(summer, black_box(&matrix), &all));
        }
        let each = f64::from(TURNS) * Shape::PAGE.cells() as f64;
        best = best.min(start.elapsed().as_nanos() as f64 / each);
    }
    best
}
