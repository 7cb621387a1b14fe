//! STAMP: eight applications of transactional memory, as durable programs (Cao Minh and others, IISWC 2008).
//!
//! Reimplemented from the behaviour of STAMP's programs, not from their source. Data that they keep in shared memory
//! and access in transactions is in the heap; their read-only input and threads' private data is in ordinary memory.
//! Each checks its answer, more closely than STAMP does.
//!
//! Invariants: a transaction's body affects only the heap and its return value, since it may run more than
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

use crate::list::{ENTRIES, Parameter, Usual, Values};

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

/// The input among an application's values.
pub(crate) fn input_of(values: &Values) -> Input {
    values.name(INPUT.name).parse().unwrap_or_default()
}

const INPUT: Parameter = Parameter {
    name: "input",
    line: "how large the input is: STAMP's for simulators, the larger ones (+ and ++), or one for tests",
    usual: Usual::OneOf(&["plain", "small", "plus", "native"]),
};

/// An application's row: its name and description, its entries' plural and their field in the options, the options of
/// an input, the program, and the operations that a run does. `by` makes options of another number of entries, where
/// other fields follow from it.
macro_rules! listed {
    ($listed:ty: $name:literal, $line:literal, $entries:literal $field:ident $(by $with:path)?, $options:path,
     $program:ty, $operations:expr) => {
        impl $crate::list::Listed for $listed {
            const ROW: $crate::list::Row = $crate::list::Row {
                name: $name,
                line: $line,
                parameters: &$crate::stamp::parameters($entries, |values, _| {
                    Some($options($crate::stamp::input_of(values)).$field)
                }),
                operations: $operations,
                rolls_back: |_| false,
                roots: &[(KIND, check_blocks)],
            };

            fn run<C: $crate::list::OnWorkload>(
                given: &$crate::list::Given<'_>,
                code: C,
            ) -> $crate::Outcome<C::Output> {
                let (mut options, entries) =
                    ($options($crate::stamp::input_of(given.values)), given.values.entries());
                $(options = $with(options, entries);)?
                options.$field = entries;
                let program = <$program>::new(options, given.seed)?;
                let bytes = program.bytes();
                Ok(code.run(program, bytes))
            }
        }
    };
}
use listed;

/// An application's parameters; `entries` are as many as the input has, unless given.
const fn parameters(
    entries: &'static str,
    of_input: fn(&Values, usize) -> Option<u64>,
) -> [Parameter; 2] {
    let usual = Usual::Follows("as the input has", of_input);
    [INPUT, Parameter { name: ENTRIES, line: entries, usual }]
}
