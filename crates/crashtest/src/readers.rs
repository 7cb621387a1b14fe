//! Transactions that read everything while other cores write: each must see the state after some number of commits,
//! within the bounds of those that it may and must see.

use crate::Subject;
use crate::history::{History, States, Transaction};
use perdura::{AnySession, Error, Mode};
use perdura_machine::Machine;
use std::cell::RefCell;
use std::ops::RangeInclusive;

/// The state that one of them saw.
#[derive(Clone, Debug)]
pub(crate) struct Read<M> {
    state: Option<M>,
    /// The ticket with which everything that it saw is durable.
    pub(crate) ticket: u64,
    /// Its place in the serial order of all transactions, if tickets do not give it.
    serial: Option<u64>,
    /// The number of events when that ticket was acknowledged; `u64::MAX` if never.
    pub(crate) acknowledged: u64,
    /// The last commit that had returned when it began.
    after: Option<u64>,
    /// The number of transactions that had begun when it ended.
    begun: usize,
    /// The number of events when it ended.
    events: u64,
}

/// Reads everything, and records it.
pub(crate) fn read<S: Subject>(
    subject: &S,
    session: &mut AnySession,
    machine: &Machine,
    history: &RefCell<History<S::Op>>,
    reads: &RefCell<Vec<Read<S::Model>>>,
) -> Result<(), Error> {
    let committed = |history: &History<S::Op>| {
        history.transactions.iter().filter(|tx| tx.wrote).filter_map(Transaction::place).max()
    };
    let after = committed(&history.borrow());
    let (state, ticket) = session.run(Mode::Read, |tx| subject.read(tx))?;
    let (begun, events) = (history.borrow().transactions.len(), machine.events());
    let (ticket, acknowledged, serial) = (ticket.0, u64::MAX, session.serial());
    reads.borrow_mut().push(Read { state, ticket, serial, acknowledged, after, begun, events });
    Ok(())
}

/// Checks that the state read is one that had been committed. If it was acknowledged as durable, it counts as promised.
pub(crate) fn agree<S: Subject>(
    states: &mut States<S::Model>,
    history: &mut History<S::Op>,
    reads: &[Read<S::Model>],
) -> Result<(), String> {
    // Parts of a transaction that the medium's failure ended may be visible.
    if history.transactions.iter().any(|tx| tx.failed) {
        return Ok(());
    }
    let order = history.in_order();
    let first = states.states.len() - order.len() - 1;
    for read in reads {
        let up_to = |place: Option<u64>| {
            let is_there = |number: &usize| {
                let tx = &history.transactions[*number];
                tx.wrote && tx.place() <= place
            };
            order.iter().rposition(is_there).map_or(0, |index| index + 1)
        };
        let mut least = up_to(read.after);
        // Transactions that stored nothing change nothing; their place in the order says only which state they saw.
        let later = |number: &usize| *number >= read.begun && history.transactions[*number].wrote;
        let mut most = order.iter().position(later).unwrap_or(order.len());
        if read.serial.is_some() {
            // It reports its own place.
            let own = up_to(read.serial);
            if !(least..=most.max(least)).contains(&own) {
                return Err(format!(
                    "a transaction that read everything, up to event {}, stands after {own} commits, where there were {least} to {most}",
                    read.events
                ));
            }
            (least, most) = (own, own);
        }
        let range: RangeInclusive<usize> = first + least..=first + most.max(least);
        let Some(index) = range.clone().find(|index| states.states[*index] == read.state) else {
            let known = states.states.iter().position(|known| *known == read.state);
            let what = match known {
                Some(index) => format!("the state after {index} commits"),
                None => "no state that was ever committed".to_owned(),
            };
            return Err(format!(
                "a transaction that read everything, up to event {}, saw {what}, where there were {} to {}",
                read.events,
                range.start(),
                range.end()
            ));
        };
        states.promise(index, read.acknowledged);
        if read.serial.is_some() {
            // Everything that it has seen is durable, whichever commits those are.
            for number in &order[..index - first] {
                let tx = &mut history.transactions[*number];
                tx.acknowledged = tx.acknowledged.min(read.acknowledged);
            }
        }
    }
    Ok(())
}
