//! The machine as a [`Memory`]: what programs call.

use crate::Machine;
use crate::data::line_number;
use crate::hardware::Hardware;
use crate::run;
use crate::sites::Kind;
use crate::state::{MachineState, Turn};
use perdura_memory::atomics::AtomicU64;
use perdura_memory::image::{Piece, Site, lines_of};
use perdura_memory::site::passed_or;
use perdura_memory::{
    Domain, HardwareAbort, HardwareTicket, LINE, Memory, Object, PAGE, Speculation, Survives,
    Touch, WORD, line_of,
};
use std::io;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes released in one event.
const TOGETHER: u64 = 8 * LINE;
/// Pages examined in one call of `give_back`, and lines compared at a time.
const EXAMINED: u64 = 16;
const COMPARED: usize = 16;

// SAFETY: every access goes through a lock and checks its bounds (words by indexing); the
// contract is what the caches and the controller do, which is tested against the model.
unsafe impl Memory for Machine {
    fn domain(&self) -> Domain {
        self.domain
    }

    fn survives(&self) -> Survives {
        Survives::Power
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn last_level_cache(&self) -> u64 {
        self.last_level_cache
    }

    /// Durable when it returns, as a file's length is; no event.
    fn grow(&self, len: u64) -> io::Result<()> {
        if len > self.limit {
            let text = "the machine's memory cannot grow beyond its limit";
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        }
        let mut state = self.state();
        if !state.leaves_speculation() {
            return Err(io::Error::other(HardwareAbort::Unsupported));
        }
        let words = (len.next_multiple_of(LINE) / WORD) as usize;
        if words > state.hardware.data.visible.len() {
            state.hardware.data.grow(words);
            self.len.store(words as u64 * WORD, Ordering::Release);
        }
        Ok(())
    }

    #[inline]
    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        self.step(|state| state.load(at))
    }

    #[track_caller]
    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        let site = passed_or(Location::caller());
        self.step(|state| state.store(&[Piece::word(at, value)], site));
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        let alone = at % LINE + to.len() as u64 <= LINE;
        let mut done = 0;
        while done < to.len() {
            let here = at + done as u64;
            let count = ((line_of(here) + LINE - here) as usize).min(to.len() - done);
            self.step(|state| state.copy_out(here, &mut to[done..done + count], alone));
            done += count;
        }
        if !alone {
            self.step(|state| state.hardware.wait_for_loads());
        }
    }

    #[track_caller]
    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        self.copy(at, from, passed_or(Location::caller()));
    }

    #[track_caller]
    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        let site = passed_or(Location::caller());
        self.step(|state| {
            let mut pieces = std::mem::take(&mut state.pieces);
            state.stream(at, from, site, &mut pieces);
            state.pieces = pieces;
        });
    }

    #[track_caller]
    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        let site = passed_or(Location::caller());
        self.check(at, WORD, WORD);
        self.step(|state| {
            state.before_access();
            state.take(line_number(at));
            let (found, happens) = state.hardware.exchanges(at, old, new);
            if state.hardware.is_lost(state.running) {
                return Err(found);
            }
            if found == old && happens {
                state.hardware.data.store(state.running, &[Piece::word(at, new)], site);
            }
            state.hardware.exchange(line_number(at));
            if found != old {
                let core = state.running;
                state.spins.looked(core, line_number(at));
            }
            let lost = state.hardware.is_lost(state.running);
            if found != old || !happens || lost {
                return Err(found);
            }
            state.stored(site);
            Ok(old)
        })
    }

    #[track_caller]
    fn write_back(&self, at: u64, len: u64) {
        let site = passed_or(Location::caller());
        self.check(at, len, 1);
        self.step(|state| state.write_back(at, len, site));
    }

    #[track_caller]
    fn fence(&self) {
        let site = passed_or(Location::caller());
        self.before_fence();
        self.step(|state| state.fence(site));
    }

    fn check_fence(&self) -> io::Result<()> {
        if self.state().hardware.data.has_failed() {
            return Err(io::Error::other("a fence of this machine was to fail"));
        }
        Ok(())
    }

    fn give_back_due(&self) -> bool {
        let mut state = self.state();
        let spare = state.spare_pages;
        spare.is_some_and(|spare| state.hardware.data.give_back_due(spare))
    }

    /// Other cores go on between the comparison of a page's lines with the file and the drop of its copy. No event:
    /// nothing that is durable changes.
    fn give_back(&self) -> bool {
        let Some(run) = self.step(|state| state.hardware.data.next_copies(EXAMINED)) else {
            return false;
        };
        let is_same = |page: &u64| {
            let lines: Vec<u64> = lines_of(*page).collect();
            let compare =
                |lines: &[u64]| self.step(|state| state.compare_with_file(lines.iter().copied()));
            self.step(|state| state.hardware.data.is_settled(*page))
                && lines.chunks(COMPARED).all(compare)
        };
        let same: Vec<u64> = run.filter(is_same).collect();
        self.step(|state| state.hardware.wait_for_loads());
        same.into_iter().for_each(|page| self.step(|state| state.drop_copy(page)));
        true
    }

    /// The lines become durably zero one after the other, as if they were streamed and fenced; these events do not
    /// count as call sites of the program.
    #[track_caller]
    fn release(&self, pages: Range<u64>) -> io::Result<bool> {
        let site = passed_or(Location::caller());
        assert!(pages.start < pages.end && pages.end.is_multiple_of(PAGE), "pages {pages:?}");
        self.check(pages.start, pages.end - pages.start, PAGE);
        self.check_fence()?;
        if !self.step(|state| state.leaves_speculation()) {
            return Ok(false);
        }
        for at in pages.clone().step_by(TOGETHER as usize) {
            self.step(|state| state.release(at..at + TOGETHER, site));
        }
        self.step(|state| state.end_release(pages.clone(), site));
        Ok(true)
    }

    fn secure(&self, pages: Range<u64>) -> io::Result<()> {
        self.state().released.remove(pages.start / PAGE..pages.end / PAGE);
        Ok(())
    }

    fn prefetch(&self, at: u64) {
        if self.contains(at, 1) {
            self.step(|state| state.prefetch(at));
        }
    }

    fn pause(&self, turn: u32) {
        let mut state = self.state();
        let stuck = state.pause();
        let inside = state.inside;
        drop(state);
        assert!(!stuck, "every core waits for another one");
        if inside {
            run::suspend(self, Turn::Switch);
        } else {
            perdura_memory::memory::back_off(turn);
        }
    }

    /// No time passes once the core's speculation is lost: a processor goes on at the place where the program learns of
    /// it.
    fn work(&self, cycles: u32) {
        self.step(|state| {
            state.worked();
            if !state.hardware.is_lost(state.running) {
                state.hardware.work(cycles);
            }
        });
    }

    fn tx_begin(&self) -> Result<(), HardwareAbort> {
        self.step(|state| state.transaction(Hardware::begin))
    }

    fn tx_commit(&self) -> Result<HardwareTicket, HardwareAbort> {
        self.step(|state| state.transaction(Hardware::commit))
    }

    fn tx_abort(&self) -> bool {
        self.step(|state| state.transaction(Hardware::abort))
    }

    fn tx_flush(&self) {
        while self.step(|state| state.transaction(Hardware::flush)) {}
    }

    fn tx_durable(&self) -> HardwareTicket {
        self.step(|state| state.transaction(Hardware::durable))
    }

    fn speculation(&self) -> Speculation {
        self.speculation
    }

    fn accepts_unsafe(&self) -> bool {
        self.accepts_unsafe
    }

    fn speculate(&self) -> Result<(), HardwareAbort> {
        self.step(|state| state.transaction(Hardware::speculate))
    }

    #[track_caller]
    fn end_speculation(&self) -> Result<HardwareTicket, HardwareAbort> {
        let site = passed_or(Location::caller());
        let durable = self.speculation == Speculation::Durable;
        if durable {
            // Other cores go on while its log becomes durable, and may still make it lose.
            self.step(|state| state.transaction(Hardware::complete_speculation));
        }
        let ended = self.step(|state| {
            let (ticket, stored) = state.transaction(Hardware::end_speculation)?;
            if stored {
                state.event(Kind::Commit, site);
            }
            Ok(ticket)
        });
        if durable && ended.is_ok() {
            self.state().hardware.land_commit();
        }
        ended
    }

    fn stop_speculating(&self, code: u8) {
        self.step(|state| state.transaction(|hardware| hardware.stop_speculating(code)));
    }

    /// Takes no simulated time: the processor itself tells the program.
    fn lost(&self) -> Option<HardwareAbort> {
        if self.speculation == Speculation::Absent {
            return None;
        }
        let state = self.state();
        state.hardware.lost(state.running)
    }

    fn words_object(&self, words: &Arc<[AtomicU64]>) -> Object {
        self.state().hardware.own.add_words(words)
    }

    fn object(&self, bytes: u64) -> Object {
        self.state().hardware.own.add(bytes)
    }

    #[inline]
    fn traces_own(&self) -> bool {
        true
    }

    #[inline]
    fn touch(&self, object: Object, at: u64, len: u64, access: Touch) {
        if object != Object::NONE && len > 0 && self.counts_touches() {
            self.step(|state| state.touch(object, at, len, access));
        }
    }

    fn touching(
        &self,
        object: Object,
        at: u64,
        len: u64,
        access: Touch,
        step: &mut dyn FnMut(),
    ) -> bool {
        if object != Object::NONE && len > 0 && self.counts_touches() {
            return self.step(|state| state.touching(object, (at, len), access, step));
        }
        step();
        true
    }

    /// The running core's clock.
    fn now(&self) -> u64 {
        let mut state = self.state();
        // A core that reads the clock must not sleep: time is not a line.
        let core = state.running;
        state.spins.worked(core);
        state.hardware.now().0 / 1000
    }
}

impl Machine {
    /// Whether touches count: a watcher takes none of the programs' time.
    #[inline]
    fn counts_touches(&self) -> bool {
        run::is_program_of(self) || !self.state().inside
    }

    /// One access by the running core.
    #[inline]
    fn step<R>(&self, access: impl FnOnce(&mut MachineState) -> R) -> R {
        let mut state = self.state();
        let events = state.events;
        let result = access(&mut state);
        let turn = state.turn(events);
        drop(state);
        if turn != Turn::Stay {
            run::suspend(self, turn);
        }
        result
    }

    /// A fence takes long: with [`Options::before_fences`](crate::Options::before_fences), other cores see the program's stores up to here before
    /// the fence is over.
    fn before_fence(&self) {
        let state = self.state();
        let shows = state.before_fences && state.inside && state.watched;
        drop(state);
        if shows {
            run::suspend(self, Turn::Show);
        }
    }

    fn check(&self, at: u64, len: u64, align: u64) {
        assert!(
            at.is_multiple_of(align) && self.contains(at, len),
            "access to [{at:#x}, +{len}) outside of, or misaligned in, a memory of {:#x} bytes",
            self.len()
        );
    }

    /// Stores that are unordered among themselves: one event for each line, or where stores are durable in order, one
    /// for each piece.
    fn copy(&self, at: u64, from: &[u8], site: Site) {
        let at_once = self.domain == Domain::Persistent;
        let mut state = self.state();
        let mut pieces = std::mem::take(&mut state.pieces);
        drop(state);
        pieces.clear();
        pieces.extend(Piece::of_bytes(at, from));
        let mut first = 0;
        while first < pieces.len() {
            let line = line_number(pieces[first].at());
            let same = |piece: &Piece| line_number(piece.at()) == line;
            let end = first + pieces[first..].iter().take_while(|piece| same(piece)).count();
            let end = if at_once { first + 1 } else { end };
            self.step(|state| state.store(&pieces[first..end], site));
            first = end;
        }
        self.state().pieces = pieces;
    }
}
