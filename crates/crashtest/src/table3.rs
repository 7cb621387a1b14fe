//! Table III of Fernando and others, "Persistence and Synchronization: Friends or Foes?": which pairs of consistency and
//! synchronisation survive a power cut, with one core and with several, on transient and on persistent caches; each cell
//! tested.
//!
//! An engine that the paper has as safe must pass every image; one that it has as unsafe must be caught. That an unsafe
//! engine's pool could be refused counts for nothing: it is opened, and what it holds is compared. The column of
//! synchronisation has no power cuts: transactions that read everything must see committed states, and the closed pool
//! must hold what all transactions have made of it.

use crate::case::usual_schedule;
use crate::runner::find_any;
use crate::shrink::{Effort, kept, shrink};
use crate::{Answers, Budget, Case, Failure, Points, Report, Runner, Watcher};
use perdura::{Counters, Tuning};
use perdura_machine::cache::Policy;
use perdura_machine::mechanism::list;
use perdura_machine::presets;
use perdura_memory::Domain;
use std::collections::BTreeSet;
use std::time::Duration;

/// What the paper says of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A tick.
    Yes,
    /// A cross.
    No,
    /// "approx."
    Approximate,
    /// "N/A".
    NotApplicable,
}

impl Word {
    /// As the paper writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Word::Yes => "yes",
            Word::No => "no",
            Word::Approximate => "approx.",
            Word::NotApplicable => "N/A",
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Crash consistency of one thread.
    OneThread(Domain),
    /// Synchronisation of several.
    Synchronisation,
    /// Both, of several threads.
    Threads(Domain),
}

impl Column {
    /// All of them, from left to right.
    pub const ALL: [Column; 5] = [
        Column::OneThread(Domain::Transient),
        Column::OneThread(Domain::Persistent),
        Column::Synchronisation,
        Column::Threads(Domain::Transient),
        Column::Threads(Domain::Persistent),
    ];

    /// Its heading in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Column::OneThread(Domain::Transient) => "ST-CC TC",
            Column::OneThread(_) => "ST-CC PC",
            Column::Synchronisation => "MT-Sync",
            Column::Threads(Domain::Transient) => "MT-CSS TC",
            Column::Threads(_) => "MT-CSS PC",
        }
    }

    const fn cores(self) -> usize {
        if matches!(self, Column::OneThread(_)) { 1 } else { CORES }
    }

    const fn domain(self) -> Domain {
        match self {
            Column::OneThread(domain) | Column::Threads(domain) => domain,
            Column::Synchronisation => Domain::Transient,
        }
    }
}

/// A row, for one engine.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The paper's name.
    pub name: &'static str,
    /// The engine.
    pub engine: &'static str,
    /// The machine's mechanism for transactions, if it needs one.
    pub transactions: Option<&'static str>,
    /// What the paper says of each column.
    pub paper: [Word; 5],
    /// The column in which our finding is known to be another one, and why.
    pub differs: Option<(Column, &'static str)>,
}

const fn row(name: &'static str, engine: &'static str, paper: [Word; 5]) -> Row {
    Row { name, engine, transactions: None, paper, differs: None }
}

const fn in_hardware(
    name: &'static str,
    engine: &'static str,
    mechanism: &'static str,
    paper: [Word; 5],
) -> Row {
    Row { transactions: Some(mechanism), ..row(name, engine, paper) }
}

const Y: Word = Word::Yes;
const N: Word = Word::No;
const A: Word = Word::Approximate;
const NA: Word = Word::NotApplicable;

/// The rows, those of two logs twice.
pub const ROWS: [Row; 11] = [
    row("seq", "seq", [N; 5]),
    in_hardware("HTM+seq (+spinlock)", "htm-volatile", "htm", [N, N, Y, N, N]),
    row("undo (+spinlock)", "undo-each", [Y; 5]),
    row("redo (+spinlock)", "s-wal", [Y; 5]),
    in_hardware("HTM+undo (+spinlock)", "htm-undo", "htm", [A, Y, Y, A, Y]),
    in_hardware("HTM+redo (+spinlock)", "htm-redo", "htm", [A, Y, Y, A, Y]),
    in_hardware("ccHTM+undo (+spinlock)", "htm-undo", "cc-htm", [Y, NA, Y, Y, NA]),
    in_hardware("ccHTM+redo (+spinlock)", "htm-redo", "cc-htm", [Y, NA, Y, Y, NA]),
    Row {
        differs: Some((
            Column::OneThread(Domain::Persistent),
            "its write set is in ordinary memory: a cut while its words are stored in place leaves some of them. The \
             paper's tick needs a write set and a commit mark in the pool, as `ccstm` has them",
        )),
        ..row("STM", "stm", [N, Y, Y, N, Y])
    },
    row("ccSTM (redo)", "ccstm", [Y, NA, Y, Y, NA]),
    row("ccSTM (undo)", "ccstm-undo", [Y, NA, Y, Y, NA]),
];

/// Cores of the columns of several threads.
const CORES: usize = 4;
/// Operations of each core.
const OPERATIONS: usize = 10;
/// Crash points of a run.
const POINTS: u64 = 60;
/// The share of transactions forced onto the fallback path, in 100.
const FALLBACK: u64 = 30;
/// Lives of a cell of synchronisation, for each image of the others.
const IMAGES_PER_LIFE: u64 = 20;
/// Structures whose operations never abort come first: an engine that cannot roll back runs those alone.
const STRUCTURES: [&str; 3] = ["sps", "ycsb-a", "hash-map"];

/// What came out of a cell.
#[derive(Debug)]
pub enum Finding {
    /// No image was wrong, and no transaction.
    Safe,
    /// A counterexample, shrunk.
    Caught(Box<Failure>),
    /// It was not tested, for this reason.
    NotRun(String),
}

/// A tested cell.
#[derive(Debug)]
pub struct Cell {
    /// The finding.
    pub finding: Finding,
    /// Images checked.
    pub images: u64,
    /// Runs.
    pub lives: u64,
    /// What the engine has counted.
    pub counters: Counters,
}

impl Row {
    /// What the paper says of a column.
    pub fn paper(&self, column: Column) -> Word {
        let index = Column::ALL.iter().position(|own| *own == column);
        self.paper[index.expect("one of them")]
    }

    /// Why our finding in this column is known to be another one than the paper's, if it is.
    pub fn difference(&self, column: Column) -> Option<&'static str> {
        let (differs, why) = self.differs?;
        (differs.domain() == column.domain() && column != Column::Synchronisation).then_some(why)
    }

    /// Whether a cell is as the paper has it, or as is known to differ. `None` if it was not tested, or is no cell of the
    /// paper.
    pub fn agrees(&self, column: Column, cell: &Cell) -> Option<bool> {
        let expected = match (self.paper(column), self.difference(column)) {
            (Word::NotApplicable, _) => return None,
            (word, difference) => (word == Word::Yes) == difference.is_none(),
        };
        match cell.finding {
            Finding::Safe => Some(expected),
            Finding::Caught(_) => Some(!expected),
            Finding::NotRun(_) => None,
        }
    }

    fn expects_failure(&self, column: Column) -> bool {
        matches!(self.paper(column), Word::No | Word::Approximate)
            || self.difference(column).is_some()
    }

    /// Tests a cell until `images` images are checked, or one is wrong.
    pub fn test(&self, column: Column, images: u64, seed: u64, watcher: &Watcher) -> Cell {
        let finding = Finding::NotRun(String::new());
        let mut cell = Cell { finding, images: 0, lives: 0, counters: Counters::default() };
        cell.finding = match self.why_not(column) {
            Some(why) => Finding::NotRun(why),
            None => match self.find(column, (images, seed), watcher, &mut cell) {
                Some(failure) => Finding::Caught(failure),
                None => Finding::Safe,
            },
        };
        cell
    }

    fn why_not(&self, column: Column) -> Option<String> {
        if let Some(name) = self.transactions
            && list::find_speculating(name).is_err()
        {
            return Some(format!("there is no mechanism '{name}'"));
        }
        if self.transactions.is_some() && self.paper(column) == Word::NotApplicable {
            return Some("the mechanism is for transient caches".to_owned());
        }
        None
    }

    fn find(
        &self,
        column: Column,
        (images, seed): (u64, u64),
        watcher: &Watcher,
        cell: &mut Cell,
    ) -> Option<Box<Failure>> {
        let runners = STRUCTURES.iter().filter_map(|structure| find_any(self.engine, structure));
        let runners: Vec<_> = runners.collect();
        let budget = self.budget(column);
        let lives = images.div_ceil(IMAGES_PER_LIFE).max(1);
        for number in 0.. {
            let done = match column {
                Column::Synchronisation => cell.lives >= lives,
                Column::OneThread(_) | Column::Threads(_) => cell.images >= images,
            };
            if done || watcher.is_stopped() {
                return None;
            }
            let runner = &*runners[number as usize % runners.len()];
            match runner.explore(&self.case(column, seed + number), budget, watcher) {
                Ok(Report { images, lives, counters, .. }) => {
                    cell.images += images;
                    cell.lives += lives;
                    cell.counters += counters;
                }
                Err(failure) => {
                    cell.images += failure.images;
                    cell.lives += 1;
                    cell.counters += failure.counters;
                    if column == Column::Synchronisation {
                        return Some(fewer_operations(runner, failure, budget, watcher));
                    }
                    let effort = Effort { runs: 100, time: Duration::from_secs(20) };
                    let shrunk = shrink(runner, &failure, budget, effort, watcher, &mut |_, _| {});
                    return Some(shrunk.failure);
                }
            }
        }
        None
    }

    /// A counterexample is one of a crash point's own images, so that its stores are named; and synchronisation has no
    /// crash points.
    fn budget(&self, column: Column) -> Budget {
        let usual = Budget::default();
        match self.expects_failure(column) || column == Column::Synchronisation {
            true => Budget { again_every: 0, deaths_every: 0, ..usual },
            false => usual,
        }
    }

    fn case(&self, column: Column, seed: u64) -> Case {
        let machine = if self.transactions.is_some() { "tiny-htm" } else { "tiny" };
        let machine = presets::load(machine).expect("a preset");
        let fallback_percent = self.transactions.map(|_| FALLBACK);
        let answers = Answers {
            reads: 2,
            tuning: Tuning { fallback_percent, ..Tuning::default() },
            ..Answers::default()
        };
        Case {
            domain: column.domain(),
            cores: column.cores(),
            policy: Policy::NAMED[seed as usize % Policy::NAMED.len()].policy,
            schedule: usual_schedule(seed),
            operations: OPERATIONS,
            answers: Some(answers),
            transactions: self.transactions.map(str::to_owned),
            points: match column {
                Column::Synchronisation => Points::Last,
                Column::OneThread(_) | Column::Threads(_) => Points::Random(POINTS),
            },
            ..Case::new(machine, seed)
        }
    }
}

/// Leaves operations out, one at a time, as long as the case fails, with no power cut and on as many cores: the failure
/// is one of synchronisation.
fn fewer_operations(
    runner: &dyn Runner,
    mut failure: Box<Failure>,
    budget: Budget,
    watcher: &Watcher,
) -> Box<Failure> {
    for operation in kept(&failure.case).into_iter().rev() {
        let keep: BTreeSet<_> =
            kept(&failure.case).into_iter().filter(|own| *own != operation).collect();
        let case = Case { keep: Some(keep), points: Points::Last, ..failure.case.clone() };
        if let Err(smaller) = runner.explore(&case, budget, watcher) {
            failure = smaller;
        }
    }
    failure
}

/// Where the stores of software are made.
const SOFTWARE: [&str; 2] = ["engine/src/consistency/", "engine/src/optimistic/"];

/// On which path the store was made that decides a counterexample, by the file of the engine that made it: one that is
/// not durable, or durable too early; where stores are durable in order, the last one before the cut.
pub fn path_of(failure: &Failure) -> Option<&'static str> {
    let decisive = failure.missing.iter().chain(&failure.early);
    let last =
        failure.cut.iter().map(|(_, _, name)| name).filter(|_| decisive.clone().count() == 0);
    let stores = decisive.clone().chain(last);
    let from = |file: &str| stores.clone().any(|store| store.contains(file));
    match () {
        () if from("elided/hardware.rs") || from("commit engine/src/elided") => Some("in hardware"),
        () if SOFTWARE.into_iter().any(from) => Some("in software"),
        () => None,
    }
}
