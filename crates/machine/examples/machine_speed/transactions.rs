//! The mechanisms for transactions: one core, short transactions on lines that fit into the caches.

use perdura_machine::mechanism::{Promise, list};
use perdura_machine::{Keep, Machine, Options, presets};
use perdura_memory::Memory;
use perdura_memory::random::SplitMix64;
use std::time::Instant;

/// Lines that are accessed, and accesses of a transaction, a quarter of them stores.
const LINES: u64 = 1 << 12;
const EACH: u64 = 100;

/// The speed of each, and of no mechanism; or of one of them.
pub(super) fn report(
    accesses: u64,
    seed: u64,
    rounds: u64,
    only: Option<&str>,
) -> Result<(), String> {
    let all = list::KINDS.iter().filter(|kind| only.is_none_or(|name| name == kind.name));
    for kind in all.filter(|kind| kind.name == "plain" || kind.promises() == Promise::Transactions)
    {
        let mut best = f64::INFINITY;
        for _ in 0..rounds {
            let config = presets::load("loc").map_err(|error| error.to_string())?;
            let mechanism =
                list::design(kind.name, &config, None).map_err(|error| error.to_string())?;
            let keep = Keep::Visible;
            let options = Options { cores: Some(1), keep, seed, mechanism, ..Options::default() };
            let machine = Machine::from_words(config, vec![0; (LINES * 8) as usize], options);
            let start = Instant::now();
            run(&machine, accesses, seed);
            best = best.min(start.elapsed().as_secs_f64());
            assert!(machine.statistics().accesses >= accesses, "every access was simulated");
        }
        println!("{:<14}{:>8.1} M accesses/s", kind.name, accesses as f64 / best / 1e6);
    }
    Ok(())
}

fn run(machine: &Machine, accesses: u64, seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut sum = 0_u64;
    for number in 0..accesses.div_ceil(EACH) {
        machine.tx_begin().expect("it runs alone");
        for step in 0..EACH {
            let at = random.below(LINES) * 64;
            match step % 4 {
                0 => machine.store(at, number),
                _ => sum = sum.wrapping_add(machine.load(at)),
            }
        }
        machine.tx_commit().expect("it fits");
    }
    std::hint::black_box(sum);
}
