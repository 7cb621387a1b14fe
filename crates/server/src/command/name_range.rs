//! Ranges of members by name: `[a`, `(b`, `-`, `+`.
//!
//! They are meant for sets whose scores are all the same, where members are in the order of their names. Redis does not
//! define the result for other sets, but clients rely on it: in a small set Redis goes from one end to the first
//! member inside, and on while members are inside ([`NameRange::select`]); in a large set it descends as if names were in
//! order ([`halve()`]). Both are done here too, so that small sets give the same answers as Redis's.

use super::{Call, Failure, Outcome};
use crate::keyspace::zset::{Edge, SortedSet};
use std::ops::Range;

/// Members up to which Redis keeps a set so that it is gone through from its end.
const SMALL: u64 = 128;

/// Members and their scores.
pub(super) type Members = Vec<(f64, Vec<u8>)>;

/// The smallest name, the largest one, or this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name<'a> {
    First,
    Last,
    Is(&'a [u8]),
}

/// One end of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End<'a> {
    name: Name<'a>,
    included: bool,
}

/// A range of names.
pub(super) struct NameRange<'a> {
    low: End<'a>,
    high: End<'a>,
}

impl<'a> End<'a> {
    fn parse(text: &'a [u8]) -> Outcome<Self> {
        let (name, included) = match text {
            b"-" => (Name::First, true),
            b"+" => (Name::Last, true),
            [b'[', name @ ..] => (Name::Is(name), true),
            [b'(', name @ ..] => (Name::Is(name), false),
            _ => return Err(Failure::MIN_MAX_STRING),
        };
        Ok(End { name, included })
    }

    /// The place of this end among members of one score; the range begins there, or ends there.
    fn edge(self, score: f64, begins: bool) -> Edge {
        match self.name {
            Name::First => Edge::Before(f64::NEG_INFINITY),
            Name::Last => Edge::After(f64::INFINITY),
            Name::Is(name) if begins == self.included => Edge::BeforeMember(score, name.to_vec()),
            Name::Is(name) => Edge::AfterMember(score, name.to_vec()),
        }
    }
}

impl<'a> NameRange<'a> {
    pub(super) fn parse(low: &'a [u8], high: &'a [u8]) -> Outcome<Self> {
        Ok(NameRange { low: End::parse(low)?, high: End::parse(high)? })
    }

    /// Whether no name can be in it.
    fn is_void(&self) -> bool {
        match (self.low.name, self.high.name) {
            (Name::Last, _) | (_, Name::First) => true,
            (Name::First, _) | (_, Name::Last) => false,
            (Name::Is(low), Name::Is(high)) => {
                low > high || low == high && !(self.low.included && self.high.included)
            }
        }
    }

    /// Whether a name is not below the range.
    fn is_from(&self, member: &[u8]) -> bool {
        match self.low.name {
            Name::First => true,
            Name::Last => false,
            Name::Is(low) => member > low || self.low.included && member == low,
        }
    }

    /// Whether a name is not above the range.
    fn is_to(&self, member: &[u8]) -> bool {
        match self.high.name {
            Name::First => false,
            Name::Last => true,
            Name::Is(high) => member < high || self.high.included && member == high,
        }
    }

    /// Whether the set is one that Redis goes through from its end: small, its scores not all the
    /// same.
    pub(super) fn is_walked(call: &mut Call<'_>, set: SortedSet) -> Outcome<bool> {
        Ok(set.len(call.tx)? <= SMALL && set.least(call.tx)? != set.greatest(call.tx)?)
    }

    /// The ranks that the range covers.
    pub(super) fn ranks(&self, call: &mut Call<'_>, set: SortedSet) -> Outcome<Range<u64>> {
        let Some(score) = set.least(call.tx)? else { return Ok(0..0) };
        let (from, to) = if set.greatest(call.tx)? == Some(score) {
            let (low, high) = (self.low.edge(score, true), self.high.edge(score, false));
            (set.count_before(call.tx, &low)?, set.count_before(call.tx, &high)?)
        } else if self.is_void() {
            (0, 0)
        } else {
            let from = halve(call, set, |member| !self.is_from(member))?;
            (from, halve(call, set, |member| self.is_to(member))?)
        };
        Ok(from..to.max(from))
    }

    /// Selects members on a walk over `members`, in its order: all that are inside, or those that LIMIT
    /// leaves, whose offset is counted from the first member inside, whatever follows that.
    pub(super) fn select(
        &self,
        members: Members,
        backwards: bool,
        limit: Option<(i64, i64)>,
    ) -> Members {
        let inside = |member: &[u8]| self.is_from(member) && self.is_to(member);
        let enters = |m: &[u8]| if backwards { self.is_to(m) } else { self.is_from(m) };
        let stays = |m: &[u8]| if backwards { self.is_from(m) } else { self.is_to(m) };
        let (first, last) = match members.as_slice() {
            [only] => (only, only),
            [first, .., last] => (first, last),
            [] => return members,
        };
        // As if names were in order: nothing is inside if the last one met is outside.
        if self.is_void() || !enters(&last.1) || !stays(&first.1) {
            return Vec::new();
        }
        let start = members.iter().position(|(_, member)| enters(member));
        let Some(start) = start.filter(|&start| inside(&members[start].1)) else {
            return Vec::new();
        };
        let (offset, count) = limit.unwrap_or((0, -1));
        let Ok(offset) = usize::try_from(offset) else { return Vec::new() };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let rest = members.into_iter().skip(start).skip(offset);
        rest.take_while(|(_, member)| stays(member)).take(count).collect()
    }
}

/// How many members come before the first that is not `before`, if names were in order.
fn halve(call: &mut Call<'_>, set: SortedSet, before: impl Fn(&[u8]) -> bool) -> Outcome<u64> {
    let (mut low, mut high) = (0, set.len(call.tx)?);
    while low < high {
        let middle = low + (high - low) / 2;
        match set.nth(call.tx, middle)? {
            Some((_, member)) if before(&member) => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_over_names_out_of_order() {
        let members = |names: &str| -> Members {
            names.split_whitespace().map(|name| (0.0, name.as_bytes().to_vec())).collect()
        };
        // In each line: members in the order of the walk, the range, the result.
        for (all, low, high, backwards, limit, found) in [
            ("a c b d", "[a", "[d", false, None, "a c b d"),
            ("a c b d", "[b", "+", false, None, "c b d"),
            ("a c b d", "-", "[b", false, None, "a"),
            ("a c b d", "-", "[b", false, Some((1, 5)), ""),
            ("a c b d", "-", "[b", false, Some((2, 5)), "b"),
            ("a c b d", "-", "[b", false, Some((0, 0)), ""),
            ("a c b d", "-", "[d", false, Some((-1, 5)), ""),
            ("a c b d", "(a", "(c", false, None, ""),
            ("a c b", "[c", "+", false, None, ""),
            ("b a c", "-", "[a", false, None, ""),
            ("d b c a", "[b", "[c", true, None, "b c"),
            ("d b c a", "-", "+", true, Some((1, 2)), "b c"),
            ("d b c a", "[c", "[b", true, None, ""),
            ("a", "[a", "[a", false, None, "a"),
            ("a", "[a", "(a", false, None, ""),
            ("a", "+", "-", false, None, ""),
            ("", "-", "+", false, None, ""),
        ] {
            let range = NameRange::parse(low.as_bytes(), high.as_bytes()).unwrap();
            let selected = range.select(members(all), backwards, limit);
            assert_eq!(selected, members(found), "{all}: {low} {high} {backwards} {limit:?}");
        }
    }
}
