//! Stores of speculating cores: programs see them, and nothing else does until they are released.
//!
//! What always holds: a word that a core has stored to since it began to speculate has its old value here, whatever
//! the caches and mechanisms do with its line, so that [`committed`](HeldStores::committed) never has a speculative word.

use crate::by_number::ByNumber;
use perdura_memory::WORD;
use perdura_memory::image::{LineWords, Piece, Site, patch};

const WORDS: u64 = 8;

/// The held stores of all cores.
#[derive(Default)]
pub(crate) struct HeldStores {
    /// The cores that speculate, as a mask.
    speculating: u64,
    cores: Vec<CoreStores>,
}

/// One core's.
#[derive(Default)]
struct CoreStores {
    words: Vec<HeldWord>,
    /// Where each word is in `words`.
    places: ByNumber<usize>,
    /// Its words are on their way to be released: they count as committed.
    settling: bool,
    /// The words of the last store, unless they have been taken.
    fresh: Vec<u64>,
}

/// A word that was stored to.
#[derive(Clone, Copy)]
struct HeldWord {
    word: u64,
    before: u64,
    /// Where it was stored to last.
    site: Site,
}

/// The held stores to one line: its words as they are now.
pub(crate) struct HeldLine {
    pub(crate) line: u64,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) site: Site,
}

impl HeldStores {
    /// Whether this core's stores are held.
    #[inline(always)]
    pub(crate) fn has(&self, core: usize) -> bool {
        self.speculating >> core & 1 != 0
    }

    /// From now on this core's stores are held.
    pub(crate) fn begin(&mut self, core: usize) {
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, CoreStores::default);
        }
        self.speculating |= 1 << core;
    }

    /// A store by a core whose stores are held.
    #[cold]
    pub(crate) fn store(&mut self, core: usize, visible: &mut [u64], pieces: &[Piece], site: Site) {
        let held = &mut self.cores[core];
        held.fresh.clear();
        for piece in pieces {
            let word = piece.at() / WORD;
            let place = *held.places.entry(word).or_insert(held.words.len());
            if place == held.words.len() {
                held.words.push(HeldWord { word, before: visible[word as usize], site });
            }
            held.words[place].site = site;
            if held.fresh.last() != Some(&word) {
                held.fresh.push(word);
            }
            patch(visible, piece);
        }
    }

    /// Takes the words of a core's last store, unless they have been taken: their offsets, and their values now.
    pub(crate) fn take_fresh(&mut self, core: usize, visible: &[u64]) -> Vec<(u64, u64)> {
        let fresh = self.cores[core].fresh.drain(..);
        fresh.map(|word| (word * WORD, visible[word as usize])).collect()
    }

    /// Replaces the words of `line` that are not committed by those that are.
    #[inline]
    pub(crate) fn committed(&self, line: u64, words: &mut LineWords) {
        if self.speculating != 0 {
            self.replace(line, words);
        }
    }

    #[cold]
    fn replace(&self, line: u64, words: &mut LineWords) {
        for held in self.cores.iter().filter(|held| !held.settling && !held.words.is_empty()) {
            for (word, value) in (line * WORDS..).zip(&mut *words) {
                if let Some(place) = held.places.get(&word) {
                    *value = held.words[*place].before;
                }
            }
        }
    }

    /// Replaces all words of an image that are not committed.
    pub(crate) fn committed_image(&self, words: &mut [u64]) {
        let held = self.cores.iter().filter(|held| !held.settling);
        for word in held.flat_map(|held| &held.words) {
            words[word.word as usize] = word.before;
        }
    }

    /// The core's held stores by line, the lines ascending.
    pub(crate) fn lines(&self, core: usize, visible: &[u64]) -> Vec<HeldLine> {
        let mut words = self.cores[core].words.clone();
        words.sort_unstable_by_key(|held| held.word);
        let mut lines: Vec<HeldLine> = Vec::new();
        for HeldWord { word, site, .. } in words {
            let (line, piece) = (word / WORDS, Piece::word(word * WORD, visible[word as usize]));
            match lines.last_mut().filter(|last| last.line == line) {
                Some(last) => (last.pieces.push(piece), last.site = site).0,
                None => lines.push(HeldLine { line, pieces: vec![piece], site }),
            }
        }
        lines
    }

    /// From now on the core's words count as committed: only [`end`](Self::end) or [`undo`](Self::undo) follows.
    pub(crate) fn settle(&mut self, core: usize) {
        self.cores[core].settling = true;
    }

    /// The core's stores are no longer held.
    pub(crate) fn end(&mut self, core: usize) {
        self.speculating &= !(1 << core);
        let held = &mut self.cores[core];
        held.words.clear();
        held.places.clear();
        held.fresh.clear();
        held.settling = false;
    }

    /// Puts back what the core has stored, and ends as [`end`](Self::end) does.
    pub(crate) fn undo(&mut self, core: usize, visible: &mut [u64]) {
        for held in &self.cores[core].words {
            visible[held.word as usize] = held.before;
        }
        self.end(core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn words_are_held_from_their_first_store_on() {
        let (mut held, mut visible) = (HeldStores::default(), vec![7; 16]);
        held.begin(3);
        let site = Location::caller();
        let mut store = |held: &mut HeldStores, at, value| {
            held.store(3, &mut visible, &[Piece::word(at, value)], site);
        };
        store(&mut held, 72, 1);
        store(&mut held, 8, 2);
        store(&mut held, 72, 3);
        assert_eq!(held.take_fresh(3, &visible), [(72, 3)], "the last store");
        assert_eq!(held.take_fresh(3, &visible), []);
        let lines = held.lines(3, &visible);
        assert_eq!(lines.iter().map(|line| line.line).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(lines[1].pieces, [Piece::word(72, 3)]);
        let committed = |held: &HeldStores, visible: &[u64]| {
            let mut words: LineWords = visible[8..].try_into().expect("a line");
            held.committed(1, &mut words);
            words[1]
        };
        assert_eq!((visible[9], committed(&held, &visible)), (3, 7));
        held.settle(3);
        assert_eq!(committed(&held, &visible), 3);
        held.undo(3, &mut visible);
        assert_eq!((visible, held.has(3)), (vec![7; 16], false));
    }
}
