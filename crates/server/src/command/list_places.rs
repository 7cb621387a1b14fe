//! Lists: elements by their places, or by what they are.

use super::lists::{claim, look, save};
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::End;
use crate::protocol::number;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("lrange", 4, ONE, Run::Read(lrange), "Elements between two places."),
    Command::new("lindex", 3, ONE, Run::Read(lindex), "The element at a place."),
    Command::new("lset", 4, ONE, Run::Write(lset), "Replaces the element at a place."),
    Command::new("linsert", 5, ONE, Run::Write(linsert), "Inserts an element beside another."),
    Command::new("lrem", 4, ONE, Run::Write(lrem), "Removes elements that equal one."),
    Command::new("ltrim", 4, ONE, Run::Write(ltrim), "Removes all but some elements."),
    Command::new("lpos", -3, ONE, Run::Read(lpos), "Places of elements that equal one."),
];

/// The elements from `start` to `stop`, of `len`, as a first one and a number of them. Negative places count from the end.
fn span(start: i64, stop: i64, len: u64) -> Option<(u64, u64)> {
    let len = len as i64;
    let place = |place: i64| if place < 0 { place.saturating_add(len) } else { place };
    let (start, stop) = (place(start).max(0), place(stop).min(len - 1));
    (start <= stop).then(|| (start as u64, (stop - start) as u64 + 1))
}

/// A place; negative ones count from the end.
fn place(index: i64, len: u64) -> Option<u64> {
    let place = if index < 0 { index.saturating_add(len as i64) } else { index };
    u64::try_from(place).ok().filter(|place| *place < len)
}

fn lrange(call: &mut Call<'_>) -> Outcome {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let list = look(call)?;
    let found = list.and_then(|list| span(start, stop, list.len()).map(|span| (list, span)));
    let Some((list, (first, mut left))) = found else {
        call.out.array(0);
        return Ok(());
    };
    call.out.array(left as usize);
    let out = &mut call.out;
    list.walk(call.tx, first, false, &mut |tx, element| {
        out.bulk(&element.read(tx)?);
        left -= 1;
        Ok::<bool, Failure>(left > 0 && !out.is_cut())
    })?;
    Ok(())
}

fn lindex(call: &mut Call<'_>) -> Outcome {
    let element = match look(call)? {
        Some(list) => match place(call.integer(2)?, list.len()) {
            Some(place) => list.get(call.tx, place)?,
            None => None,
        },
        None => None,
    };
    match element {
        Some(element) => call.out.bulk(&element),
        None => call.out.null(),
    }
    Ok(())
}

fn lset(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let (old, mut list) = claim(call, key)?;
    if old.is_none() {
        return Err(Failure::NO_KEY);
    }
    let place = place(call.integer(2)?, list.len());
    let place = place.ok_or(Failure::Say("ERR index out of range".into()))?;
    list.set(call.tx, place, call.args.at(3))?;
    save(call, key, old, list)?;
    call.out.ok();
    Ok(())
}

fn linsert(call: &mut Call<'_>) -> Outcome {
    let after = match () {
        () if call.args.is(2, "after") => true,
        () if call.args.is(2, "before") => false,
        () => return Err(Failure::SYNTAX),
    };
    let key = call.args.at(1);
    let (old, mut list) = claim(call, key)?;
    if old.is_none() {
        call.out.integer(0);
        return Ok(());
    }
    if !list.insert(call.tx, call.args.at(3), after, call.args.at(4))? {
        call.out.integer(-1);
        return Ok(());
    }
    let len = list.len();
    save(call, key, old, list)?;
    call.out.size(len);
    Ok(())
}

fn lrem(call: &mut Call<'_>) -> Outcome {
    let (key, count) = (call.args.at(1), call.integer(2)?);
    let (old, mut list) = claim(call, key)?;
    if old.is_none() {
        call.out.integer(0);
        return Ok(());
    }
    let from = if count < 0 { End::Right } else { End::Left };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let removed = list.remove(call.tx, call.args.at(3), from, most)?;
    if removed > 0 {
        save(call, key, old, list)?;
    }
    call.out.size(removed);
    Ok(())
}

fn ltrim(call: &mut Call<'_>) -> Outcome {
    let (key, start, stop) = (call.args.at(1), call.integer(2)?, call.integer(3)?);
    let (old, mut list) = claim(call, key)?;
    if old.is_some() {
        match span(start, stop, list.len()) {
            None => drop(call.remove(key)?),
            Some((first, count)) => {
                let behind = list.len() - first - count;
                for (end, count) in [(End::Left, first), (End::Right, behind)] {
                    if count > 0 {
                        list.cut(call.tx, call.db, end, count)?;
                    }
                }
                save(call, key, old, list)?;
            }
        }
    }
    call.out.ok();
    Ok(())
}

/// The options of LPOS.
struct Sought {
    /// Matches that are passed over, and whether from the last element on.
    skip: u64,
    backwards: bool,
    /// Places that are wanted; `None` for one that is not in an array.
    count: Option<u64>,
    /// Elements that are compared.
    most: u64,
}

impl Sought {
    fn parse(call: &Call<'_>) -> Outcome<Self> {
        let mut sought = Sought { skip: 0, backwards: false, count: None, most: u64::MAX };
        let args = call.args;
        for at in (3..args.len()).step_by(2) {
            let Some(value) = args.get(at + 1) else { return Err(Failure::SYNTAX) };
            let positive = |text: &'static str| {
                let value = number::parse_i64(value).and_then(|value| u64::try_from(value).ok());
                value.ok_or(Failure::Say(text.into()))
            };
            if args.is(at, "rank") {
                let rank = call.integer(at + 1)?;
                if rank == i64::MIN {
                    return Err(Failure::OUT_OF_RANGE);
                }
                if rank == 0 {
                    return Err(Failure::Say(ZERO_RANK.into()));
                }
                (sought.skip, sought.backwards) = (rank.unsigned_abs() - 1, rank < 0);
            } else if args.is(at, "count") {
                sought.count = Some(match positive("ERR COUNT can't be negative")? {
                    0 => u64::MAX,
                    count => count,
                });
            } else if args.is(at, "maxlen") {
                sought.most = match positive("ERR MAXLEN can't be negative")? {
                    0 => u64::MAX,
                    most => most,
                };
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(sought)
    }
}

const ZERO_RANK: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                         second ... or use negative to start from the end of the list";

fn lpos(call: &mut Call<'_>) -> Outcome {
    let sought = Sought::parse(call)?;
    let (mut found, start) = (0, call.out.len());
    if let Some(list) = look(call)? {
        let (len, wanted) = (list.len(), call.args.at(2));
        let first = if sought.backwards { len.saturating_sub(1) } else { 0 };
        let (mut passed, mut skip, out) = (0, sought.skip, &mut call.out);
        list.walk(call.tx, first, sought.backwards, &mut |tx, element| {
            if element.is(tx, wanted)? {
                if skip > 0 {
                    skip -= 1;
                } else {
                    out.size(if sought.backwards { len - 1 - passed } else { passed });
                    found += 1;
                }
            }
            passed += 1;
            let more = found < sought.count.unwrap_or(1) && passed < sought.most;
            Ok::<bool, Failure>(more && !out.is_cut())
        })?;
    }
    match sought.count {
        Some(_) => call.out.array_since(start, found as usize),
        None if found == 0 => call.out.null(),
        None => {}
    }
    Ok(())
}
