//! Calling the mechanisms: which is called when, and what they can do.
//!
//! What always holds: a mechanism is taken out of its place while it is called, so that it can be given all of the
//! hardware. For what it does meanwhile only the other mechanism is called.

use super::Hardware;
use crate::cache::{Hierarchy, Version};
use crate::controller::Fetch;
use crate::data::line_number;
use crate::flights::Arrival;
use crate::mechanism::{
    Accessed, Design, Dirtied, Effect, Flush, How, Leaving, Mechanism, Moments, Plain, Promise,
    Verdict,
};
use crate::processor::Words;
use crate::{Cause, Ps};
use perdura_memory::Speculation;
use perdura_memory::image::{LineWords, Piece};
use std::ops::Range;
use std::panic::Location;

/// Places for mechanisms: one for transactions, which is called first, and one for persistence.
pub(crate) const PLACES: usize = 2;

/// The mechanisms of a machine.
pub(crate) struct Mechanisms {
    designs: [Box<dyn Design>; PLACES],
    built: [Option<Box<dyn Mechanism>>; PLACES],
    own: [Range<u64>; PLACES],
    moments: [Moments; PLACES],
    /// The moments of all mechanisms together.
    any: Moments,
    /// The place of the mechanism being called.
    asked: usize,
}

impl Mechanisms {
    /// For a machine with `lines` lines of the program's and these many cores. [`Hardware::switch_on`] builds the
    /// mechanisms later.
    pub(crate) fn new(designs: [Box<dyn Design>; PLACES], lines: u64, cores: usize) -> Self {
        let mut first = lines;
        let own = [0, 1].map(|place| {
            let begins = first;
            let design = &designs[place];
            first += design.reserves(lines) + design.reserves_for_each_core() * cores as u64;
            begins..first
        });
        let built = [(); PLACES].map(|()| Some(Box::new(Plain) as Box<dyn Mechanism>));
        let moments = [Moments::NONE; PLACES];
        Mechanisms { designs, built, own, moments, any: Moments::NONE, asked: 0 }
    }

    /// Bytes of DRAM that the mechanisms have reserved.
    pub(crate) fn reserved_dram(&self) -> u64 {
        self.designs.iter().map(|design| design.reserves_dram()).sum()
    }

    /// Bytes of DRAM reserved for the mechanisms in the places before that of the one being called.
    pub(super) fn dram_before(&self) -> u64 {
        self.designs[..self.asked].iter().map(|design| design.reserves_dram()).sum()
    }

    /// Lines that the mechanisms have reserved.
    pub(crate) fn reserved(&self) -> u64 {
        self.own.iter().map(|own| own.end - own.start).sum()
    }

    /// The designs, with the lines reserved for each.
    pub(crate) fn designs(&self) -> impl DoubleEndedIterator<Item = (&dyn Design, Range<u64>)> {
        self.designs.iter().map(|design| &**design).zip(self.own.iter().cloned())
    }

    /// What the mechanisms promise about memory after a power cut.
    pub(crate) fn promise(&self) -> Promise {
        let promises = self.designs.iter().map(|design| design.promises());
        promises.fold(
            Promise::Nothing,
            |first, next| {
                if next == Promise::Nothing { first } else { next }
            },
        )
    }

    /// The frequent moments at which the mechanism in a place is called.
    pub(crate) fn moments(&self, place: usize) -> Moments {
        self.moments[place]
    }

    /// The mechanisms save into `home` what residual energy allows when the power is cut.
    pub(crate) fn power_cut(&self, home: &mut [u64]) {
        self.built.iter().flatten().for_each(|mechanism| mechanism.power_cut(home));
    }

    /// What the mechanism in the place for transactions does for speculations.
    pub(crate) fn speculation(&self) -> Speculation {
        self.built[0].as_ref().map_or(Speculation::Absent, |mechanism| mechanism.speculation())
    }

    /// Their names in results, joined.
    pub(crate) fn name(&self) -> String {
        let names: Vec<_> = self.designs.iter().map(|design| design.name()).collect();
        let some: Vec<_> = names.iter().copied().filter(|name| *name != Plain.name()).collect();
        if some.is_empty() { Plain.name().to_owned() } else { some.join("+") }
    }

    /// Their figures count from here on.
    pub(crate) fn start_measuring(&mut self) {
        self.built.iter_mut().flatten().for_each(|mechanism| mechanism.start_measuring());
    }

    /// Their figures.
    pub(crate) fn figures(&self) -> Vec<(&'static str, u64)> {
        self.built.iter().flatten().flat_map(|mechanism| mechanism.figures()).collect()
    }
}

/// Calls from the machine to the mechanisms.
impl Hardware {
    /// The mechanisms are switched on.
    pub(crate) fn switch_on(&mut self) {
        for place in 0..PLACES {
            // Building a mechanism may use what the mechanism before it has set up.
            let own = self.mechanisms.own[place].clone();
            let plain: Box<dyn Design> = Box::new(Plain);
            let design = std::mem::replace(&mut self.mechanisms.designs[place], plain);
            self.mechanisms.asked = place;
            let built = design.build(self, own);
            let mechanisms = &mut self.mechanisms;
            mechanisms.designs[place] = design;
            mechanisms.moments[place] = built.moments();
            mechanisms.any = mechanisms.any | built.moments();
            if built.moments() != Moments::NONE {
                self.data.show();
            }
            mechanisms.built[place] = Some(built);
        }
    }

    /// Whether some mechanism is called at this moment.
    #[inline(always)]
    pub(crate) fn asks(&self, moment: Moments) -> bool {
        self.mechanisms.any.have(moment)
    }

    /// Calls one mechanism, unless it is the one being called already.
    pub(super) fn ask<R>(
        &mut self,
        place: usize,
        question: impl FnOnce(&mut dyn Mechanism, &mut Hardware) -> R,
    ) -> Option<R> {
        let mut mechanism = self.mechanisms.built[place].take()?;
        let asked = std::mem::replace(&mut self.mechanisms.asked, place);
        let answer = question(&mut *mechanism, self);
        self.mechanisms.asked = asked;
        self.mechanisms.built[place] = Some(mechanism);
        if self.asks(Moments::CACHES) {
            self.leave_caches();
        }
        Some(answer)
    }

    /// Dirty lines that a mechanism has pushed out of the caches leave them, now that it can be called about them; and
    /// departures from single caches are reported.
    #[cold]
    fn leave_caches(&mut self) {
        for line in std::mem::take(&mut self.pushed_out) {
            self.hand_over(line, Cause::Eviction);
        }
        self.tell_departures();
    }

    /// Reports what has left single caches, if some mechanism is called for that.
    #[inline(always)]
    pub(super) fn tell_departures(&mut self) {
        if self.asks(Moments::CACHES) {
            self.tell_each_departure();
        }
    }

    #[cold]
    fn tell_each_departure(&mut self) {
        for departure in self.hierarchy.take_departures() {
            let own = self.is_own(departure.line);
            self.ask_each(if own { Moments::OWN } else { Moments::CACHES }, |it, hardware| {
                it.departed(hardware, &departure);
            });
        }
        for version in self.hierarchy.take_displaced() {
            self.ask_each(Moments::CACHES, |mechanism, hardware| {
                mechanism.displaced(hardware, &version);
            });
        }
    }

    /// Calls the mechanisms that want this moment, one after the other.
    fn ask_each(
        &mut self,
        moment: Moments,
        mut question: impl FnMut(&mut dyn Mechanism, &mut Hardware),
    ) {
        for place in 0..PLACES {
            if self.mechanisms.moments[place].have(moment) {
                self.ask(place, &mut question);
            }
        }
    }

    /// A core is about to access words of the pool.
    #[cold]
    fn ask_access(&mut self, moments: Moments, line: u64, how: How, stores: &[Piece]) -> Effect {
        match self.ask_access_in(0, moments, (line, how), stores) {
            Effect::Happens => self.ask_access_in(1, moments, (line, how), stores),
            Effect::Lost => Effect::Lost,
        }
    }

    /// As [`ask_access`](Self::ask_access), in one place. The second one is told of a speculation's stores when it
    /// commits. Nothing that a core with a lost speculation does takes place.
    fn ask_access_in(
        &mut self,
        place: usize,
        moments: Moments,
        (line, how): (u64, How),
        stores: &[Piece],
    ) -> Effect {
        let core = self.core;
        if self.is_lost(core) {
            return Effect::Lost;
        }
        let held = place > 0 && !stores.is_empty() && self.speculates(core);
        if held || !self.mechanisms.moments[place].have(moments) {
            return Effect::Happens;
        }
        // The first place may have put words back that another core had stored.
        let before = self.data.committed_line(line);
        let access = Accessed { core, line, how, stores, before };
        let ask = self.ask(place, |mechanism, hardware| mechanism.accessed(hardware, &access));
        if self.is_lost(core) { Effect::Lost } else { ask.unwrap_or(Effect::Happens) }
    }

    /// A core is about to touch a line of its own memory.
    #[cold]
    pub(super) fn ask_touch(&mut self, line: u64, how: How) -> Effect {
        let core = self.core;
        if self.is_lost(core) {
            return Effect::Lost;
        }
        let access = Accessed { core, line, how, stores: &[], before: [0; 8] };
        self.ask_each(Moments::OWN, |mechanism, hardware| {
            mechanism.accessed(hardware, &access);
        });
        if self.is_lost(core) { Effect::Lost } else { Effect::Happens }
    }

    /// The line that the caches fetch instead of `line`, which none of them has.
    pub(super) fn ask_fill(&mut self, mut line: u64) -> u64 {
        let core = self.core;
        self.ask_each(Moments::FILL, |mechanism, hardware| {
            line = mechanism.filled(hardware, core, line);
        });
        line
    }

    /// Puts the lines of the fetched block into `places`. Returns the time from which they can be read.
    pub(super) fn ask_fetch(&mut self, fetch: &Fetch, places: &mut [u64]) -> Ps {
        let mut fetch = *fetch;
        self.ask_each(Moments::HOME, |mechanism, hardware| {
            fetch.now = fetch.now.max(mechanism.fetched(hardware, &fetch, places));
        });
        fetch.now
    }

    /// A dirty line has come into the DRAM cache.
    pub(super) fn tell_dirtied(&mut self, dirtied: &Dirtied) {
        self.ask_each(Moments::HOME, |mechanism, hardware| {
            mechanism.dirtied(hardware, dirtied);
        });
    }

    /// What becomes of a dirty line that leaves the caches or goes home: where it is written, and the earliest time.
    ///
    /// # Errors
    /// The mechanism keeps it: the time from which it is as durable as the mechanism makes it.
    pub(super) fn ask_leaving(
        &mut self,
        moment: Moments,
        mut leaving: Leaving,
    ) -> Result<(u64, Ps), Ps> {
        for place in 0..PLACES {
            if !self.mechanisms.moments[place].have(moment) {
                continue;
            }
            let verdict = self.ask(place, |mechanism, hardware| match moment {
                Moments::EVICTION => mechanism.evicted(hardware, &leaving),
                _ => mechanism.leaves(hardware, &leaving),
            });
            match verdict {
                None | Some(Verdict::Allow) => {}
                Some(Verdict::After(time)) => leaving.from = leaving.from.max(time),
                Some(Verdict::Redirect(line)) => leaving.line = line,
                Some(Verdict::RedirectAfter(line, time)) => {
                    (leaving.line, leaving.from) = (line, leaving.from.max(time));
                }
                Some(Verdict::Hold(durable)) => return Err(durable),
            }
        }
        Ok((leaving.line, leaving.from))
    }

    /// Calls the mechanism in a place at a time that it has [scheduled](Self::schedule).
    pub(super) fn tell_due(&mut self, place: usize, number: u64) {
        self.ask(place, |mechanism, hardware| mechanism.due(hardware, number));
    }

    /// An epoch ends.
    pub(crate) fn end_epoch(&mut self) {
        self.data.note_epoch();
        let begun = self.now();
        self.checkpointing = true;
        let mut ends = self.mechanisms.promise() == Promise::Epoch;
        for place in 0..PLACES {
            let flush = self.ask(place, |mechanism, hardware| mechanism.end_epoch(hardware));
            ends |= flush.is_some_and(|flush| flush != Flush::Nothing);
            let home = match flush {
                Some(Flush::Everything) => {
                    let in_dram = self.flush_caches();
                    self.flush_dram(in_dram)
                }
                Some(Flush::Caches) => self.flush_caches(),
                _ => self.now(),
            };
            self.ask(place, |mechanism, hardware| mechanism.epoch_is_home(hardware, home));
            self.all_wait_until(home);
        }
        self.checkpointing = false;
        // The clock ends epochs of mechanisms that know none too.
        self.checkpoints.epochs += u64::from(ends);
        self.checkpoints.wait_ps += self.now().since(begun);
        self.agenda.epoch_has_ended();
    }
}

/// What mechanisms can do.
impl Hardware {
    /// The clock of the accessing core; for background work, the time at which it is due.
    #[inline]
    pub fn now(&self) -> Ps {
        self.cores[self.core].clock
    }

    /// How long a number of the cores' cycles takes.
    pub fn cycles(&self, cycles: u32) -> Ps {
        Ps(self.cycle.0 * u64::from(cycles))
    }

    /// Lines of the home device, the mechanisms' own included.
    pub fn home_lines(&self) -> u64 {
        self.limit_lines + self.mechanisms.reserved()
    }

    /// A line of the home device, writes on their way included, but not those that
    /// [`write_home_at`](Self::write_home_at) has scheduled. Takes no simulated time; [`read_home`](Self::read_home)
    /// does.
    pub fn home_line(&self, line: u64) -> LineWords {
        self.data.home_line(line)
    }

    /// When the last write of a line that is on its way to the home device is durable.
    pub fn on_its_way(&self, line: u64) -> Option<Ps> {
        self.data.on_its_way(line)
    }

    /// When all lines that have left for the home device so far will be durable, or some earlier time if they are.
    pub fn all_durable(&self) -> Ps {
        self.data.last_arrival()
    }

    /// A line as programs see it, without the stores of cores that speculate.
    pub fn visible_line(&self, line: u64) -> LineWords {
        self.data.committed_line(line)
    }

    /// Replaces the contents of a line in all caches that have it, to undo a transaction.
    pub fn restore_line(&mut self, line: u64, words: LineWords) {
        self.data.restore(line, words);
    }

    /// Starts to read a line of the home device past the caches. Returns when it is there.
    pub fn read_home(&mut self, line: u64) -> Ps {
        let now = self.now();
        self.controller.read_home(line, now)
    }

    /// As [`read_home`](Self::read_home), of a line that no program waits for: the device gives it what is left by those
    /// that do, where lines are durable at the media (elsewhere they share its read queue).
    pub fn read_home_in_background(&mut self, line: u64) -> Ps {
        let now = self.now();
        self.controller.read_home_in_background(line, now)
    }

    /// Writes a line of the home device, not before `earliest`, past the caches and the DRAM cache, which keep what
    /// they have of it, dirty or not. Returns when it is durable. That moment is a crash point, with this name.
    #[track_caller]
    pub fn write_home(
        &mut self,
        name: &'static str,
        line: u64,
        words: LineWords,
        earliest: Ps,
    ) -> Ps {
        let arrival = Arrival { name, site: Location::caller() };
        self.put_home(arrival, line, words, earliest)
    }

    /// As [`write_home`](Self::write_home), for a line that must not be durable before the second of the times: the
    /// controller, which knows the least time that the device takes, holds it back accordingly. So lines of one group
    /// are issued one after the other without waiting for any (LOC 3.2).
    #[track_caller]
    pub fn write_home_behind(
        &mut self,
        name: &'static str,
        line: u64,
        words: LineWords,
        (earliest, behind): (Ps, Ps),
    ) -> Ps {
        let arrival = Arrival { name, site: Location::caller() };
        let from = earliest.max(behind.since(self.controller.least_write()));
        self.put_home(arrival, line, words, from)
    }

    /// As [`write_home`](Self::write_home), for a line's newest contents: a copy in the DRAM cache is updated, and is
    /// clean.
    #[track_caller]
    pub fn write_through(
        &mut self,
        name: &'static str,
        line: u64,
        words: LineWords,
        earliest: Ps,
    ) -> Ps {
        let arrival = Arrival { name, site: Location::caller() };
        let from = self.now().max(earliest);
        self.controller.written_through(line, from);
        self.data.forget_dram(line);
        self.put_home(arrival, line, words, earliest)
    }

    /// As [`write_home`](Self::write_home), for a line that nothing waits for: it is handed over at `at`, and does not
    /// occupy the device before.
    #[track_caller]
    pub fn write_home_at(&mut self, name: &'static str, line: u64, words: LineWords, at: Ps) {
        let arrival = Arrival { name, site: Location::caller() };
        self.agenda.write(at, arrival, line, words);
    }

    pub(super) fn put_home(
        &mut self,
        arrival: Arrival,
        line: u64,
        words: LineWords,
        earliest: Ps,
    ) -> Ps {
        let now = self.now();
        let from = now.max(earliest);
        self.controller.count(Cause::Mechanism);
        let written = self.controller.write_home(line, now, from);
        self.write_backs.mechanism += 1;
        self.checkpoints.mechanism_lines += u64::from(self.checkpointing);
        let durable = written.durable.unwrap_or(written.accepted);
        self.data.land_if_crowded(now);
        self.data.depart(arrival, line, words, durable, None);
        durable
    }

    /// As [`write_home`](Self::write_home), by a non-temporal store of the running core: the line takes one of the core's
    /// line buffers until it is accepted, the core goes on if one is free, and its next fence waits until the line is
    /// durable.
    #[track_caller]
    pub fn stream_home(&mut self, name: &'static str, line: u64, words: LineWords) -> Ps {
        let arrival = Arrival { name, site: Location::caller() };
        let now = self.now();
        self.controller.count(Cause::Mechanism);
        let written = self.controller.write_home(line, now, now);
        self.write_backs.mechanism += 1;
        let durable = written.durable.unwrap_or(written.accepted);
        self.data.depart(arrival, line, words, durable, Some(self.core));
        self.cores[self.core].line_until(written.accepted, durable, &self.config.cores);
        durable
    }

    /// Writes a line of the mechanism's own non-volatile storage outside the home device (a cache, a table). The
    /// mechanism says how long that takes: the line is durable at `durable`. Such storage is among the mechanism's
    /// reserved lines.
    #[track_caller]
    pub fn keep(&mut self, name: &'static str, line: u64, words: LineWords, durable: Ps) {
        let arrival = Arrival { name, site: Location::caller() };
        let now = self.now();
        self.data.land_if_crowded(now);
        self.data.depart(arrival, line, words, durable, None);
    }

    /// The caches: to mark lines, to look lines up, to set replacement rules, to drop versions.
    pub fn caches(&mut self) -> &mut Hierarchy {
        &mut self.hierarchy
    }

    /// Puts a version of a line into a cache, where it takes a way of the line's set; false if the set may give up
    /// nothing. Lines that it pushes out leave the caches when the mechanism's method has returned, as in an access.
    /// Takes no time by itself.
    pub fn put_version(&mut self, core: usize, level: usize, line: u64, version: Version) -> bool {
        let put = self.hierarchy.put_version(core, level, line, version);
        self.pushed_out.extend_from_slice(self.hierarchy.evicted());
        put
    }

    /// Schedules a call of [`due`](Mechanism::due) with this number at this time.
    pub fn schedule(&mut self, at: Ps, number: u64) {
        let place = self.mechanisms.asked;
        self.agenda.call(at, place, number);
    }

    /// The epoch ends before the next access.
    pub fn request_epoch_end(&mut self) {
        self.agenda.request_epoch_end();
    }

    /// This core waits for the end of the epoch, and calls [`flush`](Mechanism::flush) again then. It ends by the clock,
    /// if that ends epochs, and otherwise before the next access.
    pub fn await_epoch_end(&mut self, core: usize) {
        match self.agenda.epoch_end() {
            Some(at) => self.wait_until(core, at),
            None => self.agenda.request_epoch_end(),
        }
        self.awaits_epoch = true;
    }

    /// The oldest ended epoch not yet reported durable is durable from `at` on. A mechanism that promises
    /// [epochs](Promise::Epoch) calls this once for each epoch.
    pub fn promise(&mut self, at: Ps) {
        self.data.promise(at);
    }

    /// No core goes on before `time`.
    pub fn all_wait_until(&mut self, time: Ps) {
        for core in &mut self.cores {
            core.clock = core.clock.max(time);
        }
    }

    /// This core does not go on before `time`.
    pub fn wait_until(&mut self, core: usize, time: Ps) {
        self.cores[core].wait_until(time);
    }

    /// How many cores there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The configuration.
    pub fn config(&self) -> &crate::MachineConfig {
        &self.config
    }
}

/// Calls at each access, if a mechanism wants them.
impl Hardware {
    /// As [`ask_access`](Self::ask_access), for words of a line. Returns whether the access takes place.
    #[inline(always)]
    pub(crate) fn accesses(&mut self, place: Words, how: How, stores: &[Piece]) -> bool {
        let moments = moments_of(how);
        !self.asks(moments) || self.ask_access(moments, place.line, how, stores) == Effect::Happens
    }

    /// As [`accesses`](Self::accesses), for a compare-and-swap of the word at `at`. Returns the word that it finds, once
    /// what it makes other cores lose is undone, and whether it takes place.
    #[inline]
    pub(crate) fn exchanges(&mut self, at: u64, old: u64, new: u64) -> (u64, bool) {
        let (word, how) = ((at / 8) as usize, How::Exchange);
        let moments = moments_of(how);
        if !self.asks(moments) {
            return (self.data.visible[word], true);
        }
        let line = line_number(at);
        let mut happens = true;
        for place in 0..PLACES {
            let stored = [Piece::word(at, new)];
            let stored = if self.data.visible[word] == old { &stored[..] } else { &[] };
            happens &= self.ask_access_in(place, moments, (line, how), stored) == Effect::Happens;
        }
        (self.data.visible[word], happens)
    }
}

/// The moments at which mechanisms are called for an access.
#[inline(always)]
fn moments_of(how: How) -> Moments {
    match how {
        How::Load => Moments::ACCESS,
        How::Store | How::Exchange | How::Stream => Moments::ACCESS | Moments::STORE,
        How::Prefetch | How::WriteBack => Moments::REQUEST,
    }
}
