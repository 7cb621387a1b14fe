//! Stamps, which order conflicting commits.

use crate::Ticket;

/// The most sessions at a time.
pub(crate) const LANES: usize = 1 << LANE_BITS;
pub(super) const LANE_BITS: u32 = 12;
/// Bits that tell a session's commits with the same number apart.
const STEP_BITS: u32 = 7;
const NUMBER: u32 = LANE_BITS + STEP_BITS;
/// An ownership record holds the lock bit as well, and tickets beyond half of their range are refused as damage.
const LARGEST: u64 = 1 << (61 - NUMBER);

/// The number that a commit took from the clock, its session's lane, and a count of the session's commits with that
/// number. Stamps order conflicting commits; between others the order means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    /// The first stamp of a number.
    pub(crate) const fn new(number: u64, lane: usize) -> Self {
        Stamp(number << NUMBER | (lane as u64) << STEP_BITS)
    }

    /// The number from the clock.
    #[inline(always)]
    pub(crate) const fn number(self) -> u64 {
        self.0 >> NUMBER
    }

    /// The session's lane.
    #[inline(always)]
    pub(crate) const fn lane(self) -> usize {
        (self.0 >> STEP_BITS) as usize % LANES
    }

    /// The next one of the same number and session; `None` if there is none.
    #[inline(always)]
    pub(crate) const fn next(self) -> Option<Self> {
        let next = self.0 + 1;
        if next.is_multiple_of(1 << STEP_BITS) { None } else { Some(Stamp(next)) }
    }

    /// Whether commits may still take this number.
    pub(crate) const fn is_number(number: u64) -> bool {
        number < LARGEST
    }

    /// The ticket of everything with numbers up to this one.
    pub(crate) const fn up_to(number: u64) -> Ticket {
        Ticket(((number + 1) << NUMBER) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_they_were() {
        let mut stamp = Stamp::new(77, LANES - 1);
        for _ in 1..1 << STEP_BITS {
            let next = stamp.next().expect("there are more");
            assert!(next > stamp && next.0 <= Stamp::up_to(77).0);
            assert_eq!((next.number(), next.lane()), (77, LANES - 1));
            stamp = next;
        }
        assert_eq!(stamp.next(), None);
        assert!(Stamp::new(78, 0).0 > Stamp::up_to(77).0);
        assert!(Stamp::is_number(1 << 41) && !Stamp::is_number(1 << 42));
        assert!(Stamp::new(LARGEST, LANES - 1).0 < u64::MAX / 2);
    }
}
