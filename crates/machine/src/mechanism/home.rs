//! The home device while a mechanism recovers: all that is left of the machine after a power cut.

use perdura_memory::image::LineWords;
use std::ops::Range;

/// The home device after a power cut. Each store is durable at once, and the power may be cut again after any of them.
pub struct Home<'a> {
    words: &'a mut [u64],
    own: Range<u64>,
    left: u64,
}

impl<'a> Home<'a> {
    /// A device with contents `words`; the lines `own` are the mechanism's. Stores after the first `stores` are lost.
    ///
    /// # Panics
    /// If it does not have these lines.
    pub fn new(words: &'a mut [u64], own: Range<u64>, stores: u64) -> Self {
        assert!(own.end * 8 <= words.len() as u64, "lines {own:?}");
        Home { words, own, left: stores }
    }

    /// The lines that are the mechanism's own.
    pub fn own(&self) -> Range<u64> {
        self.own.clone()
    }

    /// A line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn line(&self, line: u64) -> LineWords {
        let first = line as usize * 8;
        self.words[first..first + 8].try_into().expect("eight words")
    }

    /// Stores a line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn put(&mut self, line: u64, words: &LineWords) {
        let first = line as usize * 8;
        let place = &mut self.words[first..first + 8];
        if self.left > 0 {
            self.left -= 1;
            place.copy_from_slice(words);
        }
    }

    /// Stores that are still to be durable.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}
