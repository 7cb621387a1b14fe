//! What a line costs beyond the caches, and from when on it is durable.

use crate::Ps;
use crate::config::MemoryConfig;

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// When the controller has it: whoever waits for it goes on.
    pub accepted: Ps,
    /// When it is in the persistence domain; `None` while it is only in a volatile DRAM cache.
    pub durable: Option<Ps>,
}

/// Why a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A cache needed the room.
    Eviction,
    /// The program asked for it: it goes through a volatile DRAM cache.
    WriteBack,
    /// The program stored it past the caches: likewise.
    Stream,
    /// A hardware mechanism needs it: likewise.
    Mechanism,
}

/// The controller, with what is behind it. Lines are numbers (address / 64).
pub struct Controller {
    left: Vec<(u64, Ps)>,
}

impl Controller {
    /// A controller at rest.
    pub fn new(_config: &MemoryConfig) -> Self {
        Controller { left: Vec::new() }
    }

    /// A line is wanted at `now`; when it is there.
    pub fn read(&mut self, _line: u64, now: Ps) -> Ps {
        now + Ps(100_000)
    }

    /// A line is handed over at `now`.
    pub fn write(&mut self, _line: u64, now: Ps, _cause: Cause) -> Write {
        Write { accepted: now + Ps(100_000), durable: Some(now + Ps(100_000)) }
    }

    /// Lines that left the volatile DRAM cache for the home device in the last call, and when
    /// they are durable.
    pub fn left_dram(&self) -> &[(u64, Ps)] {
        &self.left
    }
}

/// Stub.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ControllerStats {}

impl Controller {
    /// Stub.
    pub fn stats(&self) -> ControllerStats {
        ControllerStats {}
    }

    /// Stub.
    pub fn reset_stats(&mut self) {}

    /// Stub.
    pub fn holds_dirty(&self, _line: u64) -> bool {
        false
    }
}
