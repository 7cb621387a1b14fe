//! Sessions, each in a lane of its own, and what excludes their commits.
//!
//! What a session says of itself is in its lane, on lines that it alone writes: since when its transaction is running,
//! and whether it is committing. A commit says so and then looks at the *gate*; what must exclude commits changes the
//! gate and then looks at the lanes, with the heavy one of a pair of [`Fences`] in between: so one of the two sees
//! the other, and a commit pays nothing for it.
//!
//! What always holds:
//! - Once [`quiesce`](Lanes::quiesce) has returned, no commit is under way that began before it was called.
//! - While one session is *alone*, no other one is committing.

use super::stamp::{LANES, Stamp};
use perdura_memory::lock::{Apart, Fences};
use perdura_memory::{LINE, Memory, Object, Traced, WORD};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What a session says of itself.
#[derive(Default)]
struct Slot {
    /// Odd while it commits.
    commits: AtomicU64,
    /// The clock's number when its transaction began, and one more; 0 if none is running.
    since: AtomicU64,
    /// The stamp of its last commit.
    last: AtomicU64,
    taken: AtomicBool,
}

/// Of the gate: a session is alone, or wants to be; and how many read snapshots, in steps of `SNAPSHOT`.
const ALONE: u64 = 1;
const SNAPSHOT: u64 = 2;

/// Where things are in the lanes' object: the gate, the horizon, then the slots.
const GATE: u64 = 0;
const HORIZON: u64 = 2 * LINE;
const SLOTS: u64 = 4 * LINE;
const SLOT: u64 = size_of::<Apart<Slot>>() as u64;
const SINCE: u64 = WORD;
const LAST: u64 = 2 * WORD;

/// The lanes.
pub(crate) struct Lanes {
    slots: Box<[Apart<Slot>]>,
    /// Those from here on have never been taken.
    used: AtomicUsize,
    gate: Apart<AtomicU64>,
    /// What was freed by commits with numbers up to this one no transaction that is running can reach.
    horizon: Apart<AtomicU64>,
    fences: Fences,
    own: Object,
}

impl Lanes {
    /// For at most this many sessions, all before them being over and done with at `number`.
    pub(crate) fn new<M: Memory>(memory: &M, sessions: usize, number: u64) -> Self {
        let sessions = sessions.min(LANES);
        Lanes {
            slots: (0..sessions).map(|_| Apart::default()).collect(),
            used: AtomicUsize::new(0),
            gate: Apart::default(),
            horizon: Apart(AtomicU64::new(number)),
            fences: Fences::new(),
            own: memory.object(SLOTS + sessions as u64 * SLOT),
        }
    }

    /// How many sessions there can be.
    pub(crate) fn limit(&self) -> usize {
        self.slots.len()
    }

    fn used(&self) -> &[Apart<Slot>] {
        &self.slots[..self.used.load(Ordering::SeqCst)]
    }

    /// Returns when every commit that is under way is over.
    pub(crate) fn quiesce<M: Memory>(&self, memory: &M) {
        self.fences.heavy();
        let own = Traced::new(memory, self.own);
        for (lane, Apart(slot)) in self.used().iter().enumerate() {
            let at = SLOTS + lane as u64 * SLOT;
            own.read(at, WORD);
            let seen = slot.commits.load(Ordering::SeqCst);
            let mut turn = 0;
            while seen % 2 == 1 && slot.commits.load(Ordering::SeqCst) == seen {
                memory.pause(turn);
                turn += 1;
                own.read(at, WORD);
            }
        }
    }

    /// Excludes all commits but the caller's, until [`let_in`](Self::let_in).
    pub(crate) fn be_alone<M: Memory>(&self, memory: &M) {
        let own = Traced::new(memory, self.own);
        let mut turn = 0;
        loop {
            own.exchange(GATE, WORD);
            if self.gate.0.fetch_or(ALONE, Ordering::SeqCst) & ALONE == 0 {
                break;
            }
            self.wait_for_gate(memory, &mut turn);
        }
        self.quiesce(memory);
    }

    /// Commits are let in again.
    pub(crate) fn let_in<M: Memory>(&self, memory: &M) {
        self.gate.0.fetch_and(!ALONE, Ordering::SeqCst);
        Traced::new(memory, self.own).exchange(GATE, WORD);
    }

    fn wait_for_gate<M: Memory>(&self, memory: &M, turn: &mut u32) {
        let own = Traced::new(memory, self.own);
        own.read(GATE, WORD);
        while self.gate.0.load(Ordering::Relaxed) & ALONE != 0 {
            memory.pause(*turn);
            *turn += 1;
            own.read(GATE, WORD);
        }
    }

    /// From when this has returned, until [`end_snapshot`](Self::end_snapshot), every commit that is under way keeps
    /// what it overwrites.
    pub(crate) fn begin_snapshot<M: Memory>(&self, memory: &M) {
        Traced::new(memory, self.own).exchange(GATE, WORD);
        self.gate.0.fetch_add(SNAPSHOT, Ordering::SeqCst);
        self.quiesce(memory);
    }

    /// How many snapshots are left.
    pub(crate) fn end_snapshot<M: Memory>(&self, memory: &M) -> u64 {
        Traced::new(memory, self.own).exchange(GATE, WORD);
        (self.gate.0.fetch_sub(SNAPSHOT, Ordering::SeqCst) - SNAPSHOT) / SNAPSHOT
    }

    /// The number at which the oldest transaction that is running began; `u64::MAX` if none is.
    pub(crate) fn oldest<M: Memory>(&self, memory: &M) -> u64 {
        self.fences.heavy();
        let own = Traced::new(memory, self.own);
        let since = self.used().iter().enumerate().map(|(lane, Apart(slot))| {
            own.read(SLOTS + lane as u64 * SLOT + SINCE, WORD);
            slot.since.load(Ordering::SeqCst).wrapping_sub(1)
        });
        since.min().unwrap_or(u64::MAX)
    }

    /// What was freed by commits with numbers up to this one no transaction that is running can reach, and no record in
    /// the log is applied over it.
    #[inline]
    pub(crate) fn horizon<M: Memory>(&self, memory: &M) -> u64 {
        Traced::new(memory, self.own).read(HORIZON, WORD);
        self.horizon.0.load(Ordering::Acquire)
    }

    /// Records up to `number` have left the log: moves the horizon as far as transactions that are running let it.
    pub(crate) fn move_horizon<M: Memory>(&self, memory: &M, number: u64) {
        let number = number.min(self.oldest(memory));
        self.horizon.0.fetch_max(number, Ordering::AcqRel);
        Traced::new(memory, self.own).exchange(HORIZON, WORD);
    }
}

/// A session's lane.
pub(crate) struct Lane {
    lanes: Arc<Lanes>,
    number: usize,
}

impl Lane {
    /// A lane for one more session, if one is left.
    pub(crate) fn new(lanes: &Arc<Lanes>) -> Option<Self> {
        let free = |slot: &Apart<Slot>| !slot.0.taken.swap(true, Ordering::AcqRel);
        let number = lanes.slots.iter().position(free)?;
        lanes.used.fetch_max(number + 1, Ordering::SeqCst);
        Some(Lane { lanes: lanes.clone(), number })
    }

    /// Which it is.
    #[inline(always)]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    #[inline(always)]
    fn slot(&self) -> &Slot {
        &self.lanes.slots[self.number].0
    }

    #[inline(always)]
    fn wrote<M: Memory>(&self, memory: &M, field: u64) {
        Traced::new(memory, self.lanes.own).wrote(SLOTS + self.number as u64 * SLOT + field, WORD);
    }

    /// A transaction runs from here on, and has read the clock before: `number`.
    #[inline(always)]
    pub(crate) fn run_since<M: Memory>(&self, memory: &M, number: u64) {
        self.slot().since.store(number + 1, Ordering::Release);
        // What it reads comes after.
        self.lanes.fences.light();
        self.wrote(memory, SINCE);
    }

    /// It is over.
    #[inline(always)]
    pub(crate) fn end<M: Memory>(&self, memory: &M) {
        self.slot().since.store(0, Ordering::Release);
        self.wrote(memory, SINCE);
    }

    /// Begins to commit; waits while another session is alone, unless this one `is_alone`. Whether what is overwritten
    /// is to be kept for snapshots.
    #[inline(always)]
    pub(crate) fn begin_commit<M: Memory>(&self, memory: &M, is_alone: bool) -> bool {
        let mut turn = 0;
        loop {
            let slot = self.slot();
            slot.commits.store(slot.commits.load(Ordering::Relaxed) + 1, Ordering::Release);
            self.lanes.fences.light();
            self.wrote(memory, 0);
            Traced::new(memory, self.lanes.own).read(GATE, WORD);
            let gate = self.lanes.gate.0.load(Ordering::SeqCst);
            if gate & ALONE == 0 || is_alone {
                return gate >= SNAPSHOT;
            }
            self.end_commit(memory);
            self.lanes.wait_for_gate(memory, &mut turn);
        }
    }

    /// The commit is over.
    #[inline(always)]
    pub(crate) fn end_commit<M: Memory>(&self, memory: &M) {
        let slot = self.slot();
        slot.commits.store(slot.commits.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.wrote(memory, 0);
    }

    /// The session's next stamp, with this number; `None` if it has taken all that there are.
    #[inline(always)]
    pub(crate) fn next_stamp<M: Memory>(&self, memory: &M, number: u64) -> Option<Stamp> {
        let last = Stamp(self.slot().last.load(Ordering::Relaxed));
        let stamp = match last.number() == number {
            true => last.next()?,
            false => Stamp::new(number, self.number),
        };
        self.slot().last.store(stamp.0, Ordering::Relaxed);
        self.wrote(memory, LAST);
        Some(stamp)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.slot().since.store(0, Ordering::Release);
        self.slot().taken.store(false, Ordering::Release);
    }
}
