//! The machine as a memory: what programs call, and what happens at each call.

use crate::cache::Access;
use crate::data::{Data, Keep, line_number};
use crate::hardware::Hardware;
use crate::mechanism::{Home, Mechanism, Plain};
use crate::run;
use crate::schedule::{Schedule, Scheduler};
use crate::sites::{Event, Kind, Sites};
use crate::stats::Statistics;
use crate::{MachineConfig, Ps};
use perdura_memory::image::{Image, LineWords, Piece, Site};
use perdura_memory::{Domain, LINE, Memory, Survives, WORD, line_of, lines_in};
use std::io;
use std::ops::ControlFlow;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Turns of waiting in a row, with nothing stored or computed by anybody meanwhile, that mean
/// waiting for ever.
const STUCK: u64 = 2_000_000;

/// How a machine is used.
pub struct Options {
    /// Cores; `None` for the configuration's.
    pub cores: Option<usize>,
    /// Bytes that it can grow to.
    pub limit: u64,
    /// The root of everything random.
    pub seed: u64,
    /// How cores take turns.
    pub schedule: Schedule,
    /// How much of the data is kept.
    pub keep: Keep,
    /// A mechanism in its memory controller.
    pub mechanism: Box<dyn Mechanism>,
    /// Ends the mechanism's epoch after this time.
    pub epoch: Option<Ps>,
    /// A call site whose write-backs, streams or fences are left out.
    pub omit: Option<Event>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cores: None,
            limit: 0,
            seed: 0,
            schedule: Schedule::Clock,
            keep: Keep::Durable,
            mechanism: Box::new(Plain),
            epoch: None,
            omit: None,
        }
    }
}

/// A simulated computer, as a memory. See the crate's documentation.
///
/// Programs that use it from threads of the operating system all count as core 0; those that
/// [`run`](Self::run) starts have a core each.
pub struct Machine {
    state: Mutex<State>,
    domain: Domain,
    limit: u64,
    len: AtomicU64,
    cores: usize,
}

pub(crate) struct State {
    hardware: Hardware,
    mechanism: Box<dyn Mechanism>,
    pub(crate) scheduler: Scheduler,
    pub(crate) running: usize,
    /// The clock at which the running core's turn is over.
    pub(crate) horizon: u64,
    /// Programs are running on cores of their own.
    pub(crate) inside: bool,
    /// Every event is shown to whoever watches.
    pub(crate) watched: bool,
    pub(crate) last: Option<Event>,
    events: u64,
    omit: Option<Event>,
    left_out: Vec<u64>,
    pub(crate) sites: Sites,
    /// Turns of waiting since the last event.
    quiet: u64,
    /// Cores that have done something since they last waited, as a mask.
    pub(crate) busy: u64,
    epoch: Option<Ps>,
    epoch_ends: Ps,
    /// The line from which on the home device is the mechanism's.
    first_reserved: u64,
    seed: u64,
    pieces: Vec<Piece>,
}

/// What the caller does after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Goes on.
    Stay,
    /// Lets another core go on.
    Switch,
    /// Shows the event to whoever watches, then goes on.
    Show,
}

impl Machine {
    /// A machine whose memory is `image`, durable, rounded up to whole lines with zeros.
    pub fn new(config: MachineConfig, image: &[u8], options: Options) -> Self {
        let mut words: Vec<u64> = image
            .chunks(WORD as usize)
            .map(|bytes| {
                let mut word = [0; WORD as usize];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_ne_bytes(word)
            })
            .collect();
        words.resize(words.len().next_multiple_of((LINE / WORD) as usize), 0);
        Self::from_words(config, words, options)
    }

    /// A machine whose memory is `words`, durable: whole lines of them.
    ///
    /// # Panics
    /// If they are not whole lines; if a mechanism reserves lines, of which only machines that
    /// keep a durable image have the contents, and only those with transient caches have a use.
    pub fn from_words(config: MachineConfig, words: Vec<u64>, options: Options) -> Self {
        assert!((words.len() as u64 * WORD).is_multiple_of(LINE), "whole lines");
        let Options { cores, limit, seed, schedule, keep, mut mechanism, epoch, omit } = options;
        let cores = cores.unwrap_or(config.cores.count).max(1);
        let (domain, len) = (config.domain, words.len() as u64 * WORD);
        let limit = limit.max(len).next_multiple_of(LINE);
        let lines = limit / LINE;
        let reserved = mechanism.reserves(lines);
        let has_home = keep != Keep::Visible && domain == Domain::Transient;
        assert!(
            reserved == 0 || has_home,
            "a mechanism needs transient caches and a durable image"
        );
        let [limit_words, reserved_words] = [lines, reserved].map(|lines| lines as usize * 8);
        let data = Data::new(words, limit_words, reserved_words, domain, keep);
        let mut hardware = Hardware::new(config, cores, data, (lines, reserved), seed);
        mechanism.start(&mut hardware, lines);
        let state = State {
            hardware,
            mechanism,
            scheduler: Scheduler::new(schedule, seed),
            running: 0,
            horizon: u64::MAX,
            inside: false,
            watched: false,
            last: None,
            events: 0,
            omit,
            left_out: Vec::new(),
            sites: Sites::default(),
            quiet: 0,
            busy: 0,
            epoch,
            epoch_ends: epoch.unwrap_or(Ps(u64::MAX)),
            first_reserved: lines,
            seed,
            pieces: Vec::new(),
        };
        Machine { state: Mutex::new(state), domain, limit, len: AtomicU64::new(len), cores }
    }

    /// How many cores it has.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Runs each program on a core of its own, until all have ended.
    ///
    /// # Panics
    /// When a program panics, when there are more programs than cores, when all of them wait for
    /// something that nobody does, or when programs run on the machine already.
    pub fn run<'a>(&self, programs: Vec<Box<dyn FnOnce() + 'a>>) {
        let _ = run::run(self, programs, None);
    }

    /// As [`run`](Self::run), calling `watch` after every event (see [`Kind`]), with all cores
    /// standing still. When it breaks, the programs are not continued: their stacks are unwound.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_watched<'a, B>(
        &self,
        programs: Vec<Box<dyn FnOnce() + 'a>>,
        mut watch: impl FnMut(&Machine, Event) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut broken = None;
        let mut step = |machine: &Machine, event| match watch(machine, event) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(value) => {
                broken = Some(value);
                ControlFlow::Break(())
            }
        };
        let _ = run::run(self, programs, Some(&mut step));
        broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }

    /// Events so far: stores, exchanges, write-backs, streams and fences, one for each call; a
    /// copy on a machine with persistent caches is one for each of its pieces.
    pub fn events(&self) -> u64 {
        self.state().events
    }

    /// Events at which something was left out.
    pub fn left_out(&self) -> Vec<u64> {
        self.state().left_out.clone()
    }

    /// The call sites of all events so far.
    pub fn sites(&self) -> Sites {
        self.state().sites.clone()
    }

    /// What a power cut leaves now: the durable image as caches, queues and devices have it,
    /// after the mechanism's own recovery.
    ///
    /// # Panics
    /// If the machine keeps no durable image.
    pub fn power_cut(&self) -> Vec<u64> {
        self.power_cut_in_recovery(u64::MAX)
    }

    /// As [`power_cut`](Self::power_cut), with the mechanism's recovery itself cut short after
    /// `stores` stores, and begun again.
    ///
    /// # Panics
    /// If the machine keeps no durable image.
    pub fn power_cut_in_recovery(&self, stores: u64) -> Vec<u64> {
        let state = self.state();
        assert!(state.hardware.data.is_kept(), "a machine that keeps a durable image");
        let mut home = state.hardware.data.cut(state.hardware.now());
        state.mechanism.power_cut(&mut home);
        for stores in [stores, u64::MAX] {
            let mut device = Home::new(&mut home, state.first_reserved, stores);
            state.mechanism.recover(&mut device);
        }
        home.truncate((self.len() / WORD) as usize);
        home
    }

    /// Looks at what the persistency model allows to be durable now, and, line by line, at what
    /// the caches and devices would leave of it (without the mechanism's recovery).
    ///
    /// # Panics
    /// If the machine does not keep it.
    pub fn model<R>(&self, look: impl FnOnce(&Image, &dyn Fn(u64) -> LineWords) -> R) -> R {
        let state = self.state();
        let (data, now) = (&state.hardware.data, state.hardware.now());
        let model = data.model.as_ref().expect("a machine that keeps the model");
        look(model, &|at| data.cut_line(line_number(at), now))
    }

    /// The visible image.
    pub fn visible(&self) -> Vec<u64> {
        self.state().hardware.data.visible.clone()
    }

    /// Ends the mechanism's epoch.
    pub fn end_epoch(&self) {
        self.state().end_epoch();
    }

    /// The running core begins a transaction in hardware.
    pub fn begin(&self) {
        self.step(|state| state.with_mechanism(|hardware, m, core| m.begin(hardware, core)));
    }

    /// The running core commits its transaction in hardware.
    pub fn commit(&self) {
        self.step(|state| state.with_mechanism(|hardware, m, core| m.commit(hardware, core)));
    }

    /// The running core aborts its transaction in hardware.
    pub fn abort(&self) {
        self.step(|state| state.with_mechanism(|hardware, m, core| m.abort(hardware, core)));
    }

    /// Times the accesses of a trace on a core: line numbers, without data. What the memory holds
    /// stays as it is.
    ///
    /// # Panics
    /// If there is no such core, or on a machine that keeps a durable image: it would not know
    /// what is in the lines.
    pub fn replay(&self, core: usize, trace: impl Iterator<Item = (u64, Access)>) {
        let mut state = self.state();
        assert!(core < self.cores, "no such core");
        assert!(!state.hardware.data.is_kept(), "a trace has no data to be durable");
        let before = state.running;
        state.hardware.turn_of(core);
        let State { hardware, mechanism, .. } = &mut *state;
        for (line, access) in trace {
            hardware.replay(&mut **mechanism, line, access);
        }
        hardware.turn_of(before);
    }

    /// The latest of the cores' clocks.
    pub fn time(&self) -> Ps {
        self.state().hardware.cores.iter().map(|core| core.clock).max().unwrap_or_default()
    }

    /// Sets all cores' clocks to the latest of them, and all counters of the statistics to
    /// zero: the warm-up is over. What the caches hold stays.
    pub fn start_measuring(&self) {
        self.state().hardware.start_measuring();
    }

    /// What was counted.
    pub fn statistics(&self) -> Statistics {
        let state = self.state();
        state.hardware.statistics(&*state.mechanism, state.seed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One access by the running core.
    #[inline]
    fn step<R>(&self, access: impl FnOnce(&mut State) -> R) -> R {
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

    fn check(&self, at: u64, len: u64, align: u64) {
        assert!(
            at.is_multiple_of(align) && self.contains(at, len),
            "access to [{at:#x}, +{len}) outside of, or misaligned in, a memory of {:#x} bytes",
            self.len()
        );
    }

    /// Stores without order among themselves: as many events as can be told apart.
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

impl State {
    /// What comes after an access that began with `events`.
    #[inline]
    fn turn(&mut self, events: u64) -> Turn {
        if !self.inside {
            return Turn::Stay;
        }
        if self.watched && self.events != events {
            return Turn::Show;
        }
        self.switch()
    }

    /// Whether another core goes on.
    #[inline]
    pub(crate) fn switch(&mut self) -> Turn {
        let clock = self.hardware.now().0;
        if self.scheduler.is_over(clock, self.horizon) { Turn::Switch } else { Turn::Stay }
    }

    /// Gives a core the turn.
    pub(crate) fn turn_of(&mut self, core: usize, horizon: u64) {
        (self.running, self.horizon) = (core, horizon);
        self.hardware.turn_of(core);
    }

    pub(crate) fn clock_of(&self, core: usize) -> u64 {
        self.hardware.cores[core].clock.0
    }

    fn event(&mut self, kind: Kind, site: Site) {
        self.events += 1;
        self.quiet = 0;
        self.busy |= 1 << self.running;
        let event = Event { kind, site, number: self.events, core: self.running };
        if self.watched {
            self.sites.meet(&event);
        }
        self.last = Some(event);
    }

    /// Whether this event is to be left out.
    fn omits(&mut self, kind: Kind, site: Site) -> bool {
        let omitted = self.omit.is_some_and(|omit| omit.is_at(kind, site));
        if omitted {
            self.left_out.push(self.events + 1);
        }
        omitted
    }

    fn with_mechanism(&mut self, call: impl FnOnce(&mut Hardware, &mut dyn Mechanism, usize)) {
        call(&mut self.hardware, &mut *self.mechanism, self.running);
    }

    fn end_epoch(&mut self) {
        self.mechanism.end_epoch(&mut self.hardware);
        if let Some(epoch) = self.epoch {
            self.epoch_ends = Ps(self.hardware.now().0.saturating_add(epoch.0));
        }
    }

    #[inline]
    fn before_access(&mut self) {
        if self.hardware.now() >= self.epoch_ends || self.mechanism.wants_epoch_end() {
            self.end_epoch();
        }
    }

    #[inline]
    fn load(&mut self, at: u64) -> u64 {
        self.before_access();
        self.hardware.load(&mut *self.mechanism, line_number(at));
        self.hardware.data.visible[(at / WORD) as usize]
    }

    /// Stores to one line.
    fn store(&mut self, pieces: &[Piece], site: Site) {
        let Some(first) = pieces.first() else { return };
        self.before_access();
        self.hardware.data.store(pieces, site);
        self.hardware.stored(pieces.iter().map(Piece::bytes).sum());
        self.hardware.store(&mut *self.mechanism, line_number(first.at()));
        self.event(Kind::Store, site);
    }

    fn stream(&mut self, at: u64, from: &[u64], site: Site, pieces: &mut Vec<Piece>) {
        let omitted = self.omits(Kind::Stream, site);
        for (index, words) in from.chunks(8).enumerate() {
            self.before_access();
            let at = at + index as u64 * LINE;
            self.hardware.stored(LINE);
            pieces.clear();
            let numbered = words.iter().enumerate();
            pieces
                .extend(numbered.map(|(word, value)| Piece::word(at + word as u64 * WORD, *value)));
            if omitted {
                self.hardware.data.store(pieces, site);
                self.hardware.store(&mut *self.mechanism, line_number(at));
                continue;
            }
            let core = self.running;
            self.hardware.data.stream(core, pieces, site);
            self.hardware.stream(&mut *self.mechanism, line_number(at));
        }
        self.event(Kind::Stream, site);
    }

    fn write_back(&mut self, at: u64, len: u64, site: Site) {
        if !self.omits(Kind::WriteBack, site) {
            let first = line_of(at);
            let lines = (0..lines_in(at, len)).map(|index| first + index * LINE);
            if let Some(model) = &mut self.hardware.data.model {
                model.write_back(self.running, lines.clone());
            }
            for line in lines {
                self.before_access();
                self.hardware.write_back(&mut *self.mechanism, line_number(line));
            }
        }
        self.event(Kind::WriteBack, site);
    }

    fn fence(&mut self, site: Site) {
        if !self.omits(Kind::Fence, site) {
            self.hardware.fence();
            let core = self.running;
            if let Some(model) = &mut self.hardware.data.model {
                model.fence(core);
            }
        }
        self.event(Kind::Fence, site);
    }
}

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

    /// Durable when it returns, as a file's length is; no event.
    fn grow(&self, len: u64) -> io::Result<()> {
        if len > self.limit {
            let text = "the machine's memory cannot grow beyond its limit";
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        }
        let mut state = self.state();
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
        let site = Location::caller();
        self.step(|state| state.store(&[Piece::word(at, value)], site));
    }

    unsafe fn copy_out_unchecked(&self, at: u64, to: &mut [u8]) {
        let mut done = 0;
        while done < to.len() {
            let here = at + done as u64;
            let count = ((line_of(here) + LINE - here) as usize).min(to.len() - done);
            self.step(|state| {
                state.load(here & !(WORD - 1));
                let words = &state.hardware.data.visible;
                for (index, byte) in to[done..done + count].iter_mut().enumerate() {
                    let at = here + index as u64;
                    *byte = words[(at / WORD) as usize].to_ne_bytes()[(at % WORD) as usize];
                }
            });
            done += count;
        }
    }

    #[track_caller]
    unsafe fn copy_in_unchecked(&self, at: u64, from: &[u8]) {
        self.copy(at, from, Location::caller());
    }

    #[track_caller]
    unsafe fn stream_unchecked(&self, at: u64, from: &[u64]) {
        let site = Location::caller();
        self.step(|state| {
            let mut pieces = std::mem::take(&mut state.pieces);
            state.stream(at, from, site, &mut pieces);
            state.pieces = pieces;
        });
    }

    #[track_caller]
    fn compare_exchange(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.check(at, WORD, WORD);
        let site = Location::caller();
        self.step(|state| {
            state.before_access();
            let found = state.hardware.data.visible[(at / WORD) as usize];
            if found == old {
                state.hardware.data.store(&[Piece::word(at, new)], site);
            }
            state.hardware.exchange(&mut *state.mechanism, line_number(at));
            if found != old {
                return Err(found);
            }
            state.event(Kind::Store, site);
            Ok(old)
        })
    }

    #[track_caller]
    fn write_back(&self, at: u64, len: u64) {
        self.check(at, len, 1);
        let site = Location::caller();
        self.step(|state| state.write_back(at, len, site));
    }

    #[track_caller]
    fn fence(&self) {
        let site = Location::caller();
        self.step(|state| state.fence(site));
    }

    fn pause(&self, turn: u32) {
        let mut state = self.state();
        state.hardware.pause();
        let inside = state.inside;
        if inside {
            state.quiet += 1;
            state.busy &= !(1 << state.running);
            let stuck = state.quiet >= STUCK && state.busy == 0;
            assert!(!stuck, "every core waits for another one");
        }
        drop(state);
        if inside {
            run::suspend(self, Turn::Switch);
        } else {
            perdura_memory::memory::back_off(turn);
        }
    }

    fn work(&self, cycles: u32) {
        self.step(|state| {
            state.busy |= 1 << state.running;
            state.hardware.work(cycles);
        });
    }

    /// The running core's clock.
    fn now(&self) -> u64 {
        self.state().hardware.now().0 / 1000
    }
}
