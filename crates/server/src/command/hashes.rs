//! Hashes.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::hash::Hash;
use crate::keyspace::{Found, Kind};

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("hset", -4, ONE, Run::Write(hset), "Sets fields of a hash.").with_member(2),
    Command::brief("hmset", -4, ONE, Run::Write(hmset), "Sets fields of a hash.").with_member(2),
    Command::brief("hsetnx", 4, ONE, Run::Write(hsetnx), "Sets a field that is not there.")
        .with_member(2),
    Command::brief("hget", 3, ONE, Run::Read(hget), "Gets a field's value.").with_member(2),
    Command::brief("hmget", -3, ONE, Run::Read(hmget), "Gets several fields' values.")
        .with_member(2),
    Command::new("hgetall", 2, ONE, Run::Read(hgetall), "Gets all fields and values."),
    Command::new("hkeys", 2, ONE, Run::Read(hkeys), "Gets all fields."),
    Command::new("hvals", 2, ONE, Run::Read(hvals), "Gets all values."),
    Command::brief("hdel", -3, ONE, Run::Write(hdel), "Deletes fields.").with_member(2),
    Command::new("hlen", 2, ONE, Run::Read(hlen), "How many fields a hash has."),
    Command::brief("hexists", 3, ONE, Run::Read(hexists), "Whether a field is there.")
        .with_member(2),
    Command::new("hstrlen", 3, ONE, Run::Read(hstrlen), "The length of a field's value."),
];

/// The hash of a key; an empty one if the key is not there.
pub(super) fn look(call: &mut Call<'_>) -> Outcome<Option<Hash>> {
    match call.look_for(call.args.at(1), Kind::Hash)? {
        Some(entry) => Ok(Some(Hash::load(call.tx, Some(entry))?)),
        None => Ok(None),
    }
}

/// The hash of a key, to be changed.
pub(super) fn claim(call: &mut Call<'_>) -> Outcome<(Option<Found>, Hash)> {
    let old = call.claim_for(call.args.at(1), Kind::Hash)?;
    let hash = Hash::load(call.tx, old.map(|old| old.entry))?;
    Ok((old, hash))
}

/// Puts a changed hash back.
pub(super) fn save(call: &mut Call<'_>, old: Option<Found>, hash: Hash) -> Outcome {
    let expires = old.and_then(|old| old.entry.expires());
    let new = hash.save(call.tx)?.expiring(expires);
    call.put(call.args.at(1), old, new)
}

/// Sets the fields that the arguments name; how many are new.
fn set_fields(call: &mut Call<'_>, name: &str) -> Outcome<i64> {
    if !call.args.len().is_multiple_of(2) {
        return Err(Failure::arity(name));
    }
    let (old, mut hash) = claim(call)?;
    let mut added = 0;
    for index in (2..call.args.len()).step_by(2) {
        let (field, value) = (call.args.at(index), call.args.at(index + 1));
        added += i64::from(hash.set(call.tx, call.db, field, value)?);
    }
    save(call, old, hash)?;
    Ok(added)
}

fn hset(call: &mut Call<'_>) -> Outcome {
    let added = set_fields(call, "hset")?;
    call.out.integer(added);
    Ok(())
}

fn hmset(call: &mut Call<'_>) -> Outcome {
    set_fields(call, "hmset")?;
    call.out.ok();
    Ok(())
}

fn hsetnx(call: &mut Call<'_>) -> Outcome {
    let (old, mut hash) = claim(call)?;
    let new = !hash.contains(call.tx, call.args.at(2))?;
    if new {
        hash.set(call.tx, call.db, call.args.at(2), call.args.at(3))?;
        save(call, old, hash)?;
    }
    call.out.flag(new);
    Ok(())
}

fn reply_field(call: &mut Call<'_>, hash: Option<&Hash>, field: &[u8]) -> Outcome {
    let value = match hash {
        Some(hash) => hash.get(call.tx, field)?,
        None => None,
    };
    match value {
        Some(value) => call.out.bulk(&value),
        None => call.out.null(),
    }
    Ok(())
}

fn hget(call: &mut Call<'_>) -> Outcome {
    let hash = look(call)?;
    reply_field(call, hash.as_ref(), call.args.at(2))
}

fn hmget(call: &mut Call<'_>) -> Outcome {
    let hash = look(call)?;
    let fields = call.args.from(2);
    call.out.array(fields.len());
    for field in fields.iter() {
        reply_field(call, hash.as_ref(), field)?;
    }
    Ok(())
}

fn hgetall(call: &mut Call<'_>) -> Outcome {
    let (start, mut count) = (call.out.len(), 0);
    if let Some(hash) = look(call)? {
        let out = &mut call.out;
        hash.for_each(call.tx, &mut |field, value| {
            out.bulk(field);
            out.bulk(value);
            count += 1;
        })?;
    }
    call.out.map_since(start, count);
    Ok(())
}

fn hkeys(call: &mut Call<'_>) -> Outcome {
    list(call, |field, _| field)
}

fn hvals(call: &mut Call<'_>) -> Outcome {
    list(call, |_, value| value)
}

fn list(call: &mut Call<'_>, pick: for<'a> fn(&'a [u8], &'a [u8]) -> &'a [u8]) -> Outcome {
    let (start, mut count) = (call.out.len(), 0);
    if let Some(hash) = look(call)? {
        let out = &mut call.out;
        hash.for_each(call.tx, &mut |field, value| {
            out.bulk(pick(field, value));
            count += 1;
        })?;
    }
    call.out.array_since(start, count);
    Ok(())
}

fn hdel(call: &mut Call<'_>) -> Outcome {
    let (old, mut hash) = claim(call)?;
    let mut deleted = 0;
    if old.is_some() {
        for field in call.args.from(2).iter() {
            deleted += i64::from(hash.remove(call.tx, field)?);
        }
        let empty = hash.len(call.tx)? == 0;
        if deleted > 0 {
            save(call, old, hash)?;
        }
        if empty {
            call.remove(call.args.at(1))?;
        }
    }
    call.out.integer(deleted);
    Ok(())
}

fn hlen(call: &mut Call<'_>) -> Outcome {
    let len = match look(call)? {
        Some(hash) => hash.len(call.tx)?,
        None => 0,
    };
    call.out.size(len);
    Ok(())
}

fn hexists(call: &mut Call<'_>) -> Outcome {
    let there = match look(call)? {
        Some(hash) => hash.contains(call.tx, call.args.at(2))?,
        None => false,
    };
    call.out.flag(there);
    Ok(())
}

fn hstrlen(call: &mut Call<'_>) -> Outcome {
    let value = match look(call)? {
        Some(hash) => hash.get(call.tx, call.args.at(2))?,
        None => None,
    };
    call.out.size(value.map_or(0, |value| value.len() as u64));
    Ok(())
}
