//! Machines described by TOML files: read, refused or built, and used.

use crate::Target;
use perdura_machine::{Keep, Machine, MachineConfig, Options, presets};
use perdura_memory::{Domain, Memory};
use std::cell::Cell;

pub(crate) const MACHINE: Target = Target { name: "machine", run: build, seeds, words: WORDS };

const BYTES: u64 = 1 << 16;

fn build(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match MachineConfig::parse("fuzz", text) {
        Ok(config) => run(config),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A short program on each of the cores.
fn run(config: MachineConfig) {
    let (cores, domain) = (config.cores.count, config.domain);
    let keep = if domain == Domain::Transient { Keep::Durable } else { Keep::Visible };
    let options = Options { keep, ..Options::default() };
    let machine = Machine::new(config, &vec![0; BYTES as usize], options);
    let done = Cell::new(0);
    let programs = (0..cores).map(|core| {
        let (machine, done) = (&machine, &done);
        Box::new(move || {
            for step in 0..40u64 {
                let at = (step * 4160 + core as u64 * 64) % BYTES;
                machine.store(at, step);
                assert_eq!(machine.load(at + 8), 0);
                machine.write_back(at, 8);
                machine.stream(at ^ 1 << 15, &[0; 8]);
                machine.fence();
            }
            done.set(done.get() + 1);
        }) as Box<dyn FnOnce()>
    });
    machine.run(programs.collect());
    assert_eq!(done.get(), cores);
    if keep == Keep::Durable {
        assert_eq!(machine.power_cut().len() as u64, BYTES / 8);
    }
    let _ = machine.statistics();
}

fn seeds() -> Vec<Vec<u8>> {
    presets::names().filter_map(presets::text).map(|text| text.as_bytes().to_vec()).collect()
}

const WORDS: &[&str] = &[
    "true",
    "false",
    "nan",
    "inf",
    "-inf",
    "\"\"",
    "\"transient\"",
    "\"persistent\"",
    "\"media\"",
    "\"lru\"",
    "\"tree-plru\"",
    "\"inclusive\"",
    "\"victims\"",
    "\"non-inclusive\"",
    "\"queue\"",
    "\"open\"",
    "\"closed\"",
    "[[caches]]\n",
    "[memory.dram_cache]\n",
    "[memory.home.inside]\n",
    "[memory.home.energy]\n",
    "\n",
    "= ",
    "0",
    "1152921504606846976",
    "64",
];
