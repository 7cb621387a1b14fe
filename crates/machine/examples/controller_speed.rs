//! How many calls a controller answers in a second: `cargo run --release -p perdura-machine
//! --example controller_speed [machine...]`.

use perdura_machine::controller::{Cause, Controller};
use perdura_machine::{Ps, presets};
use std::time::Instant;

const CALLS: u64 = 10_000_000;

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["ddr4", "pcm", "optane", "dual-page"].map(String::from).to_vec();
    }
    println!("{:<12} {:>14} {:>14} {:>14}", "M calls/s", "random", "sequential", "all reads");
    for name in &names {
        let memory = match presets::load(name) {
            Ok(machine) => machine.memory,
            Err(error) => return eprintln!("{error}"),
        };
        let speed = |random: bool, writes: bool| {
            let mut controller = Controller::new(&memory);
            let (mut now, mut state, mut last) = (Ps(0), 1_u64, Ps(0));
            let start = Instant::now();
            for i in 0..CALLS {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let line = if random { state >> 43 } else { i };
                // A third are evictions; a core waits for what it reads.
                if writes && i % 3 == 2 {
                    last = controller.write(line, now, Cause::Eviction).accepted;
                } else {
                    now = controller.read(line, now);
                }
            }
            let seconds = start.elapsed().as_secs_f64();
            assert!(now > Ps(0) && last <= now + Ps(1 << 40), "time has passed");
            CALLS as f64 / seconds / 1e6
        };
        let (random, sequential, reads) =
            (speed(true, true), speed(false, true), speed(true, false));
        println!("{name:<12} {random:>14.1} {sequential:>14.1} {reads:>14.1}");
    }
}
