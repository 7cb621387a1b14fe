//! A vertex's record, and edges' words.

/// Words of a record.
pub(super) const WORDS: u64 = 4;

/// A vertex. Its first two words change, the others have the places of its lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its value: a rank's bits, or a label.
    pub value: u32,
    /// The value that its pending edges still have.
    pub before: u32,
    /// Edges, the last ones of those that it writes, that do not have its value yet.
    pub pending: u32,
    /// How often it was written, modulo 2^32.
    pub changes: u32,
    /// Edges into it.
    pub in_degree: u32,
    /// Edges out of it.
    pub out_degree: u32,
    /// The first of the edges into it.
    pub first_in: u32,
    /// The first of the edges out of it.
    pub first_out: u32,
}

/// A word of two halves.
pub(super) const fn pack(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

pub(super) const fn low(word: u64) -> u32 {
    word as u32
}

pub(super) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Record {
    pub(super) fn of(words: [u64; WORDS as usize]) -> Self {
        let [value, state, degrees, firsts] = words;
        Record {
            value: low(value),
            before: high(value),
            pending: low(state),
            changes: high(state),
            in_degree: low(degrees),
            out_degree: high(degrees),
            first_in: low(firsts),
            first_out: high(firsts),
        }
    }

    pub(super) fn words(&self) -> [u64; WORDS as usize] {
        let [value, state] = self.state();
        [value, state, pack(self.in_degree, self.out_degree), pack(self.first_in, self.first_out)]
    }

    /// The words that change.
    pub(super) const fn state(&self) -> [u64; 2] {
        [pack(self.value, self.before), pack(self.pending, self.changes)]
    }
}
