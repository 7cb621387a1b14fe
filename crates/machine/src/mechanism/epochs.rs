//! Tickets of epochs: what a program has committed is durable when its epoch is.
//!
//! A mechanism by epochs has an [`EpochTickets`], gives it to the machine ([`Mechanism::tickets`](super::Mechanism)), and
//! reports each epoch that has ended. A program that waits makes no epoch end that the clock will end: it waits for that,
//! while other cores go on. Where no clock ends epochs, the wait does.

use crate::Ps;
use perdura_memory::HardwareTicket;
use std::collections::VecDeque;

/// Ended epochs that are kept apart at most: one that so many have followed counts as durable.
const APART: usize = 8;

/// When an epoch is durable of which that is not known yet.
const NOT_YET: Ps = Ps(u64::MAX);

/// The epochs since the power is on: the open one, and which of the ended are durable.
#[derive(Debug)]
pub struct EpochTickets {
    /// The open epoch, counted from 1.
    open: u64,
    /// When the last ended epochs are durable, ascending: the newest of them is the one before the open one.
    ended: VecDeque<Ps>,
    /// For each core, the epoch of its last commit.
    committed: Vec<u64>,
}

/// An epoch that a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedEpoch {
    /// The open one, which must end first.
    Open,
    /// One that has ended, and is durable then.
    Ended(Ps),
}

impl Default for EpochTickets {
    fn default() -> Self {
        EpochTickets { open: 1, ended: VecDeque::new(), committed: Vec::new() }
    }
}

impl EpochTickets {
    /// The open epoch has ended: it is durable from `at` on, and another is open. To be called once for each epoch.
    pub fn ended(&mut self, at: Ps) {
        self.ends();
        self.is_durable(at);
    }

    /// The open epoch ends, and another is open. A mechanism whose checkpoints overlap with the next epoch says later when
    /// it [is durable](Self::is_durable), and ends no other before.
    pub fn ends(&mut self) {
        self.ended.push_back(NOT_YET);
        if self.ended.len() > APART {
            self.ended.pop_front();
        }
        self.open += 1;
    }

    /// The epoch that has ended last is durable from `at` on.
    pub fn is_durable(&mut self, at: Ps) {
        self.ended.pop_back();
        let before = self.ended.back().copied().unwrap_or_default();
        self.ended.push_back(at.max(before));
    }

    /// A core has committed: the ticket of the open epoch.
    pub(crate) fn commit(&mut self, core: usize) -> HardwareTicket {
        if self.committed.len() <= core {
            self.committed.resize(core + 1, 0);
        }
        self.committed[core] = self.open;
        HardwareTicket(self.open)
    }

    /// The last epoch that is durable at `now`.
    pub(crate) fn durable(&self, now: Ps) -> HardwareTicket {
        let later = self.ended.iter().rev().take_while(|at| **at > now).count();
        HardwareTicket(self.open - 1 - later as u64)
    }

    /// What a core waits for so that all that it has committed is durable.
    pub(crate) fn awaited(&self, core: usize) -> AwaitedEpoch {
        let last = self.committed.get(core).copied().unwrap_or_default();
        if last == self.open {
            return AwaitedEpoch::Open;
        }
        // Epochs after it that have ended.
        let after = self.open - 1 - last;
        let ended = self.ended.iter().rev().nth(after as usize).copied();
        match ended {
            // The open epoch ends no earlier than its checkpoint is made.
            Some(NOT_YET) => AwaitedEpoch::Open,
            ended => AwaitedEpoch::Ended(ended.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epochs that overlap with the next ones: durable some time after they have ended, in their order.
    #[test]
    fn a_ticket_is_durable_when_its_epoch_is() {
        let mut tickets = EpochTickets::default();
        assert_eq!(
            (tickets.commit(0), tickets.durable(Ps(0))),
            (HardwareTicket(1), HardwareTicket(0))
        );
        tickets.ended(Ps(100));
        assert_eq!(tickets.commit(1), HardwareTicket(2));
        let awaited = [0, 1, 2].map(|core| tickets.awaited(core));
        let none = AwaitedEpoch::Ended(Ps(0));
        assert_eq!(awaited, [AwaitedEpoch::Ended(Ps(100)), AwaitedEpoch::Open, none]);
        tickets.ended(Ps(90));
        let durable = |tickets: &EpochTickets, at| tickets.durable(Ps(at)).0;
        assert_eq!([99, 100].map(|at| durable(&tickets, at)), [0, 2], "not before the one before");
        tickets.ends();
        assert_eq!(tickets.commit(0), HardwareTicket(4));
        assert_eq!(durable(&tickets, 1 << 40), 2, "its checkpoint is still being made");
        tickets.is_durable(Ps(150));
        assert_eq!([149, 150].map(|at| durable(&tickets, at)), [2, 3]);
        for epoch in 4..40 {
            assert_eq!(tickets.commit(0), HardwareTicket(epoch));
            tickets.ended(Ps(100 * epoch));
            let end = 100 * epoch;
            assert_eq!([end - 1, end].map(|at| durable(&tickets, at)), [epoch - 1, epoch]);
        }
    }
}
