//! A bus that carries one burst at a time. Bursts are placed when they are asked for, in the
//! first gap that is long enough: one that is ready early need not wait for one placed before it
//! that is ready late.

use crate::Ps;
use std::collections::VecDeque;

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

/// Spans remembered though they are over. Gaps before the oldest of all are given up.
const SPANS: usize = 8;

/// Spans are in order of time and do not overlap.
pub(super) struct Bus {
    turn: Ps,
    /// Spans remembered at most.
    limit: usize,
    spans: VecDeque<BusSpan>,
    /// No burst can start before its end any more.
    floor: BusSpan,
}

impl Bus {
    pub(super) fn new(turn: Ps) -> Self {
        let floor = BusSpan { start: Ps(0), end: Ps(0), way: Direction::Read };
        Bus { turn, limit: usize::MAX, spans: VecDeque::with_capacity(2 * SPANS), floor }
    }

    /// One on which a burst goes before eight placed earlier at most.
    pub(super) fn nearly_in_order(turn: Ps) -> Self {
        Bus { limit: SPANS, ..Bus::new(turn) }
    }

    fn keep_limit(&mut self) {
        if self.spans.len() > self.limit
            && let Some(first) = self.spans.pop_front()
        {
            self.floor = first;
        }
    }

    /// Forgets what is long over at `now`.
    #[inline]
    pub(super) fn forget(&mut self, now: Ps) {
        while self.spans.len() > SPANS && self.spans[0].end <= now {
            self.floor = self.spans[0];
            self.spans.pop_front();
        }
    }

    /// Places a burst of `length` that is ready at `ready`. Returns when it starts.
    #[inline]
    pub(super) fn reserve(&mut self, ready: Ps, length: Ps, way: Direction) -> Ps {
        let last = *self.spans.back().unwrap_or(&self.floor);
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
        let over = self.spans.partition_point(|span| span.end + self.turn <= start);
        for at in over..self.spans.len() {
            let span = self.spans[at];
            let turn = if span.way == way { Ps(0) } else { self.turn };
            if start + length + turn <= span.start {
                self.spans.insert(at, BusSpan { start, end: start + length, way });
                self.keep_limit();
                return start;
            }
            start = start.max(self.after(span, way));
        }
        self.append(start, length, way);
        start
    }

    #[inline]
    fn append(&mut self, start: Ps, length: Ps, way: Direction) {
        if let Some(last) = self.spans.back_mut()
            && last.end == start
            && last.way == way
        {
            last.end += length;
            return;
        }
        self.spans.push_back(BusSpan { start, end: start + length, way });
        self.keep_limit();
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
                bus.forget(Ps(now.saturating_sub(100)));
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
    fn ready_lines_overtake() {
        let mut bus = Bus::new(Ps(3));
        assert_eq!(bus.reserve(Ps(100), Ps(4), Direction::Read), Ps(100));
        assert_eq!(bus.reserve(Ps(10), Ps(4), Direction::Read), Ps(10));
        // 93 + 4 + 3 just fits before 100; from 94 on it does not.
        assert_eq!(bus.reserve(Ps(93), Ps(4), Direction::Write), Ps(93));
        assert_eq!(bus.reserve(Ps(94), Ps(4), Direction::Write), Ps(107));
    }

    /// However many bursts are placed in the future.
    #[test]
    fn many_bursts_to_come_leave_their_gaps() {
        let mut bus = Bus::new(Ps(3));
        for number in 1..1_000 {
            bus.forget(Ps(0));
            assert_eq!(bus.reserve(Ps(100 * number), Ps(4), Direction::Write), Ps(100 * number));
        }
        assert_eq!(bus.reserve(Ps(10), Ps(4), Direction::Read), Ps(10));
        assert_eq!(bus.reserve(Ps(500), Ps(4), Direction::Read), Ps(507));
        bus.forget(Ps(99_000));
        assert_eq!(bus.spans.len(), 10);
    }
}
