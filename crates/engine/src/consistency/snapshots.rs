//! Transactions that read for long without holding the writer up: each reads a *snapshot*, the state after one commit.
//!
//! A reading transaction keeps the writer from storing. So a writer that has waited for one long enough moves it to a
//! snapshot of the state that it has seen so far ([`Moves`](perdura_memory::lock::Moves)), whether the reader is at work
//! or idle, and stores. While there are snapshots, every store in place [keeps](Versions) the old words, and freed memory
//! is not reused.
//!
//! What always holds: a snapshot begins while nothing is stored, by the writer that stores next, which so finds it. It
//! ends with its transaction: a transaction that has ended without knowing of its snapshot has none any more.

use crate::Ticket;
use crate::planted::{self, Bug};
use crate::tuning::Tuning;
use crate::writes::{Ended, LineWrite, Versions};
use perdura_memory::lock::Turn;
use perdura_memory::{Memory, Object, Traced, WORD};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The default number of lines that a transaction on software transactional memory reads before it has a snapshot.
const MOST_READS: u32 = 512;
/// The default time in nanoseconds that a writer waits for readers: several times what moving one costs.
const PATIENCE_NS: u64 = 20_000;
/// How many commits look for snapshots that have ended unnoticed.
const LOOK_EVERY: u32 = 16;

/// The snapshot of a transaction that has been moved.
pub(crate) struct Snapshot {
    /// The commit after which it reads the state of the memory.
    pub(crate) number: u64,
    /// The words that had joined by then and were not in the memory, by line.
    pub(crate) joined: HashMap<u64, LineWrite>,
    /// The last commit of which it may have seen something.
    pub(crate) seen: Ticket,
}

/// A transaction that has one.
struct Moved {
    reader: Turn,
    /// The commit after which it reads the state of the memory.
    number: u64,
    /// When it was moved, by the memory's clock.
    since_ns: u64,
    /// Until the reader has taken it.
    snapshot: Option<Box<Snapshot>>,
}

/// The snapshots of an engine.
pub(crate) struct Snapshots {
    moved: Mutex<Vec<Moved>>,
    /// How many there are.
    count: AtomicUsize,
    /// Commits that have looked for any.
    looks: AtomicU32,
    versions: Versions,
    most_reads: AtomicU32,
    patience_ns: AtomicU64,
    own: Object,
}

impl Snapshots {
    pub(crate) fn new<M: Memory>(memory: &M) -> Self {
        Snapshots {
            moved: Mutex::default(),
            count: AtomicUsize::new(0),
            looks: AtomicU32::new(0),
            versions: Versions::new(memory),
            most_reads: AtomicU32::new(MOST_READS),
            patience_ns: AtomicU64::new(PATIENCE_NS),
            own: memory.object(WORD),
        }
    }

    fn moved(&self) -> MutexGuard<'_, Vec<Moved>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much a transaction on software transactional memory reads before it has a snapshot.
    #[inline(always)]
    pub(crate) fn most_reads(&self) -> u32 {
        self.most_reads.load(Ordering::Relaxed)
    }

    /// How long a writer waits for readers.
    #[inline(always)]
    pub(crate) fn patience_ns(&self) -> u64 {
        self.patience_ns.load(Ordering::Relaxed)
    }

    /// Sets both; by default if not given.
    pub(crate) fn tune(&self, tuning: &Tuning) {
        let most = tuning.snapshot_after.map(|most| u32::try_from(most).unwrap_or(u32::MAX - 1));
        self.most_reads.store(most.unwrap_or(MOST_READS), Ordering::Relaxed);
        let patience = tuning.wait_for_readers_ns.unwrap_or(PATIENCE_NS);
        self.patience_ns.store(patience, Ordering::Relaxed);
    }

    /// Begins a snapshot for `reader`. For the writer, while it is alone and has stored nothing.
    pub(crate) fn begin<M: Memory>(&self, memory: &M, reader: Turn, snapshot: Snapshot) {
        Traced::new(memory, self.own).exchange(0, WORD);
        let (number, since_ns) = (snapshot.number, memory.now());
        let mut moved = self.moved();
        self.versions.begin(number);
        moved.push(Moved { reader, number, since_ns, snapshot: Some(Box::new(snapshot)) });
        self.count.store(moved.len(), Ordering::SeqCst);
    }

    /// Takes the snapshot of the transaction for which `is_own` holds, once it has been given one.
    pub(crate) fn take<M: Memory>(
        &self,
        memory: &M,
        is_own: impl Fn(&Turn) -> bool,
    ) -> Option<Box<Snapshot>> {
        Traced::new(memory, self.own).exchange(0, WORD);
        self.moved().iter_mut().find(|moved| is_own(&moved.reader))?.snapshot.take()
    }

    /// Ends the snapshot of that transaction, if it has one.
    pub(crate) fn end<M: Memory>(&self, memory: &M, is_own: impl Fn(&Turn) -> bool) {
        Traced::new(memory, self.own).exchange(0, WORD);
        self.retain(|moved| !is_own(&moved.reader));
    }

    /// Ends those for which `is_there` does not hold. The numbers of the others, in order.
    fn retain(&self, is_there: impl Fn(&Moved) -> bool) -> Vec<u64> {
        let mut moved = self.moved();
        let mut ended = Vec::new();
        moved.retain(|moved| {
            let stays = is_there(moved);
            if !stays {
                ended.push(moved.number);
            }
            stays
        });
        let left = numbers(&moved);
        if ended.is_empty() {
            return left;
        }
        self.count.store(moved.len(), Ordering::SeqCst);
        // A snapshot that begins from here on has at least this number.
        let known = self.versions.newest();
        drop(moved);
        if planted::has(Bug::VersionsForgotten) {
            self.versions.forget(&Ended { left: &[], ended: &ended, known: u64::MAX });
        } else {
            self.versions.forget(&Ended { left: &left, ended: &ended, known });
        }
        left
    }

    /// Whether there are any. For the writer, once it is alone.
    #[inline(always)]
    pub(crate) fn any<M: Memory>(&self, memory: &M) -> bool {
        Traced::new(memory, self.own).read(0, WORD);
        self.count.load(Ordering::SeqCst) > 0 && self.any_is_left()
    }

    /// As [`any`](Self::any); now and then, without those that have ended unnoticed.
    #[cold]
    fn any_is_left(&self) -> bool {
        if self.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
            self.retain(|moved| !moved.reader.is_over());
        }
        self.count.load(Ordering::SeqCst) > 0
    }

    /// The state that the oldest snapshot reads; `u64::MAX` if there are none.
    pub(crate) fn oldest(&self) -> u64 {
        if self.count.load(Ordering::SeqCst) == 0 {
            return u64::MAX;
        }
        let left = self.retain(|moved| !moved.reader.is_over());
        left.first().copied().unwrap_or(u64::MAX)
    }

    /// The states that snapshots read, oldest first.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        self.retain(|moved| !moved.reader.is_over())
    }

    /// When the first of the transactions that have snapshots was moved, by the memory's clock.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        let moved = self.moved();
        moved.iter().filter(|moved| !moved.reader.is_over()).map(|moved| moved.since_ns).min()
    }

    /// Keeps the words that commit `number` is about to overwrite.
    #[cold]
    pub(crate) fn keep<M: Memory>(&self, memory: &M, number: u64, entries: &[LineWrite]) {
        // Only the writer begins snapshots: none later than this one needs what is about to be overwritten.
        let newest = self.moved().iter().map(|moved| moved.number).max().unwrap_or(0);
        for entry in entries.iter().filter(|entry| entry.mask != 0) {
            self.versions.keep_for(memory, number, newest, entry);
        }
    }

    /// Whether words of the line of `at` may have been overwritten. The line must have been loaded before.
    #[inline(always)]
    pub(crate) fn may_have<M: Memory>(&self, memory: &M, at: u64) -> bool {
        self.versions.may_have(memory, at)
    }

    /// The words of the line at `line` that have been overwritten since the state after commit `number`, as of that
    /// state. The line must have been loaded before.
    pub(crate) fn line_at<M: Memory>(
        &self,
        memory: &M,
        line: u64,
        number: u64,
    ) -> Option<LineWrite> {
        match self.versions.may_have(memory, line) {
            true => self.versions.line_at(line, number),
            false => None,
        }
    }
}

fn numbers(moved: &[Moved]) -> Vec<u64> {
    let mut numbers: Vec<u64> = moved.iter().map(|moved| moved.number).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;
    use perdura_memory::lock::{Lock, Mode, Moves, Seat};
    use std::sync::Arc;

    /// Gives moved readers snapshots of the number that is its value.
    struct Gives<'a>(&'a Snapshots, &'a Ram);

    impl Moves<u64> for Gives<'_> {
        fn patience_ns(&self) -> Option<u64> {
            Some(0)
        }

        fn give_state(&self, reader: Turn, _: Option<u64>, shared: &u64) {
            let snapshot =
                Snapshot { number: *shared, joined: HashMap::new(), seen: Ticket(*shared) };
            self.0.begin(self.1, reader, snapshot);
        }
    }

    type Shared = Arc<Lock<crate::sync::Spin, u64, ()>>;

    struct Rig {
        ram: Ram,
        snapshots: Snapshots,
        lock: Shared,
    }

    impl Rig {
        fn new() -> Self {
            let ram = Ram::new(4096);
            let (snapshots, lock) = (Snapshots::new(&ram), Arc::new(Lock::new(&ram, 4, 0, ())));
            Rig { ram, snapshots, lock }
        }

        fn reader(&self) -> Seat<crate::sync::Spin, u64, ()> {
            let mut seat = Seat::new(&self.lock).expect("a slot");
            seat.enter(Mode::Read, &self.ram);
            seat
        }

        /// A commit that moves all readers, and stores to a line.
        fn commit(&self) {
            let Rig { ram, snapshots, lock } = self;
            lock.writing(ram, |mut right| {
                right.shared.change(ram, &Gives(snapshots, ram), |number| *number += 1);
                if snapshots.any(ram) {
                    let entry = LineWrite { line: 64, mask: 1, words: [1; 8] };
                    snapshots.keep(ram, *right.shared.get(), &[entry]);
                }
            });
        }
    }

    /// Transactions that end just after they were moved, and do not know: nothing is left of them.
    #[test]
    fn forgets_ended_snapshots() {
        let rig = Rig::new();
        for _ in 0..10 {
            let mut seat = rig.reader();
            rig.commit();
            assert_eq!(
                rig.snapshots.oldest() + 1,
                rig.lock.writing(&rig.ram, |right| *right.shared.get())
            );
            seat.leave(&rig.ram);
            assert_eq!(rig.snapshots.oldest(), u64::MAX, "as whoever reuses memory sees it");
            assert!(!rig.snapshots.may_have(&rig.ram, 64));
        }
        // As the writers see it, who do not look at each commit.
        let mut seat = rig.reader();
        rig.commit();
        seat.leave(&rig.ram);
        (0..=LOOK_EVERY).for_each(|_| rig.commit());
        assert!(!rig.snapshots.any(&rig.ram) && !rig.snapshots.may_have(&rig.ram, 64));
    }

    /// The same seat's next transaction has nothing to do with the snapshot of the one before, nor has another seat's.
    #[test]
    fn a_snapshot_belongs_to_one_transaction() {
        let rig = Rig::new();
        let (mut one, other) = (rig.reader(), rig.reader());
        rig.commit();
        let take = |seat: &Seat<_, _, _>| rig.snapshots.take(&rig.ram, |turn| seat.is_at(turn));
        assert!(one.is_moved(&rig.ram) && take(&one).is_some_and(|own| own.number == 0));
        assert!(take(&one).is_none(), "it has taken it");
        one.leave(&rig.ram);
        one.enter(Mode::Read, &rig.ram);
        assert!(!one.is_moved(&rig.ram) && take(&one).is_none());
        rig.commit();
        assert_eq!(rig.snapshots.oldest(), 0, "the other's");
        rig.snapshots.end(&rig.ram, |turn| other.is_at(turn));
        assert_eq!(rig.snapshots.oldest(), 1);
        assert!(take(&one).is_some_and(|own| own.number == 1) && take(&other).is_none());
        rig.snapshots.end(&rig.ram, |turn| one.is_at(turn));
        assert!(!rig.snapshots.any(&rig.ram) && !rig.snapshots.may_have(&rig.ram, 64));
    }
}
