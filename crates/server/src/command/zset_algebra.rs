//! Unions, intersections and differences of sorted sets, and of sets, whose members count as having the score 1.
//!
//! What is stored is not collected in memory: it goes into a new sorted set, which takes the place of the old key in the
//! end. What is answered is collected, since it is sorted: the longest reply bounds it.

use super::zsets::reply_members;
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::set::Set;
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{Entry, Kind};
use crate::protocol::number;
use std::collections::HashMap;

const NUMBERED: (i32, i32, i32) = (0, 0, 0);
const STORED: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("zunion", -3, NUMBERED, Run::Read(zunion), "Members of any of the sets."),
    Command::new("zinter", -3, NUMBERED, Run::Read(zinter), "Members of all of the sets."),
    Command::new("zdiff", -3, NUMBERED, Run::Read(zdiff), "Members of the first set alone."),
    Command::new("zintercard", -3, NUMBERED, Run::Read(zintercard), "Counts an intersection."),
    Command::new("zunionstore", -4, STORED, Run::Write(zunionstore), "Stores a union."),
    Command::new("zinterstore", -4, STORED, Run::Write(zinterstore), "Stores an intersection."),
    Command::new("zdiffstore", -4, STORED, Run::Write(zdiffstore), "Stores a difference."),
];

/// Members looked at in one step.
const STEP: u64 = 256;
/// Bytes of the shortest bulk string, without its contents.
const BULK: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// How the scores of a member of several sets become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => defined(one + other),
            Aggregate::Least if other < one => other,
            Aggregate::Greatest if other > one => other,
            Aggregate::Least | Aggregate::Greatest => one,
        }
    }
}

/// A score; of infinities that cancel each other it is zero.
fn defined(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Members with their scores.
type Scored = Vec<(Vec<u8>, f64)>;
/// Told of a member and its score; false ends the walk.
type EachScored<'a> = dyn FnMut(&mut Call<'_>, Vec<u8>, f64) -> Outcome<bool> + 'a;

/// A set of an operation.
#[derive(Clone, Copy)]
struct Source {
    /// None if it is empty.
    entry: Option<Entry>,
    len: u64,
    weight: f64,
}

impl Source {
    fn load(call: &mut Call<'_>, key: &[u8]) -> Outcome<Self> {
        let entry = call.look(key)?;
        let len = match entry.map(|entry| (entry, entry.kind())) {
            None => 0,
            Some((entry, Kind::SortedSet)) => SortedSet::load(call.tx, entry)?.len(call.tx)?,
            Some((entry, Kind::Set)) => Set::load(call.tx, Some(entry))?.len(call.tx)?,
            Some(_) => return Err(Failure::WRONG_TYPE),
        };
        Ok(Source { entry, len, weight: 1.0 })
    }

    /// Some members with their scores from the cursor on, and the cursor to go on with.
    fn scan(&self, call: &mut Call<'_>, cursor: u64) -> Outcome<(u64, Scored)> {
        let Some(entry) = self.entry else { return Ok((0, Vec::new())) };
        if entry.kind() == Kind::SortedSet {
            return Ok(SortedSet::load(call.tx, entry)?.scan(call.tx, cursor, STEP)?);
        }
        let (next, members) = Set::load(call.tx, Some(entry))?.scan(call.tx, cursor, STEP)?;
        Ok((next, members.into_iter().map(|(member, _)| (member, 1.0)).collect()))
    }

    /// The scores of some members, each without the set's weight.
    fn scores(&self, call: &mut Call<'_>, members: &[(Vec<u8>, f64)]) -> Outcome<Vec<Option<f64>>> {
        let Some(entry) = self.entry else { return Ok(vec![None; members.len()]) };
        let mut scores = Vec::with_capacity(members.len());
        if entry.kind() == Kind::SortedSet {
            let set = SortedSet::load(call.tx, entry)?;
            for (member, _) in members {
                scores.push(set.score(call.tx, member)?);
            }
        } else {
            let set = Set::load(call.tx, Some(entry))?;
            for (member, _) in members {
                scores.push(set.contains(call.tx, member)?.then_some(1.0));
            }
        }
        Ok(scores)
    }
}

/// A command's arguments.
struct Query {
    operation: Operation,
    sources: Vec<Source>,
    aggregate: Aggregate,
    with_scores: bool,
    /// At most so many members are counted.
    limit: u64,
}

/// What becomes of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Reply,
    Store,
    Count,
}

impl Query {
    /// Reads the arguments from the number of keys on.
    fn parse(
        call: &mut Call<'_>,
        name: &str,
        operation: Operation,
        goal: Goal,
        first: usize,
    ) -> Outcome<Self> {
        let args = call.args;
        let count = call.integer(first)?;
        if count < 1 {
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(Failure::say(text));
        }
        let Some(count) = usize::try_from(count).ok().filter(|&n| n < args.len() - first) else {
            return Err(Failure::SYNTAX);
        };
        let mut sources = Vec::new();
        for key in args.first(first + 1, count).iter() {
            sources.push(Source::load(call, key)?);
        }
        let mut query = Query {
            operation,
            sources,
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: u64::MAX,
        };
        let mut at = first + 1 + count;
        while at < args.len() {
            let left = args.len() - at;
            let weighs = operation != Operation::Difference && goal != Goal::Count;
            if weighs && left > count && args.is(at, "weights") {
                for (index, source) in query.sources.iter_mut().enumerate() {
                    let weight = number::parse_f64(args.at(at + 1 + index));
                    let wrong = Failure::Say("ERR weight value is not a float".into());
                    source.weight = weight.ok_or(wrong)?;
                }
                at += 1 + count;
            } else if weighs && left >= 2 && args.is(at, "aggregate") {
                query.aggregate = match () {
                    () if args.is(at + 1, "sum") => Aggregate::Sum,
                    () if args.is(at + 1, "min") => Aggregate::Least,
                    () if args.is(at + 1, "max") => Aggregate::Greatest,
                    () => return Err(Failure::SYNTAX),
                };
                at += 2;
            } else if goal == Goal::Reply && args.is(at, "withscores") {
                query.with_scores = true;
                at += 1;
            } else if goal == Goal::Count && left >= 2 && args.is(at, "limit") {
                let limit = number::parse_i64(args.at(at + 1)).and_then(|n| u64::try_from(n).ok());
                let wrong = Failure::Say("ERR LIMIT can't be negative".into());
                query.limit = match limit.ok_or(wrong)? {
                    0 => u64::MAX,
                    limit => limit,
                };
                at += 2;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if operation != Operation::Difference {
            query.sources.sort_by_key(|source| source.len);
        }
        Ok(query)
    }

    /// Calls `each` with the members of the result, and for a union with each member of each set, until it returns false.
    fn walk(&self, call: &mut Call<'_>, each: &mut EachScored<'_>) -> Outcome {
        let (walked, others) = match self.operation {
            Operation::Union => (self.sources.as_slice(), [].as_slice()),
            Operation::Intersection | Operation::Difference => self.sources.split_at(1),
        };
        for source in walked {
            let mut cursor = 0;
            loop {
                let (next, mut members) = source.scan(call, cursor)?;
                members.iter_mut().for_each(|(_, score)| *score = defined(source.weight * *score));
                for other in others {
                    let scores = other.scores(call, &members)?;
                    let mut scores = scores.into_iter();
                    members.retain_mut(|(_, score)| {
                        let found = scores.next().flatten();
                        if self.operation == Operation::Difference {
                            return found.is_none();
                        }
                        let Some(found) = found else { return false };
                        *score = self.aggregate.of(*score, found * other.weight);
                        true
                    });
                }
                for (member, score) in members {
                    if !each(call, member, score)? {
                        return Ok(());
                    }
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Answers the members in the order of their scores.
    fn reply(&self, call: &mut Call<'_>) -> Outcome {
        let mut found: HashMap<Vec<u8>, f64> = HashMap::new();
        let mut bytes = 0;
        self.walk(call, &mut |call, member, score| {
            if let Some(known) = found.get_mut(&member) {
                *known = self.aggregate.of(*known, score);
                return Ok(true);
            }
            bytes += member.len() + BULK;
            found.insert(member, score);
            // What cannot be answered need not be collected.
            Ok(call.out.has_room(bytes))
        })?;
        if call.out.is_cut() {
            return Ok(());
        }
        // There is one zero.
        let mut members: Vec<_> =
            found.into_iter().map(|(name, score)| (score + 0.0, name)).collect();
        members.sort_by(|(a, name), (b, other)| a.total_cmp(b).then_with(|| name.cmp(other)));
        reply_members(call, &members, self.with_scores, true);
        Ok(())
    }

    /// Puts the result in the place of a key of any kind, and answers how many members it has.
    fn store(&self, call: &mut Call<'_>) -> Outcome {
        let key = call.args.at(1);
        let mut result = None;
        self.walk(call, &mut |call, member, score| {
            let set = match result {
                Some(set) => set,
                None => *result.insert(SortedSet::create(call.tx, call.db)?),
            };
            let old = match self.operation {
                Operation::Union => set.find(call.tx, &member)?,
                Operation::Intersection | Operation::Difference => None,
            };
            let new = old.map_or(score, |old| self.aggregate.of(old.score, score));
            set.set(call.tx, &member, old, new + 0.0)?;
            Ok(true)
        })?;
        put(call, key, result)
    }
}

/// Puts a new sorted set in the place of a key of any kind, and answers how many members it has.
pub(super) fn put(call: &mut Call<'_>, key: &[u8], set: Option<SortedSet>) -> Outcome {
    call.remove(key)?;
    let len = match set {
        Some(set) => {
            call.put(key, None, set.entry())?;
            set.len(call.tx)?
        }
        None => 0,
    };
    call.out.size(len);
    Ok(())
}

fn zunion(call: &mut Call<'_>) -> Outcome {
    Query::parse(call, "zunion", Operation::Union, Goal::Reply, 1)?.reply(call)
}

fn zinter(call: &mut Call<'_>) -> Outcome {
    Query::parse(call, "zinter", Operation::Intersection, Goal::Reply, 1)?.reply(call)
}

fn zdiff(call: &mut Call<'_>) -> Outcome {
    Query::parse(call, "zdiff", Operation::Difference, Goal::Reply, 1)?.reply(call)
}

fn zintercard(call: &mut Call<'_>) -> Outcome {
    let query = Query::parse(call, "zintercard", Operation::Intersection, Goal::Count, 1)?;
    let mut count = 0;
    query.walk(call, &mut |_, _, _| {
        count += 1;
        Ok(count < query.limit)
    })?;
    call.out.size(count);
    Ok(())
}

fn zunionstore(call: &mut Call<'_>) -> Outcome {
    Query::parse(call, "zunionstore", Operation::Union, Goal::Store, 2)?.store(call)
}

fn zinterstore(call: &mut Call<'_>) -> Outcome {
    Query::parse(call, "zinterstore", Operation::Intersection, Goal::Store, 2)?.store(call)
}

fn zdiffstore(call: &mut Call<'_>) -> Outcome {
    Query::parse(call, "zdiffstore", Operation::Difference, Goal::Store, 2)?.store(call)
}
