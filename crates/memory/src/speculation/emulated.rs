//! Speculations in software, for real threads: conflicts are found as hardware finds them, and losses can be drawn.
//!
//! Each access takes one mutex. Under it the lines of a speculation are noted, a speculation with which another
//! thread's access conflicts loses (whoever asks wins), and what it has stored is put back before that access takes
//! place, words of [`OwnWords`](crate::own::OwnWords) included. So threads meet as they do on hardware, if slower.
//!
//! What it cannot show: a loss between two accesses, and a commit that a killed process leaves whole (stores are in
//! place from the beginning). Own memory that is only [touched](Memory::touch) is in no set.

use crate::atomics::AtomicU64 as OwnWord;
use crate::own::{Object, Touch};
use crate::random::SplitMix64;
use crate::transactions::{HardwareAbort, HardwareTicket, Speculation};
use crate::{Domain, LINE, Memory, Survives, WORD, line_of, lines_in};
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Accesses of a speculation before a drawn loss, at most; one with fewer is lost at its commit.
const ACCESSES: u64 = 64;

/// What the imitated hardware can do, and how often it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    /// Draws the losses.
    pub seed: u64,
    /// Of a hundred speculations, this many are lost without a reason of their own: when they begin, at an access, or at their
    /// commit.
    pub lost_percent: u8,
    /// Lines that a speculation may store to; from the next one on it lacks capacity.
    pub lines_stored: usize,
    /// Lines that it may load.
    pub lines_loaded: usize,
}

impl Default for Emulation {
    /// A nearest cache of 32 KiB, with eight times as much for loads, and no drawn losses.
    fn default() -> Self {
        Emulation { seed: 1, lost_percent: 0, lines_stored: 512, lines_loaded: 4096 }
    }
}

/// The memory `M`, with speculations.
pub struct Emulated<M> {
    inner: M,
    emulation: Emulation,
    accepts_unsafe: bool,
    state: Mutex<State>,
}

/// What all threads share.
struct State {
    running: Vec<Running>,
    /// Words of own memory, by their object's number less 1.
    words: Vec<Option<Arc<[OwnWord]>>>,
    random: SplitMix64,
}

/// A thread's speculation, until the thread ends it.
struct Running {
    thread: u64,
    lost: Option<HardwareAbort>,
    /// Accesses until the drawn loss.
    left: Option<u64>,
    loaded: HashSet<Line>,
    stored: HashSet<Line>,
    /// Places and old values of the words stored, oldest first.
    old: Vec<(Place, u64)>,
}

/// A line of the memory, or of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Line {
    Pool(u64),
    Own(Object, u64),
}

/// A word of the memory, or of an object.
#[derive(Clone, Copy, Debug)]
enum Place {
    Pool(u64),
    Own(Object, u64),
}

/// The number of the calling thread, from 1.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl State {
    fn of(&mut self, thread: u64) -> Option<&mut Running> {
        self.running.iter_mut().find(|running| running.thread == thread)
    }

    fn object(&mut self, words: Option<Arc<[OwnWord]>>) -> Object {
        self.words.push(words);
        Object::numbered(self.words.len() as u32)
    }

    /// Puts back what the speculation at `index` has stored, the newest word first.
    fn lose<M: Memory>(&mut self, memory: &M, index: usize, why: HardwareAbort) {
        let running = &mut self.running[index];
        if running.lost.is_some() {
            return;
        }
        running.lost = Some(why);
        for (place, value) in std::mem::take(&mut running.old).into_iter().rev() {
            match place {
                Place::Pool(at) => memory.store(at, value),
                Place::Own(object, at) => {
                    let words =
                        object.number().checked_sub(1).map(|index| &self.words[index as usize]);
                    if let Some(Some(words)) = words {
                        words[(at / WORD) as usize].store(value, crate::atomics::Ordering::SeqCst);
                    }
                }
            }
        }
    }

    /// An access of `thread` to these lines: others lose by it, and its own speculation notes it. False if that
    /// is lost: the access does not take place.
    fn access<M: Memory>(
        &mut self,
        memory: &M,
        emulation: &Emulation,
        lines: impl Iterator<Item = Line> + Clone,
        stores: bool,
    ) -> bool {
        let thread = thread_number();
        if let Some(running) = self.of(thread) {
            if running.lost.is_some() {
                return false;
            }
            let is_due = running.left == Some(0);
            running.left = running.left.map(|left| left.saturating_sub(1));
            let set = if stores { &mut running.stored } else { &mut running.loaded };
            set.extend(lines.clone());
            let is_full = running.stored.len() > emulation.lines_stored
                || running.loaded.len() > emulation.lines_loaded;
            let why = match (is_due, is_full) {
                (true, _) => Some(self.draw_cause()),
                (false, true) => Some(HardwareAbort::Capacity),
                (false, false) => None,
            };
            if let Some(why) = why {
                self.lose_own(memory, thread, why);
                return false;
            }
        }
        for index in 0..self.running.len() {
            let other = &self.running[index];
            let conflicts =
                |line: Line| other.stored.contains(&line) || stores && other.loaded.contains(&line);
            if other.thread != thread && lines.clone().any(conflicts) {
                self.lose(memory, index, HardwareAbort::Conflict);
            }
        }
        true
    }

    fn lose_own<M: Memory>(&mut self, memory: &M, thread: u64, why: HardwareAbort) {
        if let Some(index) = self.running.iter().position(|running| running.thread == thread) {
            self.lose(memory, index, why);
        }
    }

    fn draw_cause(&mut self) -> HardwareAbort {
        match self.random.below(4) {
            0 => HardwareAbort::Capacity,
            1 => HardwareAbort::Interrupt,
            _ => HardwareAbort::Conflict,
        }
    }

    /// Notes the old words of `[at, at + len)`, if the calling thread speculates.
    fn keep<M: Memory>(&mut self, memory: &M, at: u64, len: u64) {
        if let Some(running) = self.of(thread_number()) {
            let words = (at & !(WORD - 1)..at + len).step_by(WORD as usize);
            running.old.extend(words.map(|at| (Place::Pool(at), memory.load(at))));
        }
    }
}

/// The lines of `[at, at + len)`, by their first bytes.
fn lines_of(at: u64, len: u64) -> impl Iterator<Item = u64> + Clone {
    (0..lines_in(at, len)).map(move |index| line_of(at) + index * LINE)
}

impl<M: Memory> Emulated<M> {
    /// Wraps `memory`.
    pub fn new(memory: M, emulation: Emulation) -> Self {
        let random = SplitMix64::new(emulation.seed);
        let state = State { running: Vec::new(), words: Vec::new(), random };
        Emulated { inner: memory, emulation, accepts_unsafe: false, state: Mutex::new(state) }
    }

    /// The same memory, which accepts engines that are not crash-sync-safe on it.
    #[must_use]
    pub fn accepting_unsafe(mut self) -> Self {
        self.accepts_unsafe = true;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `act` under the mutex if the access takes place.
    fn accessing<R>(
        &self,
        at: u64,
        len: u64,
        stores: bool,
        act: impl FnOnce(&M) -> R,
    ) -> Option<R> {
        let mut state = self.state();
        if !state.access(&self.inner, &self.emulation, lines_of(at, len).map(Line::Pool), stores) {
            return None;
        }
        if stores {
            state.keep(&self.inner, at, len);
        }
        Some(act(&self.inner))
    }

    /// As [`accessing`](Self::accessing), for what hardware cannot undo: it ends the thread's own speculation, and does not
    /// take place then.
    fn outside<R>(&self, range: Range<u64>, act: impl FnOnce(&M) -> R) -> Option<R> {
        let mut state = self.state();
        let thread = thread_number();
        if state.of(thread).is_some() {
            state.lose_own(&self.inner, thread, HardwareAbort::Unsupported);
            return None;
        }
        for index in 0..state.running.len() {
            let in_range = |line: &Line| match line {
                Line::Pool(line) => (line_of(range.start)..range.end).contains(line),
                Line::Own(..) => false,
            };
            if state.running[index].stored.iter().any(in_range) {
                state.lose(&self.inner, index, HardwareAbort::Conflict);
            }
        }
        Some(act(&self.inner))
    }
}

// SAFETY: every access is the inner memory's, under the same conditions, or does not take place, in a speculation that is
// lost; what is put back was there before.
unsafe impl<M: Memory> Memory for Emulated<M> {
    fn domain(&self) -> Domain {
        self.inner.domain()
    }

    fn survives(&self) -> Survives {
        self.inner.survives()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn limit(&self) -> u64 {
        self.inner.limit()
    }

    fn last_level_cache(&self) -> u64 {
        self.inner.last_level_cache()
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.outside(0..0, |inner| inner.grow(len)).unwrap_or_else(|| Err(interrupted()))
    }

    fn check_fence(&self) -> io::Result<()> {
        self.inner.check_fence()
    }

    fn is_usable(&self) -> bool {
        self.inner.is_usable()
    }

    fn is_forked(&self) -> bool {
        self.inner.is_forked()
    }

    fn look(&self) -> io::Result<()> {
        self.inner.look()
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn work(&self, cycles: u32) {
        self.inner.work(cycles);
    }

    unsafe fn load_unchecked(&self, at: u64) -> u64 {
        // SAFETY: the caller upholds the contract.
        self.accessing(at, WORD, false, |inner| unsafe { inner.load_unchecked(at) }).unwrap_or(0)
    }

    unsafe fn store_unchecked(&self, at: u64, value: u64) {
        // SAFETY: the caller upholds the contract.
        self.accessing(at, WORD, true, |inner| unsafe { inner.store_unchecked(at, value) });
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        // SAFETY: the caller upholds the contract.
        self.accessing(at, to.len() as u64, false, |inner| unsafe {
            inner.copy_out_unchecked(at, to);
        });
    }

    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller upholds the contract.
        self.accessing(at, from.len() as u64, true, |inner| unsafe {
            inner.copy_in_unchecked(at, from);
        });
    }

    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        let len = from.len() as u64 * WORD;
        let mut streamed = false;
        self.outside(at..at + len, |_| streamed = true);
        if streamed {
            // Whoever has loaded the lines loses, too.
            // SAFETY: the caller upholds the contract.
            self.accessing(at, len, true, |inner| unsafe { inner.stream_unchecked(at, from) });
        }
    }

    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.accessing(at, WORD, true, |inner| inner.compare_exchange(at, old, new))
            .unwrap_or(Err(!old))
    }

    fn write_back(&self, at: u64, len: u64) {
        self.outside(at..at + len, |inner| inner.write_back(at, len));
    }

    fn fence(&self) {
        self.inner.fence();
    }

    fn give_back_due(&self) -> bool {
        self.inner.give_back_due()
    }

    fn give_back(&self) -> bool {
        self.inner.give_back()
    }

    fn release(&self, pages: Range<u64>) -> io::Result<bool> {
        self.outside(pages.clone(), |inner| inner.release(pages))
            .unwrap_or_else(|| Err(interrupted()))
    }

    fn secure(&self, pages: Range<u64>) -> io::Result<()> {
        self.inner.secure(pages)
    }

    fn unsecured(&self) -> Vec<Range<u64>> {
        self.inner.unsecured()
    }

    fn prefetch(&self, at: u64) {
        self.inner.prefetch(at);
    }

    fn speculation(&self) -> Speculation {
        Speculation::Isolated
    }

    fn accepts_unsafe(&self) -> bool {
        self.accepts_unsafe
    }

    fn speculate(&self) -> Result<(), HardwareAbort> {
        let mut state = self.state();
        let thread = thread_number();
        if state.of(thread).is_some() {
            return Err(HardwareAbort::Nested);
        }
        let is_drawn = state.random.below(100) < u64::from(self.emulation.lost_percent);
        let left = is_drawn.then(|| state.random.below(ACCESSES));
        if left == Some(0) {
            return Err(state.draw_cause());
        }
        let (loaded, stored) = (HashSet::new(), HashSet::new());
        state.running.push(Running { thread, lost: None, left, loaded, stored, old: Vec::new() });
        Ok(())
    }

    fn end_speculation(&self) -> Result<HardwareTicket, HardwareAbort> {
        let mut state = self.state();
        let thread = thread_number();
        if state.of(thread).is_some_and(|running| running.left.is_some()) {
            let why = state.draw_cause();
            state.lose_own(&self.inner, thread, why);
        }
        let index = state.running.iter().position(|running| running.thread == thread);
        let Some(index) = index else { return Err(HardwareAbort::Absent) };
        match state.running.swap_remove(index).lost {
            Some(why) => Err(why),
            None => Ok(HardwareTicket::DURABLE),
        }
    }

    fn stop_speculating(&self, code: u8) {
        let mut state = self.state();
        let thread = thread_number();
        state.lose_own(&self.inner, thread, HardwareAbort::Explicit(code));
        state.running.retain(|running| running.thread != thread);
    }

    fn lost(&self) -> Option<HardwareAbort> {
        self.state().of(thread_number())?.lost
    }

    fn object(&self, _bytes: u64) -> Object {
        self.state().object(None)
    }

    fn words_object(&self, words: &Arc<[OwnWord]>) -> Object {
        self.state().object(Some(words.clone()))
    }

    fn traces_own(&self) -> bool {
        true
    }

    fn touching(
        &self,
        object: Object,
        at: u64,
        len: u64,
        access: Touch,
        step: &mut dyn FnMut(),
    ) -> bool {
        let stores = matches!(access, Touch::Write | Touch::Exchange);
        let mut state = self.state();
        let lines = lines_of(at, len).map(|line| Line::Own(object, line));
        if !state.access(&self.inner, &self.emulation, lines, stores) {
            return false;
        }
        let words =
            object.number().checked_sub(1).and_then(|index| state.words[index as usize].clone());
        if let (true, Some(words), Some(running)) = (stores, words, state.of(thread_number())) {
            let before = words[(at / WORD) as usize].load(crate::atomics::Ordering::SeqCst);
            running.old.push((Place::Own(object, at), before));
        }
        step();
        true
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }
}

/// What the hardware cannot undo did not take place.
fn interrupted() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, HardwareAbort::Unsupported)
}
