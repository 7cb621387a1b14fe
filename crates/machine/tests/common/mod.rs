//! What the tests of the machine share.

use perdura_machine::MachineConfig;
use perdura_memory::Domain;

/// The machine with tiny caches, in this domain.
pub(crate) fn tiny(domain: Domain) -> MachineConfig {
    let text = include_str!("../../../../machines/tiny.toml");
    let config = MachineConfig::parse("tiny", text).expect("a preset");
    MachineConfig { domain, ..config }
}
