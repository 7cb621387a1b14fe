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
//! The hardware lets the core win whose access comes last, so two transactions that begin again at once can make each
//! other lose without end. So a thread lets a random time pass after a conflict, once the lock is free, twice as long
//! after each further one ([`Delay`]).
//!
//! Without hardware each transaction takes the lock.

use crate::Memory;
use crate::own::OwnWords;
use crate::planted::{self, Bug};
use crate::random::SplitMix64;
use crate::transactions::{HardwareAbort, HardwareTicket};
use std::fmt;
use std::str::FromStr;

/// The code with which a speculation is given up that has found the lock taken.
pub const TAKEN: u8 = 0xFF;
/// The code with which a speculation is given up whose transaction is rolled back.
pub const CANCELLED: u8 = 0xFE;

/// Cycles of one pause of a processor, about.
const PAUSE_CYCLES: u32 = 64;

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

/// Conflicts, interrupts and others, with a slash between them.
impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.conflicts, self.interrupts, self.others)
    }
}

impl FromStr for Attempts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [conflicts, interrupts, others] = numbers(text)
            .ok_or_else(|| format!("'{text}' is not conflicts/interrupts/others, as 8/8/0"))?;
        Ok(Attempts { conflicts, interrupts, others })
    }
}

/// How long a thread waits after a conflict before it tries its transaction in hardware again: a random time below a
/// bound, in cycles of the processor. The bound is twice as long after each further conflict of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delay {
    /// The bound after the first conflict; 0 for no delay.
    pub first: u32,
    /// The bound does not grow beyond this.
    pub most: u32,
}

impl Delay {
    /// None.
    pub const NONE: Delay = Delay { first: 0, most: 0 };

    /// The bound after this many conflicts, at least one.
    fn bound(self, conflicts: u32) -> u32 {
        let doublings = conflicts.saturating_sub(1).min(31);
        let bound = u64::from(self.first) << doublings;
        bound.min(u64::from(self.most.max(self.first))) as u32
    }
}

impl Default for Delay {
    fn default() -> Self {
        Delay { first: 256, most: 8_192 }
    }
}

/// The first bound and the last one, with a slash between them.
impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.most)
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [first, most] = numbers(text)
            .ok_or_else(|| format!("'{text}' is not the first bound/the last, as 64/4096"))?;
        Ok(Delay { first, most })
    }
}

/// Numbers with slashes between them.
fn numbers<const COUNT: usize>(text: &str) -> Option<[u32; COUNT]> {
    let numbers: Option<Vec<u32>> = text.split('/').map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
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
    /// Cycles waited after conflicts.
    pub delayed: u64,
}

/// A thread's use of the lock.
#[derive(Clone, Copy, Debug)]
pub struct Elision {
    attempts: Attempts,
    delay: Delay,
    /// The seed of the next random time.
    seed: u64,
    /// Losses of the transaction at hand.
    losses: Attempts,
    /// Whether the last one was a conflict after which the thread has not waited yet.
    is_to_wait: bool,
    counts: ElisionCounts,
}

impl Default for Elision {
    fn default() -> Self {
        Elision::new(Attempts::default(), Delay::default(), 0)
    }
}

impl Elision {
    /// With these attempts, and a delay whose random times follow from `seed`, which no two threads should share.
    pub fn new(attempts: Attempts, delay: Delay, seed: u64) -> Self {
        let (losses, counts) = (Attempts::NONE, ElisionCounts::default());
        // Threads' sequences are far apart.
        let seed = SplitMix64::new(seed).next();
        Elision { attempts, delay, seed, losses, is_to_wait: false, counts }
    }

    /// Changes attempts and delay, from the next loss on.
    pub fn tune(&mut self, attempts: Attempts, delay: Delay) {
        (self.attempts, self.delay) = (attempts, delay);
    }

    /// How this thread's transactions have run.
    pub fn counts(&self) -> &ElisionCounts {
        &self.counts
    }

    /// Begins a speculation, without a lock beside it, unless the transaction at hand has been lost too often; then it
    /// returns false. After a loss the thread calls `lost`, with the cause, and then this again; on a processor both
    /// happen in here.
    pub fn begin<M: Memory + ?Sized>(
        &mut self,
        memory: &M,
        mut lost: impl FnMut(HardwareAbort),
    ) -> bool {
        while self.may_try() {
            let cycles = self.draw_delay();
            if cycles > 0 {
                pass(memory, cycles);
            }
            match memory.speculate() {
                Ok(()) => return true,
                Err(why) => {
                    self.note(why);
                    lost(why);
                }
            }
        }
        false
    }

    /// The transaction at hand has committed in hardware.
    pub fn count_hardware(&mut self) {
        self.counts.hardware += 1;
        self.end();
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

    /// A transaction in hardware has been rolled back by its program.
    pub fn count_cancelled(&mut self) {
        self.counts.cancelled += 1;
        self.end();
    }

    /// How often the transaction at hand has been lost.
    pub fn losses(&self) -> u32 {
        let Attempts { conflicts, interrupts, others } = self.losses;
        conflicts + interrupts + others
    }

    /// Whether the transaction at hand may be tried in hardware again.
    pub fn may_try(&self) -> bool {
        let (losses, attempts) = (&self.losses, &self.attempts);
        losses.conflicts <= attempts.conflicts
            && losses.interrupts <= attempts.interrupts
            && losses.others <= attempts.others
    }

    /// Counts a loss of the transaction at hand.
    pub fn note(&mut self, why: HardwareAbort) {
        self.is_to_wait = matches!(why, HardwareAbort::Conflict | HardwareAbort::Explicit(TAKEN));
        let (losses, counts) = (&mut self.losses, &mut self.counts);
        let (losses, count) = match why {
            HardwareAbort::Conflict => (&mut losses.conflicts, &mut counts.conflicts),
            HardwareAbort::Interrupt => (&mut losses.interrupts, &mut counts.interrupts),
            // As after a conflict: whoever holds what it needs may soon be done.
            HardwareAbort::Explicit(TAKEN) => (&mut losses.conflicts, &mut counts.taken),
            HardwareAbort::Explicit(CANCELLED) => (&mut losses.others, &mut counts.cancelled),
            HardwareAbort::Capacity => (&mut losses.others, &mut counts.capacity),
            _ => (&mut losses.others, &mut counts.others),
        };
        *losses += 1;
        *count += 1;
    }

    /// Draws the time to wait after a conflict, if the last loss was one.
    fn draw_delay(&mut self) -> u32 {
        let bound = self.delay.bound(self.losses.conflicts);
        if !std::mem::take(&mut self.is_to_wait) || bound == 0 {
            return 0;
        }
        let mut random = SplitMix64::new(self.seed);
        self.seed = random.next();
        let cycles = random.below(u64::from(bound)) as u32;
        self.counts.delayed += u64::from(cycles);
        cycles
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
            let cycles = thread.draw_delay();
            if cycles > 0 {
                pass(memory, cycles);
                self.wait(memory);
            }
            // On a processor a speculation that is lost later comes back here, too.
            match memory.speculate() {
                Ok(()) => {}
                Err(HardwareAbort::Explicit(TAKEN)) => {
                    thread.counts.taken += 1;
                    continue;
                }
                // Its body has it rolled back. It runs again where there is something to roll back.
                Err(HardwareAbort::Explicit(CANCELLED)) => {
                    thread.counts.cancelled += 1;
                    break;
                }
                Err(why) => {
                    thread.note(why);
                    continue;
                }
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

/// Lets this many cycles pass.
fn pass<M: Memory + ?Sized>(memory: &M, cycles: u32) {
    if memory.traces_own() {
        return memory.work(cycles);
    }
    for _ in 0..cycles.div_ceil(PAUSE_CYCLES) {
        memory.pause(0);
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

    /// By hand: 100, 200, 400, then 500, the most, for ever.
    #[test]
    fn delays_double_up_to_a_bound() {
        let delay = Delay { first: 100, most: 500 };
        assert_eq!([1, 2, 3, 4, 40].map(|count| delay.bound(count)), [100, 200, 400, 500, 500]);
        assert_eq!(Delay::NONE.bound(9), 0);
        let mut thread = Elision::new(Attempts::default(), delay, 1);
        assert_eq!(thread.draw_delay(), 0, "no conflict yet");
        let mut longest = 0;
        for _ in 0..200 {
            thread.note(HardwareAbort::Conflict);
            thread.losses.conflicts = 2;
            longest = longest.max(thread.draw_delay());
            assert_eq!(thread.draw_delay(), 0, "once for each conflict");
        }
        assert!((150..200).contains(&longest), "{longest}");
        thread.note(HardwareAbort::Interrupt);
        assert_eq!(thread.draw_delay(), 0, "no conflict");
    }

    #[test]
    fn options_are_read_as_they_are_shown() {
        let (attempts, delay) =
            (Attempts { conflicts: 5, interrupts: 6, others: 7 }, Delay::default());
        assert_eq!(attempts.to_string().parse(), Ok(attempts));
        assert_eq!(delay.to_string().parse(), Ok(delay));
        for bad in ["", "1", "1/2/3/4", "1/x/3", "-1/2/3"] {
            assert!(bad.parse::<Attempts>().is_err() && bad.parse::<Delay>().is_err(), "{bad}");
        }
    }

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
