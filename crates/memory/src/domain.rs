//! Persistence domains, which say how much the program must do for durability, and what acknowledged data survives.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The persistence domain: the point from which data survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// The memory controller (ADR): a line must be written back and the write-back fenced.
    Transient,
    /// The caches (eADR, CXL global persistent flush): stores are durable in order, and a
    /// write-back asks for nothing.
    Persistent,
    /// A block device behind a file: a fence is a sync of the pages written back, and nothing
    /// becomes durable that was not written back.
    Media,
    /// The operating system's page cache: data survives the process, not a power cut. Output never calls it durable.
    Process,
}

impl Domain {
    /// Whether a store may reach the durable image without having been written back.
    pub const fn evicts(self) -> bool {
        !matches!(self, Domain::Media)
    }

    /// Whether a line must be written back and fenced to be durable.
    pub const fn needs_write_back(self) -> bool {
        matches!(self, Domain::Transient | Domain::Media)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Domain::Transient => "transient",
            Domain::Persistent => "persistent",
            Domain::Media => "media",
            Domain::Process => "process",
        })
    }
}

impl FromStr for Domain {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "transient" => Ok(Domain::Transient),
            "persistent" => Ok(Domain::Persistent),
            "media" => Ok(Domain::Media),
            "process" => Ok(Domain::Process),
            other => Err(format!(
                "unknown persistence domain '{other}': it is one of transient, persistent, media, process"
            )),
        }
    }
}

/// What an acknowledged transaction survives, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Survives {
    /// Nothing: plain memory.
    Nothing = 0,
    /// The death of the process, by any signal.
    Process = 1,
    /// Also a crash of the operating system.
    System = 2,
    /// Also a power cut.
    Power = 3,
}

impl Survives {
    /// The level that has this number in a pool's header.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Survives::Nothing),
            1 => Some(Survives::Process),
            2 => Some(Survives::System),
            3 => Some(Survives::Power),
            _ => None,
        }
    }
}

impl fmt::Display for Survives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Survives::Nothing => "nothing",
            Survives::Process => {
                "the death of the process, not an operating-system crash or a power cut"
            }
            Survives::System => {
                "the death of the process and a crash of the operating system, not a power cut"
            }
            Survives::Power => {
                "the death of the process, a crash of the operating system and a power cut"
            }
        })
    }
}
