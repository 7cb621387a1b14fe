//! The mechanism in a running machine.
//!
//! A commit takes two steps of the machine. In the first ([`complete`](Mechanism::complete)) the core waits until its log
//! is durable, while others go on; the second one, from the tail to the release, is charged to the core as a whole, and
//! others wait for the lines (`release`).

use super::log::CoreLog;
use super::mutants::{
    EARLY, FENCE_DATA, FENCE_LOG, FENCE_RESET, FENCE_TAIL, LINE, RESET, SPACE, STORE, TAIL_FIRST,
    VOID,
};
use super::release::Releases;
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::htm::{Tracker, stores};
use crate::mechanism::{Accessed, Departure, Effect, How, Mechanism, Moments};
use perdura_memory::image::Piece;
use perdura_memory::{HardwareAbort, HardwareTicket, Speculation};

/// The mechanism.
pub(super) struct DurableTransactions {
    tracker: Tracker,
    /// One for each core.
    logs: Vec<CoreLog>,
    /// For each core, how many stores its transaction has made.
    stores: Vec<u64>,
    /// Lines of the program's memory.
    pool_lines: u64,
    releases: Releases,
    entries: u64,
    log_lines: u64,
    /// Time in which cores have waited for releases.
    waited: Ps,
}

impl DurableTransactions {
    /// With logs of this many lines each, one for each core, behind the program's memory.
    pub(super) fn new(tracker: Tracker, cores: usize, pool_lines: u64, lines: u64) -> Self {
        let log = |core: u64| CoreLog::new(pool_lines + core * lines, lines);
        DurableTransactions {
            tracker,
            logs: (0..cores as u64).map(log).collect(),
            stores: vec![0; cores],
            pool_lines,
            releases: Releases::new(),
            entries: 0,
            log_lines: 0,
            waited: Ps::default(),
        }
    }

    /// A core waits for the release of the line that it accesses. Returns whether the access takes place: a prefetch is
    /// dropped instead.
    fn wait(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> bool {
        let until = self.releases.until(access.line, stores(access.how));
        let now = hardware.now();
        if until <= now {
            return true;
        }
        if access.how == How::Prefetch {
            return false;
        }
        self.waited += until.since(now);
        hardware.wait_until(access.core, until);
        true
    }

    /// Whether the core's log has room for what an access may store.
    fn has_room(&self, access: &Accessed<'_>) -> bool {
        let logged = stores(access.how)
            && access.line < self.pool_lines
            && self.tracker.runs(access.core)
            && !self.tracker.leaves_out(SPACE);
        !logged || self.logs[access.core].has_room(words(access.stores).max(1))
    }

    /// Steps 2 to 7 of a commit.
    fn commit_log(&mut self, hardware: &mut Hardware, core: usize) {
        let log = &self.logs[core];
        if !self.tracker.leaves_out(TAIL_FIRST) {
            log.commit(hardware);
        }
        if !self.tracker.leaves_out(FENCE_TAIL) {
            hardware.commit_fence();
        }
        let mut lines = hardware.held_lines(core);
        if self.tracker.leaves_out(LINE) {
            lines.pop();
        }
        lines.into_iter().for_each(|line| hardware.write_back_held(line));
        if !self.tracker.leaves_out(FENCE_DATA) {
            hardware.commit_fence();
        }
        if !self.tracker.leaves_out(RESET) {
            log.reset(hardware);
        }
        if !self.tracker.leaves_out(FENCE_RESET) {
            hardware.commit_fence();
        }
    }
}

impl Mechanism for DurableTransactions {
    fn moments(&self) -> Moments {
        self.tracker.moments() | Moments::HELD
    }

    fn speculation(&self) -> Speculation {
        Speculation::Durable
    }

    fn speculate(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        self.tracker.speculate(hardware, core)?;
        self.stores[core] = 0;
        if !self.tracker.leaves_out(VOID) {
            self.logs[core].begin();
        }
        Ok(())
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        if !self.wait(hardware, access) {
            return Effect::Lost;
        }
        match self.has_room(access) {
            true => self.tracker.accessed(hardware, access),
            false => self.tracker.lose(hardware, access.core, HardwareAbort::NoLogSpace),
        }
        Effect::Happens
    }

    fn departed(&mut self, hardware: &mut Hardware, departure: &Departure) {
        self.tracker.departed(hardware, departure);
    }

    fn held(&mut self, hardware: &mut Hardware, core: usize, words: &[(u64, u64)]) {
        for &entry in words {
            self.stores[core] += 1;
            if self.stores[core] == 1 && self.tracker.leaves_out(STORE) {
                continue;
            }
            self.entries += 1;
            self.log_lines += u64::from(self.logs[core].append(hardware, entry));
        }
    }

    /// Step 1 of a commit.
    fn complete(&mut self, hardware: &mut Hardware, core: usize) {
        if self.logs[core].count() == 0 {
            return;
        }
        if self.tracker.leaves_out(TAIL_FIRST) {
            self.logs[core].commit(hardware);
        }
        self.log_lines += u64::from(self.logs[core].flush(hardware));
        if !self.tracker.leaves_out(FENCE_LOG) {
            hardware.commit_fence();
        }
    }

    fn prepare(&mut self, hardware: &mut Hardware, core: usize) {
        let stored = hardware.stores_done(core);
        hardware.wait_until(core, stored);
        self.tracker.prepare(hardware, core);
    }

    /// A transaction that has stored nothing to the pool has no log to commit. What it has read is durable: it has
    /// waited for that.
    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        let begins = hardware.now();
        self.releases.forget(begins);
        if self.logs[core].count() > 0 {
            self.commit_log(hardware, core);
        }
        // An aborted one's entries stay in front only of the next one.
        self.logs[core].begin();
        self.tracker.charge_commit(hardware, core);
        let at = if self.tracker.leaves_out(EARLY) { begins } else { hardware.now() };
        for (line, stored) in self.tracker.lines(core) {
            self.releases.add(line, stored, at);
        }
        self.tracker.commit(hardware, core);
        Ok(HardwareTicket::DURABLE)
    }

    fn is_lost(&mut self, hardware: &mut Hardware, core: usize, why: HardwareAbort) {
        self.tracker.is_lost(hardware, core, why);
    }

    fn ended(&mut self, hardware: &mut Hardware, core: usize) {
        self.tracker.ended(hardware, core);
    }

    fn start_measuring(&mut self) {
        self.tracker.start_measuring();
        (self.entries, self.log_lines, self.waited) = (0, 0, Ps::default());
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.tracker.figures();
        figures.extend([
            ("aborts_no_log_space", self.tracker.without_log_space()),
            ("log_entries", self.entries),
            ("log_lines", self.log_lines),
            ("waited_ns", self.waited.as_ns() as u64),
        ]);
        figures
    }
}

/// How many words stores to a line are to.
fn words(stores: &[Piece]) -> u64 {
    stores.chunk_by(|one, next| one.at() == next.at()).count() as u64
}
