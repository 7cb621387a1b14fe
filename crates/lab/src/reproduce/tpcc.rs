//! The size of TPC-C's tables in an experiment.

use perdura_workloads::tpcc::Scale;
use serde::{Deserialize, Serialize};

/// Rows of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}
