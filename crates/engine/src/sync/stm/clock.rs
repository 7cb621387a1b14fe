//! The clock of commits.
//!
//! A commit that has its locks takes the number after the clock's, and leaves the clock unchanged. What makes that
//! safe: a transaction whose moment is `n` sees a commit with a number up to `n` only as a whole. For that commit had
//! all of its locks before it read the clock, which was below `n` then, hence before the clock reached `n`, hence
//! before the transaction began.

use crate::planted::{self, Bug};
use perdura_memory::atomics::{AtomicU64, Ordering, sequential};
use perdura_memory::lock::Apart;
use perdura_memory::own::{exchange, read_as_one};
use perdura_memory::{Memory, Object, Traced, WORD};

/// A moment in time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// The clock's number.
    pub(crate) number: u64,
    /// How many commits had read the clock, where that is counted: in a simulator, where it costs nothing. It gives the
    /// commits a serial order.
    pub(crate) serial: u64,
}

/// The clock.
pub(crate) struct Clock {
    number: Apart<AtomicU64>,
    serial: Apart<AtomicU64>,
    own: Object,
}

impl Clock {
    pub(crate) fn new<M: Memory>(memory: &M, number: u64) -> Self {
        let number = Apart(AtomicU64::new(number));
        Clock { number, serial: Apart::default(), own: memory.object(WORD) }
    }

    #[inline(always)]
    fn serial<M: Memory>(&self, memory: &M, more: u64) -> u64 {
        // No access to the memory, hence no other core's turn, comes between this and the number.
        if memory.traces_own() {
            self.serial.0.fetch_add(more, Ordering::Relaxed) + more
        } else {
            0
        }
    }

    /// The current moment.
    #[inline(always)]
    pub(crate) fn now<M: Memory>(&self, memory: &M) -> Moment {
        Traced::new(memory, self.own).read(0, WORD);
        sequential();
        let number = self.number.0.load(Ordering::SeqCst);
        sequential();
        Moment { number, serial: self.serial(memory, 0) }
    }

    /// The current moment, for a commit that has its locks.
    #[inline(always)]
    pub(crate) fn to_commit<M: Memory>(&self, memory: &M) -> Moment {
        Traced::new(memory, self.own).read(0, WORD);
        sequential();
        let number = self.number.0.load(Ordering::SeqCst);
        sequential();
        Moment { number, serial: self.serial(memory, 1) }
    }

    /// The clock's number, for a commit that has its locks in a speculation, which is lost if the clock moves before its
    /// end; `None` if it is lost already.
    #[inline(always)]
    pub(crate) fn number_in_speculation<M: Memory>(&self, memory: &M) -> Option<u64> {
        read_as_one(memory, self.own, 0, || self.number.0.load(Ordering::Relaxed))
    }

    /// The place in the serial order of a speculation that ends with the next access to the memory, and has stored
    /// something or not.
    #[inline(always)]
    pub(crate) fn serial_at_end<M: Memory>(&self, memory: &M, stored: bool) -> u64 {
        self.serial(memory, u64::from(stored))
    }

    /// Moves the clock to `number`, if it is earlier.
    #[cold]
    pub(crate) fn raise<M: Memory>(&self, memory: &M, number: u64) {
        exchange(memory, self.own, 0, || self.number.0.fetch_max(number, Ordering::SeqCst));
        sequential();
    }

    /// Moves the clock on by one: commits that read it from here on have later numbers than the returned one, and
    /// commits that read it before have not.
    #[cold]
    pub(crate) fn tick<M: Memory>(&self, memory: &M) -> Moment {
        if planted::has(Bug::TickedInTwoSteps) {
            Traced::new(memory, self.own).exchange(0, WORD);
            let number = self.number.0.load(Ordering::SeqCst) + 1;
            Traced::new(memory, self.own).wrote(0, WORD);
            self.number.0.store(number, Ordering::SeqCst);
            return Moment { number, serial: self.serial(memory, 0) };
        }
        // In one step: no other core's turn comes between the number and the place in the order.
        let moment = exchange(memory, self.own, 0, || {
            let number = self.number.0.fetch_add(1, Ordering::SeqCst) + 1;
            Moment { number, serial: self.serial(memory, 0) }
        });
        sequential();
        moment
    }
}
