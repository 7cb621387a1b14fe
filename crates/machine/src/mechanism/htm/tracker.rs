//! What all hardware for speculations does here, whether it makes them durable or not: read and write sets, conflicts,
//! capacity, interrupts, and the counts of what has happened.
//!
//! What always holds: a line is watched in the caches as long as it is in some set; a core that does not run a
//! speculation has empty sets.

use super::config::{HtmConfig, OWN, READS};
use super::sets::{AccessSets, cores_of};
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::{Accessed, Departure, DepartureReason, How, Moments, Mutant};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, HardwareAbort};

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
    no_log_space: u64,
    refused: u64,
}

/// The speculations of all cores.
pub(in crate::mechanism) struct Tracker {
    config: HtmConfig,
    left_out: Option<Mutant>,
    sets: AccessSets,
    /// The cores that speculate, as a mask.
    running: u64,
    draws: Vec<SplitMix64>,
    /// When each core's next interrupt comes.
    interrupts: Vec<Ps>,
    counts: Counts,
}

impl Tracker {
    pub(in crate::mechanism) fn new(
        config: HtmConfig,
        left_out: Option<Mutant>,
        hardware: &Hardware,
    ) -> Self {
        let (cores, seed) = (hardware.count(), hardware.seed());
        // Each core's interrupts are its own, whatever the others do.
        let draws = (0..cores as u64).map(|core| SplitMix64::new(seed ^ (core + 1) << 32));
        Tracker {
            config,
            left_out,
            sets: AccessSets::new(cores),
            running: 0,
            draws: draws.collect(),
            interrupts: vec![Ps::default(); cores],
            counts: Counts::default(),
        }
    }

    /// Whether this is the mutant that leaves `mutant` out.
    pub(in crate::mechanism) fn leaves_out(&self, mutant: Mutant) -> bool {
        self.left_out == Some(mutant)
    }

    /// Whether a core runs a speculation.
    pub(in crate::mechanism) fn runs(&self, core: usize) -> bool {
        self.running >> core & 1 != 0
    }

    /// The lines of a core's sets, each with whether the core has stored to it.
    pub(in crate::mechanism) fn lines(&self, core: usize) -> impl Iterator<Item = (u64, bool)> {
        let stored = move |line: &u64| self.sets.users(*line).writers >> core & 1 != 0;
        self.sets.lines(core).iter().map(move |line| (*line, stored(line)))
    }

    /// A core's speculation is over: its sets are empty.
    fn forget(&mut self, hardware: &mut Hardware, core: usize) {
        self.running &= !(1 << core);
        for line in self.sets.clear(core) {
            hardware.caches().unwatch(line);
        }
    }

    /// A core's speculation is lost.
    pub(in crate::mechanism) fn lose(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
        why: HardwareAbort,
    ) {
        if hardware.lose(core, why) {
            self.is_lost(hardware, core, why);
        }
    }

    /// Loses a core's speculation if an interrupt has come since it began. Returns whether it has.
    fn interrupt(&mut self, hardware: &mut Hardware, core: usize) -> bool {
        let comes = self.config.interrupt_ns > 0.0 && hardware.now() >= self.interrupts[core];
        if comes {
            self.lose(hardware, core, HardwareAbort::Interrupt);
        }
        comes
    }

    /// Draws the time of a core's next interrupt after `now`: evenly from the times up to twice the mean later.
    fn draw_interrupt(&mut self, core: usize, now: Ps) {
        let mean = Ps::from_ns(self.config.interrupt_ns).0.max(1);
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
            _ => self.config.read_level.min(levels),
        };
        (0..level).any(|level| hardware.caches().contains(core, level, line))
    }

    /// The moments at which the tracker is called.
    pub(in crate::mechanism) fn moments(&self) -> Moments {
        let own = if self.leaves_out(OWN) { Moments::NONE } else { Moments::OWN };
        Moments::ACCESS | Moments::REQUEST | Moments::CACHES | own
    }

    /// [`Mechanism::speculate`](crate::Mechanism::speculate).
    pub(in crate::mechanism) fn speculate(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<(), HardwareAbort> {
        if hardware.config().domain == Domain::Media {
            return Err(HardwareAbort::Absent);
        }
        self.counts.begun += 1;
        self.running |= 1 << core;
        hardware.hold_stores(core);
        Self::charge(hardware, core, self.config.begin_cycles);
        self.draw_interrupt(core, hardware.now());
        Ok(())
    }

    /// [`Mechanism::accessed`](crate::Mechanism::accessed): cores whose sets the access conflicts with lose.
    pub(in crate::mechanism) fn accessed(
        &mut self,
        hardware: &mut Hardware,
        access: &Accessed<'_>,
    ) {
        let Accessed { core, line, how, .. } = *access;
        let stores = stores(how);
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
    }

    /// [`Mechanism::departed`](crate::Mechanism::departed). A copy of a line that is in some set has left a cache, not
    /// because of another core's access: that is a conflict, and the line is in no set any more.
    pub(in crate::mechanism) fn departed(
        &mut self,
        hardware: &mut Hardware,
        departure: &Departure,
    ) {
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

    /// An interrupt that has come by now makes the core lose.
    pub(in crate::mechanism) fn prepare(&mut self, hardware: &mut Hardware, core: usize) {
        self.interrupt(hardware, core);
    }

    /// The core takes the time of a commit.
    pub(in crate::mechanism) fn charge_commit(&self, hardware: &mut Hardware, core: usize) {
        Self::charge(hardware, core, self.config.commit_cycles);
    }

    /// A core's speculation has committed.
    pub(in crate::mechanism) fn commit(&mut self, hardware: &mut Hardware, core: usize) {
        self.counts.commits += 1;
        self.forget(hardware, core);
    }

    /// [`Mechanism::is_lost`](crate::Mechanism::is_lost).
    pub(in crate::mechanism) fn is_lost(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
        why: HardwareAbort,
    ) {
        self.forget(hardware, core);
        let counts = &mut self.counts;
        *match why {
            HardwareAbort::Conflict => &mut counts.conflict,
            HardwareAbort::Capacity => &mut counts.capacity,
            HardwareAbort::Interrupt => &mut counts.interrupt,
            HardwareAbort::Explicit(_) => &mut counts.explicit,
            HardwareAbort::Unsupported => &mut counts.unsupported,
            HardwareAbort::NoLogSpace => &mut counts.no_log_space,
            _ => &mut counts.refused,
        } += 1;
    }

    /// [`Mechanism::ended`](crate::Mechanism::ended).
    pub(in crate::mechanism) fn ended(&mut self, hardware: &mut Hardware, core: usize) {
        Self::charge(hardware, core, self.config.abort_cycles);
    }

    /// [`Mechanism::start_measuring`](crate::Mechanism::start_measuring).
    pub(in crate::mechanism) fn start_measuring(&mut self) {
        self.counts = Counts::default();
    }

    /// Speculations that have begun, then those that have ended in each way. Losses for lack of room in a log are left
    /// to the mechanism that has one.
    pub(in crate::mechanism) fn figures(&self) -> Vec<(&'static str, u64)> {
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

    /// Losses for lack of room in a log.
    pub(in crate::mechanism) fn without_log_space(&self) -> u64 {
        self.counts.no_log_space
    }
}

/// Whether an access counts as a store: an exchange that fails does, as a locked instruction.
pub(in crate::mechanism) fn stores(how: How) -> bool {
    matches!(how, How::Store | How::Exchange | How::Stream)
}
