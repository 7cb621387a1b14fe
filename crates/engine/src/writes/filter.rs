//! Which lines a write set certainly does not have: a bit for each of many hashes.
//!
//! Nearly every read asks, and most lines that are asked for are not there. The table that would
//! say so too is sixteen bytes a slot and spreads over the caches; this is one line of them for a
//! small transaction, and stays in the first-level cache for some thousand lines.

/// At least this many bits for each line, and four times as many when they are filled anew.
const BITS: usize = 16;
/// At least this many bits, and as many after [`Filter::clear`]: a cache line.
const LEAST: usize = 512;
const WORD: usize = u64::BITS as usize;

/// The filter.
pub(crate) struct Filter {
    /// Those from `bits / 64` on are left from larger sets.
    words: Vec<u64>,
    /// A power of two.
    bits: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Filter { words: vec![0; LEAST / WORD], bits: LEAST }
    }
}

impl Filter {
    /// Forgets everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bits = LEAST;
        self.words[..LEAST / WORD].fill(0);
    }

    /// Whether it should be filled anew before it takes this many lines.
    #[inline(always)]
    pub(crate) fn is_narrow(&self, lines: usize) -> bool {
        lines * BITS > self.bits
    }

    /// Forgets everything, and takes the hashes of `lines` lines.
    #[cold]
    pub(crate) fn fill(&mut self, lines: usize, hashes: impl Iterator<Item = u64>) {
        self.bits = (lines * BITS * 4).next_power_of_two().max(LEAST);
        let words = self.bits / WORD;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        self.words[..words].fill(0);
        hashes.for_each(|hash| self.add(hash));
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, hash: u64) {
        let bit = hash as usize & (self.bits - 1);
        self.words[bit / WORD] |= 1 << (bit % WORD);
    }

    /// Whether a line with this hash may be there.
    #[inline(always)]
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        let bit = hash as usize & (self.bits - 1);
        // Beyond the end, where no bit is, it would be for the caller to find that out.
        self.words.get(bit / WORD).is_none_or(|word| word & 1 << (bit % WORD) != 0)
    }
}
