//! What the sessions of an engine on software transactional memory share.

use super::group::Group;
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
    /// Whether they write a record and fence it before.
    const LOGS: bool;
}

impl Durability for Nothing {
    const LOGS: bool = false;
}

impl Durability for Redo {
    const LOGS: bool = true;
}

/// Lines that a session has stored to in place, and whose write-back is still to come.
pub(super) struct Dirty {
    pub(super) lines: DirtyLines,
    /// Their bits, and their flags.
    pub(super) own: [Object; 2],
}

/// An engine of consistency `C` on software transactional memory.
pub struct Optimistic<M: Memory, C, S> {
    pub(super) core: Core<M>,
    pub(super) clock: Clock,
    pub(super) records: Records,
    pub(super) lanes: Arc<Lanes>,
    pub(super) versions: Versions,
    /// Of commits that are not durable when they return: on a block device.
    pub(super) group: Option<Group>,
    /// By lane. A set for each session, so that none waits for another's locked instruction.
    pub(super) dirty: Box<[OnceLock<Dirty>]>,
    pub(super) pair: PhantomData<fn() -> (C, S)>,
}
