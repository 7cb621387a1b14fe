//! Hardware transactional memory, best effort, as Intel's restricted transactional memory and the SESC simulator's are
//! (Fernando and others, "Persistence and Synchronization: Friends or Foes?", II-B and V): for the place for
//! transactions.
//!
//! What a core has stored to must stay in its nearest cache, and what it has read in the cache of a level
//! (`read_level`); a line that leaves is an abort for lack of capacity. Another core's access to a line that was stored
//! to, or its store to one that was read, is a conflict: whoever asks wins, and the other core's stores are undone
//! before the access goes on. The lines of programs' own memory are in the sets as the pool's are. Interrupts come to a
//! core by its own clock, at times drawn from the machine's seed. Nothing is durable by this: where caches are
//! persistent a commit is durable as a whole, where they are transient its lines are like any others.

mod sets;

use super::mutant::Mutant;
use super::{Accessed, Departure, DepartureReason, Design, Effect, How, Mechanism, Moments};
use crate::Ps;
use crate::hardware::Hardware;
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, HardwareAbort, HardwareTicket};
use serde::{Deserialize, Serialize};
use sets::{AccessSets, cores_of};
use std::ops::Range;

const READS: Mutant = Mutant { name: "reads", what: "lines that were read are in no set" };
const OWN: Mutant = Mutant { name: "own", what: "programs' own memory is in no set" };

/// Its mutants.
pub(super) const MUTANTS: &[Mutant] = &[READS, OWN];

/// The longest mean time between interrupts, ns.
const LONGEST_NS: f64 = 1e12;

/// Its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HtmConfig {
    /// Where they are from.
    pub source: String,
    /// The level of cache, counted from 1, that a line which was read must not leave: 1 as for lines that were stored
    /// to, more for hardware that remembers such lines elsewhere.
    pub read_level: usize,
    /// Cycles to begin.
    pub begin_cycles: u32,
    /// Cycles to commit, once all stores are in the nearest cache.
    pub commit_cycles: u32,
    /// Cycles from an abort until the program goes on.
    pub abort_cycles: u32,
    /// Mean time between two interrupts of a core, ns; 0 for none.
    #[serde(default)]
    pub interrupt_ns: f64,
}

impl Default for HtmConfig {
    fn default() -> Self {
        HtmConfig {
            source: "assumed".to_owned(),
            read_level: 1,
            begin_cycles: 10,
            commit_cycles: 10,
            abort_cycles: 100,
            interrupt_ns: 0.0,
        }
    }
}

/// The design.
#[derive(Clone, Debug)]
pub struct Htm {
    config: HtmConfig,
    left_out: Option<Mutant>,
}

impl Htm {
    /// With these figures, and perhaps as a mutant.
    ///
    /// # Errors
    /// A figure is none that hardware can have.
    pub fn new(config: HtmConfig, left_out: Option<&Mutant>) -> Result<Self, String> {
        if config.read_level == 0 {
            return Err("read_level must be at least 1".to_owned());
        }
        if !(0.0..=LONGEST_NS).contains(&config.interrupt_ns) {
            return Err("interrupt_ns must be from 0 to 1e12".to_owned());
        }
        Ok(Htm { config, left_out: left_out.copied() })
    }
}

impl Design for Htm {
    fn name(&self) -> &'static str {
        "htm"
    }

    fn build(&self, hardware: &mut Hardware, _: Range<u64>) -> Box<dyn Mechanism> {
        let cores = hardware.count();
        let seed = hardware.seed();
        // Each core's interrupts are its own, whatever the others do.
        let draws = (0..cores as u64).map(|core| SplitMix64::new(seed ^ (core + 1) << 32));
        Box::new(Transactional {
            design: self.clone(),
            sets: AccessSets::new(cores),
            running: 0,
            draws: draws.collect(),
            interrupts: vec![Ps::default(); cores],
            counts: Counts::default(),
        })
    }
}

/// How often each thing has happened.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun: u64,
    commits: u64,
    conflict: u64,
    capacity: u64,
    interrupt: u64,
    explicit: u64,
    unsupported: u64,
    refused: u64,
}

/// The mechanism.
struct Transactional {
    design: Htm,
    sets: AccessSets,
    /// The cores that speculate, as a mask.
    running: u64,
    draws: Vec<SplitMix64>,
    /// When each core's next interrupt comes.
    interrupts: Vec<Ps>,
    counts: Counts,
}

impl Transactional {
    fn leaves_out(&self, mutant: Mutant) -> bool {
        self.design.left_out == Some(mutant)
    }

    fn runs(&self, core: usize) -> bool {
        self.running >> core & 1 != 0
    }

    /// A core's speculation is over: its sets are empty.
    fn forget(&mut self, hardware: &mut Hardware, core: usize) {
        self.running &= !(1 << core);
        for line in self.sets.clear(core) {
            hardware.caches().unwatch(line);
        }
    }

    /// A core's speculation is lost.
    fn lose(&mut self, hardware: &mut Hardware, core: usize, why: HardwareAbort) {
        if hardware.lose(core, why) {
            self.is_lost(hardware, core, why);
        }
    }

    /// Loses a core's speculation if an interrupt has come since it began. Returns whether it has.
    fn interrupt(&mut self, hardware: &mut Hardware, core: usize) -> bool {
        let comes =
            self.design.config.interrupt_ns > 0.0 && hardware.now() >= self.interrupts[core];
        if comes {
            self.lose(hardware, core, HardwareAbort::Interrupt);
        }
        comes
    }

    /// Draws the time of a core's next interrupt after `now`: evenly from the times up to twice the mean later.
    fn draw_interrupt(&mut self, core: usize, now: Ps) {
        let mean = Ps::from_ns(self.design.config.interrupt_ns).0.max(1);
        while mean > 1 && self.interrupts[core] <= now {
            self.interrupts[core] += Ps(1 + self.draws[core].below(2 * mean));
        }
    }

    /// The core takes this long.
    fn charge(hardware: &mut Hardware, core: usize, cycles: u32) {
        let until = hardware.now() + hardware.cycles(cycles);
        hardware.wait_until(core, until);
    }

    /// Whether a core still has a line where its set needs it.
    fn has(&self, hardware: &mut Hardware, core: usize, line: u64) -> bool {
        let levels = hardware.config().caches.len();
        let level = match self.sets.users(line).writers >> core & 1 {
            1 => 1,
            _ => self.design.config.read_level.min(levels),
        };
        (0..level).any(|level| hardware.caches().contains(core, level, line))
    }
}

impl Mechanism for Transactional {
    fn moments(&self) -> Moments {
        let own = if self.leaves_out(OWN) { Moments::NONE } else { Moments::OWN };
        Moments::ACCESS | Moments::REQUEST | Moments::CACHES | own
    }

    fn speculates(&self) -> bool {
        true
    }

    fn speculate(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        if hardware.config().domain == Domain::Media {
            return Err(HardwareAbort::Absent);
        }
        self.counts.begun += 1;
        self.running |= 1 << core;
        hardware.hold_stores(core);
        Self::charge(hardware, core, self.design.config.begin_cycles);
        self.draw_interrupt(core, hardware.now());
        Ok(())
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        let Accessed { core, line, how, .. } = *access;
        let stores = matches!(how, How::Store | How::Exchange | How::Stream);
        let users = self.sets.users(line);
        let others = if stores { users.all() } else { users.writers } & !(1 << core);
        for loser in cores_of(others) {
            self.lose(hardware, loser, HardwareAbort::Conflict);
        }
        // A prefetch puts a line into no set.
        if self.runs(core) && how != How::Prefetch && !self.interrupt(hardware, core) {
            let left_out = !stores && self.leaves_out(READS);
            if !left_out && self.sets.add(core, line, stores) {
                hardware.caches().watch(line);
            }
        }
        Effect::Happens
    }

    /// A copy of a line that is in some set has left a cache, not because of another core's access: that is a conflict,
    /// and the line is in no set any more.
    fn departed(&mut self, hardware: &mut Hardware, departure: &Departure) {
        if departure.why == DepartureReason::MovedUp {
            return;
        }
        let Departure { line, core, level, .. } = *departure;
        let shared = hardware.config().caches[level].shared && hardware.count() > 1;
        let whose = if shared { u64::MAX } else { 1 << core };
        for core in cores_of(self.sets.users(line).all() & whose) {
            if !self.has(hardware, core, line) {
                self.lose(hardware, core, HardwareAbort::Capacity);
            }
        }
    }

    fn prepare(&mut self, hardware: &mut Hardware, core: usize) {
        let stored = hardware.stores_done(core);
        hardware.wait_until(core, stored);
        Self::charge(hardware, core, self.design.config.commit_cycles);
        self.interrupt(hardware, core);
    }

    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        self.counts.commits += 1;
        self.forget(hardware, core);
        Ok(HardwareTicket::DURABLE)
    }

    fn is_lost(&mut self, hardware: &mut Hardware, core: usize, why: HardwareAbort) {
        self.forget(hardware, core);
        let counts = &mut self.counts;
        *match why {
            HardwareAbort::Conflict => &mut counts.conflict,
            HardwareAbort::Capacity => &mut counts.capacity,
            HardwareAbort::Interrupt => &mut counts.interrupt,
            HardwareAbort::Explicit(_) => &mut counts.explicit,
            HardwareAbort::Unsupported => &mut counts.unsupported,
            _ => &mut counts.refused,
        } += 1;
    }

    fn ended(&mut self, hardware: &mut Hardware, core: usize) {
        Self::charge(hardware, core, self.design.config.abort_cycles);
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let Counts { begun, commits, conflict, capacity, .. } = self.counts;
        let Counts { interrupt, explicit, unsupported, refused, .. } = self.counts;
        vec![
            ("speculations", begun),
            ("commits", commits),
            ("aborts_conflict", conflict),
            ("aborts_capacity", capacity),
            ("aborts_interrupt", interrupt),
            ("aborts_explicit", explicit),
            ("aborts_unsupported", unsupported),
            ("aborts_refused", refused),
        ]
    }
}
