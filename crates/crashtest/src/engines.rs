//! Engines on every memory: the same one runs the program on the machine, and recovers its
//! images elsewhere.

use perdura::{
    ArchaptRedoEngine, ArchaptUndoEngine, Engine, Memory, RedoEngine, SWalEngine,
    SkippingRedoEngine, SkippingUndoEngine, UndoEngine,
};

/// An engine, whatever the memory.
pub trait Family: Sync + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Whether transactions that nobody waits for share a group: its cases draw their
    /// [`Answers`](crate::Answers).
    const GROUPS: bool = false;

    /// Whether write-backs are skipped: what that lost, and the pool says so, is no failure.
    const SKIPS: bool = false;

    /// The engine on the memory `M`.
    type On<M: Memory + 'static>: Engine<M>;
}

macro_rules! families {
    ($($(#[$doc:meta])* $family:ident, $name:literal, $engine:ident, $groups:literal, $skips:literal;)*) => {$(
        $(#[$doc])*
        pub struct $family;

        impl Family for $family {
            const NAME: &'static str = $name;
            const GROUPS: bool = $groups;
            const SKIPS: bool = $skips;
            type On<M: Memory + 'static> = $engine<M>;
        }
    )*};
}

families! {
    /// Undo logging.
    Undo, "undo", UndoEngine, false, false;
    /// Redo logging.
    Redo, "redo", RedoEngine, false, false;
    /// Write-ahead logging with a commit record.
    SWal, "s-wal", SWalEngine, false, false;
    /// Archapt on undo logging.
    ArchaptUndo, "archapt-undo", ArchaptUndoEngine, true, false;
    /// Archapt on redo logging.
    ArchaptRedo, "archapt-redo", ArchaptRedoEngine, true, false;
    /// Archapt on undo logging, with write-backs skipped.
    ArchaptUndoSum, "archapt-undo-sum", SkippingUndoEngine, true, true;
    /// Archapt on redo logging, with write-backs skipped.
    ArchaptRedoSum, "archapt-redo-sum", SkippingRedoEngine, true, true;
}
