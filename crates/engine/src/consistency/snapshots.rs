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
use crate::tuning::Tuning;
use crate::writes::{LineWrite, Versions};
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
        let number = snapshot.number;
        let mut moved = self.moved();
        moved.push(Moved { reader, number, snapshot: Some(Box::new(snapshot)) });
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
        self.retain(&mut self.moved(), |moved| !is_own(&moved.reader));
    }

    /// Ends those for which `is_there` does not hold.
    fn retain(&self, moved: &mut Vec<Moved>, is_there: impl Fn(&Moved) -> bool) {
        let before = moved.len();
        moved.retain(is_there);
        if moved.len() < before {
            self.count.store(moved.len(), Ordering::SeqCst);
            self.versions.forget_before(oldest(moved));
        }
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
            self.retain(&mut self.moved(), |moved| !moved.reader.is_over());
        }
        self.count.load(Ordering::SeqCst) > 0
    }

    /// The state that the oldest snapshot reads; `u64::MAX` if there are none.
    pub(crate) fn oldest(&self) -> u64 {
        if self.count.load(Ordering::SeqCst) == 0 {
            return u64::MAX;
        }
        let mut moved = self.moved();
        self.retain(&mut moved, |moved| !moved.reader.is_over());
        oldest(&moved)
    }

    /// Keeps the words that commit `number` is about to overwrite.
    #[cold]
    pub(crate) fn keep<M: Memory>(&self, memory: &M, number: u64, entries: &[LineWrite]) {
        for entry in entries.iter().filter(|entry| entry.mask != 0) {
            self.versions.keep(memory, number, entry);
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

fn oldest(moved: &[Moved]) -> u64 {
    moved.iter().map(|moved| moved.number).min().unwrap_or(u64::MAX)
}
