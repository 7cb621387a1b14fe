//! Designs of a mechanism under test, and machines that have it.

use crate::Case;
use perdura_machine::mechanism::{Promise, list};
use perdura_machine::{Design, MachineConfig, Options};
use std::sync::Arc;

type Make = dyn Fn(&MachineConfig, Option<&str>) -> Result<Box<dyn Design>, String> + Send + Sync;

/// Makes designs of one mechanism.
#[derive(Clone)]
pub struct Maker {
    name: String,
    make: Arc<Make>,
}

impl Maker {
    /// For the mechanism with this name, configured by a case's machine.
    ///
    /// # Errors
    /// If there is none, or it promises nothing that could be tested.
    pub fn named(name: &str) -> Result<Self, String> {
        let kind = list::find(name).map_err(|error| error.to_string())?;
        if kind.promises() == Promise::Nothing {
            return Err(nothing_to_test(name));
        }
        let make = move |machine: &MachineConfig, mutant: Option<&str>| {
            list::design(kind.name, machine, mutant).map_err(|error| error.to_string())
        };
        Ok(Maker { name: name.to_owned(), make: Arc::new(make) })
    }

    /// For a custom mechanism, which has no mutants.
    pub fn own(make: impl Fn() -> Box<dyn Design> + Send + Sync + 'static) -> Self {
        let name = make().name().to_owned();
        Maker { name, make: Arc::new(move |_, _| Ok(make())) }
    }

    /// The mechanism's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a case's machine can have the mechanism, with the case's number of cores.
    ///
    /// # Errors
    /// The figure of the machine or of the mechanism that forbids it, and what to change.
    pub fn check(&self, case: &Case) -> Result<(), String> {
        self.design(case).map(drop)
    }

    /// The design that a case is for.
    pub(super) fn design(&self, case: &Case) -> Result<Box<dyn Design>, String> {
        let machine = case.machine.with_cores(case.cores);
        let design = (self.make)(&machine, case.mutant.as_deref())?;
        match design.promises() {
            Promise::Nothing => Err(nothing_to_test(&self.name)),
            Promise::Epoch | Promise::Order | Promise::Transactions => Ok(design),
        }
    }
}

fn nothing_to_test(name: &str) -> String {
    format!("the mechanism '{name}' promises nothing for a power cut: there is nothing to test")
}

/// A mechanism, and the contents of its own lines when the machine is switched on.
#[derive(Clone)]
pub(crate) struct Fitted<'a> {
    pub(super) maker: &'a Maker,
    pub(super) own: Vec<u64>,
}

impl Fitted<'_> {
    /// Whether its promises are about transactions only.
    pub(super) fn runs_transactions(&self, case: &Case) -> bool {
        self.maker.design(case).is_ok_and(|design| design.promises() == Promise::Transactions)
    }

    /// The options of a machine that has it.
    pub(crate) fn fit(&self, case: &Case, options: Options) -> Result<Options, String> {
        Ok(Options {
            mechanism: self.maker.design(case)?,
            own: self.own.clone(),
            epoch: case.epoch,
            keep: perdura_machine::Keep::Durable,
            at_arrivals: true,
            before_fences: false,
            failing_fence: None,
            ..options
        })
    }
}
