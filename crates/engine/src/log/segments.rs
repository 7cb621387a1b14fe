//! The segments of a log that is in use.
//!
//! A session that writes often *keeps* its segment between its transactions, and appends to it without asking anybody.
//! Only a quarter of the segments may be kept. Other sessions take a segment for one transaction, and hand it over: the
//! next session continues behind its records. So the number of sessions does not depend on the log's size.
//!
//! What always holds: a segment is free, full, open (handed over), or held by one writer; those held outside of commits
//! are no more than may be kept.

use super::area::Geometry;
use crate::planted::{self, Bug};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A segment is full if less than one part in this number of it is left when it is handed over.
const SMALL_REST: u64 = 8;

/// A segment with records, and the rest of it.
#[derive(Clone, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: u32,
    /// The offsets behind its records.
    pub(crate) rest: Range<u64>,
    /// The highest ticket in it; 0 if there is none.
    pub(crate) highest: u64,
}

/// The segments of an area in use.
pub(crate) struct Segments {
    geometry: Geometry,
    state: Mutex<State>,
    /// How many are full, readable without a locked instruction, which would wait for write-backs.
    full: AtomicUsize,
    /// How many are open, likewise.
    open: AtomicUsize,
}

struct State {
    free: Vec<u32>,
    /// Full segments, each with the highest ticket in it, in the order in which they filled.
    full: VecDeque<(u32, u64)>,
    open: Vec<OpenSegment>,
    /// How many writers keep one, and how many may.
    kept: usize,
    may_keep: usize,
}

impl Segments {
    /// All of an area's segments, free.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let free = (0..geometry.segments).rev().collect();
        let may_keep = Self::most_kept(geometry);
        let state = State { free, full: VecDeque::new(), open: Vec::new(), kept: 0, may_keep };
        Segments {
            geometry: *geometry,
            state: Mutex::new(state),
            full: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        }
    }

    /// How many segments may be kept at most: so many are not there for a large transaction.
    pub(crate) fn most_kept(geometry: &Geometry) -> usize {
        (geometry.segments as usize / 4).clamp(1, 128)
    }

    /// Sets how many writers may keep a segment from now on, up to the default, which `None` stands for.
    pub(crate) fn tune(&self, kept: Option<u64>) {
        let most = Self::most_kept(&self.geometry);
        let kept = kept.map_or(most, |kept| usize::try_from(kept).unwrap_or(usize::MAX));
        self.state().may_keep = kept.min(most);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the right to keep a segment; returns whether it is granted, until it is [given up](Self::keep_no_more).
    pub(crate) fn keep(&self) -> bool {
        let mut state = self.state();
        let may = state.kept < state.may_keep;
        state.kept += usize::from(may);
        may
    }

    /// Gives up the right to keep a segment.
    pub(crate) fn keep_no_more(&self) {
        self.state().kept -= 1;
    }

    /// Takes a free segment, if there is one.
    pub(crate) fn take(&self) -> Option<u32> {
        self.state().free.pop()
    }

    /// Takes an open segment with room for `bytes`, or a free one, if there is either.
    pub(crate) fn take_for(&self, bytes: u64) -> Option<OpenSegment> {
        self.take_beyond(bytes, 0)
    }

    /// As [`take_for`](Self::take_for), but leaves `reserved` segments free.
    pub(crate) fn take_beyond(&self, bytes: u64, reserved: usize) -> Option<OpenSegment> {
        let mut state = self.state();
        let fits = |open: &OpenSegment| open.rest.end - open.rest.start >= bytes;
        if let Some(found) = state.open.iter().rposition(fits) {
            let found = state.open.swap_remove(found);
            self.open.store(state.open.len(), Ordering::Release);
            return Some(found);
        }
        if state.free.len() <= reserved {
            return None;
        }
        let segment = state.free.pop()?;
        Some(OpenSegment { segment, rest: self.geometry.segment(segment), highest: 0 })
    }

    /// Returns a segment whose records are dead or void.
    pub(crate) fn put_back(&self, segment: u32) {
        self.state().free.push(segment);
    }

    /// Hands a segment over to whoever takes it next; everything up to `checkpoint` has left the log. Returns whether it
    /// is full.
    pub(crate) fn hand_over(&self, segment: OpenSegment, checkpoint: u64) -> bool {
        let left = segment.rest.end - segment.rest.start;
        if segment.highest <= checkpoint {
            self.put_back(segment.segment);
        } else if left < self.geometry.segment_bytes / SMALL_REST {
            self.filled(segment.segment, segment.highest);
            return true;
        } else {
            let mut state = self.state();
            state.open.push(segment);
            self.open.store(state.open.len(), Ordering::Release);
        }
        false
    }

    /// Hands over a full segment, with records up to `highest`.
    pub(crate) fn filled(&self, segment: u32, highest: u64) {
        let mut state = self.state();
        state.full.push_back((segment, highest));
        self.full.store(state.full.len(), Ordering::Release);
    }

    /// Frees the full and open segments whose records are dead.
    pub(crate) fn release(&self, checkpoint: u64) {
        if !self.may_release() {
            return;
        }
        let mut state = self.state();
        let State { free, full, open, .. } = &mut *state;
        full.retain(|&(segment, highest)| {
            if highest <= checkpoint {
                free.push(segment);
            }
            highest > checkpoint
        });
        open.retain(|open| {
            let is_dead = open.highest <= checkpoint || planted::has(Bug::HandedOverFreed);
            if is_dead {
                free.push(open.segment);
            }
            !is_dead
        });
        self.full.store(full.len(), Ordering::Release);
        self.open.store(open.len(), Ordering::Release);
    }

    /// How many segments are free.
    pub(crate) fn free(&self) -> usize {
        self.state().free.len()
    }

    /// How many segments are full and waiting for a checkpoint.
    pub(crate) fn full(&self) -> usize {
        self.full.load(Ordering::Acquire)
    }

    /// Whether a checkpoint may free any.
    pub(crate) fn may_release(&self) -> bool {
        self.full() > 0 || self.open.load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { start: 0, segment_bytes: 4096, segments: 8, checksums: (0, 0) };

    #[test]
    fn the_next_one_continues_behind_the_records() {
        let segments = Segments::new(&GEOMETRY);
        let mut taken = segments.take_for(100).expect("a free one");
        assert_eq!((taken.rest.end - taken.rest.start, taken.highest), (4096, 0));
        (taken.rest.start, taken.highest) = (taken.rest.start + 1024, 7);
        assert!(!segments.hand_over(taken.clone(), 6));
        assert!(segments.may_release() && segments.full() == 0 && segments.free() == 7);
        let other = segments.take_for(4000).expect("a free one");
        assert_ne!(other.segment, taken.segment, "there is too little room");
        let again = segments.take_for(3072).expect("the open one");
        assert_eq!((again.segment, again.rest, again.highest), (taken.segment, taken.rest, 7));
    }

    #[test]
    fn dead_segments_are_free() {
        let segments = Segments::new(&GEOMETRY);
        let take = |used: u64, highest: u64| {
            let taken = segments.take_for(4096).expect("a free one");
            OpenSegment { rest: taken.rest.start + used..taken.rest.end, highest, ..taken }
        };
        let all = [take(64, 5), take(4000, 6), take(64, 7), take(0, 0)];
        let full = all.map(|segment| segments.hand_over(segment, 5));
        assert_eq!(full, [false, true, false, false]);
        assert_eq!((segments.free(), segments.full()), (6, 1));
        segments.release(6);
        assert_eq!((segments.free(), segments.full()), (7, 0));
        segments.release(7);
        assert!(segments.free() == 8 && !segments.may_release());
    }

    #[test]
    fn a_quarter_is_kept() {
        let segments = Segments::new(&GEOMETRY);
        assert_eq!([0; 3].map(|_| segments.keep()), [true, true, false]);
        segments.keep_no_more();
        segments.tune(Some(1));
        assert!(!segments.keep());
        segments.tune(Some(9));
        assert!(segments.keep() && !segments.keep());
    }
}
