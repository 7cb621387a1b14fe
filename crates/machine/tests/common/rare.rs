//! Random programs on small machines, cut at every event and arrival: how many of the runs come to a mechanism's rare
//! branches.

use super::mechanisms::by_name;
use perdura_machine::{Keep, Machine, Options, Ps, Schedule, presets};
use perdura_memory::random::SplitMix64;
use perdura_memory::{LINE, Memory};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

const LINES: u64 = 128;
/// The usual number of runs.
const USUAL: u64 = 60;

/// Runs of one to three cores, with and without DRAM, of which each image must be as promised. Each of these figures of
/// the mechanism must be above zero in a tenth of them.
pub(crate) fn rare_branches_are_met(name: &str, branches: &[&str]) {
    let seeds = perdura_testing::seeds(0, USUAL);
    let runs = seeds.end - seeds.start;
    let met = runs_that_meet(name, seeds);
    println!("{name}, of {runs} runs: {met:?}");
    // A single seed may be repeated.
    for branch in branches.iter().filter(|_| runs >= USUAL) {
        assert!(met[branch] * 10 >= runs, "{branch}: {met:?}");
    }
}

/// Returns for each of the mechanism's figures how many of the runs have it above zero.
fn runs_that_meet(name: &str, seeds: Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut met = BTreeMap::new();
    for seed in seeds {
        let config = presets::load(["tiny", "tiny-dram"][seed as usize % 2]).expect("a preset");
        let cores = 1 + seed % 3;
        let options = Options {
            cores: Some(cores as usize),
            mechanism: by_name(name, None),
            epoch: Some(Ps::from_ns([2_000.0, 5_000.0, 20_000.0][seed as usize / 2 % 3])),
            schedule: [Schedule::Clock, Schedule::Seeded { every: 3 }][seed as usize / 6 % 2],
            keep: Keep::Durable,
            at_arrivals: true,
            seed,
            ..Options::default()
        };
        let machine = Machine::new(config, &[7; (LINES * LINE) as usize], options);
        let program = |core: u64| {
            let machine = &machine;
            Box::new(move || {
                let mut random = SplitMix64::new(seed * 10 + core);
                // Some lines of all pages at first, then whole pages.
                for step in 0..400 {
                    let most = if step < 200 { LINES } else { 24 };
                    let line = random.below(most) * LINE;
                    match random.below(10) {
                        0 => machine.write_back(line, 8),
                        1..3 => _ = machine.load(line),
                        _ => machine.store(line + random.below(8) * 8, step),
                    }
                }
            }) as Box<dyn FnOnce()>
        };
        let broken = machine.run_watched((0..cores).map(program).collect(), |machine, event| {
            let left = machine.power_cut_in_recovery(event.number % 140);
            match machine.broken_promise(&left) {
                Some(word) => ControlFlow::Break((event, word)),
                None => ControlFlow::Continue(()),
            }
        });
        assert!(broken.is_continue(), "{name}, seed {seed}: {broken:?}");
        for (figure, count) in machine.statistics().mechanism_figures {
            *met.entry(figure).or_default() += u64::from(count > 0);
        }
    }
    met
}
