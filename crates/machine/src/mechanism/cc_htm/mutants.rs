//! Mutants: each leaves out a step of a commit, of the log, or of recovery.

use crate::mechanism::Mutant;
use crate::mechanism::htm::{OWN, READS};

pub(super) const STORE: Mutant =
    Mutant { name: "store", what: "the first store of a transaction is not logged" };
pub(super) const FENCE_LOG: Mutant =
    Mutant { name: "fence-log", what: "the tail does not wait for the entries (1)" };
pub(super) const TAIL_FIRST: Mutant =
    Mutant { name: "tail-first", what: "the tail is written before the last entries (2)" };
pub(super) const FENCE_TAIL: Mutant =
    Mutant { name: "fence-tail", what: "lines are written back without waiting for the tail (3)" };
pub(super) const LINE: Mutant =
    Mutant { name: "line", what: "the last line is not written back (4)" };
pub(super) const FENCE_DATA: Mutant =
    Mutant { name: "fence-data", what: "the tail is reset without waiting for the lines (5)" };
pub(super) const RESET: Mutant = Mutant { name: "reset", what: "the tail is not reset (6)" };
pub(super) const FENCE_RESET: Mutant =
    Mutant { name: "fence-reset", what: "lines are released without waiting for the reset (7)" };
pub(super) const EARLY: Mutant =
    Mutant { name: "early", what: "lines are released before the transaction is durable (8)" };
pub(super) const VOID: Mutant = Mutant {
    name: "void",
    what: "entries of an aborted transaction stay in front of the next one's",
};
pub(super) const SPACE: Mutant =
    Mutant { name: "space", what: "entries that have no room overwrite the first ones" };
pub(super) const RESET_FIRST: Mutant =
    Mutant { name: "reset-first", what: "recovery resets the tail before it redoes the entries" };
pub(super) const ENTRY: Mutant =
    Mutant { name: "entry", what: "recovery leaves out the last entry" };
pub(super) const ORDER: Mutant =
    Mutant { name: "order", what: "recovery redoes the last entry first" };

/// Its mutants.
pub(in crate::mechanism) const MUTANTS: &[Mutant] = &[
    READS,
    OWN,
    STORE,
    FENCE_LOG,
    TAIL_FIRST,
    FENCE_TAIL,
    LINE,
    FENCE_DATA,
    RESET,
    FENCE_RESET,
    EARLY,
    VOID,
    SPACE,
    RESET_FIRST,
    ENTRY,
    ORDER,
];
