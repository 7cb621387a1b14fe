//! The durable image: what is in it for sure, and for each line the stores that may be.

use super::{Cut, SplitMix64};
use crate::{Domain, LINE, WORD, line_of};
use std::collections::{BTreeMap, BTreeSet};

const WORDS: usize = (LINE / WORD) as usize;
/// Unordered stores of which `outcomes` lists every subset.
const MOST_UNORDERED: usize = 16;
/// Combinations that `outcomes` lists.
const MOST_OUTCOMES: usize = 1 << 20;

/// A store to a word, or to one byte of it: the most that reaches the durable image at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    at: u64,
    mask: u64,
    value: u64,
}

impl Piece {
    pub(super) fn word(at: u64, value: u64) -> Self {
        Piece { at, mask: !0, value }
    }

    /// Whole words where `bytes` cover them, and single bytes at the edges.
    pub(super) fn of_bytes(at: u64, bytes: &[u8]) -> Vec<Self> {
        let mut pieces = Vec::with_capacity(bytes.len() / 8 + 14);
        let mut done = 0;
        while done < bytes.len() {
            let here = at + done as u64;
            let rest = &bytes[done..];
            if here.is_multiple_of(WORD)
                && let Some(word) = rest.first_chunk()
            {
                pieces.push(Piece::word(here, u64::from_ne_bytes(*word)));
                done += WORD as usize;
            } else {
                let (mut mask, mut value) = ([0; 8], [0; 8]);
                mask[(here % WORD) as usize] = !0;
                value[(here % WORD) as usize] = rest[0];
                pieces.push(Piece {
                    at: here - here % WORD,
                    mask: u64::from_ne_bytes(mask),
                    value: u64::from_ne_bytes(value),
                });
                done += 1;
            }
        }
        pieces
    }

    fn onto(&self, word: &mut u64) {
        *word = *word & !self.mask | self.value & self.mask;
    }
}

/// Does `piece` to an image that is an array of words.
pub(super) fn patch(words: &mut [u64], piece: &Piece) {
    piece.onto(&mut words[(piece.at / WORD) as usize]);
}

/// What happened to a line and is not durable for sure, oldest first. Pieces with one group
/// number are adjacent and have no order among themselves.
#[derive(Clone, Debug, Default)]
struct Pending {
    stores: Vec<(u64, Piece)>,
    /// How many of them the next fence makes durable.
    asked: usize,
}

pub(super) struct Image {
    durable: Vec<u64>,
    pending: BTreeMap<u64, Pending>,
    /// The lines of which something was asked.
    asked: BTreeSet<u64>,
    groups: u64,
    domain: Domain,
}

impl Image {
    pub(super) fn new(durable: Vec<u64>, domain: Domain) -> Self {
        Image { durable, pending: BTreeMap::new(), asked: BTreeSet::new(), groups: 0, domain }
    }

    pub(super) fn grow(&mut self, words: usize) {
        self.durable.resize(words, 0);
    }

    /// Stores without order among themselves.
    pub(super) fn store(&mut self, pieces: &[Piece]) {
        self.groups += 1;
        for piece in pieces {
            if self.domain.needs_write_back() {
                let pending = self.pending.entry(line_of(piece.at)).or_default();
                pending.stores.push((self.groups, *piece));
            } else {
                // Coherence: what was streamed to this line before is in the caches by now.
                self.settle(line_of(piece.at));
                patch(&mut self.durable, piece);
            }
        }
    }

    /// Stores past the caches: asked for already.
    pub(super) fn stream(&mut self, pieces: &[Piece]) {
        self.groups += 1;
        for piece in pieces {
            let line = line_of(piece.at);
            let pending = self.pending.entry(line).or_default();
            pending.stores.push((self.groups, *piece));
            pending.asked = pending.stores.len();
            self.asked.insert(line);
        }
    }

    pub(super) fn write_back(&mut self, lines: impl Iterator<Item = u64>) {
        for line in lines {
            if let Some(pending) = self.pending.get_mut(&line) {
                pending.asked = pending.stores.len();
                self.asked.insert(line);
            }
        }
    }

    pub(super) fn fence(&mut self) {
        for line in std::mem::take(&mut self.asked) {
            self.settle(line);
        }
    }

    /// Makes durable what was asked of a line.
    fn settle(&mut self, line: u64) {
        let Some(pending) = self.pending.get_mut(&line) else { return };
        for (_, piece) in pending.stores.drain(..pending.asked) {
            patch(&mut self.durable, &piece);
        }
        pending.asked = 0;
        if pending.stores.is_empty() {
            self.pending.remove(&line);
        }
    }

    /// What of `pending` may be durable, as groups in order.
    fn candidates<'a>(&self, pending: &'a Pending) -> impl Iterator<Item = &'a [(u64, Piece)]> {
        let upto = if self.domain.evicts() { pending.stores.len() } else { pending.asked };
        pending.stores[..upto].chunk_by(|left, right| left.0 == right.0)
    }

    /// One durable image.
    pub(super) fn cut(&self, cut: Cut) -> Vec<u64> {
        let mut words = self.durable.clone();
        let mut chance = match cut {
            Cut::None => return words,
            Cut::All => None,
            Cut::Seed(seed) => Some(Chance::new(seed)),
        };
        for pending in self.pending.values() {
            let groups: Vec<_> = self.candidates(pending).collect();
            let whole = chance.as_mut().map_or(groups.len(), |chance| chance.prefix(groups.len()));
            for (_, piece) in groups[..whole].concat() {
                patch(&mut words, &piece);
            }
            // The group in the middle of which the prefix ends.
            if let (Some(group), Some(chance)) = (groups.get(whole), &mut chance)
                && group.len() > 1
            {
                let kept = group.iter().filter(|_| chance.random.below(2) == 0);
                kept.for_each(|(_, piece)| patch(&mut words, piece));
            }
        }
        words
    }

    /// Every combination of values in the words at `words`.
    pub(super) fn outcomes(&self, words: &[u64]) -> BTreeSet<Vec<u64>> {
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
    fn states(&self, line: u64) -> BTreeSet<[u64; WORDS]> {
        let first = (line / WORD) as usize;
        let mut state: [u64; WORDS] =
            self.durable[first..first + WORDS].try_into().expect("a whole line");
        let mut states = BTreeSet::from([state]);
        let Some(pending) = self.pending.get(&line) else { return states };
        for group in self.candidates(pending) {
            assert!(group.len() <= MOST_UNORDERED, "too many unordered stores to list");
            for subset in 0..1_u32 << group.len() {
                let mut partly = state;
                for (index, (_, piece)) in group.iter().enumerate() {
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

/// Chooses how much of each line is durable. Where every line is as likely to be anywhere, a
/// cut with one line missing, or only one there, hardly ever comes: some seeds lean.
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

    /// How many of a line's `groups` are there.
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
