//! Biased locking (after Dice, Moir and Scherer, "Quickly reacquirable locks", 2003): a session that has been the
//! writer many times in a row, with no other writer in between, enters without a locked instruction.
//!
//! A locked instruction waits for the stores before it, the log's among them, and keeps the next transaction's loads
//! from beginning meanwhile. The session that owns the bias only announces that it is inside, and checks that it still
//! owns the bias. A writer that revokes the bias, which must hold the flag, does the opposite, with the heavy fence in
//! between (see [`barrier`](super::barrier)), and then waits until that session is not inside.
//!
//! What always holds: `owner` changes only while the changing thread holds the lock's flag; a session is the writer
//! either by the flag or by the bias; while one is the writer by the bias, `owner` names it, or the holder of the flag
//! waits for it. Each session has its own `inside` flag, in its slot: a session that was too late, and takes its
//! announcement back, must not take back that of the session that owns the bias by now.

use super::readers::Slot;
use super::{Apart, BIAS, Slots, barrier, inside_of};
use crate::atomics::{AtomicUsize, Ordering, pause};
use crate::planted::{self, Bug};
use crate::{Memory, Object, Touch};

/// Transactions in a row after which a session gets the bias, unless [tuned](Bias::tune). Revoking it costs a system
/// call and a wait: that must stay rare compared with the cheaper entries.
const STREAK: usize = if cfg!(loom) { 0 } else { 1024 };

/// No slot.
const NONE: usize = usize::MAX;

/// Which session the lock is biased to.
pub(super) struct Bias {
    words: Apart<Words>,
}

/// While the lock is biased, only one session uses these.
struct Words {
    /// Its slot, or `NONE`.
    owner: AtomicUsize,
    /// The slot of the writer that last entered by the flag, and how often in a row before that; used only by the
    /// holder of the flag.
    last: AtomicUsize,
    streak: AtomicUsize,
    /// The number in a row after which the lock is biased; hardly ever changes.
    after: AtomicUsize,
}

impl Bias {
    /// Biased to no session.
    pub(super) fn new() -> Self {
        let words = Apart(Words {
            owner: AtomicUsize::new(NONE),
            last: AtomicUsize::new(NONE),
            streak: AtomicUsize::new(0),
            after: AtomicUsize::new(STREAK),
        });
        Bias { words }
    }

    /// Sets after how many transactions in a row a session gets the bias; `None` for the default.
    pub(super) fn tune(&self, after: Option<u64>) {
        let after = after.map_or(STREAK, |after| usize::try_from(after).unwrap_or(usize::MAX - 1));
        self.words.0.after.store(after, Ordering::Relaxed);
    }

    /// Enters as the writer, if the lock is biased to the session in this slot.
    #[inline(always)]
    pub(super) fn enter(&self, slot: usize, content: &Slot) -> bool {
        self.is_owned_by(slot) && self.enter_still_owned(slot, content)
    }

    /// Whether the lock is biased to the session in `slot`.
    #[inline(always)]
    fn is_owned_by(&self, slot: usize) -> bool {
        self.words.0.owner.load(Ordering::Relaxed) == slot
    }

    /// Enters, if the lock is still biased to the session after it has announced that it is inside. Little code may run
    /// between the two checks of the owner.
    #[inline(always)]
    fn enter_still_owned(&self, slot: usize, content: &Slot) -> bool {
        let inside = &content.inside.0;
        inside.store(true, Ordering::Relaxed);
        barrier::light();
        let enters = self.is_owned_by(slot);
        if !enters {
            inside.store(false, Ordering::Release);
        }
        enters
    }

    /// Whether the lock is biased to a session other than the one in `slot`, if any.
    #[inline]
    pub(super) fn is_anothers(&self, slot: Option<usize>) -> bool {
        let owner = self.words.0.owner.load(Ordering::Relaxed);
        owner != NONE && Some(owner) != slot
    }

    /// Called by the holder of the flag, in `slot` if it is a session: when this returns, no session is the writer by
    /// the bias. If this session has entered often enough in a row and no other writer is waiting (`wanted`), the lock
    /// is biased to it from its next entry on.
    #[inline]
    pub(super) fn came_in<M: Memory>(
        &self,
        slot: Option<usize>,
        wanted: bool,
        slots: &Slots<Slot>,
        (memory, own): (&M, Object),
    ) {
        let Words { owner, last, streak, after } = &self.words.0;
        let biased_to = owner.load(Ordering::Relaxed);
        if biased_to != NONE {
            self.revoke(biased_to, slots, (memory, own));
        }
        let Some(slot) = slot.filter(|_| !wanted) else { return };
        if last.load(Ordering::Relaxed) != slot {
            last.store(slot, Ordering::Relaxed);
            streak.store(0, Ordering::Relaxed);
        }
        let times = streak.load(Ordering::Relaxed);
        streak.store(times + 1, Ordering::Relaxed);
        if times >= after.load(Ordering::Relaxed) && barrier::is_there() {
            owner.store(slot, Ordering::Relaxed);
            streak.store(0, Ordering::Relaxed);
        }
    }

    /// Takes the bias from the session in `slot`, and waits until that session is not inside.
    #[cold]
    fn revoke<M: Memory>(&self, slot: usize, slots: &Slots<Slot>, (memory, own): (&M, Object)) {
        let Words { owner, streak, .. } = &self.words.0;
        owner.store(NONE, Ordering::Relaxed);
        barrier::heavy();
        memory.touch(own, BIAS, 8, Touch::Exchange);
        let mut turn = 0;
        memory.touch(own, inside_of(slot), 1, Touch::Read);
        let is_inside = || slots.get(slot).is_some_and(|it| it.inside.0.load(Ordering::Acquire));
        while is_inside() && !planted::has(Bug::BiasNotAwaited) {
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

    /// A session that was about to enter is preempted until the lock is biased to another session, which is inside:
    /// that one stays the only writer.
    #[test]
    fn a_session_that_is_too_late_removes_no_other_from_the_lock() {
        if !barrier::is_there() {
            return;
        }
        let ram = Ram::new(64);
        let context = (&ram, Object::NONE);
        let (bias, slots) = (Bias::new(), Slots::new(2));
        let [first, second] = [0, 1].map(|_| slots.take(Slot::new).expect("a slot").1);
        let gets_it =
            |slot| (0..=STREAK).for_each(|_| bias.came_in(Some(slot), false, &slots, context));
        gets_it(0);
        assert!(bias.is_owned_by(0), "the first look of the one that comes too late");
        gets_it(1);
        assert!(bias.enter(1, &second));
        assert!(!bias.enter_still_owned(0, &first));
        assert!(second.inside.0.load(Ordering::Relaxed), "it is inside, and is waited for");
        second.inside.0.store(false, Ordering::Release);
        bias.came_in(Some(0), true, &slots, context);
        assert!(!bias.enter(1, &second) && !bias.enter(0, &first));
    }
}
