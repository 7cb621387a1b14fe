//! Tables keyed by numbers, hashed cheaply.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash for numbers not chosen by an adversary.
#[derive(Clone, Copy, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// A table keyed by numbers.
pub(crate) type ByNumber<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;
