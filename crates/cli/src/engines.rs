//! Code that is compiled for each engine, on a memory of any kind.

use perdura::{
    ArchaptRedoEngine, ArchaptUndoEngine, Engine, EngineKind, Memory, RedoEngine, SWalEngine,
    SkippingRedoEngine, SkippingUndoEngine, UndoEngine, Volatile,
};

/// What wants an engine, known when it is compiled.
pub(crate) trait OnEngine<M: Memory> {
    /// What it returns.
    type Output;

    /// Runs with the engine `E`.
    fn run<E: Engine<M>>(self) -> Self::Output;
}

/// Runs `code` with the engine of this kind.
pub(crate) fn on_engine<M: Memory + 'static, C: OnEngine<M>>(
    kind: EngineKind,
    code: C,
) -> C::Output {
    match kind {
        EngineKind::Volatile => code.run::<Volatile<M>>(),
        EngineKind::Undo => code.run::<UndoEngine<M>>(),
        EngineKind::Redo => code.run::<RedoEngine<M>>(),
        EngineKind::SWal => code.run::<SWalEngine<M>>(),
        EngineKind::ArchaptUndo => code.run::<ArchaptUndoEngine<M>>(),
        EngineKind::ArchaptRedo => code.run::<ArchaptRedoEngine<M>>(),
        EngineKind::ArchaptUndoSum => code.run::<SkippingUndoEngine<M>>(),
        EngineKind::ArchaptRedoSum => code.run::<SkippingRedoEngine<M>>(),
    }
}
