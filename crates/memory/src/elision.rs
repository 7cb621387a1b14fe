//! A lock that hardware elides: transactions run at the same time as speculations, and one that the hardware gives up
//! too often takes the lock (Rajwar and Goodman, "Speculative Lock Elision", 2001; the fallback path of Fernando and
//! others, "Persistence and Synchronization: Friends or Foes?", IV-A).
//!
//! One word says whether the lock is taken. What always holds:
//! - a speculation reads the word before anything else, and goes on only if the lock is free: whoever takes the lock
//!   makes it lose. (Read at the end, it would let a transaction run on what the lock's holder has half changed: Dice,
//!   Harris, Kogan, Lev and Moir, "Pitfalls of lazy subscription", 2014.)
//! - a speculation that finds the lock taken waits until it is free before it begins again, and is not charged with a
//!   loss: otherwise one fallback would drive all others into the lock, one after the other.
//!
//! Without hardware (natively, so far) each transaction takes the lock.

use crate::Memory;
use crate::own::OwnWords;
use crate::planted::{self, Bug};
use crate::transactions::{HardwareAbort, HardwareTicket};

/// The code with which a speculation is given up that has found the lock taken.
pub const TAKEN: u8 = 0xFF;
/// The code with which a speculation is given up whose transaction is rolled back.
pub const CANCELLED: u8 = 0xFE;

const FREE: u64 = 0;
const HELD: u64 = 1;

/// The lock.
#[derive(Clone, Debug)]
pub struct ElidedLock {
    word: OwnWords,
}

/// How a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// As a speculation: nothing that it does counts before it has [left](ElidedLock::leave).
    Hardware,
    /// Under the lock, alone.
    Lock,
}

/// How many losses of each cause a transaction may have and still be tried in hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempts {
    /// Conflicts.
    pub conflicts: u32,
    /// Interrupts.
    pub interrupts: u32,
    /// All other causes: with lack of capacity, or with an unsupported access, another try mostly ends as the first.
    pub others: u32,
}

impl Attempts {
    const NONE: Attempts = Attempts { conflicts: 0, interrupts: 0, others: 0 };
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts { conflicts: 8, interrupts: 8, others: 0 }
    }
}

/// How a thread's transactions have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElisionCounts {
    /// Committed by the hardware.
    pub hardware: u64,
    /// Run under the lock.
    pub locked: u64,
    /// Losses by conflict.
    pub conflicts: u64,
    /// Losses by lack of capacity.
    pub capacity: u64,
    /// Losses by interrupt.
    pub interrupts: u64,
    /// Losses of other causes, and speculations that could not begin.
    pub others: u64,
    /// Speculations given up because the lock was taken.
    pub taken: u64,
    /// Speculations of transactions that were rolled back.
    pub cancelled: u64,
}

/// A thread's use of the lock.
#[derive(Clone, Copy, Debug)]
pub struct Elision {
    attempts: Attempts,
    /// Losses of the transaction at hand.
    losses: Attempts,
    counts: ElisionCounts,
}

impl Default for Elision {
    fn default() -> Self {
        Elision::new(Attempts::default())
    }
}

impl Elision {
    /// With these attempts.
    pub fn new(attempts: Attempts) -> Self {
        Elision { attempts, losses: Attempts::NONE, counts: ElisionCounts::default() }
    }

    /// How this thread's transactions have run.
    pub fn counts(&self) -> &ElisionCounts {
        &self.counts
    }

    /// The transaction at hand has ended under the lock, which it has released, without a commit.
    pub fn end(&mut self) {
        self.losses = Attempts::NONE;
    }

    /// The same, with a commit.
    pub fn count_locked(&mut self) {
        self.counts.locked += 1;
        self.end();
    }

    fn may_try(&self) -> bool {
        let (losses, attempts) = (&self.losses, &self.attempts);
        losses.conflicts <= attempts.conflicts
            && losses.interrupts <= attempts.interrupts
            && losses.others <= attempts.others
    }

    fn note(&mut self, why: HardwareAbort) {
        let (losses, counts) = (&mut self.losses, &mut self.counts);
        let (losses, count) = match why {
            HardwareAbort::Conflict => (&mut losses.conflicts, &mut counts.conflicts),
            HardwareAbort::Interrupt => (&mut losses.interrupts, &mut counts.interrupts),
            HardwareAbort::Capacity => (&mut losses.others, &mut counts.capacity),
            _ => (&mut losses.others, &mut counts.others),
        };
        *losses += 1;
        *count += 1;
    }
}

impl ElidedLock {
    /// A free lock.
    pub fn new<M: Memory + ?Sized>(memory: &M) -> Self {
        ElidedLock { word: OwnWords::new(memory, 1) }
    }

    /// Enters, in hardware unless the transaction at hand has been lost too often. Waits while the lock is taken.
    pub fn enter<M: Memory + ?Sized>(&self, memory: &M, thread: &mut Elision) -> Way {
        while thread.may_try() {
            self.wait(memory);
            if let Err(why) = memory.speculate() {
                thread.note(why);
                continue;
            }
            let overlooks = planted::has(Bug::LockUnread) || planted::has(Bug::LockReadLate);
            let is_free = overlooks || self.word.load(memory, 0) == FREE;
            match memory.lost() {
                None if is_free => return Way::Hardware,
                None => {
                    memory.stop_speculating(TAKEN);
                    thread.counts.taken += 1;
                }
                Some(why) => {
                    memory.stop_speculating(TAKEN);
                    thread.note(why);
                }
            }
        }
        self.take(memory)
    }

    /// Enters under the lock at once. Waits while it is taken.
    pub fn take<M: Memory + ?Sized>(&self, memory: &M) -> Way {
        while self.word.compare_exchange(memory, 0, FREE, HELD).is_err() {
            self.wait(memory);
        }
        Way::Lock
    }

    /// Runs `body` under the lock, which is released even if `body` panics.
    pub fn holding<M: Memory + ?Sized, R>(&self, memory: &M, body: impl FnOnce() -> R) -> R {
        self.take(memory);
        let _held = self.held(memory);
        body()
    }

    /// Releases the lock, which the caller has entered under, when the returned value is dropped.
    pub fn held<'a, M: Memory + ?Sized>(&'a self, memory: &'a M) -> Held<'a, M> {
        Held { lock: self, memory }
    }

    /// Asks, after an access of a speculation, whether it is lost. Then it is over, and the loss is counted: the
    /// transaction is to [enter](Self::enter) again.
    #[inline]
    pub fn is_lost<M: Memory + ?Sized>(memory: &M, thread: &mut Elision) -> bool {
        let Some(why) = memory.lost() else { return false };
        memory.stop_speculating(TAKEN);
        thread.note(why);
        true
    }

    /// Ends a speculation whose transaction needs what no hardware can undo: it is to [enter](Self::enter) again, which
    /// it does under the lock, unless other losses than conflicts and interrupts may be tried again.
    pub fn give_up<M: Memory + ?Sized>(memory: &M, thread: &mut Elision, code: u8) {
        let why = memory.lost().unwrap_or(HardwareAbort::Explicit(code));
        memory.stop_speculating(code);
        thread.note(why);
    }

    /// Ends the transaction without a commit: its speculation is given up, or the lock released. Under the lock, the
    /// caller has undone its stores.
    pub fn cancel<M: Memory + ?Sized>(&self, memory: &M, thread: &mut Elision, way: Way) {
        match way {
            Way::Hardware => {
                memory.stop_speculating(CANCELLED);
                thread.counts.cancelled += 1;
            }
            Way::Lock => self.word.store(memory, 0, FREE),
        }
        thread.end();
    }

    /// Leaves: a speculation commits, or the lock is released. The transaction is over.
    ///
    /// # Errors
    /// Why the speculation is lost: the transaction is to [enter](Self::enter) again.
    #[track_caller]
    pub fn leave<M: Memory + ?Sized>(
        &self,
        memory: &M,
        thread: &mut Elision,
        way: Way,
    ) -> Result<HardwareTicket, HardwareAbort> {
        let ticket = match way {
            Way::Hardware => {
                if planted::has(Bug::LockReadLate) && self.word.load(memory, 0) != FREE {
                    Self::give_up(memory, thread, TAKEN);
                    return Err(HardwareAbort::Explicit(TAKEN));
                }
                memory.end_speculation().inspect_err(|why| thread.note(*why))?
            }
            Way::Lock => {
                self.word.store(memory, 0, FREE);
                HardwareTicket::DURABLE
            }
        };
        thread.losses = Attempts::NONE;
        match way {
            Way::Hardware => thread.counts.hardware += 1,
            Way::Lock => thread.counts.locked += 1,
        }
        Ok(ticket)
    }

    /// Waits until the lock is free.
    fn wait<M: Memory + ?Sized>(&self, memory: &M) {
        let mut turn = 0;
        while self.word.load(memory, 0) != FREE {
            memory.pause(turn);
            turn += 1;
        }
    }
}

/// The lock, held by a thread until this is dropped.
pub struct Held<'a, M: Memory + ?Sized> {
    lock: &'a ElidedLock,
    memory: &'a M,
}

impl<M: Memory + ?Sized> Drop for Held<'_, M> {
    fn drop(&mut self) {
        self.lock.word.store(self.memory, 0, FREE);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Ram;

    #[test]
    fn without_hardware_threads_take_the_lock() {
        const ROUNDS: u64 = 2_000;
        let ram = Ram::new(64);
        let lock = ElidedLock::new(&ram);
        let counts = std::thread::scope(|scope| {
            let run = || {
                let mut thread = Elision::default();
                for _ in 0..ROUNDS {
                    let way = lock.enter(&ram, &mut thread);
                    ram.store(0, ram.load(0) + 1);
                    lock.leave(&ram, &mut thread, way).expect("no hardware");
                }
                *thread.counts()
            };
            [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().expect("no panic"))
        });
        assert_eq!(ram.load(0), 2 * ROUNDS);
        for counts in counts {
            assert_eq!((counts.locked, counts.others, counts.hardware), (ROUNDS, ROUNDS, 0));
        }
    }
}
