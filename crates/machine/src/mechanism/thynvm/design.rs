//! The figures, and the design that has them.

use super::super::mutant::Mutant;
use super::tables::Layout;
use perdura_memory::LINE;
use serde::{Deserialize, Serialize};

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThyNvmConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look up where a line is, in both tables at once.
    pub lookup_cycles: u32,
    /// Bytes of a page: a power of two, from 64 to 4096.
    pub page_bytes: u64,
    /// Entries of the table of blocks.
    pub block_entries: u64,
    /// A page with more dirty lines in an epoch is written as a whole from the next one on.
    pub whole_above: u32,
    /// A page with fewer dirty lines in an epoch is written line by line again.
    pub lines_below: u32,
    /// Blocks that an epoch has not written are copied home if the free share of the table is below this.
    pub moves_when_free: f64,
}

impl Default for ThyNvmConfig {
    fn default() -> Self {
        ThyNvmConfig {
            source: "assumed; thresholds: ThyNVM".to_owned(),
            lookup_cycles: 0,
            page_bytes: 4096,
            block_entries: 76_800,
            whole_above: 22,
            lines_below: 16,
            moves_when_free: 0.25,
        }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct ThyNvm {
    pub(super) config: ThyNvmConfig,
    left_out: Option<Mutant>,
}

impl ThyNvm {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is out of range.
    pub fn new(config: ThyNvmConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if !config.page_bytes.is_power_of_two() || !(64..=4096).contains(&config.page_bytes) {
            return Err("page_bytes is a power of two, from 64 to 4096".to_owned());
        }
        if !(1..=1 << 30).contains(&config.block_entries) {
            return Err("block_entries is from 1 to 2^30".to_owned());
        }
        if !(0.0..=1.0).contains(&config.moves_when_free) {
            return Err("moves_when_free is a share from 0 to 1".to_owned());
        }
        Ok(ThyNvm { config, left_out: left_out.copied() })
    }

    pub(super) fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }

    pub(super) fn layout(&self, program: u64) -> Layout {
        Layout::new(program, self.config.page_bytes / LINE, self.config.block_entries)
    }
}
