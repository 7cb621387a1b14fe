//! The shared state of the sessions of an engine on software transactional memory.

use super::group::Group;
use super::snapshots::Snapshots;
use crate::consistency::core::Core;
use crate::consistency::none::Nothing;
use crate::consistency::redo::Redo;
use crate::sync::stm::{Clock, Lanes, Records};
use crate::writes::Versions;
use perdura_memory::{DirtyLines, Memory, Object};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

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

/// Lines that a session has stored to in place and not written back yet.
pub(super) struct Dirty {
    pub(super) lines: DirtyLines,
    /// Handles for their bits and their flags.
    pub(super) own: [Object; 2],
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
    /// By lane. One set for each session, so that none waits for another's locked instruction.
    pub(super) dirty: Box<[OnceLock<Dirty>]>,
    pub(super) pair: PhantomData<fn() -> (C, S)>,
}
