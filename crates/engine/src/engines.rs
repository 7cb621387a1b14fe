//! The one list of engines, from which everything with an entry per engine is made.
//!
//! Kinds, names, dispatch at run time, recovery by the name in a pool's header, help texts, the crash tester's families
//! and the lists of tests all come from here. A new engine is a line of `listed!`, plus its own files.

use crate::consistency::atlas::Atlas;
use crate::consistency::eager::Eager;
use crate::consistency::none::{Nothing, Unlogged};
use crate::consistency::plain::Direct;
use crate::consistency::redo::Redo;
use crate::consistency::swal::SWal;
use crate::consistency::undo::Undo;
use crate::consistency::undo_each::UndoEach;
use crate::elided::Elided;
use crate::engine::Named;
use crate::groups::{Archapt, ArchaptRedo, ArchaptUndo, Skipping};
use crate::logged::Logged;
use crate::optimistic::Optimistic;
use crate::sync::{Htm, Hybrid, Spin, Stm, Unlocked};
use crate::{Engine, Result};
use perdura_memory::{Memory, Ram};
use std::fmt;
use std::str::FromStr;

/// The list: documentation, kind, name, engine type; in brackets the generic engine, its consistency and its
/// synchronisation. Calls a macro with the given arguments, in braces, and the list, after `$before`.
#[doc(hidden)]
#[macro_export]
macro_rules! listed {
    (all $call:tt $with:tt) => {
        $crate::listed! { rolling_back $call $with {
            /// Stores and nothing else: the baseline that cannot roll back.
            Plain "plain" PlainEngine [Unlogged: Direct, Spin];
            /// As `Plain`, with nothing that keeps transactions apart: the baseline of threads that share nothing.
            Seq "seq" SeqEngine [Unlogged: Direct, Unlocked];
        } }
    };
    (rolling_back $call:tt $with:tt { $($before:tt)* }) => {
        $crate::listed! { $call $with {
            $($before)*
            /// No consistency: the baseline.
            Volatile "volatile" Volatile [Unlogged: Nothing, Spin];
            /// No consistency, with software transactional memory: a baseline.
            Stm "stm" StmEngine [Optimistic: Nothing, Stm];
            /// No consistency, with hardware transactions where the memory has them: a baseline.
            HtmVolatile "htm-volatile" HtmVolatileEngine [Elided: Nothing, Htm];
        } }
    };
    ([$($call:tt)*] $with:tt { $($before:tt)* }) => {
        $($call)*! {
            $with
            $($before)*
            /// Undo logging.
            Undo "undo" UndoEngine [Logged: Undo, Spin];
            /// Redo logging with asynchronous write-back.
            Redo "redo" RedoEngine [Logged: Redo, Spin];
            /// Redo logging with software transactional memory: writers that share nothing do not wait for each other.
            CcStm "ccstm" CcStmEngine [Optimistic: Redo, Stm];
            /// Undo logging with software transactional memory: as `CcStm`, with nothing left in the log by a commit.
            CcStmUndo "ccstm-undo" CcStmUndoEngine [Optimistic: Undo, Stm];
            /// As `CcStm`, with bodies in hardware transactions, where the memory has them, as far as to their locks.
            Htm "htm" HtmEngine [Optimistic: Redo, Hybrid];
            /// Redo logging of several consecutive transactions in one record: a window of them.
            Eager "eager" EagerEngine [Logged: Eager, Spin];
            /// Write-ahead logging with a commit record and synchronous write-back: a baseline.
            SWal "s-wal" SWalEngine [Logged: SWal, Spin];
            /// Undo logging with an entry and a fence for each store: a baseline.
            UndoEach "undo-each" UndoEachEngine [Logged: UndoEach, Spin];
            /// Undo logging as `UndoEach`, for sections over several locks: durability lags unless it is waited for.
            Atlas "atlas" AtlasEngine [Logged: Atlas, Spin];
            /// Hardware transactions, where the memory has them; those that the hardware gives up as under `UndoEach`.
            HtmUndo "htm-undo" HtmUndoEngine [Elided: UndoEach, Htm];
            /// Hardware transactions, where the memory has them; those that the hardware gives up as under `SWal`.
            HtmRedo "htm-redo" HtmRedoEngine [Elided: SWal, Htm];
            /// Groups of transactions on undo logging, written back late.
            ArchaptUndo "archapt-undo" ArchaptUndoEngine [Logged: Archapt<ArchaptUndo>, Spin];
            /// Groups of transactions on redo logging, written back late.
            ArchaptRedo "archapt-redo" ArchaptRedoEngine [Logged: Archapt<ArchaptRedo>, Spin];
            /// As `ArchaptUndo`, with write-backs skipped for lines that checksums protect. Less certain.
            ArchaptUndoSum "archapt-undo-sum" SkippingUndoEngine
                [Logged: Archapt<Skipping<ArchaptUndo>>, Spin];
            /// As `ArchaptRedo`, with write-backs skipped for lines that checksums protect. Less certain.
            ArchaptRedoSum "archapt-redo-sum" SkippingRedoEngine
                [Logged: Archapt<Skipping<ArchaptRedo>>, Spin];
        }
    };
}

/// Calls the macro `$call` with the tokens after its name, in braces, and with the list of all engines, each as `///
/// documentation`, `Kind "name" Engine [..];`. The engines are names in this crate's root; the brackets are for this
/// crate.
#[macro_export]
macro_rules! engines {
    ($call:ident! $with:tt) => {
        $crate::listed! { all [$call] $with }
    };
}

/// As [`engines`], without those whose pools are not whole after a crash.
#[macro_export]
macro_rules! crash_consistent_engines {
    ($call:ident! $with:tt) => {
        $crate::listed! { [$call] $with {} }
    };
}

/// Calls `$run::<Engine<$memory>>` with arguments for each engine; or for each that can roll back, or for each
/// crash-consistent one.
#[macro_export]
macro_rules! on_each_engine {
    ($run:ident::<$memory:ty> $arguments:tt) => {
        $crate::listed! { all [$crate::run_on_each] { $run $arguments $memory } }
    };
    (rolling_back $run:ident::<$memory:ty> $arguments:tt) => {
        $crate::listed! { rolling_back [$crate::run_on_each] { $run $arguments $memory } {} }
    };
    (crash_consistent $run:ident::<$memory:ty> $arguments:tt) => {
        $crate::listed! { [$crate::run_on_each] { $run $arguments $memory } {} }
    };
}

/// What [`on_each_engine`] calls.
#[doc(hidden)]
#[macro_export]
macro_rules! run_on_each {
    (
        { $run:ident $arguments:tt $memory:ty }
        $($(#[$doc:meta])* $kind:ident $name:literal $engine:ident $made:tt;)*
    ) => {
        $($run::<$crate::$engine<$memory>> $arguments;)*
    };
}

/// Code to be compiled for each engine.
pub trait OnEngine<M: Memory> {
    /// What it returns.
    type Output;

    /// Runs with the engine `E`.
    fn run<E: Engine<M>>(self) -> Self::Output;
}

macro_rules! kinds {
    ({} $(
        $(#[doc = $line:literal])* $kind:ident $name:literal $engine:ident
            [$made:ident: $consistency:ty, $synchronisation:ty];
    )*) => {
        $(
            $(#[doc = $line])*
            pub type $engine<M> = $made<M, $consistency, $synchronisation>;

            impl Named for ($consistency, $synchronisation) {
                const NAME: &'static str = $name;
            }
        )*

        /// The engines, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EngineKind {
            $($(#[doc = $line])* $kind,)*
        }

        /// The names, each followed by a comma and a space.
        const NAMES: &str = concat!($($name, ", "),*);

        impl EngineKind {
            /// All of them.
            pub const ALL: [EngineKind; [$($name),*].len()] = [$(EngineKind::$kind),*];

            /// Their names, for messages.
            pub const NAMES: &str = NAMES.split_at(NAMES.len() - 2).0;

            /// The names of some, for messages.
            pub fn names_of(some: impl Fn(EngineKind) -> bool) -> String {
                let some = Self::ALL.into_iter().filter(|kind| some(*kind));
                some.map(Self::name).collect::<Vec<_>>().join(", ")
            }

            /// The name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(EngineKind::$kind => $name,)*
                }
            }

            /// A description in one line.
            pub fn line(self) -> &'static str {
                match self {
                    $(EngineKind::$kind => concat!($($line),*).trim(),)*
                }
            }

            /// Whether its pools are whole after a crash.
            pub const fn is_crash_consistent(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::CRASH_CONSISTENT,)*
                }
            }

            /// Whether a transaction that has stored can be rolled back.
            pub const fn rolls_back(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::ROLLS_BACK,)*
                }
            }

            /// Whether transactions of different sessions are kept apart.
            pub const fn isolates(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::ISOLATES,)*
                }
            }

            /// Whether it runs on pools that keep checksums of all pages.
            pub const fn keeps_checksums(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::KEEPS_CHECKSUMS,)*
                }
            }

            /// Whether it skips write-backs, so that a power cut can lose data that cannot be restored.
            pub const fn skips(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::SKIPS,)*
                }
            }

            /// Whether each store of a transaction waits for the medium.
            pub const fn syncs_stores(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::SYNCS_STORES,)*
                }
            }

            /// Whether commits wait for a flusher: see [`Engine::NEEDS_FLUSHER`].
            pub const fn needs_flusher(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::NEEDS_FLUSHER,)*
                }
            }

            /// Whether a power cut leaves all commits up to some ticket: see [`Engine::IN_ORDER`].
            pub const fn is_in_order(self) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::IN_ORDER,)*
                }
            }

            /// Whether a power cut leaves all commits up to some ticket on this domain: see [`Engine::leaves_prefix`].
            pub fn leaves_prefix(self, domain: perdura_memory::Domain) -> bool {
                match self {
                    $(EngineKind::$kind => <crate::$engine<Ram> as Engine<Ram>>::leaves_prefix(domain),)*
                }
            }

            /// Runs `code` with this engine.
            pub fn run<M: Memory + 'static, C: OnEngine<M>>(self, code: C) -> C::Output {
                match self {
                    $(EngineKind::$kind => code.run::<crate::$engine<M>>(),)*
                }
            }
        }
    };
}
engines!(kinds! {});

// A derive would need an attribute on a variant, but the list generates the variants.
#[expect(clippy::derivable_impls)]
impl Default for EngineKind {
    fn default() -> Self {
        EngineKind::Redo
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
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("unknown engine '{name}': it is one of {}", Self::NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_the_name_of_its_line() {
        struct Name;
        impl OnEngine<Ram> for Name {
            type Output = &'static str;
            fn run<E: Engine<Ram>>(self) -> &'static str {
                E::NAME
            }
        }
        for kind in EngineKind::ALL {
            assert_eq!(kind.run(Name), kind.name());
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!(
            EngineKind::NAMES
                .starts_with("plain, seq, volatile, stm, htm-volatile, undo, redo, ccstm, ")
        );
        assert!(EngineKind::NAMES.ends_with(EngineKind::ALL[EngineKind::ALL.len() - 1].name()));
        assert_eq!(EngineKind::names_of(EngineKind::syncs_stores), "undo-each, atlas, htm-undo");
        assert_eq!("ondo".parse::<EngineKind>().map_err(|e| e.len() > 20), Err(true));
    }
}
