//! STAMP: eight applications of transactional memory, as durable programs (Cao Minh and others, IISWC 2008).
//!
//! Reimplemented from the behaviour of STAMP's programs, not from their source. Data that they keep in shared memory
//! and access in transactions is in the heap; their read-only input and threads' private data is in ordinary memory.
//! Each checks its answer, more closely than STAMP does.
//!
//! What always holds: a transaction's body affects only the heap and its return value, since it may run more than
//! once. Everything random follows from one seed, and is drawn outside transactions.
//!
//! Reading order: [`vacation`], which does a given number of tasks, then [`kmeans`], a program that ends, in phases
//! separated by barriers (`party`).

pub mod bayes;
pub(crate) mod block;
pub mod genome;
pub mod intruder;
pub mod kmeans;
pub mod labyrinth;
mod list;
pub(crate) mod party;
mod queue;
pub mod ssca2;
pub mod vacation;
pub mod yada;

use crate::{Outcome, Workload};

/// One of the applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// [`vacation`] with few queries.
    VacationLow,
    /// [`vacation`] with more queries among fewer rows.
    VacationHigh,
    /// [`kmeans`] with more centres.
    KMeansLow,
    /// [`kmeans`] with fewer centres.
    KMeansHigh,
    /// [`ssca2`].
    Ssca2,
    /// [`intruder`].
    Intruder,
    /// [`genome`].
    Genome,
    /// [`labyrinth`].
    Labyrinth,
    /// [`yada`].
    Yada,
    /// [`bayes`].
    Bayes,
}

/// How large an input is. STAMP's names: plain for simulators, `+` for larger ones, `++` for real machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// For tests.
    Small,
    /// For simulated machines.
    #[default]
    Plain,
    /// STAMP's `+`.
    Plus,
    /// STAMP's `++`.
    Native,
}

impl Input {
    /// All of them, the smallest first.
    pub const ALL: [Input; 4] = [Input::Small, Input::Plain, Input::Plus, Input::Native];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Input::Small => "small",
            Input::Plain => "plain",
            Input::Plus => "plus",
            Input::Native => "native",
        }
    }
}

impl std::fmt::Display for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Input {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|input| input.name() == name);
        found.ok_or_else(|| format!("the input is one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// Code to run with an application.
pub trait OnApp {
    /// What it returns.
    type Output;

    /// Runs with an application that `make` makes anew, whose data takes about `bytes` bytes.
    fn run<W: Workload>(self, make: impl Fn() -> Outcome<W>, bytes: u64) -> Self::Output;
}

impl App {
    /// Its name, with the degree of contention where there is a choice.
    pub const fn name(self) -> &'static str {
        match self {
            App::VacationLow => "vacation-low",
            App::VacationHigh => "vacation-high",
            App::KMeansLow => "kmeans-low",
            App::KMeansHigh => "kmeans-high",
            App::Ssca2 => "ssca2",
            App::Intruder => "intruder",
            App::Genome => "genome",
            App::Labyrinth => "labyrinth",
            App::Yada => "yada",
            App::Bayes => "bayes",
        }
    }

    /// What [`entries`](App::entries) counts.
    pub const fn of_what(self) -> &'static str {
        match self {
            App::VacationLow | App::VacationHigh => "rows",
            App::KMeansLow | App::KMeansHigh => "points",
            App::Ssca2 => "vertices",
            App::Intruder => "flows",
            App::Genome => "segments",
            App::Labyrinth => "wires",
            App::Yada => "points",
            App::Bayes => "records",
        }
    }

    /// The number of entries of this input.
    pub const fn entries(self, input: Input) -> u64 {
        match self {
            App::VacationLow => vacation::Parameters::low(input).rows,
            App::VacationHigh => vacation::Parameters::high(input).rows,
            App::KMeansLow => kmeans::Parameters::low(input).points,
            App::KMeansHigh => kmeans::Parameters::high(input).points,
            App::Ssca2 => ssca2::Parameters::of(input).vertices,
            App::Intruder => intruder::Parameters::of(input).flows,
            App::Genome => genome::Parameters::of(input).segments,
            App::Labyrinth => labyrinth::Parameters::of(input).wires,
            App::Yada => yada::Parameters::of(input).points,
            App::Bayes => bayes::Parameters::of(input).records,
        }
    }

    /// Operations that STAMP does with this input, if the application does a given number.
    pub const fn operations(self, input: Input) -> Option<u64> {
        match self {
            App::VacationLow | App::VacationHigh => Some(vacation::Parameters::low(input).tasks),
            App::KMeansLow | App::KMeansHigh | App::Ssca2 => None,
            App::Intruder | App::Genome | App::Labyrinth => None,
            App::Yada | App::Bayes => None,
        }
    }

    /// Has `code` run it, on an input that follows from `seed`, with `entries`, if given, instead of the input's own
    /// number.
    ///
    /// # Errors
    /// `Parameters` if there cannot be this many entries.
    pub fn run<C: OnApp>(
        self,
        input: Input,
        entries: Option<u64>,
        seed: u64,
        code: C,
    ) -> Outcome<C::Output> {
        let entries = entries.unwrap_or(self.entries(input));
        match self {
            App::VacationLow => vacation(vacation::Parameters::low(input), entries, seed, code),
            App::VacationHigh => vacation(vacation::Parameters::high(input), entries, seed, code),
            App::KMeansLow => kmeans(kmeans::Parameters::low(input), entries, seed, code),
            App::KMeansHigh => kmeans(kmeans::Parameters::high(input), entries, seed, code),
            App::Ssca2 => {
                let of = ssca2::Parameters { vertices: entries, ..ssca2::Parameters::of(input) };
                made(|| ssca2::Ssca2::new(of, seed), ssca2::Ssca2::bytes, code)
            }
            App::Intruder => {
                let of = intruder::Parameters { flows: entries, ..intruder::Parameters::of(input) };
                made(|| intruder::Intruder::new(of, seed), intruder::Intruder::bytes, code)
            }
            App::Genome => {
                let of = genome::Parameters::of(input).with_segments(entries);
                made(|| genome::Genome::new(of, seed), genome::Genome::bytes, code)
            }
            App::Labyrinth => {
                let of =
                    labyrinth::Parameters { wires: entries, ..labyrinth::Parameters::of(input) };
                made(|| labyrinth::Labyrinth::new(of, seed), labyrinth::Labyrinth::bytes, code)
            }
            App::Bayes => {
                let of = bayes::Parameters { records: entries, ..bayes::Parameters::of(input) };
                made(|| bayes::Bayes::new(of, seed), bayes::Bayes::bytes, code)
            }
            App::Yada => {
                let of = yada::Parameters { points: entries, ..yada::Parameters::of(input) };
                made(|| yada::Yada::new(of, seed), yada::Yada::bytes, code)
            }
        }
    }
}

fn vacation<C: OnApp>(
    of: vacation::Parameters,
    rows: u64,
    seed: u64,
    code: C,
) -> Outcome<C::Output> {
    let of = vacation::Parameters { rows, ..of };
    made(|| vacation::Vacation::new(of, seed), vacation::Vacation::bytes, code)
}

fn kmeans<C: OnApp>(of: kmeans::Parameters, points: u64, seed: u64, code: C) -> Outcome<C::Output> {
    let of = kmeans::Parameters { points, ..of };
    made(|| kmeans::KMeans::new(of, seed), kmeans::KMeans::bytes, code)
}

/// Has `code` run the workload that `make` makes; impossible parameters are refused before.
fn made<W: Workload, C: OnApp>(
    make: impl Fn() -> Outcome<W>,
    bytes: impl Fn(&W) -> u64,
    code: C,
) -> Outcome<C::Output> {
    let bytes = bytes(&make()?);
    Ok(code.run(make, bytes))
}
