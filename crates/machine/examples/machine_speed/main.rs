//! How many accesses a second the whole machine simulates: caches, controller and devices, with
//! and without data.
//!
//!     cargo run --release -p perdura-machine --example machine_speed -- --machine pcm
//!
//! `--accesses N`, `--seed S`, `--rounds R` (the best of these is printed). Of the trace, 12 %
//! miss a first level of 32 KiB and 8 ways. *Without data* only times are simulated; *visible*
//! loads and stores words through the memory that programs use; *durable* also keeps what a power
//! cut would leave, with a line written back and a fence now and then; *model* also keeps all
//! that the persistency model allows, for the crash tester. Then `--cores N` (16) cores, each on lines of its own and
//! all waiting for one lock; the mechanisms for transactions on `loc`; and the end of an epoch of `--epoch-mib N` (128)
//! of dirty lines on `dual-page`. `--mechanism NAME` measures that one's transactions alone,
//! `--only cores` the cores.

mod cores;
#[path = "../cache_speed/trace.rs"]
mod trace;
mod transactions;

use perdura_machine::cache::Access;
use perdura_machine::{Keep, Machine, MachineConfig, Options, presets};
use perdura_memory::Memory;
use std::time::Instant;

/// Stores after which one line is written back and fenced.
const FENCE_EVERY: u64 = 64;
/// The trace's lines lie in this many.
const LINES: u64 = 1 << 21;

fn main() -> Result<(), String> {
    let (mut machine, mut accesses, mut seed, mut rounds) = ("pcm".to_owned(), 5_000_000, 1, 3);
    let (mut cores, mut epoch) = (16, 128);
    let (mut mechanism, mut only) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: a number?"));
        match name.as_str() {
            "--machine" => machine = value,
            "--accesses" => accesses = number()?.max(1),
            "--seed" => seed = number()?,
            "--rounds" => rounds = number()?.max(1),
            "--cores" => cores = number()?.clamp(1, 64) as usize,
            "--mechanism" => mechanism = Some(value),
            "--only" if value == "cores" => only = Some(value),
            "--epoch-mib" => epoch = number()?.min(1 << 10),
            _ => return Err(format!("{name} is not known: see the head of this example's file")),
        }
    }
    if mechanism.is_some() {
        return transactions::report(accesses, seed, rounds, mechanism.as_deref());
    }
    let config = presets::load(&machine).map_err(|error| error.to_string())?;
    if only.is_some() {
        cores::report(&config, cores, accesses, seed);
        return Ok(());
    }
    let trace = trace::trace(accesses as usize, 1, seed);
    println!("{machine}, {accesses} accesses, seed {seed}, one core");
    let kinds = [
        ("without data", None),
        ("visible", Some(Keep::Visible)),
        ("durable", Some(Keep::Durable)),
        ("model", Some(Keep::Model)),
    ];
    for (name, keep) in kinds {
        let mut best = f64::INFINITY;
        let mut missed = 0.0;
        for _ in 0..rounds {
            let machine = make(&config, keep.unwrap_or(Keep::Visible), seed);
            let start = Instant::now();
            match keep {
                None => without_data(&machine, &trace),
                Some(_) => with_data(&machine, &trace, keep != Some(Keep::Visible)),
            }
            best = best.min(start.elapsed().as_secs_f64());
            let statistics = machine.statistics();
            assert!(statistics.accesses >= accesses, "every access was simulated");
            let first = statistics.caches.levels[0];
            missed = first.misses as f64 / (first.hits + first.misses) as f64;
        }
        let million = accesses as f64 / best / 1e6;
        println!(
            "{name:<14}{million:>8.1} M accesses/s, {:.1} % miss the first level",
            missed * 100.0
        );
    }
    for cores in [1, cores] {
        cores::report(&config, cores, accesses.min(1_000_000), seed);
    }
    println!("loc, transactions of 100 accesses");
    transactions::report(accesses.min(1_000_000), seed, rounds, None)?;
    cores::epoch(epoch << 14, seed)
}

fn make(config: &MachineConfig, keep: Keep, seed: u64) -> Machine {
    let options = Options { cores: Some(1), keep, seed, ..Options::default() };
    Machine::from_words(config.clone(), vec![0; (LINES * 8) as usize], options)
}

/// The trace's lines, folded into the memory.
fn line(item: u64) -> u64 {
    let line = item & 0xffff_ffff;
    (line ^ (line >> 24).wrapping_mul(0x9_e377)) % LINES
}

fn without_data(machine: &Machine, trace: &[u64]) {
    machine.replay(
        0,
        trace
            .iter()
            .map(|item| (line(*item), if item >> 63 == 0 { Access::Load } else { Access::Store })),
    );
}

fn with_data(machine: &Machine, trace: &[u64], fences: bool) {
    let (mut stores, mut sum) = (0_u64, 0_u64);
    for item in trace {
        let at = line(*item) * 64;
        if item >> 63 == 0 {
            sum = sum.wrapping_add(machine.load(at));
            continue;
        }
        stores += 1;
        machine.store(at, stores);
        if fences && stores.is_multiple_of(FENCE_EVERY) {
            machine.write_back(at, 8);
            machine.fence();
        }
    }
    std::hint::black_box(sum);
}
