//! Transactions that are durable when they have committed, and what a power cut may leave of them: each one that a
//! program knows to have committed, with all that it has seen, and each of the others as a whole or not at all.
//!
//! The ledger knows nothing of the mechanism. It has the transactions in the order of their commits; one counts from
//! the time at which its commit is over, from the moment when its program goes on, or from the time at which a program
//! has seen one of its words, whichever comes first.

use perdura_machine::Ps;
use std::collections::BTreeSet;

/// The most transactions of which it is not known whether they are durable.
const MOST: usize = 12;

/// A transaction's words, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) writes: Vec<(usize, u64)>,
    pub(crate) reads: Vec<(usize, u64)>,
}

impl Transaction {
    fn touches(&self, other: &Transaction) -> bool {
        let mine: BTreeSet<usize> = self.writes.iter().map(|write| write.0).collect();
        other.writes.iter().chain(&other.reads).any(|(word, _)| mine.contains(word))
    }

    fn conflicts(&self, other: &Transaction) -> bool {
        self.touches(other) || other.touches(self)
    }
}

/// One that has committed, or is about to.
struct Entry {
    core: usize,
    transaction: Transaction,
    /// From when it must be durable.
    from: Ps,
}

/// All transactions.
pub(crate) struct Ledger {
    /// What the certainly durable ones have left.
    base: Vec<u64>,
    /// In the order of their commits.
    committed: Vec<Entry>,
    /// What each core is about to commit.
    wants: Vec<Option<Transaction>>,
}

impl Ledger {
    /// For a memory that begins with these words.
    pub(crate) fn new(base: Vec<u64>, cores: usize) -> Self {
        Ledger { base, committed: Vec::new(), wants: vec![None; cores] }
    }

    /// A core's program is about to commit.
    pub(crate) fn wants(&mut self, core: usize, transaction: Transaction) {
        self.wants[core] = Some(transaction);
    }

    /// A core's transaction is lost.
    pub(crate) fn lost(&mut self, core: usize) {
        self.wants[core] = None;
    }

    /// A core's commit is over at `at`.
    pub(crate) fn commits(&mut self, core: usize, at: Ps) {
        let transaction = self.wants[core].take().expect("it was about to commit");
        self.committed.push(Entry { core, transaction, from: at });
    }

    /// A core's program goes on after its commit, at `at`.
    pub(crate) fn returned(&mut self, core: usize, at: Ps) {
        if let Some(only_read) = self.wants[core].take() {
            assert!(only_read.writes.is_empty(), "a commit that has stored is an event");
            for read in only_read.reads {
                self.seen(read, at);
            }
            return;
        }
        let last = self.committed.iter_mut().rfind(|entry| entry.core == core);
        last.into_iter().for_each(|entry| entry.from = Ps::default());
    }

    /// A program that has seen this word outside a transaction, or in one that only reads, is done at `at`.
    pub(crate) fn seen(&mut self, read: (usize, u64), at: Ps) {
        let wrote = |entry: &&mut Entry| entry.transaction.writes.contains(&read);
        if let Some(entry) = self.committed.iter_mut().rfind(wrote) {
            entry.from = entry.from.min(at);
        }
    }

    /// What is wrong with `left`, the image after a power cut at `now`.
    pub(crate) fn broken(&mut self, left: &[u64], now: Ps) -> Option<String> {
        // Not those that count from a time: the next crash point may be an earlier one, of another core.
        let ever = self.committed.iter().take_while(|entry| entry.from == Ps::default()).count();
        for Entry { transaction, .. } in self.committed.drain(..ever) {
            transaction.writes.iter().for_each(|(word, value)| self.base[*word] = *value);
        }
        let running = self.wants.iter().flatten().map(|transaction| (transaction, false));
        let committed = self.committed.iter().map(|entry| (&entry.transaction, entry.from <= now));
        let all: Vec<(&Transaction, bool)> = committed.chain(running).collect();
        let open: Vec<usize> = (0..all.len()).filter(|index| !all[*index].1).collect();
        assert!(open.len() <= MOST, "{} transactions whose commits are not over", open.len());
        let over = self.committed.len();
        let found = (0..1_u64 << open.len()).any(|subset| {
            let has = |index: usize| {
                let place = open.iter().position(|other| *other == index);
                place.is_none_or(|place| subset >> place & 1 != 0)
            };
            is_closed(&all, over, has) && self.is_after(&all, has, left)
        });
        if found {
            return None;
        }
        let mut expected = self.base.clone();
        for (transaction, _) in all.iter().filter(|(_, certain)| *certain) {
            transaction.writes.iter().for_each(|(word, value)| expected[*word] = *value);
        }
        let differs = (0..expected.len()).filter(|word| expected[*word] != left[*word]);
        let words: Vec<_> = differs.map(|word| (word, expected[word], left[word])).collect();
        Some(format!("words, expected and left, {words:x?}; open: {all:x?}"))
    }

    /// Whether `left` is what the chosen transactions leave.
    fn is_after(
        &self,
        all: &[(&Transaction, bool)],
        has: impl Fn(usize) -> bool,
        left: &[u64],
    ) -> bool {
        let mut words = self.base.clone();
        for (_, (transaction, _)) in all.iter().enumerate().filter(|(index, _)| has(*index)) {
            transaction.writes.iter().for_each(|(word, value)| words[*word] = *value);
        }
        words[..] == left[..words.len()]
    }
}

/// Whether no chosen transaction depends on one of the first `committed` that is earlier, and not chosen.
fn is_closed(all: &[(&Transaction, bool)], committed: usize, has: impl Fn(usize) -> bool) -> bool {
    let depends = |later: usize| {
        (0..later.min(committed))
            .any(|earlier| !has(earlier) && all[earlier].0.conflicts(all[later].0))
    };
    !(0..all.len()).any(|later| has(later) && depends(later))
}
