//! Speculations: what the machine itself does for the mechanism in the place for transactions, whichever it is.
//!
//! That mechanism decides when a core's speculation is lost ([`Hardware::lose`]); the machine holds the core's stores
//! back (`held`), undoes them in the same moment, in the pool and in the program's own words, and lets nothing of a lost
//! speculation happen until the program has learned of it. What always holds: no durable image, model or promise has a
//! word of a speculation before its commit; the commit is one step, and one event; a line that was stored to is dirty
//! in the caches once its stores are released, or has been written back where speculations are durable; a core's
//! speculation is lost in both places, or in none.

use super::{Hardware, Moments};
use crate::by_number::ByNumber;
use crate::held::HeldLine;
use crate::mechanism::{Accessed, Effect, How};
use crate::processor::Words;
use crate::{Cause, Ps};
use perdura_memory::atomics::{AtomicU64, Ordering};
use perdura_memory::{HardwareAbort, HardwareTicket, Speculation};
use std::sync::Arc;

/// The place for transactions, and the one for persistence.
const FIRST: usize = 0;
const SECOND: usize = 1;

/// The speculations of all cores.
#[derive(Default)]
pub(crate) struct Speculations {
    cores: Vec<CoreSpeculation>,
    /// The core that is committing: its speculation can no longer be lost.
    committing: Option<usize>,
    /// Cores whose speculation is lost, which their programs have not ended yet, as a mask.
    lost: u64,
}

/// What one core has done.
#[derive(Default)]
struct CoreSpeculation {
    /// The lines that it has stored to, and whether each was dirty before.
    lines: Vec<(u64, bool)>,
    has: ByNumber<()>,
    /// Words of own memory that it has stored to, and their values before, oldest first.
    words: Vec<(Arc<[AtomicU64]>, usize, u64)>,
    lost: Option<HardwareAbort>,
}

impl CoreSpeculation {
    fn clear(&mut self) {
        self.lines.clear();
        self.has.clear();
        self.words.clear();
    }
}

/// What the mechanism in the place for transactions can do.
impl Hardware {
    /// Holds all stores of a core back from now on: to be called when its speculation begins.
    pub fn hold_stores(&mut self, core: usize) {
        let cores = &mut self.speculations.cores;
        if cores.len() <= core {
            cores.resize_with(core + 1, CoreSpeculation::default);
        }
        cores[core].clear();
        self.data.hold_stores(core);
    }

    /// Whether a core speculates, and has not lost its speculation.
    #[inline(always)]
    pub fn speculates(&self, core: usize) -> bool {
        self.data.holds_stores(core)
    }

    /// A core's speculation is lost: its stores are undone before anything else happens, their lines leave its nearest
    /// cache, and nothing that the core does takes place until its program has ended the speculation. Returns whether
    /// it was lost now: not if the core does not speculate, nor once its commit has begun.
    pub fn lose(&mut self, core: usize, why: HardwareAbort) -> bool {
        if !self.data.holds_stores(core) || self.speculations.committing == Some(core) {
            return false;
        }
        self.undo(core, why);
        true
    }

    /// The lines of the pool that a speculating core has stored to, ascending.
    pub fn held_lines(&self, core: usize) -> Vec<u64> {
        self.data.held_lines(core).iter().map(|held| held.line).collect()
    }

    /// Writes a line back that the running core's speculation has stored to, in its commit, as the core's own write-back
    /// does. Its next [`commit_fence`](Self::commit_fence) waits for the line.
    pub fn write_back_held(&mut self, line: u64) {
        self.write_back(line);
    }

    /// A fence of the running core while it commits. Lines do not land by it, but when the core's program goes on: until
    /// then a power cut may come at the earlier times of other cores.
    pub fn commit_fence(&mut self) {
        let least = self.cycles(self.config.cores.fence_cycles);
        self.cores[self.core].fence(least);
    }

    /// Time in which the running core issues a non-temporal store.
    pub fn charge_issue(&mut self) {
        let issue = self.issue();
        self.cores[self.core].clock += issue;
    }

    /// When the stores of a core so far are in its nearest cache.
    pub fn stores_done(&self, core: usize) -> Ps {
        self.cores[core].stored()
    }

    /// The root of everything random.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// What programs and their accesses do.
impl Hardware {
    /// Begins a speculation of the running core, in both places or in none.
    pub(crate) fn speculate(&mut self) -> Result<(), HardwareAbort> {
        let core = self.core;
        if self.data.holds_stores(core) || self.is_lost(core) {
            return Err(HardwareAbort::Nested);
        }
        let first = self.ask(FIRST, |mechanism, hardware| mechanism.speculate(hardware, core));
        first.unwrap_or(Err(HardwareAbort::Absent))?;
        if let Some(Err(why)) =
            self.ask(SECOND, |mechanism, hardware| mechanism.begin(hardware, core))
        {
            self.refuse(core, why);
            return Err(why);
        }
        if let Some(transactions) = self.data.transactions() {
            transactions.begins(core);
        }
        Ok(())
    }

    /// The running core's program wants to commit: the first step of a commit that takes two.
    pub(crate) fn complete_speculation(&mut self) {
        let core = self.core;
        if self.data.holds_stores(core) {
            self.ask(FIRST, |mechanism, hardware| mechanism.complete(hardware, core));
        }
    }

    /// The running core's program goes on after a durable commit: what that has waited for lands.
    pub(crate) fn land_commit(&mut self) {
        let now = self.now();
        self.data.land_awaited(self.core, now);
    }

    /// Commits the running core's speculation: the second place is told of its stores, and may refuse; then they are
    /// released. Returns the ticket, and whether there were any stores.
    pub(crate) fn end_speculation(&mut self) -> Result<(HardwareTicket, bool), HardwareAbort> {
        let core = self.core;
        if self.data.holds_stores(core) {
            self.ask(FIRST, |mechanism, hardware| mechanism.prepare(hardware, core));
        }
        if let Some(why) = self.end_lost(core) {
            return Err(why);
        }
        if !self.data.holds_stores(core) {
            return Err(HardwareAbort::Absent);
        }
        self.speculations.committing = Some(core);
        let committed = self.commit_held(core);
        self.speculations.committing = None;
        if let Err(why) = committed {
            self.refuse(core, why);
        }
        committed
    }

    /// The second place has refused what the first one has agreed to.
    fn refuse(&mut self, core: usize, why: HardwareAbort) {
        self.undo(core, why);
        self.ask(FIRST, |mechanism, hardware| mechanism.is_lost(hardware, core, why));
        self.end_lost(core);
    }

    fn commit_held(&mut self, core: usize) -> Result<(HardwareTicket, bool), HardwareAbort> {
        let lines = self.data.held_lines(core);
        if self.mechanisms.moments(SECOND).have(Moments::ACCESS | Moments::STORE) {
            for held in &lines {
                let (line, how, before) =
                    (held.line, How::Store, self.data.committed_line(held.line));
                let access = Accessed { core, line, how, stores: &held.pieces, before };
                // If it is lost there, the commit is refused.
                self.ask(SECOND, |mechanism, hardware| mechanism.accessed(hardware, &access));
            }
        }
        let durable = self.mechanisms.speculation() == Speculation::Durable;
        if durable {
            self.make_dirty(&lines);
        }
        self.data.settle(core);
        let mut last = HardwareTicket::DURABLE;
        for place in [SECOND, FIRST] {
            let ask = self.ask(place, |mechanism, hardware| mechanism.commit(hardware, core));
            last = last.max(ask.unwrap_or(Ok(HardwareTicket::DURABLE))?);
        }
        self.data.release(core, &lines, durable);
        if let Some(transactions) = self.data.transactions() {
            transactions.commits(core, last);
        }
        self.speculations.cores[core].clear();
        if durable && self.data.keeps_model() {
            self.land_commit();
        }
        if !durable {
            self.make_dirty(&lines);
        }
        Ok((last, !lines.is_empty()))
    }

    /// Lines that have left the caches, or been cleaned there, with their old words are stored to again.
    fn make_dirty(&mut self, lines: &[HeldLine]) {
        for held in lines {
            if !self.hierarchy.is_dirty(held.line) {
                self.store(Words { line: held.line, mask: 0xFF });
            }
        }
    }

    /// The running core's program gives its speculation up.
    pub(crate) fn stop_speculating(&mut self, code: u8) {
        let core = self.core;
        self.lose_here(HardwareAbort::Explicit(code));
        self.end_lost(core);
    }

    /// Gives up the speculations of all cores, which are no longer at work.
    pub(crate) fn end_speculations(&mut self) {
        for core in 0..self.count {
            if self.speculates(core) || self.is_lost(core) {
                self.turn_of(core);
                self.stop_speculating(0);
            }
        }
    }

    /// The running core's speculation is lost by what its program does: the mechanism has not noticed that.
    #[cold]
    pub(crate) fn lose_here(&mut self, why: HardwareAbort) {
        let core = self.core;
        if self.lose(core, why) {
            self.ask(FIRST, |mechanism, hardware| mechanism.is_lost(hardware, core, why));
        }
    }

    /// Why a core's speculation is lost, until its program ends it.
    pub(crate) fn lost(&self, core: usize) -> Option<HardwareAbort> {
        self.speculations.cores.get(core).and_then(|speculation| speculation.lost)
    }

    /// Whether a core's speculation is lost, and its program has not ended it yet.
    #[inline(always)]
    pub(crate) fn is_lost(&self, core: usize) -> bool {
        self.speculations.lost >> core & 1 != 0
    }

    /// The program has learned that the core's speculation is lost.
    fn end_lost(&mut self, core: usize) -> Option<HardwareAbort> {
        let why = self.speculations.cores.get_mut(core)?.lost.take()?;
        self.speculations.lost &= !(1 << core);
        self.ask(FIRST, |mechanism, hardware| mechanism.ended(hardware, core));
        Some(why)
    }

    /// Undoes a core's speculation.
    fn undo(&mut self, core: usize, why: HardwareAbort) {
        let speculation = &mut self.speculations.cores[core];
        for (words, index, before) in speculation.words.drain(..).rev() {
            words[index].store(before, Ordering::SeqCst);
        }
        let lines = std::mem::take(&mut speculation.lines);
        speculation.lost = Some(why);
        self.speculations.lost |= 1 << core;
        self.data.forget(core);
        for &(line, dirty) in &lines {
            self.hierarchy.undo_line(core, line, dirty);
            for line in self.hierarchy.evicted().to_vec() {
                self.hand_over(line, Cause::Eviction);
            }
        }
        let speculation = &mut self.speculations.cores[core];
        speculation.lines = lines;
        speculation.clear();
        self.ask(SECOND, |mechanism, hardware| mechanism.abort(hardware, core));
        if let Some(transactions) = self.data.transactions() {
            transactions.aborts(core, true);
        }
    }

    /// A core that speculates is about to take a line to store to it; if it is the pool's, its words have been stored.
    #[cold]
    pub(super) fn note_held_line(&mut self, line: u64) {
        let core = self.core;
        let dirty = self.hierarchy.is_dirty(line);
        let speculation = &mut self.speculations.cores[core];
        if speculation.has.insert(line, ()).is_none() {
            speculation.lines.push((line, dirty));
        }
        if self.mechanisms.moments(FIRST).have(Moments::HELD) {
            let words = self.data.take_fresh(core);
            self.ask(FIRST, |mechanism, hardware| mechanism.held(hardware, core, &words));
        }
    }

    /// The running core is about to store to words of own memory: they are put back if it speculates, and that is lost.
    pub(crate) fn keep_own_words(
        &mut self,
        words: Option<(Arc<[AtomicU64]>, std::ops::Range<usize>)>,
    ) {
        let Some((words, range)) = words.filter(|_| self.data.holds_stores(self.core)) else {
            return;
        };
        let kept = &mut self.speculations.cores[self.core].words;
        for index in range {
            kept.push((words.clone(), index, words[index].load(Ordering::SeqCst)));
        }
    }

    /// A core is about to touch a line of own memory. Returns whether the touch takes place.
    #[inline(always)]
    pub(crate) fn touches(&mut self, line: u64, how: How) -> bool {
        !self.asks(Moments::OWN) || self.ask_touch(line, how) == Effect::Happens
    }
}
