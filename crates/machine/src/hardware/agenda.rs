//! Timed work that no core's access causes: the ends of epochs, writes that nothing waits for, and calls that
//! mechanisms have scheduled.
//!
//! What always holds: `next` is no later than any of them, so that an access compares with one number. Work that is
//! due is done before the first access of a core whose clock has reached it; it is charged to no core, and begins at
//! its own time.

use super::Hardware;
use crate::Ps;
use crate::flights::Arrival;
use perdura_memory::image::LineWords;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NEVER: Ps = Ps(u64::MAX);

/// A piece of work.
#[derive(Debug, PartialEq, Eq)]
enum AgendaWork {
    /// Calls the mechanism in this place with this number.
    Call { place: usize, number: u64 },
    /// Writes a line home.
    Write { arrival: Arrival, line: u64, words: LineWords },
}

#[derive(Debug, PartialEq, Eq)]
struct AgendaEntry {
    at: Ps,
    /// Ascending: of two entries at one time, the one added first comes first.
    number: u64,
    work: AgendaWork,
}

impl Ord for AgendaEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for AgendaEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// All timed work.
pub(crate) struct Agenda {
    next: Ps,
    entries: BinaryHeap<Reverse<AgendaEntry>>,
    asked_for: u64,
    /// Length of an epoch.
    epoch: Ps,
    epoch_ends: Ps,
}

impl Agenda {
    /// `epoch`: the length of an epoch, if epochs end by the clock.
    pub(crate) fn new(epoch: Option<Ps>) -> Self {
        let epoch = epoch.unwrap_or(NEVER);
        Agenda { next: epoch, entries: BinaryHeap::new(), asked_for: 0, epoch, epoch_ends: epoch }
    }

    /// The earliest time at which there may be work.
    #[inline(always)]
    pub(crate) fn next(&self) -> Ps {
        self.next
    }

    fn add(&mut self, at: Ps, work: AgendaWork) {
        self.asked_for += 1;
        self.entries.push(Reverse(AgendaEntry { at, number: self.asked_for, work }));
        self.next = self.next.min(at);
    }

    pub(super) fn call(&mut self, at: Ps, place: usize, number: u64) {
        self.add(at, AgendaWork::Call { place, number });
    }

    pub(super) fn write(&mut self, at: Ps, arrival: Arrival, line: u64, words: LineWords) {
        self.add(at, AgendaWork::Write { arrival, line, words });
    }

    /// When the epoch ends, if anything ends it.
    pub(super) fn epoch_end(&self) -> Option<Ps> {
        (self.epoch_ends < NEVER).then_some(self.epoch_ends)
    }

    pub(super) fn request_epoch_end(&mut self) {
        (self.epoch_ends, self.next) = (Ps(0), Ps(0));
    }

    /// Begins an epoch of full length at `now`.
    fn begin_epoch(&mut self, now: Ps) {
        self.epoch_ends = Ps(now.0.saturating_add(self.epoch.0));
        self.look();
    }

    pub(super) fn epoch_has_ended(&mut self) {
        self.epoch_ends = NEVER;
    }

    fn look(&mut self) {
        let first = self.entries.peek().map_or(NEVER, |entry| entry.0.at);
        self.next = first.min(self.epoch_ends);
    }

    /// Takes the earliest work that is due by `now`. An epoch ends after the work that was due before.
    fn take(&mut self, now: Ps) -> Option<AgendaEntry> {
        let due = self.entries.peek().is_some_and(|entry| entry.0.at <= now);
        let entry = if due { self.entries.pop() } else { None };
        self.look();
        entry.map(|entry| entry.0)
    }

    fn ends_epoch(&self, now: Ps) -> bool {
        self.epoch_ends <= now
    }
}

impl Hardware {
    /// Does the work that is due. The running core keeps its turn.
    #[cold]
    pub(crate) fn do_what_is_due(&mut self) {
        loop {
            let now = self.now();
            if let Some(entry) = self.agenda.take(now) {
                self.do_work(entry);
            } else if self.agenda.ends_epoch(now) {
                self.end_epoch();
                let now = self.now();
                self.agenda.begin_epoch(now);
            } else {
                return;
            }
        }
    }

    /// Does a piece of work at its time, on no core.
    fn do_work(&mut self, AgendaEntry { at, work, .. }: AgendaEntry) {
        let core = std::mem::replace(&mut self.core, self.count);
        self.cores[self.count].clock = at;
        match work {
            AgendaWork::Call { place, number } => self.tell_due(place, number),
            AgendaWork::Write { arrival, line, words } => {
                _ = self.put_home(arrival, line, words, at)
            }
        }
        self.core = core;
    }
}
