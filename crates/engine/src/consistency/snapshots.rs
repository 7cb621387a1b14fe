//! Transactions that read for long without holding the writer up: each reads a *snapshot*, the state after one commit.
//!
//! A reading transaction keeps the writer from storing. So one that has read much leaves the lock and continues on a
//! snapshot of the state it has seen so far. While there are snapshots, every store in place [keeps](Versions) the old
//! words, and freed memory is not reused.
//!
//! What always holds: a snapshot begins inside the lock, while nothing is stored; so the next writer that stores finds
//! it counted.

use crate::Ticket;
use crate::planted::{self, Bug};
use crate::writes::{LineWrite, Versions};
use perdura_memory::{Memory, Object, Traced, WORD};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The default number of words, or lines of bytes, that a transaction reads inside the lock.
const MOST_READS: u32 = 512;

/// The snapshot of a transaction that has left the lock.
pub(crate) struct Snapshot {
    /// The commit after which it reads the state of the memory.
    pub(crate) number: u64,
    /// The words that had joined by then and were not in the memory, by line.
    pub(crate) joined: HashMap<u64, LineWrite>,
    /// The last commit of which it may have seen something.
    pub(crate) seen: Ticket,
}

/// The snapshots of an engine.
pub(crate) struct Snapshots {
    /// For each snapshot, the number of the commit after which it is the state.
    numbers: Mutex<Vec<u64>>,
    /// How many there are.
    count: AtomicUsize,
    versions: Versions,
    most_reads: AtomicU32,
    own: Object,
}

impl Snapshots {
    pub(crate) fn new<M: Memory>(memory: &M) -> Self {
        Snapshots {
            numbers: Mutex::default(),
            count: AtomicUsize::new(0),
            versions: Versions::new(memory),
            most_reads: AtomicU32::new(MOST_READS),
            own: memory.object(WORD),
        }
    }

    fn numbers(&self) -> MutexGuard<'_, Vec<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much a transaction reads inside the lock.
    #[inline(always)]
    pub(crate) fn most_reads(&self) -> u32 {
        self.most_reads.load(Ordering::Relaxed)
    }

    /// Sets that; `None` for the default.
    pub(crate) fn tune(&self, most_reads: Option<u64>) {
        let most = most_reads.map(|most| u32::try_from(most).unwrap_or(u32::MAX - 1));
        self.most_reads.store(most.unwrap_or(MOST_READS), Ordering::Relaxed);
    }

    /// Begins a snapshot of the state after commit `number`. For a transaction inside the lock.
    pub(crate) fn begin<M: Memory>(&self, memory: &M, number: u64) {
        Traced::new(memory, self.own).exchange(0, WORD);
        let mut numbers = self.numbers();
        numbers.push(number);
        self.count.store(numbers.len(), Ordering::SeqCst);
    }

    /// Ends a snapshot of this state.
    pub(crate) fn end<M: Memory>(&self, memory: &M, number: u64) {
        Traced::new(memory, self.own).exchange(0, WORD);
        let mut numbers = self.numbers();
        if let Some(index) = numbers.iter().position(|own| *own == number) {
            numbers.swap_remove(index);
        }
        self.count.store(numbers.len(), Ordering::SeqCst);
        let forgets = planted::has(Bug::VersionsForgotten);
        self.versions.forget_before(if forgets { u64::MAX } else { oldest(&numbers) });
    }

    /// Whether there are any. For the writer, once it is alone.
    #[inline(always)]
    pub(crate) fn any<M: Memory>(&self, memory: &M) -> bool {
        Traced::new(memory, self.own).read(0, WORD);
        self.count.load(Ordering::SeqCst) > 0
    }

    /// The state that the oldest snapshot reads; `u64::MAX` if there are none.
    pub(crate) fn oldest(&self) -> u64 {
        if self.count.load(Ordering::SeqCst) == 0 { u64::MAX } else { oldest(&self.numbers()) }
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

fn oldest(numbers: &[u64]) -> u64 {
    numbers.iter().copied().min().unwrap_or(u64::MAX)
}
