//! Skewed choices: Zipf by the method of Gray et al. (1994), and the two ways in which YCSB
//! uses it.
//!
//! The method is an approximation for 0 < theta < 1: at theta 0.99 the third-hottest item is
//! drawn almost a fifth too often, and the deep tail a few per cent too seldom.

use crate::random::Random;

/// The skew that YCSB uses.
pub const YCSB_THETA: f64 = 0.99;
/// YCSB scrambles over this many items, whatever the number of records is.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// zeta(10^10, 0.99), as YCSB has it: summing it would take minutes.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// The generalised harmonic number: the sum of `i^-theta` for `i` in `1..=n`.
pub fn zeta(n: u64, theta: f64) -> f64 {
    extend_zeta(0.0, 0, n, theta)
}

fn extend_zeta(known: f64, from: u64, to: u64, theta: f64) -> f64 {
    (from + 1..=to).fold(known, |sum, i| sum + (i as f64).powf(-theta))
}

/// Draws ranks `0..items`, rank 0 most often.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    theta: f64,
    zeta: f64,
    zeta2: f64,
    alpha: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    /// A distribution over `items` items (at least 1), with a skew strictly between 0 and 1.
    /// Takes time in proportion to `items`: clone it for other threads.
    pub fn new(items: u64, theta: f64) -> Self {
        Self::with_zeta(items, theta, zeta(items, theta))
    }

    fn with_zeta(items: u64, theta: f64, zeta: f64) -> Self {
        assert!(items > 0, "a distribution needs an item");
        assert!(theta > 0.0 && theta < 1.0, "the closed form holds for 0 < theta < 1");
        let mut zipf = Zipf {
            items,
            theta,
            zeta,
            zeta2: self::zeta(2, theta),
            alpha: 1.0 / (1.0 - theta),
            eta: 0.0,
            second: 1.0 + 0.5f64.powf(theta),
        };
        zipf.update_eta();
        zipf
    }

    fn update_eta(&mut self) {
        let spread = 1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta);
        self.eta = spread / (1.0 - self.zeta2 / self.zeta);
    }

    /// Number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Makes it a distribution over `items` items, if that is more than now; costs time only
    /// for the new ones.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta = extend_zeta(self.zeta, self.items, items, self.theta);
            self.items = items;
            self.update_eta();
        }
    }

    /// Draws a rank.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.rank(random.unit())
    }

    #[inline]
    fn rank(&self, u: f64) -> u64 {
        let uz = u * self.zeta;
        if uz < 1.0 || self.items == 1 {
            return 0;
        }
        if uz < self.second {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

/// FNV-1a of the eight bytes of `number`, least significant first, made non-negative as YCSB
/// does (the one value without a positive counterpart becomes 0).
#[inline]
pub const fn fnv(number: u64) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    let mut octet = 0;
    while octet < 8 {
        hash ^= (number >> (8 * octet)) & 0xFF;
        hash = hash.wrapping_mul(0x0100_0000_01B3);
        octet += 1;
    }
    (hash as i64).unsigned_abs() & i64::MAX as u64
}

/// YCSB's "zipfian": hot items scattered over the keys. Since the ranks are drawn from a fixed
/// domain of 10^10, it is flatter than Zipf over the keys themselves.
#[derive(Clone, Debug)]
pub struct Scrambled {
    ranks: Zipf,
    keys: u64,
}

impl Scrambled {
    /// A distribution over `0..keys`, with YCSB's skew.
    pub fn new(keys: u64) -> Self {
        assert!(keys > 0, "a distribution needs a key");
        Scrambled { ranks: Zipf::with_zeta(SCRAMBLED_ITEMS, YCSB_THETA, SCRAMBLED_ZETA), keys }
    }

    /// Draws a key.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        fnv(self.ranks.draw(random)) % self.keys
    }
}

/// YCSB's "latest": the newest items are the hottest.
#[derive(Clone, Debug)]
pub struct Latest(Zipf);

impl Latest {
    /// A distribution whose newest item is `newest`.
    pub fn new(newest: u64) -> Self {
        Latest(Zipf::new(newest.max(1), YCSB_THETA))
    }

    /// Draws an item up to `newest`, which may grow from call to call.
    #[inline]
    pub fn draw(&mut self, random: &mut Random, newest: u64) -> u64 {
        self.0.grow(newest);
        newest - self.0.draw(random).min(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_has_its_known_values() {
        for (n, expected) in [
            (2, 1.503_477_775_0),
            (1_000, 7.728_953_217),
            (10_000, 10.224_361_460),
            (100_000, 12.778_338_063),
            (1_000_000, 15.391_849_746),
        ] {
            let got = zeta(n, YCSB_THETA);
            assert!((got - expected).abs() < 1e-8, "zeta({n}) = {got}, expected {expected}");
        }
    }

    #[test]
    fn fnv_has_its_known_values() {
        assert_eq!(fnv(0), 6_284_781_860_667_377_211);
        assert_eq!(fnv(1), 8_517_097_267_634_966_620);
        assert_eq!(fnv(2), 1_820_151_046_732_198_393);
        assert_eq!(fnv(999), 2_071_219_101_098_386_137);
    }

    fn share_of_hottest(draws: u64, items: usize, mut draw: impl FnMut() -> u64) -> f64 {
        let mut counts = vec![0u64; items];
        for _ in 0..draws {
            counts[draw() as usize] += 1;
        }
        *counts.iter().max().unwrap() as f64 / draws as f64
    }

    fn share_of_top(
        percent: usize,
        draws: u64,
        items: usize,
        mut draw: impl FnMut() -> u64,
    ) -> f64 {
        let mut counts = vec![0u64; items];
        for _ in 0..draws {
            counts[draw() as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts[..items * percent / 100].iter().sum::<u64>() as f64 / draws as f64
    }

    #[test]
    fn the_hottest_item_has_its_share() {
        let mut random = Random::new(3, 0);
        let zipf = Zipf::new(1_000, YCSB_THETA);
        let share = share_of_hottest(200_000, 1_000, || zipf.draw(&mut random));
        assert!((share - 0.129).abs() < 0.005, "{share}");
        let top = share_of_top(20, 200_000, 1_000, || zipf.draw(&mut random));
        assert!((top - 0.78).abs() < 0.03, "{top}");
    }

    #[test]
    fn scrambling_flattens_as_ycsb_does() {
        let mut random = Random::new(4, 0);
        let keys = Scrambled::new(1_000);
        let hottest = share_of_hottest(400_000, 1_000, || keys.draw(&mut random));
        assert!((hottest - 0.038).abs() < 0.003, "{hottest}");
        let top = share_of_top(20, 400_000, 1_000, || keys.draw(&mut random));
        assert!((top - 0.39).abs() < 0.03, "{top}");
    }

    #[test]
    fn growing_is_the_same_as_starting_large() {
        let mut grown = Zipf::new(10, YCSB_THETA);
        grown.grow(5_000);
        let whole = Zipf::new(5_000, YCSB_THETA);
        assert!((grown.zeta - whole.zeta).abs() < 1e-9);
        assert!((grown.eta - whole.eta).abs() < 1e-9);
    }

    #[test]
    fn ranks_stay_in_range_at_the_ends() {
        for items in [1, 2, 3, 1_000] {
            let zipf = Zipf::new(items, YCSB_THETA);
            for u in [0.0, 0.5, 1.0 - f64::EPSILON] {
                assert!(zipf.rank(u) < items);
            }
        }
    }

    #[test]
    fn latest_prefers_the_newest_and_follows_it() {
        let mut random = Random::new(5, 0);
        let mut latest = Latest::new(100);
        let mut newest_drawn = 0;
        for step in 0..10_000u64 {
            let newest = 100 + step / 10;
            let item = latest.draw(&mut random, newest);
            assert!(item <= newest);
            newest_drawn += u64::from(item == newest);
        }
        assert!(newest_drawn > 1_000, "{newest_drawn}");
    }
}
