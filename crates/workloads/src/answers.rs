//! When transactions are acknowledged that return before they are durable.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// State that one thread's windowed session and recorder share: how many transactions were
/// submitted and acknowledged, and the timed operations among them.
#[derive(Clone, Debug, Default)]
pub struct Answers(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    submitted: Cell<u64>,
    answered: Cell<u64>,
    waiting: RefCell<VecDeque<Sample>>,
    known: RefCell<Vec<(usize, u64)>>,
}

/// A timed operation.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// It is acknowledged when this many transactions are.
    after: u64,
    kind: usize,
    start: Instant,
}

impl Sample {
    fn nanoseconds(&self, end: Instant) -> (usize, u64) {
        (self.kind, end.saturating_duration_since(self.start).as_nanos() as u64)
    }
}

impl Answers {
    pub(crate) fn submitted(&self) {
        self.0.submitted.set(self.0.submitted.get() + 1);
    }

    /// The `count` oldest unacknowledged transactions have been acknowledged.
    pub(crate) fn answered(&self, count: usize) {
        let answered = self.0.answered.get() + count as u64;
        self.0.answered.set(answered);
        let mut waiting = self.0.waiting.borrow_mut();
        let is_known = |sample: &Sample| sample.after <= answered;
        if !waiting.front().is_some_and(is_known) {
            return;
        }
        // The clock is read only where something was timed.
        let (now, mut known) = (Instant::now(), self.0.known.borrow_mut());
        while let Some(sample) = waiting.pop_front_if(|sample| is_known(sample)) {
            known.push(sample.nanoseconds(now));
        }
    }

    /// An operation of this kind, begun at `start`, has submitted its last transaction.
    pub fn expect(&self, kind: usize, start: Instant) {
        let after = self.0.submitted.get();
        let sample = Sample { after, kind, start };
        if self.0.answered.get() >= after {
            self.0.known.borrow_mut().push(sample.nanoseconds(Instant::now()));
        } else {
            self.0.waiting.borrow_mut().push_back(sample);
        }
    }

    /// Calls `each` with the kinds and latencies, in nanoseconds, of operations acknowledged since the
    /// last call.
    pub fn take_known(&self, mut each: impl FnMut(usize, u64)) {
        self.0.known.borrow_mut().drain(..).for_each(|(kind, ns)| each(kind, ns));
    }
}
