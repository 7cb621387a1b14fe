//! The ways of a set in the order of their last use.

/// How many ways [`Nibbles`] can order.
pub(super) const NIBBLES: usize = 16;

/// An order of the first `ways` ways. `ways` is the same in all calls.
pub(in crate::cache) trait Recency: Clone {
    /// In order of their numbers.
    fn new() -> Self;

    /// Makes `way` the first.
    fn to_front(&mut self, way: usize);

    /// Makes `way` the last.
    fn to_back(&mut self, way: usize, ways: usize);

    /// The last way.
    fn last(&self, ways: usize) -> usize;

    /// The last of the ways `among` (a bit each).
    fn last_among(&self, ways: usize, among: u64) -> usize;
}

/// Up to 16 ways: the way at place `n` is nibble `n` of a word, the first one lowest.
#[derive(Clone)]
pub(in crate::cache) struct Nibbles(u64);

const ONES: u64 = 0x1111_1111_1111_1111;

impl Nibbles {
    /// Where the nibble of `way` begins, in bits.
    #[inline(always)]
    fn shift_of(&self, way: usize) -> u32 {
        // After the exclusive or one nibble is zero: the lowest one that borrows.
        let zero = self.0 ^ (way as u64).wrapping_mul(ONES);
        (zero.wrapping_sub(ONES) & !zero & (ONES << 3)).trailing_zeros() & !3
    }
}

impl Recency for Nibbles {
    fn new() -> Self {
        Nibbles(0xfedc_ba98_7654_3210)
    }

    #[inline(always)]
    fn to_front(&mut self, way: usize) {
        // `2 << (shift + 3)` is the first bit after the nibble, or none after the last nibble.
        let upto = (2u64 << (self.shift_of(way) + 3)).wrapping_sub(1);
        self.0 = (self.0 & !upto) | ((self.0 << 4) & upto) | way as u64;
    }

    #[inline(always)]
    fn to_back(&mut self, way: usize, ways: usize) {
        let last = 4 * (ways as u32 - 1);
        let from = u64::MAX << self.shift_of(way);
        let upto = (2u64 << (last + 3)).wrapping_sub(1);
        let moved = (self.0 >> 4) & from & (upto >> 4);
        self.0 = (self.0 & !(from & upto)) | moved | (way as u64) << last;
    }

    #[inline(always)]
    fn last(&self, ways: usize) -> usize {
        (self.0 >> (4 * (ways - 1)) & 15) as usize
    }

    fn last_among(&self, ways: usize, among: u64) -> usize {
        let mut order = (0..ways).rev().map(|place| (self.0 >> (4 * place) & 15) as usize);
        order.find(|&way| among >> way & 1 != 0).expect("one of the ways")
    }
}

/// Up to 64 ways: a byte each, the first one first.
#[derive(Clone)]
pub(in crate::cache) struct Bytes([u8; 64]);

impl Bytes {
    fn place_of(&self, way: usize) -> usize {
        self.0.iter().position(|&at| usize::from(at) == way).expect("every way has a place")
    }
}

impl Recency for Bytes {
    fn new() -> Self {
        Bytes(std::array::from_fn(|way| way as u8))
    }

    fn to_front(&mut self, way: usize) {
        let place = self.place_of(way);
        self.0.copy_within(..place, 1);
        self.0[0] = way as u8;
    }

    fn to_back(&mut self, way: usize, ways: usize) {
        let place = self.place_of(way);
        self.0.copy_within(place + 1..ways, place);
        self.0[ways - 1] = way as u8;
    }

    fn last(&self, ways: usize) -> usize {
        usize::from(self.0[ways - 1])
    }

    fn last_among(&self, ways: usize, among: u64) -> usize {
        let mut order = self.0[..ways].iter().rev().map(|&way| usize::from(way));
        order.find(|&way| among >> way & 1 != 0).expect("one of the ways")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::reference::SplitMix64;

    fn behaves_as_a_list<R: Recency>(ways: usize) {
        let mut random = SplitMix64::new(ways as u64);
        let (mut order, mut list) = (R::new(), (0..ways).collect::<Vec<_>>());
        for _ in 0..2000 {
            let way = random.below(ways as u64) as usize;
            list.retain(|&other| other != way);
            if random.below(2) == 0 {
                order.to_front(way);
                list.insert(0, way);
            } else {
                order.to_back(way, ways);
                list.push(way);
            }
            assert_eq!(order.last(ways), list[ways - 1], "{ways} ways");
        }
    }

    #[test]
    fn orders_behave_as_lists() {
        (1..=NIBBLES).for_each(behaves_as_a_list::<Nibbles>);
        (1..=64).for_each(behaves_as_a_list::<Bytes>);
    }
}
