//! Engines on every memory: the same one runs the program on the machine, and recovers its
//! images elsewhere.

use perdura::{
    ArchaptRedoEngine, ArchaptUndoEngine, Engine, Memory, RedoEngine, SWalEngine, UndoEngine,
};

/// An engine, whatever the memory.
pub trait Family: Sync + 'static {
    /// Its name.
    const NAME: &'static str;

    /// The engine on the memory `M`.
    type On<M: Memory + 'static>: Engine<M>;
}

macro_rules! families {
    ($($(#[$doc:meta])* $family:ident, $name:literal, $engine:ident;)*) => {$(
        $(#[$doc])*
        pub struct $family;

        impl Family for $family {
            const NAME: &'static str = $name;
            type On<M: Memory + 'static> = $engine<M>;
        }
    )*};
}

families! {
    /// Undo logging.
    Undo, "undo", UndoEngine;
    /// Redo logging.
    Redo, "redo", RedoEngine;
    /// Write-ahead logging with a commit record.
    SWal, "s-wal", SWalEngine;
    /// Archapt on undo logging.
    ArchaptUndo, "archapt-undo", ArchaptUndoEngine;
    /// Archapt on redo logging.
    ArchaptRedo, "archapt-redo", ArchaptRedoEngine;
}
