//! What a power cut may leave of an image: one durable image, or all possible ones.

use super::{Image, LineWords, PendingStore, WHOLE, WORDS, patch};
use crate::random::SplitMix64;
use crate::{WORD, line_of};
use std::collections::BTreeSet;

/// The most unordered stores for which `outcomes` lists every subset.
const MOST_UNORDERED: usize = 16;
/// The most combinations that `outcomes` lists.
const MOST_OUTCOMES: usize = 1 << 20;

/// Which of the durable images that a power cut may leave to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The least: nothing but what a fence, or the domain, promised.
    None,
    /// The most: everything that may have reached the durable image.
    All,
    /// Any of them, chosen by this seed.
    Seed(u64),
}

impl Image {
    /// One durable image.
    pub fn cut(&self, cut: Cut) -> Vec<u64> {
        let mut words = self.durable.clone();
        let mut chance = match cut {
            Cut::None => return words,
            Cut::All => None,
            Cut::Seed(seed) => Some(Chance::new(seed)),
        };
        for pending in self.pending.values() {
            let groups: Vec<_> = self.candidates(pending).collect();
            let whole = chance.as_mut().map_or(groups.len(), |chance| chance.prefix(groups.len()));
            for PendingStore { piece, .. } in groups[..whole].concat() {
                patch(&mut words, &piece);
            }
            // The prefix ends inside this group.
            if let (Some(group), Some(chance)) = (groups.get(whole), &mut chance)
                && group.len() > 1
                && group[0].group & WHOLE == 0
            {
                let kept = group.iter().filter(|_| chance.random.below(2) == 0);
                kept.for_each(|store| patch(&mut words, &store.piece));
            }
        }
        words
    }

    /// Every combination of values in the words at `words`.
    ///
    /// # Panics
    /// If the combinations are too many to list.
    pub fn outcomes(&self, words: &[u64]) -> BTreeSet<Vec<u64>> {
        let lines: BTreeSet<u64> = words.iter().map(|at| line_of(*at)).collect();
        let mut outcomes = BTreeSet::from([vec![0; words.len()]]);
        for line in lines {
            let states = self.states(line);
            assert!(outcomes.len() * states.len() <= MOST_OUTCOMES, "too many outcomes to list");
            let mut combined = BTreeSet::new();
            for state in &states {
                for outcome in &outcomes {
                    let mut outcome = outcome.clone();
                    for (value, at) in outcome.iter_mut().zip(words) {
                        if line_of(*at) == line {
                            *value = state[((at - line) / WORD) as usize];
                        }
                    }
                    combined.insert(outcome);
                }
            }
            outcomes = combined;
        }
        outcomes
    }

    /// Every state that a power cut may leave a line in.
    fn states(&self, line: u64) -> BTreeSet<LineWords> {
        let mut state = self.line(line, 0);
        let mut states = BTreeSet::from([state]);
        let Some(pending) = self.pending.get(&line) else { return states };
        for group in self.candidates(pending) {
            assert!(group.len() <= MOST_UNORDERED, "too many unordered stores to list");
            for subset in 0..1_u32 << group.len() {
                let mut partly = state;
                for (index, PendingStore { piece, .. }) in group.iter().enumerate() {
                    if subset & 1 << index != 0 {
                        piece.onto(&mut partly[((piece.at - line) / WORD) as usize]);
                    }
                }
                states.insert(partly);
                if subset + 1 == 1 << group.len() {
                    state = partly;
                }
            }
        }
        states
    }
}

/// Whether `words` can be reached from `before` by doing some of the stores of `group`.
pub(super) fn between(
    before: &LineWords,
    after: &LineWords,
    words: &LineWords,
    group: &[PendingStore],
    line: u64,
) -> bool {
    (0..WORDS).all(|index| {
        let here = group.iter().filter(|store| store.piece.at == line + index as u64 * WORD);
        let mut reached = vec![before[index]];
        for PendingStore { piece, .. } in here {
            for mut word in reached.clone() {
                piece.onto(&mut word);
                reached.push(word);
            }
        }
        words[index] == after[index] || reached.contains(&words[index])
    })
}

/// Chooses how much of each line is durable. If every line's prefix were chosen evenly, an image with just one line
/// missing, or just one present, would hardly ever come up: some seeds are biased.
struct Chance {
    random: SplitMix64,
    lean: u64,
}

impl Chance {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let lean = random.below(4);
        Chance { random, lean }
    }

    /// How many of a line's `groups` are durable.
    fn prefix(&mut self, groups: usize) -> usize {
        let leans = self.random.below(8) != 0;
        match self.lean {
            0 if leans => 0,
            1 if leans => groups,
            2 => groups * self.random.below(2) as usize,
            _ => self.random.below(groups as u64 + 1) as usize,
        }
    }
}
