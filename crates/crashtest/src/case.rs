//! One case: everything that determines a run, and so is needed to replay it.

use crate::{Answers, Place};
use perdura_machine::cache::Policy;
use perdura_machine::mechanism::list;
use perdura_machine::{CallSite, Design, Event, MachineConfig, Plain, Ps, Schedule, presets};
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the pool under test.
pub const BYTES: u64 = 288 << 10;

/// Operations of each core, in most cases.
const SHORT: usize = 10;
/// Operations of each core, in a long life.
const LONG: usize = 60;

/// The initial state of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// A pool with the structure in it, closed.
    #[default]
    Closed,
    /// Nothing: the run creates the pool.
    New,
    /// A pool with the structure in it, closed by the other logging engine.
    Switched,
    /// A pool that this engine has used, and another one after it: the first one's log records are still
    /// there, behind the part that the second used.
    SwitchedBack,
}

/// All of them.
pub const STARTS: [Start; 4] = [Start::Closed, Start::New, Start::Switched, Start::SwitchedBack];

/// After which events the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// After every one.
    All,
    /// After about this many, chosen by the seed.
    Random(u64),
    /// After the last one, when the pool has been closed: it must hold what all transactions have made of it.
    Last,
    /// After this one: a replay.
    One(u64),
    /// At this one image: a replay, with a mechanism in hardware.
    At(Place),
}

impl Points {
    /// Whether it is a replay.
    pub fn is_replay(&self) -> bool {
        matches!(self, Points::One(_) | Points::At(_))
    }

    /// Whether the power is cut after an event, in a run with this many events and these call sites. Half of the
    /// randomly chosen crash points are spread evenly over events, half over call sites: fences are rare compared with
    /// stores, and matter more.
    pub(crate) fn chosen(
        self,
        met: BTreeMap<CallSite, u64>,
        events: u64,
        seed: u64,
    ) -> impl Fn(&Event) -> bool {
        move |event| match self {
            Points::All => true,
            Points::Last => event.number == events,
            Points::One(one) => event.number == one,
            Points::At(place) => place.is_at(event),
            Points::Random(count) => {
                let site = CallSite::of(event.kind, event.site);
                let there = met.get(&site).copied().unwrap_or(1) * met.len() as u64;
                let number = event.number ^ u64::from(event.arrival) << 40;
                let chance = mix(seed ^ 0x706f_696e_7473, number) % (2 * events * there);
                chance < count * (there + events)
            }
        }
    }
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The machine; its domain, policies and number of cores are replaced.
    pub machine: MachineConfig,
    /// Replaces the policies of all its caches.
    pub policy: Policy,
    /// The persistence domain.
    pub domain: Domain,
    /// Cores.
    pub cores: usize,
    /// How cores take turns.
    pub schedule: Schedule,
    /// The root of everything random.
    pub seed: u64,
    /// Operations of each core.
    pub operations: usize,
    /// If given, only these operations, as core and number, are carried out: a shrunk case.
    pub keep: Option<BTreeSet<(usize, usize)>>,
    /// The initial state.
    pub start: Start,
    /// The crash points.
    pub points: Points,
    /// Which transactions are waited for, and other events; if not given, drawn by the seed.
    pub answers: Option<Answers>,
    /// The request that is left out, to test the tester.
    pub omit: Option<Event>,
    /// Likewise, the mutant of a mechanism in hardware.
    pub mutant: Option<String>,
    /// The length of such a mechanism's epochs.
    pub epoch: Option<Ps>,
    /// The name of the machine's mechanism for transactions, if it has one: engines speculate by it.
    pub transactions: Option<String>,
}

impl Default for Case {
    /// A small case on a machine with tiny caches, which evict lines all the time.
    fn default() -> Self {
        Case::new(presets::load("tiny").expect("a preset"), 1)
    }
}

impl Case {
    /// A case on this machine.
    pub fn new(machine: MachineConfig, seed: u64) -> Self {
        let policy = machine.caches[0].policy;
        Case {
            policy,
            domain: machine.domain,
            cores: 1,
            schedule: Schedule::Seeded { every: 6 },
            seed,
            operations: SHORT,
            keep: None,
            start: Start::Closed,
            points: Points::Random(100),
            answers: None,
            omit: None,
            mutant: None,
            epoch: None,
            transactions: None,
            machine,
        }
    }

    /// The machine, configured for this case.
    pub(crate) fn config(&self) -> MachineConfig {
        let mut config = self.machine.clone();
        config.domain = self.domain;
        config.cores.count = self.cores;
        config.caches.iter_mut().for_each(|level| level.policy = self.policy);
        config
    }

    /// The machine's mechanism for transactions, in the life with this seed: without interrupts, with those of the
    /// machine's file, or with ten times as many.
    pub(crate) fn speculation(&self, seed: u64) -> Result<Box<dyn Design>, String> {
        let Some(name) = &self.transactions else { return Ok(Box::new(Plain)) };
        let figure = self.machine.mechanism.get(name).and_then(|own| own.get("interrupt_ns"));
        let mut machine = self.machine.with_cores(self.cores);
        if let Some(mean_ns) = figure.and_then(|value| value.as_float()) {
            let drawn = SplitMix64::new(seed ^ 0x6972_7173).below(3);
            let mean_ns = [0.0, mean_ns, mean_ns / 10.0][drawn as usize];
            let path = format!("mechanism.{name}.interrupt_ns");
            let changed = machine.with(&path, &mean_ns.to_string());
            machine = changed.map_err(|error| error.to_string())?;
        }
        let design = list::speculating(name, &machine, self.mutant.as_deref());
        let design = design.map_err(|error| error.to_string())?;
        if self.domain != Domain::Transient && design.reserves_for_each_core() > 0 {
            return Err(format!(
                "the mechanism '{name}' needs transient caches: where they are persistent, 'htm' is durable"
            ));
        }
        Ok(design)
    }

    /// Which transactions are waited for, on an engine that makes groups or one that does not.
    pub(crate) fn answers(&self, groups: bool) -> Answers {
        self.answers.unwrap_or_else(|| Answers::draw(self.seed, groups))
    }

    /// Whether this operation is carried out.
    pub(crate) fn keeps(&self, core: usize, index: usize) -> bool {
        self.keep.as_ref().is_none_or(|keep| keep.contains(&(core, index)))
    }
}

/// How much of a case is explored.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The maximum number of images of each crash point that are checked.
    pub images: u64,
    /// One in this many images is lived on, and cut again; 0: none.
    pub again_every: u64,
    /// Crash points of a life after recovery, and images of each.
    pub again: (u64, u64),
    /// How many lives follow one another.
    pub depth: usize,
    /// At one in this many crash points the process dies, too: another one opens the pool, and goes on until its power
    /// is cut; 0: none.
    pub deaths_every: u64,
    /// Also checks pruned images, whose results must agree.
    #[doc(hidden)]
    pub check_pruning: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            images: 24,
            again_every: 40,
            again: (24, 3),
            depth: 2,
            deaths_every: 12,
            check_pruning: false,
        }
    }
}

/// The default number of operations of each core in a case with this seed: mostly few; resources run out only in longer
/// lives, which are more frequent for engines that skip write-backs.
pub fn usual_operations(seed: u64, skips: bool) -> usize {
    let one_in = if skips { 3 } else { 8 };
    let drawn = SplitMix64::new(seed ^ 0x6c6f_6e67).below(one_in);
    if drawn == 0 { LONG } else { SHORT }
}

/// Accesses in a core's turn: states between two steps that should be one are seen only in short turns, and those that
/// take a core long only in long ones.
const TURNS: [u32; 4] = [6, 1, 6, 2];

/// The default schedule of a case with this seed.
pub fn usual_schedule(seed: u64) -> Schedule {
    let drawn = SplitMix64::new(seed ^ 0x7475_726e_7321).below(TURNS.len() as u64);
    Schedule::Seeded { every: TURNS[drawn as usize] }
}

/// A start's name on a command line.
pub fn start_name(start: Start) -> &'static str {
    match start {
        Start::Closed => "closed",
        Start::New => "new",
        Start::Switched => "switched",
        Start::SwitchedBack => "switched-back",
    }
}

/// A schedule's name on a command line.
pub fn schedule_name(schedule: Schedule) -> String {
    match schedule {
        Schedule::Clock => "clock".to_owned(),
        Schedule::Seeded { every } => format!("{every}"),
    }
}

/// A random number that two numbers determine.
pub(crate) fn mix(left: u64, right: u64) -> u64 {
    SplitMix64::new(left.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ right).next()
}
