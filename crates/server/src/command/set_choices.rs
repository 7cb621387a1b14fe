//! SPOP and SRANDMEMBER: members chosen at random.

use super::random::Random;
use super::sets::{claim, look, save};
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::set::Set;
use crate::protocol::number;
use std::collections::HashSet;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("spop", -2, ONE, Run::Write(spop), "Removes members chosen at random."),
    Command::new("srandmember", -2, ONE, Run::Read(srandmember), "Members chosen at random."),
];

/// If more than one in so many is wanted, all members are read, and some left out.
const MANY: u64 = 3;

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
        set.for_each(call.tx, &mut |member, _| out.bulk(member))?;
        popped = len;
        if old.is_some() {
            call.remove(key)?;
        }
    } else if count > len / 2 {
        // The members that stay make a new set, and the old one is freed in steps.
        let stay: HashSet<Vec<u8>> =
            distinct(call, &set, len - count, len, &mut random)?.into_iter().collect();
        let mut rest = Set::load(call.tx, None)?;
        let (out, db) = (&mut call.out, call.db);
        set.walk(call.tx, &mut |tx, member| {
            match stay.contains(member) {
                true => rest.set(tx, db, member, b"").map(drop)?,
                false => out.bulk(member),
            }
            Ok::<bool, Failure>(!out.is_cut())
        })?;
        popped = count;
        let expires = old.and_then(|old| old.entry.expires());
        let new = rest.save(call.tx)?.expiring(expires);
        if let Some(old) = old {
            call.db.discard(call.tx, old.entry)?;
        }
        call.put(key, old, new)?;
    } else if count > 0 {
        while popped < count
            && let Some(member) = set.random(call.tx, random.next())?
        {
            set.remove(call.tx, &member)?;
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
        // Any member, again and again.
        call.out.array(wanted as usize);
        for _ in 0..wanted {
            match set.random(call.tx, random.next())? {
                Some(member) if !call.out.is_cut() => call.out.bulk(&member),
                _ => break,
            }
        }
        return Ok(());
    }
    let chosen = distinct(call, &set, wanted.min(len), len, &mut random)?;
    call.out.array(chosen.len());
    chosen.iter().for_each(|member| call.out.bulk(member));
    Ok(())
}

/// `count` different members of a set of `len`, chosen at random, in any order.
fn distinct(
    call: &mut Call<'_>,
    set: &Set,
    count: u64,
    len: u64,
    random: &mut Random,
) -> Outcome<Vec<Vec<u8>>> {
    if count > len / MANY || matches!(set, Set::Small(_)) {
        let mut all = Vec::new();
        set.for_each(call.tx, &mut |member, _| all.push(member.to_vec()))?;
        let len = all.len();
        for index in 0..len.min(count as usize) {
            all.swap(index, index + random.below((len - index) as u64) as usize);
        }
        all.truncate(count as usize);
        return Ok(all);
    }
    let mut chosen = HashSet::new();
    while (chosen.len() as u64) < count {
        let Some(member) = set.random(call.tx, random.next())? else { break };
        chosen.insert(member);
    }
    Ok(chosen.into_iter().collect())
}
