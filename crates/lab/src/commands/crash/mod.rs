//! `perdura-lab crash`: cuts the power of a simulated machine at every event, and checks the images.

mod choice;
mod explore;
mod mechanisms;
mod mutants;
mod show;
mod table3;

use crate::failure::{Failure, Outcome};
use crate::quantity;
use crate::simulate::TransactionsChoice;
pub(super) use choice::several;
use choice::{Cases, PointsChoice};
pub(super) use explore::quietly;
use perdura_crashtest::{Answers, Budget, Points, STARTS, mechanisms as hardware};
use perdura_machine::MachineConfig;
use perdura_memory::Domain;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(long, help = crate::engines::help(), value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    engine: Vec<String>,

    /// Tests mechanisms in hardware, on the images of the machine itself, with what each promises; several with commas;
    /// `perdura-lab list mechanisms` names them. The engine under the structures is then plain, where operations abort volatile,
    /// unless one is named
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    mechanism: Vec<String>,

    #[arg(long, help = format!(
        "A mechanism of the machine for transactions in hardware, by which the engines htm-* run theirs: {}; the default \
         machine is tiny-htm then", TransactionsChoice::names()
    ), value_name = "NAME", conflicts_with = "mechanism")]
    transactions: Option<TransactionsChoice>,

    /// Leaves out what this mutant of the mechanism leaves out
    #[arg(long, value_name = "NAME", requires = "mechanism")]
    mutant: Option<String>,

    /// Lengths of the mechanism's epochs, microseconds; several, which take turns, with commas; default: 2,10,100
    #[arg(
        long,
        alias = "epoch",
        value_name = "NUMBERS",
        requires = "mechanism",
        value_delimiter = ','
    )]
    epoch_us: Vec<u64>,

    /// Tests each cell of Table III of Persistence and Synchronization, on --images images (default: 2,000), with one and
    /// with four cores: unsafe pairs must be caught
    #[arg(long, conflicts_with_all = ["mechanism", "transactions", "mutants"])]
    table3: bool,

    /// Tests engines that promise nothing for a power cut, too: their pools are opened all the same, and the test must fail
    #[arg(long, conflicts_with = "mechanism")]
    r#unsafe: bool,

    #[arg(long, help = choice::structures(), value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    workload: Vec<String>,

    /// The simulated machine: a preset's name, or a TOML file. With small caches, lines leave
    /// them all the time. For mechanisms several, which take turns, with commas; default: tiny, with --transactions
    /// tiny-htm, for mechanisms tiny,tiny-dram
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    machine: Vec<String>,

    #[arg(long, help = choice::known_policies(), value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    policy: Vec<String>,

    /// Where durability begins: transient, persistent, media (a file: processes die before the
    /// power is cut, and syncs fail), or all
    #[arg(long, value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    domain: Vec<String>,

    /// Cores, 1 to 4; several numbers with commas; default: 1,3, for mechanisms 1,2,3,4
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    cores: Vec<usize>,

    /// Which core runs next: `clock`, or a random one, with this many accesses in a turn; default:
    /// drawn by the seed, 1, 2 or 6; for mechanisms clock and 6
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<choice::ScheduleChoice>,

    /// Operations of each core; default: drawn by the seed, 10 or seldom 60; fewer where the
    /// workload's pool has no room for them
    #[arg(long, alias = "ops", value_name = "NUMBER")]
    operations: Option<usize>,

    /// Which transactions are waited for, 1/8 for a random one of eight, and what else happens:
    /// 1/8,checkpoints=8,reads=4 for a checkpoint after one operation of eight, and a transaction
    /// that reads everything before one of four; also, for engines with these settings, background flushes (tends)
    /// and tuning: 1/8,tends=4,lines=2,bytes=256,within=2000; default: drawn by the seed
    #[arg(long, value_name = "ANSWERS")]
    answers: Option<Answers>,

    /// The initial state of a run: closed (a pool with the structure in it), new (nothing), switched
    /// (a pool of another engine), switched-back (used by this one before that), or all; for mechanisms all
    /// is closed,new
    #[arg(long, value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    start: Vec<String>,

    /// After which events of a run the power is cut: `all`, `random` (about 100, or
    /// `random:NUMBER`), or the number of one event; for mechanisms one image, as a failure prints it
    #[arg(long, value_name = "POINTS", default_value = "random")]
    points: PointsChoice,

    /// Images of each crash point that are checked, at most; default: 24, for mechanisms 3 (recovery whole, cut, and
    /// cut twice)
    #[arg(long, value_name = "NUMBER")]
    each: Option<u64>,

    /// Brief lives with other seeds after each case of several cores, cut at two points for one
    /// image each: what depends on how cores meet is found by many lives; not for mechanisms
    #[arg(long, value_name = "NUMBER", default_value_t = 12)]
    brief: u64,

    /// At one of this many crash points the process dies, too, and another one opens the pool and goes on
    /// until its power is cut (transient, media); 0: none
    #[arg(long, value_name = "NUMBER", default_value_t = Budget::default().deaths_every)]
    deaths_every: u64,

    /// Images to check, over the combinations in turn, with more and more seeds; default: each combination once, but
    /// of the policies, which take turns; 0: each combination with each policy once; for --mutants of mechanisms,
    /// images to check of each mutant at most, default 50k
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    images: Option<u64>,

    /// The first seed: everything random follows from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Only these operations, as CORE.NUMBER, with commas: a shrunk failure
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',')]
    keep: Vec<choice::Kept>,

    /// Leaves out the write-backs, streams or fences of one call site, as `--mutants` names it; with `--mutants`, only
    /// that one is left out
    #[arg(long, value_name = "SITE")]
    omit: Option<String>,

    /// Tests the tester: leaves out each write-back, stream and fence in turn; of mechanisms what they list
    /// as their mutants, each on --images at most
    #[arg(long)]
    mutants: bool,

    /// How often each case is tried, with another seed each time, for `--mutants`
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    seeds: u64,

    /// Prints coverage by call site
    #[arg(long)]
    coverage: bool,

    /// Shows a failure as it was found
    #[arg(long)]
    no_shrink: bool,

    /// Threads; default: one for each processor
    #[arg(long, value_name = "NUMBER")]
    threads: Option<usize>,

    /// Plants a bug, in a build with the feature `planted`
    #[arg(long, value_name = "NAME", hide = true)]
    planted: Option<String>,

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if let Some(bug) = &arguments.planted {
        perdura_engine::planted::plant(bug).map_err(Failure::new)?;
    }
    let threads = arguments.threads()?;
    if arguments.table3 {
        return table3::run(arguments, threads);
    }
    let mechanisms = !arguments.mechanism.is_empty();
    let cases = if mechanisms { arguments.mechanism_cases()? } else { arguments.cases()? };
    if arguments.mutants && mechanisms {
        return mechanisms::mutants(arguments, &cases, threads);
    }
    if arguments.mutants {
        return mutants::run(arguments, &cases, threads);
    }
    explore::run(arguments, cases, threads)
}

/// Sessions for which the log of a test pool has room.
const MOST_CORES: u64 = 4;
const MOST_THREADS: u64 = 1024;
/// More operations than this would fill the pool.
const MOST_OPERATIONS: u64 = 10_000;
/// Images of a crash point, and seeds: practically unlimited.
const MOST: u64 = 1_000_000;

fn within(option: &str, number: u64, most: u64) -> Outcome {
    match number {
        1.. if number <= most => Ok(()),
        _ => Err(Failure::new(format!("{option} must be 1 to {most}"))),
    }
}

impl Arguments {
    fn threads(&self) -> Outcome<usize> {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(all);
        within("--threads", threads as u64, MOST_THREADS)?;
        Ok(threads)
    }

    fn budget(&self) -> Budget {
        let on_engines = self.mechanism.is_empty();
        let usual = if on_engines { Budget::default() } else { hardware::budget() };
        let images = self.each.unwrap_or(usual.images);
        Budget { images, deaths_every: self.deaths_every, ..usual }
    }

    /// Brief lives after each case: none where one case is shown again.
    fn brief(&self) -> u64 {
        let repeats = !matches!(self.points.0, Points::Random(_)) || !self.keep.is_empty();
        if repeats || !self.mechanism.is_empty() { 0 } else { self.brief }
    }

    /// Every combination of the options.
    fn cases(&self) -> Outcome<Cases> {
        let usual = if self.transactions.is_some() { "tiny-htm" } else { "tiny" };
        let mut machines = self.machines(&[usual])?;
        let (Some(machine), true) = (machines.pop(), machines.is_empty()) else {
            return Err(Failure::new("several machines are for --mechanism: choose one"));
        };
        let starts = several(&self.start, "start", &STARTS, |start| {
            perdura_crashtest::case::start_name(*start)
        })?;
        let domains = [Domain::Transient, Domain::Persistent, Domain::Media];
        let mut domains = several(&self.domain, "domain", &domains, Domain::to_string)?;
        if let Some(transactions) = self.transactions
            && self.domain == ["all"]
            && transactions.design(&machine, machine.cores.count)?.reserves_for_each_core() > 0
        {
            // Hardware with a log of its own is for these caches.
            domains.retain(|domain| *domain == Domain::Transient);
        }
        self.check_numbers(&self.cores(&[1, 3]))?;
        Cases::new(self, machine, &starts, &domains)
    }

    /// The machines that are named, or else the defaults.
    fn machines(&self, usual: &[&str]) -> Outcome<Vec<MachineConfig>> {
        let named = self.machine.iter().map(String::as_str);
        let names = if self.machine.is_empty() { usual.to_vec() } else { named.collect() };
        let load = |name: &str| {
            let loaded = perdura_machine::presets::load(name);
            let mut machine = loaded.map_err(|error| Failure::new(error.to_string()))?;
            // The command that repeats a failure names a file by its path.
            name.clone_into(&mut machine.name);
            Ok(machine)
        };
        names.into_iter().map(load).collect()
    }

    /// The numbers of cores that are named, or else the defaults.
    fn cores(&self, usual: &[usize]) -> Vec<usize> {
        if self.cores.is_empty() { usual.to_vec() } else { self.cores.clone() }
    }

    /// Fails if a number is impossible for a case.
    fn check_numbers(&self, cores: &[usize]) -> Outcome {
        for cores in cores {
            within("--cores", *cores as u64, MOST_CORES)?;
        }
        let operations = self.operations.unwrap_or(MOST_OPERATIONS as usize);
        within("--operations", operations as u64, MOST_OPERATIONS)?;
        within("--each", self.each.unwrap_or(1), MOST)?;
        within("--seeds", self.seeds, MOST)?;
        match self.points.0 {
            Points::All | Points::Last => {}
            Points::One(event) => within("--points", event, u64::MAX)?,
            Points::At(_) if self.mechanism.is_empty() => {
                return Err(Failure::new("--points EVENT.ARRIVAL is for --mechanism"));
            }
            Points::At(_) => {}
            Points::Random(count) => within("--points random", count, MOST)?,
        }
        let cores = cores.iter().copied().max().unwrap_or(0);
        if let Some(kept) = self.keep.iter().find(|kept| !kept.is_among(cores, operations)) {
            return Err(Failure::new(format!(
                "--keep {kept}: there are {} cores with {} operations, both counted from 0",
                cores, operations
            )));
        }
        Ok(())
    }
}
