//! Leaves out the write-backs, streams or fences of one call site.

use perdura_memory::Reference;
use perdura_memory::any::{Asked, Watch};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// A call of `write_back`, `stream` or `fence` in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    what: Asked,
    file: &'static str,
    line: u32,
}

impl Site {
    /// Whether it makes durable the stores that a dead process may have left.
    pub(crate) fn is_for_the_dead(&self) -> bool {
        ["engine/src/log/left.rs", "heap/src/superblock.rs"]
            .iter()
            .any(|file| self.file.ends_with(file))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.rsplit("crates/").next().unwrap_or_default();
        write!(f, "{:?} {file}:{}", self.what, self.line)
    }
}

/// The sites seen by a family of memories.
pub(crate) type Sites = Arc<Mutex<BTreeSet<Site>>>;

/// A memory that leaves out operations of one site.
pub(crate) struct Omitting {
    memory: Arc<Reference>,
    omitted: Option<Site>,
    met: Sites,
    /// Events at which an operation was left out.
    left_out: Mutex<Vec<u64>>,
}

impl Omitting {
    /// Leaves out the operations that `omitted` asks for, and records all sites of `memory` in `met`.
    pub(crate) fn new(memory: &Arc<Reference>, omitted: Option<Site>, met: &Sites) -> Self {
        let (memory, met) = (memory.clone(), met.clone());
        Omitting { memory, omitted, met, left_out: Mutex::default() }
    }

    /// Events at which an operation was left out.
    pub(crate) fn left_out(&self) -> Vec<u64> {
        self.left_out.lock().unwrap().clone()
    }
}

impl Watch for Omitting {
    fn leaves_out(&self, what: Asked, at: &'static Location<'static>) -> bool {
        let site = Site { what, file: at.file(), line: at.line() };
        if self.omitted.is_none() {
            self.met.lock().unwrap().insert(site);
        }
        if self.omitted == Some(site) {
            self.left_out.lock().unwrap().push(self.memory.events());
        }
        self.omitted == Some(site)
    }
}
