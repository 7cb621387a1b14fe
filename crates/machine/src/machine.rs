//! The machine: its options, its state, and power cuts.

use crate::cache::Access;
use crate::data::{Data, Keep, line_number};
use crate::hardware::{Hardware, Mechanisms};
use crate::mechanism::{Design, Home, Plain, Promise};
use crate::schedule::{Schedule, Scheduler};
use crate::sites::{Event, Sites};
use crate::spin::Spins;
use crate::state::MachineState;
use crate::stats::Statistics;
use crate::{MachineConfig, Ps};
use perdura_memory::image::{Image, LineWords, words_of};
use perdura_memory::{Domain, LINE, Memory, PageSet, Speculation, WORD};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// A mechanism in hardware for persistence, in caches or memory controller.
    pub mechanism: Box<dyn Design>,
    /// A mechanism in hardware for transactions: for speculations ([`Memory::speculate`]).
    pub transactions: Box<dyn Design>,
    /// Whether engines that are not crash-sync-safe on this machine are started all the same
    /// ([`Memory::accepts_unsafe`]).
    pub accepts_unsafe: bool,
    /// Ends the mechanisms' epochs after this time.
    pub epoch: Option<Ps>,
    /// [Watched](Machine::run_watched) programs are also shown arrivals in the persistence domain, before the event
    /// that follows: crash points inside what the hardware does by itself. For machines with transient caches.
    pub at_arrivals: bool,
    /// [Watched](Machine::run_watched) programs may also be suspended before a fence; the watcher is called
    /// there with the preceding event once more.
    pub before_fences: bool,
    /// A call site whose write-backs, streams or fences are left out.
    pub omit: Option<Event>,
    /// Begins with what a process that died has left: the durable and possibly durable contents of the memory,
    /// instead of all of it being durable. The machine must keep the [model](Keep::Model); a power cut then
    /// leaves the least that the model allows, since the caches do not determine it.
    pub left: Option<Image>,
    /// The mechanisms' own lines, as a [power cut](Machine::cut) has left them; any beyond these are zero.
    pub own: Vec<u64>,
    /// The fence with this number, counted from 1, fails, and so do those after it: no write-back becomes
    /// durable from there on ([`Memory::check_fence`] reports it). For machines whose domain is [`Domain::Media`].
    pub failing_fence: Option<u64>,
    /// Programs are to give copies of pages back when they have this many more than before
    /// ([`Memory::give_back_due`]); `None` for never. For machines whose domain is [`Domain::Media`] and that keep the
    /// [model](Keep::Model).
    pub spare_pages: Option<u64>,
    /// With a [seeded](Schedule::Seeded) schedule, a core now and then waits for many turns of the others, as a thread
    /// that the system has preempted.
    pub preempts: bool,
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
            transactions: Box::new(Plain),
            accepts_unsafe: false,
            epoch: None,
            at_arrivals: false,
            before_fences: false,
            omit: None,
            left: None,
            own: Vec::new(),
            failing_fence: None,
            spare_pages: None,
            preempts: false,
        }
    }
}

/// What a power cut leaves, after the mechanisms' recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfterCut {
    /// The memory.
    pub words: Vec<u64>,
    /// The mechanisms' own lines: [`Options::own`] of the next machine.
    pub own: Vec<u64>,
    /// Stores of the last recovery, the one that was not cut short.
    pub stores: u64,
}

/// A simulated computer, as a memory. See the crate's documentation.
///
/// Programs that use it from threads of the operating system all count as core 0; those that
/// [`run`](Self::run) starts have a core each.
pub struct Machine {
    state: Mutex<MachineState>,
    pub(crate) domain: Domain,
    pub(crate) limit: u64,
    pub(crate) len: AtomicU64,
    pub(crate) last_level_cache: u64,
    pub(crate) speculation: Speculation,
    pub(crate) accepts_unsafe: bool,
    cores: usize,
}

impl Machine {
    /// A machine whose memory is `image`, durable, rounded up to whole lines with zeros.
    pub fn new(config: MachineConfig, image: &[u8], options: Options) -> Self {
        Self::from_words(config, words_of(image), options)
    }

    /// A machine whose memory is `words`, durable: whole lines of them.
    ///
    /// # Panics
    /// If they are not whole lines; if a mechanism reserves lines on a machine with persistent caches; if one makes
    /// speculations durable and another one [promises](crate::mechanism::Promise) something else, to which its recovery
    /// would go back; if [`Options::own`] has more lines than the mechanisms reserve; if the image that a dead process
    /// has [left](Options::left) is of another length, or the machine does not keep the model.
    pub fn from_words(config: MachineConfig, words: Vec<u64>, options: Options) -> Self {
        assert!((words.len() as u64 * WORD).is_multiple_of(LINE), "whole lines");
        let Options { cores, limit, seed, schedule, keep, omit, left, own, .. } = options;
        let Options { epoch, at_arrivals, failing_fence, before_fences, spare_pages, .. } = options;
        let fits = |left: &Image| keep == Keep::Model && left.certain().len() == words.len();
        assert!(left.as_ref().is_none_or(fits), "what a dead process left is of this memory");
        let cores = cores.unwrap_or(config.cores.count).max(1);
        let (domain, len) = (config.domain, words.len() as u64 * WORD);
        let limit = limit.max(len).next_multiple_of(LINE);
        let lines = limit / LINE;
        let last_level_cache = config.caches.last().map_or(0, |level| level.bytes);
        let mechanisms = Mechanisms::new([options.transactions, options.mechanism], lines, cores);
        let (reserved, promise) = (mechanisms.reserved(), mechanisms.promise());
        assert!(reserved == 0 || domain == Domain::Transient, "a mechanism needs transient caches");
        let [limit_words, reserved_words] = [lines, reserved].map(|lines| lines as usize * 8);
        assert!(own.len() <= reserved_words, "contents of {reserved} lines of mechanisms");
        let mut data = Data::new(words, limit_words, (own, reserved_words), domain, keep, left);
        data.fail_fences(failing_fence);
        if keep != Keep::Visible {
            data.keep_promise(promise);
        }
        let mut hardware = Hardware::new(config, cores, data, mechanisms, (lines, epoch), seed);
        hardware.switch_on();
        let speculation = hardware.mechanisms.speculation();
        let alone = promise == Promise::Nothing || speculation != Speculation::Durable;
        assert!(alone, "speculations that are durable do not go together with this mechanism");
        let state = MachineState {
            hardware,
            scheduler: Scheduler::new(schedule, seed, options.preempts),
            running: 0,
            horizon: u64::MAX,
            inside: false,
            watched: false,
            last: None,
            events: 0,
            before_fences,
            omit,
            left_out: Vec::new(),
            sites: Sites::default(),
            quiet: 0,
            waited: 0,
            alive: 0,
            busy: 0,
            spins: Spins::default(),
            at_arrivals: at_arrivals && domain == Domain::Transient,
            shown: Ps::default(),
            cut_at: None,
            seed,
            pieces: Vec::new(),
            released: PageSet::default(),
            spare_pages,
        };
        let len = AtomicU64::new(len);
        Machine {
            state: Mutex::new(state),
            domain,
            limit,
            len,
            last_level_cache,
            speculation,
            accepts_unsafe: options.accepts_unsafe,
            cores,
        }
    }

    /// How many cores it has.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Events so far: stores, exchanges, write-backs, streams, fences and commits of speculations, one for each call (of
    /// a speculation the commit alone, if it has stored anything); on a
    /// machine with persistent caches, a copy is one event for each of its pieces.
    pub fn events(&self) -> u64 {
        self.state().events
    }

    /// Events at which something was left out.
    pub fn left_out(&self) -> Vec<u64> {
        self.state().left_out.clone()
    }

    /// The core whose fence was the first to fail.
    pub fn failed_on(&self) -> Option<usize> {
        self.state().hardware.data.failed_on()
    }

    /// The call sites of all events so far.
    pub fn sites(&self) -> Sites {
        self.state().sites.clone()
    }

    /// What a power cut leaves now: the durable image that follows from caches, queues and devices,
    /// after the mechanism's own recovery.
    ///
    /// # Panics
    /// If the machine keeps no durable image.
    pub fn power_cut(&self) -> Vec<u64> {
        self.cut(&[]).words
    }

    /// As [`power_cut`](Self::power_cut), with the mechanism's recovery itself cut short after
    /// `stores` stores, and begun again.
    ///
    /// # Panics
    /// If the machine keeps no durable image.
    pub fn power_cut_in_recovery(&self, stores: u64) -> Vec<u64> {
        self.cut(&[stores]).words
    }

    /// What a power cut leaves now, the mechanisms' own lines included. For each number in `recoveries` the mechanisms'
    /// recovery is cut short after that many stores; a last recovery then runs to its end.
    ///
    /// # Panics
    /// If the machine keeps no durable image.
    pub fn cut(&self, recoveries: &[u64]) -> AfterCut {
        let state = self.state();
        let (data, mechanisms) = (&state.hardware.data, &state.hardware.mechanisms);
        assert!(data.is_kept(), "a machine that keeps a durable image");
        let mut words = data.cut(state.cut_time());
        mechanisms.power_cut(&mut words);
        let mut left = u64::MAX;
        for stores in recoveries.iter().copied().chain([u64::MAX]) {
            left = stores;
            // Persistence first: it restores the lines that transactions were written to.
            for (design, own) in mechanisms.designs().rev() {
                let mut device = Home::new(&mut words, own, left);
                design.recover(&mut device);
                left = device.left();
            }
        }
        let own = words.split_off((self.limit / WORD) as usize);
        words.truncate((self.len() / WORD) as usize);
        AfterCut { words, own, stores: u64::MAX - left }
    }

    /// The first word of `left`, which [`power_cut`](Self::power_cut) has returned, that breaks the mechanism's
    /// [promise](crate::mechanism::Promise).
    pub fn broken_promise(&self, left: &[u64]) -> Option<usize> {
        let state = self.state();
        state.hardware.data.broken_promise(left, state.cut_time())
    }

    /// The time of a power cut now: that of an arrival that the watcher is shown, or else the running core's clock.
    /// With a [seeded](Schedule::Seeded) schedule, in which the cores' clocks disagree, the machine may count it as later.
    pub fn cut_time(&self) -> Ps {
        self.state().cut_time()
    }

    /// Calls `look` with what the persistency model allows to be durable now, and with a function that returns, for a
    /// line, what the caches and devices would leave (without the mechanism's recovery).
    ///
    /// # Panics
    /// If the machine does not keep the model.
    pub fn model<R>(&self, look: impl FnOnce(&Image, &dyn Fn(u64) -> LineWords) -> R) -> R {
        let state = self.state();
        let (data, now) = (&state.hardware.data, state.cut_time());
        let model = data.model.as_ref().expect("a machine that keeps the model");
        look(model, &|at| data.cut_line(line_number(at), now))
    }

    /// The visible image.
    pub fn visible(&self) -> Vec<u64> {
        self.state().hardware.data.visible.clone()
    }

    /// Ends the mechanisms' epoch.
    pub fn end_epoch(&self) {
        let mut state = self.state();
        state.hardware.request_epoch_end();
        state.before_access();
    }

    /// Times the accesses of a trace on a core: line numbers, without data. The contents of the memory do not change.
    ///
    /// # Panics
    /// If there is no such core, or on a machine that keeps a durable image: the stores of a trace have no data.
    pub fn replay(&self, core: usize, trace: impl Iterator<Item = (u64, Access)>) {
        let mut state = self.state();
        assert!(core < self.cores, "no such core");
        assert!(!state.hardware.data.is_kept(), "a trace has no data to be durable");
        let before = state.running;
        state.hardware.turn_of(core);
        for (line, access) in trace {
            state.before_access();
            state.hardware.replay(line, access);
        }
        state.hardware.turn_of(before);
    }

    /// The latest of the cores' clocks.
    pub fn time(&self) -> Ps {
        self.state().hardware.latest()
    }

    /// Sets all cores' clocks to the latest of them, and all counters of the statistics to
    /// zero: the warm-up is over. The contents of the caches stay.
    pub fn start_measuring(&self) {
        self.state().hardware.start_measuring();
    }

    /// The statistics since the start, or since the last [`start_measuring`](Self::start_measuring).
    pub fn statistics(&self) -> Statistics {
        let state = self.state();
        state.hardware.statistics(state.seed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, MachineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
