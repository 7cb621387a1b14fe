//! After every event, on any machine, the image that the machine leaves is one that the persistency model
//! allows. And timing does not depend on which data is kept.

mod common;

use common::tiny;
use perdura_machine::cache::Policy;
use perdura_machine::config::{DramCache, DurableAt, Holds};
use perdura_machine::{Keep, Machine, MachineConfig, Options, Schedule};
use perdura_memory::image::Image;
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory};
use std::ops::ControlFlow;

const DOMAINS: [Domain; 2] = [Domain::Transient, Domain::Persistent];
const SCHEDULES: [Schedule; 2] = [Schedule::Clock, Schedule::Seeded { every: 3 }];
const LEN: u64 = 4 << 10;

/// The ways in which machines differ in what they do with data, each with its name.
fn variants() -> Vec<(String, MachineConfig)> {
    let mut variants = Vec::new();
    for domain in DOMAINS {
        for (index, policy) in Policy::NAMED.map(|own| own.policy).into_iter().enumerate() {
            for holds in [Holds::Inclusive, Holds::NonInclusive, Holds::Victims] {
                for choice in 0..16 {
                    let [dram, keeps, waits, media] = [1, 2, 4, 8].map(|bit| choice & bit != 0);
                    // The policies share the rarer ones.
                    if waits != ((index + choice) % 2 == 1) {
                        continue;
                    }
                    let mut config = tiny(domain);
                    small(&mut config, policy, holds);
                    config.cores.write_back_keeps = keeps;
                    config.cores.write_back_waits = waits;
                    if media {
                        config.memory.controller.durable_at = DurableAt::Media;
                    }
                    if dram {
                        config.memory.dram_cache = Some(few_blocks(&config));
                    }
                    config.validate().expect("a machine");
                    let name = format!(
                        "{domain} {policy} {holds:?} dram={dram} keeps={keeps} waits={waits} media={media}"
                    );
                    variants.push((name, config));
                }
            }
        }
    }
    variants
}

/// Caches of 4 and 16 lines.
fn small(config: &mut MachineConfig, policy: Policy, holds: Holds) {
    config.caches[0].bytes = 256;
    config.caches[1].bytes = 1024;
    config.caches[1].holds = holds;
    config.caches.iter_mut().for_each(|level| level.policy = policy);
}

/// DRAM of 4 blocks of 4 lines.
fn few_blocks(config: &MachineConfig) -> DramCache {
    DramCache {
        source: "a test".to_owned(),
        bytes: 1024,
        ways: 0,
        block_bytes: 256,
        lookup_ns: 2.0,
        victim_blocks: None,
        device: config.memory.home.clone(),
    }
}

fn scribble(machine: &Machine, seed: u64, steps: u64) {
    let mut random = SplitMix64::new(seed);
    for step in 1..=steps {
        let line = random.below(LEN / LINE - 2) * LINE;
        match random.below(12) {
            0..4 => machine.store(line + random.below(8) * 8, step << 8 | seed),
            4 => machine.copy_in(line + random.below(9), &[step as u8; 100]),
            5 => machine.stream(line, &[step << 8 | seed; 16]),
            6 | 7 => machine.write_back(line, 100),
            8 => machine.fence(),
            9 => _ = machine.compare_exchange(line, machine.load(line), step),
            _ => _ = machine.load(line + 8),
        }
    }
}

fn scribbles(machine: &Machine, cores: usize, steps: u64) -> Vec<Box<dyn FnOnce() + '_>> {
    let scribble =
        |core| Box::new(move || scribble(machine, core, steps)) as Box<dyn FnOnce() + '_>;
    (0..cores as u64).map(scribble).collect()
}

/// The first line with contents that the model forbids.
fn forbidden(image: &Image, words: &[u64]) -> Option<u64> {
    let lines = words.chunks_exact(8).zip(0..);
    lines
        .filter(|(words, line)| {
            let words = (*words).try_into().expect("eight words");
            !image.allows(line * LINE, words)
        })
        .map(|(_, line)| line)
        .next()
}

#[test]
fn machines_leave_only_what_the_model_allows() {
    for (seed, (name, config)) in (0..).zip(variants()) {
        for cores in [1, 3] {
            for schedule in SCHEDULES {
                let options = Options {
                    keep: Keep::Model,
                    cores: Some(cores),
                    seed,
                    schedule,
                    ..Options::default()
                };
                let machine = Machine::new(config.clone(), &[0; LEN as usize], options);
                let programs = scribbles(&machine, cores, 100);
                let checked = machine.run_watched(programs, |machine, event| {
                    let words = machine.power_cut();
                    match machine.model(|image, _| forbidden(image, &words)) {
                        None => ControlFlow::Continue(()),
                        Some(line) => ControlFlow::Break((event, line)),
                    }
                });
                assert!(checked.is_continue(), "{name}, {cores} cores, {schedule:?}: {checked:?}");
            }
        }
    }
}

#[test]
fn data_costs_no_time() {
    for (name, config) in variants() {
        let statistics = [Keep::Visible, Keep::Durable, Keep::Model].map(|keep| {
            let options = Options { keep, cores: Some(3), ..Options::default() };
            let machine = Machine::new(config.clone(), &[0; LEN as usize], options);
            machine.run(scribbles(&machine, 3, 100));
            serde_json::to_string(&machine.statistics()).expect("JSON")
        });
        assert_eq!(statistics[0], statistics[1], "{name}: visible, durable");
        assert_eq!(statistics[1], statistics[2], "{name}: durable, model");
    }
}
