//! One case: everything that decides what a run does, and so what is replayed.

use crate::explore::mix;
use crate::{Answers, Place};
use perdura_machine::cache::Policy;
use perdura_machine::{CallSite, Event, MachineConfig, Ps, Schedule, presets};
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the pool that is cut.
pub const BYTES: u64 = 288 << 10;

/// Operations of each core, mostly.
const SHORT: usize = 10;
/// And in a long life.
const LONG: usize = 60;

/// What the run begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// A pool with the structure in it, closed.
    #[default]
    Closed,
    /// Nothing: the pool is made.
    New,
    /// A pool with the structure in it, closed by the other logging engine.
    Switched,
    /// A pool that this engine has used, and another one after it: what the first has left in the
    /// log's area is there still, behind what the second needed of it.
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
    /// After this one: a replay.
    One(u64),
    /// This one image: a replay, with a mechanism in hardware.
    At(Place),
}

impl Points {
    /// Whether it is a replay.
    pub fn is_replay(&self) -> bool {
        matches!(self, Points::One(_) | Points::At(_))
    }

    /// Whether the power is cut after an event, of a run with so many events and these call sites. Half
    /// of the cuts that chance chooses are shared evenly among events, half among call sites: a
    /// fence is rare beside stores, and matters more.
    pub(crate) fn chosen(
        self,
        met: BTreeMap<CallSite, u64>,
        events: u64,
        seed: u64,
    ) -> impl Fn(&Event) -> bool {
        move |event| match self {
            Points::All => true,
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
    /// Where durability begins.
    pub domain: Domain,
    /// Cores.
    pub cores: usize,
    /// Whose turn it is.
    pub schedule: Schedule,
    /// The root of everything random.
    pub seed: u64,
    /// Operations of each core.
    pub operations: usize,
    /// Only these operations, as core and number, if given: a shrunk case.
    pub keep: Option<BTreeSet<(usize, usize)>>,
    /// What the run begins with.
    pub start: Start,
    /// Where the power is cut.
    pub points: Points,
    /// Which transactions are waited for, and what goes on beside them; if not given, drawn by the
    /// seed.
    pub answers: Option<Answers>,
    /// What is left out, to test the tester.
    pub omit: Option<Event>,
    /// The same of a mechanism in hardware: which of its mutants it is.
    pub mutant: Option<String>,
    /// How long such a mechanism's epochs are.
    pub epoch: Option<Ps>,
}

impl Default for Case {
    /// A small case on a machine with tiny caches, from which lines are lost all the time.
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
            machine,
        }
    }

    /// The machine as this case wants it.
    pub(crate) fn config(&self) -> MachineConfig {
        let mut config = self.machine.clone();
        config.domain = self.domain;
        config.cores.count = self.cores;
        config.caches.iter_mut().for_each(|level| level.policy = self.policy);
        config
    }

    /// Which transactions are waited for on an engine that makes groups, or does not.
    pub(crate) fn answers(&self, groups: bool) -> Answers {
        self.answers.unwrap_or_else(|| Answers::draw(self.seed, groups))
    }

    /// Whether this operation is carried out.
    pub(crate) fn keeps(&self, core: usize, index: usize) -> bool {
        self.keep.as_ref().is_none_or(|keep| keep.contains(&(core, index)))
    }
}

/// Operations of each core in a case with this seed, where nothing else is asked for: mostly few;
/// what runs out does so in longer lives, and these are more where an engine skips write-backs.
pub fn usual_operations(seed: u64, skips: bool) -> usize {
    let one_in = if skips { 3 } else { 8 };
    let drawn = SplitMix64::new(seed ^ 0x6c6f_6e67).below(one_in);
    if drawn == 0 { LONG } else { SHORT }
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
