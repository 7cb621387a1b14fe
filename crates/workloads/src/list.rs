//! The one list of workloads, from which everything with an entry for each workload is made: options and help texts,
//! runs on this machine and on simulated ones, experiments, `perdura-lab list`, and the test that each of them runs.
//!
//! A workload's row is beside its program, as [`Listed`]: a new one is its file, and its line at the end of this one.

use crate::records::{self, Rooted};
use crate::{Failure, Outcome, Workload, graph, word};
use perdura::collections::Visit;
use perdura::{Result, Root, Tx};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A workload with a name.
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// A description in one line.
    pub line: &'static str,
    /// Its parameters. All workloads have [`ENTRIES`]: how much data there is.
    pub parameters: &'static [Parameter],
    /// Operations that a native benchmark measures, unless it is told how many.
    pub operations: fn(&Values) -> u64,
    /// Whether some of its transactions are rolled back, with these values: [`Workload::rolls_back`].
    pub rolls_back: fn(&Values) -> bool,
    /// The kinds of roots of its own that it leaves in a pool, with the checks of their structures.
    pub roots: &'static [(u32, CheckBlocks)],
}

/// Checks the data below a root, and reports every block of it.
pub type CheckBlocks = fn(&mut dyn Tx, u64, &mut Visit<'_>) -> Result<()>;

/// The type of a program with its row.
pub trait Listed {
    /// The row.
    const ROW: Row;

    /// Makes the program, and has `code` run it.
    ///
    /// # Errors
    /// `Parameters`.
    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output>;
}

/// Code that needs a workload as a type parameter.
pub trait OnWorkload {
    /// The keyed store behind the name `store`: the server's, which this crate does not know.
    type Store: Rooted + 'static;
    /// Its result.
    type Output;

    /// Runs with a workload that has not been loaded, whose data takes about `bytes`.
    fn run<W: Workload + 'static>(self, workload: W, bytes: u64) -> Self::Output;
}

/// A program's parameters.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// All values of its row.
    pub values: &'a Values,
    /// Threads that will run it.
    pub threads: usize,
    /// The root of the loaded data.
    pub seed: u64,
    /// Operations that will follow, warm-up included.
    pub operations: u64,
}

/// A parameter of a workload.
pub struct Parameter {
    /// Its name: the option's, without dashes.
    pub name: &'static str,
    /// A description in a few words.
    pub line: &'static str,
    /// Its value unless one is given, which also names the possible values.
    pub usual: Usual,
}

/// The value of a parameter that is not given.
#[derive(Clone, Copy)]
pub enum Usual {
    /// A number.
    Number(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A number that follows from the values before it and from the number of threads, in words too; or none.
    Follows(&'static str, fn(&Values, usize) -> Option<u64>),
    /// One of these names, the first unless one is given.
    OneOf(&'static [&'static str]),
    /// A file's path; none unless one is given, in words.
    File(&'static str),
    /// It is off.
    Off,
}

impl fmt::Display for Usual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Usual::Number(number) | Usual::Bytes(number) => number.fmt(f),
            Usual::Follows(words, _) | Usual::File(words) => f.write_str(words),
            Usual::OneOf(names) => f.write_str(names[0]),
            Usual::Off => f.write_str("off"),
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Whether it is on.
    Switch(bool),
    /// A number.
    Number(u64),
    /// A name, or a file's path.
    Name(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Number(number) => number.fmt(f),
            Value::Name(name) => name.fmt(f),
        }
    }
}

/// Values that a user gives, by the parameters' names.
pub type Asked = BTreeMap<String, Value>;

/// The values of all of a workload's parameters, in the order of its row; one without a value is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Vec<(&'static str, Value)>);

impl Values {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// A number that always has a value.
    pub fn number(&self, name: &str) -> u64 {
        self.optional(name).unwrap_or_else(|| panic!("the row has no number '{name}'"))
    }

    /// A number that may be left open.
    pub fn optional(&self, name: &str) -> Option<u64> {
        if let Some(Value::Number(number)) = self.get(name) { Some(*number) } else { None }
    }

    /// A name.
    pub fn name(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Name(value)) => value,
            _ => panic!("the row has no name '{name}'"),
        }
    }

    /// A file's path, if one is given.
    pub fn file(&self, name: &str) -> Option<&str> {
        if let Some(Value::Name(path)) = self.get(name) { Some(path) } else { None }
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Switch(true))
    }

    /// How much data there is.
    pub fn entries(&self) -> u64 {
        self.number(ENTRIES)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

/// Those that are on, for a heading: `entries 1000, over store`.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().filter(|(_, value)| **value != Value::Switch(false));
        let shown = shown.map(|(name, value)| match value {
            Value::Switch(_) => name.to_owned(),
            value => format!("{name} {value}"),
        });
        f.write_str(&shown.collect::<Vec<_>>().join(", "))
    }
}

impl Parameter {
    /// The usual value, after those before it.
    fn usual(&self, before: &Values, threads: usize) -> Option<Value> {
        match self.usual {
            Usual::Number(number) | Usual::Bytes(number) => Some(Value::Number(number)),
            Usual::Follows(_, number) => number(before, threads).map(Value::Number),
            Usual::OneOf(names) => Some(Value::Name(names[0].to_owned())),
            Usual::File(_) => None,
            Usual::Off => Some(Value::Switch(false)),
        }
    }

    /// Why it cannot have this value.
    fn refusal(&self, value: &Value) -> Option<String> {
        match (self.usual, value) {
            (_, Value::Number(number)) if self.name == OPS_PER_TX => {
                let fits = (1..=MOST_OPS_PER_TX).contains(number);
                (!fits).then(|| format!("is 1 to {MOST_OPS_PER_TX}"))
            }
            (Usual::Number(_) | Usual::Bytes(_) | Usual::Follows(..), Value::Number(_)) => None,
            (Usual::Number(_) | Usual::Bytes(_) | Usual::Follows(..), _) => {
                Some("is a number".to_owned())
            }
            (Usual::OneOf(names), Value::Name(name)) if names.contains(&name.as_str()) => None,
            (Usual::OneOf(names), _) => Some(format!("is one of {}", names.join(", "))),
            (Usual::File(_), Value::Name(path)) if !path.is_empty() => None,
            (Usual::File(_), _) => Some("is a file's path".to_owned()),
            (Usual::Off, Value::Switch(_)) => None,
            (Usual::Off, _) => Some("is true or false".to_owned()),
        }
    }
}

impl Row {
    /// The workload with this name.
    ///
    /// # Errors
    /// `Parameters`, with all names.
    pub fn named(name: &str) -> Outcome<&'static Row> {
        WORKLOADS.iter().find(|row| row.name == name).ok_or_else(|| unknown(name))
    }

    /// The parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|own| own.name == name)
    }

    /// All values: those that are asked for, and the usual ones.
    ///
    /// # Errors
    /// `Parameters` if it has no such parameter, or the parameter no such value.
    pub fn values(&self, asked: &Asked, threads: usize) -> Outcome<Values> {
        if let Some(name) = asked.keys().find(|name| self.parameter(name).is_none()) {
            let names: Vec<_> = self.parameters.iter().map(|own| own.name).collect();
            let (workload, names) = (self.name, names.join(", "));
            let what = format!("the workload {workload} has no parameter '{name}': it has {names}");
            return Err(Failure::Parameters(what));
        }
        let mut values = Values::default();
        for own in self.parameters {
            let asked = asked.get(own.name);
            if let Some(why) = asked.and_then(|value| own.refusal(value)) {
                let what = format!("'{}' of the workload {} {why}", own.name, self.name);
                return Err(Failure::Parameters(what));
            }
            let value = asked.cloned().or_else(|| own.usual(&values, threads));
            values.0.extend(value.map(|value| (own.name, value)));
        }
        Ok(values)
    }
}

/// All names, for messages.
pub fn names() -> String {
    WORKLOADS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

fn unknown(name: &str) -> Failure {
    Failure::Parameters(format!("unknown workload '{name}': it is one of {}", names()))
}

/// Roots that several workloads leave, or that of the smallest transaction, which is no workload of the list. The maps'
/// are the heap's own collections.
const OTHER_ROOTS: &[(u32, CheckBlocks)] = &[
    (records::KIND, records::check_blocks),
    (graph::KIND, graph::check_blocks),
    (word::KIND, |_, at, visit| visit(at)),
    #[cfg(feature = "sqlite")]
    (perdura_sqlite::KIND, |tx, at, visit| {
        let root = Root { at, kind: perdura_sqlite::KIND };
        perdura_sqlite::check_root(tx, root, visit).map(drop)
    }),
];

/// Checks the data below a workload's root, and reports every block of it to `visit`; false if
/// the root is not a workload's.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_root(tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
    let mut roots = WORKLOADS.iter().flat_map(|row| row.roots).chain(OTHER_ROOTS);
    match roots.find(|(kind, _)| *kind == root.kind) {
        Some((_, check)) => check(tx, root.at, visit).map(|()| true),
        None => Ok(false),
    }
}

/// The parameter of all workloads: how much data there is.
pub const ENTRIES: &str = "entries";
/// The parameter of those whose transactions can be larger.
pub const OPS_PER_TX: &str = "ops-per-tx";
/// More would not fit a log.
const MOST_OPS_PER_TX: u64 = 1_000_000;
/// The parameter of those whose threads can be kept apart.
pub const DISJOINT: &str = "disjoint";
/// The parameter of those with several kinds of transactions: which of them.
pub const MIX: &str = "mix";
/// The mix that the benchmark's specification has.
pub const STANDARD_MIX: &str = "standard";
/// The parameter of those on keyed records: where these are.
pub const OVER: &str = "over";

pub(crate) const fn entries(line: &'static str, usual: u64) -> Parameter {
    Parameter { name: ENTRIES, line, usual: Usual::Number(usual) }
}

pub(crate) const fn ops_per_tx(line: &'static str, usual: u64) -> Parameter {
    Parameter { name: OPS_PER_TX, line, usual: Usual::Number(usual) }
}

pub(crate) const fn disjoint(line: &'static str) -> Parameter {
    Parameter { name: DISJOINT, line, usual: Usual::Off }
}

impl Given<'_> {
    pub(crate) fn entries(&self) -> u64 {
        self.values.entries()
    }

    pub(crate) fn ops_per_tx(&self) -> usize {
        self.values.number(OPS_PER_TX) as usize
    }

    /// Parts of the data that threads work on, each on its own: one for all of them, unless they are kept apart.
    pub(crate) fn parts(&self) -> usize {
        if self.values.is_on(DISJOINT) { self.threads } else { 1 }
    }
}

macro_rules! workloads {
    ($($(#[$cfg:meta])* $listed:ty),* $(,)?) => {
        /// All workloads.
        pub static WORKLOADS: &[Row] = &[$($(#[$cfg])* <$listed as Listed>::ROW),*];

        /// Makes the workload with this name, and has `code` run it.
        ///
        /// # Errors
        /// `Parameters`.
        pub fn run<C: OnWorkload>(name: &str, given: &Given<'_>, code: C) -> Outcome<C::Output> {
            $($(#[$cfg])* if name == <$listed as Listed>::ROW.name {
                return <$listed as Listed>::run(given, code);
            })*
            Err(unknown(name))
        }
    };
}

workloads![
    crate::sps::Sps,
    crate::sps::Local,
    crate::toggle::Toggles<crate::hash::Hash>,
    crate::toggle::Toggles<crate::rbtree::RbTree>,
    crate::toggle::Toggles<crate::bptree::BpTree>,
    crate::sdg::Graph,
    crate::pages::Pages,
    crate::churn::Churn,
    crate::map::OnHashMap,
    crate::map::OnOrderedMap,
    crate::overwrite::Overwrite,
    crate::ycsb::Core<0>,
    crate::ycsb::Core<1>,
    crate::ycsb::Core<2>,
    crate::ycsb::Core<3>,
    crate::ycsb::Core<4>,
    crate::ycsb::Core<5>,
    crate::tpcc::Shop,
    #[cfg(feature = "sqlite")]
    crate::sql::linkbench::LinkBench,
    #[cfg(feature = "sqlite")]
    crate::sql::ycsb::Ycsb,
    #[cfg(feature = "sqlite")]
    crate::tpcc::sql::TpccInSql,
    crate::tatp::Tatp,
    crate::echo::Echo,
    crate::nstore::NStore,
    crate::graph::Analytics<crate::graph::PageRank>,
    crate::graph::Analytics<crate::graph::Communities>,
    crate::graph::Analytics<crate::graph::Components>,
    crate::streams::First,
    crate::streams::Second,
    crate::neighbours::Ann,
    crate::neighbours::KdForest,
    crate::stamp::vacation::Low,
    crate::stamp::vacation::High,
    crate::stamp::kmeans::Low,
    crate::stamp::kmeans::High,
    crate::stamp::ssca2::Ssca2,
    crate::stamp::intruder::Intruder,
    crate::stamp::genome::Genome,
    crate::stamp::labyrinth::Labyrinth,
    crate::stamp::labyrinth::Apart,
    crate::stamp::yada::Yada,
    crate::stamp::bayes::Bayes,
    crate::pmembench::Each<crate::pmembench::ctree::CTree, 0>,
    crate::pmembench::Each<crate::pmembench::ctree::CTree, 1>,
    crate::pmembench::Each<crate::pmembench::ctree::CTree, 2>,
    crate::pmembench::Each<crate::pmembench::hashmap_tx::HashmapTx, 0>,
    crate::pmembench::Each<crate::pmembench::hashmap_tx::HashmapTx, 1>,
    crate::pmembench::Each<crate::pmembench::hashmap_tx::HashmapTx, 2>,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sound() {
        for (index, row) in WORKLOADS.iter().enumerate() {
            assert!(WORKLOADS[..index].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(row.parameter(ENTRIES).is_some() && !row.line.is_empty(), "{}", row.name);
            let values = row.values(&Asked::new(), 2).expect("the usual values");
            assert!(values.entries() > 0 && (row.operations)(&values) > 0, "{}", row.name);
        }
    }

    #[test]
    fn documentation_names_all() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workloads.md");
        let text = std::fs::read_to_string(path).expect("the documentation");
        for row in WORKLOADS {
            assert!(
                text.contains(&format!("`{}`", row.name)),
                "docs/workloads.md lacks {}",
                row.name
            );
        }
    }

    /// An option of several workloads has one kind of values.
    #[test]
    fn parameters_of_one_name_are_alike() {
        let kind = |usual| match usual {
            Usual::Number(_) | Usual::Follows(..) => 0,
            Usual::Bytes(_) => 1,
            Usual::OneOf(_) => 2,
            Usual::File(_) => 3,
            Usual::Off => 4,
        };
        let all = || WORKLOADS.iter().flat_map(|row| row.parameters);
        for own in all() {
            let mut same = all().filter(|other| other.name == own.name);
            assert!(same.all(|other| kind(other.usual) == kind(own.usual)), "{}", own.name);
        }
    }

    #[test]
    fn values_are_checked() {
        let row = Row::named("sps").expect("a workload");
        let refused = |name: &str, value: Value| {
            row.values(&[(name.to_owned(), value)].into(), 1).expect_err("a refusal").to_string()
        };
        assert!(refused("over", Value::Number(1)).contains("it has entries, ops-per-tx, disjoint"));
        assert!(refused("entries", Value::Name("x".to_owned())).contains("is a number"));
        assert!(refused("disjoint", Value::Number(1)).contains("true or false"));
        let row = Row::named("tpcc").expect("a workload");
        let table = [(OVER.to_owned(), Value::Name("table".to_owned()))].into();
        let refused = row.values(&table, 1).expect_err("a refusal").to_string();
        assert!(refused.contains("is one of store, plain"), "{refused}");
        assert_eq!(row.values(&Asked::new(), 3).expect("values").entries(), 3, "warehouses");
        let row = Row::named("pagerank").expect("a workload");
        let graph = |value| row.values(&[("graph".to_owned(), value)].into(), 1);
        assert_eq!(
            graph(Value::Name("a.mtx".to_owned())).expect("a path").file("graph"),
            Some("a.mtx")
        );
        assert!(
            graph(Value::Number(1)).is_err_and(|error| error.to_string().contains("a file's path"))
        );
        assert_eq!(row.values(&Asked::new(), 1).expect("values").file("graph"), None);
        let row = Row::named("ann").expect("a workload");
        let vectors = |value| row.values(&[("vectors".to_owned(), value)].into(), 1);
        let path = Value::Name("sift.fvecs".to_owned());
        assert_eq!(vectors(path).expect("a path").file("vectors"), Some("sift.fvecs"));
        assert!(
            vectors(Value::Number(1)).is_err_and(|error| error.to_string().contains("file's path"))
        );
        assert_eq!(row.values(&Asked::new(), 1).expect("values").file("vectors"), None);
        assert!(Row::named("x").is_err_and(|error| error.to_string().contains("one of sps, ")));
    }
}
