//! An engine that logs: the shared state of its sessions, and their lock.

use crate::consistency::core::Core;
use crate::consistency::protocol::{Consistency, LockOf};
use perdura_memory::Memory;
use std::sync::Arc;

/// An engine of consistency `C` and synchronisation `S`.
pub struct Logged<M: Memory, C: Consistency, S> {
    pub(crate) core: Core<M>,
    pub(crate) lock: Arc<LockOf<S, C>>,
}
