//! Events of keys: what a command has done to a key is published, if the option `notify-keyspace-events` says so.
//!
//! A command says which keys it has written ([`Env::touch`](super::Env::touch)); what happened to them is told by its
//! name, and by whether the key is there afterwards. Those of streams tell of their events themselves ([`Call::tell`]).

use super::{Call, Command, Env, Failure, Outcome};
use crate::keyspace::Database;
use crate::protocol::{Args, number};
use crate::pubsub::{Kind, Post, WrittenKey};
use std::sync::atomic::{AtomicU32, Ordering};

/// The classes of events, by their letters.
const LETTERS: &str = "g$lshzxetdnKEm";
/// `A`: all up to the modules' class.
const ALL: u32 = (1 << 10) - 1;

const fn bit(letter: u8) -> u32 {
    let mut at = 0;
    while LETTERS.as_bytes()[at] != letter {
        at += 1;
    }
    1 << at
}

/// What is published: the option's letters.
#[derive(Default)]
pub(crate) struct Events(AtomicU32);

impl Events {
    /// Whether anything is.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn has(&self, letter: u8) -> bool {
        self.0.load(Ordering::Relaxed) & bit(letter) != 0
    }

    pub(crate) fn set(&self, classes: Classes) {
        self.0.store(classes.0, Ordering::Relaxed);
    }

    /// The option's value as CONFIG GET shows it.
    pub(crate) fn shown(&self) -> String {
        let classes = self.0.load(Ordering::Relaxed);
        let mut text = String::new();
        let has_all = classes & ALL == ALL;
        if has_all {
            text.push('A');
        }
        let own = LETTERS.char_indices().filter(|(at, _)| classes & 1 << at != 0);
        text.extend(own.filter(|(at, _)| !has_all || 1 << at & ALL == 0).map(|(_, letter)| letter));
        text
    }
}

/// Classes of events.
#[derive(Clone, Copy)]
pub(crate) struct Classes(u32);

impl Classes {
    /// Reads the option's value.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut classes = 0;
        for &letter in text {
            classes |= match letter {
                b'A' => ALL,
                letter => 1 << LETTERS.bytes().position(|known| known == letter)?,
            };
        }
        Some(Classes(classes))
    }
}

/// Publishes an event of a key.
fn publish(env: Env<'_>, class: u8, event: &str, db: u8, key: &[u8]) {
    let (events, posts) = (&env.server.events, env.posts);
    if !events.has(class) || !env.server.pubsub.is_used() {
        return;
    }
    if events.has(b'K') {
        let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
        posts.add(Post { kind: Kind::Channel, channel, message: event.into() });
    }
    if events.has(b'E') {
        let channel = format!("__keyevent@{db}__:{event}").into_bytes();
        posts.add(Post { kind: Kind::Channel, channel, message: key.into() });
    }
}

/// A key was removed since its time had come.
pub(super) fn expired(env: Env<'_>, db: u8, key: &[u8]) {
    publish(env, b'x', "expired", db, key);
}

/// A key was removed to make room.
pub(super) fn evicted(env: Env<'_>, db: u8, key: &[u8]) {
    publish(env, b'e', "evicted", db, key);
}

/// A command that reads has looked for a key that is not there.
#[cold]
pub(super) fn missed(env: Env<'_>, db: u8, key: &[u8]) -> Outcome {
    if env.server.events.has(b'm') {
        env.posts.check_room().map_err(Failure::say)?;
        publish(env, b'm', "keymiss", db, key);
    }
    Ok(())
}

/// Publishes the events of a command that has just been done.
pub(super) fn done(call: &mut Call<'_>, command: &Command) -> Outcome {
    let told = call.env.posts.take_events();
    let mut written = call.env.posts.take_written();
    if !call.env.server.pubsub.is_used() {
        return Ok(());
    }
    call.env.posts.check_room().map_err(Failure::say)?;
    let moves = matches!(command.name, "lmove" | "blmove" | "rpoplpush" | "brpoplpush");
    if moves {
        // Redis pushes the element before it tells that it was popped.
        written.reverse();
    }
    for WrittenKey { db, key, is_new } in written {
        let found = Database::new(call.env.keyspace, db).find(call.tx, &key)?;
        let (env, args) = (call.env, call.args);
        let tell = |class, event| publish(env, class, event, db, &key);
        let is_there = found.is_some();
        if is_new && is_there {
            tell(b'n', "new");
        }
        if moves && args.get(1) == args.get(2) {
            tell(b'l', push_of(command.name, args));
        }
        let Some((class, event)) = event(command.name, args, &key, db == call.db.index()) else {
            continue;
        };
        // A command that replaces a key, or its time, has only removed it if there was nothing to put there.
        let only_removes = !is_there
            && (event.ends_with("store") || matches!(event, "expire" | "set" | "restore"));
        if !only_removes {
            tell(class, event);
        }
        if !is_there && !matches!(event, "del" | "rename_from" | "move_from") {
            tell(b'g', "del");
        }
        let expires = found.and_then(|found| found.entry.expires()).is_some();
        if event == "set" && expires && sets_time(command.name, args) {
            tell(b'g', "expire");
        }
    }
    for (db, key, event) in told {
        publish(call.env, b't', event, db, &key);
    }
    Ok(())
}

/// The event of the list to which a command moves an element.
fn push_of(command: &str, args: Args<'_>) -> &'static str {
    let is_left = command.ends_with("poplpush") || args.is(4, "left");
    if is_left { "lpush" } else { "rpush" }
}

/// Whether a command that sets a string gives it a time.
fn sets_time(command: &str, args: Args<'_>) -> bool {
    let is_option = |at| ["ex", "px", "exat", "pxat"].iter().any(|word| args.is(at, word));
    matches!(command, "setex" | "psetex") || command == "set" && (3..args.len()).any(is_option)
}

/// The place behind the keys whose number is the argument at `count`.
fn behind_keys(args: Args<'_>, count: usize) -> usize {
    let keys = args.get(count).and_then(number::parse_i64).unwrap_or(0);
    usize::try_from(keys).unwrap_or(0).saturating_add(count + 1)
}

/// Whether the options of ZADD, which are before the first score, have INCR.
fn increments(args: Args<'_>) -> bool {
    let is_option =
        |at: &usize| ["nx", "xx", "gt", "lt", "ch", "incr"].iter().any(|word| args.is(*at, word));
    (2..args.len()).take_while(is_option).any(|at| args.is(at, "incr"))
}

/// A key's event: its class and its name. `is_own` says whether the key is in the client's database.
fn event(
    command: &'static str,
    args: Args<'_>,
    key: &[u8],
    is_own: bool,
) -> Option<(u8, &'static str)> {
    let is_first = args.get(1) == Some(key);
    let has = |word: &str| (2..args.len()).any(|at| args.is(at, word));
    let end = |at: usize, left, right| if args.is(at, "left") { left } else { right };
    Some(match command {
        "set" | "setex" | "psetex" | "setnx" | "mset" | "msetnx" | "getset" | "bitop" => {
            (b'$', "set")
        }
        "incr" | "decr" | "incrby" | "decrby" => (b'$', "incrby"),
        "append" | "setrange" | "incrbyfloat" | "pfadd" | "setbit" => (b'$', command),
        "bitfield" => (b'$', "setbit"),
        "pfmerge" => (b'$', "pfadd"),
        "del" | "unlink" | "getdel" | "delex" | "delifeq" => (b'g', "del"),
        "expire" | "pexpire" | "expireat" | "pexpireat" => (b'g', "expire"),
        "getex" if has("persist") => (b'g', "persist"),
        "getex" => (b'g', "expire"),
        "persist" | "restore" => (b'g', command),
        "rename" | "renamenx" if is_first => (b'g', "rename_from"),
        "rename" | "renamenx" => (b'g', "rename_to"),
        "move" if is_own => (b'g', "move_from"),
        "move" => (b'g', "move_to"),
        "copy" => (b'g', "copy_to"),
        "lpush" | "lpushx" => (b'l', "lpush"),
        "rpush" | "rpushx" => (b'l', "rpush"),
        "lpop" | "blpop" => (b'l', "lpop"),
        "rpop" | "brpop" => (b'l', "rpop"),
        "linsert" | "lset" | "ltrim" | "lrem" => (b'l', command),
        "lmpop" => (b'l', end(behind_keys(args, 1), "lpop", "rpop")),
        "blmpop" => (b'l', end(behind_keys(args, 2), "lpop", "rpop")),
        "lmove" | "blmove" if is_first => (b'l', end(3, "lpop", "rpop")),
        "rpoplpush" | "brpoplpush" if is_first => (b'l', "rpop"),
        "lmove" | "blmove" | "rpoplpush" | "brpoplpush" => (b'l', push_of(command, args)),
        "sort" => (b'l', "sortstore"),
        "hset" | "hmset" | "hsetnx" => (b'h', "hset"),
        "hdel" | "hincrby" | "hincrbyfloat" => (b'h', command),
        "smove" => (b's', if is_first { "srem" } else { "sadd" }),
        "sadd" | "srem" | "spop" | "sinterstore" | "sunionstore" | "sdiffstore" => (b's', command),
        "zadd" if increments(args) => (b'z', "zincr"),
        "zincrby" => (b'z', "zincr"),
        "zadd" | "geoadd" => (b'z', "zadd"),
        "zpopmin" | "bzpopmin" => (b'z', "zpopmin"),
        "zpopmax" | "bzpopmax" => (b'z', "zpopmax"),
        "zmpop" => (b'z', if args.is(behind_keys(args, 1), "min") { "zpopmin" } else { "zpopmax" }),
        "bzmpop" => {
            (b'z', if args.is(behind_keys(args, 2), "min") { "zpopmin" } else { "zpopmax" })
        }
        "zrem" | "zremrangebyscore" | "zremrangebyrank" | "zremrangebylex" | "zunionstore"
        | "zinterstore" | "zdiffstore" | "zrangestore" | "geosearchstore" => (b'z', command),
        "georadius" | "georadiusbymember" => (b'z', "georadiusstore"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_shown_as_redis_shows_them() {
        let events = Events::default();
        for (given, shown) in
            [("", ""), ("KEA", "AKE"), ("Kgx", "gxK"), ("Em$l", "$lEm"), ("KEAn", "AnKE")]
        {
            events.set(Classes::parse(given.as_bytes()).expect("letters"));
            assert_eq!(events.shown(), shown);
            assert_eq!(events.are_wanted(), !given.is_empty());
        }
        assert!(Classes::parse(b"q").is_none());
    }
}
