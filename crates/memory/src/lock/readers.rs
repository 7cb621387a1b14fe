//! The readers' part of the lock: each enters and leaves on a line of its own, and a writer that becomes alone waits for
//! those inside, or *moves* them.
//!
//! A reader may stay for any time, and nothing is stored while it is inside. So a writer waits only for a while. Then it
//! takes the readers that are still there to be gone, and has the user of the lock give each a state of its own
//! ([`Moves`]): nothing has been stored since they entered, so that the present state is the one that they see. A moved
//! reader finds out by itself, after the fact:
//!
//! - A word that it loads may be stored to meanwhile. It looks at `moved` after each load, as a reader of a sequence
//!   lock does: the writer changes `moved` before it stores, so a reader that has loaded a later word finds itself moved.
//! - The shared data must not be changed while a reader has a reference to it. So a reader says that it looks before it
//!   asks whether it has been moved, and the writer, once it has moved readers, waits until none of them looks: a few
//!   lookups. The two fences are an asymmetric pair ([`Fences`]).
//!
//! What always holds: a reader that is inside and not moved keeps the writer from storing; a state is given while the
//! writer is alone and has stored nothing.

use super::barrier::Fences;
use super::{ALONE, Apart, FIELDS, READING, Slots, place_of};
use crate::atomics::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering, fence, pause, raise, sequential,
};
use crate::planted::{self, Bug};
use crate::{Memory, Object, Touch};
use std::fmt;
use std::sync::Arc;

/// Bytes of a line that a step of reading touches.
const WORD: u64 = 8;

/// The first turn of a seat's line: even, as outside of transactions, and never the number of a moved one.
pub(super) const OUTSIDE: u64 = 2;

/// No number has been noted.
const NOTHING: u64 = u64::MAX;

/// A seat's line. Only its session writes it, but for `moved`.
#[derive(Debug)]
pub(super) struct Line {
    /// While the session reads inside the lock, the odd number of that transaction; otherwise even.
    turn: AtomicU64,
    /// The last transaction that a writer has moved.
    moved: AtomicU64,
    /// What the transaction has [noted](super::Shared::note).
    note: AtomicU64,
    /// The session has a reference to the shared data, or is about to get one.
    looks: AtomicBool,
}

impl Line {
    fn new() -> Self {
        Line {
            turn: AtomicU64::new(OUTSIDE),
            moved: AtomicU64::new(0),
            note: AtomicU64::new(NOTHING),
            looks: AtomicBool::new(false),
        }
    }

    /// The turn of a seat that is outside.
    pub(super) fn turn_outside(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Leaves the transaction with the number `turn`; returns the turn outside.
    #[inline]
    pub(super) fn done_reading(&self, turn: u64) -> u64 {
        self.turn.store(turn + 1, Ordering::Release);
        turn + 1
    }

    /// Whether the transaction with this number has been moved. If not, everything it has loaded before is of the state
    /// in which it entered.
    #[inline(always)]
    pub(super) fn is_moved(&self, turn: u64) -> bool {
        fence(Ordering::Acquire);
        self.moved.load(Ordering::Relaxed) == turn
    }

    /// The session of a transaction is about to look at the shared data; returns whether it may.
    #[inline(always)]
    pub(super) fn look(&self, turn: u64, fences: Fences) -> bool {
        self.looks.store(true, Ordering::Relaxed);
        fences.light();
        let may = self.moved.load(Ordering::Relaxed) != turn;
        if !may {
            self.looks_no_longer();
        }
        may
    }

    #[inline(always)]
    pub(super) fn looks_no_longer(&self) {
        self.looks.store(false, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn note(&self, number: u64) {
        self.note.store(number, Ordering::Relaxed);
    }

    /// Whether a session that is at `turn` keeps the writer from storing.
    #[inline(always)]
    fn keeps_writer(&self, turn: u64) -> bool {
        turn & 1 == 1 && self.moved.load(Ordering::Relaxed) != turn
    }
}

/// What is in a session's slot.
pub(super) struct Slot {
    pub(super) line: Apart<Line>,
    /// Whether its session is in by the [bias](super::bias), or is checking whether it may be.
    pub(super) inside: Apart<AtomicBool>,
}

impl Slot {
    pub(super) fn new() -> Self {
        Slot { line: Apart(Line::new()), inside: Apart::default() }
    }
}

/// A reading transaction of a seat.
#[derive(Clone)]
pub struct Turn {
    content: Arc<Slot>,
    number: u64,
}

impl Turn {
    pub(super) fn new(content: &Arc<Slot>, number: u64) -> Self {
        Turn { content: content.clone(), number }
    }

    /// Whether it is the transaction with this number in this slot.
    pub(super) fn is(&self, content: &Arc<Slot>, number: u64) -> bool {
        self.number == number && Arc::ptr_eq(&self.content, content)
    }

    /// Whether it has ended: it reads nothing any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.content.line.0.turn.load(Ordering::Acquire) != self.number
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.number).finish()
    }
}

/// How a lock's user lets writers go on beside readers that stay for long.
pub trait Moves<S> {
    /// The nanoseconds for which a writer waits for readers; `None` if it waits until they leave.
    fn patience_ns(&self) -> Option<u64>;

    /// Gives `reader` the present state to read from now on. It has noted `noted`, if anything, and nothing is stored
    /// before this returns. It may have ended meanwhile.
    fn give_state(&self, reader: Turn, noted: Option<u64>, shared: &S);
}

/// Readers are waited for, however long they stay.
#[derive(Clone, Copy, Debug)]
pub struct Stays;

impl<S> Moves<S> for Stays {
    fn patience_ns(&self) -> Option<u64> {
        None
    }

    fn give_state(&self, _: Turn, _: Option<u64>, _: &S) {}
}

/// The readers' part of the lock.
pub(super) struct Readers {
    /// The writer is alone. Only the writer changes this.
    alone: Apart<AtomicBool>,
    pub(super) slots: Slots<Slot>,
    /// Sessions that have read.
    reading: Apart<AtomicUsize>,
    /// If they are asymmetric, a session that begins to read makes all other threads see that.
    pub(super) fences: Fences,
    /// The memory's handle for the lock's words.
    pub(super) object: Object,
}

/// For how long a writer has waited for readers.
struct Wait {
    patience_ns: Option<u64>,
    /// When it began to wait.
    since: Option<u64>,
}

impl Wait {
    /// Whether it has waited for long enough.
    fn is_over<M: Memory>(&mut self, memory: &M) -> bool {
        let Some(patience) = self.patience_ns else { return false };
        // Nor is the clock looked at then: models have none.
        if patience == 0 {
            return true;
        }
        let now = memory.now();
        now.saturating_sub(*self.since.get_or_insert(now)) >= patience
    }
}

impl Readers {
    /// For at most `slots` sessions.
    pub(super) fn new(slots: usize, object: Object) -> Self {
        Readers {
            alone: Apart::default(),
            slots: Slots::new(slots),
            reading: Apart::default(),
            fences: Fences::new(),
            object,
        }
    }

    /// A session is about to read for the first time: from here on writers check for readers.
    #[cold]
    pub(super) fn begin<M: Memory>(&self, memory: &M) {
        memory.touch(self.object, READING, 8, Touch::Exchange);
        self.reading.0.fetch_add(1, Ordering::AcqRel);
        if self.fences.are_asymmetric() {
            self.fences.heavy();
        }
    }

    /// A session that has read is gone.
    pub(super) fn end(&self) {
        self.reading.0.fetch_sub(1, Ordering::Release);
    }

    /// Enters as the reader of `slot`, with the line `mine`, which is outside at `turn`; returns the number of its
    /// transaction.
    #[inline]
    pub(super) fn read<M: Memory>(
        &self,
        (slot, mine): (usize, &Line),
        mut turn: u64,
        memory: &M,
    ) -> u64 {
        let own = self.object;
        let mut waited = 0;
        mine.note.store(NOTHING, Ordering::Relaxed);
        loop {
            turn += 1;
            // A writer that waits for an earlier transaction may see only this number.
            mine.turn.store(turn, Ordering::Release);
            // The line must visibly be at this turn before `alone` is checked.
            fence(Ordering::SeqCst);
            // Stands for the store and the fence.
            memory.touch(own, place_of(slot), WORD, Touch::Exchange);
            memory.touch(own, ALONE, 1, Touch::Read);
            if !self.alone.0.load(Ordering::Acquire) {
                return turn;
            }
            // A new number next time: a writer may have moved this one.
            turn += 1;
            mine.turn.store(turn, Ordering::Release);
            memory.touch(own, place_of(slot), WORD, Touch::Write);
            memory.touch(own, ALONE, 1, Touch::Read);
            while self.alone.0.load(Ordering::Relaxed) {
                pause(memory, waited);
                waited += 1;
                memory.touch(own, ALONE, 1, Touch::Read);
            }
        }
    }

    /// Whether a reader is inside that [`be_alone`](Self::be_alone) would wait for.
    #[inline]
    pub(super) fn are_in<M: Memory>(&self, memory: &M) -> bool {
        let own = self.object;
        memory.touch(own, FIELDS, 8, Touch::Read);
        self.slots.in_use().any(|(slot, content)| {
            memory.touch(own, place_of(slot), WORD, Touch::Read);
            let Apart(line) = &content.line;
            line.keeps_writer(line.turn.load(Ordering::Relaxed))
        })
    }

    /// Waits until no reader is inside, and keeps new ones out until the writer leaves. For the writer only; `reads`
    /// says whether its own session has ever read. Calling it again does no harm.
    #[inline(always)]
    pub(super) fn be_alone<M: Memory, S>(
        &self,
        memory: &M,
        reads: bool,
        moves: &impl Moves<S>,
        shared: &S,
    ) {
        let own = self.object;
        memory.touch(own, ALONE, 1, Touch::Read);
        if self.alone.0.load(Ordering::Relaxed) {
            return;
        }
        if self.fences.are_asymmetric() {
            // A session that begins to read after this check sees that the writer is alone: its heavy fence makes the
            // store before the check visible.
            self.alone.0.store(true, Ordering::Relaxed);
            self.fences.light();
            memory.touch(own, ALONE, 1, Touch::Write);
            memory.touch(own, READING, 8, Touch::Read);
            let own_reads = usize::from(reads || planted::has(Bug::OneReaderOverlooked));
            if self.reading.0.load(Ordering::Acquire) == own_reads {
                return;
            }
        }
        self.be_alone_among_readers(memory, moves, shared);
    }

    /// The rest of [`be_alone`](Self::be_alone), if other sessions have ever read.
    #[inline(never)]
    fn be_alone_among_readers<M: Memory, S>(&self, memory: &M, moves: &impl Moves<S>, shared: &S) {
        let own = self.object;
        // Sequentially consistent with the reader's fence: a transaction that was visible before this point is waited
        // for, and a reader that enters after it sees that it must wait.
        raise(&self.alone.0);
        memory.touch(own, ALONE, 1, Touch::Exchange);
        memory.touch(own, FIELDS, 8, Touch::Read);
        let mut wait = Wait { patience_ns: moves.patience_ns(), since: None };
        for (slot, content) in self.slots.in_use() {
            if slot == 0 && planted::has(Bug::SlotSkipped) {
                continue;
            }
            memory.touch(own, place_of(slot), WORD, Touch::Read);
            let Apart(line) = &content.line;
            let turn = line.turn.load(Ordering::SeqCst);
            if line.keeps_writer(turn) && !self.wait_for(memory, (slot, line), turn, &mut wait) {
                return self.move_from(memory, slot, moves, shared);
            }
        }
    }

    /// Waits until the transaction in `slot` has ended; returns whether it has, or has outlasted the writer's patience.
    fn wait_for<M: Memory>(
        &self,
        memory: &M,
        (slot, line): (usize, &Line),
        turn: u64,
        wait: &mut Wait,
    ) -> bool {
        let mut waited = 0;
        while line.turn.load(Ordering::SeqCst) == turn {
            if wait.is_over(memory) {
                return false;
            }
            pause(memory, waited);
            waited += 1;
            memory.touch(self.object, place_of(slot), WORD, Touch::Read);
        }
        true
    }

    /// Moves all readers that are still inside; there are none in slots before `first`.
    #[cold]
    fn move_from<M: Memory, S>(&self, memory: &M, first: usize, moves: &impl Moves<S>, shared: &S) {
        let own = self.object;
        let mut moved = Vec::new();
        for (slot, content) in self.slots.in_use().skip_while(|(slot, _)| *slot < first) {
            memory.touch(own, place_of(slot), WORD, Touch::Read);
            let Apart(line) = &content.line;
            let turn = line.turn.load(Ordering::SeqCst);
            if line.keeps_writer(turn) {
                line.moved.store(turn, Ordering::Relaxed);
                memory.touch(own, place_of(slot), WORD, Touch::Write);
                moved.push((slot, content, turn));
            }
        }
        // A reader that looks at the shared data is seen from here on, or sees that it must not.
        self.fences.heavy();
        for (slot, content, turn) in moved {
            let Apart(line) = &content.line;
            let mut waited = 0;
            memory.touch(own, place_of(slot), WORD, Touch::Read);
            while line.looks.load(Ordering::Acquire) {
                pause(memory, waited);
                waited += 1;
                // The reader reports no store at the end of its look: a simulated core that only read the line would sleep.
                memory.touch(own, place_of(slot), WORD, Touch::Exchange);
            }
            let reader = Turn::new(content, turn);
            if !reader.is_over() {
                let noted = line.note.load(Ordering::Relaxed);
                moves.give_state(reader, (noted != NOTHING).then_some(noted), shared);
            }
        }
        // A reader that loads what is stored from here on finds that it has been moved.
        fence(Ordering::Release);
        sequential();
    }

    /// Readers may enter again, though the writer stays.
    #[inline]
    pub(super) fn let_in(&self) {
        self.alone.0.store(false, Ordering::Release);
    }
}
