//! The least recently used line goes.

use super::Replace;
use super::recency::Recency;

pub(in crate::cache) struct Lru<R> {
    ways: usize,
    sets: Vec<R>,
}

impl<R: Recency> Lru<R> {
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        Lru { ways, sets: vec![R::new(); sets] }
    }
}

impl<R: Recency> Replace for Lru<R> {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        self.sets[set].to_front(way);
    }

    #[inline(always)]
    fn fill(&mut self, set: usize, way: usize) {
        self.sets[set].to_front(way);
    }

    #[inline(always)]
    fn victim(&mut self, set: usize) -> usize {
        self.sets[set].last(self.ways)
    }
    fn victim_among(&mut self, set: usize, ways: u64) -> usize {
        self.sets[set].last_among(self.ways, ways)
    }
}
