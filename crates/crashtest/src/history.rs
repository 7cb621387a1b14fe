//! What a run did and promised: which states a cut may leave.

use crate::Subject;
use std::ops::RangeInclusive;

/// A transaction of a run.
#[derive(Clone, Debug)]
pub(crate) struct Transaction<O> {
    pub(crate) op: O,
    /// Events when it began.
    pub(crate) begun: u64,
    /// Its place in the order of commits; `None` if it aborted.
    pub(crate) ticket: Option<u64>,
    /// It stored something. If not, its ticket may be that of the last one that it saw.
    pub(crate) wrote: bool,
    /// Its commit met a sync that failed: it is the last one, if it is durable. No later one can be.
    pub(crate) failed: bool,
    /// Events when it was known to be durable; `u64::MAX` if that was never said.
    pub(crate) acknowledged: u64,
}

/// What happened in a run, in the order of the transactions' beginnings.
#[derive(Clone, Debug)]
pub(crate) struct History<O> {
    pub(crate) transactions: Vec<Transaction<O>>,
    /// Events when the pool was made, if it was.
    pub(crate) made: u64,
    /// Events when it had been opened: what it held then is durable.
    pub(crate) opened: u64,
    /// Events when the structure was made in it.
    pub(crate) prepared: (u64, u64),
    /// Events in all.
    pub(crate) events: u64,
}

impl<O> Default for History<O> {
    fn default() -> Self {
        History { transactions: Vec::new(), made: 0, opened: 0, prepared: (0, 0), events: 0 }
    }
}

impl<O> History<O> {
    /// The numbers of the transactions that have committed, in the order of their commits.
    pub(crate) fn in_order(&self) -> Vec<usize> {
        let committed = |number: &usize| self.transactions[*number].ticket.is_some();
        let mut order: Vec<usize> = (0..self.transactions.len()).filter(committed).collect();
        order.sort_by_key(|number| {
            let tx = &self.transactions[*number];
            (tx.ticket, !tx.wrote)
        });
        order
    }
}

/// The states that a run goes through, and when which of them may be left.
pub(crate) struct States<M> {
    /// After each number of commits.
    pub(crate) states: Vec<Option<M>>,
    /// For each commit, when it had begun and was acknowledged, by it or by a later one.
    spans: Vec<(u64, u64)>,
    /// Until then the pool may be refused.
    pub(crate) made: u64,
}

impl<M: Clone> States<M> {
    /// The states of this history, from `first` on: the last one is what was found, the ones before
    /// it may be what was durable. What the model and the transactions disagree about is an error.
    pub(crate) fn of<S: Subject<Model = M>>(
        subject: &S,
        first: Vec<Option<M>>,
        history: &History<S::Op>,
    ) -> Result<Self, String> {
        let mut spans = vec![(0, history.opened); first.len().saturating_sub(1)];
        let mut states = first;
        if let [None] = states[..] {
            states.push(Some(subject.prepared()));
            spans.push(history.prepared);
        }
        for tx in history.in_order().into_iter().map(|number| &history.transactions[number]) {
            let mut next = states.last().cloned().flatten().expect("a prepared model");
            if !subject.step(&mut next, &tx.op) {
                return Err(format!("{:?} has committed and should have aborted", tx.op));
            }
            states.push(Some(next));
            spans.push((tx.begun, tx.acknowledged));
        }
        // It may be durable, and was never acknowledged. Those that came after it and stored nothing
        // have seen what was there before.
        if let Some(tx) = history.transactions.iter().find(|tx| tx.failed) {
            let committed = history.in_order();
            let wrote = |number: &usize| history.transactions[*number].wrote;
            let readers = committed.iter().rev().take_while(|number| !wrote(number)).count();
            let read: Vec<_> = spans.drain(spans.len() - readers..).collect();
            states.truncate(states.len() - readers);
            let seen = read.into_iter().map(|(_, acknowledged)| acknowledged).min();
            if let (Some((_, last)), Some(seen)) = (spans.last_mut(), seen) {
                *last = seen.min(*last);
            }
            let mut next = states.last().cloned().flatten().expect("a prepared model");
            if subject.step(&mut next, &tx.op) {
                states.push(Some(next));
                spans.push((tx.begun, u64::MAX));
            }
        }
        let mut states = States { states, spans, made: history.made };
        states.vouch();
        Ok(states)
    }

    /// After so many events the state number `index` was promised.
    pub(crate) fn promise(&mut self, index: usize, events: u64) {
        if let Some(span) = index.checked_sub(1).and_then(|before| self.spans.get_mut(before)) {
            span.1 = span.1.min(events);
            self.vouch();
        }
    }

    /// Whatever is durable vouches for what came before.
    fn vouch(&mut self) {
        let spans = &mut self.spans;
        for index in (1..spans.len()).rev() {
            spans[index - 1].1 = spans[index - 1].1.min(spans[index].1);
        }
    }

    /// Which numbers of commits a cut after `event` may leave.
    pub(crate) fn allowed(&self, event: u64) -> RangeInclusive<usize> {
        let promised = self.spans.iter().take_while(|(_, acked)| *acked <= event).count();
        let begun = self.spans.iter().take_while(|(begun, _)| *begun < event).count();
        promised..=begun.max(promised)
    }
}
