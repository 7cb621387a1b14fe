//! All transactions in the order of their commits, to check a mechanism that makes them atomic and durable.

use super::difference::difference;
use crate::Ps;
use perdura_memory::HardwareTicket;
use perdura_memory::image::{Piece, patch};
use std::collections::{HashMap, HashSet};

/// The stores of all transactions.
#[derive(Default)]
pub(crate) struct Transactions {
    /// Memory before all of them.
    first: Vec<u64>,
    /// For each core that runs one, its stores so far.
    running: HashMap<usize, Vec<Piece>>,
    /// Each with its ticket; tickets ascend.
    committed: Vec<(HardwareTicket, Vec<Piece>)>,
    /// Words stored to outside transactions: nothing is promised about these.
    outside: HashSet<usize>,
    /// How many transactions programs knew to be durable, and from which time; both ascend.
    told: Vec<(Ps, usize)>,
}

impl Transactions {
    /// For a memory that begins with these words.
    pub(super) fn new(words: &[u64]) -> Self {
        Transactions { first: words.to_vec(), ..Transactions::default() }
    }

    /// A core begins one.
    pub(crate) fn begins(&mut self, core: usize) {
        self.running.insert(core, Vec::new());
    }

    /// A core has stored.
    pub(crate) fn stored(&mut self, core: usize, pieces: &[Piece]) {
        match self.running.get_mut(&core) {
            Some(stored) => stored.extend_from_slice(pieces),
            None => self.outside.extend(pieces.iter().map(word_of)),
        }
    }

    /// A core has committed its transaction.
    pub(crate) fn commits(&mut self, core: usize, ticket: HardwareTicket) {
        let stored = self.running.remove(&core);
        self.committed.extend(stored.map(|stored| (ticket, stored)));
    }

    /// A core's transaction is aborted. If the mechanism has not `undone` it, its stores count as outside transactions.
    pub(crate) fn aborts(&mut self, core: usize, undone: bool) {
        let stored = self.running.remove(&core).unwrap_or_default();
        if !undone {
            self.outside.extend(stored.iter().map(word_of));
        }
    }

    /// The ticket of the last to have committed.
    pub(crate) fn last(&self) -> HardwareTicket {
        self.committed.last().map_or(HardwareTicket::DURABLE, |(ticket, _)| *ticket)
    }

    /// From `now` on programs know that all transactions up to `last` are durable.
    pub(crate) fn tells(&mut self, now: Ps, last: HardwareTicket) {
        let count = self.committed.partition_point(|(ticket, _)| *ticket <= last);
        if self.told.last().is_none_or(|(_, told)| *told < count) {
            self.told.push((now, count));
        }
    }

    /// The first word that differs from memory after the number of transactions that agrees with most words.
    pub(super) fn broken(&self, left: &[u64], now: Ps) -> Option<usize> {
        let told = self.told.iter().filter(|(from, _)| *from <= now);
        let durable = told.map(|(_, count)| *count).max().unwrap_or(0);
        let mut memory = self.first.clone();
        memory.resize(left.len().max(memory.len()), 0);
        let counts = |word: &usize| !self.outside.contains(word);
        let differ = |memory: &[u64]| {
            (0..left.len()).filter(|word| memory[*word] != left[*word]).filter(counts).count()
        };
        let mut wrong = differ(&memory);
        let mut nearest = (usize::MAX, 0);
        for count in 0..=self.committed.len() {
            for piece in count.checked_sub(1).map_or(&[][..], |index| &self.committed[index].1) {
                let word = word_of(piece);
                let before = memory[word] != left[word];
                patch(&mut memory, piece);
                if counts(&word) {
                    wrong = wrong + usize::from(memory[word] != left[word]) - usize::from(before);
                }
            }
            if count >= durable && wrong < nearest.0 {
                nearest = (wrong, count);
            }
            if nearest.0 == 0 {
                return None;
            }
        }
        let mut memory = self.first.clone();
        memory.resize(left.len().max(memory.len()), 0);
        let stored = self.committed[..nearest.1].iter().flat_map(|(_, stored)| stored);
        stored.for_each(|piece| patch(&mut memory, piece));
        self.outside
            .iter()
            .filter(|word| **word < left.len())
            .for_each(|word| memory[*word] = left[*word]);
        difference(&memory, left)
    }
}

fn word_of(piece: &Piece) -> usize {
    (piece.at() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_transactions_are_left_in_their_order() {
        let mut transactions = Transactions::new(&[0; 4]);
        for (core, at, value) in [(0, 0, 1), (1, 8, 2)] {
            transactions.begins(core);
            transactions.stored(core, &[Piece::word(at, value)]);
            transactions.stored(core, &[Piece::word(16, value)]);
            transactions.commits(core, HardwareTicket(core as u64 + 1));
        }
        let broken =
            |transactions: &Transactions, left: &[u64; 4]| transactions.broken(left, Ps(10));
        for right in [[0, 0, 0, 0], [1, 0, 1, 0], [1, 2, 2, 0]] {
            assert_eq!(broken(&transactions, &right), None, "{right:?}");
        }
        assert_eq!(broken(&transactions, &[1, 0, 0, 0]), Some(0), "half of the first");
        assert!(broken(&transactions, &[0, 2, 2, 0]).is_some(), "the second without the first");
        transactions.tells(Ps(11), HardwareTicket(1));
        assert_eq!(broken(&transactions, &[0; 4]), None, "nothing was told by then");
        assert!(transactions.broken(&[0; 4], Ps(11)).is_some(), "what is durable is lost");
    }

    #[test]
    fn nothing_is_promised_of_stores_outside() {
        let mut transactions = Transactions::new(&[0; 4]);
        transactions.stored(0, &[Piece::word(0, 1)]);
        transactions.begins(0);
        transactions.stored(0, &[Piece::word(8, 1)]);
        transactions.aborts(0, true);
        transactions.begins(1);
        transactions.stored(1, &[Piece::word(16, 1)]);
        transactions.aborts(1, false);
        assert_eq!(transactions.broken(&[5, 0, 7, 0], Ps(0)), None);
        assert_eq!(transactions.broken(&[0, 1, 0, 0], Ps(0)), Some(1), "what was undone is there");
        assert_eq!(transactions.last(), HardwareTicket::DURABLE);
    }
}
