//! Lists: adding, removing and moving elements at the ends.

use super::set_algebra::numbered_keys;
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::list::List;
use crate::keyspace::{End, Found, Kind};
use crate::protocol::{Args, number};

const ONE: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::brief("lpush", -3, ONE, Run::Write(lpush), "Adds elements at the left end."),
    Command::brief("rpush", -3, ONE, Run::Write(rpush), "Adds elements at the right end."),
    Command::brief("lpushx", -3, ONE, Run::Write(lpushx), "Adds elements to a list that is there."),
    Command::brief("rpushx", -3, ONE, Run::Write(rpushx), "Adds elements to a list that is there."),
    Command::brief("lpop", -2, ONE, Run::Write(lpop), "Removes elements from the left end."),
    Command::brief("rpop", -2, ONE, Run::Write(rpop), "Removes elements from the right end."),
    Command::brief("llen", 2, ONE, Run::Read(llen), "How many elements a list has."),
    Command::brief("lmove", 5, TWO, Run::Write(lmove), "Moves an element to another list."),
    Command::brief("rpoplpush", 3, TWO, Run::Write(rpoplpush), "Moves an element to another list."),
    Command::new(
        "lmpop",
        -4,
        NONE,
        Run::Write(lmpop),
        "Removes elements of the first list there is.",
    ),
];

/// The list of a key, if it is there.
pub(super) fn look(call: &mut Call<'_>) -> Outcome<Option<List>> {
    match call.look_for(call.args.at(1), Kind::List)? {
        Some(entry) => Ok(Some(List::load(call.tx, Some(entry))?)),
        None => Ok(None),
    }
}

/// The list of a key, to be changed.
pub(super) fn claim(call: &mut Call<'_>, key: &[u8]) -> Outcome<(Option<Found>, List)> {
    let old = call.claim_for(key, Kind::List)?;
    let list = List::load(call.tx, old.map(|old| old.entry))?;
    Ok((old, list))
}

/// Puts a changed list back. An empty list is no key.
pub(super) fn save(call: &mut Call<'_>, key: &[u8], old: Option<Found>, list: List) -> Outcome {
    let empty = list.len() == 0;
    let expires = old.and_then(|old| old.entry.expires());
    let new = list.save(call.tx)?.expiring(expires);
    call.put(key, old, new)?;
    if empty {
        call.remove(key)?;
    }
    Ok(())
}

fn lpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, false)
}

fn rpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, false)
}

fn lpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, true)
}

fn rpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, true)
}

fn push(call: &mut Call<'_>, end: End, present: bool) -> Outcome {
    let key = call.args.at(1);
    let (old, mut list) = claim(call, key)?;
    if old.is_none() && present {
        call.out.integer(0);
        return Ok(());
    }
    for element in call.args.from(2).iter() {
        list.push(call.tx, end, element)?;
    }
    let len = list.len();
    save(call, key, old, list)?;
    call.out.size(len);
    Ok(())
}

fn lpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Left)
}

fn rpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Right)
}

fn pop(call: &mut Call<'_>, end: End) -> Outcome {
    let (key, counted) = (call.args.at(1), call.args.len() == 3);
    if call.args.len() > 3 {
        let name = if end == End::Left { "lpop" } else { "rpop" };
        return Err(Failure::arity(name));
    }
    let count = if counted { number::parse_i64(call.args.at(2)) } else { Some(1) };
    let count = count.and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(Failure::MUST_BE_POSITIVE)?;
    let (old, mut list) = claim(call, key)?;
    match old {
        None if counted => call.out.null_array(),
        None => call.out.null(),
        Some(_) if counted => return pop_some(call, key, old, list, (end, count)),
        Some(_) => {
            let element = list.pop(call.tx, end)?.unwrap_or_default();
            save(call, key, old, list)?;
            call.out.bulk(&element);
        }
    }
    Ok(())
}

/// Removes at most `count` elements from an end of a list that is there, and answers them.
fn pop_some(
    call: &mut Call<'_>,
    key: &[u8],
    old: Option<Found>,
    mut list: List,
    (end, count): (End, u64),
) -> Outcome {
    let (len, mut left) = (list.len(), count.min(list.len()));
    call.out.array(left as usize);
    if left == 0 {
        return Ok(());
    }
    let out = &mut call.out;
    let first = if end == End::Left { 0 } else { len - 1 };
    list.walk(call.tx, first, end == End::Right, &mut |tx, element| {
        out.bulk(&element.read(tx)?);
        left -= 1;
        Ok::<bool, Failure>(left > 0 && !out.is_cut())
    })?;
    if count >= len {
        call.remove(key)?;
        return Ok(());
    }
    list.cut(call.tx, call.db, end, count)?;
    save(call, key, old, list)
}

fn llen(call: &mut Call<'_>) -> Outcome {
    let len = look(call)?.map_or(0, |list| list.len());
    call.out.size(len);
    Ok(())
}

/// LEFT or RIGHT.
pub(super) fn end(args: Args<'_>, at: usize) -> Outcome<End> {
    match () {
        () if args.is(at, "left") => Ok(End::Left),
        () if args.is(at, "right") => Ok(End::Right),
        () => Err(Failure::SYNTAX),
    }
}

fn lmove(call: &mut Call<'_>) -> Outcome {
    let ends = [end(call.args, 3)?, end(call.args, 4)?];
    if !move_between(call, ends)? {
        call.out.null();
    }
    Ok(())
}

fn rpoplpush(call: &mut Call<'_>) -> Outcome {
    if !move_between(call, [End::Right, End::Left])? {
        call.out.null();
    }
    Ok(())
}

/// Moves an element of the list that the first argument names to the one that the second names, from one end to the
/// other, and answers it. Whether there was one.
pub(super) fn move_between(call: &mut Call<'_>, [from_end, to_end]: [End; 2]) -> Outcome<bool> {
    let (from, to) = (call.args.at(1), call.args.at(2));
    if call.claim_for(from, Kind::List)?.is_none() {
        return Ok(false);
    }
    if from != to {
        call.claim_for(to, Kind::List)?;
    }
    // Only now: if that key had expired, its removal may have moved this one's entry.
    let (old, mut list) = claim(call, from)?;
    let element = list.pop(call.tx, from_end)?.unwrap_or_default();
    if from == to {
        list.push(call.tx, to_end, &element)?;
        save(call, from, old, list)?;
    } else {
        // The first list's key may go: where the second one's entry is has to be looked up afterwards.
        save(call, from, old, list)?;
        let (old, mut list) = claim(call, to)?;
        list.push(call.tx, to_end, &element)?;
        save(call, to, old, list)?;
    }
    call.out.bulk(&element);
    Ok(true)
}

/// The arguments of LMPOP and ZMPOP from the number of keys on: the keys, whether the second of the `ends` is named, and
/// how many elements.
pub(super) fn many<'a>(args: Args<'a>, ends: [&str; 2]) -> Outcome<(Args<'a>, bool, u64)> {
    let (keys, rest) = numbered_keys(args)?;
    let second = rest.is(0, ends[1]);
    if !second && !rest.is(0, ends[0]) {
        return Err(Failure::SYNTAX);
    }
    let count = match rest.len() {
        1 => 1,
        3 if rest.is(1, "count") => {
            let count = number::parse_i64(rest.at(2)).and_then(|count| u64::try_from(count).ok());
            let wrong = Failure::Say("ERR count should be greater than 0".into());
            count.filter(|count| *count > 0).ok_or(wrong)?
        }
        _ => return Err(Failure::SYNTAX),
    };
    Ok((keys, second, count))
}

/// The arguments of LMPOP from the number of keys on.
pub(super) fn many_of_lists<'a>(args: Args<'a>) -> Outcome<(Args<'a>, End, u64)> {
    let (keys, right, count) = many(args, ["left", "right"])?;
    Ok((keys, if right { End::Right } else { End::Left }, count))
}

fn lmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, from, count) = many_of_lists(call.args.from(1))?;
    if !pop_many(call, keys, from, count)? {
        call.out.null_array();
    }
    Ok(())
}

/// Removes elements of the first of the keys that is there, and answers the key with them. Whether there is one.
pub(super) fn pop_many(
    call: &mut Call<'_>,
    keys: Args<'_>,
    from: End,
    count: u64,
) -> Outcome<bool> {
    for key in keys.iter() {
        let (old, list) = claim(call, key)?;
        if old.is_some() {
            call.out.array(2);
            call.out.bulk(key);
            pop_some(call, key, old, list, (from, count))?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes an element of the first of the keys that is there, and answers the key with it. Whether there is one.
pub(super) fn pop_first(call: &mut Call<'_>, keys: Args<'_>, from: End) -> Outcome<bool> {
    for key in keys.iter() {
        let (old, mut list) = claim(call, key)?;
        if old.is_some() {
            let element = list.pop(call.tx, from)?.unwrap_or_default();
            save(call, key, old, list)?;
            call.out.array(2);
            call.out.bulk(key);
            call.out.bulk(&element);
            return Ok(true);
        }
    }
    Ok(false)
}
