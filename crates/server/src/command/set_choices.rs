//! SPOP and SRANDMEMBER: members chosen at random.

use super::random::Random;
use super::sets::{claim, look, save};
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::set::Set;
use crate::protocol::number;
use perdura::{Error, Tx};
use std::collections::HashSet;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("spop", -2, ONE, Run::Write(spop), "Removes members chosen at random."),
    Command::new("srandmember", -2, ONE, Run::Read(srandmember), "Members chosen at random."),
];

/// If more than one in so many is wanted, all members are read, and some left out.
const MANY: u64 = 3;
/// Bytes of the shortest bulk string.
const BULK: usize = 6;
/// Choices in succession that may yield nothing new; a sound set of which a third is chosen has three in a row often,
/// but never so many.
const MISSES: u32 = 128;

fn spop(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 => pop_one(call),
        3 => pop_some(call),
        _ => Err(Failure::SYNTAX),
    }
}

fn pop_one(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let (old, mut set) = claim(call, key)?;
    let Some(member) = set.random(call.tx, Random::new().next())? else {
        call.out.null();
        return Ok(());
    };
    set.remove(call.tx, &member)?;
    save(call, key, old, set)?;
    call.out.bulk(&member);
    Ok(())
}

fn pop_some(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let count = number::parse_i64(call.args.at(2)).and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(Failure::MUST_BE_POSITIVE)?;
    let (old, mut set) = claim(call, key)?;
    let len = set.len(call.tx)?;
    let (mut random, start, mut popped) = (Random::new(), call.out.len(), 0);
    if count >= len {
        let out = &mut call.out;
        set.walk(call.tx, &mut |_, member| {
            out.bulk(member);
            popped += 1;
            Ok::<bool, Failure>(!out.is_cut())
        })?;
        if old.is_some() {
            call.remove(key)?;
        }
    } else if count > len / 2 {
        // The members that stay make a new set, and the old one is freed in steps.
        let mut rest = Set::load(call.tx, None)?;
        let (out, db) = (&mut call.out, call.db);
        divide(call.tx, &set, (count, len), &mut random, &mut |tx, member, chosen| {
            match chosen {
                true => out.bulk(member),
                false => rest.set(tx, db, member, b"").map(drop)?,
            }
            Ok(!out.is_cut())
        })?;
        popped = count;
        let expires = old.and_then(|old| old.entry.expires());
        let new = rest.save(call.tx)?.expiring(expires);
        if let Some(old) = old {
            call.db.discard(call.tx, old.entry)?;
        }
        call.put(key, old, new)?;
    } else if count > 0 {
        while popped < count && !call.out.is_cut() {
            let member = set.random(call.tx, random.next())?.ok_or_else(|| miscounted(&set))?;
            if !set.remove(call.tx, &member)? {
                return Err(miscounted(&set));
            }
            call.out.bulk(&member);
            popped += 1;
        }
        save(call, key, old, set)?;
    }
    call.out.set_since(start, popped as usize);
    Ok(())
}

fn srandmember(call: &mut Call<'_>) -> Outcome {
    let mut random = Random::new();
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    if call.args.len() == 2 {
        let chosen = match look(call, call.args.at(1))? {
            Some(set) => set.random(call.tx, random.next())?,
            None => None,
        };
        match chosen {
            Some(member) => call.out.bulk(&member),
            None => call.out.null(),
        }
        return Ok(());
    }
    let count = call.integer(2)?;
    if count == i64::MIN {
        return Err(Failure::OUT_OF_RANGE);
    }
    let set = look(call, call.args.at(1))?;
    let (Some(set), true) = (set, count != 0) else {
        call.out.array(0);
        return Ok(());
    };
    let (wanted, len) = (count.unsigned_abs(), set.len(call.tx)?);
    if count < 0 {
        return any(call, &set, wanted, &mut random);
    }
    let wanted = wanted.min(len);
    call.out.array(wanted as usize);
    distinct(call, &set, (wanted, len), &mut random)
}

/// Answers `count` members chosen at random, again and again the same ones perhaps.
fn any(call: &mut Call<'_>, set: &Set, count: u64, random: &mut Random) -> Outcome {
    // Refused at once, not after all the work.
    if !call.out.has_room((count as usize).saturating_mul(BULK)) {
        return Ok(());
    }
    call.out.array(count as usize);
    let small: Vec<&[u8]> = match set {
        Set::Small(image) => image.iter().map(|(member, _)| member).collect(),
        Set::Large(_) => Vec::new(),
    };
    for _ in 0..count {
        if call.out.is_cut() {
            break;
        }
        if small.is_empty() {
            let member = set.random(call.tx, random.next())?.ok_or_else(|| miscounted(set))?;
            call.out.bulk(&member);
        } else {
            call.out.bulk(small[random.below(small.len() as u64) as usize]);
        }
    }
    Ok(())
}

/// Answers `count` different members of a set of `len`, chosen at random, in any order.
fn distinct(
    call: &mut Call<'_>,
    set: &Set,
    (count, len): (u64, u64),
    random: &mut Random,
) -> Outcome {
    let start = call.out.len();
    let (mut chosen, mut misses) = (HashSet::new(), 0);
    let few = count <= len / MANY && !matches!(set, Set::Small(_));
    while few && misses < MISSES {
        if chosen.len() as u64 == count || call.out.is_cut() {
            return Ok(());
        }
        let member = set.random(call.tx, random.next())?.ok_or_else(|| miscounted(set))?;
        if chosen.contains(&member) {
            misses += 1;
            continue;
        }
        misses = 0;
        call.out.bulk(&member);
        chosen.insert(member);
    }
    if few {
        // Begun again: the set's number of members is wrong, or chance is at its worst.
        call.out.truncate(start);
    }
    let out = &mut call.out;
    divide(call.tx, set, (count, len), random, &mut |_, member, chosen| {
        if chosen {
            out.bulk(member);
        }
        Ok(!out.is_cut())
    })
}

/// Told of a member, and whether it is chosen; false ends the walk.
type EachDivided<'a> = dyn FnMut(&mut dyn Tx, &[u8], bool) -> Outcome<bool> + 'a;

/// Walks through a set of `len` members and chooses `count` of them, all choices being equally likely. Nothing is
/// collected: each member is chosen as likely as what is still wanted among those that are left.
fn divide(
    tx: &mut dyn Tx,
    set: &Set,
    (count, len): (u64, u64),
    random: &mut Random,
    each: &mut EachDivided<'_>,
) -> Outcome {
    let (mut wanted, mut left, mut whole) = (count, len, true);
    set.walk(tx, &mut |tx, member| {
        if left == 0 {
            return Err(miscounted(set));
        }
        let chosen = random.below(left) < wanted;
        left -= 1;
        wanted -= u64::from(chosen);
        whole = each(tx, member, chosen)?;
        Ok(whole)
    })?;
    match whole && left > 0 {
        true => Err(miscounted(set)),
        false => Ok(()),
    }
}

/// A set has more members, or fewer, than it says.
fn miscounted(set: &Set) -> Failure {
    let at = match set {
        Set::Small(_) => 0,
        Set::Large(members) => members.at(),
    };
    Failure::Pool(Error::corrupt("the number of a set's members", at))
}
