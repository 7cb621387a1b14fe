//! The shared state of the sessions of an engine on hardware transactions.

use super::fallback::Fallback;
use crate::sums::Places;
use crate::{Engine, Session};
use perdura_memory::Memory;
use perdura_memory::elision::{Attempts, Delay, ElidedLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The engine of the fallback path.
pub(super) type Inner<M, C, S> = <C as Fallback<S>>::Engine<M>;
/// Its sessions.
pub(super) type InnerSession<M, C, S> = <Inner<M, C, S> as Engine<M>>::Session;

/// An engine whose transactions run in hardware, or on the fallback path with consistency `C`.
pub struct Elided<M: Memory + 'static, C: Fallback<S>, S> {
    pub(super) memory: Arc<M>,
    pub(super) inner: Arc<Inner<M, C, S>>,
    /// If the memory has hardware for speculation.
    pub(super) hardware: Option<HardwareState>,
}

/// What the hardware path needs.
pub(super) struct HardwareState {
    /// The lock of the fallback path.
    pub(super) lock: ElidedLock,
    /// Which pages have sums, if any have.
    pub(super) sums: Option<Places>,
    /// See [`Tuning::fallback_percent`](crate::Tuning::fallback_percent).
    pub(super) fallback_percent: AtomicU64,
    /// [`Tuning::attempts`](crate::Tuning::attempts) and [`Tuning::conflict_delay`](crate::Tuning::conflict_delay),
    /// their numbers in order.
    patience: [AtomicU32; 5],
    /// The number of transactions that have stored something, in a simulator: for the crash tester, which needs their
    /// order. It is no memory of the program: on hardware all transactions would conflict on such a word.
    commits: AtomicU64,
}

impl HardwareState {
    pub(super) fn new<M: Memory>(memory: &M, sums: Option<Places>) -> Self {
        let own = HardwareState {
            lock: ElidedLock::new(memory),
            sums,
            fallback_percent: AtomicU64::new(0),
            patience: Default::default(),
            commits: AtomicU64::new(0),
        };
        own.tune(Attempts::default(), Delay::default());
        own
    }

    /// Sets what transactions use that begin from now on.
    pub(super) fn tune(&self, attempts: Attempts, delay: Delay) {
        let Attempts { conflicts, interrupts, others } = attempts;
        let numbers = [conflicts, interrupts, others, delay.first, delay.most];
        for (place, number) in self.patience.iter().zip(numbers) {
            place.store(number, Ordering::Relaxed);
        }
    }

    /// What a transaction that begins now uses.
    pub(super) fn patience(&self) -> (Attempts, Delay) {
        let [conflicts, interrupts, others, first, most] =
            [0, 1, 2, 3, 4].map(|index: usize| self.patience[index].load(Ordering::Relaxed));
        (Attempts { conflicts, interrupts, others }, Delay { first, most })
    }

    /// The place in the serial order of a transaction that commits now: the caller holds the lock, or lets the hardware
    /// commit next.
    #[inline]
    pub(super) fn serial(&self, wrote: bool) -> u64 {
        match wrote {
            true => self.commits.fetch_add(1, Ordering::Relaxed) + 1,
            false => self.commits.load(Ordering::Relaxed),
        }
    }
}

/// Of sessions: whether an inner session's last transaction has stored something, by the count of its commits before.
pub(super) fn stored<T: Session>(session: &T, commits: u64) -> bool {
    session.counters().commits > commits
}
