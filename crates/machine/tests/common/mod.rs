//! Shared by the tests of the machine.

#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) mod bank;
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) mod conflicts;
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) mod cuts;
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) mod mechanisms;
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) mod rare;
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) mod whole;

use perdura_machine::config::{DramCache, Page};
use perdura_machine::{Machine, MachineConfig};
use perdura_memory::Domain;

/// The machine with tiny caches, in this domain.
pub(crate) fn tiny(domain: Domain) -> MachineConfig {
    let text = include_str!("../../../../machines/tiny.toml");
    let config = MachineConfig::parse("tiny", text).expect("a preset");
    MachineConfig { domain, ..config }
}

/// That machine with times that can be added up by hand: see `timing.rs`.
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) fn timed(store_buffer: usize) -> MachineConfig {
    let mut config = tiny(Domain::Transient);
    config.cores.ghz = 1.0;
    config.cores.cycles_per_access = 0;
    config.cores.store_buffer = store_buffer;
    config.cores.write_back_cycles = 2;
    config.cores.fence_cycles = 1;
    config.cores.transfer_cycles = 20;
    let home = &mut config.memory.home;
    home.page = Page::Closed;
    (home.activate_ns, home.row_hit_ns, home.write_ns) = (100.0, 10.0, 50.0);
    (home.read_burst_ns, home.write_burst_ns) = (5.0, 5.0);
    config.memory.controller.turnaround_ns = 0.0;
    config
}

/// That machine with this many blocks of DRAM in front of its home device, and as fast as that one; 2 ns to look one up.
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) fn behind_dram(config: &MachineConfig, blocks: u64, block_bytes: u64) -> MachineConfig {
    let mut cached = config.clone();
    cached.memory.dram_cache = Some(DramCache {
        source: "a test".to_owned(),
        bytes: blocks * block_bytes,
        ways: 0,
        block_bytes,
        lookup_ns: 2.0,
        victim_blocks: None,
        device: config.memory.home.clone(),
    });
    cached
}

/// A figure of the machine's mechanisms.
#[allow(dead_code, reason = "each test file has this module, and not each uses all of it")]
pub(crate) fn figure(machine: &Machine, name: &str) -> u64 {
    let figures = machine.statistics().mechanism_figures;
    figures.iter().find(|figure| figure.0 == name).expect("a figure").1
}
