//! The consistencies that transactions can have on the fallback path.

use crate::Engine;
use crate::consistency::none::{Nothing, Unlogged};
use crate::consistency::swal::SWal;
use crate::consistency::undo_each::UndoEach;
use crate::engine::Named;
use crate::logged::Logged;
use crate::sync::Synchronisation;
use perdura_memory::Memory;

/// A consistency that a transaction can have on the fallback path: its commits are durable when they return, and leave an
/// empty log.
pub trait Fallback<S>: Send + Sync + 'static {
    /// Whether it logs, so that a power cut leaves its transactions whole.
    const IS_LOGGED: bool = true;

    /// The engine with that consistency and a lock.
    type Engine<M: Memory + 'static>: Engine<M>;
}

impl<S: Synchronisation> Fallback<S> for Nothing
where
    (Self, S): Named,
{
    const IS_LOGGED: bool = false;
    type Engine<M: Memory + 'static> = Unlogged<M, Self, S>;
}

impl<S: Synchronisation> Fallback<S> for UndoEach
where
    (Self, S): Named,
{
    type Engine<M: Memory + 'static> = Logged<M, Self, S>;
}

impl<S: Synchronisation> Fallback<S> for SWal
where
    (Self, S): Named,
{
    type Engine<M: Memory + 'static> = Logged<M, Self, S>;
}
