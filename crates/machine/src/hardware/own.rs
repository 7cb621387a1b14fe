//! Programs' own memory: lines that are not the pool's; they take time, but hold no data here.
//!
//! [Objects](Object) get lines behind those of the pool and of the mechanism, in the order in which they are made:
//! addresses that are the same in each run. A touch goes the way of any access, through caches, coherence, controller
//! and device. What always holds: an own line is never in `data`, no mechanism is called about it that does not ask for
//! own memory, it is written home
//! only when the caches have no room for it, and an access to it is no event.

use super::{FoundIn, Hardware};
use crate::Ps;
use crate::cache::Hierarchy;
use crate::processor::Words;
use perdura_memory::atomics::AtomicU64;
use perdura_memory::{LINE, Object, Touch, WORD, lines_in};
use std::ops::Range;
use std::sync::Arc;

/// Own lines begin at a multiple of this: no block of a device or of a DRAM cache holds both own lines and others.
const APART: u64 = 64;

/// Where the objects of programs' own memory are.
pub(crate) struct OwnMemory {
    /// The first own line; beyond all lines until there is an object.
    first: u64,
    /// The same on a machine with a device for own memory; beyond all lines elsewhere.
    first_beside: u64,
    has_device: bool,
    /// The first line after the pool's and the mechanism's lines.
    behind: u64,
    /// Lines given to objects since the caches' line numbers last ran out.
    used: u64,
    objects: Vec<ObjectPlace>,
}

struct ObjectPlace {
    line: u64,
    bytes: u64,
    /// Its contents, if a speculation may store to them.
    words: Option<Arc<[AtomicU64]>>,
}

impl OwnMemory {
    /// For a home device of `home_lines` lines, on a machine that has a device for own memory or not.
    pub(super) fn new(home_lines: u64, has_device: bool) -> Self {
        let behind = home_lines.next_multiple_of(APART);
        let (first, first_beside) = (u64::MAX, u64::MAX);
        OwnMemory { first, first_beside, has_device, behind, used: 0, objects: Vec::new() }
    }

    /// Adds an object. Once the caches have no more line numbers, it shares the lines of the first objects.
    pub(crate) fn add(&mut self, bytes: u64) -> Object {
        let room = Hierarchy::LINES.saturating_sub(self.behind);
        let lines = bytes.div_ceil(LINE).min(room);
        let Ok(number) = u32::try_from(self.objects.len() + 1) else { return Object::NONE };
        if lines == 0 {
            return Object::NONE;
        }
        if self.used + lines > room {
            self.used = 0;
        }
        let line = self.behind + self.used;
        self.objects.push(ObjectPlace { line, bytes: bytes.min(lines * LINE), words: None });
        self.used += lines;
        self.first = self.behind;
        if self.has_device {
            self.first_beside = self.behind;
        }
        Object::numbered(number)
    }

    /// Adds an object of these words, on lines that no other object has unless there are no more.
    pub(crate) fn add_words(&mut self, words: &Arc<[AtomicU64]>) -> Object {
        let object = self.add(words.len() as u64 * WORD);
        if let Some(place) = (object.number() as usize).checked_sub(1) {
            self.objects[place].words = Some(words.clone());
        }
        object
    }

    /// The words of `[at, at + len)` of an object, if it is one of words.
    pub(crate) fn words(
        &self,
        object: Object,
        at: u64,
        len: u64,
    ) -> Option<(Arc<[AtomicU64]>, Range<usize>)> {
        let place = (object.number() as usize).checked_sub(1)?;
        let words = self.objects.get(place)?.words.clone()?;
        let count = words.len() as u64;
        let range = (at / WORD).min(count)..at.saturating_add(len).div_ceil(WORD).min(count);
        Some((words, range.start as usize..range.end as usize))
    }

    /// The lines of `[at, at + len)` of an object, each once, unless the range wraps around and begins and ends in the
    /// same line.
    #[inline]
    pub(crate) fn lines(
        &self,
        object: Object,
        at: u64,
        len: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let place = (object.number() as usize).checked_sub(1).and_then(|it| self.objects.get(it));
        let (line, bytes) = place.map_or((0, 0), |place| (place.line, place.bytes));
        let (at, len) = (at.checked_rem(bytes).unwrap_or(0), len.min(bytes));
        let before_end = len.min(bytes - at);
        let part = move |at: u64, len: u64| {
            (0..lines_in(at, len)).map(move |index| line + at / LINE + index)
        };
        part(at, before_end).chain(part(0, len - before_end))
    }
}

impl Hardware {
    /// Whether a line is a program's own.
    #[inline(always)]
    pub(super) fn is_own(&self, line: u64) -> bool {
        line >= self.own.first
    }

    /// The place of a line in the device for own memory, if it is there.
    #[inline(always)]
    pub(super) fn beside(&self, line: u64) -> Option<u64> {
        (line >= self.own.first_beside).then(|| line - self.own.first_beside)
    }

    /// Those of the lines that are not own lines.
    pub(super) fn without_own(&self, lines: Vec<u64>) -> Vec<u64> {
        lines.into_iter().filter(|line| !self.is_own(*line)).collect()
    }

    /// A program touches a line of its own.
    pub(crate) fn touch(&mut self, line: u64, access: Touch) {
        let before = self.cores[self.core].stats;
        let place = Words { line, mask: 0xFF };
        match access {
            Touch::Read => self.glance(place),
            Touch::Value => self.load_overlapping(place),
            Touch::Write => self.store(place),
            Touch::Exchange => self.exchange(line),
        }
        let stats = &mut self.cores[self.core].stats;
        stats.own_accesses += stats.loads + stats.stores - before.loads - before.stores;
        (stats.loads, stats.stores) = (before.loads, before.stores);
    }

    /// A load that only a branch depends on. A core with one fill buffer executes in order, and waits; other cores
    /// predict the branch, so that a load from the nearest cache costs only its issue.
    fn glance(&mut self, place: Words) {
        if self.config.cores.fill_buffers == 1 {
            return self.load(place);
        }
        let (done, from) = self.look(place, false);
        let near = if from == FoundIn::Nearest { Ps::default() } else { done };
        let issue = self.issue();
        self.cores[self.core].load_until(near, issue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(own: &OwnMemory, object: Object, at: u64, len: u64) -> Vec<u64> {
        own.lines(object, at, len).collect()
    }

    #[test]
    fn objects_have_lines_of_their_own_in_their_order() {
        let mut own = OwnMemory::new(65, false);
        let [first, none, second] = [100, 0, 64].map(|bytes| own.add(bytes));
        assert_eq!((none, lines(&own, none, 0, 8)), (Object::NONE, vec![]));
        assert_eq!(lines(&own, first, 0, 1), [128]);
        assert_eq!(lines(&own, first, 60, 8), [128, 129]);
        assert_eq!(lines(&own, second, 0, 64), [130]);
        assert_eq!(lines(&own, second, 3, 0), [0; 0]);
        // Beyond its end it begins again; a range never covers it twice.
        assert_eq!(lines(&own, first, 100, 1), [128]);
        assert_eq!(lines(&own, first, 164, 100), [129, 128]);
        // From byte 15 on, and then up to it.
        assert_eq!(lines(&own, first, u64::MAX, u64::MAX), [128, 129, 128]);
    }

    #[test]
    fn where_the_caches_know_no_more_lines_objects_share_them() {
        let mut own = OwnMemory::new(Hierarchy::LINES - 180, false);
        let objects = [128, 128, 1 << 40].map(|bytes| own.add(bytes));
        let first = (Hierarchy::LINES - 180).next_multiple_of(APART);
        for object in objects {
            let lines = lines(&own, object, 0, u64::MAX);
            assert!(lines.iter().all(|line| (first..Hierarchy::LINES).contains(line)), "{lines:?}");
        }
        assert_eq!(lines(&own, objects[0], 0, 1), [first]);
        let mut full = OwnMemory::new(Hierarchy::LINES, false);
        assert_eq!(full.add(64), Object::NONE);
    }
}
