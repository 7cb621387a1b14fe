//! Checks a mechanism's promise about memory after a power cut: tracks memory at the ends of epochs, all stores in
//! order, or all transactions in order, independently of the mechanism.

mod difference;
mod transactions;

use crate::Ps;
use crate::mechanism::Promise;
use difference::difference;
use perdura_memory::image::{Piece, patch};
use std::collections::{HashMap, VecDeque};
pub(crate) use transactions::Transactions;

/// What is promised, with what is needed to check it.
#[derive(Default)]
pub(crate) enum Promised {
    /// Nothing to check.
    #[default]
    Nothing,
    /// Memory is as at the end of the last durable epoch.
    Epochs(Epochs),
    /// Memory has a prefix of all stores.
    Order(StoreOrder),
    /// Memory has a prefix of all transactions.
    Transactions(Transactions),
}

impl Promised {
    /// For a memory that begins with these words.
    pub(crate) fn new(promise: Promise, words: &[u64]) -> Self {
        match promise {
            Promise::Nothing => Promised::Nothing,
            Promise::Epoch => Promised::Epochs(Epochs {
                ended: VecDeque::new(),
                durable: VecDeque::from([(Ps::default(), words.to_vec())]),
            }),
            Promise::Order => {
                Promised::Order(StoreOrder { first: words.to_vec(), ..StoreOrder::default() })
            }
            Promise::Transactions => Promised::Transactions(Transactions::new(words)),
        }
    }

    /// Words of the images that are kept.
    #[cfg(test)]
    pub(crate) fn words(&self) -> usize {
        match self {
            Promised::Epochs(epochs) => {
                let durable = epochs.durable.iter().map(|(_, words)| words.len());
                epochs.ended.iter().map(Vec::len).chain(durable).sum()
            }
            _ => 0,
        }
    }

    /// The first word that breaks the promise in `left`, the image after a power cut at `now`.
    pub(crate) fn broken(&self, left: &[u64], now: Ps) -> Option<usize> {
        match self {
            Promised::Nothing => None,
            Promised::Epochs(epochs) => difference(epochs.at(now), left),
            Promised::Order(order) => order.broken(left, now),
            Promised::Transactions(transactions) => transactions.broken(left, now),
        }
    }
}

/// Images of epochs' ends.
pub(crate) struct Epochs {
    /// For ended epochs whose durability has not been reported yet.
    ended: VecDeque<Vec<u64>>,
    /// For durable epochs, with the time from which they are durable; never empty.
    durable: VecDeque<(Ps, Vec<u64>)>,
}

impl Epochs {
    /// An epoch ends.
    pub(crate) fn ends(&mut self, words: Vec<u64>) {
        self.ended.push_back(words);
    }

    /// The oldest ended epoch not yet reported durable is durable from `at` on. No power cut comes before `now`.
    pub(crate) fn is_durable(&mut self, at: Ps, now: Ps) {
        let Some(words) = self.ended.pop_front() else { return };
        self.durable.push_back((at, words));
        while self.durable.get(1).is_some_and(|(at, _)| *at <= now) {
            self.durable.pop_front();
        }
    }

    /// What a power cut at `now` must leave.
    fn at(&self, now: Ps) -> &[u64] {
        let durable = self.durable.iter().rev().find(|(at, _)| *at <= now);
        durable.or(self.durable.front()).map_or(&[], |(_, words)| words)
    }
}

/// All stores, in the order in which they became visible.
#[derive(Default)]
pub(crate) struct StoreOrder {
    /// Memory before all of them.
    first: Vec<u64>,
    stores: Vec<Piece>,
    /// For each word, the number of stores up to and including the last one to it.
    last: HashMap<u64, usize>,
    /// For each core, the number of stores up to and including the last one that it has written back.
    asked: HashMap<usize, usize>,
    /// How many stores are durable by the fences so far, with the time from which each number counts; ascending.
    durable: Vec<(Ps, usize)>,
}

impl StoreOrder {
    /// Stores become visible, as one.
    pub(crate) fn stored(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.stores.push(*piece);
            self.last.insert(piece.at() / 8, self.stores.len());
        }
    }

    /// A core writes back a line.
    pub(crate) fn asks(&mut self, core: usize, line: u64) {
        let last = (line * 8..line * 8 + 8).filter_map(|word| self.last.get(&word)).max();
        if let Some(last) = last {
            let asked = self.asked.entry(core).or_default();
            *asked = (*asked).max(*last);
        }
    }

    /// A core's fence is over at `now`.
    pub(crate) fn fenced(&mut self, core: usize, now: Ps) {
        let Some(&asked) = self.asked.get(&core) else { return };
        if self.durable.iter().all(|(_, count)| *count < asked) {
            self.durable.push((now, asked));
        }
    }

    /// The first word that differs from memory after the number of stores that agrees with most words.
    fn broken(&self, left: &[u64], now: Ps) -> Option<usize> {
        let told = self.durable.iter().filter(|(from, _)| *from <= now);
        let durable = told.map(|(_, count)| *count).max().unwrap_or(0);
        let mut memory = self.first.clone();
        memory.resize(left.len().max(memory.len()), 0);
        let mut wrong = (0..left.len()).filter(|word| memory[*word] != left[*word]).count();
        let mut nearest = (usize::MAX, 0);
        for count in 0..=self.stores.len() {
            if count > 0 {
                let piece = &self.stores[count - 1];
                let word = (piece.at() / 8) as usize;
                let before = memory[word] != left[word];
                patch(&mut memory, piece);
                wrong = wrong + usize::from(memory[word] != left[word]) - usize::from(before);
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
        self.stores[..nearest.1].iter().for_each(|piece| patch(&mut memory, piece));
        difference(&memory, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_durable_epoch_counts() {
        let mut promised = Promised::new(Promise::Epoch, &[0]);
        let Promised::Epochs(epochs) = &mut promised else { panic!("epochs") };
        epochs.ends(vec![1]);
        epochs.ends(vec![2]);
        epochs.is_durable(Ps(10), Ps(0));
        epochs.is_durable(Ps(20), Ps(5));
        let at = |epochs: &Epochs, time| epochs.at(Ps(time))[0];
        assert_eq!([9, 10, 19, 20].map(|time| at(epochs, time)), [0, 1, 1, 2]);
        epochs.ends(vec![3]);
        epochs.is_durable(Ps(30), Ps(20));
        assert_eq!((epochs.durable.len(), at(epochs, 29), at(epochs, 30)), (2, 2, 3));
        assert_eq!((promised.broken(&[2], Ps(29)), promised.broken(&[2], Ps(30))), (None, Some(0)));
        assert_eq!(promised.broken(&[3, 0, 1], Ps(30)), Some(2), "what has grown is 0");
    }

    #[test]
    fn stores_are_left_in_their_order() {
        let mut promised = Promised::new(Promise::Order, &[0; 16]);
        let Promised::Order(order) = &mut promised else { panic!("an order") };
        order.stored(&[Piece::word(0, 1)]);
        order.stored(&[Piece::word(64, 2)]);
        order.stored(&[Piece::word(0, 3)]);
        let image = |first, second| {
            let mut words = [0; 16];
            (words[0], words[8]) = (first, second);
            words
        };
        let broken = |promised: &Promised, image: &[u64; 16]| promised.broken(image, Ps(0));
        for right in [image(0, 0), image(1, 0), image(1, 2), image(3, 2)] {
            assert_eq!(broken(&promised, &right), None, "{right:?}");
        }
        assert!(broken(&promised, &image(0, 2)).is_some(), "the second without the first");
        assert!(broken(&promised, &image(3, 0)).is_some(), "the third without the second");
        let Promised::Order(order) = &mut promised else { panic!("an order") };
        order.asks(1, 1);
        order.fenced(0, Ps(0));
        assert_eq!(order.durable, [], "another core's fence");
        order.fenced(1, Ps(0));
        assert!(broken(&promised, &image(1, 0)).is_some(), "what was fenced is lost");
        assert_eq!(broken(&promised, &image(1, 2)), None);
    }
}
