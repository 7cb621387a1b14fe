//! A running machine: its hardware, the running core, and the events so far. Every access passes
//! through here, one after the other.

use crate::Ps;
use crate::data::{WORDS, line_number};
use crate::flights::Arrival;
use crate::hardware::Hardware;
use crate::mechanism::How;
use crate::processor::Words;
use crate::schedule::{Scheduler, cores_in};
use crate::sites::{Event, Kind, Sites};
use crate::spin::{SpinWait, Spins};
use perdura_memory::image::{Piece, Site};
use perdura_memory::{LINE, Object, PAGE, PageSet, Touch, WORD, line_of, lines_in};
use std::ops::Range;

/// Rounds of waiting in a row, with nothing stored or computed by any core meanwhile, that mean
/// waiting for ever.
const STUCK: u64 = 500_000;

pub(crate) struct MachineState {
    pub(crate) hardware: Hardware,
    pub(crate) scheduler: Scheduler,
    pub(crate) running: usize,
    /// The running core's turn ends when its clock reaches this.
    pub(crate) horizon: u64,
    /// Whether programs are running on simulated cores.
    pub(crate) inside: bool,
    /// Whether every event is shown to the watcher.
    pub(crate) watched: bool,
    pub(crate) last: Option<Event>,
    pub(crate) events: u64,
    /// See [`Options`](crate::Options).
    pub(crate) before_fences: bool,
    pub(crate) omit: Option<Event>,
    pub(crate) left_out: Vec<u64>,
    pub(crate) sites: Sites,
    /// Rounds of waiting since the last event: in each, every running core has waited. (A core whose clock is
    /// far ahead may get no turn for long, and then find its wait over.)
    pub(crate) quiet: u64,
    /// Cores that have waited in this round, and cores whose programs have not ended, as masks.
    pub(crate) waited: u64,
    pub(crate) alive: u64,
    /// Cores that have done something since they last waited, as a mask.
    pub(crate) busy: u64,
    pub(crate) spins: Spins,
    /// Whether arrivals are shown too, and up to which time they have been.
    pub(crate) at_arrivals: bool,
    pub(crate) shown: Ps,
    /// The time of a requested power cut, which the running core has passed.
    pub(crate) cut_at: Option<Ps>,
    pub(crate) seed: u64,
    pub(crate) pieces: Vec<Piece>,
    /// Pages that were released and not secured since: they must not be stored to.
    pub(crate) released: PageSet,
}

/// What the caller of an access does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Goes on.
    Stay,
    /// Lets another core go on.
    Switch,
    /// Shows the event to the watcher, then goes on.
    Show,
}

impl MachineState {
    /// What follows an access that began with `events` events.
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

    /// Whether the turn is over.
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

    /// The running core does something else than load.
    #[inline]
    pub(crate) fn worked(&mut self) {
        self.busy |= 1 << self.running;
        self.spins.worked(self.running);
    }

    /// The running core takes a line to store to it: cores that sleep for it wake.
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

    /// The running core takes a turn of a spin loop. Returns whether all cores have been waiting for ever.
    pub(crate) fn pause(&mut self) -> bool {
        self.hardware.pause();
        if !self.inside {
            return false;
        }
        if self.spins.pause(self.running) == SpinWait::Blindly {
            // One of the cores that do not wait will end this wait, not before its own clock.
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

    /// The time of a power cut, if the power is cut now.
    pub(crate) fn cut_time(&self) -> Ps {
        self.cut_at.unwrap_or(self.hardware.now())
    }

    /// The arrivals to show before the event that the running core has just caused, with their times.
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

    /// Whether this event is to be left out.
    pub(crate) fn omits(&mut self, kind: Kind, site: Site) -> bool {
        let omitted = self.omit.is_some_and(|omit| omit.is_at(kind, site));
        if omitted {
            self.left_out.push(self.events + 1);
        }
        omitted
    }

    #[inline]
    pub(crate) fn before_access(&mut self) {
        if self.hardware.now() >= self.hardware.agenda.next() {
            self.hardware.do_what_is_due();
        }
    }

    /// A transaction in hardware begins or ends.
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
        self.hardware.accesses(place, How::Load, &[]);
        self.hardware.load(place);
        self.hardware.data.visible[(at / WORD) as usize]
    }

    /// A program touches its own memory: no event.
    #[inline]
    pub(crate) fn touch(&mut self, object: Object, at: u64, len: u64, access: Touch) {
        for line in self.hardware.own.lines(object, at, len) {
            self.before_access();
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
    }

    /// Copies bytes of one line out, as part of a copy: the core does not wait for the line yet.
    pub(crate) fn copy_out(&mut self, at: u64, to: &mut [u8], alone: bool) {
        self.before_access();
        let place = words_at(at, to.len() as u64);
        self.spins.looked(self.running, place.line);
        self.hardware.accesses(place, How::Load, &[]);
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

    /// Lines become zero.
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

    /// The released lines are durable.
    pub(crate) fn released(&mut self, range: Range<u64>, site: Site) {
        self.hardware.fence();
        let now = self.hardware.now();
        self.hardware.data.fence(self.running, now);
        (range.start / PAGE..range.end / PAGE).for_each(|page| self.released.insert(page));
        self.event(Kind::Store, site);
    }

    /// Checks that a program may store there.
    fn stores_to(&self, at: u64) {
        let page = at / PAGE;
        assert!(!self.released.contains(page), "a store to {at:#x}, whose page was released");
    }

    /// Stores to one line.
    pub(crate) fn store(&mut self, pieces: &[Piece], site: Site) {
        let Some(place) = pieces.iter().map(words_of_piece).reduce(together) else { return };
        self.stores_to(place.line * LINE);
        self.before_access();
        if !self.hardware.accesses(place, How::Store, pieces) {
            return;
        }
        self.hardware.data.store(self.running, pieces, site);
        self.hardware.stored(pieces.iter().map(Piece::bytes).sum());
        self.take(place.line);
        self.hardware.store(place);
        self.event(Kind::Store, site);
    }

    pub(crate) fn stream(&mut self, at: u64, from: &[u64], site: Site, pieces: &mut Vec<Piece>) {
        let omitted = self.omits(Kind::Stream, site);
        self.stores_to(at);
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
        if !self.omits(Kind::WriteBack, site) {
            let first = line_of(at);
            let lines = (0..lines_in(at, len)).map(|index| first + index * LINE);
            self.hardware.data.ask(self.running, lines.clone());
            for line in lines {
                self.before_access();
                self.hardware.write_back(line_number(line));
            }
        }
        self.event(Kind::WriteBack, site);
    }

    pub(crate) fn fence(&mut self, site: Site) {
        if !self.omits(Kind::Fence, site) {
            self.hardware.fence();
            let now = self.hardware.now();
            self.hardware.data.fence(self.running, now);
        }
        self.event(Kind::Fence, site);
    }
}

/// The words of the first line that `[at, at + len)` covers.
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

/// The union of words of one line.
fn together(words: Words, more: Words) -> Words {
    debug_assert_eq!(words.line, more.line, "one line");
    Words { line: words.line, mask: words.mask | more.mask }
}
