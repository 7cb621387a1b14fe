//! The changing state of a machine: its hardware, the core whose turn it is, and the events so far. Each access of a
//! program is a method here. An access that matters to durability is also an event: a moment after which the power may
//! be cut.

use crate::Ps;
use crate::data::{WORDS, line_number};
use crate::flights::Arrival;
use crate::hardware::Hardware;
use crate::mechanism::How;
use crate::processor::Words;
use crate::schedule::{Scheduler, cores_in};
use crate::sites::{Event, Kind, Sites};
use crate::spin::{SpinWait, Spins};
use perdura_memory::image::{Piece, Site, lines_of};
use perdura_memory::{HardwareAbort, LINE, Object, PAGE, PageSet, Touch, WORD, line_of, lines_in};
use std::ops::Range;

/// Rounds in which every core only waits, one after the other, that mean waiting for ever.
const STUCK: u64 = 500_000;

pub(crate) struct MachineState {
    pub(crate) hardware: Hardware,
    pub(crate) scheduler: Scheduler,
    /// The core whose turn it is.
    pub(crate) running: usize,
    /// Where cores take turns by their clocks, the last clock of its turn.
    pub(crate) horizon: u64,
    /// Whether programs are running on simulated cores.
    pub(crate) inside: bool,
    /// Whether every event is shown to the watcher.
    pub(crate) watched: bool,
    pub(crate) last: Option<Event>,
    /// The number of events so far.
    pub(crate) events: u64,
    /// See [`Options`](crate::Options), also for `omit` and `at_arrivals`.
    pub(crate) before_fences: bool,
    pub(crate) omit: Option<Event>,
    /// The numbers of the events whose effect was left out.
    pub(crate) left_out: Vec<u64>,
    pub(crate) sites: Sites,
    /// Rounds since the last event in which every living core has waited. (A core whose clock is far ahead may get no
    /// turn for long, and then find its wait over.)
    pub(crate) quiet: u64,
    /// Cores that have waited in this round, as a mask.
    pub(crate) waited: u64,
    /// Cores whose programs have not ended, as a mask.
    pub(crate) alive: u64,
    /// Cores that have done something but load since they last waited, as a mask.
    pub(crate) busy: u64,
    pub(crate) spins: Spins,
    pub(crate) at_arrivals: bool,
    /// The time up to which arrivals were shown to the watcher.
    pub(crate) shown: Ps,
    /// The time at which an arrival is shown, before the running core's clock: a power cut falls then.
    pub(crate) cut_at: Option<Ps>,
    pub(crate) seed: u64,
    /// Room for the pieces of a stream, kept between calls.
    pub(crate) pieces: Vec<Piece>,
    /// Pages that were released and not secured since: programs must not store to them.
    pub(crate) released: PageSet,
    /// See [`Options`](crate::Options).
    pub(crate) spare_pages: Option<u64>,
}

/// What a program does after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It goes on.
    Stay,
    /// It is suspended: another core's turn begins.
    Switch,
    /// It is suspended until the watcher has seen the event.
    Show,
}

impl MachineState {
    /// Returns what the program does after an access; `events` is the number of events before it.
    #[inline]
    pub(crate) fn turn(&mut self, events: u64) -> Turn {
        if !self.inside {
            return Turn::Stay;
        }
        if self.watched && self.events != events {
            return Turn::Show;
        }
        self.switch()
    }

    /// Returns `Switch` if the running core's turn is over, otherwise `Stay`.
    #[inline]
    pub(crate) fn switch(&mut self) -> Turn {
        let clock = self.hardware.now().0;
        if self.scheduler.is_over(clock, self.horizon) { Turn::Switch } else { Turn::Stay }
    }

    /// Begins a core's turn.
    pub(crate) fn turn_of(&mut self, core: usize, horizon: u64) {
        (self.running, self.horizon) = (core, horizon);
        self.hardware.turn_of(core);
    }

    /// Notes that the running core does something but load.
    #[inline]
    pub(crate) fn worked(&mut self) {
        self.busy |= 1 << self.running;
        self.spins.worked(self.running);
    }

    /// The running core takes a line to store to it: cores that wait for a store to this line wake.
    #[inline]
    pub(crate) fn take(&mut self, line: u64) {
        if self.spins.asleep() == 0 {
            return;
        }
        let now = self.hardware.now();
        for core in cores_in(self.spins.taken(self.running, line)) {
            let clock = &mut self.hardware.cores[core].clock;
            *clock = now.max(*clock);
            self.horizon = self.horizon.min(clock.0);
        }
    }

    /// The running core pauses in a spin loop. Returns whether all cores wait for ever.
    pub(crate) fn pause(&mut self) -> bool {
        self.hardware.pause();
        if !self.inside {
            return false;
        }
        if self.spins.pause(self.running) == SpinWait::Blindly {
            // A core that does not wait will end this wait, no earlier than at its own clock.
            let doing = self.alive & !self.spins.asleep() & !self.spins.blind();
            let clocks = cores_in(doing).map(|core| self.hardware.cores[core].clock);
            let first = clocks.min().unwrap_or_default();
            self.hardware.cores[self.running].wait_until(first);
        }
        let core = 1 << self.running;
        self.busy &= !core;
        self.waited |= core;
        if self.waited & self.alive == self.alive {
            self.waited = 0;
            self.quiet += 1;
        }
        self.quiet >= STUCK && self.busy == 0
    }

    /// Counts an event of the running core.
    pub(crate) fn event(&mut self, kind: Kind, site: Site) {
        self.events += 1;
        self.quiet = 0;
        self.worked();
        let event = Event { kind, site, number: self.events, arrival: 0, core: self.running };
        if self.watched {
            self.sites.meet(&event);
        }
        self.last = Some(event);
    }

    /// The time of a power cut that the watcher asks for now.
    pub(crate) fn cut_time(&self) -> Ps {
        self.cut_at.unwrap_or(self.hardware.now())
    }

    /// Takes the arrivals to show before `next`, the running core's last event. Returns them with their times.
    pub(crate) fn take_arrivals(&mut self, next: &Event) -> Vec<(Ps, Event)> {
        let now = self.hardware.now();
        let arrivals = self.hardware.data.arrivals(self.shown, now);
        self.shown = self.shown.max(now);
        let numbered = (1..).zip(arrivals);
        let event = |(arrival, (time, Arrival { name, site })): (u32, (Ps, Arrival))| {
            (time, Event { kind: Kind::Arrival(name), site, arrival, ..*next })
        };
        numbered.map(event).collect()
    }

    /// Returns whether the effect of the next event is left out, and notes its number if so.
    pub(crate) fn omits(&mut self, kind: Kind, site: Site) -> bool {
        let omitted = self.omit.is_some_and(|omit| omit.is_at(kind, site));
        if omitted {
            self.left_out.push(self.events + 1);
        }
        omitted
    }

    /// Does the hardware's timed work that is due.
    #[inline]
    pub(crate) fn before_access(&mut self) {
        if self.hardware.now() >= self.hardware.agenda.next() {
            self.hardware.do_what_is_due();
        }
    }

    /// Does a step of a transaction in hardware, such as its begin or its commit.
    pub(crate) fn transaction<R>(&mut self, step: impl FnOnce(&mut Hardware) -> R) -> R {
        self.before_access();
        self.worked();
        step(&mut self.hardware)
    }

    #[inline]
    pub(crate) fn load(&mut self, at: u64) -> u64 {
        self.before_access();
        self.spins.looked(self.running, line_number(at));
        let place = words_at(at, WORD);
        if !self.hardware.accesses(place, How::Load, &[]) && self.is_lost() {
            return 0;
        }
        self.hardware.load(place);
        self.hardware.data.visible[(at / WORD) as usize]
    }

    /// Whether the running core's speculation is lost: nothing that it does takes place.
    fn is_lost(&self) -> bool {
        self.hardware.is_lost(self.running)
    }

    /// The running core is about to do what a speculation cannot undo. Returns whether it takes place.
    #[inline]
    pub(crate) fn leaves_speculation(&mut self) -> bool {
        if self.hardware.speculates(self.running) {
            self.hardware.lose_here(HardwareAbort::Unsupported);
        }
        !self.is_lost()
    }

    /// A program touches its own memory: no event. Returns whether the touch takes place.
    #[inline]
    pub(crate) fn touch(&mut self, object: Object, at: u64, len: u64, access: Touch) -> bool {
        let how = match access {
            Touch::Read | Touch::Value => How::Load,
            Touch::Write => How::Store,
            Touch::Exchange => How::Exchange,
        };
        for line in self.hardware.own.lines(object, at, len) {
            self.before_access();
            if !self.hardware.touches(line, how) {
                return false;
            }
            match access {
                Touch::Read | Touch::Value => self.spins.looked(self.running, line),
                Touch::Write | Touch::Exchange => {
                    self.worked();
                    self.take(line);
                }
            }
            self.hardware.touch(line, access);
        }
        if matches!(access, Touch::Read | Touch::Value) {
            self.hardware.wait_for_loads();
        }
        // It may be lost by what this touch has pushed out of the caches.
        !self.is_lost()
    }

    /// A touch of a program's own words, together with the access that it stands for. Returns whether they take place.
    pub(crate) fn touching(
        &mut self,
        object: Object,
        (at, len): (u64, u64),
        access: Touch,
        step: &mut dyn FnMut(),
    ) -> bool {
        if !self.touch(object, at, len, access) {
            return false;
        }
        if matches!(access, Touch::Write | Touch::Exchange) {
            let words = self.hardware.own.words(object, at, len);
            self.hardware.keep_own_words(words);
        }
        step();
        true
    }

    /// Copies bytes of one line out. The core waits for the line only if it is `alone` in its copy.
    pub(crate) fn copy_out(&mut self, at: u64, to: &mut [u8], alone: bool) {
        self.before_access();
        let place = words_at(at, to.len() as u64);
        self.spins.looked(self.running, place.line);
        if !self.hardware.accesses(place, How::Load, &[]) && self.is_lost() {
            return to.fill(0);
        }
        match alone {
            true => self.hardware.load(place),
            false => self.hardware.load_overlapping(place),
        }
        let words = &self.hardware.data.visible;
        for (index, byte) in to.iter_mut().enumerate() {
            let at = at + index as u64;
            *byte = words[(at / WORD) as usize].to_ne_bytes()[(at % WORD) as usize];
        }
    }

    /// Streams zeros to lines of pages that are being released.
    pub(crate) fn release(&mut self, range: Range<u64>, site: Site) {
        let core = self.running;
        for at in range.step_by(LINE as usize) {
            self.before_access();
            self.hardware.stored(LINE);
            let zeros: Vec<_> =
                (at..at + LINE).step_by(WORD as usize).map(|at| Piece::word(at, 0)).collect();
            if !self.hardware.accesses(words_at(at, LINE), How::Stream, &zeros) {
                continue;
            }
            self.hardware.data.stream(core, &zeros, site);
            self.take(line_number(at));
            self.hardware.stream(line_number(at));
        }
        self.event(Kind::Store, site);
    }

    /// The running core prefetches a line.
    pub(crate) fn prefetch(&mut self, at: u64) {
        self.before_access();
        self.hardware.prefetch(line_number(at));
    }

    /// Ends the release of pages: a fence makes their zeros durable.
    pub(crate) fn end_release(&mut self, range: Range<u64>, site: Site) {
        self.hardware.fence();
        let now = self.hardware.now();
        self.hardware.data.fence(self.running, now);
        (range.start / PAGE..range.end / PAGE).for_each(|page| self.released.insert(page));
        self.event(Kind::Store, site);
    }

    /// Compares some lines, given by their offsets, with the file; returns whether all have its bytes.
    pub(crate) fn compare_with_file(&mut self, mut lines: impl Iterator<Item = u64>) -> bool {
        let mut bytes = [0; LINE as usize];
        lines.all(|line| {
            self.copy_out(line, &mut bytes, false);
            self.hardware.data.is_as_in_file(line)
        })
    }

    /// Drops the private copy of a page.
    pub(crate) fn drop_copy(&mut self, page: u64) {
        self.before_access();
        self.worked();
        self.hardware.data.drop_copy(page);
        lines_of(page).for_each(|line| self.take(line_number(line)));
    }

    fn check_not_released(&self, at: u64) {
        let page = at / PAGE;
        assert!(!self.released.contains(page), "a store to {at:#x}, whose page was released");
    }

    /// Stores pieces of one line.
    pub(crate) fn store(&mut self, pieces: &[Piece], site: Site) {
        let Some(place) = pieces.iter().map(words_of_piece).reduce(together) else { return };
        self.check_not_released(place.line * LINE);
        self.before_access();
        if !self.hardware.accesses(place, How::Store, pieces) {
            return;
        }
        self.hardware.data.store(self.running, pieces, site);
        self.hardware.stored(pieces.iter().map(Piece::bytes).sum());
        self.take(place.line);
        self.hardware.store(place);
        self.stored(site);
    }

    /// The running core has stored: an event, unless its stores are held, which are part of the event of their commit.
    #[inline]
    pub(crate) fn stored(&mut self, site: Site) {
        if self.hardware.speculates(self.running) || self.is_lost() {
            self.quiet = 0;
            self.worked();
            return;
        }
        self.event(Kind::Store, site);
    }

    /// Stores words past the caches, in one event; `pieces` is room for a line's. Where the streams of this call site
    /// are left out, they are stores into the caches.
    pub(crate) fn stream(&mut self, at: u64, from: &[u64], site: Site, pieces: &mut Vec<Piece>) {
        if !self.leaves_speculation() {
            return;
        }
        let omitted = self.omits(Kind::Stream, site);
        self.check_not_released(at);
        for (index, words) in from.chunks(8).enumerate() {
            self.before_access();
            let at = at + index as u64 * LINE;
            self.hardware.stored(LINE);
            self.take(line_number(at));
            pieces.clear();
            let numbered = words.iter().enumerate();
            pieces
                .extend(numbered.map(|(word, value)| Piece::word(at + word as u64 * WORD, *value)));
            let place = words_at(at, words.len() as u64 * WORD);
            if omitted {
                if self.hardware.accesses(place, How::Store, pieces) {
                    self.hardware.data.store(self.running, pieces, site);
                    self.hardware.store(place);
                }
                continue;
            }
            if !self.hardware.accesses(place, How::Stream, pieces) {
                continue;
            }
            let core = self.running;
            self.hardware.data.stream(core, pieces, site);
            self.hardware.stream(line_number(at));
        }
        self.event(Kind::Stream, site);
    }

    pub(crate) fn write_back(&mut self, at: u64, len: u64, site: Site) {
        if !self.leaves_speculation() {
            return;
        }
        if !self.omits(Kind::WriteBack, site) {
            let first = line_of(at);
            let lines = (0..lines_in(at, len)).map(|index| first + index * LINE);
            self.hardware.data.ask(self.running, lines.clone());
            for line in lines {
                self.before_access();
                let place = words_at(line, LINE);
                self.hardware.accesses(place, How::WriteBack, &[]);
                self.hardware.write_back(place.line);
            }
        }
        self.event(Kind::WriteBack, site);
    }

    pub(crate) fn fence(&mut self, site: Site) {
        if self.is_lost() {
            return;
        }
        if !self.omits(Kind::Fence, site) {
            self.hardware.fence();
            let now = self.hardware.now();
            self.hardware.data.fence(self.running, now);
        }
        self.event(Kind::Fence, site);
    }
}

/// Those words of `[at, at + len)` that lie in its first line.
fn words_at(at: u64, len: u64) -> Words {
    let first = at % LINE / WORD;
    let after = ((at % LINE + len).div_ceil(WORD)).min(WORDS as u64);
    Words {
        line: line_number(at),
        mask: (0xFF << first) as u8 & (0xFF >> (WORDS as u64 - after)) as u8,
    }
}

fn words_of_piece(piece: &Piece) -> Words {
    words_at(piece.at(), piece.bytes())
}

/// The union of two sets of words of one line.
fn together(words: Words, more: Words) -> Words {
    debug_assert_eq!(words.line, more.line, "one line");
    Words { line: words.line, mask: words.mask | more.mask }
}
