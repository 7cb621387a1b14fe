//! Strings: setting and getting whole values.

use super::expiry::{self, Expire};
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::{Ahead, Entry, Found, Kind, text};
use crate::protocol::{Args, Reply};
use perdura::Tx;

const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);

pub(super) const TABLE: &[Command] = &[
    Command::brief("get", 2, ONE, Run::Read(get), "Gets a key's string."),
    Command::brief("set", -3, ONE, Run::Write(set), "Sets a key's string, with options."),
    Command::brief("setnx", 3, ONE, Run::Write(setnx), "Sets a key that is not there."),
    Command::brief("setex", 4, ONE, Run::Write(setex), "Sets a key that expires after seconds."),
    Command::brief("psetex", 4, ONE, Run::Write(psetex), "Sets a key that expires after ms."),
    Command::new("delifeq", 3, ONE, Run::Write(delifeq), "Deletes a key that has this string."),
    Command::new(
        "delex",
        -2,
        ONE,
        Run::Write(delex),
        "Deletes a key if its string is, or is not, this.",
    ),
    Command::brief("getset", 3, ONE, Run::Write(getset), "Sets a key and returns the old string."),
    Command::new("getdel", 2, ONE, Run::Write(getdel), "Returns a key's string and deletes it."),
    Command::new(
        "getex",
        -2,
        ONE,
        Run::Write(getex),
        "Returns a key's string and sets its expiry.",
    ),
    Command::brief("mget", -2, ALL, Run::Read(mget), "Gets the strings of several keys."),
    Command::brief("mset", -3, PAIRS, Run::Write(mset), "Sets several keys."),
    Command::brief("msetnx", -3, PAIRS, Run::Write(msetnx), "Sets several keys if none is there."),
];

/// How many keys before its own a key is announced, and what its entry leads to is.
const AHEAD: usize = 8;
const REACHED: usize = 4;

/// Writes a string's bytes as the reply.
pub(super) fn reply(tx: &mut dyn Tx, out: &mut Reply<'_>, entry: Option<Entry>) -> Outcome {
    match entry {
        None => out.null(),
        Some(entry) if entry.is_in_place() => out.bulk(entry.inline_bytes()),
        Some(entry) => {
            out.bulk_from(|to, before| text::read_into_after(tx, entry, to, before))?;
        }
    }
    Ok(())
}

fn get(call: &mut Call<'_>) -> Outcome {
    let entry = call.look_for(call.args.at(1), Kind::String)?;
    reply(call.tx, &mut call.out, entry)
}

/// Stores a string under a key that was just claimed, whatever it held.
fn store(
    call: &mut Call<'_>,
    key: &[u8],
    old: Option<Found>,
    value: &[u8],
    expires: Option<u64>,
) -> Outcome {
    let reusable = old.map(|old| old.entry).filter(|old| old.kind() == Kind::String);
    if let (Some(old), None) = (old, reusable) {
        call.db.discard(call.tx, old.entry)?;
    }
    let new = text::store(call.tx, reusable, value)?.expiring(expires);
    call.put(key, old, new)
}

/// When SET sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    Absent,
    Present,
    /// If the key has the string that the argument of this index has.
    Equal(usize),
}

/// The options of SET.
struct SetOptions {
    when: When,
    get: bool,
    keep: bool,
    expire: Expire,
}

impl SetOptions {
    fn parse(call: &Call<'_>) -> Outcome<Self> {
        let mut options =
            SetOptions { when: When::Always, get: false, keep: false, expire: Expire::Never };
        let mut timed = false;
        let mut at = 3;
        while at < call.args.len() {
            let last = at + 1 == call.args.len();
            let may_be = |when| [When::Always, when].contains(&options.when);
            if call.args.is(at, "nx") && may_be(When::Absent) {
                options.when = When::Absent;
            } else if call.args.is(at, "xx") && may_be(When::Present) {
                options.when = When::Present;
            } else if call.args.is(at, "ifeq") && options.when == When::Always && !last {
                options.when = When::Equal(at + 1);
                at += 1;
            } else if call.args.is(at, "get") {
                options.get = true;
            } else if call.args.is(at, "keepttl") && !timed {
                options.keep = true;
            } else if let Some(unit) = expiry::unit(&call.args, at)
                && !timed
                && !options.keep
                && !last
            {
                timed = true;
                options.expire = Expire::At(unit, at + 1);
                at += 1;
            } else {
                return Err(Failure::SYNTAX);
            }
            at += 1;
        }
        Ok(options)
    }
}

fn set(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.args.at(1), call.args.at(2));
    if call.args.len() == 3 {
        let old = call.claim(key)?;
        store(call, key, old, value, None)?;
        call.out.ok();
        return Ok(());
    }
    let options = SetOptions::parse(call)?;
    let expires = options.expire.time(call, "set")?;
    let old = call.claim(key)?;
    if options.get {
        reply_old(call, old)?;
    }
    let wanted = match options.when {
        When::Always => true,
        When::Absent => old.is_none(),
        When::Present => old.is_some(),
        When::Equal(at) => has_string(call, old, call.args.at(at))?,
    };
    if wanted {
        let kept = old.and_then(|old| old.entry.expires()).filter(|_| options.keep);
        store(call, key, old, value, expires.or(kept))?;
    }
    match (options.get, wanted) {
        (true, _) => {}
        (false, true) => call.out.ok(),
        (false, false) => call.out.null(),
    }
    Ok(())
}

/// Whether a key has this string. That of another length is not read.
fn has_string(call: &mut Call<'_>, found: Option<Found>, wanted: &[u8]) -> Outcome<bool> {
    let Some(Found { entry, .. }) = found else { return Ok(false) };
    if entry.kind() != Kind::String {
        return Err(Failure::WRONG_TYPE);
    }
    if text::len(call.tx, entry)? != wanted.len() as u64 {
        return Ok(false);
    }
    let mut string = Vec::with_capacity(wanted.len());
    text::read_into(call.tx, entry, &mut string)?;
    Ok(string == wanted)
}

/// Valkey's command that releases a lock that `SET key token NX PX milliseconds` has taken.
fn delifeq(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let old = call.claim(key)?;
    let deleted = has_string(call, old, call.args.at(2))? && call.remove(key)?;
    call.out.flag(deleted);
    Ok(())
}

/// Redis 8.4's, without its comparisons of digests.
fn delex(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let old = call.claim(key)?;
    let wanted = match call.args.len() {
        2 => true,
        4 if call.args.is(2, "ifeq") => has_string(call, old, call.args.at(3))?,
        4 if call.args.is(2, "ifne") => old.is_some() && !has_string(call, old, call.args.at(3))?,
        _ => return Err(Failure::SYNTAX),
    };
    let deleted = wanted && call.remove(key)?;
    call.out.flag(deleted);
    Ok(())
}

fn reply_old(call: &mut Call<'_>, old: Option<Found>) -> Outcome {
    let entry = old.map(|old| old.entry);
    if entry.is_some_and(|entry| entry.kind() != Kind::String) {
        return Err(Failure::WRONG_TYPE);
    }
    if entry.is_none() {
        call.miss(call.args.at(1))?;
    }
    reply(call.tx, &mut call.out, entry)
}

fn setnx(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.args.at(1), call.args.at(2));
    let old = call.claim(key)?;
    if old.is_none() {
        store(call, key, None, value, None)?;
    }
    call.out.flag(old.is_none());
    Ok(())
}

fn setex(call: &mut Call<'_>) -> Outcome {
    set_expiring(call, expiry::Unit::InSeconds, "setex")
}

fn psetex(call: &mut Call<'_>) -> Outcome {
    set_expiring(call, expiry::Unit::InMillis, "psetex")
}

fn set_expiring(call: &mut Call<'_>, unit: expiry::Unit, name: &str) -> Outcome {
    let expires = Expire::At(unit, 2).time(call, name)?;
    let (key, value) = (call.args.at(1), call.args.at(3));
    let old = call.claim(key)?;
    store(call, key, old, value, expires)?;
    call.out.ok();
    Ok(())
}

fn getset(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.args.at(1), call.args.at(2));
    let old = call.claim_for(key, Kind::String)?;
    reply_old(call, old)?;
    store(call, key, old, value, None)
}

fn getdel(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let old = call.claim_for(key, Kind::String)?;
    reply_old(call, old)?;
    call.remove(key)?;
    Ok(())
}

fn getex(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let persist = call.args.len() == 3 && call.args.is(2, "persist");
    let expire = match (call.args.len(), expiry::unit(&call.args, 2)) {
        (2, _) => Expire::Never,
        (4, Some(unit)) => Expire::At(unit, 3),
        _ if persist => Expire::Never,
        _ => return Err(Failure::SYNTAX),
    };
    let Some(old) = call.claim_for(key, Kind::String)? else {
        call.miss(key)?;
        call.out.null();
        return Ok(());
    };
    let expires = expire.time(call, "getex")?;
    reply(call.tx, &mut call.out, Some(old.entry))?;
    match expires {
        Some(time) if time <= call.env.cutoff => {
            call.remove(key)?;
        }
        Some(_) => call.put(key, Some(old), old.entry.expiring(expires))?,
        None if persist && old.entry.expires().is_some() => {
            call.put(key, Some(old), old.entry.expiring(None))?;
        }
        None => {}
    }
    Ok(())
}

/// Announces the first few of several keys, of which each is `step` arguments after the one before.
fn announce_first(call: &mut Call<'_>, keys: Args<'_>, step: usize) -> Outcome<Option<Ahead>> {
    let ahead = if keys.len() > step { call.db.ahead(call.tx)? } else { None };
    for index in (step..AHEAD * step).step_by(step) {
        announce(call, ahead.as_ref(), keys, index)?;
    }
    Ok(ahead)
}

/// Announces the key at `index`, if there is one.
fn announce(call: &mut Call<'_>, ahead: Option<&Ahead>, keys: Args<'_>, index: usize) -> Outcome {
    match (ahead, keys.get(index)) {
        (Some(ahead), Some(key)) => Ok(ahead.announce(call.tx, key)?),
        _ => Ok(()),
    }
}

/// The same for what the entry of the key at `index` leads to.
fn reach(call: &mut Call<'_>, ahead: Option<&Ahead>, keys: Args<'_>, index: usize) -> Outcome {
    match keys.get(index).filter(|_| ahead.is_some()) {
        Some(key) => Ok(call.db.reach(call.tx, key, None).map(drop)?),
        None => Ok(()),
    }
}

fn mget(call: &mut Call<'_>) -> Outcome {
    let keys = call.args.from(1);
    call.out.array(keys.len());
    let ahead = announce_first(call, keys, 1)?;
    for (index, key) in keys.iter().enumerate() {
        announce(call, ahead.as_ref(), keys, index + AHEAD)?;
        reach(call, ahead.as_ref(), keys, index + REACHED)?;
        let entry = call.look(key)?.filter(|entry| entry.kind() == Kind::String);
        reply(call.tx, &mut call.out, entry)?;
    }
    Ok(())
}

fn set_pairs(call: &mut Call<'_>) -> Outcome {
    let pairs = call.args.from(1);
    let ahead = announce_first(call, pairs, 2)?;
    for index in (1..call.args.len()).step_by(2) {
        announce(call, ahead.as_ref(), pairs, index - 1 + 2 * AHEAD)?;
        reach(call, ahead.as_ref(), pairs, index - 1 + 2 * REACHED)?;
        let (key, value) = (call.args.at(index), call.args.at(index + 1));
        let old = call.claim(key)?;
        store(call, key, old, value, None)?;
    }
    Ok(())
}

fn mset(call: &mut Call<'_>) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(Failure::arity("mset"));
    }
    set_pairs(call)?;
    call.out.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_>) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(Failure::arity("msetnx"));
    }
    for key in call.args.from(1).iter().step_by(2) {
        if call.claim(key)?.is_some() {
            call.out.flag(false);
            return Ok(());
        }
    }
    set_pairs(call)?;
    call.out.flag(true);
    Ok(())
}
