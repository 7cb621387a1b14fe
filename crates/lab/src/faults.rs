//! Fault injection while a simulated machine runs: power cuts between two transactions, and the losses they would
//! cause.

use crate::failure::{Failure, Outcome};
use perdura::{Counters, Result};
use perdura_crashtest::{Losses, losses};
use perdura_machine::Machine;
use perdura_memory::random::SplitMix64;
use perdura_workloads::answers::Answers;
use perdura_workloads::{Computation, PrivateBuffer, Session};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Injects power cuts after some of the transactions of a run, which goes on as if nothing had happened.
pub(crate) struct FaultInjector<'m> {
    machine: &'m Machine,
    state: RefCell<InjectorState>,
}

struct InjectorState {
    transactions: u64,
    /// Numbers of the transactions after which the power is still to be cut.
    cuts: BTreeSet<u64>,
    found: std::result::Result<Losses, String>,
}

impl<'m> FaultInjector<'m> {
    /// Plans `cuts` power cuts at random among `transactions` transactions.
    pub(crate) fn new(machine: &'m Machine, cuts: u64, transactions: u64, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x6375_7473);
        let mut after = BTreeSet::new();
        while (after.len() as u64) < cuts.min(transactions) {
            after.insert(1 + random.below(transactions));
        }
        let state = InjectorState { transactions: 0, cuts: after, found: Ok(Losses::default()) };
        FaultInjector { machine, state: RefCell::new(state) }
    }

    /// A session after whose transactions the power may be cut.
    pub(crate) fn session<S>(&self, inner: S) -> FaultySession<'_, S> {
        FaultySession { inner, injector: self }
    }

    /// The losses of all power cuts.
    pub(crate) fn losses(self) -> Outcome<Losses> {
        self.state.into_inner().found.map_err(Failure::new)
    }

    fn after_transaction(&self) {
        let mut state = self.state.borrow_mut();
        state.transactions += 1;
        let number = state.transactions;
        if state.cuts.remove(&number)
            && let Ok(sum) = state.found
        {
            let cut = losses(&self.machine.power_cut(), &self.machine.visible());
            state.found = cut.map(|cut| sum + cut).map_err(|what| {
                format!("a power cut after transaction {number} of the measured ones: {what}")
            });
        }
    }
}

/// A session whose transactions are counted by a [`FaultInjector`].
pub(crate) struct FaultySession<'c, S> {
    inner: S,
    injector: &'c FaultInjector<'c>,
}

impl<S: Session> Session for FaultySession<'_, S> {
    type Tx<'t> = S::Tx<'t>;

    fn transaction<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        let result = self.inner.transaction(body);
        self.injector.after_transaction();
        result
    }

    fn read<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        let result = self.inner.read(body);
        self.injector.after_transaction();
        result
    }

    fn read_part<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        self.inner.read_part(body)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }

    fn answers(&self) -> Option<Answers> {
        self.inner.answers()
    }

    fn computation(&self) -> Computation {
        self.inner.computation()
    }

    fn private_buffer(&self, bytes: u64) -> PrivateBuffer {
        self.inner.private_buffer(bytes)
    }
}
