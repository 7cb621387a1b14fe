//! What memory was at the ends of epochs, for machines whose mechanism promises that a power cut leaves the last one
//! that is durable.

use crate::Ps;
use std::collections::VecDeque;

/// Images of epochs' ends.
#[derive(Default)]
pub(crate) struct Promised {
    /// They are kept.
    kept: bool,
    /// Of epochs that have ended and are not known to be durable at any time.
    ended: VecDeque<Vec<u64>>,
    /// Those that are durable, with the time from which on.
    durable: VecDeque<(Ps, Vec<u64>)>,
}

impl Promised {
    /// Keeps them, of a memory that begins with these words.
    pub(crate) fn keep(&mut self, words: &[u64]) {
        (self.kept, self.durable) = (true, VecDeque::from([(Ps::default(), words.to_vec())]));
    }

    /// An epoch ends.
    pub(crate) fn ends(&mut self, words: &[u64]) {
        if self.kept {
            self.ended.push_back(words.to_vec());
        }
    }

    /// The first epoch that has ended, and is not known to be durable, is so from `at` on. No power cut is before
    /// `now`.
    pub(crate) fn is_durable(&mut self, at: Ps, now: Ps) {
        let Some(words) = self.ended.pop_front() else { return };
        self.durable.push_back((at, words));
        while self.durable.get(1).is_some_and(|(at, _)| *at <= now) {
            self.durable.pop_front();
        }
    }

    /// What a power cut at `now` is to leave.
    pub(crate) fn at(&self, now: Ps) -> Option<&[u64]> {
        let durable = self.durable.iter().rev().find(|(at, _)| *at <= now);
        durable.map(|(_, words)| &**words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_durable_one_counts() {
        let mut promised = Promised::default();
        promised.ends(&[1]);
        assert_eq!(promised.at(Ps(9)), None, "it keeps none");
        promised.keep(&[0]);
        promised.ends(&[1]);
        promised.ends(&[2]);
        promised.is_durable(Ps(10), Ps(0));
        promised.is_durable(Ps(20), Ps(5));
        let at = |promised: &Promised, time| promised.at(Ps(time)).map(|words| words[0]);
        assert_eq!([9, 10, 19, 20].map(|time| at(&promised, time)), [0, 1, 1, 2].map(Some));
        promised.ends(&[3]);
        promised.is_durable(Ps(30), Ps(20));
        assert_eq!(
            (promised.durable.len(), at(&promised, 29), at(&promised, 30)),
            (2, Some(2), Some(3))
        );
    }
}
