//! The history of a run: its transactions and acknowledgements, and hence the states that a power cut may leave.

use crate::Subject;
use perdura_machine::{Event, Ps};
use std::ops::RangeInclusive;

/// Which commits a power cut leaves, of those that are not known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// Those up to some ticket, which is their serial order too.
    InOrder,
    /// Those up to some ticket; the serial order is another one.
    ByTicket,
    /// Any of them.
    Any,
}

impl Survivors {
    /// Of an engine with these properties.
    pub(crate) fn of(in_order: bool, leaves_prefix: bool) -> Self {
        match (in_order, leaves_prefix) {
            (true, _) => Survivors::InOrder,
            (false, true) => Survivors::ByTicket,
            (false, false) => Survivors::Any,
        }
    }
}

/// A transaction of a run.
#[derive(Clone, Debug)]
pub(crate) struct Transaction<O> {
    pub(crate) op: O,
    /// The number of events when it began.
    pub(crate) begun: u64,
    /// Its ticket; `None` if it aborted.
    pub(crate) ticket: Option<u64>,
    /// Its place in a serial order of all transactions, if that differs from ticket order.
    pub(crate) serial: Option<u64>,
    /// Whether it met conflicts, and was run again.
    pub(crate) again: bool,
    /// Whether it stored something. If not, its ticket may be that of the last one that it saw.
    pub(crate) wrote: bool,
    /// Whether its commit met a sync that failed: if it is durable, it is the last one, or among those that were
    /// committing at the same time. No later one can be.
    pub(crate) failed: bool,
    /// The number of events when it was acknowledged as durable; `u64::MAX` if never.
    pub(crate) acknowledged: u64,
    /// The time of its core when its commit had returned.
    pub(crate) returned: Ps,
}

impl<O> Transaction<O> {
    /// Its place in the order of commits; `None` if it aborted.
    pub(crate) fn place(&self) -> Option<u64> {
        self.ticket.map(|ticket| self.serial.unwrap_or(ticket))
    }
}

/// The events of a run; transactions in the order in which they began.
#[derive(Clone, Debug)]
pub(crate) struct History<O> {
    pub(crate) transactions: Vec<Transaction<O>>,
    /// The number of events when the pool was created, if it was.
    pub(crate) made: u64,
    /// The number of events when it had been opened: its contents then are durable.
    pub(crate) opened: u64,
    /// The numbers of events when creating the structure in it began and ended.
    pub(crate) prepared: (u64, u64),
    /// The number of events in all.
    pub(crate) events: u64,
}

impl<O> Default for History<O> {
    fn default() -> Self {
        History { transactions: Vec::new(), made: 0, opened: 0, prepared: (0, 0), events: 0 }
    }
}

impl<O> History<O> {
    /// Whether so many transactions are not known to be durable that those of `cores` cores must be waited for, where
    /// any subset of them may be left: each core may be in one, and end another one before it looks again.
    pub(crate) fn is_crowded(&self, cores: usize) -> bool {
        let open = |tx: &&Transaction<O>| tx.ticket.is_some() && tx.acknowledged == u64::MAX;
        self.transactions.iter().filter(open).count() + 2 * cores > MOST_OPEN
    }

    /// The numbers of the transactions that have committed, in the order of their commits.
    pub(crate) fn in_order(&self) -> Vec<usize> {
        let committed = |number: &usize| self.transactions[*number].ticket.is_some();
        let mut order: Vec<usize> = (0..self.transactions.len()).filter(committed).collect();
        order.sort_by_key(|number| {
            let tx = &self.transactions[*number];
            (tx.place(), !tx.wrote)
        });
        order
    }
}

/// The states that a run goes through, and when each of them may be left.
pub(crate) struct States<M> {
    /// The state after each number of commits.
    pub(crate) states: Vec<Option<M>>,
    /// For each commit, when it began and when it was acknowledged, itself or by a later one.
    spans: Vec<(u64, u64)>,
    /// Until this event the pool may be refused.
    pub(crate) made: u64,
    /// How many of the commits precede the run's transactions.
    before: usize,
    survivors: Survivors,
}

impl<M: Clone> States<M> {
    /// The states of this history, from `first` on: the last one is the one found, any of the earlier ones may be what
    /// was durable. A disagreement between the model and the transactions is an error.
    pub(crate) fn of<S: Subject<Model = M>>(
        subject: &S,
        first: Vec<Option<M>>,
        history: &History<S::Op>,
        survivors: Survivors,
    ) -> Result<Self, String> {
        let mut spans = vec![(0, history.opened); first.len().saturating_sub(1)];
        let mut states = first;
        if let [None] = states[..] {
            states.push(Some(subject.prepared()));
            spans.push(history.prepared);
        }
        let before = spans.len();
        for tx in history.in_order().into_iter().map(|number| &history.transactions[number]) {
            let mut next = states.last().cloned().flatten().expect("a prepared model");
            if !subject.step(&mut next, &tx.op) {
                return Err(format!("{:?} has committed and should have aborted", tx.op));
            }
            states.push(Some(next));
            spans.push((tx.begun, tx.acknowledged));
        }
        // It may be durable, and was never acknowledged. Later transactions that stored nothing have seen the state
        // before it.
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
        let mut states = States { states, spans, made: history.made, before, survivors };
        states.propagate();
        Ok(states)
    }

    /// State number `index` was acknowledged as durable after `events` events.
    pub(crate) fn promise(&mut self, index: usize, events: u64) {
        if let Some(span) = index.checked_sub(1).and_then(|before| self.spans.get_mut(before)) {
            span.1 = span.1.min(events);
            self.propagate();
        }
    }

    /// Everything acknowledged implies everything before it.
    fn propagate(&mut self) {
        let in_order = self.survivors == Survivors::InOrder;
        let end = if in_order { self.spans.len() } else { self.before };
        let spans = &mut self.spans[..end];
        for index in (1..spans.len()).rev() {
            spans[index - 1].1 = spans[index - 1].1.min(spans[index].1);
        }
    }

    /// The numbers of commits that a power cut after `event` may leave, if commits become durable in order.
    fn prefixes(&self, event: u64) -> RangeInclusive<usize> {
        let promised = self.spans.iter().take_while(|(_, acked)| *acked <= event).count();
        let begun = self.spans.iter().take_while(|(begun, _)| *begun < event).count();
        promised..=begun.max(promised)
    }

    /// The states that a power cut after `event` may leave of a run with this history.
    pub(crate) fn allowed<S: Subject<Model = M>>(
        &self,
        subject: &S,
        history: &History<S::Op>,
        event: u64,
    ) -> Allowed<M> {
        let made = self.spans[..self.before].iter().all(|(_, acknowledged)| *acknowledged <= event);
        if self.survivors == Survivors::InOrder || !made {
            return Allowed::Prefixes(self.prefixes(event));
        }
        self.sets(subject, history, event, |tx| tx.acknowledged <= event)
    }

    /// The same, of a power cut at a time at or before `event`, where the clocks of cores differ: what was acknowledged
    /// later by its core's clock may be missing, even if its core ran earlier. `None` if commits become durable in order,
    /// or there was no structure yet.
    pub(crate) fn allowed_at<S: Subject<Model = M>>(
        &self,
        subject: &S,
        history: &History<S::Op>,
        event: &Event,
        time: Ps,
    ) -> Option<Allowed<M>> {
        let last = event.number - u64::from(event.arrival > 0);
        let made = self.spans[..self.before].iter().all(|(_, acknowledged)| *acknowledged <= last);
        let sure = |tx: &Transaction<S::Op>| tx.acknowledged <= last && tx.returned <= time;
        let sets = || self.sets(subject, history, event.number, sure);
        (self.survivors == Survivors::Any && made).then(sets)
    }

    /// All acknowledged commits, with any subset of the others that had begun, or with those up to some ticket.
    fn sets<S: Subject<Model = M>>(
        &self,
        subject: &S,
        history: &History<S::Op>,
        event: u64,
        is_sure: impl Fn(&Transaction<S::Op>) -> bool,
    ) -> Allowed<M> {
        let mut order: Vec<&Transaction<S::Op>> =
            history.in_order().into_iter().map(|number| &history.transactions[number]).collect();
        order.extend(history.transactions.iter().filter(|tx| tx.failed));
        let stored = |tx: &&Transaction<S::Op>| (tx.wrote || tx.failed) && tx.begun < event;
        let order: Vec<_> = order.into_iter().filter(stored).collect();
        let sure = |tx: &&&Transaction<S::Op>| is_sure(tx);
        let open = order.len() - order.iter().filter(sure).count();
        assert!(open <= MOST_OPEN, "{open} transactions are neither durable nor over");
        // All commits before the first uncertain one.
        let first = order.iter().take_while(sure).count();
        let mut base = self.states[self.before].clone();
        for tx in &order[..first] {
            step(subject, &mut base, &tx.op);
        }
        let mut states = Vec::new();
        for chosen in 0_usize..1 << open {
            if self.survivors == Survivors::ByTicket && leaves_gap(&order, sure, chosen) {
                states.push(None);
                continue;
            }
            let (mut state, mut number) = (base.clone(), 0);
            for tx in &order[first..] {
                let is_open = !sure(&tx);
                if !is_open || chosen & 1 << number != 0 {
                    step(subject, &mut state, &tx.op);
                }
                number += usize::from(is_open);
            }
            states.push(state);
        }
        Allowed::Sets { sure: order.len() - open, states }
    }
}

/// Whether a commit is missing before one that is there: the bits of `chosen` say which of the uncertain ones are.
fn leaves_gap<O>(
    order: &[&Transaction<O>],
    sure: impl Fn(&&&Transaction<O>) -> bool,
    chosen: usize,
) -> bool {
    let (mut last, mut missing, mut number) = (0, u64::MAX, 0);
    for tx in order {
        let ticket = tx.ticket.unwrap_or(u64::MAX);
        let is_open = !sure(&tx);
        if is_open && chosen & 1 << number == 0 {
            missing = missing.min(ticket);
        } else {
            last = last.max(ticket);
        }
        number += usize::from(is_open);
    }
    missing < last
}

/// The maximum number of transactions, on all cores, that may or may not be durable.
const MOST_OPEN: usize = 10;

/// A step of the model. An operation that the model aborts here has committed only because of another one that is
/// missing: no such state is left.
fn step<S: Subject>(subject: &S, state: &mut Option<S::Model>, op: &S::Op) {
    if let Some(model) = state
        && !subject.step(model, op)
    {
        *state = None;
    }
}

/// The states that a power cut may leave.
pub(crate) enum Allowed<M> {
    /// The state after one of these numbers of commits.
    Prefixes(RangeInclusive<usize>),
    /// One of these states: the bits of a state's index say which of the uncertain commits it has.
    Sets {
        /// How many commits are certainly durable.
        sure: usize,
        /// The states; `None` for an impossible one.
        states: Vec<Option<M>>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticket 2 is acknowledged; which of 1, 3 and 4 are there is chosen.
    #[test]
    fn gaps_by_ticket() {
        let tx = |ticket, acknowledged| Transaction {
            op: (),
            begun: 0,
            ticket: Some(ticket),
            serial: None,
            again: false,
            wrote: true,
            failed: false,
            acknowledged,
            returned: Ps::default(),
        };
        let all = [tx(3, u64::MAX), tx(2, 5), tx(1, u64::MAX), tx(4, u64::MAX)];
        let order: Vec<_> = all.iter().collect();
        let sure = |tx: &&&Transaction<()>| tx.acknowledged <= 5;
        // Bit 0 is of ticket 3, bit 1 of ticket 1, bit 2 of ticket 4.
        let allowed: Vec<_> = (0..8).filter(|chosen| !leaves_gap(&order, sure, *chosen)).collect();
        assert_eq!(allowed, [0b010, 0b011, 0b111]);
    }
}
