//! The wait for blocks that leave the DRAM cache: the same with mechanisms between that and the home device, and without.

#![allow(missing_docs)]

mod common;

use common::mechanisms::small;
use perdura_machine::mechanism::Moments;
use perdura_machine::{Machine, Mechanism, Options, presets};
use perdura_memory::random::SplitMix64;
use perdura_memory::{LINE, Memory, Touch};

/// Is asked about every line, and lets each go home.
struct Lets;

impl Mechanism for Lets {
    fn moments(&self) -> Moments {
        Moments::HOME
    }
}

const LEN: u64 = 64 << 10;

/// Time of a run, ns, and waits for victims in it.
fn run(victim_blocks: Option<usize>, asks: bool) -> (f64, u64) {
    let mut config = presets::load("tiny-dram").expect("a preset");
    config.memory.dram_cache.as_mut().expect("a cache").victim_blocks = victim_blocks;
    let mut options = Options::default();
    if asks {
        options.mechanism = small(|| Lets);
    }
    let machine = Machine::new(config, &[0; LEN as usize], options);
    let object = machine.object(LEN);
    let mut random = SplitMix64::new(1);
    for step in 0..4_000 {
        let at = random.below(LEN / LINE) * LINE;
        match random.below(8) {
            0 => _ = machine.load(at),
            1 => machine.touch(object, at, 200, Touch::Write),
            _ => machine.store(at, step),
        }
    }
    let statistics = machine.statistics();
    let cache = statistics.memory.dram_cache.expect("a cache");
    assert_eq!(cache.victim_waits > 0, cache.victim_wait_ps > 0);
    (statistics.time_ns, cache.victim_waits)
}

#[test]
fn waits_do_not_depend_on_a_mechanism() {
    let sizes = [None, Some(64), Some(4), Some(1), Some(0)];
    let runs = sizes.map(|size| run(size, false));
    assert_eq!(runs, sizes.map(|size| run(size, true)));
    assert_eq!((runs[0].1, runs[1].1), (0, 0), "room for all");
    assert!(
        runs[1..].is_sorted_by(|more, less| more.1 < less.1),
        "less room, more waits: {runs:?}"
    );
    assert!(runs[3..].iter().all(|run| run.0 > runs[0].0), "and more time: {runs:?}");
}
