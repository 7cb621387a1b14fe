//! Who has which line: levels of cache, their replacement policies, coherence between cores.
//!
//! Tags only: data is elsewhere. Lines are numbers (address / 64).

use crate::config::Level;
use serde::{Deserialize, Serialize};

/// Which line of a full set is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The least recently used one.
    Lru,
    /// Nearly that one: a tree of bits.
    TreePlru,
    /// Least recently used, with most new lines inserted as the oldest.
    Bimodal,
    /// Any.
    Random,
    /// The oldest by two-bit ages.
    QuadAge,
}

/// What a core wants of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read it.
    Load,
    /// To write it: it is the only one that has it afterwards, and it is dirty.
    Store,
}

/// Where an access ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The level that had the line; the number of levels if none had.
    pub level: usize,
    /// Cycles in the caches.
    pub cycles: u32,
}

/// All caches of a machine.
pub struct Hierarchy {
    levels: usize,
    evicted: Vec<u64>,
}

impl Hierarchy {
    /// Empty caches for `cores` cores.
    pub fn new(levels: &[Level], _cores: usize, _transfer_cycles: u32, _seed: u64) -> Self {
        Hierarchy { levels: levels.len(), evicted: Vec::new() }
    }

    /// Core `core` loads or stores `line`. Dirty lines that left the caches for it are in
    /// [`evicted`](Self::evicted) until the next call.
    pub fn access(&mut self, _core: usize, line: u64, access: Access) -> Outcome {
        self.evicted.clear();
        if access == Access::Store {
            self.evicted.push(line);
        }
        Outcome { level: self.levels, cycles: 1 }
    }

    /// Dirty lines that left the caches in the last call, oldest first.
    pub fn evicted(&self) -> &[u64] {
        &self.evicted
    }

    /// Cleans `line` wherever it is, and drops it unless `keeps`. Whether it was dirty.
    pub fn write_back(&mut self, _core: usize, _line: u64, _keeps: bool) -> bool {
        false
    }

    /// Drops `line` wherever it is, dirty or not: it is being stored past the caches.
    pub fn drop_line(&mut self, _line: u64) {}

    /// Every dirty line, ascending.
    pub fn dirty(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Stub.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CacheStats {}

impl Hierarchy {
    /// Stub.
    pub fn stats(&self) -> &CacheStats {
        &CacheStats {}
    }

    /// Stub.
    pub fn reset_stats(&mut self) {}
}
