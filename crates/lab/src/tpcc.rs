//! TPC-C as commands choose it: how many rows, and bytes for them.

use crate::failure::{Failure, Outcome};
use perdura_workloads::records::Rooted;
use perdura_workloads::tpcc::{Scale, Tpcc};
use serde::{Deserialize, Serialize};

/// Rows of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rows {
    /// 3,000 customers a district and 100,000 items
    Full,
    /// 60 customers a district and 1,000 items
    Small,
}

/// The initial size of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    pub(crate) warehouses: u32,
    pub(crate) rows: Rows,
}

/// Approximate bytes that a transaction adds: an order has ten lines, and 45 of 100 transactions are orders.
const BYTES_PER_TX: u64 = 1536;

impl Rows {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rows::Full => "full",
            Rows::Small => "small",
        }
    }
}

impl Default for Size {
    /// Small enough for anything.
    fn default() -> Self {
        Size { warehouses: 1, rows: Rows::Small }
    }
}

impl Size {
    /// The same for the workload.
    pub(crate) fn scale(self) -> Scale {
        match self.rows {
            Rows::Full => Scale::full(self.warehouses),
            Rows::Small => Scale::small(self.warehouses),
        }
    }

    /// Approximate bytes of data after this many transactions.
    pub(crate) fn bytes(self, transactions: u64) -> u64 {
        self.scale().bytes().saturating_add(transactions.saturating_mul(BYTES_PER_TX))
    }

    /// The workload; its first rows follow from `seed`.
    pub(crate) fn make<R: Rooted>(self, seed: u64) -> perdura_workloads::Outcome<Tpcc<R>> {
        Tpcc::new(self.scale(), seed)
    }

    /// Whether the transactions can run on it.
    pub(crate) fn validate(self) -> Outcome {
        Ok(self.scale().validate()?)
    }
}

/// TPC-C has no table of its own.
pub(crate) fn no_table() -> Failure {
    Failure::new("TPC-C runs over store or plain: it has no table of its own")
}
