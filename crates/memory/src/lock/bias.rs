//! Biased locking (after Dice, Moir and Scherer, "Quickly reacquirable locks", 2003): the session that has been
//! the writer many times in a row, without another one, comes in without a locked instruction.
//!
//! A locked instruction waits for the stores before it, the log's among them, and keeps the next transaction's
//! loads from beginning meanwhile. The session that the lock is biased to only says that it is inside, and
//! looks whether it still is the one. The writer that takes the bias away, which must hold the flag, does the
//! opposite, with the heavy fence in between (see [`barrier`](super::barrier)), and then waits until that
//! session is not inside.
//!
//! What always holds: `owner` changes only while its changer holds the lock's flag; a session is the writer
//! either by the flag or by the bias; while one is by the bias, `owner` names it, or the holder of the flag
//! waits for it. Each session says for itself that it is inside: one that came too late, and takes back what
//! it said, must not take back what the session says to which the bias went meanwhile.

use super::{Apart, BIAS, barrier, inside_of};
use crate::atomics::{AtomicBool, AtomicUsize, Ordering, pause};
use crate::{Memory, Object, Touch};

/// Transactions in a row after which a session gets the bias. Taking it away is a system call and a wait: that
/// must stay rare beside the transactions that come in for less.
const STREAK: usize = if cfg!(loom) { 0 } else { 1024 };

/// No slot.
const NONE: usize = usize::MAX;

/// Which session the lock is biased to.
pub(super) struct Bias {
    words: Apart<Words>,
    /// For each slot, whether its session is in by the bias, or looks whether it may be.
    inside: Box<[Apart<AtomicBool>]>,
}

/// All of them are one session's as long as the lock is biased to it.
struct Words {
    /// Its slot, or `NONE`.
    owner: AtomicUsize,
    /// The slot of the writer that came in last by the flag, and how often in a row before; only the holder
    /// of the flag uses these.
    last: AtomicUsize,
    streak: AtomicUsize,
}

impl Bias {
    /// To no session, of which there are at most `slots`.
    pub(super) fn new(slots: usize) -> Self {
        let words = Apart(Words {
            owner: AtomicUsize::new(NONE),
            last: AtomicUsize::new(NONE),
            streak: AtomicUsize::new(0),
        });
        Bias { words, inside: (0..slots).map(|_| Apart::default()).collect() }
    }

    /// Comes in as the writer, if the lock is biased to this session.
    #[inline(always)]
    pub(super) fn enter(&self, slot: usize) -> bool {
        self.is_owned_by(slot) && self.enter_still_owned(slot)
    }

    /// Whether the lock is biased to the session in `slot`.
    #[inline(always)]
    fn is_owned_by(&self, slot: usize) -> bool {
        self.words.0.owner.load(Ordering::Relaxed) == slot
    }

    /// Comes in, if the lock still is biased to the session when that has said that it is inside. It may not run
    /// for long between its two looks.
    #[inline(always)]
    fn enter_still_owned(&self, slot: usize) -> bool {
        let inside = &self.inside[slot].0;
        inside.store(true, Ordering::Relaxed);
        barrier::light();
        let enters = self.is_owned_by(slot);
        if !enters {
            inside.store(false, Ordering::Release);
        }
        enters
    }

    /// Whether the lock is biased to another session than the one in `slot`, if there is one.
    #[inline]
    pub(super) fn is_anothers(&self, slot: Option<usize>) -> bool {
        let owner = self.words.0.owner.load(Ordering::Relaxed);
        owner != NONE && Some(owner) != slot
    }

    /// The session in `slot` leaves.
    #[inline(always)]
    pub(super) fn leave(&self, slot: usize) {
        self.inside[slot].0.store(false, Ordering::Release);
    }

    /// The caller, in `slot` if it is a session, holds the flag: no session is the writer by the bias when this
    /// returns. If it has come in often enough without another one, and is not `wanted`, the bias is its own
    /// from the next time on.
    #[inline]
    pub(super) fn came_in<M: Memory>(
        &self,
        slot: Option<usize>,
        wanted: bool,
        (memory, own): (&M, Object),
    ) {
        let Words { owner, last, streak } = &self.words.0;
        let biased_to = owner.load(Ordering::Relaxed);
        if biased_to != NONE {
            self.revoke(biased_to, (memory, own));
        }
        let Some(slot) = slot.filter(|_| !wanted) else { return };
        if last.load(Ordering::Relaxed) != slot {
            last.store(slot, Ordering::Relaxed);
            streak.store(0, Ordering::Relaxed);
        }
        let times = streak.load(Ordering::Relaxed);
        streak.store(times + 1, Ordering::Relaxed);
        if times >= STREAK && barrier::is_there() {
            owner.store(slot, Ordering::Relaxed);
            streak.store(0, Ordering::Relaxed);
        }
    }

    /// The lock is biased to the session in `slot` no more, and that one is not in.
    #[cold]
    fn revoke<M: Memory>(&self, slot: usize, (memory, own): (&M, Object)) {
        let Words { owner, streak, .. } = &self.words.0;
        owner.store(NONE, Ordering::Relaxed);
        barrier::heavy();
        memory.touch(own, BIAS, 8, Touch::Exchange);
        let mut turn = 0;
        memory.touch(own, inside_of(slot), 1, Touch::Read);
        while self.inside[slot].0.load(Ordering::Acquire) {
            pause(memory, turn);
            turn += 1;
            memory.touch(own, inside_of(slot), 1, Touch::Read);
        }
        streak.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Ram;

    /// A session that was about to come in does not run until the lock is biased to another one, which is inside:
    /// that one stays the only writer.
    #[test]
    fn who_comes_too_late_puts_no_other_session_out() {
        if !barrier::is_there() {
            return;
        }
        let ram = Ram::new(64);
        let told = (&ram, Object::NONE);
        let bias = Bias::new(2);
        let gets_it = |slot| (0..=STREAK).for_each(|_| bias.came_in(Some(slot), false, told));
        gets_it(0);
        assert!(bias.is_owned_by(0), "the first look of the one that comes too late");
        gets_it(1);
        assert!(bias.enter(1));
        assert!(!bias.enter_still_owned(0));
        assert!(bias.inside[1].0.load(Ordering::Relaxed), "it is inside, and is waited for");
        bias.leave(1);
        bias.came_in(Some(0), true, told);
        assert!(!bias.enter(1) && !bias.enter(0));
    }
}
