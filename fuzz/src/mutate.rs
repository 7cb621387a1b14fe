//! Mutants: a seed with a few changes. The generator's seed determines the mutant.

use perdura_memory::reference::SplitMix64;

/// Numbers that are often too large, or too small.
pub const NUMBERS: [&str; 18] = [
    "0",
    "1",
    "-1",
    "2",
    "63",
    "64",
    "65",
    "1000000",
    "2147483648",
    "4294967295",
    "4294967296",
    "1152921504606846976",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "-0.0",
    "0.000001",
];

/// Longer inputs are truncated.
const LONGEST: usize = 1 << 16;

/// Makes mutants.
pub struct Mutator {
    random: SplitMix64,
}

impl Mutator {
    /// The mutants of this seed.
    pub fn new(seed: u64) -> Self {
        Mutator { random: SplitMix64::new(seed) }
    }

    /// A mutant of one of `seeds`, of which there is at least one.
    pub fn mutant(&mut self, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
        let mut bytes = self.choose(seeds).clone();
        for _ in 0..=self.random.below(8) {
            self.change(&mut bytes, seeds, words);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
        let at = self.place(bytes);
        let run = (self.random.below(16) as usize + 1).min(bytes.len() - at);
        match self.random.below(10) {
            0 if run > 0 => bytes[at] ^= 1 << self.random.below(8),
            1 if run > 0 => bytes[at] = self.random.next() as u8,
            2 => drop(bytes.drain(at..at + run)),
            3 => {
                let copy = bytes[at..at + run].to_vec();
                let to = self.place(bytes);
                bytes.splice(to..to, copy);
            }
            4 => {
                let word = self.choose(if words.is_empty() { &NUMBERS } else { words });
                bytes.splice(at..at, word.bytes());
            }
            // A word in native byte order, at any place or at an aligned one.
            5 | 6 if bytes.len() >= 8 => {
                let at = at.min(bytes.len() - 8);
                let at = if self.random.below(2) == 0 { at } else { at & !7 };
                let word = self.number();
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            7 | 8 => self.change_number(bytes, at),
            _ => {
                let other = self.choose(seeds);
                let from = self.place(other);
                let to = self.place(other).max(from);
                bytes.splice(at..at + run, other[from..to].iter().copied());
            }
        }
    }

    /// Replaces the next decimal number by another one.
    fn change_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) else { return };
        let start = at + start;
        let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.choose(&NUMBERS);
        bytes.splice(start..start + digits, number.bytes());
    }

    /// A word: near zero, a power of two or the largest, or any.
    fn number(&mut self) -> u64 {
        let near = self.random.below(17).wrapping_sub(8);
        match self.random.below(4) {
            0 => near,
            1 => (1u64 << self.random.below(64)).wrapping_add(near),
            2 => self.random.below(1 << 20),
            _ => self.random.next(),
        }
    }

    fn place(&mut self, bytes: &[u8]) -> usize {
        self.random.below(bytes.len() as u64 + 1) as usize
    }

    fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.random.below(from.len() as u64) as usize]
    }
}
