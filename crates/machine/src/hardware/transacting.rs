//! Programs' transactions: at their begins and ends the mechanism for persistence is called, and the machine records
//! what is promised. Those that the hardware may give up at any access are in `speculating`.

use super::Hardware;
use super::asking::PLACES;
use perdura_memory::{HardwareAbort, HardwareTicket};

/// The place for persistence.
const SECOND: usize = 1;

impl Hardware {
    /// A core begins a transaction, in the place for persistence.
    pub(crate) fn begin(&mut self) -> Result<(), HardwareAbort> {
        let core = self.core;
        if let Some(Err(abort)) =
            self.ask(SECOND, |mechanism, hardware| mechanism.begin(hardware, core))
        {
            return Err(abort);
        }
        if let Some(transactions) = self.data.transactions() {
            transactions.begins(core);
        }
        Ok(())
    }

    /// A core commits its transaction.
    pub(crate) fn commit(&mut self) -> Result<HardwareTicket, HardwareAbort> {
        let core = self.core;
        let ask = self.ask(SECOND, |mechanism, hardware| mechanism.commit(hardware, core));
        let committed = ask.unwrap_or(Ok(HardwareTicket::DURABLE));
        if let Some(transactions) = self.data.transactions() {
            match committed {
                Ok(ticket) => transactions.commits(core, ticket),
                Err(_) => transactions.aborts(core, true),
            }
        }
        committed
    }

    /// A core aborts its transaction. Returns whether its stores are undone.
    pub(crate) fn abort(&mut self) -> bool {
        let core = self.core;
        let ask = self.ask(SECOND, |mechanism, hardware| mechanism.abort(hardware, core));
        let undone = ask.unwrap_or(false);
        if let Some(transactions) = self.data.transactions() {
            transactions.aborts(core, undone);
        }
        undone
    }

    /// A core waits until what it has committed is durable. Returns whether it must come back, when other cores have come
    /// as far as it and the epoch has ended.
    pub(crate) fn flush(&mut self) -> bool {
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
        std::mem::take(&mut self.awaits_epoch)
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
