//! Lines that sessions have stored to in place and not written back yet.
//!
//! Each session that stores has a set of its own, so that none waits for another's locked instruction. The set stays when
//! the session ends, for a later one. A set takes memory and a checkpoint's time; so when there are very many sessions,
//! the later ones share one set.

use crate::consistency::core;
use perdura_memory::lock::Slots;
use perdura_memory::{DirtyLines, Memory, Object, Traced, WORD, lines_in};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The most sessions with a set of their own.
const MOST: usize = 64;

/// A set.
struct Dirty {
    lines: DirtyLines,
    /// Handles for its bits and its flags.
    own: [Object; 2],
}

impl Dirty {
    fn new<M: Memory>(memory: &M) -> Self {
        let (bits, flags) = DirtyLines::places(memory.limit());
        Dirty {
            lines: DirtyLines::new(memory.limit()),
            own: [bits, flags].map(|end| memory.object(end + WORD)),
        }
    }

    /// Takes all lines out, and calls `run` with each run of adjacent ones.
    fn drain<M: Memory>(&self, memory: &M, mut run: impl FnMut(Range<u64>)) {
        let [bits, flags] = self.own.map(|own| Traced::new(memory, own));
        flags.read(0, DirtyLines::places(memory.len()).1 + 1);
        self.lines.drain(|lines| {
            let (first, last) =
                (DirtyLines::places(lines.start).0, DirtyLines::places(lines.end - 1).0);
            bits.exchange(first, last + WORD - first);
            run(lines);
        });
    }
}

/// The sets of an engine's sessions.
pub(super) struct DirtySets {
    owned: Slots<Dirty>,
    shared: OnceLock<Arc<Dirty>>,
}

/// A session's set.
pub(super) struct DirtySet {
    /// Its number; `None` if it is shared.
    slot: Option<usize>,
    set: Arc<Dirty>,
}

impl DirtySets {
    pub(super) fn new() -> Self {
        DirtySets { owned: Slots::new(MOST), shared: OnceLock::new() }
    }

    /// A set for a session that is about to store for the first time.
    pub(super) fn take<M: Memory>(&self, memory: &M) -> DirtySet {
        match self.owned.take(|| Dirty::new(memory)) {
            Some((slot, set)) => DirtySet { slot: Some(slot), set },
            None => {
                let set = self.shared.get_or_init(|| Arc::new(Dirty::new(memory))).clone();
                DirtySet { slot: None, set }
            }
        }
    }

    /// A session with this set has ended.
    pub(super) fn give_back(&self, set: DirtySet) {
        if let Some(slot) = set.slot {
            self.owned.give_back(slot);
        }
    }

    /// Asks for all lines to be written back; returns how many these are.
    pub(super) fn write_back<M: Memory>(&self, memory: &M) -> u64 {
        let mut lines = 0;
        for set in self.owned.ever_used().chain(self.shared.get()) {
            set.drain(memory, |run| {
                let len = run.end - run.start;
                memory.write_back(run.start, len);
                lines += lines_in(run.start, len);
            });
        }
        lines
    }
}

impl DirtySet {
    /// Whether other sessions mark lines in it too.
    #[inline(always)]
    pub(super) fn is_shared(&self) -> bool {
        self.slot.is_none()
    }

    /// Marks lines, in a set that [is not shared](Self::is_shared).
    #[inline(always)]
    pub(super) fn marker<M: Memory>(&self, memory: &M) -> impl Fn(u64) {
        core::marker(&self.set.lines, self.set.own.map(|own| Traced::new(memory, own)))
    }

    /// Marks a line.
    pub(super) fn mark<M: Memory>(&self, memory: &M, line: u64) {
        let (bit, flag) = DirtyLines::places(line);
        let [bits, flags] = self.set.own.map(|own| Traced::new(memory, own));
        self.set.lines.mark(line);
        bits.exchange(bit, WORD);
        flags.wrote(flag, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::{LINE, Ram};

    /// What any of many sessions has stored is written back, once, also after it has ended.
    #[test]
    fn sets_are_owned_shared_and_left() {
        let (ram, sets) = (Ram::new(1 << 20), DirtySets::new());
        let take = |number: u64| {
            let set = sets.take(&ram);
            match set.is_shared() {
                true => set.mark(&ram, 2 * number * LINE),
                false => set.marker(&ram)(2 * number * LINE),
            }
            set
        };
        let all: Vec<_> = (0..MOST as u64 + 10).map(take).collect();
        assert_eq!(all.iter().filter(|set| set.is_shared()).count(), 10);
        all.into_iter().for_each(|set| sets.give_back(set));
        assert_eq!(sets.write_back(&ram), MOST as u64 + 10);
        assert_eq!(sets.write_back(&ram), 0);
        assert!(!sets.take(&ram).is_shared(), "they came back");
    }
}
