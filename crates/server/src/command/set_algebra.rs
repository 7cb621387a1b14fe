//! Intersections, unions and differences of sets.
//!
//! No result is collected in memory: members are looked up in the other sets one by one, and answered, or stored in a new
//! set, which takes the place of the old key in the end.

use super::sets::look;
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::set::Set;
use crate::protocol::{Args, number};

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

/// The sets of keys, those of missing keys being none.
fn look_all(call: &mut Call<'_>, keys: Args<'_>) -> Outcome<Vec<Option<Set>>> {
    keys.iter().map(|key| look(call, key)).collect()
}

/// Calls `each` with every member of the result, until it returns false.
fn walk(
    call: &mut Call<'_>,
    operation: Operation,
    sets: Vec<Option<Set>>,
    each: &mut dyn FnMut(&mut Call<'_>, &[u8]) -> Outcome<bool>,
) -> Outcome {
    if operation == Operation::Intersection && sets.iter().any(Option::is_none) {
        return Ok(());
    }
    if operation == Operation::Difference && sets.first().is_none_or(Option::is_none) {
        return Ok(());
    }
    let mut sets: Vec<Set> = sets.into_iter().flatten().collect();
    if operation == Operation::Intersection {
        let mut lens = Vec::new();
        for set in sets {
            lens.push((set.len(call.tx)?, set));
        }
        lens.sort_by_key(|(len, _)| *len);
        sets = lens.into_iter().map(|(_, set)| set).collect();
    }
    // A union walks through all sets, and leaves out members of those before; the others walk through the first one.
    let walked = if operation == Operation::Union { sets.len() } else { sets.len().min(1) };
    for index in 0..walked {
        let (before, after) = (&sets[..index], &sets[index + 1..]);
        let mut going = true;
        let mut cursor = 0;
        while going {
            let (next, members) = sets[index].scan(call.tx, cursor, STEP)?;
            for (member, _) in members {
                let taken = match operation {
                    Operation::Union => !in_any(call, before, &member)?,
                    Operation::Difference => !in_any(call, after, &member)?,
                    Operation::Intersection => in_all(call, after, &member)?,
                };
                if taken && !each(call, &member)? {
                    return Ok(());
                }
            }
            cursor = next;
            going = cursor != 0;
        }
    }
    Ok(())
}

/// Members looked at in one step.
const STEP: u64 = 256;

fn in_any(call: &mut Call<'_>, sets: &[Set], member: &[u8]) -> Outcome<bool> {
    for set in sets {
        if set.contains(call.tx, member)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn in_all(call: &mut Call<'_>, sets: &[Set], member: &[u8]) -> Outcome<bool> {
    for set in sets {
        if !set.contains(call.tx, member)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Answers the result.
fn answer(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let sets = look_all(call, call.args.from(1))?;
    let (start, mut count) = (call.out.len(), 0);
    walk(call, operation, sets, &mut |call, member| {
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
    let sets = look_all(call, call.args.from(2))?;
    let mut result = Set::load(call.tx, None)?;
    walk(call, operation, sets, &mut |call, member| {
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
    let sets = look_all(call, keys)?;
    let mut count = 0;
    walk(call, Operation::Intersection, sets, &mut |_, _| {
        count += 1;
        Ok(count < limit)
    })?;
    call.out.size(count);
    Ok(())
}
