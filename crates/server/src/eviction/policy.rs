//! Which keys may be evicted, and which of them go first.

use crate::logging::named;
use std::fmt;
use std::str::FromStr;

/// What a server does when its pool is full: Redis's `maxmemory-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// It refuses commands that need room.
    #[default]
    NoEviction,
    /// It deletes keys that have not been used for long.
    AllKeysLru,
    /// It deletes keys that are seldom used.
    AllKeysLfu,
    /// It deletes any keys.
    AllKeysRandom,
    /// As `AllKeysLru`, of the keys that expire; the others are never deleted.
    VolatileLru,
    /// As `AllKeysLfu`, of the keys that expire.
    VolatileLfu,
    /// As `AllKeysRandom`, of the keys that expire.
    VolatileRandom,
    /// It deletes the keys that expire soonest.
    VolatileTtl,
}

named!(EvictionPolicy:
    NoEviction "noeviction",
    AllKeysLru "allkeys-lru",
    AllKeysLfu "allkeys-lfu",
    AllKeysRandom "allkeys-random",
    VolatileLru "volatile-lru",
    VolatileLfu "volatile-lfu",
    VolatileRandom "volatile-random",
    VolatileTtl "volatile-ttl");

/// Which of the keys that may go goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Unused,
    Seldom,
    Any,
    Soonest,
}

impl EvictionPolicy {
    const ALL: [EvictionPolicy; 8] = [
        EvictionPolicy::NoEviction,
        EvictionPolicy::AllKeysLru,
        EvictionPolicy::AllKeysLfu,
        EvictionPolicy::AllKeysRandom,
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
    ];

    /// The policy of this number, the variant's place.
    pub(super) fn numbered(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Which keys go first, if any do.
    pub(super) fn order(self) -> Option<Order> {
        match self {
            EvictionPolicy::NoEviction => None,
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru => Some(Order::Unused),
            EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu => Some(Order::Seldom),
            EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => Some(Order::Any),
            EvictionPolicy::VolatileTtl => Some(Order::Soonest),
        }
    }

    /// Whether only keys that expire may go.
    pub(super) fn spares_lasting(self) -> bool {
        matches!(
            self,
            EvictionPolicy::VolatileLru
                | EvictionPolicy::VolatileLfu
                | EvictionPolicy::VolatileRandom
                | EvictionPolicy::VolatileTtl
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_those_of_the_policies() {
        assert_eq!(EvictionPolicy::NAMES.len(), EvictionPolicy::ALL.len());
        for (number, policy) in (0..).zip(EvictionPolicy::ALL) {
            assert_eq!((policy as u8, EvictionPolicy::numbered(number)), (number, policy));
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.spares_lasting(), policy.to_string().starts_with("volatile"));
        }
        assert_eq!(EvictionPolicy::numbered(99), EvictionPolicy::NoEviction);
        assert!("lru".parse::<EvictionPolicy>().is_err());
    }
}
