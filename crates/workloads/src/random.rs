//! Random numbers: one stream for each thread, all from one seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// One step of the SplitMix64 sequence: a bijection that mixes every bit into every other.
#[inline]
pub const fn splitmix64(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Stream number `stream` of `seed`. The same pair gives the same numbers, always.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(splitmix64(seed.wrapping_add(stream))))
    }

    /// Any 64 bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`, uniform to within 2^-64 of its probability.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number in `[0, 1)`, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// True once in `1 / share` times.
    #[inline]
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_has_its_published_sequence() {
        // The first outputs of the reference generator started at 1234567.
        let mut state = 1_234_567u64;
        let mut next = || {
            let out = splitmix64(state);
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            out
        };
        assert_eq!(next(), 6_457_827_717_110_365_317);
        assert_eq!(next(), 3_203_168_211_198_807_973);
        assert_eq!(next(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn streams_repeat_and_differ() {
        let words = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.word(), random.word(), random.word()]
        };
        assert_eq!(words(7, 1), words(7, 1));
        assert_ne!(words(7, 1), words(7, 2));
        assert_ne!(words(7, 1), words(8, 1));
    }

    #[test]
    fn draws_stay_in_range_and_reach_the_ends() {
        let mut random = Random::new(1, 0);
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[random.below(10) as usize] = true;
            assert!((3..=5).contains(&random.between(3, 5)));
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert_eq!(seen, [true; 10]);
    }
}
