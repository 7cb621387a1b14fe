//! Programs' transactions: at their begins and ends both mechanisms are called, and the machine records what is
//! promised.

use super::Hardware;
use super::asking::PLACES;
use perdura_memory::{HardwareAbort, HardwareTicket};

impl Hardware {
    /// A core begins a transaction: in both places, or in none.
    pub(crate) fn begin(&mut self) -> Result<(), HardwareAbort> {
        let core = self.core;
        for place in 0..PLACES {
            let begun = self.ask(place, |mechanism, hardware| mechanism.begin(hardware, core));
            if let Some(Err(abort)) = begun {
                for before in 0..place {
                    self.ask(before, |mechanism, hardware| mechanism.abort(hardware, core));
                }
                return Err(abort);
            }
        }
        if let Some(transactions) = self.data.transactions() {
            transactions.begins(core);
        }
        Ok(())
    }

    /// A core commits its transaction: first in the place for transactions, then in the place for persistence. If
    /// either aborts it, so does the other.
    pub(crate) fn commit(&mut self) -> Result<HardwareTicket, HardwareAbort> {
        let (core, mut last) = (self.core, HardwareTicket::DURABLE);
        for place in 0..PLACES {
            match self.ask(place, |mechanism, hardware| mechanism.commit(hardware, core)) {
                None => {}
                Some(Ok(ticket)) => last = last.max(ticket),
                Some(Err(abort)) => {
                    for other in (0..PLACES).filter(|other| *other != place) {
                        self.ask(other, |mechanism, hardware| mechanism.abort(hardware, core));
                    }
                    if let Some(transactions) = self.data.transactions() {
                        transactions.aborts(core, true);
                    }
                    return Err(abort);
                }
            }
        }
        if let Some(transactions) = self.data.transactions() {
            transactions.commits(core, last);
        }
        Ok(last)
    }

    /// A core aborts its transaction. Returns whether its stores are undone.
    pub(crate) fn abort(&mut self) -> bool {
        let (core, mut undone) = (self.core, false);
        for place in (0..PLACES).rev() {
            let ask = self.ask(place, |mechanism, hardware| mechanism.abort(hardware, core));
            undone |= ask.unwrap_or(false);
        }
        if let Some(transactions) = self.data.transactions() {
            transactions.aborts(core, undone);
        }
        undone
    }

    /// A core waits until what it has committed is durable.
    pub(crate) fn flush(&mut self) {
        let core = self.core;
        let committed = self.data.transactions().map(|transactions| transactions.last());
        for place in 0..PLACES {
            self.ask(place, |mechanism, hardware| mechanism.flush(hardware, core));
        }
        let now = self.now();
        if let Some(last) = committed
            && let Some(transactions) = self.data.transactions()
        {
            transactions.tells(now, last);
        }
    }

    /// The last ticket that is durable with all before it.
    pub(crate) fn durable(&mut self) -> HardwareTicket {
        let tickets = [0, 1].map(|place| {
            let ticket = self.ask(place, |mechanism, hardware| mechanism.durable(hardware));
            ticket.unwrap_or(HardwareTicket::LAST)
        });
        let (last, now) = (tickets[0].min(tickets[1]), self.now());
        if let Some(transactions) = self.data.transactions() {
            transactions.tells(now, last);
        }
        last
    }
}
