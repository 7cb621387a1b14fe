//! `perdura-lab sim`: a workload on a simulated machine, timed by its clock.

mod show;
mod sweep;
mod trace;

use crate::bench::knobs::Knobs;
use crate::bench::options::{EngineChoice, refuse_without_rollback};
use crate::bench::window::Window;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::quantity;
use crate::simulate::{self, MechanismChoice, Plan, Run, TransactionsChoice};
use crate::workload::Choice;
use perdura::EngineKind;
use perdura_machine::cache::Policy;
use perdura_machine::{MachineConfig, presets};
use perdura_memory::Domain;
use perdura_workloads::Progress;
use perdura_workloads::list::Values;
use std::path::PathBuf;
use sweep::Sweep;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The machine: a preset's name (`perdura-lab list machines` has them), or a TOML file
    #[arg(long, value_name = "NAME", default_value = "optane")]
    machine: String,

    #[arg(long, help = format!(
        "Engines: {}, or all; several with commas. `plain` always runs too, or `volatile` where transactions are rolled \
             back: the others are relative to it",
        EngineKind::NAMES
    ), value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    engine: Vec<EngineChoice>,

    #[command(flatten)]
    workload: Choice,

    /// Replays the accesses of another program in place of a workload, without an engine: the output of valgrind's
    /// lackey (--trace-mem=yes), or a text with a step a line (`S 0x40 8`, `L`, `W` to write lines back, `F` for a fence,
    /// `X` with cycles). Several files, with commas, run on a core each
    #[arg(long, value_name = "FILES", value_delimiter = ',', conflicts_with_all = ["workload", "engine", "sweep", "cuts"])]
    trace: Vec<PathBuf>,

    /// Transactions measured, all cores together; programs that end do as many as their input takes
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "20k", value_parser = quantity::count)]
    ops: u64,

    /// Transactions before the measured ones [default: as many]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    warm_up: Option<u64>,

    #[arg(long, help = format!(
        "Replaces the policies of all caches: {}, or a quad-age policy in nanoBench's notation", Policy::names()
    ), value_name = "NAME")]
    policy: Option<Policy>,

    /// Cores, one thread of the workload on each
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    cores: usize,

    /// Transactions that a core leaves unanswered at most: it begins the next one when the one
    /// before has committed, and waits until the oldest is durable when there are so many; with
    /// `all`, nothing is waited for before the end
    #[arg(long, value_name = "NUMBER", default_value_t = Window::CLOSED_LOOP)]
    window: Window,

    #[command(flatten)]
    knobs: Knobs,

    /// A mechanism in hardware, beside the engine; `perdura-lab list mechanisms` tells what there is
    #[arg(long, value_name = "NAME", default_value = "plain")]
    mechanism: MechanismChoice,

    #[arg(long, help = format!(
        "A mechanism for transactions in hardware, by which the engines htm-* run theirs: {}", TransactionsChoice::names()
    ), value_name = "NAME", conflicts_with = "trace")]
    transactions: Option<TransactionsChoice>,

    /// Length of the mechanism's epochs, microseconds
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    epoch_us: u64,

    /// Runs with each of several values of one of the machine's figures, by its path in the machine's file, and
    /// prints the range of what comes out: memory.controller.static_write_ns=0,50,100 or caches.L1.ways=4,8
    #[arg(long, value_name = "FIGURE=VALUES")]
    sweep: Option<Sweep>,

    /// Loads the data before the machine is switched on, which takes less of this machine's time; its caches then have
    /// none of it
    #[arg(long)]
    loaded_before: bool,

    /// Power cuts at random among the measured transactions, of one core, to see what they would take of
    /// what engines left to the caches; the run goes on after each
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    cuts: u64,

    /// The root of everything random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Prints JSON, with all that the machine counted
    #[arg(long)]
    json: bool,

    /// Prints comma-separated values, a line for each engine, with all that the machine counted
    #[arg(long, conflicts_with_all = ["json", "trace"])]
    csv: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let machine = arguments.machine()?;
    let progress = interrupt::progress()?;
    if !arguments.trace.is_empty() {
        return trace::run(arguments, &arguments.trace, machine, &progress);
    }
    let Some(sweep) = &arguments.sweep else {
        let runs = arguments.run_all(&machine, &progress)?;
        show::report(arguments, &machine, &runs)?;
        return interrupt::check(&progress);
    };
    let mut points = Vec::new();
    for (value, machine) in sweep.machines(&machine)? {
        let runs = arguments.run_all(&machine, &progress)?;
        interrupt::check(&progress)?;
        points.push(sweep::Point { value, machine, runs });
    }
    sweep::report(arguments, sweep, &points)
}

impl Arguments {
    /// The baseline's run, then those of the other engines; after Ctrl-C, those that had ended by then.
    fn run_all(
        &self,
        machine: &MachineConfig,
        progress: &Progress,
    ) -> Outcome<Vec<(EngineKind, Run)>> {
        let total = self.ops.saturating_add(self.warm_up());
        let mut runs = Vec::new();
        for engine in self.kinds() {
            let plan = self.plan(machine.clone(), engine);
            let label = format!("{engine} on {}", machine.name);
            let run = crate::bench::watch::with_bar(&label, total, progress, || {
                self.run_on(&plan, progress)
            });
            if progress.is_stopped() && !runs.is_empty() {
                break;
            }
            interrupt::check(progress)?;
            runs.push((engine, run?));
        }
        Ok(runs)
    }

    fn machine(&self) -> Outcome<MachineConfig> {
        let load = presets::load(&self.machine).map_err(|error| Failure::new(error.to_string()));
        let mut machine = load?;
        simulate::set_policy(&mut machine, self.policy);
        if !(1..=64).contains(&self.cores) {
            return Err(Failure::new("--cores must be 1 to 64"));
        }
        machine.cores.count = self.cores;
        if self.ops == 0 {
            return Err(Failure::new(
                "there is nothing to measure in 0 transactions; give --operations more",
            ));
        }
        if self.rolls_back() {
            refuse_without_rollback(&self.engine)?;
        }
        if self.cuts > 0 {
            self.check_cuts()?;
        }
        if self.epoch_us == 0 {
            return Err(Failure::new("--epoch-us must be 1 or more"));
        }
        if !self.mechanism.is_plain() && machine.domain != Domain::Transient {
            return Err(Failure::new(format!(
                "the caches of {} are persistent: --mechanism has nothing to do there",
                machine.name
            )));
        }
        Ok(machine)
    }

    fn check_cuts(&self) -> Outcome {
        let skips = |choice: &EngineChoice| match choice {
            EngineChoice::All => false,
            EngineChoice::One(kind) => kind.skips(),
        };
        if self.cores == 1 && self.engine.iter().all(skips) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "--cuts is for engines that skip write-backs ({}) on one core; `perdura-lab crash` cuts \
                 the power of all engines",
            EngineKind::names_of(EngineKind::skips)
        )))
    }

    /// The baseline first, then the given engines, each once. All are those that keep transactions apart.
    fn kinds(&self) -> Vec<EngineKind> {
        let able = |kind: &EngineKind| kind.rolls_back() || !self.rolls_back();
        let baseline = EngineKind::ALL.into_iter().find(able);
        let asked = |kind: &EngineKind| {
            Some(*kind) == baseline
                || self.engine.iter().any(|choice| match choice {
                    EngineChoice::All => kind.isolates(),
                    EngineChoice::One(one) => one == kind,
                })
        };
        EngineKind::ALL.into_iter().filter(able).filter(asked).collect()
    }

    /// Whether transactions of the workload are rolled back.
    fn rolls_back(&self) -> bool {
        self.workload.rolls_back()
    }

    /// The workload's parameters.
    fn values(&self) -> Outcome<Values> {
        Ok(self.workload.values(self.cores)?)
    }

    fn warm_up(&self) -> u64 {
        self.warm_up.unwrap_or(self.ops)
    }

    fn plan(&self, machine: MachineConfig, engine: EngineKind) -> Plan {
        Plan {
            machine,
            engine,
            cores: self.cores,
            operations: self.ops,
            warm_up: self.warm_up(),
            settle: 0,
            seed: self.seed,
            mechanism: self.mechanism,
            transactions: self.transactions,
            epoch_us: self.epoch_us,
            window: self.window.transactions(),
            knobs: self.knobs,
            cuts: if engine.skips() { self.cuts } else { 0 },
            unflushed: false,
            emptied: false,
            loaded_before: self.loaded_before,
        }
    }

    fn run_on(&self, plan: &Plan, progress: &Progress) -> Outcome<Run> {
        let total = plan.operations.saturating_add(plan.warm_up);
        let made = self.workload.make(plan.cores, plan.seed, total)?;
        made.simulated(plan, made.bytes, progress)
    }
}
