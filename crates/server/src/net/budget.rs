//! The time that a turn may take, and how it is shared.
//!
//! A request that arrives during a turn waits for the next one, so a turn must be short. It does the
//! first request of each connection however long that takes; requests within a fair share of each
//! connection for a few milliseconds; and requests beyond the fair share for less than one.
//!
//! Always true:
//! - a connection's first request in a turn has [`Claim::First`], for which time is never short: every
//!   connection goes on in every turn;
//! - once time is short for a claim, it is short for it until the turn's end: requests that a connection sent
//!   after a request that is put off is put off too.

use std::time::{Duration, Instant};

/// Time after which only the first [`FAIR`] requests of each connection are done.
const SHORT: Duration = Duration::from_micros(500);
/// Time after which only the first of each is.
const LONG: Duration = Duration::from_millis(4);
/// Requests of a connection that a turn does even if it gets a little longer.
const FAIR: usize = 128;
/// The clock is looked at before every request while these take long, else before some.
const OFTEN: Duration = Duration::from_micros(20);
const SELDOM: u32 = 8;

/// How much a connection may ask of a turn for its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// It has had its share: to be done while time is left.
    Extra,
    /// Part of its share.
    Fair,
    /// It had nothing in this turn.
    First,
}

impl Claim {
    /// Of a connection's request, after `taken` others in the same turn.
    pub(super) fn after(taken: usize) -> Self {
        match taken {
            0 => Claim::First,
            1..FAIR => Claim::Fair,
            _ => Claim::Extra,
        }
    }
}

/// A turn's time.
#[derive(Debug)]
pub(super) struct Budget {
    short: Instant,
    long: Instant,
    /// The claim that there still is time for.
    least: Claim,
    looked: Instant,
    /// Requests until the next look.
    unseen: u32,
    stride: u32,
}

impl Budget {
    /// For a turn that has just begun. If the last one `waited` long to be durable, this one may
    /// do more before it waits; `stride` is the last one's ([`stride`](Self::stride)).
    pub(super) fn new(started: Instant, waited: Duration, stride: u32) -> Self {
        Budget {
            short: started + waited.clamp(SHORT, LONG),
            long: started + LONG,
            least: Claim::Extra,
            looked: started,
            unseen: stride - 1,
            stride,
        }
    }

    /// Requests from one look at the clock to the next: more than one while they take little time.
    pub(super) fn stride(&self) -> u32 {
        self.stride
    }

    /// Whether there is no time left for a request with this claim. To be asked for each request.
    #[inline]
    pub(super) fn is_short_for(&mut self, claim: Claim) -> bool {
        self.pass();
        self.was_short_for(claim)
    }

    /// The same, as of the last look at the clock.
    #[inline]
    pub(super) fn was_short_for(&self, claim: Claim) -> bool {
        claim < self.least
    }

    /// A request is about to begin: the clock is looked at, unless it was looked at a moment ago.
    #[inline]
    pub(super) fn pass(&mut self) {
        match self.unseen {
            0 => self.look_now(),
            _ => self.unseen -= 1,
        }
    }

    #[inline(never)]
    fn look_now(&mut self) {
        self.look(Instant::now());
    }

    fn look(&mut self, now: Instant) {
        if now >= self.long {
            self.least = Claim::First;
        } else if now >= self.short {
            self.least = self.least.max(Claim::Fair);
        }
        let quick = now.saturating_duration_since(self.looked) < OFTEN;
        self.stride = if quick { (2 * self.stride).min(SELDOM) } else { 1 };
        self.unseen = self.stride - 1;
        self.looked = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_share_ends_first() {
        let started = Instant::now();
        let waits = [Duration::ZERO, 2 * SHORT, 2 * LONG];
        let shorts = [SHORT, 2 * SHORT, LONG];
        for (waited, short) in waits.into_iter().zip(shorts) {
            let mut budget = Budget::new(started, waited, 1);
            for (after, least) in [
                (Duration::ZERO, Claim::Extra),
                (short - Duration::from_nanos(1), Claim::Extra),
                (short, if short < LONG { Claim::Fair } else { Claim::First }),
                (LONG, Claim::First),
                // A clock does not go back; if it did, nothing would be begun anew.
                (Duration::ZERO, Claim::First),
            ] {
                budget.look(started + after);
                assert_eq!(budget.least, least, "after {after:?}");
            }
            assert!(!budget.is_short_for(Claim::First));
        }
        let claims = [0, 1, FAIR - 1, FAIR].map(Claim::after);
        assert_eq!(claims, [Claim::First, Claim::Fair, Claim::Fair, Claim::Extra]);
    }

    #[test]
    fn the_clock_is_looked_at_seldom_only_while_requests_are_short() {
        let started = Instant::now();
        let mut budget = Budget::new(started, Duration::ZERO, 1);
        let mut now = started;
        for unseen in [1, 3, 7, 7] {
            now += Duration::from_micros(1);
            budget.look(now);
            assert_eq!(budget.unseen, unseen);
        }
        budget.look(now + OFTEN);
        assert_eq!(budget.unseen, 0);
    }
}
