//! What running transactions may still reach, as whoever reuses freed memory needs it.
//!
//! A transaction sees the states after some commits: up to the one called `until`, and at least up to `since`. So it
//! may reach an object that was allocated no later than `until` and freed later than `since`. Everything else that has
//! left the log can be reused beside it, however long it stays.

use crate::Ticket;
use std::time::Duration;

/// The most ranges that are told apart: whoever checks much memory checks it against each of them.
const MOST: usize = 64;

/// The commits between which the states seen by a transaction lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What was freed up to here is out of its reach.
    pub since: Ticket,
    /// What was allocated later is out of its reach; on the scale of [`Session::born`](crate::Session::born).
    pub until: Ticket,
}

/// What may be reused: see [`Engine::pins`](crate::Engine::pins).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Commits up to this one have left the log.
    pub left: Ticket,
    /// What running transactions see.
    pub seen: Vec<Seen>,
}

impl Pins {
    /// Of these transactions, as few ranges as can be checked often.
    pub(crate) fn new(left: Ticket, mut seen: Vec<Seen>) -> Self {
        seen.sort_unstable_by_key(|seen| seen.since);
        let each = seen.len().div_ceil(MOST).max(1);
        let merged = seen.chunks(each).map(|some| Seen {
            since: some[0].since,
            until: some.iter().map(|seen| seen.until).max().unwrap_or_default(),
        });
        Pins { left, seen: merged.collect() }
    }

    /// Whether memory can be reused that was allocated at `born`, zero if that is not known, by
    /// [`Session::born`](crate::Session::born), and freed by the commit with the ticket `freed`.
    pub fn free(&self, born: Ticket, freed: Ticket) -> bool {
        freed <= self.left && !self.hold(born, freed)
    }

    /// Whether a running transaction may reach such memory.
    pub fn hold(&self, born: Ticket, freed: Ticket) -> bool {
        self.seen.iter().any(|seen| born <= seen.until && freed > seen.since)
    }
}

/// The transaction that has kept freed memory from being reused for the longest time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// For how long, at least: counted from when it was first found in the way, so that no transaction has to look at a
    /// clock when it begins.
    pub age: Duration,
    /// Whether it reads a snapshot: it has lasted so long that commits go on beside it.
    pub on_snapshot: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(since: u64, until: u64) -> Seen {
        Seen { since: Ticket(since), until: Ticket(until) }
    }

    #[test]
    fn only_what_a_transaction_can_reach_is_held() {
        let pins = Pins::new(Ticket(100), vec![seen(50, 52), seen(10, 10)]);
        let free = |born, freed| pins.free(Ticket(born), Ticket(freed));
        assert!(!free(60, 101), "it is in the log");
        assert!(free(53, 60) && free(11, 50) && free(0, 10), "born too late, or freed too early");
        assert!(!free(52, 60) && !free(0, 51) && !free(10, 11) && !free(0, 60));
    }

    #[test]
    fn many_are_merged_into_wider_ranges() {
        let each = |number: u64| seen(10 * number, 10 * number + 1);
        let pins = Pins::new(Ticket(u64::MAX), (0..1000).rev().map(each).collect());
        assert!(pins.seen.len() <= MOST);
        for number in 0..1000 {
            assert!(pins.hold(Ticket(10 * number), Ticket(10 * number + 1)));
        }
        assert!(!pins.hold(Ticket(9_992), Ticket(9_995)));
    }
}
