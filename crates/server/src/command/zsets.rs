//! Sorted sets: adding, removing and looking up members.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::zset::{Edge, SortedSet};
use crate::keyspace::{Found, Kind};
use crate::protocol::{Protocol, number};

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("zadd", -4, ONE, Run::Write(zadd), "Adds members, with options.")
        .with_member(-1),
    Command::brief("zincrby", 4, ONE, Run::Write(zincrby), "Adds to a member's score.")
        .with_member(3),
    Command::brief("zrem", -3, ONE, Run::Write(zrem), "Removes members.").with_member(2),
    Command::new("zcard", 2, ONE, Run::Read(zcard), "How many members there are."),
    Command::brief("zscore", 3, ONE, Run::Read(zscore), "A member's score.").with_member(2),
    Command::new("zmscore", -3, ONE, Run::Read(zmscore), "Several members' scores."),
    Command::new("zrank", 3, ONE, Run::Read(zrank), "How many members are before one."),
    Command::new("zrevrank", 3, ONE, Run::Read(zrevrank), "How many members are after one."),
    Command::new("zpopmin", -2, ONE, Run::Write(zpopmin), "Removes the members in front."),
    Command::new("zpopmax", -2, ONE, Run::Write(zpopmax), "Removes the members at the end."),
];

/// The sorted set of a key, if it is there.
pub(super) fn look(call: &mut Call<'_>) -> Outcome<Option<SortedSet>> {
    look_at(call, call.args.at(1))
}

/// The sorted set of this key, if it is there.
pub(super) fn look_at(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<SortedSet>> {
    match call.look_for(key, Kind::SortedSet)? {
        Some(entry) => Ok(Some(SortedSet::load(call.tx, entry)?)),
        None => Ok(None),
    }
}

/// The sorted set of a key, to be changed.
pub(super) fn claim(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<(Found, SortedSet)>> {
    match call.claim_for(key, Kind::SortedSet)? {
        Some(found) => Ok(Some((found, SortedSet::load(call.tx, found.entry)?))),
        None => Ok(None),
    }
}

/// After members were removed: an empty set is no key.
pub(super) fn finish(call: &mut Call<'_>, key: &[u8], set: SortedSet) -> Outcome {
    if set.len(call.tx)? == 0 {
        call.remove(key)?;
    }
    call.touch(key)
}

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
struct AddOptions {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increment: bool,
}

impl AddOptions {
    /// The options, and the index of the first score.
    fn parse(call: &Call<'_>) -> Outcome<(Self, usize)> {
        let mut options = AddOptions::default();
        let mut at = 2;
        loop {
            match () {
                () if call.args.is(at, "nx") => options.absent = true,
                () if call.args.is(at, "xx") => options.present = true,
                () if call.args.is(at, "gt") => options.greater = true,
                () if call.args.is(at, "lt") => options.less = true,
                () if call.args.is(at, "ch") => options.changed = true,
                () if call.args.is(at, "incr") => options.increment = true,
                () => break,
            }
            at += 1;
        }
        let rest = call.args.len() - at;
        if rest == 0 || !rest.is_multiple_of(2) {
            return Err(Failure::SYNTAX);
        }
        options.check(rest / 2)?;
        Ok((options, at))
    }

    fn check(self, pairs: usize) -> Outcome {
        let text = if self.absent && self.present {
            "ERR XX and NX options at the same time are not compatible"
        } else if self.absent && (self.greater || self.less) || self.greater && self.less {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.increment && pairs > 1 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(Failure::Say(text.into()))
    }

    /// The new score of a member; `None` if it stays as it is.
    fn score(self, old: Option<f64>, given: f64) -> Outcome<Option<f64>> {
        let Some(old) = old else { return Ok((!self.present).then_some(given)) };
        if self.absent {
            return Ok(None);
        }
        let new = if self.increment { old + given } else { given };
        if new.is_nan() {
            return Err(Failure::SCORE_NAN);
        }
        let refused = self.greater && new <= old || self.less && new >= old;
        Ok((!refused).then_some(new))
    }
}

pub(super) fn zadd(call: &mut Call<'_>) -> Outcome {
    let (options, first) = AddOptions::parse(call)?;
    add(call, options, first)
}

fn zincrby(call: &mut Call<'_>) -> Outcome {
    add(call, AddOptions { increment: true, ..AddOptions::default() }, 2)
}

fn add(call: &mut Call<'_>, options: AddOptions, first: usize) -> Outcome {
    // All of them are numbers, or nothing is done.
    for index in (first..call.args.len()).step_by(2) {
        call.float(index)?;
    }
    let mut claimed = claim(call, call.args.at(1))?;
    if claimed.is_none() && !options.present {
        let set = SortedSet::create(call.tx, call.db)?;
        call.put(call.args.at(1), None, set.entry())?;
        claimed = claim(call, call.args.at(1))?;
    }
    let (mut added, mut updated, mut last) = (0, 0, None);
    if let Some((_, set)) = claimed {
        for index in (first..call.args.len()).step_by(2) {
            let (given, member) = (call.float(index)?, call.args.at(index + 1));
            let old = set.find(call.tx, member)?;
            last = options.score(old.map(|old| old.score), given)?;
            let Some(new) = last else { continue };
            // The negative zero is stored as the other one, as in Redis's small sets.
            set.set(call.tx, member, old, new + 0.0)?;
            added += i64::from(old.is_none());
            updated += i64::from(old.is_some_and(|old| old.score != new));
        }
        if added + updated > 0 {
            call.touch(call.args.at(1))?;
        }
    }
    match (options.increment, last) {
        (true, Some(score)) => call.out.double(score),
        (true, None) => call.out.null(),
        (false, _) if options.changed => call.out.integer(added + updated),
        (false, _) => call.out.integer(added),
    }
    Ok(())
}

fn zrem(call: &mut Call<'_>) -> Outcome {
    let mut removed = 0;
    if let Some((_, set)) = claim(call, call.args.at(1))? {
        for member in call.args.from(2).iter() {
            removed += i64::from(set.remove(call.tx, member)?);
        }
        if removed > 0 {
            finish(call, call.args.at(1), set)?;
        }
    }
    call.out.integer(removed);
    Ok(())
}

fn zcard(call: &mut Call<'_>) -> Outcome {
    let len = match look(call)? {
        Some(set) => set.len(call.tx)?,
        None => 0,
    };
    call.out.size(len);
    Ok(())
}

/// Answers members. In RESP3, those with scores are `paired` into arrays.
pub(super) fn reply_members(
    call: &mut Call<'_>,
    members: &[(f64, Vec<u8>)],
    with_scores: bool,
    paired: bool,
) {
    let nested = with_scores && paired && call.out.protocol() == Protocol::Resp3;
    let elements = if with_scores && !nested { 2 } else { 1 };
    call.out.array(members.len() * elements);
    for (score, member) in members {
        if nested {
            call.out.array(2);
        }
        call.out.bulk(member);
        if with_scores {
            call.out.double(*score);
        }
    }
}

fn reply_score(call: &mut Call<'_>, set: Option<SortedSet>, member: &[u8]) -> Outcome {
    let score = match set {
        Some(set) => set.score(call.tx, member)?,
        None => None,
    };
    match score {
        Some(score) => call.out.double(score),
        None => call.out.null(),
    }
    Ok(())
}

fn zscore(call: &mut Call<'_>) -> Outcome {
    let set = look(call)?;
    reply_score(call, set, call.args.at(2))
}

fn zmscore(call: &mut Call<'_>) -> Outcome {
    let set = look(call)?;
    let members = call.args.from(2);
    call.out.array(members.len());
    for member in members.iter() {
        reply_score(call, set, member)?;
    }
    Ok(())
}

fn zrank(call: &mut Call<'_>) -> Outcome {
    rank(call, |before, _| before)
}

fn zrevrank(call: &mut Call<'_>) -> Outcome {
    rank(call, |before, len| len.saturating_sub(before + 1))
}

fn rank(call: &mut Call<'_>, of: fn(u64, u64) -> u64) -> Outcome {
    let member = call.args.at(2);
    if let Some(set) = look(call)?
        && let Some(score) = set.score(call.tx, member)?
    {
        let edge = Edge::BeforeMember(score, member.to_vec());
        let before = set.count_before(call.tx, &edge)?;
        let len = set.len(call.tx)?;
        call.out.size(of(before, len));
    } else {
        call.out.null();
    }
    Ok(())
}

fn zpopmin(call: &mut Call<'_>) -> Outcome {
    pop(call, false)
}

fn zpopmax(call: &mut Call<'_>) -> Outcome {
    pop(call, true)
}

fn pop(call: &mut Call<'_>, last: bool) -> Outcome {
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let counted = call.args.len() == 3;
    let count = if counted { number::parse_i64(call.args.at(2)) } else { Some(1) };
    let Some(count) = count.and_then(|count| u64::try_from(count).ok()) else {
        return Err(Failure::MUST_BE_POSITIVE);
    };
    let key = call.args.at(1);
    let popped = match claim(call, key)? {
        Some((_, set)) => take(call, key, set, (last, count))?,
        None => Vec::new(),
    };
    reply_members(call, &popped, true, counted);
    Ok(())
}

/// Bytes of the shortest reply for a member, without the member's own: it is a bulk string, and its score has a digit.
pub(super) const LEAST_REPLY: usize = 6 + 4;

/// Removes at most `count` members from the end with the lowest scores, or from the last one. If the reply cannot have
/// so many, it is cut, and they are not removed.
pub(super) fn take(
    call: &mut Call<'_>,
    key: &[u8],
    set: SortedSet,
    (last, count): (bool, u64),
) -> Outcome<Vec<(f64, Vec<u8>)>> {
    let mut popped = Vec::new();
    let end = if last { set.len(call.tx)?.saturating_sub(1) } else { 0 };
    let mut walk = set.walk_at(call.tx, end, last)?;
    let mut bytes = 0;
    while (popped.len() as u64) < count
        && let Some(next) = walk.next(call.tx)?
    {
        // What cannot be answered need not be collected.
        bytes += next.1.len() + LEAST_REPLY;
        if !call.out.has_room(bytes) {
            return Ok(Vec::new());
        }
        popped.push(next);
    }
    for (_, member) in &popped {
        set.remove(call.tx, member)?;
    }
    if !popped.is_empty() {
        finish(call, key, set)?;
    }
    Ok(popped)
}
