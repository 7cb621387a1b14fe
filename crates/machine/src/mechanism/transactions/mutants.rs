//! Mutants that mechanisms have in common.

use crate::mechanism::Mutant;

pub(in crate::mechanism) const METADATA: Mutant =
    Mutant { name: "metadata", what: "a group's metadata is not held back behind its data" };
pub(in crate::mechanism) const EVICTED: Mutant = Mutant {
    name: "evicted",
    what: "lines of a transaction that leave the caches go home and not to the log",
};
pub(in crate::mechanism) const LOGGED: Mutant =
    Mutant { name: "logged", what: "lines go home without waiting for the log" };
pub(in crate::mechanism) const HEAD: Mutant =
    Mutant { name: "head", what: "the log head moves before lines are home" };
pub(in crate::mechanism) const UNDONE: Mutant =
    Mutant { name: "undone", what: "what an aborted transaction has overwritten is not rescued" };
pub(in crate::mechanism) const APPLY: Mutant =
    Mutant { name: "recover", what: "recovery leaves out the last block of each transaction" };
pub(in crate::mechanism) const RECORD: Mutant =
    Mutant { name: "record", what: "the commit record does not wait for the log" };
pub(in crate::mechanism) const COUNT: Mutant = Mutant {
    name: "count",
    what: "a transaction counts as whole as soon as its last block is in the log",
};
pub(in crate::mechanism) const ONE_LESS: Mutant =
    Mutant { name: "one-less", what: "a transaction's blocks are counted one short" };
pub(in crate::mechanism) const PAIR: Mutant =
    Mutant { name: "pair", what: "the last dependency pair of a window is not logged" };
pub(in crate::mechanism) const VERSION: Mutant =
    Mutant { name: "version", what: "a version that leaves the caches goes home" };
pub(in crate::mechanism) const HOME: Mutant = Mutant {
    name: "home",
    what: "commit bits, which say too where the log begins, do not wait until the last window is home",
};
pub(in crate::mechanism) const OLDER: Mutant = Mutant {
    name: "older",
    what: "contents that a transaction overwrites are given up before it has committed",
};
pub(in crate::mechanism) const CLOSED: Mutant =
    Mutant { name: "closed", what: "what is cut off does not take along what it has overlapped" };
pub(in crate::mechanism) const CUT_OFF: Mutant = Mutant {
    name: "cut-off",
    what: "what has committed behind a transaction that has not is recovered too",
};
