//! A bus that carries one burst at a time. Bursts are placed when they are asked for, in the
//! first gap that is long enough: one that is ready early need not wait for one placed before it
//! that is ready late.

use crate::Ps;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

#[derive(Clone, Copy)]
struct Span {
    start: Ps,
    end: Ps,
    way: Way,
}

/// Spans remembered. Gaps before the oldest of them are given up.
const SPANS: usize = 8;

/// Spans are in order of time and do not overlap.
pub(super) struct Bus {
    turn: Ps,
    spans: [Span; SPANS],
    len: usize,
    /// Before it no burst can start any more.
    floor: Span,
}

impl Bus {
    pub(super) fn new(turn: Ps) -> Self {
        let none = Span { start: Ps(0), end: Ps(0), way: Way::Read };
        Bus { turn, spans: [none; SPANS], len: 0, floor: none }
    }

    /// Places a burst of `length` that is ready at `ready`; when it starts.
    #[inline]
    pub(super) fn reserve(&mut self, ready: Ps, length: Ps, way: Way) -> Ps {
        let last = if self.len > 0 { self.spans[self.len - 1] } else { self.floor };
        let after = self.after(last, way);
        if ready >= after {
            self.append(ready, length, way);
            return ready;
        }
        self.search(ready, length, way)
    }

    /// When a burst of this way can follow that span. At rest, no turn is needed.
    #[inline]
    fn after(&self, span: Span, way: Way) -> Ps {
        let turns = span.way != way && span.end > Ps(0);
        if turns { span.end + self.turn } else { span.end }
    }

    fn search(&mut self, ready: Ps, length: Ps, way: Way) -> Ps {
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
    fn append(&mut self, start: Ps, length: Ps, way: Way) {
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
        self.spans[self.len] = Span { start, end: start + length, way };
        self.len += 1;
    }

    fn insert(&mut self, mut at: usize, start: Ps, length: Ps, way: Way) {
        if self.len == SPANS {
            if at == 0 {
                // Its gap is lost, its time is not: whatever comes later starts after it.
                self.floor = Span { start, end: start + length, way };
                return;
            }
            self.forget_first();
            at -= 1;
        }
        self.spans.copy_within(at..self.len, at + 1);
        self.spans[at] = Span { start, end: start + length, way };
        self.len += 1;
    }

    #[inline]
    fn forget_first(&mut self) {
        self.floor = self.spans[0];
        self.spans.copy_within(1..self.len, 0);
        self.len -= 1;
    }
}
