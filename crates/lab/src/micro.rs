//! Microworkloads by name, for commands that take a workload's name.

use crate::failure::Outcome;
use crate::named::OnWorkload;
use perdura_workloads::Workload;
use perdura_workloads::bptree::BpTree;
use perdura_workloads::churn::{self, Churn};
use perdura_workloads::hash::Hash;
use perdura_workloads::map::{OnHashMap, OnOrderedMap};
use perdura_workloads::pages::{self, Pages};
use perdura_workloads::pmembench::ctree::CTree;
use perdura_workloads::pmembench::hashmap_tx::HashmapTx;
use perdura_workloads::pmembench::{MapBench, Operation, PmdkMap};
use perdura_workloads::rbtree::RbTree;
use perdura_workloads::sdg;
use perdura_workloads::sps::Sps;
use perdura_workloads::stamp::{App, Input, OnApp};
use perdura_workloads::toggle::{KeySet, Toggles};

/// A microworkload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Micro {
    Sps,
    SpsLocal,
    Hash,
    RbTree,
    BpTree,
    Sdg,
    SqlitePages,
    Churn,
    HashMap,
    OrderedMap,
    Stamp(App),
    CTree(Operation),
    HashmapTx(Operation),
}

/// A microworkload: its name, title, default entries, and default operations in a transaction. For LOC's workloads a
/// transaction of these makes as many lines dirty as in that paper.
struct Kind {
    micro: Micro,
    name: &'static str,
    title: &'static str,
    entries: u64,
    ops_per_tx: u32,
}

const fn kind(
    micro: Micro,
    name: &'static str,
    title: &'static str,
    entries: u64,
    ops_per_tx: u32,
) -> Kind {
    Kind { micro, name, title, entries, ops_per_tx }
}

/// Words of the blocks that local swaps stay within: two lines.
const LOCAL: u64 = 16;

const KINDS: [Kind; 26] = [
    kind(Micro::Sps, "sps", "swaps of random words in an array", 65_536, 1),
    kind(Micro::SpsLocal, "sps-local", "the same within 16 words", 65_536, 1),
    kind(Micro::Hash, "hash", "keys toggled in a chained hash table", 65_536, 4),
    kind(Micro::RbTree, "rbtree", "keys toggled in a red-black tree", 65_536, 8),
    kind(Micro::BpTree, "bptree", "keys toggled in a B+ tree with nodes of 4 KiB", 65_536, 6),
    kind(Micro::Sdg, "sdg", "edges toggled in a graph; entries are vertices", 16_384, 12),
    kind(
        Micro::SqlitePages,
        "sqlite-pages",
        "rows replaced in pages of 1 KiB, as SQLite writes them",
        65_536,
        8,
    ),
    kind(Micro::Churn, "churn", "blocks allocated, resized and freed", 10_000, 3),
    kind(Micro::HashMap, "hash-map", "inserts, removals, look-ups in the heap's map", 65_536, 1),
    kind(Micro::OrderedMap, "ordered-map", "the same in its ordered map", 65_536, 1),
    stamp(App::VacationLow, "STAMP: a travel agency; entries are rows"),
    stamp(App::VacationHigh, "the same with more queries among fewer rows"),
    stamp(App::KMeansLow, "STAMP: points gathered around 40 centres, to the end"),
    stamp(App::KMeansHigh, "the same around 15 centres"),
    stamp(App::Ssca2, "STAMP: a graph's edges by target, to the end; entries are vertices"),
    stamp(App::Intruder, "STAMP: packets put together, to the end; entries are flows"),
    stamp(App::Genome, "STAMP: a gene put together, to the end; entries are segments"),
    stamp(App::Labyrinth, "STAMP: wires laid in a grid, to the end; entries are wires"),
    stamp(App::Yada, "STAMP: a mesh made better, to the end; entries are points"),
    stamp(App::Bayes, "STAMP: a network learnt from records, to the end; entries are records"),
    keys(
        Micro::CTree(Operation::Insert),
        "ctree-insert",
        "PMDK's crit-bit tree: each key inserted",
    ),
    keys(Micro::CTree(Operation::Remove), "ctree-remove", "each key removed"),
    keys(Micro::CTree(Operation::Get), "ctree-get", "each key looked up"),
    keys(
        Micro::HashmapTx(Operation::Insert),
        "hashmap-tx-insert",
        "PMDK's hash map: each key inserted",
    ),
    keys(Micro::HashmapTx(Operation::Remove), "hashmap-tx-remove", "each key removed"),
    keys(Micro::HashmapTx(Operation::Get), "hashmap-tx-get", "each key looked up"),
];

const fn keys(micro: Micro, name: &'static str, title: &'static str) -> Kind {
    kind(micro, name, title, 10_000, 1)
}

const fn stamp(app: App, title: &'static str) -> Kind {
    kind(Micro::Stamp(app), app.name(), title, app.entries(Input::Plain), 1)
}

/// The amount of data, and of work in a transaction; absent values have defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MicroSize {
    /// Entries, keys, vertices, rows or slots.
    pub(crate) entries: Option<u64>,
    /// Operations in a transaction.
    pub(crate) ops_per_tx: Option<u32>,
    /// The input of a STAMP application, where there are several.
    pub(crate) input: Option<Input>,
}

impl Micro {
    /// The workload with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        KINDS.iter().find(|kind| kind.name == name).map(|kind| kind.micro)
    }

    /// All names, for messages.
    pub(crate) fn names() -> String {
        KINDS.map(|kind| kind.name).join(", ")
    }

    /// All names with descriptions.
    pub(crate) fn titles() -> impl Iterator<Item = [&'static str; 2]> {
        KINDS.iter().map(|kind| [kind.name, kind.title])
    }

    fn kind(self) -> &'static Kind {
        KINDS.iter().find(|kind| kind.micro == self).expect("every one has a row")
    }

    /// Entries, by default.
    pub(crate) fn entries(self, size: MicroSize) -> u64 {
        size.entries.unwrap_or(match self.app() {
            Some(app) => app.entries(size.input.unwrap_or_default()),
            None => self.kind().entries,
        })
    }

    /// The application of STAMP, if it is one.
    pub(crate) fn app(self) -> Option<App> {
        if let Micro::Stamp(app) = self { Some(app) } else { None }
    }

    /// Operations in a transaction, by default.
    pub(crate) fn ops_per_tx(self, size: MicroSize) -> u32 {
        size.ops_per_tx.unwrap_or(self.kind().ops_per_tx)
    }

    /// Workloads with more than one operation in a transaction, and their numbers, for help texts.
    pub(crate) fn usual_ops_per_tx() -> String {
        let several = KINDS.iter().filter(|kind| kind.ops_per_tx > 1);
        several
            .map(|kind| format!("{} {}", kind.name, kind.ops_per_tx))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Runs `code` with it, for this number of threads; the loaded data follows from `seed`.
    pub(crate) fn run<C: OnWorkload>(
        self,
        size: MicroSize,
        threads: usize,
        seed: u64,
        code: C,
    ) -> Outcome<C::Output> {
        let (entries, per_tx) = (self.entries(size), self.ops_per_tx(size) as usize);
        let words = entries.saturating_mul(8);
        match self {
            Micro::Sps | Micro::SpsLocal => {
                let within = (self == Micro::SpsLocal).then_some(LOCAL);
                let sps = Sps { entries, swaps: per_tx, disjoint: false, within };
                sps.validate(threads)?;
                code.run(&sps, words)
            }
            Micro::Hash => toggles::<Hash, C>(entries, per_tx, code),
            Micro::RbTree => toggles::<RbTree, C>(entries, per_tx, code),
            Micro::BpTree => toggles::<BpTree, C>(entries, per_tx, code),
            Micro::Sdg => {
                let workload = sdg::workload(entries, per_tx, seed)?;
                let bytes = workload.bytes();
                code.run(&workload, bytes)
            }
            Micro::SqlitePages => code.run(&Pages::new(entries, per_tx)?, pages::bytes(entries)),
            Micro::Churn => {
                let bytes = entries.saturating_mul(churn::BYTES_PER_BLOCK);
                code.run(&Churn::new(entries, per_tx)?, bytes)
            }
            Micro::HashMap => code.run(&OnHashMap::new(entries, 1)?, words.saturating_mul(8)),
            Micro::OrderedMap => code.run(&OnOrderedMap::new(entries, 1)?, words.saturating_mul(8)),
            Micro::CTree(operation) => keyed::<CTree, C>(operation, entries, seed, code),
            Micro::HashmapTx(operation) => keyed::<HashmapTx, C>(operation, entries, seed, code),
            Micro::Stamp(app) => {
                app.run(size.input.unwrap_or_default(), size.entries, seed, Once(code))?
            }
        }
    }
}

/// An application that is constructed once.
struct Once<C>(C);

impl<C: OnWorkload> OnApp for Once<C> {
    type Output = Outcome<C::Output>;

    fn run<W: Workload>(
        self,
        make: impl Fn() -> perdura_workloads::Outcome<W>,
        bytes: u64,
    ) -> Self::Output {
        self.0.run(&make()?, bytes)
    }
}

fn keyed<M: PmdkMap, C: OnWorkload>(
    operation: Operation,
    keys: u64,
    seed: u64,
    code: C,
) -> Outcome<C::Output> {
    let workload = MapBench::<M>::new(operation, keys, seed)?;
    let bytes = workload.bytes();
    code.run(&workload, bytes)
}

fn toggles<K: KeySet, C: OnWorkload>(entries: u64, per_tx: usize, code: C) -> Outcome<C::Output> {
    let workload = Toggles::<K>::new(entries, per_tx)?;
    let bytes = workload.bytes();
    code.run(&workload, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        for kind in &KINDS {
            let micro = Micro::named(kind.name).expect("one of this name");
            assert_eq!((micro, micro.kind().name), (kind.micro, kind.name));
        }
        assert_eq!(Micro::named("tpcc"), None);
        assert!(Micro::usual_ops_per_tx().contains("hash 4, rbtree 8, bptree 6"));
        let size = MicroSize { entries: Some(7), ..MicroSize::default() };
        assert_eq!((Micro::Hash.entries(size), Micro::Hash.ops_per_tx(size)), (7, 4));
    }
}
