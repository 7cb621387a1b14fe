//! The objects of an experiment's comparison, by name: an engine, or an engine with a mechanism of the simulated
//! machine.

use super::experiment::{Experiment, Run};
use crate::failure::{Failure, Outcome};
use crate::simulate::{MechanismChoice, TransactionsChoice};
use perdura::EngineKind;
use perdura_memory::speculation;

/// An engine as an experiment runs it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Protocol {
    /// The engine's own name, if there is no mechanism.
    pub(crate) name: String,
    pub(crate) engine: EngineKind,
    pub(crate) mechanism: MechanismChoice,
    /// The machine's mechanism for transactions.
    pub(crate) transactions: Option<TransactionsChoice>,
    pub(crate) epoch_us: u64,
}

impl From<EngineKind> for Protocol {
    fn from(engine: EngineKind) -> Self {
        let (mechanism, transactions) = (MechanismChoice::PLAIN, None);
        Protocol { name: engine.name().to_owned(), engine, mechanism, transactions, epoch_us: 1 }
    }
}

impl Protocol {
    /// The protocol of the experiment, or the engine, with this name.
    pub(super) fn named(run: &Run, name: &str) -> Result<Self, String> {
        let Some(spec) = run.protocols.get(name) else {
            return name
                .parse::<EngineKind>()
                .map(Protocol::from)
                .map_err(|error| error.to_string());
        };
        let engine = spec.engine.parse().map_err(|error| format!("'{name}': {error}"))?;
        let wrong = |error| format!("'{name}': {error}");
        let mechanism = spec.mechanism.parse().map_err(wrong)?;
        let transactions = spec.transactions.as_deref().map(str::parse).transpose();
        let transactions = transactions.map_err(wrong)?;
        let (name, epoch_us) = (name.to_owned(), spec.epoch_us);
        Ok(Protocol { name, engine, mechanism, transactions, epoch_us })
    }

    /// Whether its hardware is simulated only. The transactions that only isolate are those of processors, where these
    /// have them.
    pub(super) fn is_simulated(&self) -> bool {
        !self.mechanism.is_plain()
            || self.transactions.is_some() && !(self.is_of_processors() && speculation::works())
    }

    /// Whether it would run natively on a processor with hardware transactions, which this one is without.
    pub(super) fn misses_processor(&self) -> bool {
        self.mechanism.is_plain() && self.is_of_processors() && !speculation::works()
    }

    fn is_of_processors(&self) -> bool {
        self.transactions.is_some_and(|own| own.name() == "htm")
    }

    /// As [`named`](Self::named), for a run of the experiment.
    pub(super) fn of(experiment: &Experiment, name: &str) -> Outcome<Self> {
        let refuse = |what| Failure::new(format!("experiment '{}': {what}", experiment.name));
        let run = &experiment.run;
        let protocol = Protocol::named(run, name).map_err(|error| {
            let known = run.engines.iter().filter(|name| Protocol::named(run, name).is_ok());
            let known = known.map(String::as_str).collect::<Vec<_>>().join(",");
            refuse(format!("{error}; to run it with those that are there: --engine {known}"))
        })?;
        experiment.kind.engine_fits(protocol.engine).map_err(refuse)?;
        Ok(protocol)
    }
}

/// The experiment's engines and protocols that this program lacks.
pub(crate) fn missing(experiment: &Experiment) -> Vec<&str> {
    let run = &experiment.run;
    let names = run.engines.iter().chain(run.base_of.values()).map(String::as_str);
    names.filter(|name| Protocol::named(run, name).is_err()).collect()
}
