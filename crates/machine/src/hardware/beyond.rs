//! Beyond the caches: the DRAM cache, if there is one, and the home device, with the mechanisms between them.

use super::Hardware;
use crate::Cause;
use crate::Ps;
use crate::controller::{DramRoom, Fetch, Replaced, Write};
use crate::flights::Arrival;
use crate::mechanism::{Dirtied, Leaving, Moments};
use perdura_memory::image::LineWords;
use std::panic::Location;

impl Hardware {
    /// Reads a line that no cache has. Returns when it is there.
    #[inline]
    pub(super) fn read_beyond(&mut self, line: u64, now: Ps) -> Ps {
        if let Some(place) = self.beside(line) {
            return self.controller.read_volatile(place, now);
        }
        if self.asks(Moments::HOME) {
            return self.find_asking(line, now);
        }
        let there = self.controller.read(line, now);
        self.note_dram();
        there
    }

    #[cold]
    fn find_asking(&mut self, line: u64, now: Ps) -> Ps {
        match self.controller.find(line, now) {
            Ok(there) => there,
            Err(fetch) => {
                let (early, until) = self.fetch_asking(&fetch);
                self.controller.wait_for_victim(line, early, until) + self.controller.static_read()
            }
        }
    }

    /// Fetches a block. Returns when the wanted line has left the bus, and until when the access waits for the block that
    /// must leave the DRAM cache for it. Mechanisms are called about that one, even if the fetched block is a program's own.
    fn fetch_asking(&mut self, fetch: &Fetch) -> (Ps, Ps) {
        let (early, all) = match self.is_own(fetch.first) {
            true => self.controller.fetch(fetch),
            false => self.fetch_from_places(fetch),
        };
        let replaced = self.controller.take_in(fetch, all);
        (early, self.replace_asking(replaced))
    }

    /// Fetches a block's lines from where the mechanisms have put them. Returns when the wanted line and when all lines
    /// have left the bus.
    fn fetch_from_places(&mut self, fetch: &Fetch) -> (Ps, Ps) {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        places.extend(fetch.first..fetch.first + fetch.lines);
        let from = self.ask_fetch(fetch, &mut places);
        let mut lines = fetch.first..;
        let moved = places.iter().any(|place| Some(*place) != lines.next());
        let times = if moved {
            // The wanted line goes first.
            let wanted = (fetch.wanted - fetch.first) as usize;
            let early = self.controller.fetch_line(places[wanted], from);
            let others = places.iter().enumerate().filter(|(index, _)| *index != wanted);
            let all = others.map(|(_, place)| self.controller.fetch_line(*place, from)).max();
            (early, early.max(all.unwrap_or_default()))
        } else {
            self.controller.fetch(&Fetch { now: from, ..*fetch })
        };
        self.places = places;
        times
    }

    /// The dirty lines of a block that the DRAM cache replaces leave for the home device. Returns until when the access
    /// waits for that.
    fn replace_asking(&mut self, replaced: Option<Replaced>) -> Ps {
        let Some(replaced) = replaced else { return Ps::default() };
        let mut last = Ps::default();
        let block = replaced.block;
        for line in block.dirty_lines() {
            let from = self.controller.read_out(line, block.ready);
            if self.is_own(line) {
                let now = self.now();
                last = last.max(self.controller.write_home(line, now, from).accepted);
                continue;
            }
            let words = self.data.take_dram(line);
            let cause = Cause::Eviction;
            let leaving = Leaving { line, words, cause, from, block: Some(block) };
            last = last.max(self.go_home(leaving, None).accepted);
        }
        self.controller.is_leaving(&replaced, last)
    }

    /// Hands over a line of the pool that has left the caches.
    #[inline]
    pub(super) fn write_beyond(&mut self, leaving: Leaving, asks: Option<usize>) -> Write {
        let Leaving { line, words, cause, from, .. } = leaving;
        let now = self.now();
        if self.asks(Moments::HOME) {
            return self.write_asking(leaving, asks);
        }
        let written = self.controller.write_from(line, (now, from), cause);
        match written.durable {
            Some(durable) => {
                self.checkpoints.lines += u64::from(self.checkpointing);
                self.data.forget_dram(line);
                self.data.depart(arrival(cause), line, words, durable, asks);
            }
            None => self.data.enter_dram(line, words),
        }
        self.note_dram();
        written
    }

    #[cold]
    fn write_asking(&mut self, leaving: Leaving, asks: Option<usize>) -> Write {
        let Leaving { line, words, cause, from, .. } = leaving;
        self.controller.count(cause);
        if !self.controller.has_dram() {
            self.tell_dirtied(&Dirtied { line, block: line..line + 1, first: true });
        } else if cause.enters_dram() {
            let (accepted, first) = self.put_in_dram(line, from);
            self.data.enter_dram(line, words);
            let block = self.controller.block_of(line);
            self.tell_dirtied(&Dirtied { line, block, first });
            return Write { accepted, durable: None };
        } else {
            self.controller.written_through(line, from);
        }
        self.go_home(leaving, asks)
    }

    /// A line that leaves the caches goes into the DRAM cache. Returns when that has it, and whether its block was
    /// clean.
    fn put_in_dram(&mut self, line: u64, from: Ps) -> (Ps, bool) {
        let until = match self.controller.make_room(line, from) {
            DramRoom::Here => Ps::default(),
            DramRoom::Made(replaced) => self.replace_asking(replaced),
            DramRoom::Fetch(fetch) => self.fetch_asking(&fetch).1,
        };
        let (accepted, first) = self.controller.put(line, from);
        (self.controller.wait_for_victim(line, accepted, until), first)
    }

    /// A dirty line of a program's own memory leaves the caches. Returns when the controller has it; its durability is
    /// neither awaited nor tracked.
    pub(super) fn hand_over_own(&mut self, line: u64, cause: Cause) -> (Ps, Option<Ps>) {
        self.write_backs.own += 1;
        let from = self.now();
        if let Some(place) = self.beside(line) {
            return (self.controller.write_volatile(place, from, cause), None);
        }
        if self.asks(Moments::HOME) && self.controller.has_dram() && cause.enters_dram() {
            self.controller.count(cause);
            return (self.put_in_dram(line, from).0, None);
        }
        let written = self.controller.write(line, from, cause);
        self.note_dram();
        (written.accepted, None)
    }

    /// A dirty line goes home, if the mechanisms let it.
    fn go_home(&mut self, leaving: Leaving, asks: Option<usize>) -> Write {
        let Leaving { line, words, cause, from, .. } = leaving;
        self.data.forget_dram(line);
        let (to, from) = match self.ask_leaving(Moments::HOME, leaving) {
            Ok(allowed) => allowed,
            Err(durable) => {
                self.data.leave_elsewhere(line, durable);
                return Write { accepted: from, durable: Some(durable) };
            }
        };
        let now = self.now();
        let written = self.controller.write_home(to, now, from);
        self.checkpoints.lines += u64::from(self.checkpointing);
        let durable = written.durable.unwrap_or(written.accepted);
        self.data.depart(arrival(cause), to, words, durable, asks);
        if to != line {
            self.data.leave_elsewhere(line, durable);
        }
        written
    }

    /// Records lines that the controller has moved from volatile DRAM to the home device.
    pub(super) fn note_dram(&mut self) {
        for &(line, durable) in self.controller.left_dram() {
            self.data.leave_dram(arrival(Cause::Eviction), line, durable);
        }
    }

    /// Writes every dirty line of the caches to what is beyond them, and keeps it there, while all cores wait. Returns
    /// when a volatile DRAM cache has them all; without one, when they are durable.
    pub(super) fn flush_caches(&mut self) -> Ps {
        let mut last = self.now();
        for line in self.without_own(self.hierarchy.dirty()) {
            self.hierarchy.write_back(self.core, line, true);
            let (accepted, durable) = self.hand_over(line, Cause::Flush);
            last = last.max(durable.unwrap_or(accepted));
            self.data.land_ahead_if_crowded();
        }
        last
    }

    /// Writes every dirty line of a volatile DRAM cache home, from `from` on and block by block, and keeps it there,
    /// while all cores wait. Returns when all lines are durable that have left the caches.
    pub(super) fn flush_dram(&mut self, from: Ps) -> Ps {
        let (mut last, cause) = (from, Cause::Mechanism);
        for block in self.dirty_blocks() {
            for (line, words) in self.take_dirty(block) {
                let from = self.controller.read_dram(line, from.max(block.ready));
                let leaving = Leaving { line, words, cause, from, block: Some(block) };
                self.write_backs.mechanism += 1;
                let durable = self.go_home(leaving, None).durable;
                last = last.max(durable.unwrap_or(last));
                self.data.land_ahead_if_crowded();
            }
        }
        // And lines that have left the caches before.
        last.max(self.data.last_arrival())
    }

    /// A line as it leaves the caches: without what no core has committed, by construction.
    pub(super) fn leaving(&self, line: u64, cause: Cause) -> Leaving {
        let words: LineWords = self.data.committed_line(line);
        Leaving { line, words, cause, from: self.now(), block: None }
    }
}

/// The name of the arrival of a line that no mechanism has written.
#[track_caller]
fn arrival(cause: Cause) -> Arrival {
    let name = match cause {
        Cause::Eviction => "eviction",
        Cause::WriteBack => "write-back",
        Cause::Stream => "stream",
        Cause::Mechanism | Cause::Flush => "line of an epoch",
    };
    Arrival { name, site: Location::caller() }
}
