//! Ranges of sorted sets, as their commands give them: by rank, by score, by member.

use super::name_range::{Members, NameRange};
use super::substrings::clamp;
use super::{Call, Failure, Outcome};
use crate::keyspace::zset::{Edge, SortedSet};
use crate::protocol::number;
use std::ops::Range;

/// How the limits of a range are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

/// A score, or a member, and whether the range includes it.
#[derive(Clone, Copy)]
struct Limit<T> {
    value: T,
    included: bool,
}

/// A range, in the arguments' own terms.
pub(super) enum Limits<'a> {
    Rank(i64, i64),
    Score(LimitPair<f64>),
    Member(NameRange<'a>),
}

pub(super) struct LimitPair<T>(Limit<T>, Limit<T>);

impl<'a> Limits<'a> {
    /// From the arguments at two indices.
    pub(super) fn parse(call: &Call<'a>, by: By, low: usize, high: usize) -> Outcome<Self> {
        Ok(match by {
            By::Rank => Limits::Rank(call.integer(low)?, call.integer(high)?),
            By::Score => {
                Limits::Score(LimitPair(score(call.args.at(low))?, score(call.args.at(high))?))
            }
            By::Member => Limits::Member(NameRange::parse(call.args.at(low), call.args.at(high))?),
        })
    }

    /// The ranks that it covers, counted from the first member.
    fn ranks(&self, call: &mut Call<'_>, set: SortedSet, backwards: bool) -> Outcome<Range<u64>> {
        let (low, high) = match self {
            Limits::Rank(start, end) => {
                let len = set.len(call.tx)?;
                let (from, to) = clamp_ranks(*start, *end, len).unwrap_or((0, 0));
                return Ok(if backwards { len - to..len - from } else { from..to });
            }
            Limits::Score(LimitPair(low, high)) => (
                if low.included { Edge::Before(low.value) } else { Edge::After(low.value) },
                if high.included { Edge::After(high.value) } else { Edge::Before(high.value) },
            ),
            Limits::Member(names) => return names.ranks(call, set),
        };
        let from = set.count_before(call.tx, &low)?;
        let to = set.count_before(call.tx, &high)?;
        Ok(from..to.max(from))
    }
}

/// Told of a member, with its score; false ends the walk.
type EachMember<'a> = dyn FnMut(&mut Call<'_>, (f64, Vec<u8>)) -> Outcome<bool> + 'a;

/// Calls `each` with the members that a command covers, of ranks as its LIMIT leaves them, until it returns false. It may
/// change anything but this set.
pub(super) fn walk(
    call: &mut Call<'_>,
    set: SortedSet,
    limits: &Limits<'_>,
    (backwards, most): (bool, Option<(i64, i64)>),
    each: &mut EachMember<'_>,
) -> Outcome {
    if let Limits::Member(names) = limits
        && NameRange::is_walked(call, set)?
    {
        for member in walked(call, set, names, backwards, most)? {
            if !each(call, member)? {
                break;
            }
        }
        return Ok(());
    }
    let mut ranks = limits.ranks(call, set, backwards)?;
    if let Some((offset, count)) = most {
        ranks = limit(ranks, offset, count, backwards);
    }
    if ranks.is_empty() {
        return Ok(());
    }
    let first = if backwards { ranks.end - 1 } else { ranks.start };
    let mut walk = set.walk_at(call.tx, first, backwards)?;
    for _ in ranks {
        let Some(next) = walk.next(call.tx)? else { break };
        if !each(call, next)? {
            break;
        }
    }
    Ok(())
}

/// The members of a small set that a range of names covers.
fn walked(
    call: &mut Call<'_>,
    set: SortedSet,
    names: &NameRange<'_>,
    backwards: bool,
    most: Option<(i64, i64)>,
) -> Outcome<Members> {
    let len = set.len(call.tx)?;
    let mut walk =
        set.walk_at(call.tx, if backwards { len.saturating_sub(1) } else { 0 }, backwards)?;
    let mut all = Vec::new();
    while let Some(next) = walk.next(call.tx)? {
        all.push(next);
    }
    Ok(names.select(all, backwards, most))
}

/// Removes the members that a command covers, some at a time. Returns their number.
pub(super) fn remove(call: &mut Call<'_>, set: SortedSet, limits: &Limits<'_>) -> Outcome<u64> {
    /// Members that are removed before the set is looked at again.
    const STEP: u64 = 256;
    if let Limits::Member(names) = limits
        && NameRange::is_walked(call, set)?
    {
        let found = walked(call, set, names, false, None)?;
        for (_, member) in &found {
            set.remove(call.tx, member)?;
        }
        return Ok(found.len() as u64);
    }
    let ranks = limits.ranks(call, set, false)?;
    let mut left = ranks.end - ranks.start;
    while left > 0 {
        let mut walk = set.walk_at(call.tx, ranks.start, false)?;
        let mut found = Vec::new();
        for _ in 0..left.min(STEP) {
            found.extend(walk.next(call.tx)?);
        }
        for (_, member) in &found {
            set.remove(call.tx, member)?;
        }
        left = match found.len() {
            0 => 0,
            removed => left - removed as u64,
        };
    }
    Ok(ranks.end - ranks.start)
}

/// How many members a command covers.
pub(super) fn count(call: &mut Call<'_>, set: SortedSet, limits: &Limits<'_>) -> Outcome<u64> {
    if let Limits::Member(names) = limits
        && NameRange::is_walked(call, set)?
    {
        return Ok(walked(call, set, names, false, None)?.len() as u64);
    }
    let ranks = limits.ranks(call, set, false)?;
    Ok(ranks.end - ranks.start)
}

/// As for strings, but for a range that ends before the first: it is empty.
fn clamp_ranks(start: i64, end: i64, len: u64) -> Option<(u64, u64)> {
    let last = if end < 0 { end.saturating_add(i64::try_from(len).ok()?) } else { end };
    if last < 0 { None } else { clamp(start, last, len) }
}

/// `1.5`, `(1.5` without it, `-inf`, `+inf`.
fn score(text: &[u8]) -> Outcome<Limit<f64>> {
    let (included, digits) = match text {
        [b'(', rest @ ..] => (false, rest),
        _ => (true, text),
    };
    let value = number::parse_bound(digits).ok_or(Failure::MIN_MAX)?;
    Ok(Limit { value, included })
}

/// The part of a range that LIMIT asks for. A negative count takes all.
fn limit(ranks: Range<u64>, offset: i64, count: i64, backwards: bool) -> Range<u64> {
    let Ok(offset) = u64::try_from(offset) else { return 0..0 };
    let len = ranks.end - ranks.start;
    let left = len.saturating_sub(offset);
    let count = u64::try_from(count).unwrap_or(left).min(left);
    if backwards {
        let end = ranks.end - offset.min(len);
        end - count..end
    } else {
        let start = ranks.start + offset.min(len);
        start..start + count
    }
}
