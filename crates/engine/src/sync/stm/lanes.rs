//! Sessions, each in a lane of its own, and the exclusion of their commits.
//!
//! A session's state is in its lane, on lines that only it writes: since when its transaction has been running, and
//! whether it is committing. A commit announces itself and then checks the *gate*; a thread that must exclude commits
//! changes the gate and then checks the lanes, with the heavy one of a pair of [`Fences`] in between: so one of the two
//! sees the other, and a commit pays nothing for it.
//!
//! The session that has long been the only one to commit has the *bias*: it locks ownership records by plain stores and
//! one fence, where others need a locked instruction for each. The first other session that commits revokes the bias,
//! by the same means.
//!
//! What always holds:
//! - While the gate names a session that has the bias, no other one is committing. The bias changes by way of a state
//!   in which no commit begins.
//! - Once [`quiesce`](Lanes::quiesce) has returned, every commit in progress began after it was called.
//! - While one session is *alone*, no other one is committing.
//! - While there is a [`Stillness`], no session is committing, and none has a [`Storing`].

use super::stamp::{LANES, Stamp};
use crate::Ticket;
use crate::planted::{self, Bug};
use crate::sync::in_place::{InPlace, Still};
use perdura_memory::atomics::{AtomicU64, Ordering, pause};
use perdura_memory::lock::{Apart, Fences, Slots};
use perdura_memory::own::{exchange, read_as_one};
use perdura_memory::{LINE, Memory, Object, Traced, WORD};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A session's published state.
#[derive(Default)]
struct Slot {
    /// Odd while it commits, or stores in place without committing.
    commits: AtomicU64,
    /// One more than the clock's number when its transaction began; 0 if none is running.
    since: AtomicU64,
    /// The number of the latest commits of which its transaction may see something.
    until: AtomicU64,
    /// The stamp of its last commit.
    last: AtomicU64,
}

/// Fields of the gate: a session is alone, or wants to be; nothing is to be stored in place, which is so only while a
/// session is alone; the number of snapshots, in steps of `SNAPSHOT`; and from bit `BIAS` on the lane that has the bias,
/// from 1, or that it is changing.
const ALONE: u64 = 1;
const STILL: u64 = 2;
const SNAPSHOT: u64 = 4;
const BIAS: u32 = 48;
const CHANGING: u64 = 0xFFFF;

/// The lane that has the bias.
#[inline(always)]
const fn bias(gate: u64) -> u64 {
    gate >> BIAS
}

/// Commits of a session after which it checks whether other sessions have committed, unless [tuned](Lanes::tune_bias).
const STREAK: u64 = if cfg!(loom) { 1 } else { 1024 };

/// How a commit has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// Whether overwritten words must be kept for snapshots.
    pub(crate) keeps: bool,
    /// Whether this is the only session that commits, until this commit is over.
    pub(crate) has_bias: bool,
}

/// Offsets in the lanes' object: the gate, the horizon, then the slots.
const GATE: u64 = 0;
const HORIZON: u64 = 2 * LINE;
const SLOTS: u64 = 4 * LINE;
const SLOT: u64 = size_of::<Apart<Slot>>() as u64;
const SINCE: u64 = WORD;
const LAST: u64 = 2 * WORD;
/// Lanes with distinct addresses in a simulator.
const TOLD: usize = 128;

/// The lanes.
pub(crate) struct Lanes {
    slots: Slots<Apart<Slot>>,
    gate: Apart<AtomicU64>,
    /// No running transaction can reach memory that commits with tickets up to this one have freed.
    horizon: Apart<AtomicU64>,
    fences: Fences,
    own: Object,
    /// Transactions that have lasted: the lane, when it began, and when that was first noticed, in nanoseconds.
    known: Mutex<Vec<(usize, u64, u64)>>,
    /// Commits of a session after which it checks for others.
    streak: AtomicU64,
}

impl Lanes {
    /// For at most `sessions` sessions; everything up to `horizon` is over.
    pub(crate) fn new<M: Memory>(memory: &M, sessions: usize, horizon: Ticket) -> Self {
        let sessions = sessions.min(LANES);
        Lanes {
            slots: Slots::new(sessions),
            gate: Apart::default(),
            horizon: Apart(AtomicU64::new(horizon.0)),
            fences: Fences::new(),
            own: memory.object(SLOTS + sessions.min(TOLD) as u64 * SLOT),
            known: Mutex::default(),
            streak: AtomicU64::new(STREAK),
        }
    }

    /// Sets after how many commits a session checks whether it is the only one that commits, and so may have the bias;
    /// `None` for the default.
    pub(crate) fn tune_bias(&self, after: Option<u64>) {
        self.streak.store(after.unwrap_or(STREAK), Ordering::Relaxed);
    }

    /// How many sessions there can be.
    pub(crate) fn limit(&self) -> usize {
        self.slots.limit()
    }

    /// The lanes in use.
    fn used(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.in_use().map(|(lane, slot)| (lane, &slot.0))
    }

    /// Returns when every commit that was in progress is over, and every [`Storing`] that was there is gone.
    pub(crate) fn quiesce<M: Memory>(&self, memory: &M) {
        self.fences.heavy();
        let own = Traced::new(memory, self.own);
        for (lane, slot) in self.used() {
            let at = SLOTS + lane as u64 * SLOT;
            own.read(at, WORD);
            let seen = slot.commits.load(Ordering::SeqCst);
            let mut turn = 0;
            while seen % 2 == 1 && slot.commits.load(Ordering::SeqCst) == seen {
                pause(memory, turn);
                turn += 1;
                own.read(at, WORD);
            }
        }
    }

    /// Excludes all commits but the caller's, until [`let_in`](Self::let_in).
    pub(crate) fn be_alone<M: Memory>(&self, memory: &M) {
        self.take_gate(memory);
        if !planted::has(Bug::AloneAmongCommits) {
            self.quiesce(memory);
        }
    }

    /// Excludes all commits and all other stores in place, until the right is dropped. The caller is in no transaction
    /// that is alone.
    pub(crate) fn be_still<'a, M: Memory>(&'a self, memory: &'a M) -> Stillness<'a, M> {
        self.take_gate(memory);
        let stillness = Stillness { lanes: self, memory };
        self.gate.0.fetch_or(STILL, Ordering::SeqCst);
        self.quiesce(memory);
        stillness
    }

    fn take_gate<M: Memory>(&self, memory: &M) {
        let mut turn = 0;
        loop {
            let take = || self.gate.0.fetch_or(ALONE, Ordering::SeqCst);
            if exchange(memory, self.own, GATE, take) & ALONE == 0 {
                return;
            }
            self.wait_for_gate(memory, ALONE, &mut turn);
        }
    }

    /// Lets commits in again.
    pub(crate) fn let_in<M: Memory>(&self, memory: &M) {
        self.gate.0.fetch_and(!(ALONE | STILL), Ordering::SeqCst);
        Traced::new(memory, self.own).exchange(GATE, WORD);
    }

    /// Waits while this bit of the gate is set.
    fn wait_for_gate<M: Memory>(&self, memory: &M, bit: u64, turn: &mut u32) {
        let own = Traced::new(memory, self.own);
        own.read(GATE, WORD);
        while self.gate.0.load(Ordering::Relaxed) & bit != 0 {
            pause(memory, *turn);
            *turn += 1;
            own.read(GATE, WORD);
        }
    }

    /// Revokes the bias, or waits until another session has revoked it.
    #[cold]
    fn take_bias_away<M: Memory>(&self, memory: &M) {
        let own = Traced::new(memory, self.own);
        let mut turn = 0;
        loop {
            own.read(GATE, WORD);
            let gate = self.gate.0.load(Ordering::SeqCst);
            if bias(gate) == 0 || bias(gate) != CHANGING && self.change_bias(memory, gate, 0) {
                return;
            }
            pause(memory, turn);
            turn += 1;
        }
    }

    /// Gives the bias to lane `to`, from 1, or to none, if the gate is unchanged; returns whether it was.
    fn change_bias<M: Memory>(&self, memory: &M, gate: u64, to: u64) -> bool {
        let own = Traced::new(memory, self.own);
        let changing = gate & !(CHANGING << BIAS) | CHANGING << BIAS;
        let (succeeds, fails) = (Ordering::SeqCst, Ordering::Relaxed);
        let change = || self.gate.0.compare_exchange(gate, changing, succeeds, fails);
        if exchange(memory, self.own, GATE, change).is_err() {
            return false;
        }
        if !planted::has(Bug::LaneBiasNotAwaited) {
            self.quiesce(memory);
        }
        // Other threads change the other bits meanwhile.
        self.gate.0.fetch_sub((CHANGING - to) << BIAS, Ordering::SeqCst);
        own.exchange(GATE, WORD);
        true
    }

    /// How many commits the other sessions have begun and ended.
    fn commits_of_others<M: Memory>(&self, memory: &M, lane: usize) -> u64 {
        let own = Traced::new(memory, self.own);
        let others = self.used().filter(|(other, _)| *other != lane);
        let counts = others.map(|(other, slot)| {
            own.read(SLOTS + other as u64 * SLOT, WORD);
            slot.commits.load(Ordering::Relaxed)
        });
        counts.fold(0, u64::wrapping_add)
    }

    /// From the return of this until [`end_snapshot`](Self::end_snapshot), every commit in progress keeps the words
    /// that it overwrites.
    pub(crate) fn begin_snapshot<M: Memory>(&self, memory: &M) {
        exchange(memory, self.own, GATE, || self.gate.0.fetch_add(SNAPSHOT, Ordering::SeqCst));
        if !planted::has(Bug::SnapshotAmongCommits) {
            self.quiesce(memory);
        }
    }

    /// Ends a snapshot.
    pub(crate) fn end_snapshot<M: Memory>(&self, memory: &M) {
        exchange(memory, self.own, GATE, || self.gate.0.fetch_sub(SNAPSHOT, Ordering::SeqCst));
    }

    /// The number at which the oldest running transaction began; `u64::MAX` if none is running.
    pub(crate) fn oldest<M: Memory>(&self, memory: &M) -> u64 {
        self.fences.heavy();
        let own = Traced::new(memory, self.own);
        let since = self.used().map(|(lane, slot)| {
            own.read(SLOTS + lane as u64 * SLOT + SINCE, WORD);
            slot.since.load(Ordering::SeqCst).wrapping_sub(1)
        });
        since.min().unwrap_or(u64::MAX)
    }

    /// The lanes of the running transactions, with the numbers at which each began and up to which it sees commits.
    pub(crate) fn running<M: Memory>(&self, memory: &M) -> Vec<(usize, u64, u64)> {
        self.fences.heavy();
        let own = Traced::new(memory, self.own);
        let running = self.used().filter_map(|(lane, slot)| {
            own.read(SLOTS + lane as u64 * SLOT + SINCE, WORD);
            // In this order: a transaction that is found running has announced how far it sees.
            let since = slot.since.load(Ordering::SeqCst).checked_sub(1)?;
            Some((lane, since, slot.until.load(Ordering::SeqCst)))
        });
        running.collect()
    }

    /// For how long the first of the running transactions that began before the clock reached `number` has been
    /// known to run, and its lane.
    pub(crate) fn oldest_known<M: Memory>(
        &self,
        memory: &M,
        number: u64,
    ) -> Option<(Duration, usize)> {
        let (now, running) = (memory.now(), self.running(memory));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // A transaction that begins in the same lane from here on has a later number.
        known.retain(|&(lane, since, _)| running.iter().any(|run| (run.0, run.1) == (lane, since)));
        for &(lane, since, _) in running.iter().filter(|run| run.1 < number) {
            if !known.iter().any(|known| known.0 == lane) {
                known.push((lane, since, now));
            }
        }
        let (lane, _, at) = *known.iter().min_by_key(|known| known.2)?;
        Some((Duration::from_nanos(now.saturating_sub(at)), lane))
    }

    /// The ticket up to which freed memory is out of reach: no running transaction can reach memory that commits up to
    /// it have freed, and no record in the log will be applied over that.
    #[inline]
    pub(crate) fn horizon<M: Memory>(&self, memory: &M) -> Ticket {
        Traced::new(memory, self.own).read(HORIZON, WORD);
        Ticket(self.horizon.0.load(Ordering::Acquire))
    }

    /// Moves the horizon to `ticket`, if that is later.
    pub(crate) fn move_horizon<M: Memory>(&self, memory: &M, ticket: Ticket) {
        self.horizon.0.fetch_max(ticket.0, Ordering::AcqRel);
        Traced::new(memory, self.own).exchange(HORIZON, WORD);
    }
}

/// Nobody commits or stores in place while this exists.
pub(crate) struct Stillness<'a, M: Memory> {
    lanes: &'a Lanes,
    memory: &'a M,
}

impl<M: Memory> Still for Stillness<'_, M> {}

impl<M: Memory> Drop for Stillness<'_, M> {
    fn drop(&mut self) {
        self.lanes.let_in(self.memory);
    }
}

/// A session's right to store in place.
pub(crate) struct Storing<'a, M: Memory> {
    lane: &'a Lane,
    memory: &'a M,
}

impl<M: Memory> InPlace for Storing<'_, M> {}

impl<M: Memory> Drop for Storing<'_, M> {
    fn drop(&mut self) {
        self.lane.end_commit(self.memory);
    }
}

/// A session's lane.
pub(crate) struct Lane {
    lanes: Arc<Lanes>,
    number: usize,
    slot: Arc<Apart<Slot>>,
    /// Its commits since it last checked for other sessions' commits, and how many those were then.
    streak: u64,
    others: u64,
}

impl Lane {
    /// A lane for one more session, if one is free.
    pub(crate) fn new(lanes: &Arc<Lanes>) -> Option<Self> {
        let (number, slot) = lanes.slots.take(Apart::default)?;
        Some(Lane { lanes: lanes.clone(), number, slot, streak: 0, others: u64::MAX })
    }

    /// The lane's number.
    #[inline(always)]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    #[inline(always)]
    fn slot(&self) -> &Slot {
        &self.slot.0
    }

    #[inline(always)]
    fn wrote<M: Memory>(&self, memory: &M, field: u64) {
        Traced::new(memory, self.lanes.own).wrote(SLOTS + self.number as u64 * SLOT + field, WORD);
    }

    /// Begins a transaction, which has read the clock before: `number`. It sees commits with numbers up to `until`.
    #[inline(always)]
    pub(crate) fn run_since<M: Memory>(&self, memory: &M, number: u64, until: u64) {
        self.slot().until.store(until, Ordering::Relaxed);
        self.slot().since.store(number + 1, Ordering::Release);
        // Its reads come after.
        self.lanes.fences.light();
        self.wrote(memory, SINCE);
    }

    /// Announces that the running transaction sees commits with numbers up to this one from here on.
    #[cold]
    pub(crate) fn sees_until<M: Memory>(&self, memory: &M, number: u64) {
        self.slot().until.store(number, Ordering::Release);
        self.lanes.fences.light();
        self.wrote(memory, SINCE);
    }

    /// Ends the transaction.
    #[inline(always)]
    pub(crate) fn end<M: Memory>(&self, memory: &M) {
        self.slot().since.store(0, Ordering::Release);
        self.wrote(memory, SINCE);
    }

    #[inline(always)]
    fn announce_only<M: Memory>(&self, memory: &M) {
        let slot = self.slot();
        slot.commits.store(slot.commits.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.lanes.fences.light();
        self.wrote(memory, 0);
    }

    /// Announces a commit, or a store in place; returns the gate as it was then.
    #[inline(always)]
    fn announce<M: Memory>(&self, memory: &M) -> u64 {
        self.announce_only(memory);
        Traced::new(memory, self.lanes.own).read(GATE, WORD);
        self.lanes.gate.0.load(Ordering::SeqCst)
    }

    /// The right to store in place outside a commit. Waits while there is a [`Stillness`]; commits do not wait for it,
    /// but what [quiesces](Lanes::quiesce) does: so it must be short.
    pub(crate) fn store_in_place<'a, M: Memory>(&'a self, memory: &'a M) -> Storing<'a, M> {
        let mut turn = 0;
        loop {
            if self.announce(memory) & STILL == 0 {
                return Storing { lane: self, memory };
            }
            self.end_commit(memory);
            self.lanes.wait_for_gate(memory, STILL, &mut turn);
        }
    }

    /// Begins to commit. `None` while another session is alone, unless this one `is_alone`, or while another one has
    /// the bias: then the caller must [wait](Self::wait_to_commit).
    #[inline(always)]
    pub(crate) fn begin_commit<M: Memory>(&self, memory: &M, is_alone: bool) -> Option<Begun> {
        let gate = self.announce(memory);
        let has_bias = bias(gate) == self.number as u64 + 1;
        if (gate & ALONE == 0 || is_alone) && (has_bias || bias(gate) == 0) {
            return Some(Begun { keeps: gate & !(CHANGING << BIAS) >= SNAPSHOT, has_bias });
        }
        self.end_commit(memory);
        None
    }

    /// Begins to commit in a speculation, which is lost if the gate changes before its end. `None` as
    /// [`begin_commit`](Self::begin_commit), or if it is lost already. (In a simulator the announcement is seen before
    /// the hardware commits: others then wait for longer than they must.)
    #[inline(always)]
    pub(crate) fn begin_commit_in_speculation<M: Memory>(&self, memory: &M) -> Option<Begun> {
        self.announce_only(memory);
        let gate = &self.lanes.gate.0;
        let gate = read_as_one(memory, self.lanes.own, GATE, || gate.load(Ordering::Relaxed));
        if let Some(gate) = gate
            && gate & ALONE == 0
            && [0, self.number as u64 + 1].contains(&bias(gate))
        {
            let keeps = gate & !(CHANGING << BIAS) >= SNAPSHOT;
            return Some(Begun { keeps, has_bias: false });
        }
        self.end_commit(memory);
        None
    }

    /// Waits until no other session is alone or has the bias; revokes the bias if necessary.
    #[cold]
    pub(crate) fn wait_to_commit<M: Memory>(&self, memory: &M, is_alone: bool, turn: &mut u32) {
        if !is_alone {
            self.lanes.wait_for_gate(memory, ALONE, turn);
        }
        self.lanes.take_bias_away(memory);
    }

    /// A commit is over: the session gets the bias if there have been no others for long.
    #[inline(always)]
    pub(crate) fn note_commit<M: Memory>(&mut self, memory: &M) {
        self.streak += 1;
        if self.streak >= self.lanes.streak.load(Ordering::Relaxed) {
            self.look_for_others(memory);
        }
    }

    #[cold]
    fn look_for_others<M: Memory>(&mut self, memory: &M) {
        self.streak = 0;
        let others = self.lanes.commits_of_others(memory, self.number);
        let before = std::mem::replace(&mut self.others, others);
        let gate = self.lanes.gate.0.load(Ordering::SeqCst);
        if others == before && bias(gate) == 0 && gate & ALONE == 0 {
            self.lanes.change_bias(memory, gate, self.number as u64 + 1);
        }
    }

    /// The commit is over.
    #[inline(always)]
    pub(crate) fn end_commit<M: Memory>(&self, memory: &M) {
        let slot = self.slot();
        slot.commits.store(slot.commits.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.wrote(memory, 0);
    }

    /// The number of the session's last commit.
    #[inline]
    pub(crate) fn last_number(&self) -> u64 {
        Stamp(self.slot().last.load(Ordering::Relaxed)).number()
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
        self.lanes.slots.give_back(self.number);
    }
}
