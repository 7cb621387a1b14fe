//! Hardware transactional memory, with a lock for the transactions that the hardware gives up ([`Htm`]), or with software
//! transactional memory for these ([`Hybrid`]).
//!
//! Under `Htm` transactions run as speculations of the memory's hardware, which isolates them; the lock elided so is
//! [`ElidedLock`](perdura_memory::elision::ElidedLock). This is the order of the writers on the fallback path, who enter
//! one at a time, in no particular order: they hold that lock already.

use super::safety::Synchronisation;
use super::stm::Concurrency;
use crate::tuning::Tuning;
use perdura_memory::Memory;
use perdura_memory::elision::{Attempts, Delay};
use perdura_memory::lock::Order;
use perdura_memory::random::SplitMix64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Writers run in hardware, or enter in no particular order.
#[derive(Debug, Default)]
pub struct Htm;

impl Order for Htm {
    type Place = ();
}

impl Synchronisation for Htm {
    const FENCES: bool = false;
}

/// Bodies run in hardware as far as to their locks, and commit as under [`Stm`](super::Stm), as which the others run.
#[derive(Debug, Default)]
pub struct Hybrid;

impl Concurrency for Hybrid {
    const SPECULATES: bool = true;
}

/// How patiently transactions are tried in hardware: [`Tuning::attempts`], [`Tuning::conflict_delay`] and
/// [`Tuning::fallback_percent`].
#[derive(Debug)]
pub(crate) struct Patience {
    fallback_percent: AtomicU64,
    /// Attempts and delay, their numbers in order.
    numbers: [AtomicU32; 5],
}

impl Default for Patience {
    fn default() -> Self {
        let own = Patience { fallback_percent: AtomicU64::new(0), numbers: Default::default() };
        own.tune(&Tuning::default());
        own
    }
}

impl Patience {
    /// Sets what transactions use that begin from now on.
    pub(crate) fn tune(&self, tuning: &Tuning) {
        let Attempts { conflicts, interrupts, others } = tuning.attempts.unwrap_or_default();
        let Delay { first, most } = tuning.conflict_delay.unwrap_or_default();
        for (place, number) in self.numbers.iter().zip([conflicts, interrupts, others, first, most])
        {
            place.store(number, Ordering::Relaxed);
        }
        self.fallback_percent.store(tuning.fallback_percent.unwrap_or(0), Ordering::Relaxed);
    }

    /// What a transaction that begins now uses.
    pub(crate) fn now(&self) -> (Attempts, Delay) {
        let [conflicts, interrupts, others, first, most] =
            [0, 1, 2, 3, 4].map(|index: usize| self.numbers[index].load(Ordering::Relaxed));
        (Attempts { conflicts, interrupts, others }, Delay { first, most })
    }

    /// Whether the transaction that begins, in this lane, is one of those that take the fallback path at once.
    pub(crate) fn falls_back<M: Memory>(&self, memory: &M, lane: u32) -> bool {
        let percent = self.fallback_percent.load(Ordering::Relaxed);
        percent > 0 && SplitMix64::new(memory.now() ^ u64::from(lane) << 48).below(100) < percent
    }
}
