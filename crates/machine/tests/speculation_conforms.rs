//! The machine's speculations keep the contract that those of processors and of software keep, too.

#![allow(missing_docs)]

mod common;

use common::tiny;
use perdura_machine::mechanism::{CcHtm, CcHtmConfig, Htm, HtmConfig};
use perdura_machine::{Design, Keep, Machine, Options, Schedule};
use perdura_memory::Domain;
use perdura_memory::conformance::speculation::{NEEDS, speculates};

fn machine(domain: Domain, seed: u64, transactions: Box<dyn Design>) -> Machine {
    let schedule = Schedule::Seeded { every: 1 + seed as u32 % 7 };
    let options = Options {
        cores: Some(3),
        keep: Keep::Model,
        schedule,
        seed,
        transactions,
        ..Options::default()
    };
    Machine::new(tiny(domain), &vec![0; NEEDS as usize], options)
}

fn conforms(machine: &Machine, seed: u64) {
    let run = |programs: &[&(dyn Fn() + Sync)]| {
        machine.run(
            programs.iter().map(|&program| Box::new(program) as Box<dyn FnOnce() + '_>).collect(),
        );
    };
    let counts = speculates(machine, &run, 100);
    let hardware: u64 = counts.iter().map(|counts| counts.hardware).sum();
    assert!(hardware > 60, "seed {seed}: {counts:?}");
}

#[test]
fn isolated_speculations_conform() {
    for seed in 0..20 {
        let interrupt_ns = [0.0, 20_000.0][seed as usize % 2];
        for domain in [Domain::Transient, Domain::Persistent] {
            let htm = Htm::new(HtmConfig { interrupt_ns, ..HtmConfig::default() }, None);
            conforms(&machine(domain, seed, Box::new(htm.expect("figures that make sense"))), seed);
        }
    }
}

#[test]
fn durable_speculations_conform() {
    for seed in 0..20 {
        let config = CcHtmConfig { log_bytes: 4096, ..CcHtmConfig::default() };
        let cc_htm = CcHtm::new(config, None).expect("figures that make sense");
        conforms(&machine(Domain::Transient, seed, Box::new(cc_htm)), seed);
    }
}
