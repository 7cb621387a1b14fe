//! One case: everything that decides what a run does, and so what is replayed.

use crate::Answers;
use perdura_machine::cache::Policy;
use perdura_machine::{Event, MachineConfig, Schedule, presets};
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use std::collections::BTreeSet;

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
