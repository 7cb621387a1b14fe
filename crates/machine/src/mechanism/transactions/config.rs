//! The log's figures, and when programs go on.

use serde::{Deserialize, Serialize};

/// When a program that waits for its transaction goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledged {
    /// When it is durable in the log, with its commit record if there are some: LOC 2 acknowledges it then. Its lines go
    /// in place behind (LOC 4.2), and the log's head moves when they are home.
    #[default]
    Logged,
    /// When its lines are in place.
    Home,
    /// When the log's head has moved, too.
    Truncated,
}

/// Where a program waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// At the commit that ends a window.
    #[default]
    Commit,
    /// At the first begin of the next window.
    Begin,
}

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
    /// When a program goes on.
    #[serde(default)]
    pub acknowledged: Acknowledged,
    /// Where it waits.
    #[serde(default)]
    pub waits: Waits,
}

impl Default for LogConfig {
    fn default() -> Self {
        let source = "LOC 4.2: 32 MB; 2: acknowledged after the commit record; a block in each cycle is assumed";
        LogConfig {
            source: source.to_owned(),
            area_bytes: 32 << 20,
            block_cycles: 1,
            acknowledged: Acknowledged::default(),
            waits: Waits::default(),
        }
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
