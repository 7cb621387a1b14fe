//! The mechanisms by name, for each of the two places. A new one is its own file and one line here.

use super::cc_htm::{self, CcHtm, CcHtmConfig};
use super::copy_on_write::{CopyOnWrite, CopyOnWriteConfig};
use super::dual_page::{self, DualPage, DualPageConfig};
use super::h_wal::{self, HardwareWal};
use super::htm::{self, Htm, HtmConfig};
use super::in_order::{InOrder, InOrderConfig};
use super::kiln::{self, Kiln, KilnConfig, LocKilnConfig};
use super::loc_wal::{self, LocConfig, LooseOrdering};
use super::overlays::{self, PageOverlays, PageOverlaysConfig};
use super::thynvm::{self, ThyNvm, ThyNvmConfig};
use super::transactions::LogConfig;
use super::undo_log::{HardwareUndoLog, UndoLogConfig};
use super::{Design, Mutant, Plain, Promise};
use crate::MachineConfig;
use serde::de::DeserializeOwned;
use toml::Table;

/// A mechanism that is available by name.
#[derive(Debug)]
pub struct Kind {
    /// Its name, and that of its table in a machine's file: `[mechanism.NAME]`.
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    /// Its mutants: each leaves something out, and a crash test must find it.
    pub mutants: &'static [Mutant],
    make: Make,
}

/// Makes a mechanism with a machine's figures for it, or else its own, and perhaps as a mutant.
type Make = fn(Option<&Table>, Option<&Mutant>) -> Result<Box<dyn Design>, String>;

/// There is no such mechanism, or it cannot be built as the machine's file has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MechanismError {
    /// There is none with this name.
    #[error("there is no mechanism '{name}': the mechanisms are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The machine's table is wrong.
    #[error("[mechanism.{name}]: {what}")]
    Table {
        /// The mechanism.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// It needs more of the machine's DRAM than it may have.
    #[error(
        "the mechanism '{name}' needs {needs} bytes of DRAM, and may have a quarter of the machine's, {room}"
    )]
    Dram {
        /// The mechanism.
        name: &'static str,
        /// Bytes that it needs.
        needs: u64,
        /// Bytes that it may have.
        room: u64,
    },
    /// It has no such mutant.
    #[error("the mechanism '{name}' has no mutant '{mutant}': its mutants are {known}")]
    Mutant {
        /// The mechanism.
        name: &'static str,
        /// What was asked for.
        mutant: String,
        /// What there is.
        known: String,
    },
}

/// The mechanisms for transactions: for [`Options::transactions`](crate::Options::transactions).
pub const SPECULATING: &[Kind] = &[
    Kind {
        name: "htm",
        title: "transactional memory: read and write sets in the caches, requester wins",
        mutants: htm::MUTANTS,
        make: |table, mutant| {
            Htm::new(parse::<HtmConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "cc-htm",
        title: "the same with a redo log for each core: transactions are durable at their commit",
        mutants: cc_htm::MUTANTS,
        make: |table, mutant| {
            CcHtm::new(parse::<CcHtmConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
];

/// The mechanisms for persistence: for [`Options::mechanism`](crate::Options::mechanism).
pub const KINDS: &[Kind] = &[
    Kind {
        name: "plain",
        title: "none",
        mutants: &[],
        make: |table, _| nothing(table).map(|()| Box::new(Plain) as _),
    },
    Kind {
        name: "undo-log",
        title: "undo logging in the memory controller, by epochs",
        mutants: super::undo_log::MUTANTS,
        make: |table, mutant| {
            HardwareUndoLog::new(parse::<UndoLogConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "in-order",
        title: "every store goes home by itself, in order (strict persistency)",
        mutants: super::in_order::MUTANTS,
        make: |table, mutant| {
            InOrder::new(parse::<InOrderConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "copy-on-write",
        title: "copy-on-write of pages in the memory controller, by epochs",
        mutants: super::copy_on_write::MUTANTS,
        make: |table, mutant| {
            CopyOnWrite::new(parse::<CopyOnWriteConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "dual-page",
        title: "dual-page checkpoints in the memory controller: two pages, two bits for a line",
        mutants: dual_page::MUTANTS,
        make: |table, mutant| {
            DualPage::new(parse::<DualPageConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "thynvm",
        title: "tables of blocks and pages, and checkpoints while programs run, by epochs",
        mutants: thynvm::MUTANTS,
        make: |table, mutant| {
            ThyNvm::new(parse::<ThyNvmConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "page-overlays",
        title: "overlays of pages' dirty lines, merged in the next epoch, by epochs",
        mutants: overlays::MUTANTS,
        make: |table, mutant| {
            PageOverlays::new(parse::<PageOverlaysConfig>(table)?, mutant)
                .map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "h-wal",
        title: "transactions: write-ahead logging by the hardware, in software's order",
        mutants: h_wal::MUTANTS,
        make: |table, mutant| {
            HardwareWal::new(parse::<LogConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "ec-wal",
        title: "transactions: write-ahead logging without commit records (eager commit)",
        mutants: loc_wal::EAGER_MUTANTS,
        make: |table, mutant| {
            LooseOrdering::eager(parse::<LogConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "loc-wal",
        title: "transactions: eager commit and speculative persistence (loose-ordering consistency)",
        mutants: loc_wal::MUTANTS,
        make: |table, mutant| {
            LooseOrdering::new(parse::<LocConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "kiln",
        title: "transactions in a non-volatile last-level cache",
        mutants: kiln::MUTANTS,
        make: |table, mutant| {
            Kiln::new(parse::<KilnConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
    Kind {
        name: "loc-kiln",
        title: "transactions in a non-volatile last-level cache, loosely ordered",
        mutants: kiln::LOOSE_MUTANTS,
        make: |table, mutant| {
            Kiln::loose(parse::<LocKilnConfig>(table)?, mutant).map(|it| Box::new(it) as _)
        },
    },
];

/// The mechanism for persistence with this name, with a machine's figures for it, and perhaps as one of its mutants. The
/// machine has as many cores as programs will run on ([`MachineConfig::with_cores`]).
///
/// # Errors
/// There is no such mechanism or mutant, or its table is wrong.
pub fn design(
    name: &str,
    machine: &MachineConfig,
    mutant: Option<&str>,
) -> Result<Box<dyn Design>, MechanismError> {
    fitted(find(name)?, machine, mutant)
}

/// As [`design`], for a mechanism for transactions.
///
/// # Errors
/// As [`design`].
pub fn speculating(
    name: &str,
    machine: &MachineConfig,
    mutant: Option<&str>,
) -> Result<Box<dyn Design>, MechanismError> {
    fitted(find_in(SPECULATING, name)?, machine, mutant)
}

/// A mechanism that is used in the machine, and must fit into it.
fn fitted(
    kind: &'static Kind,
    machine: &MachineConfig,
    mutant: Option<&str>,
) -> Result<Box<dyn Design>, MechanismError> {
    let design = make(kind, machine, mutant)?;
    let room = machine.memory.dram_cache.as_ref().map_or(u64::MAX, |cache| cache.bytes);
    // A quarter of it, so that a cache is left.
    if design.reserves_dram() > room / 4 {
        return Err(MechanismError::Dram {
            name: kind.name,
            needs: design.reserves_dram(),
            room: room / 4,
        });
    }
    let fits = design.fits(machine).map_err(|what| MechanismError::Table { name: kind.name, what });
    fits.map(|()| design)
}

fn make(
    kind: &'static Kind,
    machine: &MachineConfig,
    mutant: Option<&str>,
) -> Result<Box<dyn Design>, MechanismError> {
    let mutant = match mutant {
        None => None,
        Some(wanted) => Some(kind.mutant(wanted)?),
    };
    kind.build(machine.mechanism.get(kind.name), mutant)
}

/// The kind with this name, for persistence.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> Result<&'static Kind, MechanismError> {
    find_in(KINDS, name)
}

/// The kind with this name, for transactions.
///
/// # Errors
/// There is none.
pub fn find_speculating(name: &str) -> Result<&'static Kind, MechanismError> {
    find_in(SPECULATING, name)
}

fn find_in(kinds: &'static [Kind], name: &str) -> Result<&'static Kind, MechanismError> {
    kinds.iter().find(|kind| kind.name == name).ok_or_else(|| MechanismError::Unknown {
        name: name.to_owned(),
        known: joined(kinds.iter().map(|kind| kind.name)),
    })
}

impl Kind {
    /// What it promises, with the figures that it has without a machine's table.
    pub fn promises(&self) -> Promise {
        self.build(None, None).map_or(Promise::Nothing, |design| design.promises())
    }

    fn mutant(&self, name: &str) -> Result<&Mutant, MechanismError> {
        let found = self.mutants.iter().find(|mutant| mutant.name == name);
        found.ok_or_else(|| MechanismError::Mutant {
            name: self.name,
            mutant: name.to_owned(),
            known: joined(self.mutants.iter().map(|mutant| mutant.name)),
        })
    }

    fn build(
        &self,
        table: Option<&Table>,
        mutant: Option<&Mutant>,
    ) -> Result<Box<dyn Design>, MechanismError> {
        (self.make)(table, mutant)
            .map_err(|what| MechanismError::Table { name: self.name, what: what.trim().to_owned() })
    }
}

/// A mechanism's table, or its own figures.
fn parse<T: DeserializeOwned + Default>(table: Option<&Table>) -> Result<T, String> {
    table.map_or_else(|| Ok(T::default()), |table| table.clone().try_into().map_err(text))
}

fn nothing(table: Option<&Table>) -> Result<(), String> {
    table.map_or(Ok(()), |_| Err("it has no figures".to_owned()))
}

fn text(error: toml::de::Error) -> String {
    error.message().to_owned()
}

fn joined(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Fails if one of a machine's tables names no mechanism, or is wrong.
pub(crate) fn validate(machine: &MachineConfig) -> Result<(), String> {
    machine.mechanism.iter().try_for_each(|(name, table)| {
        let known =
            SPECULATING.iter().find(|kind| kind.name == name).map_or_else(|| find(name), Ok);
        known.and_then(|kind| make(kind, machine, None)).map_err(|error| error.to_string())?;
        let source = table.get("source").and_then(toml::Value::as_str).unwrap_or_default();
        let sourced = !source.trim().is_empty();
        sourced.then_some(()).ok_or_else(|| format!("[mechanism.{name}]: a source is missing"))
    })
}
