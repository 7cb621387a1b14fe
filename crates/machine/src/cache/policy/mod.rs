//! Which line of a full set is replaced: a policy is one file here.

mod bimodal;
mod lru;
mod quad_age;
mod random;
mod recency;
#[cfg(test)]
mod tests;
mod tree_plru;

pub use quad_age::QuadAge;

use bimodal::Bimodal;
use lru::Lru;
use perdura_memory::reference::SplitMix64;
use quad_age::Ages;
use random::Random;
use recency::{Bytes, NIBBLES, Nibbles};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use tree_plru::TreePlru;

/// Which line of a full set is replaced. Empty ways are filled first, the leftmost one first
/// unless the policy says otherwise.
///
/// In configurations: a name of [`NAMED`](Self::NAMED), or any quad-age policy in its notation, as `H11_M1_R0_U0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Policy {
    /// The least recently used one.
    Lru,
    /// Nearly that one: a tree of bits.
    TreePlru,
    /// Least recently used, with most new lines inserted as the oldest.
    Bimodal,
    /// Any.
    Random,
    /// The oldest by two-bit ages.
    QuadAge(QuadAge),
}

/// A policy with a name.
#[derive(Clone, Copy, Debug)]
pub struct NamedPolicy {
    /// The name.
    pub name: &'static str,
    /// A description in one line.
    pub line: &'static str,
    /// The policy.
    pub policy: Policy,
}

const fn named(policy: Policy, name: &'static str, line: &'static str) -> NamedPolicy {
    NamedPolicy { name, line, policy }
}

/// As in Ivy Bridge's last level.
const USUAL_AGES: Policy = Policy::QuadAge(QuadAge::IVY_BRIDGE_L3);

impl Policy {
    /// The policies that have names, one of each kind: the one list of them.
    pub const NAMED: [NamedPolicy; 5] = [
        named(Policy::Lru, "lru", "the least recently used line"),
        named(Policy::TreePlru, "tree-plru", "nearly that one: a tree of bits"),
        named(Policy::Bimodal, "bimodal", "as lru, but most new lines are inserted as the oldest"),
        named(Policy::Random, "random", "any line"),
        named(USUAL_AGES, "quad-age", "the oldest by two-bit ages, as in Ivy Bridge's last level"),
    ];

    /// The names, for messages.
    pub fn names() -> String {
        Self::NAMED.map(|own| own.name).join(", ")
    }
}

/// There is no such policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no replacement policy '{0}': there are {names}, and quad-age policies in nanoBench's notation, as \
     H11_M1_R1_U2",
    names = Policy::names()
)]
pub struct UnknownPolicy(pub String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match Self::NAMED.iter().find(|own| own.name == name) {
            Some(own) => Ok(own.policy),
            None => Ok(Policy::QuadAge(name.parse()?)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (Self::NAMED.iter().find(|own| own.policy == *self), self) {
            (Some(own), _) => f.write_str(own.name),
            (None, Policy::QuadAge(ages)) => ages.fmt(f),
            (None, _) => unreachable!("only quad-age policies have no names"),
        }
    }
}

impl TryFrom<String> for Policy {
    type Error = UnknownPolicy;

    fn try_from(name: String) -> Result<Self, UnknownPolicy> {
        name.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> String {
        policy.to_string()
    }
}

/// A replacement policy, with its state for all sets of a cache. Ways count from 0; there are at most 64.
pub(super) trait Replace {
    /// The line in `way` was accessed.
    fn hit(&mut self, set: usize, way: usize);

    /// A new line has filled `way`, which [`vacancy`](Self::vacancy), [`victim`](Self::victim) or
    /// [`victim_among`](Self::victim_among) has chosen.
    fn fill(&mut self, set: usize, way: usize);

    /// The way that a full set gives up.
    fn victim(&mut self, set: usize) -> usize;

    /// The way that a full set gives up if only `ways` may be replaced (a bit each, at least one): the one that the
    /// policy would choose if there were no others. With all ways it equals [`victim`](Self::victim), and draws as many
    /// random numbers.
    fn victim_among(&mut self, set: usize, ways: u64) -> usize;

    /// The way to fill, among the `empty` ones (a bit each, at least one).
    fn vacancy(&mut self, _set: usize, empty: u64) -> usize {
        empty.trailing_zeros() as usize
    }
}

/// The policy of a cache: an enum, so that calls are inlined.
pub(super) enum Replacement {
    Lru(Lru<Nibbles>),
    LruWide(Lru<Bytes>),
    TreePlru(TreePlru),
    Bimodal(Bimodal<Nibbles>),
    BimodalWide(Bimodal<Bytes>),
    Random(Random),
    Ages(Ages),
}

impl Replacement {
    pub(super) fn new(policy: Policy, sets: usize, ways: usize, random: SplitMix64) -> Self {
        let wide = ways > NIBBLES;
        match policy {
            Policy::Lru if wide => Replacement::LruWide(Lru::new(sets, ways)),
            Policy::Lru => Replacement::Lru(Lru::new(sets, ways)),
            Policy::TreePlru => Replacement::TreePlru(TreePlru::new(sets, ways)),
            Policy::Bimodal if wide => Replacement::BimodalWide(Bimodal::new(sets, ways, random)),
            Policy::Bimodal => Replacement::Bimodal(Bimodal::new(sets, ways, random)),
            Policy::Random => Replacement::Random(Random::new(ways, random)),
            Policy::QuadAge(rules) => Replacement::Ages(Ages::new(rules, sets, ways, random)),
        }
    }
}

/// Calls the policy, whichever it is.
macro_rules! each {
    ($self:expr, $policy:ident => $call:expr) => {
        match $self {
            Replacement::Lru($policy) => $call,
            Replacement::LruWide($policy) => $call,
            Replacement::TreePlru($policy) => $call,
            Replacement::Bimodal($policy) => $call,
            Replacement::BimodalWide($policy) => $call,
            Replacement::Random($policy) => $call,
            Replacement::Ages($policy) => $call,
        }
    };
}

impl Replace for Replacement {
    #[inline(always)]
    fn hit(&mut self, set: usize, way: usize) {
        each!(self, policy => policy.hit(set, way));
    }

    #[inline(always)]
    fn fill(&mut self, set: usize, way: usize) {
        each!(self, policy => policy.fill(set, way));
    }

    #[inline(always)]
    fn victim(&mut self, set: usize) -> usize {
        each!(self, policy => policy.victim(set))
    }

    fn victim_among(&mut self, set: usize, ways: u64) -> usize {
        each!(self, policy => policy.victim_among(set, ways))
    }

    #[inline(always)]
    fn vacancy(&mut self, set: usize, empty: u64) -> usize {
        each!(self, policy => policy.vacancy(set, empty))
    }
}
