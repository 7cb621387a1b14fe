//! Keys in sets, the least recently used of a full set replaced. Any size, constant time.

use crate::by_number::ByNumber;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct LruNode {
    key: u64,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy)]
struct LruSet {
    newest: u32,
    oldest: u32,
    len: u32,
}

/// Keys and their places: a key keeps its place until it is replaced.
pub(crate) struct Lru {
    ways: u32,
    sets: Vec<LruSet>,
    nodes: Vec<LruNode>,
    places: ByNumber<u32>,
    /// The place used last: it needs no look-up and no move.
    last: (u64, u32),
}

impl Lru {
    /// Room for `sets` times `ways` keys, both 1 or more.
    pub(crate) fn new(sets: usize, ways: usize) -> Self {
        Lru {
            ways: ways as u32,
            sets: vec![LruSet { newest: NONE, oldest: NONE, len: 0 }; sets],
            nodes: Vec::new(),
            places: ByNumber::default(),
            last: (u64::MAX, NONE),
        }
    }

    /// Has room for this many fewer, or a few more of them, so that sets stay alike. It must be empty.
    ///
    /// # Panics
    /// If no room is left.
    pub(crate) fn give_up(&mut self, keys: usize) {
        let ways = keys.div_ceil(self.sets.len());
        assert!(ways < self.ways as usize, "room for {keys} fewer");
        self.ways -= ways as u32;
    }

    /// The place of `key`, counted as used.
    #[inline]
    pub(crate) fn touch(&mut self, key: u64) -> Option<usize> {
        if self.last.0 == key && self.last.1 != NONE {
            return Some(self.last.1 as usize);
        }
        let place = *self.places.get(&key)?;
        let set = self.set(key);
        if self.sets[set].newest != place {
            self.unlink(set, place);
            self.link(set, place);
        }
        self.last = (key, place);
        Some(place as usize)
    }

    /// The place of `key`, not counted as used.
    pub(crate) fn peek(&self, key: u64) -> Option<usize> {
        self.places.get(&key).map(|&place| place as usize)
    }

    /// Inserts `key`, which is not there. Returns its place, and the key that had it before.
    pub(crate) fn insert(&mut self, key: u64) -> (usize, Option<u64>) {
        let set = self.set(key);
        let (place, replaced) = if self.sets[set].len < self.ways {
            self.nodes.push(LruNode { key, newer: NONE, older: NONE });
            self.sets[set].len += 1;
            ((self.nodes.len() - 1) as u32, None)
        } else {
            let place = self.sets[set].oldest;
            self.unlink(set, place);
            let old = std::mem::replace(&mut self.nodes[place as usize].key, key);
            self.places.remove(&old);
            (place, Some(old))
        };
        self.link(set, place);
        self.places.insert(key, place);
        self.last = (key, place);
        (place as usize, replaced)
    }

    /// Every key and its place.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (u64, usize)> {
        self.nodes.iter().enumerate().map(|(place, node)| (node.key, place))
    }

    #[inline]
    fn set(&self, key: u64) -> usize {
        if self.sets.len() == 1 { 0 } else { (key % self.sets.len() as u64) as usize }
    }

    #[inline]
    fn unlink(&mut self, set: usize, place: u32) {
        let LruNode { newer, older, .. } = self.nodes[place as usize];
        match newer {
            NONE => self.sets[set].newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.sets[set].oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    #[inline]
    fn link(&mut self, set: usize, place: u32) {
        let newest = self.sets[set].newest;
        let node = &mut self.nodes[place as usize];
        node.newer = NONE;
        node.older = newest;
        match newest {
            NONE => self.sets[set].oldest = place,
            newest => self.nodes[newest as usize].newer = place,
        }
        self.sets[set].newest = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_of_a_set_is_replaced() {
        let mut lru = Lru::new(2, 2);
        assert_eq!(lru.insert(0), (0, None));
        assert_eq!(lru.insert(2), (1, None));
        assert_eq!(lru.insert(1), (2, None));
        assert_eq!(lru.touch(0), Some(0));
        assert_eq!(lru.insert(4), (1, Some(2)));
        assert_eq!(lru.touch(2), None);
        assert_eq!(lru.peek(1), Some(2));
        assert_eq!(lru.insert(6), (0, Some(0)));
        let mut keys: Vec<_> = lru.keys().map(|(key, _)| key).collect();
        keys.sort_unstable();
        assert_eq!(keys, [1, 4, 6]);
    }

    #[test]
    fn a_single_way_and_a_single_set_work() {
        for (sets, ways) in [(1, 1), (1, 3), (3, 1)] {
            let mut lru = Lru::new(sets, ways);
            for key in 0..100 {
                assert_eq!(lru.touch(key), None);
                lru.insert(key);
                assert!(lru.touch(key).is_some());
                assert_eq!(lru.keys().count(), (sets * ways).min(key as usize + 1));
            }
        }
    }
}
