//! The design and its figures.

use super::tables::Layout;
use crate::mechanism::Mutant;
use perdura_memory::LINE;
use serde::{Deserialize, Serialize};

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageOverlaysConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look an overlay up.
    pub lookup_cycles: u32,
    /// Bytes of a page: a power of two, from 64 to 4096.
    pub page_bytes: u64,
    /// Overlays' entries that the controller holds, the others are in DRAM; 0: all of them.
    pub cached_entries: usize,
    /// Entries in DRAM, 64 bytes each; pages share them if there are more. Nothing if the controller holds all.
    pub dram_entries: u64,
}

impl Default for PageOverlaysConfig {
    fn default() -> Self {
        PageOverlaysConfig {
            source: "assumed".to_owned(),
            lookup_cycles: 0,
            page_bytes: 4096,
            cached_entries: 0,
            dram_entries: 0,
        }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct PageOverlays {
    pub(super) config: PageOverlaysConfig,
    left_out: Option<Mutant>,
}

impl PageOverlays {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is out of range.
    pub fn new(config: PageOverlaysConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if !config.page_bytes.is_power_of_two() || !(64..=4096).contains(&config.page_bytes) {
            return Err("page_bytes is a power of two, from 64 to 4096".to_owned());
        }
        if (config.cached_entries == 0) != (config.dram_entries == 0) {
            return Err("there are entries in DRAM if the controller does not hold all".to_owned());
        }
        Ok(PageOverlays { config, left_out: left_out.copied() })
    }

    pub(super) fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }

    pub(super) fn layout(&self, program: u64) -> Layout {
        Layout::new(program, self.config.page_bytes / LINE)
    }
}
