//! How many accesses a second the caches simulate, for each replacement policy:
//!
//!     cargo run --release -p perdura-machine --example cache_speed -- --accesses 20000000
//!
//! `--accesses N`, `--seed S`, `--cores C`, `--rounds R` (the best of these is printed) and
//! `--policy NAME` change what they say. Three levels: 32 KiB of 8 ways, 256 KiB of 8, both each
//! core's own, 8 MiB of 16, shared. The trace is made beforehand: a third runs through memory
//! word by word, the rest draws lines with a Zipf popularity; 12 % miss the first level with LRU
//! and one core. Each core has its own lines but for an eighth of the draws, which all share.

use perdura_machine::cache::{Access, CacheStats, Hierarchy, Policy};
use perdura_machine::config::{Holds, Level};
use std::time::Instant;

mod trace;

/// Besides those with names.
const NOTATIONS: [&str; 3] = ["H11_M1_R0_U0", "H00_M1_R2_U1", "H00_M2_R0_U0_UMO"];

struct Options {
    accesses: usize,
    seed: u64,
    cores: usize,
    rounds: usize,
    policies: Vec<String>,
}

fn options() -> Result<Options, String> {
    let named = Policy::NAMED.into_iter().map(|own| own.name);
    let policies = named.chain(NOTATIONS).map(str::to_owned).collect();
    let mut options = Options { accesses: 20_000_000, seed: 1, cores: 1, rounds: 3, policies };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{name} {value}: a number?"));
        match name.as_str() {
            "--accesses" => options.accesses = number()?.max(1),
            "--seed" => options.seed = number()? as u64,
            "--cores" => options.cores = number()?.clamp(1, 64),
            "--rounds" => options.rounds = number()?.max(1),
            "--policy" => options.policies = vec![value],
            _ => return Err(format!("{name} is not known: see the head of this example's file")),
        }
    }
    Ok(options)
}

fn main() -> Result<(), String> {
    let options = options()?;
    let trace = trace::trace(options.accesses, options.cores, options.seed);
    let Options { accesses, seed, cores, .. } = options;
    println!("{accesses} accesses, seed {seed}, {cores} cores");
    println!("{:<18}{:>13}   misses of those that look: L1, L2, L3", "policy", "accesses/s");
    for name in &options.policies {
        let policy = name.parse().map_err(|error| format!("{error}"))?;
        let mut best = f64::INFINITY;
        let mut stats = CacheStats::default();
        for _ in 0..options.rounds {
            let mut caches = hierarchy(policy, cores, seed);
            let (start, mut cycles) = (Instant::now(), 0u64);
            for &item in &trace {
                cycles += u64::from(run(&mut caches, item));
            }
            best = best.min(start.elapsed().as_secs_f64());
            check(&caches, &trace, cycles);
            stats = caches.stats().clone();
        }
        print!("{name:<18}{:>11.1} M  ", accesses as f64 / best / 1e6);
        for level in &stats.levels {
            let looked = (level.hits + level.misses).max(1);
            print!(" {:6.2} %", 100.0 * level.misses as f64 / looked as f64);
        }
        match cores {
            1 => println!(),
            _ => {
                println!("   {} transfers, {} invalidations", stats.transfers, stats.invalidations)
            }
        }
    }
    Ok(())
}

/// One access: its line in the low bits, then the core, then whether it is a store.
#[inline(always)]
fn run(caches: &mut Hierarchy, item: u64) -> u32 {
    let access = if item >> 63 == 0 { Access::Load } else { Access::Store };
    caches.access((item >> 48 & 63) as usize, item & 0xffff_ffff, access).cycles
}

/// Every access ended somewhere, and cost what that costs.
fn check(caches: &Hierarchy, trace: &[u64], cycles: u64) {
    let CacheStats { levels, transfers, .. } = caches.stats();
    let hits: u64 = levels.iter().map(|level| level.hits).sum();
    assert_eq!(hits + levels[2].misses + transfers, trace.len() as u64, "accesses that ended");
    let [first, second, third] = [levels[0].hits, levels[1].hits, levels[2].hits];
    let last = third + levels[2].misses + transfers;
    assert_eq!(cycles, 4 * first + 14 * second + 44 * last + 60 * transfers, "cycles");
}

fn hierarchy(policy: Policy, cores: usize, seed: u64) -> Hierarchy {
    let level = |name: &str, kib: u64, ways, latency_cycles, shared| Level {
        source: "made up".to_owned(),
        name: name.to_owned(),
        bytes: kib << 10,
        ways,
        latency_cycles,
        policy,
        shared,
        holds: if shared { Holds::Inclusive } else { Holds::NonInclusive },
    };
    let (first, second) = (level("L1", 32, 8, 4, false), level("L2", 256, 8, 14, false));
    Hierarchy::new(&[first, second, level("L3", 8192, 16, 44, true)], cores, 60, seed)
}
