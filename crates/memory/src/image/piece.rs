//! Stores as the model counts them: what reaches the durable image at once.

use super::{LineWords, WORDS};
use crate::{LINE, WORD};

/// A store to a word, or to one byte of it: the most that reaches the durable image at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub(super) at: u64,
    pub(super) mask: u64,
    pub(super) value: u64,
}

impl Piece {
    /// A whole word, at a multiple of 8.
    pub fn word(at: u64, value: u64) -> Self {
        Piece { at, mask: !0, value }
    }

    /// Whole words where `bytes` cover them, and single bytes at the edges.
    pub fn of_bytes(at: u64, bytes: &[u8]) -> Vec<Self> {
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

    /// The offset of its word.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes of it are stored.
    pub fn bytes(&self) -> u64 {
        u64::from(self.mask.count_ones() / 8)
    }

    pub(super) fn onto(&self, word: &mut u64) {
        *word = *word & !self.mask | self.value & self.mask;
    }
}

/// Bytes as an image: words, rounded up to whole lines with zeros.
pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks(WORD as usize).map(|bytes| {
        let mut word = [0; WORD as usize];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    });
    let mut words: Vec<u64> = words.collect();
    words.resize(words.len().next_multiple_of(WORDS), 0);
    words
}

/// Does `piece` to the line that it is in.
pub fn patch_line(words: &mut LineWords, piece: &Piece) {
    piece.onto(&mut words[(piece.at % LINE / WORD) as usize]);
}

/// Does `piece` to an image that is an array of words.
pub fn patch(words: &mut [u64], piece: &Piece) {
    piece.onto(&mut words[(piece.at / WORD) as usize]);
}
