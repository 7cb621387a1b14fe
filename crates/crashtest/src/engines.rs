//! Engines on every memory: the same one runs the program on the machine, and recovers its
//! images elsewhere.

use perdura::{
    ArchaptRedoEngine, ArchaptUndoEngine, Engine, Memory, RedoEngine, SWalEngine, UndoEngine,
};

/// An engine, whatever the memory.
pub trait Family: Sync + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Whether transactions that nobody waits for share a group: its cases draw their
    /// [`Answers`](crate::Answers).
    const GROUPS: bool = false;

    /// The engine on the memory `M`.
    type On<M: Memory + 'static>: Engine<M>;
}

macro_rules! families {
    ($($(#[$doc:meta])* $family:ident, $name:literal, $engine:ident, $groups:literal;)*) => {$(
        $(#[$doc])*
        pub struct $family;

        impl Family for $family {
            const NAME: &'static str = $name;
            const GROUPS: bool = $groups;
            type On<M: Memory + 'static> = $engine<M>;
        }
    )*};
}

families! {
    /// Undo logging.
    Undo, "undo", UndoEngine, false;
    /// Redo logging.
    Redo, "redo", RedoEngine, false;
    /// Write-ahead logging with a commit record.
    SWal, "s-wal", SWalEngine, false;
    /// Archapt on undo logging.
    ArchaptUndo, "archapt-undo", ArchaptUndoEngine, true;
    /// Archapt on redo logging.
    ArchaptRedo, "archapt-redo", ArchaptRedoEngine, true;
}
