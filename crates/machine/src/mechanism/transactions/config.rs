//! The log's figures.

use serde::{Deserialize, Serialize};

/// Figures of the log and of its writing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Where they are from.
    pub source: String,
    /// Bytes of the memory log area.
    pub area_bytes: u64,
    /// Cycles to find a block of a transaction in the caches and hand it over.
    pub block_cycles: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        let source = "LOC 4.2: 32 MB; a block in each cycle is assumed".to_owned();
        LogConfig { source, area_bytes: 32 << 20, block_cycles: 1 }
    }
}

impl LogConfig {
    /// Fails if it is too small, or larger than it can be.
    pub(in crate::mechanism) fn validate(&self) -> Result<(), String> {
        let right =
            (16 << 10..=16 << 30).contains(&self.area_bytes) && self.area_bytes.is_multiple_of(512);
        right.then_some(()).ok_or_else(|| {
            "area_bytes is a multiple of 512 from 16 KiB to 16 GiB: block groups have 512"
                .to_owned()
        })
    }
}
