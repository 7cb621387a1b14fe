//! One cache: sets of ways, each with a line or empty; which lines are dirty.

use super::policy::{Policy, Replace, Replacement};
use perdura_memory::reference::SplitMix64;

/// A line's number as stored: with 32 bits, the tags of a set of 16 fill one cache line of the host.
pub(super) type Line = u32;

/// The tag of an empty way; no line has this number.
pub(super) const EMPTY: Line = Line::MAX;

/// The tag of a way that holds a version of a line (`versions` knows which); no line has this number.
pub(super) const HELD: Line = EMPTY - 1;

/// Tags compared at once.
const LANES: usize = 8;

/// A way of a set.
#[derive(Clone, Copy)]
pub(super) struct WaySlot {
    pub(super) set: usize,
    pub(super) way: usize,
}

pub(super) struct Cache {
    index: SetIndex,
    /// Tags of a set, those beyond the last way included.
    stride: usize,
    /// A bit for each way.
    all: u64,
    tags: Vec<Line>,
    /// A word for each set, a bit for each way.
    dirty: Vec<u64>,
    /// Empty ways, in all sets.
    vacant: usize,
    policy: Replacement,
}

impl Cache {
    pub(super) fn new(policy: Policy, sets: usize, ways: usize, random: SplitMix64) -> Self {
        let stride = ways.next_multiple_of(LANES);
        Cache {
            index: SetIndex::new(sets),
            stride,
            all: u64::MAX >> (64 - ways),
            tags: vec![EMPTY; sets * stride],
            dirty: vec![0; sets],
            vacant: sets * ways,
            policy: Replacement::new(policy, sets, ways, random),
        }
    }

    /// Where the line is, if it is here.
    #[inline(always)]
    pub(super) fn find(&self, line: Line) -> Option<WaySlot> {
        let set = self.index.set_of(line);
        let ways = self.ways_with(set, line);
        (ways != 0).then(|| WaySlot { set, way: ways.trailing_zeros() as usize })
    }

    /// The ways of a set with this tag, a bit each.
    #[inline(always)]
    fn ways_with(&self, set: usize, tag: Line) -> u64 {
        let tags = &self.tags[set * self.stride..][..self.stride];
        let (chunks, _) = tags.as_chunks::<LANES>();
        let mut ways = 0;
        for (n, chunk) in chunks.iter().enumerate() {
            ways |= u64::from(equal(chunk, tag)) << (n * LANES);
        }
        ways
    }

    /// Tells the policy of an access.
    #[inline(always)]
    pub(super) fn touch(&mut self, slot: WaySlot) {
        self.policy.hit(slot.set, slot.way);
    }

    #[inline(always)]
    pub(super) fn is_dirty(&self, slot: WaySlot) -> bool {
        self.dirty[slot.set] >> slot.way & 1 != 0
    }

    #[inline(always)]
    pub(super) fn set_dirty(&mut self, slot: WaySlot) {
        self.dirty[slot.set] |= 1 << slot.way;
    }

    /// Cleans a line. Returns whether it was dirty.
    pub(super) fn clean(&mut self, slot: WaySlot) -> bool {
        let was = self.is_dirty(slot);
        self.dirty[slot.set] &= !(1 << slot.way);
        was
    }

    /// Empties a way. Returns whether the line was dirty.
    pub(super) fn remove(&mut self, slot: WaySlot) -> bool {
        self.tags[slot.set * self.stride + slot.way] = EMPTY;
        self.vacant += 1;
        self.clean(slot)
    }

    /// Inserts a line that is not here. Returns the replaced line, and whether that is dirty.
    #[inline(always)]
    pub(super) fn insert(&mut self, line: Line, dirty: bool) -> Option<(Line, bool)> {
        let set = self.index.set_of(line);
        let empty = self.empty_ways(set);
        let way = if empty == 0 { self.policy.victim(set) } else { self.vacancy(set, empty) };
        let (replaced, was_dirty) = self.occupy(set, way, line, dirty);
        (replaced != EMPTY).then_some((replaced, was_dirty))
    }

    /// Inserts a tag that is not here, or [`HELD`]; of a full set one of `ways` (a bit each, at least one) is replaced.
    /// Returns the way, the replaced tag, and whether that was dirty.
    pub(super) fn insert_among(
        &mut self,
        set: usize,
        tag: Line,
        dirty: bool,
        ways: u64,
    ) -> (WaySlot, Line, bool) {
        let empty = self.empty_ways(set);
        let way = match empty {
            0 => self.policy.victim_among(set, ways),
            _ => self.vacancy(set, empty),
        };
        let (replaced, was_dirty) = self.occupy(set, way, tag, dirty);
        (WaySlot { set, way }, replaced, was_dirty)
    }

    /// The empty ways of a set, a bit each.
    #[inline(always)]
    pub(super) fn empty_ways(&self, set: usize) -> u64 {
        if self.vacant == 0 { 0 } else { self.ways_with(set, EMPTY) & self.all }
    }

    /// Chooses the way to fill among the `empty` ones, and counts it as filled.
    #[inline(always)]
    fn vacancy(&mut self, set: usize, empty: u64) -> usize {
        self.vacant -= 1;
        self.policy.vacancy(set, empty)
    }

    /// Puts a tag into a way. Returns what was there, and whether it was dirty.
    #[inline(always)]
    fn occupy(&mut self, set: usize, way: usize, tag: Line, dirty: bool) -> (Line, bool) {
        let replaced = std::mem::replace(&mut self.tags[set * self.stride + way], tag);
        let was_dirty = self.dirty[set] >> way & 1 != 0;
        self.dirty[set] = (self.dirty[set] & !(1 << way)) | u64::from(dirty) << way;
        self.policy.fill(set, way);
        (replaced, was_dirty)
    }

    /// The set that a line belongs to.
    pub(super) fn set_of(&self, line: Line) -> usize {
        self.index.set_of(line)
    }

    /// The tags of a set.
    pub(super) fn tags(&self, set: usize) -> &[Line] {
        &self.tags[set * self.stride..][..self.all.count_ones() as usize]
    }

    /// The dirty lines, in no order.
    pub(super) fn dirty_lines(&self) -> impl Iterator<Item = Line> {
        let sets = self.dirty.iter().zip(self.tags.chunks_exact(self.stride));
        sets.filter(|(dirty, _)| **dirty != 0).flat_map(|(dirty, tags)| {
            let ways = tags.iter().enumerate().filter(move |(way, _)| dirty >> way & 1 != 0);
            ways.map(|(_, &line)| line)
        })
    }
}

/// Which of the tags are this one, a bit each. The width is fixed so that it becomes a handful
/// of vector instructions.
#[inline(always)]
fn equal(tags: &[Line; LANES], tag: Line) -> u32 {
    (0..LANES).fold(0, |ways, n| ways | u32::from(tags[n] == tag) << n)
}

/// From a line to its set: the remainder by the number of sets.
enum SetIndex {
    /// A power of two of sets.
    Mask(Line),
    /// Any other number: Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019,
    /// exact for 32 bits.
    Remainder { sets: u64, inverse: u64 },
}

impl SetIndex {
    fn new(sets: usize) -> Self {
        match sets.is_power_of_two() {
            true => SetIndex::Mask(sets as Line - 1),
            false => SetIndex::Remainder { sets: sets as u64, inverse: u64::MAX / sets as u64 + 1 },
        }
    }

    #[inline(always)]
    fn set_of(&self, line: Line) -> usize {
        match *self {
            SetIndex::Mask(mask) => (line & mask) as usize,
            SetIndex::Remainder { sets, inverse } => {
                let fraction = inverse.wrapping_mul(u64::from(line));
                ((u128::from(fraction) * u128::from(sets)) >> 64) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_remainders() {
        let mut random = SplitMix64::new(1);
        for sets in [1, 2, 3, 11, 64, 1000, 28_672, (1 << 22) - 1, 1 << 22] {
            let index = SetIndex::new(sets);
            let lines = (0..1000).map(|_| random.next() as Line).chain([0, HELD - 1]);
            lines.for_each(|line| assert_eq!(index.set_of(line), line as usize % sets));
        }
    }
}
