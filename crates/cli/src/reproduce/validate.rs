//! What makes sense as an experiment, and what does not.

use super::experiment::{Experiment, Kind, Run, Simulated, Value};
use crate::tpcc;
use perdura_machine::presets;

impl Experiment {
    /// Says what makes no sense.
    pub(super) fn validate(&self) -> Result<(), String> {
        let Run { native, simulated, workloads, engines, base, threads, .. } = &self.run;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return Err("its name must be of letters, digits, '-', '_' and '.'".to_owned());
        }
        if workloads.is_empty() {
            return Err("it needs a workload".to_owned());
        }
        match self.kind {
            Kind::Reuse if *native || simulated.is_some() || !engines.is_empty() => {
                return Err("reuse runs no engine, neither native nor simulated".to_owned());
            }
            Kind::Checksums if !native || simulated.is_some() || !engines.is_empty() => {
                return Err("checksums are measured natively only, without engines".to_owned());
            }
            Kind::Reuse | Kind::Checksums => {}
            _ if (!native && simulated.is_none()) || engines.is_empty() => {
                return Err("it needs engines, and native or simulated runs".to_owned());
            }
            _ => {}
        }
        if self.kind == Kind::Latency && simulated.is_some() {
            return Err("latencies are measured in native runs only".to_owned());
        }
        let needs_base = !matches!(self.kind, Kind::Reuse | Kind::Dirtiness | Kind::Checksums);
        match base {
            Some(base) if !engines.contains(base) => {
                return Err(format!("its base '{base}' is none of its engines"));
            }
            None if needs_base => return Err("it needs a base engine".to_owned()),
            _ => {}
        }
        let named = |engine: &&String| !engines.contains(engine);
        let bases = self.run.bases.iter().flat_map(|(engine, base)| [engine, base]);
        if let Some(engine) = bases.into_iter().find(named) {
            return Err(format!("'{engine}' in bases is none of its engines"));
        }
        let Run { records, operations, repetitions, .. } = self.run;
        let has_operations = operations > 0 || self.kind == Kind::Checksums;
        if records == 0 || !has_operations || repetitions == 0 {
            return Err("records, operations and repetitions must be 1 or more".to_owned());
        }
        self.validate_settings()?;
        tpcc_valid(self.run.tpcc)?;
        tpcc_valid(self.quick.tpcc.unwrap_or_default())?;
        threads_valid(threads)?;
        threads_valid(self.quick.threads.as_deref().unwrap_or(&[1]))?;
        simulated.as_ref().map_or(Ok(()), Simulated::validate)?;
        self.paper.values.iter().try_for_each(|value| self.validate_value(value))
    }

    fn validate_settings(&self) -> Result<(), String> {
        let settings = &self.run.settings;
        if self.kind == Kind::Checksums && !settings.is_empty() {
            return Err("there is no setting of checksums".to_owned());
        }
        for (index, setting) in settings.iter().enumerate() {
            let taken = settings[..index].iter().any(|other| other.name == setting.name);
            if setting.name.trim().is_empty() || taken || setting.name.contains(',') {
                return Err("each setting needs a name of its own, without commas".to_owned());
            }
        }
        Ok(())
    }

    fn validate_value(&self, value: &Value) -> Result<(), String> {
        let Value { says, quantity, engine, workload, over, .. } = value;
        if quantity.kind() != self.kind {
            return Err(format!("'{says}': this kind of experiment does not find {quantity}"));
        }
        if workload.is_some() == over.is_some() {
            return Err(format!("'{says}' needs a workload, or over: mean, least or most"));
        }
        match engine {
            Some(engine) if !self.run.engines.contains(engine) => {
                Err(format!("'{says}': '{engine}' is none of its engines"))
            }
            _ => Ok(()),
        }
    }
}

impl Simulated {
    fn validate(&self) -> Result<(), String> {
        presets::load(&self.machine).map_err(|error| error.to_string())?;
        tpcc_valid(self.tpcc)?;
        if self.records == 0 || self.operations == 0 || self.repetitions == 0 {
            return Err("records, operations and repetitions must be 1 or more".to_owned());
        }
        match self.cores.iter().all(|cores| (1..=64).contains(cores)) && !self.cores.is_empty() {
            true => Ok(()),
            false => Err("a simulated machine has 1 to 64 cores".to_owned()),
        }
    }
}

fn tpcc_valid(size: tpcc::Size) -> Result<(), String> {
    size.scale().validate().map_err(|error| error.to_string())
}

fn threads_valid(threads: &[u32]) -> Result<(), String> {
    let fit = !threads.is_empty() && threads.iter().all(|threads| (1..=256).contains(threads));
    if fit { Ok(()) } else { Err("threads must be from 1 to 256".to_owned()) }
}
