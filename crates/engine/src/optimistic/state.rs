//! The shared state of the sessions of an engine on software transactional memory.

use super::dirty::DirtySets;
use super::group::Group;
use super::snapshots::Snapshots;
use crate::consistency::core::Core;
use crate::consistency::none::Nothing;
use crate::consistency::protocol::Consistency;
use crate::consistency::redo::Redo;
use crate::consistency::undo::Undo;
use crate::log::record::FoundRecord;
use crate::sync::Patience;
use crate::sync::stm::{Clock, Lanes, Records};
use crate::writes::Versions;
use crate::{Recovery, Result};
use perdura_memory::{Domain, Memory};
use std::marker::PhantomData;
use std::sync::Arc;

/// How commits become durable.
pub trait Durability: Send + Sync + 'static {
    /// Whether they write a record and fence it before they store in place.
    const LOGS: bool;

    /// Whether that record has the old words, and becomes void when the new ones are durable in place.
    const UNDOES: bool = false;

    /// Whether fresh memory of this many bytes goes through the log.
    fn logs_fresh(domain: Domain, len: u64) -> bool;

    /// Stores the words of the transactions that count, oldest first, in place, and asks for them to become durable.
    ///
    /// # Errors
    /// `Corrupt` for records that cannot be.
    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery>;
}

impl Durability for Nothing {
    const LOGS: bool = false;

    fn logs_fresh(_domain: Domain, _len: u64) -> bool {
        false
    }

    fn apply<M: Memory>(_memory: &M, _whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        Ok(Recovery::default())
    }
}

impl Durability for Redo {
    const LOGS: bool = true;

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        <Redo as Consistency>::logs_fresh(domain, len)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        <Redo as Consistency>::apply(memory, whole)
    }
}

impl Durability for Undo {
    const LOGS: bool = true;
    const UNDOES: bool = true;

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        <Undo as Consistency>::logs_fresh(domain, len)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        <Undo as Consistency>::apply(memory, whole)
    }
}

/// An engine of consistency `C` on software transactional memory.
pub struct Optimistic<M: Memory, C, S> {
    pub(super) core: Core<M>,
    pub(super) clock: Clock,
    pub(super) records: Records,
    pub(super) lanes: Arc<Lanes>,
    pub(super) versions: Versions,
    pub(super) snapshots: Snapshots,
    /// For commits that are not durable when they return: on a block device.
    pub(super) group: Option<Group>,
    /// Lines stored to, if they need a write-back that nothing else asks for.
    pub(super) dirty: Option<DirtySets>,
    /// If bodies run in the memory's hardware.
    pub(super) hardware: Option<Patience>,
    pub(super) pair: PhantomData<fn() -> (C, S)>,
}
