//! Mutants of dual pages: each leaves out something that a power cut then shows.

use crate::mechanism::mutant::Mutant;

pub(super) const RECLAIM: Mutant = Mutant {
    name: "reclaim",
    what: "the last context's entry of a reclaimed page is not made void: the rule as the paper has it",
};
pub(super) const COPIES: Mutant = Mutant {
    name: "copies",
    what: "a reclaimed derivative page is used before its lines are back in the base page",
};
pub(super) const WAIT: Mutant = Mutant {
    name: "wait",
    what: "a reclaimed derivative page is used before its void entry is durable",
};
pub(super) const OVERTAKE: Mutant = Mutant {
    name: "overtake",
    what: "a line with several void entries is stored before all of them may be void",
};
pub(super) const POINTER: Mutant =
    Mutant { name: "pointer", what: "the pointer does not wait for the context" };
pub(super) const CONTEXT: Mutant =
    Mutant { name: "context", what: "context and pointer do not wait for the lines" };
pub(super) const ENTRY: Mutant =
    Mutant { name: "entry", what: "every fourth entry is stored without its checkpoint positions" };
pub(super) const STANDBY: Mutant = Mutant {
    name: "standby",
    what: "the standby context does not get the changes of the epoch before",
};
pub(super) const DIRTY: Mutant =
    Mutant { name: "dirty", what: "the dirty vectors of every fourth page are not cleared" };
pub(super) const XOR: Mutant =
    Mutant { name: "xor", what: "lines are where the dirty vector alone says" };
pub(super) const SPECIAL: Mutant =
    Mutant { name: "special", what: "a context leaves out the special buffer" };
pub(super) const DRAIN: Mutant = Mutant {
    name: "drain",
    what: "lines of the special buffer are not written to their base page",
};
pub(super) const CLEAN: Mutant =
    Mutant { name: "clean", what: "a page may be reclaimed that has dirty lines in this epoch" };
pub(super) const STALE: Mutant = Mutant {
    name: "stale",
    what: "changed entries that leave the controller are not written to DRAM",
};
pub(super) const CACHED: Mutant = Mutant {
    name: "cached",
    what: "a context has entries as they are in DRAM, not as the controller has changed them",
};
pub(super) const STALL: Mutant =
    Mutant { name: "stall", what: "cores do not wait until the pointer is durable" };
pub(super) const DEAD: Mutant =
    Mutant { name: "dead", what: "recovery brings lines home and does not make the contexts void" };
pub(super) const RECOVER: Mutant =
    Mutant { name: "recover", what: "recovery leaves out the last line of each page" };

/// All of them.
pub(crate) const MUTANTS: &[Mutant] = &[
    RECLAIM, COPIES, WAIT, OVERTAKE, POINTER, CONTEXT, ENTRY, STANDBY, DIRTY, XOR, SPECIAL, DRAIN,
    CLEAN, STALE, CACHED, STALL, DEAD, RECOVER,
];
