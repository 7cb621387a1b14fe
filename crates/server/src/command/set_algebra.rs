//! Intersections, unions and differences of sets.
//!
//! No result is collected in memory: members are looked up in the other sets, some at a time, and answered, or stored in a
//! new set, which takes the place of the old key in the end. Only SUNION of many sets remembers what it has answered.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::set::Set;
use crate::keyspace::{Entry, Kind};
use crate::protocol::{Args, number};
use std::collections::HashSet;

const ALL: (i32, i32, i32) = (1, -1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("sinter", -2, ALL, Run::Read(sinter), "Members of all of the sets."),
    Command::new("sinterstore", -3, ALL, Run::Write(sinterstore), "Stores an intersection."),
    Command::new("sintercard", -3, NUMBERED, Run::Read(sintercard), "Counts an intersection."),
    Command::new("sunion", -2, ALL, Run::Read(sunion), "Members of any of the sets."),
    Command::new("sunionstore", -3, ALL, Run::Write(sunionstore), "Stores a union."),
    Command::new("sdiff", -2, ALL, Run::Read(sdiff), "Members of the first set alone."),
    Command::new("sdiffstore", -3, ALL, Run::Write(sdiffstore), "Stores a difference."),
];

/// The keys come after their number: COMMAND has no place for that.
const NUMBERED: (i32, i32, i32) = (0, 0, 0);

/// What becomes of several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

/// The sets of an operation. A small set is copied only while it is walked through, or members are looked up in it.
struct Sources {
    operation: Operation,
    /// Those to be walked through.
    walked: Vec<Entry>,
    /// Those in which members are looked up.
    others: Vec<Entry>,
}

/// Looks the sets of all keys up. Each key counts once, but for the first set of a difference, which differs from itself
/// in nothing.
fn look_all(call: &mut Call<'_>, operation: Operation, keys: Args<'_>) -> Outcome<Sources> {
    let (mut seen, mut sets, mut missing, mut first) = (HashSet::new(), Vec::new(), false, None);
    for (index, key) in keys.iter().enumerate() {
        if !seen.insert(key) {
            missing |= operation == Operation::Difference && key == keys.at(0);
            continue;
        }
        match call.look_for(key, Kind::Set)? {
            Some(entry) if index == 0 && operation == Operation::Difference => first = Some(entry),
            Some(entry) => sets.push(entry),
            None => {
                missing |= operation == Operation::Intersection
                    || operation == Operation::Difference && index == 0;
            }
        }
    }
    let mut sources = Sources { operation, walked: Vec::new(), others: Vec::new() };
    match operation {
        // The result is empty.
        _ if missing => {}
        Operation::Union => sources.walked = sets,
        Operation::Difference => {
            sources.walked.extend(first);
            sources.others = sets;
        }
        Operation::Intersection => {
            let mut lens = Vec::new();
            for entry in sets {
                lens.push((Set::load(call.tx, Some(entry))?.len(call.tx)?, entry));
            }
            lens.sort_by_key(|(len, _)| *len);
            let mut sorted = lens.into_iter().map(|(_, entry)| entry);
            sources.walked.extend(sorted.next());
            sources.others = sorted.collect();
        }
    }
    Ok(sources)
}

/// Calls `each` with every member of the result, until it returns false; with those of a union that are in several sets
/// more than once, if `again` is true.
fn walk(
    call: &mut Call<'_>,
    sources: &Sources,
    again: bool,
    each: &mut dyn FnMut(&mut Call<'_>, &[u8]) -> Outcome<bool>,
) -> Outcome {
    let mut seen = HashSet::new();
    let wanted = sources.operation == Operation::Intersection;
    for (index, entry) in sources.walked.iter().enumerate() {
        let before = if again { 0 } else { index.min(FEW) };
        let last = index + 1 == sources.walked.len();
        let set = Set::load(call.tx, Some(*entry))?;
        let mut cursor = 0;
        loop {
            let (next, members) = set.scan(call.tx, cursor, STEP)?;
            let mut members = members.into_iter().map(|(member, _)| member).collect();
            for other in &sources.others {
                keep(call, &mut members, *other, wanted)?;
            }
            for other in &sources.walked[..before] {
                keep(call, &mut members, *other, false)?;
            }
            for member in members {
                if seen.contains(&member) {
                    continue;
                }
                if !each(call, &member)? {
                    return Ok(());
                }
                if !again && index >= FEW && !last {
                    seen.insert(member);
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

/// Members looked at in one step.
const STEP: u64 = 256;
/// A union's members are looked up in so many sets; those of further sets are remembered. They were answered, so the
/// longest reply bounds how many they are.
const FEW: usize = 8;

/// Keeps the members that are in a set, or those that are not.
fn keep(call: &mut Call<'_>, members: &mut Vec<Vec<u8>>, set: Entry, wanted: bool) -> Outcome {
    if members.is_empty() {
        return Ok(());
    }
    let set = Set::load(call.tx, Some(set))?;
    let mut kept = Vec::with_capacity(members.len());
    for member in members.drain(..) {
        if set.contains(call.tx, &member)? == wanted {
            kept.push(member);
        }
    }
    *members = kept;
    Ok(())
}

/// Answers the result.
fn answer(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let sources = look_all(call, operation, call.args.from(1))?;
    let (start, mut count) = (call.out.len(), 0);
    walk(call, &sources, false, &mut |call, member| {
        call.out.bulk(member);
        count += 1;
        Ok(!call.out.is_cut())
    })?;
    call.out.set_since(start, count);
    Ok(())
}

/// Stores the result in the place of a key of any kind, and answers how many members it has.
fn store(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let key = call.args.at(1);
    let sources = look_all(call, operation, call.args.from(2))?;
    let mut result = Set::load(call.tx, None)?;
    walk(call, &sources, true, &mut |call, member| {
        result.set(call.tx, call.db, member, b"")?;
        Ok(true)
    })?;
    let len = result.len(call.tx)?;
    call.remove(key)?;
    if len > 0 {
        let new = result.save(call.tx)?;
        call.put(key, None, new)?;
    }
    call.out.size(len);
    Ok(())
}

fn sinter(call: &mut Call<'_>) -> Outcome {
    answer(call, Operation::Intersection)
}

fn sunion(call: &mut Call<'_>) -> Outcome {
    answer(call, Operation::Union)
}

fn sdiff(call: &mut Call<'_>) -> Outcome {
    answer(call, Operation::Difference)
}

fn sinterstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Intersection)
}

fn sunionstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Union)
}

fn sdiffstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Difference)
}

/// A number of keys, and the keys after it.
pub(super) fn numbered_keys<'a>(args: Args<'a>) -> Outcome<(Args<'a>, Args<'a>)> {
    let count = number::parse_i64(args.at(0)).and_then(|count| usize::try_from(count).ok());
    match count.filter(|count| *count > 0) {
        None => Err(Failure::Say("ERR numkeys should be greater than 0".into())),
        Some(count) => Ok((args.first(1, count), args.from(count.saturating_add(1)))),
    }
}

fn sintercard(call: &mut Call<'_>) -> Outcome {
    let (keys, rest) = numbered_keys(call.args.from(1))?;
    if Some(keys.len() as i64) != number::parse_i64(call.args.at(1)) {
        let text = "ERR Number of keys can't be greater than number of args";
        return Err(Failure::Say(text.into()));
    }
    let mut limit = u64::MAX;
    for at in (0..rest.len()).step_by(2) {
        let Some(value) = rest.get(at + 1).filter(|_| rest.is(at, "limit")) else {
            return Err(Failure::SYNTAX);
        };
        let given = number::parse_i64(value).and_then(|limit| u64::try_from(limit).ok());
        limit = match given.ok_or(Failure::Say("ERR LIMIT can't be negative".into()))? {
            0 => u64::MAX,
            limit => limit,
        };
    }
    let sources = look_all(call, Operation::Intersection, keys)?;
    let mut count = 0;
    walk(call, &sources, false, &mut |_, _| {
        count += 1;
        Ok(count < limit)
    })?;
    call.out.size(count);
    Ok(())
}
