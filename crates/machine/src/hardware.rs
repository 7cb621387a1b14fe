//! Caches, controller, data and clocks together: what an access does and when it is over.
//!
//! This file has what cores and caches do; `beyond` what happens beyond the caches, `asking` how mechanisms are
//! called and what they can do, `agenda` what happens without any access, `own` programs' own memory, `transacting`
//! programs' transactions, `speculating` those that the hardware may give up.

mod agenda;
mod asking;
mod beyond;
mod dram;
mod own;
mod speculating;
mod transacting;

use crate::arrivals::Arrivals;
use crate::cache::{Access, Hierarchy, Outcome};
use crate::controller::Controller;
use crate::data::Data;
use crate::finishes::Finishes;
use crate::mechanism::{How, Moments};
use crate::processor::{CoreStats, Processor, Words};
use crate::stats::{CheckpointStats, Statistics, WriteBacks};
use crate::{Cause, MachineConfig, Ps};
pub(crate) use agenda::Agenda;
pub(crate) use asking::Mechanisms;
pub(crate) use own::OwnMemory;
use perdura_memory::Domain;
use speculating::Speculations;

/// The machine without its programs.
pub struct Hardware {
    pub(crate) config: MachineConfig,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) controller: Controller,
    /// The cores that programs run on, and one for background work.
    pub(crate) cores: Vec<Processor>,
    count: usize,
    pub(crate) data: Data,
    pub(crate) write_backs: WriteBacks,
    checkpoints: CheckpointStats,
    /// An epoch is ending.
    checkpointing: bool,
    /// The core that flushes waits for the end of the epoch.
    awaits_epoch: bool,
    pub(crate) own: OwnMemory,
    speculations: Speculations,
    pub(crate) mechanisms: Mechanisms,
    pub(crate) agenda: Agenda,
    /// Dirty lines that a mechanism has pushed out of the caches.
    pushed_out: Vec<u64>,
    /// Where the lines of the block being fetched are.
    places: Vec<u64>,
    /// Lines being fetched by a core that does not wait, or that other cores may access meanwhile.
    arrivals: Arrivals,
    cycle: Ps,
    /// The core that is accessing.
    core: usize,
    limit_lines: u64,
    /// Dirty lines that an access evicts from the caches.
    evicted: Vec<u64>,
    /// Eviction buffers: lines that have left the last cache, until the controller has them.
    leaving: Finishes,
    measured_from: Ps,
    seed: u64,
}

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoundIn {
    /// In the nearest cache, or in the store buffer.
    Nearest,
    /// In another cache.
    Caches,
    /// On its way to the nearest cache.
    Late,
    /// In no cache.
    Memory,
}

impl Hardware {
    pub(crate) fn new(
        config: MachineConfig,
        cores: usize,
        data: Data,
        mechanisms: Mechanisms,
        (limit_lines, epoch): (u64, Option<Ps>),
        seed: u64,
    ) -> Self {
        let transfer = config.cores.transfer_cycles;
        let mut controller = Controller::new(&config.memory);
        controller.reserve_dram(mechanisms.reserved_dram());
        let home_lines = limit_lines + mechanisms.reserved();
        Hardware {
            hierarchy: Hierarchy::new(&config.caches, cores, transfer, seed)
                .forwards_clean(config.cores.forwards_clean),
            controller,
            count: cores,
            cores: vec![Processor::default(); cores + 1],
            data,
            write_backs: WriteBacks::default(),
            checkpoints: CheckpointStats::default(),
            checkpointing: false,
            awaits_epoch: false,
            own: OwnMemory::new(home_lines, config.memory.volatile.is_some()),
            speculations: Speculations::default(),
            mechanisms,
            agenda: Agenda::new(epoch),
            pushed_out: Vec::new(),
            places: Vec::new(),
            arrivals: Arrivals::default(),
            cycle: Ps::from_ns(1.0 / config.cores.ghz),
            core: 0,
            limit_lines,
            evicted: Vec::new(),
            leaving: Finishes::default(),
            measured_from: Ps::default(),
            seed,
            config,
        }
    }

    /// Resets the statistics; all cores go on from the latest clock.
    pub(crate) fn start_measuring(&mut self) {
        let latest = self.latest();
        for core in &mut self.cores {
            core.clock = latest;
            core.stats = CoreStats::default();
        }
        self.measured_from = latest;
        self.write_backs = WriteBacks::default();
        self.checkpoints = CheckpointStats::default();
        self.mechanisms.start_measuring();
        self.hierarchy.reset_stats();
        self.controller.reset_stats();
    }

    /// The cores that programs run on.
    fn at_work(&self) -> &[Processor] {
        &self.cores[..self.count]
    }

    /// The latest of the cores' clocks.
    pub(crate) fn latest(&self) -> Ps {
        self.at_work().iter().map(|core| core.clock).max().unwrap_or_default()
    }

    /// The statistics since the last [`start_measuring`](Self::start_measuring).
    pub(crate) fn statistics(&self, seed: u64) -> Statistics {
        let time = |core: &Processor| core.clock.since(self.measured_from);
        let cores: Vec<CoreStats> = self
            .at_work()
            .iter()
            .map(|core| CoreStats { time_ps: time(core), ..core.stats })
            .collect();
        Statistics {
            machine: self.config.name.clone(),
            config_hash: format!("{:016x}", self.config.hash()),
            seed,
            mechanism: self.mechanisms.name(),
            mechanism_figures: self.mechanisms.figures(),
            time_ns: self.at_work().iter().map(time).max().unwrap_or_default().as_ns(),
            accesses: cores
                .iter()
                .map(|core| core.loads + core.stores + core.streams + core.own_accesses)
                .sum(),
            cores,
            caches: self.hierarchy.stats().clone(),
            write_backs: self.write_backs,
            checkpoints: self.checkpoints,
            memory: self.controller.stats(),
        }
    }

    /// Makes `core` the one that accesses.
    pub(crate) fn turn_of(&mut self, core: usize) {
        self.core = core;
    }

    /// Times an access of a trace, without data.
    #[inline]
    pub(crate) fn replay(&mut self, line: u64, access: Access) {
        match access {
            Access::Load => self.load(Words { line, mask: 0xFF }),
            Access::Store => self.store(Words { line, mask: 0xFF }),
        }
    }

    /// A load of words of a line: the core waits for it.
    pub(crate) fn load(&mut self, place: Words) {
        let (done, from) = self.look(place, true);
        let core = &mut self.cores[self.core];
        let before = core.clock;
        core.wait_until(done);
        if from == FoundIn::Memory {
            core.stats.load_stall_ps += core.clock.since(before);
        }
    }

    /// One of several overlapping loads of a call: [`wait_for_loads`](Self::wait_for_loads) ends them.
    pub(crate) fn load_overlapping(&mut self, place: Words) {
        if self.config.cores.fill_buffers == 1 {
            return self.load(place);
        }
        let (done, _) = self.look(place, false);
        let issue = self.issue();
        self.cores[self.core].load_until(done, issue);
    }

    /// Time to issue an access that the core does not wait for.
    pub(crate) fn issue(&self) -> Ps {
        self.cycles(self.config.cores.cycles_per_access) + self.cycle
    }

    /// The core waits for the loads of the call.
    pub(crate) fn wait_for_loads(&mut self) {
        self.cores[self.core].wait_for_loads();
    }

    /// Issues a load. Returns when it is done, and where the line was.
    #[inline(always)]
    fn look(&mut self, place: Words, waits: bool) -> (Ps, FoundIn) {
        let begin = self.now() + self.cycles(self.config.cores.cycles_per_access);
        let (done, from) = self.fetch(place.line, Access::Load, begin, waits);
        let core = &mut self.cores[self.core];
        core.stats.loads += 1;
        core.stats.memory_loads += u64::from(from == FoundIn::Memory);
        if from == FoundIn::Late && core.forwards(place) {
            let latency = self.config.caches[0].latency_cycles;
            return (begin + self.cycles(latency), FoundIn::Nearest);
        }
        (done, from)
    }

    /// The core asks for a line and goes on; nothing happens if all its fill buffers are taken.
    pub(crate) fn prefetch(&mut self, line: u64) {
        let issue = self.cycle;
        let core = &mut self.cores[self.core];
        core.stats.prefetches += 1;
        core.clock += issue;
        if core.can_fill(&self.config.cores)
            && self.accesses(Words { line, mask: 0xFF }, How::Prefetch, &[])
        {
            let now = self.now();
            self.fetch(line, Access::Load, now, false);
        }
    }

    /// The core's program has stored this many bytes.
    pub(crate) fn stored(&mut self, bytes: u64) {
        self.cores[self.core].stats.stored_bytes += bytes;
    }

    /// A store to words of a line.
    pub(crate) fn store(&mut self, place: Words) {
        if self.data.holds_stores(self.core) {
            self.note_held_line(place.line);
        }
        let work = self.cycles(self.config.cores.cycles_per_access);
        let (begin, waits) = (self.now() + work, self.config.cores.store_buffer == 0);
        let (done, _) = self.fetch(place.line, Access::Store, begin, waits);
        let issue = work + self.cycle;
        let core = &mut self.cores[self.core];
        core.stats.stores += 1;
        core.store_until(place, done, issue, &self.config.cores);
    }

    /// A locked read and write of a line: all stores before it are done first.
    pub(crate) fn exchange(&mut self, line: u64) {
        if self.data.holds_stores(self.core) {
            self.note_held_line(line);
        }
        let stored = self.cores[self.core].stored();
        let (done, _) = self.fetch(line, Access::Store, stored, true);
        let core = &mut self.cores[self.core];
        core.stats.stores += 1;
        core.wait_until(done);
    }

    /// Brings a line into the nearest cache. Returns when it is there, and where it was. The core `waits` until
    /// then, or goes on.
    #[inline(always)]
    fn fetch(&mut self, line: u64, access: Access, begin: Ps, waits: bool) -> (Ps, FoundIn) {
        let outcome = self.hierarchy.access(self.core, line, access);
        // The caches' tags already include lines on their way.
        let there = self.arrivals.of(line, begin);
        if outcome.level == 0 && !outcome.handed {
            let done = begin + self.cycles(outcome.cycles);
            return if there <= done { (done, FoundIn::Nearest) } else { (there, FoundIn::Late) };
        }
        self.fetch_far((line, outcome), (begin, there), waits)
    }

    /// As [`fetch`](Self::fetch), where the nearest cache does not have the line, or other cores have it too.
    fn fetch_far(
        &mut self,
        (line, outcome): (u64, Outcome),
        (begin, there): (Ps, Ps),
        waits: bool,
    ) -> (Ps, FoundIn) {
        // Copied at once: mechanisms may change the caches, which clears the list.
        self.evicted.extend_from_slice(self.hierarchy.evicted());
        let latency = self.cycles(outcome.cycles);
        let begin = self.cores[self.core].fill_from(begin, &self.config.cores);
        let mut done = match outcome.handed {
            // Handed from one core to the next: it cannot leave before it has arrived.
            true => begin.max(there) + latency,
            false => (begin + latency).max(there),
        };
        let from_memory = outcome.level == self.config.caches.len();
        if from_memory {
            let asks = self.asks(Moments::FILL) && !self.is_own(line);
            let from = if asks { self.ask_fill(line) } else { line };
            done = self.read_beyond(from, done);
        }
        self.tell_departures();
        if !self.evicted.is_empty() {
            // The new line takes the evicted one's place as soon as an eviction buffer has that.
            done = done.max(self.evict());
        }
        if !waits {
            self.cores[self.core].fill_until(done);
        }
        if !waits || self.count > 1 && (from_memory || outcome.handed) {
            self.arrivals.note(line, done, self.now());
        }
        (done, if from_memory { FoundIn::Memory } else { FoundIn::Caches })
    }

    /// Dirty lines leave the caches. Returns when each has an eviction buffer: they are handed over from
    /// there, so that the core's access does not wait for them.
    #[cold]
    fn evict(&mut self) -> Ps {
        let buffers = self.config.memory.controller.eviction_buffers;
        let mut last = Ps::default();
        let mut evicted = std::mem::take(&mut self.evicted);
        for &line in &evicted {
            last = last.max(self.leaving.place(self.now(), buffers, 0));
            let (accepted, _) = self.hand_over(line, Cause::Eviction);
            self.leaving.push(accepted);
        }
        evicted.clear();
        self.evicted = evicted;
        last
    }

    /// A dirty line leaves the caches. Returns when the controller has it, and when it is durable (`None` for own
    /// lines, and in a volatile DRAM cache).
    fn hand_over(&mut self, line: u64, cause: Cause) -> (Ps, Option<Ps>) {
        if self.is_own(line) {
            return self.hand_over_own(line, cause);
        }
        let mut leaving = self.leaving(line, cause);
        if self.asks(Moments::EVICTION) {
            match self.ask_leaving(Moments::EVICTION, leaving) {
                Ok((to, from)) => (leaving.line, leaving.from) = (to, from),
                Err(durable) => {
                    self.data.leave_elsewhere(line, durable);
                    return (self.now(), Some(durable));
                }
            }
        }
        match cause {
            Cause::Eviction => self.write_backs.evictions += 1,
            Cause::WriteBack => self.write_backs.asked += 1,
            Cause::Stream => self.write_backs.streamed += 1,
            Cause::Mechanism => self.write_backs.mechanism += 1,
            // Counted when it leaves the DRAM cache.
            Cause::Flush => self.write_backs.mechanism += u64::from(!self.controller.has_dram()),
        }
        let now = self.now();
        self.data.land_if_crowded(now);
        let asks = matches!(cause, Cause::WriteBack | Cause::Stream).then_some(self.core);
        let written = self.write_beyond(leaving, asks);
        if leaving.line != line
            && let Some(durable) = written.durable
        {
            self.data.leave_elsewhere(line, durable);
        }
        (written.accepted, written.durable)
    }

    /// The core writes a line back. Where caches are persistent, only streamed lines are not durable yet.
    pub(crate) fn write_back(&mut self, line: u64) {
        if self.config.domain == Domain::Persistent {
            if let Some(durable) = self.data.await_flight(line, self.core) {
                self.cores[self.core].await_until(durable);
            }
            return;
        }
        let issue = self.cycles(self.config.cores.write_back_cycles);
        let core = &mut self.cores[self.core];
        core.stats.write_backs += 1;
        // The write-back follows all earlier stores.
        let stored = core.stored();
        let mut stored = stored.max(self.arrivals.of(line, stored));
        if self.count > 1 && self.hierarchy.is_dirty_elsewhere(self.core, line) {
            // The request goes to the other core first.
            stored += issue + self.cycles(self.hierarchy.handing_cycles());
        }
        let kept = self.config.cores.write_back_keeps;
        let dirty = self.hierarchy.write_back(self.core, line, kept);
        self.tell_departures();
        let in_dram = !dirty && self.controller.holds_dirty(line);
        if dirty || in_dram {
            let before = std::mem::replace(&mut self.cores[self.core].clock, stored);
            let (accepted, durable) = self.hand_over(line, Cause::WriteBack);
            let core = &mut self.cores[self.core];
            // The core goes on at `before`, unless the mechanism has made all cores wait.
            core.clock = if core.clock > stored { core.clock } else { before };
            core.line_until(accepted, durable.unwrap_or(accepted), &self.config.cores);
        } else if let Some(durable) = self.data.await_flight(line, self.core) {
            self.cores[self.core].await_until(durable);
        }
        let waits = self.config.cores.write_back_waits;
        let core = &mut self.cores[self.core];
        core.clock += issue;
        if waits {
            core.wait();
        }
    }

    /// The core stores a line past the caches.
    pub(crate) fn stream(&mut self, line: u64) {
        self.hierarchy.drop_line(line);
        self.tell_departures();
        let issue = self.issue();
        let (accepted, durable) = self.hand_over(line, Cause::Stream);
        let core = &mut self.cores[self.core];
        core.stats.streams += 1;
        core.line_until(accepted, durable.unwrap_or(accepted), &self.config.cores);
        core.clock += issue;
    }

    /// The core waits until the lines that it has written back are durable.
    pub(crate) fn fence(&mut self) {
        let least = self.cycles(self.config.cores.fence_cycles);
        self.cores[self.core].fence(least);
        self.data.land_of(self.core);
        let now = self.now();
        self.data.land(now);
    }

    /// The core computes.
    pub(crate) fn work(&mut self, cycles: u32) {
        let time = self.cycles(cycles);
        self.cores[self.core].clock += time;
    }

    /// A turn of a spin loop.
    pub(crate) fn pause(&mut self) {
        let time = self.cycles(self.config.cores.pause_cycles);
        let core = &mut self.cores[self.core];
        core.clock += time;
        core.stats.pauses += 1;
    }
}
