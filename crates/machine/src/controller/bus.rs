//! A bus that carries one burst at a time. Bursts are placed when they are asked for, in the
//! first gap that is long enough: one that is ready early need not wait for one placed before it
//! that is ready late.

use crate::Ps;

/// The direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

#[derive(Clone, Copy)]
struct BusSpan {
    start: Ps,
    end: Ps,
    way: Direction,
}

/// Spans remembered. Gaps before the oldest of them are given up.
const SPANS: usize = 8;

/// Spans are in order of time and do not overlap.
pub(super) struct Bus {
    turn: Ps,
    spans: [BusSpan; SPANS],
    len: usize,
    /// No burst can start before its end any more.
    floor: BusSpan,
}

impl Bus {
    pub(super) fn new(turn: Ps) -> Self {
        let none = BusSpan { start: Ps(0), end: Ps(0), way: Direction::Read };
        Bus { turn, spans: [none; SPANS], len: 0, floor: none }
    }

    /// Places a burst of `length` that is ready at `ready`. Returns when it starts.
    #[inline]
    pub(super) fn reserve(&mut self, ready: Ps, length: Ps, way: Direction) -> Ps {
        let last = if self.len > 0 { self.spans[self.len - 1] } else { self.floor };
        let after = self.after(last, way);
        if ready >= after {
            self.append(ready, length, way);
            return ready;
        }
        self.search(ready, length, way)
    }

    /// When a burst in this direction can follow that span. At rest, no turnaround is needed.
    #[inline]
    fn after(&self, span: BusSpan, way: Direction) -> Ps {
        let turns = span.way != way && span.end > Ps(0);
        if turns { span.end + self.turn } else { span.end }
    }

    fn search(&mut self, ready: Ps, length: Ps, way: Direction) -> Ps {
        let mut start = ready.max(self.after(self.floor, way));
        for i in 0..self.len {
            let span = self.spans[i];
            let turn = if span.way == way { Ps(0) } else { self.turn };
            if start + length + turn <= span.start {
                self.insert(i, start, length, way);
                return start;
            }
            start = start.max(self.after(span, way));
        }
        self.append(start, length, way);
        start
    }

    #[inline]
    fn append(&mut self, start: Ps, length: Ps, way: Direction) {
        if let Some(last) = self.spans[..self.len].last_mut()
            && last.end == start
            && last.way == way
        {
            last.end += length;
            return;
        }
        if self.len == SPANS {
            self.forget_first();
        }
        self.spans[self.len] = BusSpan { start, end: start + length, way };
        self.len += 1;
    }

    fn insert(&mut self, mut at: usize, start: Ps, length: Ps, way: Direction) {
        if self.len == SPANS {
            if at == 0 {
                // The gap before it is given up; later bursts start after it.
                self.floor = BusSpan { start, end: start + length, way };
                return;
            }
            self.forget_first();
            at -= 1;
        }
        self.spans.copy_within(at..self.len, at + 1);
        self.spans[at] = BusSpan { start, end: start + length, way };
        self.len += 1;
    }

    #[inline]
    fn forget_first(&mut self) {
        self.floor = self.spans[0];
        self.spans.copy_within(1..self.len, 0);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bursts_never_overlap_and_turns_are_kept(
            turn in 0..4_u64,
            bursts in prop::collection::vec((0..400_u64, -30..30_i64, 1..9_u64, any::<bool>()), 1..200),
        ) {
            let mut bus = Bus::new(Ps(turn));
            let mut now = 0_u64;
            let mut placed = Vec::new();
            for (ahead, step, length, read) in bursts {
                now = now.saturating_add_signed(step + 10);
                let way = if read { Direction::Read } else { Direction::Write };
                let start = bus.reserve(Ps(now + ahead), Ps(length), way);
                prop_assert!(start >= Ps(now + ahead));
                placed.push((start.0, start.0 + length, way));
            }
            placed.sort_by_key(|&(start, ..)| start);
            for pair in placed.windows(2) {
                let least = if pair[0].2 == pair[1].2 { 0 } else { turn };
                prop_assert!(pair[1].0 >= pair[0].1 + least, "{pair:?}");
            }
        }
    }

    #[test]
    fn what_is_ready_early_does_not_wait_for_what_is_late() {
        let mut bus = Bus::new(Ps(3));
        assert_eq!(bus.reserve(Ps(100), Ps(4), Direction::Read), Ps(100));
        assert_eq!(bus.reserve(Ps(10), Ps(4), Direction::Read), Ps(10));
        // 93 + 4 + 3 just fits before 100; from 94 on it does not.
        assert_eq!(bus.reserve(Ps(93), Ps(4), Direction::Write), Ps(93));
        assert_eq!(bus.reserve(Ps(94), Ps(4), Direction::Write), Ps(107));
    }
}
