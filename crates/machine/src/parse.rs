//! A machine's file, read: its figures, and its mechanisms' tables.

use crate::mechanism::list;
use crate::{ConfigError, MachineConfig};

impl MachineConfig {
    /// Reads a machine; `name` is for messages.
    ///
    /// # Errors
    /// `Parse`, `Invalid`.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|error| ConfigError::Parse { name: name.to_owned(), error: error.into() })?;
        config.validate()?;
        Ok(config)
    }

    /// Fails if it cannot be built.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_parts()?;
        list::validate(self).map_err(|what| ConfigError::Invalid { name: self.name.clone(), what })
    }
}
