//! A core's clock, and the accesses that it has on their way.
//!
//! A core waits for its loads at the end of their call, since the dependencies of a program's next access are not
//! known here. Stores go through a buffer in order, if there is one, and their lines through the fill buffers, as many
//! at a time as there are; the next fence waits for write-backs and non-temporal lines.

use crate::Ps;
use crate::config::Cores;
use crate::finishes::Finishes;
use serde::Serialize;
use std::collections::VecDeque;

/// What a core did and waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoreStats {
    /// Its clock at the end, ps.
    pub time_ps: Ps,
    /// Loads of the pool: one for each line of an access.
    pub loads: u64,
    /// Loads whose line no cache had, of own memory too.
    pub memory_loads: u64,
    /// Time waiting for loads from memory, for copies, and for programs' own memory, ps.
    pub load_stall_ps: Ps,
    /// Lines prefetched.
    pub prefetches: u64,
    /// Stores to the pool: one for each line of an access.
    pub stores: u64,
    /// Accesses to programs' own memory: one for each line of an access.
    pub own_accesses: u64,
    /// Bytes stored by programs, those stored past the caches included.
    pub stored_bytes: u64,
    /// Lines written back.
    pub write_backs: u64,
    /// Non-temporal lines.
    pub streams: u64,
    /// Fences.
    pub fences: u64,
    /// Time in fences, ps.
    pub fence_stall_ps: Ps,
    /// Time waiting for write-backs, on machines where each is waited for, ps.
    pub write_back_stall_ps: Ps,
    /// Time waiting for room in the store buffer, ps.
    pub store_stall_ps: Ps,
    /// Time waiting for a line buffer, ps.
    pub line_stall_ps: Ps,
    /// Turns of spin loops.
    pub pauses: u64,
}

/// A core.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processor {
    pub(crate) clock: Ps,
    /// Stores on their way to the first cache, in order.
    stores: VecDeque<Buffered>,
    /// When lines in the fill buffers, those that the core does not wait for, are in the first cache.
    fills: Finishes,
    /// When all loads of the current call are done.
    loaded: Ps,
    /// When the lines in the line buffers are accepted, in order.
    lines: VecDeque<Ps>,
    /// When everything that the next fence waits for is durable.
    awaited: Ps,
    pub(crate) stats: CoreStats,
}

/// A store in the buffer.
#[derive(Clone, Copy, Debug)]
struct Buffered {
    /// When it is in the first cache.
    done: Ps,
    place: Words,
}

/// Words of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) line: u64,
    /// A bit for each.
    pub(crate) mask: u8,
}

impl Processor {
    /// A store that is done at `done`: the core goes on at once if the store buffer has room.
    pub(crate) fn store_until(&mut self, place: Words, done: Ps, issue: Ps, config: &Cores) {
        if config.store_buffer == 0 {
            self.wait_until(done);
            return;
        }
        let done = self.stores.back().map_or(done, |last| done.max(last.done));
        let before = self.clock;
        self.clock = room(&mut self.stores, config.store_buffer, self.clock, |store| store.done);
        self.stats.store_stall_ps += self.clock.since(before);
        self.stores.push_back(Buffered { done, place });
        self.clock += issue;
    }

    /// Whether a load finds all its words in the store buffer.
    pub(crate) fn forwards(&self, place: Words) -> bool {
        let here = |store: &&Buffered| store.done > self.clock && store.place.line == place.line;
        let found = self.stores.iter().filter(here).fold(0, |mask, store| mask | store.place.mask);
        place.mask & !found == 0
    }

    /// When a line that is requested at `begin` gets a fill buffer.
    #[inline]
    pub(crate) fn fill_from(&mut self, begin: Ps, config: &Cores) -> Ps {
        self.fills.place(begin, config.fill_buffers, 0)
    }

    /// Whether a fill buffer is free.
    pub(crate) fn can_fill(&mut self, config: &Cores) -> bool {
        self.fills.forget(self.clock);
        self.fills.len() < config.fill_buffers
    }

    /// Takes a fill buffer until `done`, while the core goes on.
    #[inline]
    pub(crate) fn fill_until(&mut self, done: Ps) {
        self.fills.push(done);
    }

    /// One of several loads of a call: the core issues the next one.
    pub(crate) fn load_until(&mut self, done: Ps, issue: Ps) {
        self.loaded = self.loaded.max(done);
        self.clock += issue;
    }

    /// Waits for the call's loads.
    pub(crate) fn wait_for_loads(&mut self) {
        let done = self.clock.max(std::mem::take(&mut self.loaded));
        self.stats.load_stall_ps += done.since(self.clock);
        self.clock = done;
    }

    /// A line on its way past the caches, or out of them, takes a line buffer until it is `accepted`: the
    /// core goes on if one is free, and its next fence waits until the line is `durable`.
    pub(crate) fn line_until(&mut self, accepted: Ps, durable: Ps, config: &Cores) {
        let accepted = self.lines.back().map_or(accepted, |last| accepted.max(*last));
        let before = self.clock;
        self.clock = room(&mut self.lines, config.line_buffers.max(1), self.clock, |line| *line);
        self.stats.line_stall_ps += self.clock.since(before);
        self.lines.push_back(accepted);
        self.awaited = self.awaited.max(durable);
    }

    /// Waits until `done`, or later if something has made the core wait longer.
    #[inline]
    pub(crate) fn wait_until(&mut self, done: Ps) {
        self.clock = self.clock.max(done);
    }

    /// Makes the next fence wait until `durable`.
    pub(crate) fn await_until(&mut self, durable: Ps) {
        self.awaited = self.awaited.max(durable);
    }

    /// When the stores so far are in the caches.
    pub(crate) fn stored(&self) -> Ps {
        self.stores.back().map_or(self.clock, |last| self.clock.max(last.done))
    }

    /// Waits for write-backs and streams, outside a fence.
    pub(crate) fn wait(&mut self) {
        let done = self.clock.max(self.awaited);
        self.stats.write_back_stall_ps += done.since(self.clock);
        self.clock = done;
    }

    /// A fence.
    pub(crate) fn fence(&mut self, least: Ps) {
        let done = self.stored().max(self.awaited).max(self.clock + least);
        self.stats.fence_stall_ps += done.since(self.clock);
        self.stats.fences += 1;
        self.clock = done;
        self.stores.clear();
        self.lines.clear();
    }
}

/// When one of `most` places is free; removes entries that are over by then.
fn room<T>(until: &mut VecDeque<T>, most: usize, now: Ps, over: impl Fn(&T) -> Ps) -> Ps {
    while until.front().is_some_and(|first| over(first) <= now) {
        until.pop_front();
    }
    if until.len() < most {
        return now;
    }
    until.pop_front().map_or(now, |first| over(&first).max(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(store_buffer: usize) -> Cores {
        Cores {
            source: "a test".to_owned(),
            count: 1,
            ghz: 1.0,
            cycles_per_access: 0,
            program_cycles: 0,
            step_cycles: 0,
            store_buffer,
            fill_buffers: 4,
            line_buffers: 2,
            write_back_cycles: 1,
            write_back_waits: false,
            write_back_keeps: true,
            fence_cycles: 5,
            pause_cycles: 10,
            transfer_cycles: 10,
            forwards_clean: true,
        }
    }

    const PLACE: Words = Words { line: 3, mask: 0b10 };

    #[test]
    fn without_a_buffer_stores_are_waited_for() {
        let mut core = Processor::default();
        core.store_until(PLACE, Ps(100), Ps(1), &config(0));
        assert_eq!(core.clock, Ps(100));
    }

    #[test]
    fn a_full_buffer_waits_for_its_oldest_store() {
        let (mut core, config) = (Processor::default(), config(2));
        core.store_until(PLACE, Ps(100), Ps(1), &config);
        core.store_until(PLACE, Ps(50), Ps(1), &config);
        assert_eq!(core.clock, Ps(2), "two have room, and the second is not done before the first");
        core.store_until(PLACE, Ps(300), Ps(1), &config);
        assert_eq!(core.clock, Ps(101));
        assert_eq!(core.stats.store_stall_ps, Ps(98));
        core.fence(Ps(5));
        assert_eq!((core.clock, core.stats.fence_stall_ps), (Ps(300), Ps(199)));
    }

    #[test]
    fn stores_on_their_way_are_forwarded_word_by_word() {
        let (mut core, config) = (Processor::default(), config(2));
        core.store_until(PLACE, Ps(100), Ps(1), &config);
        core.store_until(Words { line: 3, mask: 0b100 }, Ps(100), Ps(1), &config);
        let forwards = |core: &Processor, line, mask| core.forwards(Words { line, mask });
        assert!(forwards(&core, 3, 0b110) && forwards(&core, 3, 0b10));
        assert!(
            !forwards(&core, 3, 0b1) && !forwards(&core, 3, 0b111) && !forwards(&core, 4, 0b10)
        );
        core.clock = Ps(100);
        assert!(!forwards(&core, 3, 0b10), "it is in the cache");
    }

    #[test]
    fn a_fence_waits_for_what_was_asked_and_no_longer() {
        let (mut core, config) = (Processor::default(), config(2));
        core.await_until(Ps(70));
        core.line_until(Ps(40), Ps(60), &config);
        core.fence(Ps(5));
        assert_eq!(core.clock, Ps(70));
        core.fence(Ps(5));
        assert_eq!(core.clock, Ps(75));
    }
}
