//! The engines that a pool may have, by name.

use std::fmt;
use std::str::FromStr;

/// The engines, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// No consistency: the baseline.
    Volatile,
    /// Undo logging.
    Undo,
    /// Redo logging with asynchronous write-back.
    #[default]
    Redo,
    /// Write-ahead logging with a commit record and synchronous write-back: a baseline.
    SWal,
    /// Groups of transactions on undo logging, written back late.
    ArchaptUndo,
    /// Groups of transactions on redo logging, written back late.
    ArchaptRedo,
    /// As `ArchaptUndo`, with write-backs skipped that checksums make up for. Less certain.
    ArchaptUndoSum,
    /// As `ArchaptRedo`, with write-backs skipped that checksums make up for. Less certain.
    ArchaptRedoSum,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [EngineKind; 8] = [
        EngineKind::Volatile,
        EngineKind::Undo,
        EngineKind::Redo,
        EngineKind::SWal,
        EngineKind::ArchaptUndo,
        EngineKind::ArchaptRedo,
        EngineKind::ArchaptUndoSum,
        EngineKind::ArchaptRedoSum,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Volatile => "volatile",
            EngineKind::Undo => "undo",
            EngineKind::Redo => "redo",
            EngineKind::SWal => "s-wal",
            EngineKind::ArchaptUndo => "archapt-undo",
            EngineKind::ArchaptRedo => "archapt-redo",
            EngineKind::ArchaptUndoSum => "archapt-undo-sum",
            EngineKind::ArchaptRedoSum => "archapt-redo-sum",
        }
    }

    /// Whether it skips write-backs, so that a power cut can take what cannot be restored.
    pub const fn skips(self) -> bool {
        matches!(self, EngineKind::ArchaptUndoSum | EngineKind::ArchaptRedoSum)
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            format!("unknown engine '{name}': it is one of {}", crate::heap::ENGINES)
        })
    }
}
