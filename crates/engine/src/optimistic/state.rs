//! The shared state of the sessions of an engine on software transactional memory.

use super::dirty::DirtySets;
use super::group::Group;
use super::snapshots::Snapshots;
use crate::consistency::core::Core;
use crate::consistency::none::Nothing;
use crate::consistency::redo::Redo;
use crate::sync::stm::{Clock, Lanes, Records};
use crate::writes::Versions;
use perdura_memory::Memory;
use std::marker::PhantomData;
use std::sync::Arc;

/// How commits become durable.
pub trait Durability: Send + Sync + 'static {
    /// Whether they write a record and fence it before they store in place.
    const LOGS: bool;
}

impl Durability for Nothing {
    const LOGS: bool = false;
}

impl Durability for Redo {
    const LOGS: bool = true;
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
    pub(super) pair: PhantomData<fn() -> (C, S)>,
}
