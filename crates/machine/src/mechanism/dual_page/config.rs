//! The design and its figures.

use crate::mechanism::Mutant;
use serde::{Deserialize, Serialize};

/// Where the table is while the power is on (5.5.1 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metadata {
    /// Page indexes in the controller, vectors in DRAM, those of some entries cached: the paper's.
    Split,
    /// All in the controller.
    Controller,
    /// All in DRAM, some entries cached.
    Dram,
}

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualPageConfig {
    /// Where they are from.
    pub source: String,
    /// Cycles to look a page up.
    pub lookup_cycles: u32,
    /// Derivative pages, at most as many as the program has pages; 0 for 3.7 % of those, and four at least.
    pub pool_pages: u64,
    /// Where the table is.
    pub metadata: Metadata,
    /// Entries that the controller has copies of at a time, from 1 on: of all that is in DRAM.
    pub cached_entries: usize,
    /// Lines of the special buffer: not fewer than lines fit into all caches, and 256 more.
    pub special_lines: u64,
    /// Bytes of a core's state.
    pub state_bytes: u64,
}

impl Default for DualPageConfig {
    fn default() -> Self {
        DualPageConfig {
            source: "assumed".to_owned(),
            lookup_cycles: 0,
            pool_pages: 0,
            metadata: Metadata::Split,
            cached_entries: 1,
            special_lines: 1 << 16,
            state_bytes: 1024,
        }
    }
}

/// The design.
#[derive(Clone, Debug, Default)]
pub struct DualPage {
    pub(super) config: DualPageConfig,
    left_out: Option<Mutant>,
}

impl DualPage {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is out of range.
    pub fn new(config: DualPageConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        let DualPageConfig { pool_pages, cached_entries, special_lines, state_bytes, .. } = config;
        if cached_entries == 0 || cached_entries > 1 << 24 {
            return Err("cached_entries is from 1 to 2^24".to_owned());
        }
        if pool_pages > 1 << 31 || special_lines > 1 << 31 || state_bytes > 1 << 20 {
            return Err(
                "pool_pages and special_lines are 2^31 at most, state_bytes 2^20".to_owned()
            );
        }
        Ok(DualPage { config, left_out: left_out.copied() })
    }

    pub(super) fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }
}
