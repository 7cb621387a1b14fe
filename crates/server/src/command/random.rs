//! Numbers at random, for commands that choose.

use crate::keyspace::unguessable;

/// What is added for each number of a stream.
pub(crate) const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number of which each bit follows from all of `value`'s.
pub(crate) fn mix(value: u64) -> u64 {
    let mixed = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// A stream of numbers that clients cannot guess (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Random(unguessable())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}
