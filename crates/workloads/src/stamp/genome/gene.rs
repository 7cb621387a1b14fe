//! A gene, and segments of it, drawn so that they can be assembled in one way only.

use super::Parameters;
use crate::random::Random;
use crate::{Failure, Outcome};
use std::collections::BTreeSet;

const LETTERS: [u8; 4] = *b"ACGT";
/// The maximum number of genes drawn until one has no repeated part.
const TRIES: u64 = 64;

/// Up to 64 nucleotides in a row, two bits each; the last one in the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    bits: u128,
    len: u64,
}

impl Segment {
    pub(super) fn of(letters: &[u8]) -> Self {
        let digit = |letter: &u8| LETTERS.iter().position(|of| of == letter).unwrap_or(0);
        let bits = letters.iter().fold(0, |bits, letter| bits << 2 | digit(letter) as u128);
        Segment { bits, len: letters.len() as u64 }
    }

    pub(super) const fn len(self) -> u64 {
        self.len
    }

    /// From two words.
    pub(super) fn from_words([high, low]: [u64; 2], len: u64) -> Self {
        Segment { bits: u128::from(high) << 64 | u128::from(low), len }
    }

    pub(super) const fn words(self) -> [u64; 2] {
        [(self.bits >> 64) as u64, self.bits as u64]
    }

    /// Its first nucleotides.
    pub(super) const fn beginning(self, len: u64) -> Self {
        Segment { bits: self.bits >> (2 * (self.len - len)), len }
    }

    /// Its last nucleotides: one at least.
    pub(super) const fn ending(self, len: u64) -> Self {
        Segment { bits: self.bits & (u128::MAX >> (128 - 2 * len)), len }
    }

    /// The hash of its nucleotides one after the other.
    pub(super) fn hash(self) -> u64 {
        self.letters(0).fold(0, hashed_on)
    }

    /// Its letters after the first `from`.
    pub(super) fn letters(self, from: u64) -> impl Iterator<Item = u8> {
        (from..self.len)
            .map(move |place| LETTERS[(self.bits >> (2 * (self.len - 1 - place))) as usize & 3])
    }
}

/// The hash (sdbm's, as in STAMP) of a text and one more letter.
pub(super) const fn hashed_on(hash: u64, letter: u8) -> u64 {
    (letter as u64).wrapping_add(hash << 6).wrapping_add(hash << 16).wrapping_sub(hash)
}

/// A gene and its segments.
#[derive(Debug)]
pub(super) struct Gene {
    nucleotides: Vec<u8>,
    segments: Vec<Segment>,
    segment: u64,
}

impl Gene {
    pub(super) fn drawn(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { gene, segment, segments } = parameters;
        let refuse = |what: &str| Err(Failure::Parameters(what.to_owned()));
        if !(2..=64).contains(&segment) || gene < 2 * segment || segments == 0 {
            return refuse(
                "genome needs segments of 2 to 64 nucleotides, and a gene of twice as many",
            );
        }
        for stream in 0..TRIES {
            let mut random = Random::new(seed, (1 << 33) + stream);
            let nucleotides: Vec<u8> =
                (0..gene).map(|_| LETTERS[random.below(4) as usize]).collect();
            let starts = draw_starts(gene - segment + 1, segment, segments, &mut random);
            if is_unambiguous(&nucleotides, &starts, segment) {
                let at = |start: &u64| &nucleotides[*start as usize..(start + segment) as usize];
                let segments = starts.iter().map(|start| Segment::of(at(start))).collect();
                return Ok(Gene { nucleotides, segments, segment });
            }
        }
        refuse("the segments can be put together in several ways: choose more of them (entries)")
    }

    pub(super) fn nucleotides(&self) -> &[u8] {
        &self.nucleotides
    }

    pub(super) const fn len(&self) -> u64 {
        self.nucleotides.len() as u64
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(super) const fn segment_len(&self) -> u64 {
        self.segment
    }
}

/// Where segments begin: at random, and where there would be a gap.
fn draw_starts(places: u64, segment: u64, segments: u64, random: &mut Random) -> Vec<u64> {
    let mut starts: Vec<u64> = (0..segments).map(|_| random.below(places)).collect();
    let mut known: Vec<u64> = starts.clone();
    known.extend([0, places - 1]);
    starts.extend([0, places - 1]);
    known.sort_unstable();
    for two in known.windows(2) {
        let more = (two[0]..two[1]).step_by(segment as usize - 1).skip(1);
        starts.extend(more);
    }
    random.shuffle(&mut starts);
    starts
}

/// Whether no part of the gene as long as the shortest overlap of neighbours is repeated: then a segment that ends as
/// another begins is its neighbour, or overlaps it by less.
fn is_unambiguous(gene: &[u8], starts: &[u64], segment: u64) -> bool {
    let mut known = starts.to_vec();
    known.sort_unstable();
    let widest = known.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(0);
    let overlap = segment.saturating_sub(widest) as usize;
    let mut parts = BTreeSet::new();
    overlap > 0 && gene.windows(overlap).all(|part| parts.insert(part))
}
