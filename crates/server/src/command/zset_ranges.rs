//! Sorted sets: ranges of members.

use super::score_range::{self, By, Limits};
use super::{Call, Command, Failure, Outcome, Run, zset_algebra, zsets};
use crate::keyspace::zset::SortedSet;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("zrange", -4, ONE, Run::Read(zrange), "A range of members."),
    Command::new("zrangebyscore", -4, ONE, Run::Read(zrangebyscore), "Members by score."),
    Command::new("zrangebylex", -4, ONE, Run::Read(zrangebylex), "Members by name."),
    Command::new("zrevrange", -4, ONE, Run::Read(zrevrange), "Members from the end."),
    Command::new("zrevrangebyscore", -4, ONE, Run::Read(zrevrangebyscore), "Members by score."),
    Command::new("zrevrangebylex", -4, ONE, Run::Read(zrevrangebylex), "Members by name."),
    Command::new("zrangestore", -5, (1, 2, 1), Run::Write(zrangestore), "Stores a range."),
    Command::new("zcount", 4, ONE, Run::Read(zcount), "Counts members by score."),
    Command::new("zlexcount", 4, ONE, Run::Read(zlexcount), "Counts members by name."),
    Command::new("zremrangebyrank", 4, ONE, Run::Write(zremrangebyrank), "Removes members."),
    Command::new("zremrangebyscore", 4, ONE, Run::Write(zremrangebyscore), "Removes members."),
    Command::new("zremrangebylex", 4, ONE, Run::Write(zremrangebylex), "Removes members."),
];

/// The arguments of a range command.
struct Query {
    by: By,
    backwards: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl Query {
    fn new(by: By, backwards: bool) -> Self {
        Query { by, backwards, with_scores: false, limit: None }
    }

    /// Reads the options from `first` on; `general` ones are ZRANGE's alone, and are given once.
    fn parse(&mut self, call: &Call<'_>, general: bool, first: usize) -> Outcome {
        let args = &call.args;
        let (mut chosen, mut turned) = (!general, !general);
        let mut at = first;
        while at < args.len() {
            match () {
                () if args.is(at, "withscores") => self.with_scores = true,
                () if args.is(at, "limit") && at + 2 < args.len() => {
                    self.limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
                    at += 2;
                }
                () if !turned && args.is(at, "rev") => (self.backwards, turned) = (true, true),
                () if !chosen && args.is(at, "byscore") => (self.by, chosen) = (By::Score, true),
                () if !chosen && args.is(at, "bylex") => (self.by, chosen) = (By::Member, true),
                () => return Err(Failure::SYNTAX),
            }
            at += 1;
        }
        // All of them from the first on: that is no limit.
        if self.by == By::Rank && self.limit.is_some_and(|(_, count)| count == -1) {
            self.limit = None;
        }
        let text = if self.limit.is_some() && self.by == By::Rank {
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
        } else if self.with_scores && self.by == By::Member {
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX"
        } else {
            return Ok(());
        };
        Err(Failure::Say(text.into()))
    }

    fn run(self, call: &mut Call<'_>) -> Outcome {
        let turned = self.backwards && self.by != By::Rank;
        let (low, high) = if turned { (3, 2) } else { (2, 3) };
        let limits = Limits::parse(call, self.by, low, high)?;
        let mut found = Vec::new();
        if let Some(set) = zsets::look(call)? {
            let mut bytes = 0;
            score_range::walk(
                call,
                set,
                &limits,
                (self.backwards, self.limit),
                &mut |call, next| {
                    // What cannot be answered need not be collected.
                    bytes += next.1.len() + zsets::LEAST_REPLY;
                    found.push(next);
                    Ok(call.out.has_room(bytes))
                },
            )?;
        }
        if call.out.is_cut() {
            return Ok(());
        }
        zsets::reply_members(call, &found, self.with_scores, true);
        Ok(())
    }
}

fn zrange(call: &mut Call<'_>) -> Outcome {
    let mut query = Query::new(By::Rank, false);
    query.parse(call, true, 4)?;
    query.run(call)
}

/// ZRANGE into another key.
fn zrangestore(call: &mut Call<'_>) -> Outcome {
    let mut query = Query::new(By::Rank, false);
    query.parse(call, true, 5)?;
    if query.with_scores {
        return Err(Failure::SYNTAX);
    }
    let turned = query.backwards && query.by != By::Rank;
    let (low, high) = if turned { (4, 3) } else { (3, 4) };
    let limits = Limits::parse(call, query.by, low, high)?;
    let mut stored = None;
    if let Some(set) = zsets::look_at(call, call.args.at(2))? {
        let order = (query.backwards, query.limit);
        score_range::walk(call, set, &limits, order, &mut |call, (score, member)| {
            let stored = match stored {
                Some(stored) => stored,
                None => *stored.insert(SortedSet::create(call.tx, call.db)?),
            };
            stored.set(call.tx, &member, None, score)?;
            Ok(true)
        })?;
    }
    zset_algebra::put(call, call.args.at(1), stored)
}

fn specific(call: &mut Call<'_>, by: By, backwards: bool) -> Outcome {
    let mut query = Query::new(by, backwards);
    query.parse(call, false, 4)?;
    query.run(call)
}

fn zrangebyscore(call: &mut Call<'_>) -> Outcome {
    specific(call, By::Score, false)
}

fn zrangebylex(call: &mut Call<'_>) -> Outcome {
    specific(call, By::Member, false)
}

fn zrevrange(call: &mut Call<'_>) -> Outcome {
    specific(call, By::Rank, true)
}

fn zrevrangebyscore(call: &mut Call<'_>) -> Outcome {
    specific(call, By::Score, true)
}

fn zrevrangebylex(call: &mut Call<'_>) -> Outcome {
    specific(call, By::Member, true)
}

fn count(call: &mut Call<'_>, by: By) -> Outcome {
    let limits = Limits::parse(call, by, 2, 3)?;
    let count = match zsets::look(call)? {
        Some(set) => score_range::count(call, set, &limits)?,
        None => 0,
    };
    call.out.size(count);
    Ok(())
}

fn zcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Score)
}

fn zlexcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Member)
}

fn remove(call: &mut Call<'_>, by: By) -> Outcome {
    let limits = Limits::parse(call, by, 2, 3)?;
    let mut removed = 0;
    if let Some((_, set)) = zsets::claim(call, call.args.at(1))? {
        removed = score_range::remove(call, set, &limits)?;
        if removed > 0 {
            zsets::finish(call, call.args.at(1), set)?;
        }
    }
    call.out.size(removed);
    Ok(())
}

fn zremrangebyrank(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Rank)
}

fn zremrangebyscore(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Score)
}

fn zremrangebylex(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Member)
}
