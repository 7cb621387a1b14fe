//! What the mutants leave out.

use super::super::mutant::Mutant;

pub(super) const COPY: Mutant =
    Mutant { name: "copy", what: "every fourth line of a page that is written whole is left out" };
pub(super) const PLACE: Mutant =
    Mutant { name: "place", what: "every eighth line goes to the place of the last checkpoint" };
pub(super) const MADE: Mutant = Mutant {
    name: "made",
    what: "programs' lines may go to places of the checkpoint being made: two versions, not three",
};
pub(super) const FORGET: Mutant = Mutant {
    name: "forget",
    what: "places that an epoch has taken count as taken in the next one",
};
pub(super) const FREE: Mutant = Mutant {
    name: "free",
    what: "places of the last checkpoint are free when the next one is begun, and not when it is durable",
};
pub(super) const AS_OF: Mutant = Mutant {
    name: "as-of",
    what: "a checkpoint has lines as they are when they are written, and not as the epoch has left them",
};
pub(super) const DATA: Mutant =
    Mutant { name: "data", what: "the tables and the epoch's number do not wait for the lines" };
pub(super) const MAPPING: Mutant =
    Mutant { name: "mapping", what: "the epoch's number does not wait for the tables" };
pub(super) const ENTRY: Mutant = Mutant { name: "entry", what: "every fourth entry is not stored" };
pub(super) const STANDBY: Mutant = Mutant {
    name: "standby",
    what: "a copy of the tables gets the changes of one epoch, and not of both since it was written",
};
pub(super) const NUMBER: Mutant =
    Mutant { name: "number", what: "every fourth epoch's number is not stored" };
pub(super) const STALL: Mutant = Mutant {
    name: "stall",
    what: "an epoch's end does not wait for the checkpoint that is being made",
};
pub(super) const MOVE: Mutant = Mutant {
    name: "move",
    what: "blocks that get their entries back for others are not copied home",
};
pub(super) const BELIEVE: Mutant =
    Mutant { name: "believe", what: "recovery believes the copy of the unfinished epoch" };
pub(super) const DEAD: Mutant =
    Mutant { name: "dead", what: "recovery does not make the tables' entries dead" };
pub(super) const PAGES: Mutant =
    Mutant { name: "pages", what: "recovery leaves out the last line of pages" };
pub(super) const BLOCKS: Mutant =
    Mutant { name: "blocks", what: "recovery leaves out every fourth block" };

/// Its mutants.
pub(crate) const MUTANTS: &[Mutant] = &[
    COPY, PLACE, MADE, FORGET, FREE, AS_OF, DATA, MAPPING, ENTRY, STANDBY, NUMBER, STALL, MOVE,
    BELIEVE, DEAD, PAGES, BLOCKS,
];
