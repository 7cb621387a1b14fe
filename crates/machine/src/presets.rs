//! To be replaced.

use crate::{ConfigError, MachineConfig};

/// Finds a machine.
///
/// # Errors
/// `Unknown`.
pub fn load(name: &str) -> Result<MachineConfig, ConfigError> {
    match name {
        "tiny" => MachineConfig::parse(name, include_str!("../../../machines/tiny.toml")),
        _ => Err(ConfigError::Unknown { name: name.to_owned(), known: "tiny".to_owned() }),
    }
}
