//! The imitated programs, as tables: what each has in memory, and how it goes through it.
//!
//! Sources: footprints and write shares are of SPEC CPU2006 as published; those of sjeng and wrf were measured on public
//! traces of Ramulator. Weights are set so that the mixes come near the DRAM cache's miss rate and the reads by writes of
//! *Dual-Page Checkpointing*, Table 5, on a machine of its Table 4 at an eighth: these are the figures to tune.

/// A program: its memory, and the components that it accesses it with.
#[derive(Debug)]
pub struct Program {
    /// The name of the imitated program.
    pub name: &'static str,
    /// Its footprint in SPEC, in MB: programs of a mix share the mix's footprint in these proportions.
    pub megabytes: u64,
    /// Steps of private computation for each access: assumed.
    pub steps: u64,
    /// Its memory.
    pub groups: &'static [Group],
    /// Its accesses.
    pub components: &'static [Component],
}

/// Arrays of one length, which a component visits in turn.
#[derive(Debug)]
pub struct Group {
    /// Thousandths of the program's footprint that all of them have together.
    pub part: u64,
    /// How many there are.
    pub arrays: u64,
}

/// Accesses of one kind.
#[derive(Debug)]
pub struct Component {
    /// Which of the program's groups it visits.
    pub group: usize,
    /// From one access to the next.
    pub pattern: Pattern,
    /// Loads or stores.
    pub touch: Touch,
    /// Of as many accesses as the weights of all components add up to, those of this one.
    pub weight: u64,
}

/// How a component goes through an array.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// Words at this distance, from the array's start to its end, and again; each time from a word further on.
    Sweep(Step),
    /// For each line of the array, words at these distances from it, in planes.
    Stencil {
        /// Planes of an array.
        planes: u64,
        /// Distances.
        around: &'static [i64],
    },
    /// Lines in a row, beginning anywhere.
    Runs {
        /// How many.
        lines: u64,
        /// Where more of them begin, if there is such a place.
        hot: Option<Hot>,
    },
}

/// The distance between two accesses of a sweep.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Words; a multiple of a line's eight, or a divisor of it.
    Words(u64),
    /// The array has this number of such distances, in whole lines.
    Planes(u64),
}

/// A part of an array that is visited more often.
#[derive(Clone, Copy, Debug)]
pub struct Hot {
    /// Of 1,000 runs, those that begin there.
    pub runs: u64,
    /// Thousandths of the array.
    pub part: u64,
}

/// What an access does to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Loads it.
    Read,
    /// Stores to it.
    Write,
    /// Loads it and stores to it.
    Update,
}

use Pattern::{Runs, Stencil, Sweep};
use Touch::{Read, Update, Write};

/// Programs of a mix.
pub const PROGRAMS: usize = 4;

const fn group(part: u64, arrays: u64) -> Group {
    Group { part, arrays }
}

const fn component(weight: u64, group: usize, touch: Touch, pattern: Pattern) -> Component {
    Component { group, pattern, touch, weight }
}

/// Every second word in a row: four accesses a line.
const DENSE: Pattern = Sweep(Step::Words(2));
/// A word of each line in a row.
const LINES: Pattern = Sweep(Step::Words(8));

/// leslie3d, sjeng, sphinx3, wrf.
pub static FIRST: [Program; PROGRAMS] = [
    // Ten arrays, swept along three axes.
    Program {
        name: "leslie3d",
        megabytes: 125,
        steps: 4,
        groups: &[group(1000, 10)],
        components: &[
            component(26, 0, Read, LINES),
            component(32, 0, Read, Sweep(Step::Words(512))),
            component(6, 0, Read, Sweep(Step::Planes(60))),
            component(64, 0, Update, DENSE),
        ],
    },
    // Probes of a hash table, and a stack that the caches hold.
    Program {
        name: "sjeng",
        megabytes: 175,
        steps: 8,
        groups: &[group(998, 1), group(2, 1)],
        components: &[
            component(22, 0, Read, Runs { lines: 1, hot: None }),
            component(36, 0, Update, Runs { lines: 1, hot: None }),
            component(50, 1, Read, Sweep(Step::Words(1))),
            component(20, 1, Update, Sweep(Step::Words(1))),
        ],
    },
    // Scans of a model, looks into a dictionary, and scores.
    Program {
        name: "sphinx3",
        megabytes: 45,
        steps: 2,
        groups: &[group(650, 1), group(300, 1), group(50, 1)],
        components: &[
            component(104, 0, Read, LINES),
            component(16, 1, Read, Runs { lines: 2, hot: Some(Hot { runs: 800, part: 100 }) }),
            component(8, 2, Update, DENSE),
        ],
    },
    // Many arrays in step, each word of them.
    Program {
        name: "wrf",
        megabytes: 690,
        steps: 8,
        groups: &[group(1000, 16)],
        components: &[
            component(80, 0, Read, Sweep(Step::Words(1))),
            component(48, 0, Update, Sweep(Step::Words(1))),
        ],
    },
];

/// GemsFDTD, lbm, milc, soplex.
pub static SECOND: [Program; PROGRAMS] = [
    // Two fields of three arrays: each is updated from the other one, a plane away.
    Program {
        name: "GemsFDTD",
        megabytes: 840,
        steps: 3,
        groups: &[group(500, 3), group(500, 3)],
        components: &[
            component(29, 1, Read, Stencil { planes: 100, around: &[-1] }),
            component(32, 0, Update, LINES),
            component(29, 0, Read, Stencil { planes: 100, around: &[1] }),
            component(32, 1, Update, LINES),
            component(6, 0, Read, Sweep(Step::Words(512))),
        ],
    },
    // Two grids of nineteen arrays: one is read, the other written; then the cells are relaxed in place.
    Program {
        name: "lbm",
        megabytes: 410,
        steps: 4,
        groups: &[group(500, 19), group(500, 19)],
        components: &[
            component(28, 0, Read, LINES),
            component(28, 1, Write, LINES),
            component(72, 0, Update, LINES),
        ],
    },
    // Records of two lines from anywhere, and results in a row.
    Program {
        name: "milc",
        megabytes: 680,
        steps: 6,
        groups: &[group(600, 1), group(400, 4)],
        components: &[
            component(64, 0, Read, Runs { lines: 2, hot: None }),
            component(4, 1, Read, Sweep(Step::Planes(100))),
            component(60, 1, Update, LINES),
        ],
    },
    // Short runs of a sparse matrix's columns, and dense vectors.
    Program {
        name: "soplex",
        megabytes: 430,
        steps: 2,
        groups: &[group(800, 1), group(200, 4)],
        components: &[
            component(64, 0, Read, Runs { lines: 3, hot: None }),
            component(4, 1, Read, LINES),
            component(60, 1, Update, LINES),
        ],
    },
];
