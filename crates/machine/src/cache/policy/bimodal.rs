//! Bimodal insertion (BIP): LRU, but a new line is the next to go unless it is used again. One
//! in 32 becomes the most recent one, so that a working set can change.
//!
//! Source: Qureshi et al., "Adaptive insertion policies for high performance caching", ISCA
//! 2007; 1/32 as there and in DRRIP's bimodal half (Jaleel et al., ISCA 2010).

use super::Replace;
use super::recency::Recency;
use perdura_memory::reference::SplitMix64;

/// One new line in this many is inserted as the most recent one.
const ONE_IN: u64 = 32;

pub(in crate::cache) struct Bimodal<R> {
    ways: usize,
    random: SplitMix64,
    sets: Vec<R>,
}

impl<R: Recency> Bimodal<R> {
    pub(super) fn new(sets: usize, ways: usize, random: SplitMix64) -> Self {
        Bimodal { ways, random, sets: vec![R::new(); sets] }
    }
}

impl<R: Recency> Replace for Bimodal<R> {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.sets[set].to_front(way);
    }

    #[inline(always)]
    fn fill(&mut self, set: usize, way: usize) {
        if self.random.below(ONE_IN) == 0 {
            self.sets[set].to_front(way);
        } else {
            self.sets[set].to_back(way, self.ways);
        }
    }

    #[inline(always)]
    fn victim(&mut self, set: usize) -> usize {
        self.sets[set].last(self.ways)
    }
    fn victim_among(&mut self, set: usize, ways: u64) -> usize {
        self.sets[set].last_among(self.ways, ways)
    }
}
