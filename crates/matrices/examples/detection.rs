//! Damage that sums of a column of seven blocks miss: a plain sum as in the paper, xor, Fletcher-64
//! and ours, all of 64 bits for a lane, on realistic contents.
//!
//! ```console
//! $ cargo run --release -p perdura-matrices --example detection -- [TRIALS] [SEED]
//! ```

#[path = "../tests/checksum/sums.rs"]
mod sums;

use sums::{DAMAGES, FILLS, SUMS, missed};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let trials = numbers.next().unwrap_or(100_000);
    let seed = numbers.next().unwrap_or(1);
    println!("Of so many damaged columns, how many each sum missed. Seed {seed}.\n");
    println!("| contents | damage | damaged | {} |", SUMS.map(|(name, _)| name).join(" | "));
    println!("|---|---|---:|{}", "---:|".repeat(SUMS.len()));
    for (contents, fill) in FILLS {
        for (kind, damage) in DAMAGES {
            let (missed, of) = missed(seed, fill, damage, trials);
            let missed = missed.map(|count| count.to_string()).join(" | ");
            println!("| {contents} | {kind} | {of} | {missed} |");
        }
    }
}
