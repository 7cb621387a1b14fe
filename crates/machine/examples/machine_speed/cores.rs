//! Several cores, and the end of a large epoch.

use perdura_machine::mechanism::list;
use perdura_machine::{Keep, Machine, MachineConfig, Options, presets};
use perdura_memory::Memory;
use perdura_memory::random::SplitMix64;
use std::time::Instant;

/// What is locked, and what the lock guards.
const LOCK: u64 = 0;
const GUARDED: u64 = 64;
/// Where the lines of each core begin, and how many there are.
const OWN: u64 = 1 << 20;
const OWN_LINES: u64 = 1 << 14;

fn machine(config: &MachineConfig, cores: usize, seed: u64) -> Machine {
    let bytes = OWN * (cores as u64 + 1);
    let options = Options { cores: Some(cores), keep: Keep::Visible, seed, ..Options::default() };
    Machine::from_words(config.clone(), vec![0; (bytes / 8) as usize], options)
}

/// Runs the same program on each core; millions of accesses a second of host time, and accesses.
fn timed(machine: &Machine, program: impl Fn(usize) + Copy) -> (f64, u64) {
    let cores = machine.cores();
    let start = Instant::now();
    machine
        .run((0..cores).map(|core| Box::new(move || program(core)) as Box<dyn FnOnce()>).collect());
    let seconds = start.elapsed().as_secs_f64();
    let accesses = machine.statistics().accesses;
    (accesses as f64 / seconds / 1e6, accesses)
}

/// Each core on lines of its own, and all of them waiting for one lock.
pub(super) fn report(config: &MachineConfig, cores: usize, accesses: u64, seed: u64) {
    let each = (accesses / cores as u64).max(1);
    let apart = machine(config, cores, seed);
    let (speed, count) = timed(&apart, |core| {
        let mut random = SplitMix64::new(seed + core as u64);
        for step in 0..each {
            let at = OWN * (core as u64 + 1) + random.below(OWN_LINES) * 64;
            if step % 3 == 0 { apart.store(at, step) } else { _ = apart.load(at) }
        }
    });
    println!("{cores:>2} cores apart  {speed:>8.1} M accesses/s ({count} accesses)");
    let locked = machine(config, cores, seed);
    let rounds = (each / 4).max(1);
    let (speed, count) = timed(&locked, |_| {
        for _ in 0..rounds {
            while locked.compare_exchange(LOCK, 0, 1).is_err() {
                let mut turn = 0;
                while locked.load(LOCK) != 0 {
                    locked.pause(turn);
                    turn += 1;
                }
            }
            let value = locked.load(GUARDED);
            locked.store(GUARDED, value + 1);
            locked.store(LOCK, 0);
        }
    });
    assert_eq!(locked.load(GUARDED), rounds * cores as u64, "no round was lost");
    println!("{cores:>2} cores, 1 lock{speed:>8.1} M accesses/s ({count} accesses)");
}

/// How long the host takes for the end of an epoch of this many dirty lines, under the undo log.
pub(super) fn epoch(lines: u64, seed: u64) -> Result<(), String> {
    let config = presets::load("dual-page").map_err(|error| error.to_string())?;
    let mechanism = list::design("undo-log", &config, None).map_err(|error| error.to_string())?;
    let options = Options { cores: Some(1), seed, mechanism, ..Options::default() };
    let machine = Machine::from_words(config, vec![0; (lines * 8) as usize], options);
    let start = Instant::now();
    (0..lines).for_each(|line| machine.store(line * 64, line + 1));
    let stored = start.elapsed().as_secs_f64();
    let (start, before) = (Instant::now(), machine.time());
    machine.end_epoch();
    let seconds = start.elapsed().as_secs_f64();
    let simulated = machine.time().since(before).as_ns() / 1e6;
    let home = machine.power_cut();
    assert!((0..lines).all(|line| home[line as usize * 8] == line + 1), "every line is home");
    println!(
        "end of an epoch of {} MiB: {seconds:.2} s of host time, {simulated:.1} ms simulated ({stored:.2} s to store them)",
        lines >> 14
    );
    Ok(())
}
