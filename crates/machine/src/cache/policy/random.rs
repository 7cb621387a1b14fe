//! Any line goes, all equally likely: one number of the cache's own generator a victim.

use super::Replace;
use perdura_memory::reference::SplitMix64;

pub(in crate::cache) struct Random {
    ways: u64,
    random: SplitMix64,
}

impl Random {
    pub(super) fn new(ways: usize, random: SplitMix64) -> Self {
        Random { ways: ways as u64, random }
    }
}

impl Replace for Random {
    #[inline(always)]
    fn hit(&mut self, _set: usize, _way: usize) {}

    #[inline(always)]
    fn fill(&mut self, _set: usize, _way: usize) {}

    #[inline(always)]
    fn victim(&mut self, _set: usize) -> usize {
        self.random.below(self.ways) as usize
    }
    fn victim_among(&mut self, _set: usize, ways: u64) -> usize {
        let nth = self.random.below(u64::from(ways.count_ones()));
        let rest = (0..nth).fold(ways, |rest, _| rest & (rest - 1));
        rest.trailing_zeros() as usize
    }
}
