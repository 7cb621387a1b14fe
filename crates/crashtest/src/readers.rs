//! Transactions that read everything while other cores write: what one of them sees is the state
//! after some number of commits, of those that it may and must see.

use crate::Subject;
use crate::history::{History, States};
use perdura::{AnySession, Error, Mode};
use perdura_machine::Machine;
use std::cell::RefCell;
use std::ops::RangeInclusive;

/// What one of them saw.
#[derive(Clone, Debug)]
pub(crate) struct Read<M> {
    state: Option<M>,
    /// What it saw is durable when this is.
    pub(crate) ticket: u64,
    /// Events when it was known that it is; `u64::MAX` if that was never said.
    pub(crate) acknowledged: u64,
    /// The last commit that had returned when it began.
    after: Option<u64>,
    /// Transactions that had begun when it ended.
    begun: usize,
    /// Events when it ended.
    events: u64,
}

/// Reads everything, and notes what there was.
pub(crate) fn read<S: Subject>(
    subject: &S,
    session: &mut AnySession,
    machine: &Machine,
    history: &RefCell<History<S::Op>>,
    reads: &RefCell<Vec<Read<S::Model>>>,
) -> Result<(), Error> {
    let committed = |history: &History<S::Op>| {
        history.transactions.iter().filter(|tx| tx.wrote).filter_map(|tx| tx.ticket).max()
    };
    let after = committed(&history.borrow());
    let (state, ticket) = session.run(Mode::Read, |tx| subject.read(tx))?;
    let (begun, events) = (history.borrow().transactions.len(), machine.events());
    let (ticket, acknowledged) = (ticket.0, u64::MAX);
    reads.borrow_mut().push(Read { state, ticket, acknowledged, after, begun, events });
    Ok(())
}

/// What was read is what had been committed. Whoever was told that what it saw is durable relies
/// on it.
pub(crate) fn agree<S: Subject>(
    states: &mut States<S::Model>,
    history: &History<S::Op>,
    reads: &[Read<S::Model>],
) -> Result<(), String> {
    // Something may be visible of a transaction that the medium's failure ended.
    if history.transactions.iter().any(|tx| tx.failed) {
        return Ok(());
    }
    let order = history.in_order();
    let first = states.states.len() - order.len() - 1;
    for read in reads {
        let least = order
            .iter()
            .rposition(|number| {
                let tx = &history.transactions[*number];
                tx.wrote && tx.ticket <= read.after
            })
            .map_or(0, |index| index + 1);
        // Those that stored nothing change nothing; where they stand in the order says only what they saw.
        let later = |number: &usize| *number >= read.begun && history.transactions[*number].wrote;
        let most = order.iter().position(later).unwrap_or(order.len());
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
    }
    Ok(())
}
