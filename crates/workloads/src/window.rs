//! Windows of unacknowledged transactions: a client that does not wait for each acknowledgement.
//!
//! A commit has two moments: after the logical one others see it, and after the durable one it may be
//! acknowledged. A [`Windowed`] session goes on after the first. It keeps up to a given number of
//! transactions unacknowledged; then it waits for the oldest of them, which often makes others durable
//! too. With a window of one it is a closed loop, in which each waits for the one before.
//! Nothing is gained if an engine's commits are durable before they are visible.
//!
//! Latencies are counted until a transaction is known to be durable. The session knows that moment,
//! and the [`Recorder`](crate::Recorder) the operation's kind and beginning: the two share
//! [`Answers`].

use crate::session::{Session, Store, Submit};
use perdura::{Counters, Result, Ticket};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// Tickets that a window has room for at first: an unbounded window, which never waits, may grow further.
const MOST_AT_FIRST: usize = 1 << 16;

/// A store whose sessions keep up to `window` transactions unacknowledged.
pub struct Windows<'s, S: ?Sized> {
    store: &'s S,
    window: usize,
}

impl<'s, S: ?Sized> Windows<'s, S> {
    /// `store` through a window of this many transactions; 0 is taken for 1.
    pub fn new(store: &'s S, window: usize) -> Self {
        Windows { store, window: window.max(1) }
    }
}

impl<S: Store + ?Sized> Store for Windows<'_, S>
where
    S::Session: Submit,
{
    type Session = Windowed<S::Session>;

    fn session(&self) -> Result<Self::Session> {
        Ok(Windowed::new(self.store.session()?, self.window))
    }
}

/// A session that returns from a transaction before it is durable.
pub struct Windowed<S> {
    inner: S,
    window: usize,
    /// Tickets of the unacknowledged transactions, ascending.
    tickets: VecDeque<Ticket>,
    answers: Answers,
}

impl<S: Submit> Windowed<S> {
    /// `inner` with up to `window` transactions unacknowledged; 0 is taken for 1.
    pub fn new(inner: S, window: usize) -> Self {
        let window = window.max(1);
        let tickets =
            VecDeque::with_capacity(if window == 1 { 0 } else { window.min(MOST_AT_FIRST) });
        Windowed { inner, window, tickets, answers: Answers::default() }
    }

    /// Transactions that are not known to be durable.
    pub fn unanswered(&self) -> usize {
        self.tickets.len()
    }

    /// A transaction has committed: makes room for the next one in the window.
    #[inline(never)]
    fn committed(&mut self, ticket: Ticket) -> Result<()> {
        // A reader may depend on less than the transaction before it: still acknowledged in order.
        let before = self.tickets.back().copied().unwrap_or_default();
        self.tickets.push_back(ticket.max(before));
        self.answers.submitted();
        if self.tickets.len() >= self.window
            && let Some(&oldest) = self.tickets.front()
        {
            self.inner.wait(oldest)?;
        }
        self.look();
        Ok(())
    }

    /// Acknowledges the transactions that are durable by now.
    fn look(&mut self) {
        let before = self.tickets.len();
        while self.tickets.front().is_some_and(|&ticket| self.inner.is_durable(ticket)) {
            self.tickets.pop_front();
        }
        self.answers.answered(before - self.tickets.len());
    }
}

impl<S: Submit> Session for Windowed<S> {
    type Tx<'t> = S::Tx<'t>;

    #[inline]
    fn transaction<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        if self.window == 1 {
            return self.inner.transaction(body);
        }
        let (result, ticket) = self.inner.submit(body)?;
        self.committed(ticket)?;
        Ok(result)
    }

    /// The data read may not be durable either: a read takes a place in the window.
    #[inline]
    fn read<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        if self.window == 1 {
            return self.inner.read(body);
        }
        let (result, ticket) = self.inner.submit_read(body)?;
        self.committed(ticket)?;
        Ok(result)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(&newest) = self.tickets.back() {
            self.inner.wait(newest)?;
            self.look();
        }
        self.inner.finish()
    }

    fn answers(&self) -> Option<Answers> {
        (self.window > 1).then(|| self.answers.clone())
    }
}

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
    fn submitted(&self) {
        self.0.submitted.set(self.0.submitted.get() + 1);
    }

    /// The `count` oldest unacknowledged transactions have been acknowledged.
    fn answered(&self, count: usize) {
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
