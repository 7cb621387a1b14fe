//! The workloads that experiments name.

use super::experiment::{Run, SizeSpec};
use super::kind::Kind;
use super::parts::Part;
use super::protocol::Protocol;
use crate::failure::Outcome;
use crate::quantity;
use crate::workload::Choice;
use perdura_matrices::cost::Demand;
use perdura_workloads::list::{ENTRIES, OPS_PER_TX, OVER, Value};
use perdura_workloads::ycsb::Letter;
use std::collections::BTreeMap;

/// The workload behind a name.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// With the experiment's number of records or warehouses, in the server's store.
    Database(Choice),
    /// With data of its own size.
    Micro(Choice),
    /// Objects of this many bytes.
    Objects(u64),
}

impl Work {
    /// The workload behind `name` in this experiment.
    pub(crate) fn named(
        kind: Kind,
        sizes: &BTreeMap<String, SizeSpec>,
        name: &str,
    ) -> Result<Self, String> {
        if kind == Kind::Checksums {
            let size = quantity::bytes(name)?;
            let demand = Demand { size, objects: 1, batch: 1, seed: 0 };
            return match demand.validate() {
                Ok(()) => Ok(Work::Objects(size)),
                Err(error) => Err(format!("'{name}': {error}")),
            };
        }
        let spec = sizes.get(name);
        let own = spec.and_then(|spec| spec.workload.as_deref()).unwrap_or(name);
        let mut choice = Choice::named(own).map_err(|error| error.to_string())?;
        match (choice.row.parameter(OVER), spec) {
            (Some(_), None) => return Ok(Work::Database(choice)),
            (None, _) if kind == Kind::Reuse && !is_in_sql(own) => Err(format!(
                "'{name}' is no database: choose tpcc, ycsb-a to ycsb-f, or a workload in SQL"
            )),
            _ => Ok(()),
        }?;
        choice.asked = spec.map(SizeSpec::asked).unwrap_or_default();
        choice.values(1).map_err(|error| error.to_string())?;
        Ok(Work::Micro(choice))
    }

    /// Whether the experiment's number of records is loaded for it.
    pub(crate) fn has_records(&self) -> bool {
        !matches!(self, Work::Micro(..))
    }
}

impl Part {
    /// The workload with this part's amount of data, smaller by its factor, and this number of operations in a transaction, if one is given. A
    /// microworkload has at most as many entries as there are records, if these are given.
    pub(super) fn sized(&self, work: &Work, ops_per_tx: Option<u32>) -> Outcome<Option<Choice>> {
        let (Work::Database(choice) | Work::Micro(choice)) = work else { return Ok(None) };
        let mut choice = choice.clone();
        let mut set = |name: &str, value| choice.asked.insert(name.to_owned(), value);
        let (records, tpcc) = (self.extent.records.div_ceil(self.divided_by), self.extent.tpcc);
        match work {
            Work::Database(choice) if is_tpcc(choice.row.name) => {
                let warehouses = u64::from(tpcc.warehouses).div_ceil(self.divided_by);
                set(ENTRIES, Value::Number(warehouses));
                set("scale", Value::Name(tpcc.rows.name().to_owned()));
                set(OVER, Value::Name("store".to_owned()));
            }
            Work::Database(_) => {
                set(ENTRIES, Value::Number(records));
                set(OVER, Value::Name("store".to_owned()));
            }
            _ => {
                if let Some(ops) = ops_per_tx {
                    set(OPS_PER_TX, Value::Number(ops.into()));
                }
                let entries = choice.values(1)?.entries().div_ceil(self.divided_by);
                let most = if records == 0 { entries } else { entries.min(records) };
                choice.asked.insert(ENTRIES.to_owned(), Value::Number(most));
            }
        }
        Ok(Some(choice))
    }
}

/// The letter in `ycsb-a` to `ycsb-f`.
pub(crate) fn letter(name: &str) -> Option<Letter> {
    name.strip_prefix("ycsb-")?.parse().ok()
}

/// Whether it is one in SQL.
fn is_in_sql(name: &str) -> bool {
    name.starts_with("sqlite-") && name != "sqlite-pages"
}

pub(crate) fn is_tpcc(name: &str) -> bool {
    name == "tpcc"
}

/// Whether the workload's base can run it.
pub(super) fn base_fits(run: &Run, workload: &str) -> Result<(), String> {
    let base = run.base_of.get(workload).or(run.base.as_ref());
    let unable =
        |name: &&String| Protocol::named(run, name).is_ok_and(|base| !base.engine.rolls_back());
    let replaced = run.simulated.iter().any(|own| own.engine_of.contains_key(workload));
    match base.filter(unable) {
        Some(base) if rolls_back(&run.sizes, workload) && !replaced => Err(format!(
            "the base '{base}' cannot roll back, as {workload} does: \
             give it another one, as base_of = {{ {workload} = \"volatile\" }}"
        )),
        _ => Ok(()),
    }
}

/// Whether transactions of this workload are rolled back after stores.
pub(super) fn rolls_back(sizes: &BTreeMap<String, SizeSpec>, workload: &str) -> bool {
    // No kind but that of bare objects has others.
    match Work::named(Kind::Share, sizes, workload) {
        Ok(Work::Database(choice) | Work::Micro(choice)) => choice.rolls_back(),
        _ => false,
    }
}
