//! `perdura-lab sim`: a workload on a simulated machine, timed by its clock.

mod show;
mod sweep;
mod trace;

use crate::bench::keyspace::Served;
use crate::bench::knobs::Knobs;
use crate::bench::options::{EngineChoice, Over, refuse_without_rollback};
use crate::bench::window::Window;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::micro::{Micro, MicroSize};
use crate::named::{self, OnWorkload};
use crate::quantity;
use crate::simulate::{self, MechanismChoice, Plan, Run};
use crate::tpcc::{Rows, Size, no_table};
use perdura::EngineKind;
use perdura_machine::cache::Policy;
use perdura_machine::{MachineConfig, presets};
use perdura_memory::Domain;
use perdura_workloads::records::{Plain, Rooted};
use perdura_workloads::stamp::{App, Input};
use perdura_workloads::ycsb::{Options, Shape, Ycsb, YcsbOver};
use perdura_workloads::{Progress, Workload};

use std::path::PathBuf;
use sweep::Sweep;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The machine: a preset's name (`--list` shows them), or a TOML file
    #[arg(long, value_name = "NAME", default_value = "optane")]
    machine: String,

    #[arg(long, help = format!(
        "Engines: {}, or all; several with commas. `plain` always runs too, or `volatile` where transactions are rolled \
             back: the others are relative to it",
        EngineKind::NAMES
    ), value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    engine: Vec<EngineChoice>,

    #[arg(long, help = format!(
        "Workload: {}, tpcc (of the small scale, without keying and think times), or ycsb-a to ycsb-f; --list tells \
             what they are",
        Micro::names()
    ), value_name = "NAME", default_value = "sps")]
    workload: String,

    /// Replays the accesses of another program in place of a workload, without an engine: the output of valgrind's
    /// lackey (--trace-mem=yes), or a text with a step a line (`S 0x40 8`, `L`, `W` to write lines back, `F` for a fence,
    /// `X` with cycles). Several files, with commas, run on a core each
    #[arg(long, value_name = "FILES", value_delimiter = ',', conflicts_with_all = ["workload", "engine", "sweep", "cuts"])]
    trace: Vec<PathBuf>,

    /// Where the records of YCSB and TPC-C are [default: YCSB table; TPC-C store]
    #[arg(long, value_enum)]
    over: Option<Over>,

    /// Entries, keys, records, vertices, slots or warehouses [default: 65,536; sdg 16,384; churn 10,000;
    /// YCSB 10,000; TPC-C as many as cores; STAMP as its input has]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    entries: Option<u64>,

    #[arg(long, help = format!(
        "Operations in a transaction [default: {}; 1 for the others]", Micro::usual_ops_per_tx()
    ), value_name = "NUMBER")]
    ops_per_tx: Option<u32>,

    /// How large an input STAMP's applications have: small, plain, plus or native [default: plain]
    #[arg(long, value_name = "SIZE")]
    input: Option<Input>,

    /// Transactions measured, all cores together; programs that end do as many as their input takes
    #[arg(long = "operations", alias = "ops", value_name = "NUMBER", default_value = "20k", value_parser = quantity::count)]
    ops: u64,

    /// Transactions before the measured ones [default: as many]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    warm_up: Option<u64>,

    /// Replaces the policies of all caches: lru, tree-plru, bimodal, random, quad-age, or a
    /// quad-age policy in nanoBench's notation
    #[arg(long, value_name = "NAME")]
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

    /// A mechanism in hardware, beside the engine; --list tells what there is
    #[arg(long, value_name = "NAME", default_value = "plain")]
    mechanism: MechanismChoice,

    /// Length of the mechanism's epochs, microseconds
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    epoch_us: u64,

    /// Runs with each of several values of one of the machine's figures, by its path in the machine's file, and
    /// prints the range of what comes out: memory.controller.static_write_ns=0,50,100 or caches.L1.ways=4,8
    #[arg(long, value_name = "FIGURE=VALUES")]
    sweep: Option<Sweep>,

    /// Power cuts at random among the measured transactions, of one core, to see what they would take of
    /// what engines left to the caches; the run goes on after each
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    cuts: u64,

    /// The root of everything random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Lists the machines, their mechanisms and the workloads
    #[arg(long)]
    list: bool,

    /// Prints JSON, with all that the machine counted
    #[arg(long)]
    json: bool,

    /// Prints comma-separated values, a line for each engine, with all that the machine counted
    #[arg(long, conflicts_with_all = ["json", "list", "trace"])]
    csv: bool,
}

/// Operations of a transaction.
const LARGEST_TX: usize = 1_000_000;

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if arguments.list {
        return show::list(arguments.json);
    }
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
        if !(1..=LARGEST_TX).contains(&self.ops_per_tx()) {
            return Err(Failure::new(format!("--ops-per-tx must be 1 to {LARGEST_TX}")));
        }
        if self.over.is_some() && self.over().is_none() {
            return Err(Failure::new(format!(
                "{} has no records: leave out --over, or choose tpcc or ycsb-a to ycsb-f",
                self.workload
            )));
        }
        if self.input.is_some() && self.app().is_none() {
            return Err(Failure::new(format!(
                "{} has no inputs to choose from: leave out --input, or choose an application of STAMP",
                self.workload
            )));
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

    /// The baseline first, then what was asked for, each once.
    fn kinds(&self) -> Vec<EngineKind> {
        let able = |kind: &EngineKind| kind.rolls_back() || !self.rolls_back();
        let baseline = EngineKind::ALL.into_iter().find(able);
        let asked = |kind: &EngineKind| {
            Some(*kind) == baseline
                || self.engine.iter().any(|choice| match choice {
                    EngineChoice::All => true,
                    EngineChoice::One(one) => one == kind,
                })
        };
        EngineKind::ALL.into_iter().filter(able).filter(asked).collect()
    }

    /// Whether transactions of the workload are rolled back.
    fn rolls_back(&self) -> bool {
        self.workload == "tpcc"
    }

    fn is_ycsb(&self) -> bool {
        self.workload.starts_with("ycsb")
    }

    /// Where the records are, for the workloads that have them.
    fn over(&self) -> Option<Over> {
        let usual = match self.workload.as_str() {
            "tpcc" => Over::Store,
            _ if self.is_ycsb() => Over::Table,
            _ => return None,
        };
        Some(self.over.unwrap_or(usual))
    }

    fn warm_up(&self) -> u64 {
        self.warm_up.unwrap_or(self.ops)
    }

    /// What `--entries` and `--ops-per-tx` say.
    fn size(&self) -> MicroSize {
        MicroSize { entries: self.entries, ops_per_tx: self.ops_per_tx, input: self.input }
    }

    /// The application of STAMP that is run, if it is one.
    fn app(&self) -> Option<App> {
        Micro::named(&self.workload).and_then(Micro::app)
    }

    fn entries(&self) -> u64 {
        match Micro::named(&self.workload) {
            Some(micro) => micro.entries(self.size()),
            None if self.rolls_back() => self.entries.unwrap_or(self.cores as u64),
            None => self.entries.unwrap_or(10_000),
        }
    }

    fn ops_per_tx(&self) -> usize {
        let usual = |micro: Micro| micro.ops_per_tx(self.size());
        let ops = Micro::named(&self.workload).map_or(self.ops_per_tx.unwrap_or(1), usual);
        ops as usize
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
            epoch_us: self.epoch_us,
            window: self.window.transactions(),
            knobs: self.knobs,
            cuts: if engine.skips() { self.cuts } else { 0 },
            unflushed: false,
            emptied: false,
        }
    }

    fn run_on(&self, plan: &Plan, progress: &Progress) -> Outcome<Run> {
        if let Some(micro) = Micro::named(&self.workload) {
            return micro.run(self.size(), plan.cores, plan.seed, On { plan, progress });
        }
        let (entries, per_tx) = (self.entries(), self.ops_per_tx());
        if self.rolls_back() {
            return match self.over() {
                Some(Over::Store) => tpcc::<Served>(plan, entries, progress),
                Some(Over::Plain) => tpcc::<Plain>(plan, entries, progress),
                _ => Err(no_table()),
            };
        }
        let letter = named::letter(&self.workload).ok_or_else(|| {
            Failure::new(format!(
                "unknown workload '{}': it is one of {}, {}",
                self.workload,
                Micro::names(),
                named::DATABASES
            ))
        })?;
        let total = plan.operations.saturating_add(plan.warm_up);
        let records = entries.saturating_add(total);
        let bytes = records.saturating_mul(2 * Shape::default().record_bytes() as u64);
        let options = Options {
            operations_per_transaction: per_tx as u64,
            ..Options::new(letter, entries, total)
        };
        match self.over() {
            Some(Over::Store) => on(plan, &YcsbOver::<Served>::new(options)?, bytes, progress),
            Some(Over::Plain) => on(plan, &YcsbOver::<Plain>::new(options)?, bytes, progress),
            _ => on(plan, &Ycsb::new(options)?, bytes, progress),
        }
    }
}

/// What a workload is run by.
struct On<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
}

impl OnWorkload for On<'_> {
    type Output = Run;

    fn run<W: Workload>(self, workload: &W, bytes: u64) -> Outcome<Run> {
        on(self.plan, workload, bytes, self.progress)
    }
}

fn tpcc<R: Rooted>(plan: &Plan, warehouses: u64, progress: &Progress) -> Outcome<Run> {
    let warehouses = u32::try_from(warehouses).unwrap_or(u32::MAX);
    let size = Size { warehouses, rows: Rows::Small };
    size.validate()?;
    let bytes = size.bytes(plan.operations.saturating_add(plan.warm_up));
    on(plan, &size.make::<R>(plan.seed)?, bytes, progress)
}

fn on<W: Workload>(plan: &Plan, workload: &W, bytes: u64, progress: &Progress) -> Outcome<Run> {
    simulate::run(plan, workload, bytes, progress)
}
