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

use crate::answers::Answers;
use crate::computation::Computation;
use crate::private::PrivateBuffer;
use crate::session::{Session, Store, Submit};
use perdura::{Counters, Result, Ticket};
use std::collections::VecDeque;

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

    fn read_part<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        if self.window == 1 {
            return self.inner.read(body);
        }
        Ok(self.inner.submit_read(body)?.0)
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

    #[inline]
    fn computation(&self) -> Computation {
        self.inner.computation()
    }

    #[inline]
    fn private_buffer(&self, bytes: u64) -> PrivateBuffer {
        self.inner.private_buffer(bytes)
    }
}
