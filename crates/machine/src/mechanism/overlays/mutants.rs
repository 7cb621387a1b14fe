//! What the mutants leave out.

use super::super::mutant::Mutant;

pub(super) const GROW: Mutant = Mutant {
    name: "grow",
    what: "an overlay's first line is not copied when it moves to a larger segment",
};
pub(super) const PLACE: Mutant =
    Mutant { name: "place", what: "every eighth line goes to its page" };
pub(super) const FORGET: Mutant = Mutant {
    name: "forget",
    what: "lines go to overlays of the last checkpoint, if these have them",
};
pub(super) const FREE: Mutant = Mutant {
    name: "free",
    what: "a segment is free when its overlay is merged, though the valid table names it",
};
pub(super) const MERGE: Mutant = Mutant {
    name: "merge",
    what: "overlays are given up at an epoch's end though they are not merged yet",
};
pub(super) const EARLY: Mutant =
    Mutant { name: "early", what: "overlays are merged before the epoch's number is durable" };
pub(super) const DATA: Mutant =
    Mutant { name: "data", what: "the entries and the epoch's number do not wait for the lines" };
pub(super) const MAPPING: Mutant =
    Mutant { name: "mapping", what: "the epoch's number does not wait for the entries" };
pub(super) const ENTRY: Mutant = Mutant { name: "entry", what: "every fourth entry is not stored" };
pub(super) const NUMBER: Mutant =
    Mutant { name: "number", what: "every fourth epoch's number is not stored" };
pub(super) const STALL: Mutant =
    Mutant { name: "stall", what: "cores do not wait until an epoch's number is durable" };
pub(super) const BELIEVE: Mutant =
    Mutant { name: "believe", what: "recovery believes the table of the unfinished epoch" };
pub(super) const DEAD: Mutant =
    Mutant { name: "dead", what: "recovery does not make the tables' entries dead" };
pub(super) const RECOVER: Mutant =
    Mutant { name: "recover", what: "recovery leaves out the last line of each overlay" };

/// Its mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    GROW, PLACE, FORGET, FREE, MERGE, EARLY, DATA, MAPPING, ENTRY, NUMBER, STALL, BELIEVE, DEAD,
    RECOVER,
];
