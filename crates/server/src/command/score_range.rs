//! Ranges of sorted sets, as their commands give them: by rank, by score, by member.

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

/// The smallest member, the largest one, or one of this name.
#[derive(Clone, Copy)]
enum Name<'a> {
    First,
    Last,
    Is(&'a [u8]),
}

/// A range, in the arguments' own terms.
pub(super) enum Limits<'a> {
    Rank(i64, i64),
    Score(LimitPair<f64>),
    Member(NamePair<'a>),
}

pub(super) struct LimitPair<T>(Limit<T>, Limit<T>);
pub(super) struct NamePair<'a>(Limit<Name<'a>>, Limit<Name<'a>>);

impl<'a> Limits<'a> {
    /// From the arguments at two indices.
    pub(super) fn parse(call: &Call<'a>, by: By, low: usize, high: usize) -> Outcome<Self> {
        Ok(match by {
            By::Rank => Limits::Rank(call.integer(low)?, call.integer(high)?),
            By::Score => {
                Limits::Score(LimitPair(score(call.args.at(low))?, score(call.args.at(high))?))
            }
            By::Member => {
                Limits::Member(NamePair(name(call.args.at(low))?, name(call.args.at(high))?))
            }
        })
    }

    /// The ranks that it covers, counted from the first member.
    pub(super) fn ranks(
        &self,
        call: &mut Call<'_>,
        set: SortedSet,
        backwards: bool,
    ) -> Outcome<Range<u64>> {
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
            Limits::Member(NamePair(low, high)) => {
                let Some(score) = set.least(call.tx)? else { return Ok(0..0) };
                let edge = |limit: &Limit<Name<'_>>, before: bool| match limit.value {
                    Name::First => Edge::Before(f64::NEG_INFINITY),
                    Name::Last => Edge::After(f64::INFINITY),
                    Name::Is(name) if before => Edge::BeforeMember(score, name.to_vec()),
                    Name::Is(name) => Edge::AfterMember(score, name.to_vec()),
                };
                (edge(low, low.included), edge(high, !high.included))
            }
        };
        let from = set.count_before(call.tx, &low)?;
        let to = set.count_before(call.tx, &high)?;
        Ok(from..to.max(from))
    }
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

/// `[a`, `(a` without it, `-` and `+`.
fn name(text: &[u8]) -> Outcome<Limit<Name<'_>>> {
    Ok(match text {
        b"-" => Limit { value: Name::First, included: true },
        b"+" => Limit { value: Name::Last, included: true },
        [b'[', name @ ..] => Limit { value: Name::Is(name), included: true },
        [b'(', name @ ..] => Limit { value: Name::Is(name), included: false },
        _ => return Err(Failure::MIN_MAX_STRING),
    })
}

/// The part of a range that LIMIT asks for. A negative count takes all.
pub(super) fn limit(ranks: Range<u64>, offset: i64, count: i64, backwards: bool) -> Range<u64> {
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
