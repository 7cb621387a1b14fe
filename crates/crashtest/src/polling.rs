//! Polls after every event which commits are reported as durable: on a session that does nothing else, without the
//! engine's lock.
//!
//! A session that asks after its own commit, as programs do, is too late to notice another one's commit that was
//! reported as durable too early.

use crate::history::History;
use crate::readers::Read;
use perdura::{AnyHeap, AnySession, Ticket};
use std::cell::RefCell;

/// Asks for the tickets of a run.
#[derive(Default)]
pub(crate) struct Poll(Option<AnySession>);

impl Poll {
    /// Polls this heap, unless its `cores` cores need all of its sessions.
    pub(crate) fn of(heap: &dyn AnyHeap, cores: usize) -> Self {
        let all: Result<Vec<AnySession>, _> = (0..=cores).map(|_| heap.session()).collect();
        Poll(all.ok().and_then(|mut all| all.pop()))
    }

    /// Records everything reported as durable after this many events as acknowledged.
    pub(crate) fn ask<O, M>(
        &self,
        events: u64,
        history: &RefCell<History<O>>,
        reads: &RefCell<Vec<Read<M>>>,
    ) {
        let Poll(Some(session)) = self else { return };
        let durable = |ticket| session.is_durable(Ticket(ticket));
        for tx in &mut history.borrow_mut().transactions {
            if tx.acknowledged == u64::MAX && tx.ticket.is_some_and(durable) {
                tx.acknowledged = events;
            }
        }
        for read in &mut *reads.borrow_mut() {
            if read.acknowledged == u64::MAX && durable(read.ticket) {
                read.acknowledged = events;
            }
        }
    }
}
