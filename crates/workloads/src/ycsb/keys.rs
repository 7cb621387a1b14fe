//! Key names, and the choice of an operation's key.

use super::mix::Distribution;
use crate::random::Random;
use crate::zipf::{Latest, Scrambled, fnv};

const PREFIX: &[u8] = b"user";
/// The longest name: the prefix and the digits of a `u64`.
const LONGEST: usize = PREFIX.len() + 20;

/// Whether records are inserted in the order of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Names are hashes of the record's number: YCSB's default.
    Hashed,
    /// Names are the record's number.
    Ordered,
}

impl Order {
    /// The number in the name of record `record`; from which its payload is derived.
    #[inline]
    pub const fn identity(self, record: u64) -> u64 {
        match self {
            Order::Hashed => fnv(record),
            Order::Ordered => record,
        }
    }
}

/// A record's key, such as `user6284781860667377211`.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Name {
    /// The name with this number in it.
    pub fn new(identity: u64) -> Self {
        let mut bytes = [0; LONGEST];
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(identity).as_bytes();
        let len = PREFIX.len() + digits.len();
        bytes[..PREFIX.len()].copy_from_slice(PREFIX);
        bytes[PREFIX.len()..len].copy_from_slice(digits);
        Name { bytes, len }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The number in a name.
pub fn identity_of(name: &[u8]) -> Option<u64> {
    std::str::from_utf8(name.strip_prefix(PREFIX)?).ok()?.parse().ok()
}

/// Chooses existing records.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// See [`Distribution::Zipfian`].
    Zipfian(Scrambled),
    /// See [`Distribution::Latest`].
    Latest(Box<Latest>),
    /// See [`Distribution::Uniform`].
    Uniform,
}

impl Chooser {
    /// A chooser for a run that begins with `records` records (at least 1) and is expected to
    /// insert `inserts`.
    pub fn new(distribution: Distribution, records: u64, inserts: u64) -> Self {
        match distribution {
            // YCSB makes room for twice the inserts it expects, and for one more.
            Distribution::Zipfian => Chooser::Zipfian(Scrambled::new(records + 2 * inserts + 1)),
            Distribution::Latest => Chooser::Latest(Box::new(Latest::new(records - 1))),
            Distribution::Uniform => Chooser::Uniform,
        }
    }

    /// Draws one of the records `0..existing`.
    #[inline]
    pub fn draw(&mut self, random: &mut Random, existing: u64) -> u64 {
        match self {
            Chooser::Zipfian(keys) => loop {
                let record = keys.draw(random);
                if record < existing {
                    return record;
                }
            },
            Chooser::Latest(latest) => latest.draw(random, existing - 1),
            Chooser::Uniform => random.below(existing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_zero_has_the_name_that_ycsb_gives_it() {
        let name = Name::new(Order::Hashed.identity(0));
        assert_eq!(name.as_bytes(), b"user6284781860667377211");
        assert_eq!(identity_of(name.as_bytes()), Some(fnv(0)));
        assert_eq!(Name::new(Order::Ordered.identity(17)).as_bytes(), b"user17");
        assert_eq!(Name::new(u64::MAX).as_bytes(), b"user18446744073709551615");
        assert_eq!(identity_of(b"abuser1"), None);
    }

    #[test]
    fn choosers_draw_existing_records_only() {
        let mut random = Random::new(2, 0);
        for distribution in [Distribution::Zipfian, Distribution::Latest, Distribution::Uniform] {
            let mut chooser = Chooser::new(distribution, 10, 5);
            for existing in 10..20 {
                for _ in 0..100 {
                    assert!(chooser.draw(&mut random, existing) < existing);
                }
            }
        }
    }
}
