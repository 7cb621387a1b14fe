//! A trace of which 12 % miss a first level of 32 KiB and 8 ways, with LRU and one core: a third
//! runs through memory word by word, the rest draws lines with a Zipf popularity.

use perdura_memory::random::SplitMix64;

/// Lines that are drawn from: 256 MiB.
const DRAWN: u64 = 1 << 22;
/// Exponent of their popularity.
const SKEW: f64 = 1.42;
/// Lines that are run through: 64 MiB.
const STREAMED: u64 = 1 << 20;

/// Each access: its line in the low bits, then the core from bit 48 on, then whether it is a
/// store. Each core has its own lines but for an eighth of the draws, which all share.
pub(crate) fn trace(accesses: usize, cores: usize, seed: u64) -> Vec<u64> {
    let mut random = SplitMix64::new(seed);
    let mut words = vec![0u64; cores];
    let exponent = 1.0 - SKEW;
    let span = (DRAWN as f64).powf(exponent) - 1.0;
    let mut next = |core: usize| {
        let own = core as u64 + 1;
        let line = if random.below(3) == 0 {
            words[core] += 1;
            (own << 24) | (words[core] / 8 % STREAMED)
        } else {
            let uniform = random.next() as f64 / 2f64.powi(64);
            let rank = (span * uniform + 1.0).powf(1.0 / exponent) as u64 - 1;
            // An odd factor: popular lines are spread over the sets.
            let line = rank.wrapping_mul(0x9e_3779_b97f) % DRAWN;
            let shared = cores > 1 && random.below(8) == 0;
            if shared { line } else { (own << 24) | (1 << 23) | line }
        };
        u64::from(random.below(10) < 3) << 63 | (core as u64) << 48 | line
    };
    (0..accesses).map(|n| next(n % cores)).collect()
}
