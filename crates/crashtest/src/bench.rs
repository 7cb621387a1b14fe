//! The memory on which images of one depth are checked, and the images that were checked.

use crate::candidates::Candidates;
use crate::verify::Verdict;
use crate::{Case, Trial};
use perdura_memory::Memory;
use perdura_memory::image::{Image, LineWords};
use std::collections::HashSet;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The memory of one depth.
pub(crate) struct Bench {
    pub(crate) trial: Arc<Trial>,
    /// Its contents between images, with a sum over all lines.
    base: Vec<u64>,
    pub(crate) sum: u64,
    /// Images that were checked, each combined with the states expected of it.
    pub(crate) seen: HashSet<u64>,
}

/// A checked image, and the lines that mattered to the checks.
pub(crate) struct Verified {
    states: Vec<u16>,
    read: Vec<u32>,
    pub(crate) found: Verdict,
}

impl Verified {
    /// The image that the bench has just checked.
    pub(crate) fn new(
        bench: &Bench,
        candidates: &Candidates,
        states: Vec<u16>,
        found: Verdict,
    ) -> Self {
        let lines = candidates.lines.iter().zip(0..);
        let read = lines.filter(|(line, _)| bench.trial.was_read(line.at));
        Verified { states, read: read.map(|(_, index)| index).collect(), found }
    }

    /// Whether an image would look the same to the checks.
    pub(crate) fn covers(&self, states: &[u16]) -> bool {
        self.read.iter().all(|index| self.states[*index as usize] == states[*index as usize])
    }
}

impl Bench {
    pub(crate) fn new(limit: u64, case: &Case) -> Self {
        let trial = Arc::new(Trial::new(0, limit, case.domain));
        Bench { trial, base: vec![0; limit as usize / 8], sum: 0, seen: HashSet::new() }
    }

    /// Makes the certain contents the base.
    pub(crate) fn update(&mut self, image: &Image, len: u64) {
        self.trial.set_len(len);
        let certain = image.certain();
        let lines = self.base.chunks_exact_mut(8).zip(certain.chunks_exact(8));
        for ((old, new), at) in lines.zip((0..).step_by(64)) {
            if old != new {
                let words: LineWords = new.try_into().expect("a line");
                self.sum =
                    self.sum.wrapping_sub(line_hash(at, old)).wrapping_add(line_hash(at, new));
                old.copy_from_slice(new);
                self.trial.set_line(at, &words);
            }
        }
    }

    /// The sum of an image.
    pub(crate) fn sum_with(&self, candidates: &Candidates, states: &[u16]) -> u64 {
        candidates.changes(states).fold(self.sum, |sum, (at, words)| {
            let old = &self.base[at as usize / 8..at as usize / 8 + 8];
            sum.wrapping_sub(line_hash(at, old)).wrapping_add(line_hash(at, &words))
        })
    }

    /// All words of an image.
    pub(crate) fn whole(&self, candidates: &Candidates, states: &[u16]) -> Vec<u64> {
        let mut words = self.base[..self.trial.len() as usize / 8].to_vec();
        for (at, line) in candidates.changes(states) {
            words[at as usize / 8..at as usize / 8 + 8].copy_from_slice(&line);
        }
        words
    }
}

fn line_hash(at: u64, words: &[u64]) -> u64 {
    if words.iter().all(|word| *word == 0) {
        return 0;
    }
    xxh3_64_with_seed(bytemuck::cast_slice(words), at)
}
