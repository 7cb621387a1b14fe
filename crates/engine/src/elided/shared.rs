//! The shared state of the sessions of an engine on hardware transactions.

use super::fallback::Fallback;
use crate::sums::Places;
use crate::sync::Patience;
use crate::{Engine, Session};
use perdura_memory::Memory;
use perdura_memory::elision::ElidedLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub(super) patience: Patience,
    /// The number of transactions that have stored something, in a simulator: for the crash tester, which needs their
    /// order. It is no memory of the program: on hardware all transactions would conflict on such a word.
    commits: AtomicU64,
}

impl HardwareState {
    pub(super) fn new<M: Memory>(memory: &M, sums: Option<Places>) -> Self {
        let (lock, patience) = (ElidedLock::new(memory), Patience::default());
        HardwareState { lock, sums, patience, commits: AtomicU64::new(0) }
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
