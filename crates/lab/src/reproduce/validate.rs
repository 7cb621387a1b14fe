//! Checks that an experiment is consistent.

use super::experiment::{Accepted, Calibrate, Experiment, Run, Scale, Simulated, Value};
use super::kind::Kind;
use super::protocol::Protocol;
use super::quantity::Quantity;
use super::tpcc;
use super::work::{self, Work};
use perdura::EngineKind;
use perdura_matrices::cost::When;

impl Experiment {
    /// Reports the first inconsistency.
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
            Kind::Crash if *native || simulated.is_none() || engines.is_empty() => {
                return Err("power cuts are simulated: it needs engines and [run.simulated], \
                            and no native runs"
                    .to_owned());
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
        let needs_base =
            !matches!(self.kind, Kind::Reuse | Kind::Dirtiness | Kind::Checksums | Kind::Crash);
        match base {
            Some(base) if !engines.contains(base) => {
                return Err(format!("its base '{base}' is none of its engines"));
            }
            None if needs_base => return Err("it needs a base engine".to_owned()),
            _ => {}
        }
        self.validate_bases()?;
        self.validate_base_threads()?;
        let named = |engine: &&String| !engines.contains(engine);
        let bases = self.run.bases.iter().flat_map(|(engine, base)| [engine, base]);
        if let Some(engine) = bases.into_iter().find(named) {
            return Err(format!("'{engine}' in bases is none of its engines"));
        }
        self.validate_protocols()?;
        let Run { records, operations, repetitions, .. } = self.run;
        let records = if self.has_records() { records } else { 1 };
        let has_operations = operations > 0 || self.kind == Kind::Checksums;
        let used = *native || self.kind == Kind::Reuse;
        if used && (records == 0 || !has_operations || repetitions == 0) {
            return Err("records, operations and repetitions must be 1 or more".to_owned());
        }
        self.validate_settings()?;
        self.validate_axis()?;
        self.validate_cuts()?;
        self.validate_served()?;
        tpcc_valid(self.run.tpcc)?;
        tpcc_valid(self.quick.tpcc.unwrap_or_default())?;
        threads_valid(threads)?;
        threads_valid(self.quick.threads.as_deref().unwrap_or(&[1]))?;
        if let Some(simulated) = simulated {
            simulated.validate(&self.quick, self.has_records())?;
            self.validate_figures(simulated)?;
        }
        self.validate_accepted()?;
        self.paper.values.iter().try_for_each(|value| self.validate_value(value))
    }

    /// Whether some workload's size is `records`. Unknown workloads have no size.
    fn has_records(&self) -> bool {
        let named = |name: &String| Work::named(self.kind, &self.run.sizes, name);
        self.run.workloads.iter().any(|name| named(name).is_ok_and(|work| work.has_records()))
    }

    /// Protocols and sizes have names of the experiment's own, and mechanisms are simulated.
    fn validate_protocols(&self) -> Result<(), String> {
        let Run { simulated, protocols, workloads, sizes, mean_over, .. } = &self.run;
        if !protocols.is_empty() && simulated.is_none() {
            return Err(
                "mechanisms are the simulated machine's: leave out protocols, or add [run.simulated]"
                    .to_owned(),
            );
        }
        for (name, spec) in protocols {
            if *name != spec.engine && name.parse::<EngineKind>().is_ok() {
                return Err(format!("the protocol '{name}' has another engine's name"));
            }
            if spec.epoch_us == 0 {
                return Err(format!("the protocol '{name}' needs epochs of 1 microsecond or more"));
            }
        }
        let mut known = sizes.keys().chain(mean_over);
        if let Some(name) = known.find(|name| !workloads.contains(name)) {
            return Err(format!("'{name}' in sizes or mean_over is none of its workloads"));
        }
        for name in sizes.keys() {
            let work = Work::named(self.kind, sizes, name);
            work.map_err(|error| format!("'{name}' in sizes: {error}"))?;
        }
        if self.run.settings.iter().any(|setting| setting.ops_per_tx == Some(0)) {
            return Err("a transaction has an operation at least: ops_per_tx".to_owned());
        }
        Ok(())
    }

    /// Columns are of its kind; accepted ranges, and workloads left out, are of its own workloads.
    fn validate_accepted(&self) -> Result<(), String> {
        let Run { workloads, accepted, left_out, quantities, .. } = &self.run;
        let compared = &self.run.compared;
        if quantities.is_empty()
            && accepted.is_empty()
            && left_out.is_empty()
            && compared.is_empty()
        {
            return Ok(());
        }
        if !self.kind.has_means() {
            return Err(
                "quantities, accepted and left_out are of the kinds share and traffic".to_owned()
            );
        }
        let other = |own: &&Quantity| own.kind() != self.kind;
        let of_settings = compared.iter().map(|own| &own.quantity);
        let named = accepted.iter().map(|own| &own.quantity).chain(quantities).chain(of_settings);
        if let Some(quantity) = named.into_iter().find(other) {
            return Err(format!("this kind of experiment does not find {quantity}"));
        }
        let asked = accepted.iter().flat_map(|own| own.of.keys()).chain(left_out.keys());
        if let Some(name) = asked.into_iter().find(|name| !workloads.contains(name)) {
            return Err(format!("'{name}' in accepted or left_out is none of its workloads"));
        }
        let named = compared.iter().filter_map(|own| own.with.as_ref());
        if let Some(name) = named.into_iter().find(|name| !self.has_setting(name)) {
            return Err(format!("'{name}' in compared is none of its settings"));
        }
        for Accepted { engine, points, within_percent, .. } in accepted {
            if points.is_some() == within_percent.is_some() {
                return Err("accepted needs either points or within_percent".to_owned());
            }
            let known =
                self.run.engines.contains(engine) || self.run.protocols.contains_key(engine);
            if !known || self.run.simulated.is_none() {
                return Err(format!("'{engine}' in accepted is none of its simulated engines"));
            }
        }
        Ok(())
    }

    /// The figures that settings and the calibration change exist in the machine.
    fn validate_figures(&self, simulated: &Simulated) -> Result<(), String> {
        let machine = simulated.machine(1, 1)?;
        let with = |figure: &str, value: String| {
            machine.with(figure, &value).map(drop).map_err(|error| error.to_string())
        };
        for setting in &self.run.settings {
            setting.sets.iter().try_for_each(|(figure, value)| with(figure, value.to_string()))?;
        }
        for (workload, figures) in &simulated.figures_of {
            if !self.run.workloads.contains(workload) {
                return Err(format!("'{workload}' in figures_of is none of its workloads"));
            }
            figures.iter().try_for_each(|(figure, value)| with(figure, value.to_string()))?;
        }
        for (workload, engine) in &simulated.engine_of {
            if !self.run.workloads.contains(workload) || self.run.native {
                return Err(format!(
                    "'{workload}' in engine_of is none of its workloads, or is run natively too"
                ));
            }
            let engine = engine.parse::<EngineKind>().map_err(|error| error.to_string())?;
            if work::rolls_back(&self.run.sizes, workload) && !engine.rolls_back() {
                return Err(format!("{engine} in engine_of cannot roll back, as {workload} does"));
            }
        }
        let Some(own) = &simulated.calibrate else { return Ok(()) };
        let Calibrate { figure, values, engine, share, in_checkpoints, .. } = own;
        if share.is_some() != in_checkpoints.is_empty() {
            return Err("calibrate needs either a share or in_checkpoints".to_owned());
        }
        let fits = self.run.base.as_ref().is_some_and(|base| base != engine);
        if share.is_some_and(|share| !fits || share <= 0.0) {
            return Err(
                "calibrate needs an engine, which is not the base, and its share".to_owned()
            );
        }
        let fits = |percent: &f64| *percent > 0.0 && *percent < 100.0;
        let known = |name: &String| self.run.workloads.contains(name);
        if !in_checkpoints.keys().all(known) || !in_checkpoints.values().all(fits) {
            return Err("in_checkpoints needs workloads of its own, with percentages".to_owned());
        }
        if values.is_empty() || !values.is_sorted_by(|a, b| a < b) {
            return Err("calibrate needs values that ascend".to_owned());
        }
        values.iter().try_for_each(|value| with(figure, value.to_string()))
    }

    /// Each workload has a base that can run it.
    fn validate_bases(&self) -> Result<(), String> {
        let Run { workloads, base, base_of, served, .. } = &self.run;
        if let Some(other) = base_of.keys().find(|name| !workloads.contains(name)) {
            return Err(format!("'{other}' in base_of is none of its workloads"));
        }
        if !base_of.is_empty() && (base.is_none() || served.is_some()) {
            return Err("base_of needs a base, and is not for served runs".to_owned());
        }
        workloads.iter().try_for_each(|workload| work::base_fits(&self.run, workload))
    }

    /// The base runs with the number of threads with which it is compared.
    fn validate_base_threads(&self) -> Result<(), String> {
        let Run { base_threads: Some(threads), native, simulated, .. } = &self.run else {
            return Ok(());
        };
        let cores = simulated.iter().all(|simulated| simulated.cores.contains(threads));
        if self.run.base.is_none() || !cores || *native && !self.run.threads.contains(threads) {
            return Err("base_threads needs a base, and runs with as many threads".to_owned());
        }
        Ok(())
    }

    fn validate_settings(&self) -> Result<(), String> {
        let settings = &self.run.settings;
        if self.kind == Kind::Checksums && !settings.is_empty() {
            return Err("there is no setting of checksums".to_owned());
        }
        let simulated_only = self.run.simulated.is_some() && !self.run.native;
        if !simulated_only && settings.iter().any(|setting| setting.policy.is_some()) {
            return Err("a policy is of simulated caches: leave it out, or native runs".to_owned());
        }
        if !simulated_only && settings.iter().any(|setting| !setting.sets.is_empty()) {
            return Err(
                "sets are of the simulated machine: leave them out, or native runs".to_owned()
            );
        }
        let sizes = settings.iter().filter_map(|setting| setting.divided_by);
        if !simulated_only && sizes.clone().next().is_some() || sizes.clone().any(|size| size == 0)
        {
            return Err(
                "divided_by is of simulated runs, and 1 or more: leave it out, or native runs"
                    .to_owned(),
            );
        }
        for (index, setting) in settings.iter().enumerate() {
            let taken = settings[..index].iter().any(|other| other.name == setting.name);
            if setting.name.trim().is_empty() || taken || setting.name.contains(',') {
                return Err("each setting needs a name of its own, without commas".to_owned());
            }
        }
        Ok(())
    }

    /// Settings have places on the experiment's axis if and only if there is one; curves are of shares and of traffic.
    fn validate_axis(&self) -> Result<(), String> {
        let Run { axis, settings, .. } = &self.run;
        let places: Vec<f64> = settings.iter().filter_map(|setting| setting.at).collect();
        if axis.is_none() && places.is_empty() {
            return Ok(());
        }
        if axis.is_none() || !self.kind.has_means() {
            return Err("at is of settings on an axis, of the kinds share and traffic".to_owned());
        }
        let ascend = places.is_sorted_by(|a, b| a < b) && places.iter().all(|at| *at > 0.0);
        if places.len() != settings.len() || places.is_empty() || !ascend {
            return Err("each setting on an axis needs at: above 0, and ascending".to_owned());
        }
        Ok(())
    }

    /// Power cuts are given if and only if their losses are measured.
    fn validate_cuts(&self) -> Result<(), String> {
        let Run { simulated, engines, .. } = &self.run;
        let cuts = simulated.as_ref().map_or(0, |simulated| simulated.cuts);
        if self.kind != Kind::Crash {
            return match cuts == 0 && self.quick.cuts.is_none() {
                true => Ok(()),
                false => Err("cuts are for kind crash only: leave them out".to_owned()),
            };
        }
        if cuts == 0 || self.quick.cuts == Some(0) {
            return Err("it needs power cuts, as cuts = 100 in [run.simulated]".to_owned());
        }
        // Engines that this program does not have may be named.
        let mut known = engines.iter().filter_map(|name| Protocol::named(&self.run, name).ok());
        known.try_for_each(|protocol| self.kind.engine_fits(protocol.engine))?;
        let cores = simulated.iter().map(|simulated| simulated.cores.as_slice());
        let mut cores = cores.chain(self.quick.threads.as_deref());
        cores.try_for_each(|cores| self.kind.cores_fit(cores))
    }

    fn validate_served(&self) -> Result<(), String> {
        let Some(served) = &self.run.served else { return Ok(()) };
        if self.kind != Kind::Throughput || !self.run.native || !self.run.settings.is_empty() {
            return Err("served runs are for native throughput, without settings".to_owned());
        }
        if served.records == 0 || served.operations == 0 || served.repetitions == 0 {
            return Err("records, operations and repetitions must be 1 or more".to_owned());
        }
        threads_valid(&served.clients).map_err(|_| "clients must be from 1 to 256".to_owned())
    }

    /// Whether it runs the engine, or the paper does.
    fn has_engine(&self, name: &String) -> bool {
        self.run.engines.contains(name) || self.paper.later.contains(name)
    }

    fn has_setting(&self, name: &str) -> bool {
        match self.kind {
            Kind::Checksums => When::ALL.iter().any(|when| when.name() == name),
            _ => self.run.settings.iter().any(|setting| setting.name == name),
        }
    }

    fn validate_value(&self, value: &Value) -> Result<(), String> {
        let Value { says, quantity, engine, workload, over, setting, .. } = value;
        if quantity.kind() != self.kind {
            return Err(format!("'{says}': this kind of experiment does not find {quantity}"));
        }
        if *quantity == Quantity::BaselineChange && self.run.served.is_none() {
            return Err(format!("'{says}': there is no baseline server: it needs [run.served]"));
        }
        if workload.is_some() == over.is_some() {
            return Err(format!("'{says}' needs a workload, or over: mean, least or most"));
        }
        if let Some(setting) = setting.as_ref().filter(|setting| !self.has_setting(setting)) {
            return Err(format!("'{says}': '{setting}' is none of its settings"));
        }
        let compared = matches!(quantity, Quantity::SpeedUp | Quantity::Slowdown);
        if compared && engine.is_none() || !compared && value.against.is_some() {
            return Err(format!("'{says}': a speed-up or a slowdown is of an engine, against one"));
        }
        if let Some(other) = value.against.as_ref().filter(|own| !self.has_engine(own)) {
            return Err(format!("'{says}': '{other}' is none of its engines"));
        }
        match engine {
            Some(engine) if !self.has_engine(engine) => {
                Err(format!("'{says}': '{engine}' is none of its engines"))
            }
            _ => Ok(()),
        }
    }
}

impl Simulated {
    fn validate(&self, quick: &Scale, has_records: bool) -> Result<(), String> {
        for divisor in [Some(self.caches_divided_by), quick.caches_divided_by].into_iter().flatten()
        {
            self.machine(self.divided_by, divisor)?;
        }
        if let Some(divided_by) = quick.divided_by {
            self.machine(divided_by, self.caches_divided_by)?;
        }
        if !(0.0..=100.0).contains(&self.warm_up) {
            return Err("warm_up is 0 to 100 operations for each measured one".to_owned());
        }
        tpcc_valid(self.tpcc)?;
        if (has_records && self.records == 0) || self.operations == 0 || self.repetitions == 0 {
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
