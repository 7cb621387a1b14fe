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
//! waits for it.

use super::{Apart, BIAS, barrier};
use crate::atomics::{AtomicBool, AtomicUsize, Ordering, pause};
use crate::{Memory, Object, Touch};

/// Transactions in a row after which a session gets the bias. Taking it away is a system call and a wait: that
/// must stay rare beside the transactions that come in for less.
const STREAK: usize = if cfg!(loom) { 0 } else { 1024 };

/// No slot.
const NONE: usize = usize::MAX;

/// Which session the lock is biased to.
pub(super) struct Bias(Apart<Words>);

/// All of them are one session's as long as the lock is biased to it.
struct Words {
    /// Its slot, or `NONE`.
    owner: AtomicUsize,
    /// It is in.
    inside: AtomicBool,
    /// The slot of the writer that came in last by the flag, and how often in a row before; only the holder
    /// of the flag uses these.
    last: AtomicUsize,
    streak: AtomicUsize,
}

impl Default for Bias {
    fn default() -> Self {
        Bias(Apart(Words {
            owner: AtomicUsize::new(NONE),
            inside: AtomicBool::new(false),
            last: AtomicUsize::new(NONE),
            streak: AtomicUsize::new(0),
        }))
    }
}

impl Bias {
    /// Comes in as the writer, if the lock is biased to this session.
    #[inline(always)]
    pub(super) fn enter(&self, slot: usize) -> bool {
        let Words { owner, inside, .. } = &self.0.0;
        if owner.load(Ordering::Relaxed) != slot {
            return false;
        }
        inside.store(true, Ordering::Relaxed);
        barrier::light();
        let enters = owner.load(Ordering::Relaxed) == slot;
        if !enters {
            inside.store(false, Ordering::Release);
        }
        enters
    }

    /// Whether the lock is biased to another session than the one in `slot`, if there is one.
    #[inline]
    pub(super) fn is_anothers(&self, slot: Option<usize>) -> bool {
        let owner = self.0.0.owner.load(Ordering::Relaxed);
        owner != NONE && Some(owner) != slot
    }

    /// Leaves.
    #[inline(always)]
    pub(super) fn leave(&self) {
        self.0.0.inside.store(false, Ordering::Release);
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
        let Words { owner, last, streak, .. } = &self.0.0;
        if owner.load(Ordering::Relaxed) != NONE {
            self.revoke(memory, own);
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

    #[cold]
    fn revoke<M: Memory>(&self, memory: &M, own: Object) {
        let Words { owner, inside, streak, .. } = &self.0.0;
        owner.store(NONE, Ordering::Relaxed);
        barrier::heavy();
        memory.touch(own, BIAS, 8, Touch::Exchange);
        let mut turn = 0;
        while inside.load(Ordering::Acquire) {
            pause(memory, turn);
            turn += 1;
            memory.touch(own, BIAS, 8, Touch::Read);
        }
        streak.store(0, Ordering::Relaxed);
    }
}
