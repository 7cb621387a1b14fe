//! The workloads that experiments name.

use super::experiment::{Run, SizeSpec};
use super::kind::Kind;
use super::protocol::Protocol;
use crate::micro::{Micro, MicroSize};
use crate::named::{self, Database};
use crate::quantity;
use perdura_matrices::cost::Demand;
use std::collections::BTreeMap;

/// The workload behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Database(Database),
    Micro(Micro, MicroSize),
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
        if let Some(database) = Database::named(name).filter(|_| spec.is_none()) {
            return Ok(Work::Database(database));
        }
        if kind == Kind::Reuse {
            return Err(format!("unknown workload '{name}': it is {}", named::DATABASES));
        }
        let known = spec.and_then(|spec| spec.workload.as_deref()).unwrap_or(name);
        let micro = Micro::named(known).ok_or_else(|| {
            let micros = Micro::names();
            format!("unknown workload '{known}': it is {}, or {micros}", named::DATABASES)
        })?;
        Ok(Work::Micro(micro, spec.map(SizeSpec::size).unwrap_or_default()))
    }

    /// Whether the experiment's number of records is loaded for it.
    pub(crate) fn has_records(self) -> bool {
        !matches!(self, Work::Micro(..))
    }
}

/// Whether the workload's base can run it.
pub(super) fn base_fits(run: &Run, workload: &str) -> Result<(), String> {
    let base = run.base_of.get(workload).or(run.base.as_ref());
    let unable =
        |name: &&String| Protocol::named(run, name).is_ok_and(|base| !base.engine.rolls_back());
    match base.filter(unable) {
        Some(base) if rolls_back(workload) => Err(format!(
            "the base '{base}' cannot roll back, as {workload} does: \
             give it another one, as base_of = {{ {workload} = \"volatile\" }}"
        )),
        _ => Ok(()),
    }
}

/// Whether transactions of this workload are rolled back after stores.
pub(super) fn rolls_back(workload: &str) -> bool {
    Database::named(workload) == Some(Database::Tpcc)
}
