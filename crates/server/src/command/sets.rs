//! Sets: adding, removing, moving and looking up members.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::set::Set;
use crate::keyspace::{Found, Kind};

const ONE: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("sadd", -3, ONE, Run::Write(sadd), "Adds members to a set.").with_member(2),
    Command::brief("srem", -3, ONE, Run::Write(srem), "Removes members from a set.").with_member(2),
    Command::brief("sismember", 3, ONE, Run::Read(sismember), "Whether a member is there.")
        .with_member(2),
    Command::brief("smismember", -3, ONE, Run::Read(smismember), "Which members are there."),
    Command::new("smembers", 2, ONE, Run::Read(smembers), "All members of a set."),
    Command::brief("scard", 2, ONE, Run::Read(scard), "How many members a set has."),
    Command::brief("smove", 4, TWO, Run::Write(smove), "Moves a member to another set."),
];

/// The set of a key, if it is there.
pub(super) fn look(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<Set>> {
    match call.look_for(key, Kind::Set)? {
        Some(entry) => Ok(Some(Set::load(call.tx, Some(entry))?)),
        None => Ok(None),
    }
}

/// The set of a key, to be changed.
pub(super) fn claim(call: &mut Call<'_>, key: &[u8]) -> Outcome<(Option<Found>, Set)> {
    let old = call.claim_for(key, Kind::Set)?;
    let set = Set::load(call.tx, old.map(|old| old.entry))?;
    Ok((old, set))
}

/// Puts a changed set back. An empty set is no key.
pub(super) fn save(call: &mut Call<'_>, key: &[u8], old: Option<Found>, set: Set) -> Outcome {
    let empty = set.len(call.tx)? == 0;
    let expires = old.and_then(|old| old.entry.expires());
    let new = set.save(call.tx)?.expiring(expires);
    call.put(key, old, new)?;
    if empty {
        call.remove(key)?;
    }
    Ok(())
}

fn sadd(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let (old, mut set) = claim(call, key)?;
    let mut added = 0;
    for member in call.args.from(2).iter() {
        added += i64::from(set.set(call.tx, call.db, member, b"")?);
    }
    if added > 0 {
        save(call, key, old, set)?;
    }
    call.out.integer(added);
    Ok(())
}

fn srem(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let (old, mut set) = claim(call, key)?;
    let mut removed = 0;
    if old.is_some() {
        for member in call.args.from(2).iter() {
            removed += i64::from(set.remove(call.tx, member)?);
        }
        if removed > 0 {
            save(call, key, old, set)?;
        }
    }
    call.out.integer(removed);
    Ok(())
}

fn has(call: &mut Call<'_>, set: Option<&Set>, member: &[u8]) -> Outcome<bool> {
    match set {
        Some(set) => Ok(set.contains(call.tx, member)?),
        None => Ok(false),
    }
}

fn sismember(call: &mut Call<'_>) -> Outcome {
    let set = look(call, call.args.at(1))?;
    let there = has(call, set.as_ref(), call.args.at(2))?;
    call.out.flag(there);
    Ok(())
}

fn smismember(call: &mut Call<'_>) -> Outcome {
    let set = look(call, call.args.at(1))?;
    let members = call.args.from(2);
    call.out.array(members.len());
    for member in members.iter() {
        let there = has(call, set.as_ref(), member)?;
        call.out.flag(there);
    }
    Ok(())
}

fn smembers(call: &mut Call<'_>) -> Outcome {
    let (start, mut count) = (call.out.len(), 0);
    if let Some(set) = look(call, call.args.at(1))? {
        let out = &mut call.out;
        set.for_each(call.tx, &mut |member, _| {
            out.bulk(member);
            count += 1;
        })?;
    }
    call.out.set_since(start, count);
    Ok(())
}

fn scard(call: &mut Call<'_>) -> Outcome {
    let len = match look(call, call.args.at(1))? {
        Some(set) => set.len(call.tx)?,
        None => 0,
    };
    call.out.size(len);
    Ok(())
}

fn smove(call: &mut Call<'_>) -> Outcome {
    let (from, to, member) = (call.args.at(1), call.args.at(2), call.args.at(3));
    let Some(source) = call.claim(from)? else {
        call.out.flag(false);
        return Ok(());
    };
    let target = call.claim(to)?;
    if [Some(source), target].into_iter().flatten().any(|found| found.entry.kind() != Kind::Set) {
        return Err(Failure::WRONG_TYPE);
    }
    // Once more: if the other key had expired, its removal may have moved this one's entry.
    let (old, mut set) = claim(call, from)?;
    let moved = if from == to {
        set.contains(call.tx, member)?
    } else {
        let there = set.remove(call.tx, member)?;
        if there {
            save(call, from, old, set)?;
            // The first set's key may be gone: where the second one's entry is has to be looked up again.
            let (old, mut set) = claim(call, to)?;
            if set.set(call.tx, call.db, member, b"")? {
                save(call, to, old, set)?;
            }
        }
        there
    };
    call.out.flag(moved);
    Ok(())
}
