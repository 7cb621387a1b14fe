//! Database workloads by name, for commands that take a workload's name.

use crate::bench::keyspace::Served;
use crate::failure::Outcome;
use crate::tpcc;
use perdura_workloads::Workload;
use perdura_workloads::ycsb::{Letter, Options, Shape, Ycsb, YcsbOver};
use serde::Serialize;

/// The names, for messages.
pub(crate) const DATABASES: &str = "tpcc, or ycsb-a to ycsb-f";

/// A database workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Ycsb(Letter),
    Tpcc,
}

/// The amount of data: YCSB records, TPC-C tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Extent {
    pub(crate) records: u64,
    pub(crate) tpcc: tpcc::Size,
}

/// Code that needs a workload as a type parameter.
pub(crate) trait OnWorkload {
    /// Its result.
    type Output;

    /// Runs with `workload`, whose data takes about `bytes`.
    fn run<W: Workload>(self, workload: &W, bytes: u64) -> Outcome<Self::Output>;
}

impl Database {
    /// The workload with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name == "tpcc" { Some(Database::Tpcc) } else { letter(name).map(Database::Ycsb) }
    }

    /// Runs `code` with it over the server's store; `operations` will follow, warm-up included. The loaded data
    /// follows from `seed`.
    pub(crate) fn over_store<C: OnWorkload>(
        self,
        extent: Extent,
        operations: u64,
        seed: u64,
        code: C,
    ) -> Outcome<C::Output> {
        match self {
            Database::Ycsb(letter) => {
                let options = Options::new(letter, extent.records, operations);
                let bytes = ycsb_bytes(letter, extent.records, operations, options.shape);
                code.run(&YcsbOver::<Served>::new(options)?, bytes)
            }
            Database::Tpcc => {
                let workload = extent.tpcc.make::<Served>(seed)?;
                code.run(&workload, extent.tpcc.bytes(operations))
            }
        }
    }
}

/// The letter in `ycsb-a` to `ycsb-f`.
pub(crate) fn letter(name: &str) -> Option<Letter> {
    name.strip_prefix("ycsb-")?.parse().ok()
}

/// YCSB on `records` records; `operations` of them will follow, warm-up included.
pub(crate) fn ycsb(letter: Letter, records: u64, operations: u64, per_tx: u64) -> Outcome<Ycsb> {
    let options =
        Options { operations_per_transaction: per_tx, ..Options::new(letter, records, operations) };
    Ok(Ycsb::new(options)?)
}

/// Most bytes of a YCSB record in a store: the key and its entries in addition to the record; inserts at most double
/// the table.
pub(crate) fn ycsb_bytes(letter: Letter, records: u64, operations: u64, shape: Shape) -> u64 {
    let inserts = (operations as f64 * letter.mix().insert) as u64;
    let records = records.saturating_add(2 * inserts);
    records.saturating_mul(shape.record_bytes() as u64 + 1024)
}
