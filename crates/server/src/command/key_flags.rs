//! How commands access their keys, in Redis's words: COMMAND GETKEYSANDFLAGS.

use super::Command;
use crate::acl::{Access, key_access};
use crate::protocol::Args;

/// The flags of keys from an argument on, up to the next ones; and the commands that have these, as Redis lists them.
const TABLE: &[(&str, &str)] = &[
    (
        "1 RO access",
        "bitcount bitfield_ro bitpos dump expiretime geodist geohash geopos georadius_ro \
         georadiusbymember_ro geosearch get getbit getrange hget hgetall hkeys hmget hrandfield \
         hscan hvals lcs lindex lpos lrange mget pexpiretime pttl sdiff sinter sintercard \
         smembers smismember sort_ro srandmember sscan substr sunion ttl xpending xrange xread \
         xreadgroup xrevrange zcount zdiff zinter zintercard zlexcount zmscore zrandmember zrange \
         zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan \
         zscore zunion",
    ),
    (
        "1 RW update",
        "expire expireat geoadd hmset hset lset persist pexpire pexpireat setrange xack xadd \
         xclaim xsetid zadd",
    ),
    (
        "1 RW access update",
        "bitfield decr decrby getex getset hincrby hincrbyfloat incr incrby incrbyfloat move \
         setbit zincrby",
    ),
    ("1 RO", "exists hexists hlen hstrlen llen scard sismember strlen touch type watch xlen zcard"),
    (
        "1 RW access delete",
        "blpop brpop bzpopmax bzpopmin getdel lmpop lpop rpop spop zmpop zpopmax zpopmin",
    ),
    (
        "1 RW delete",
        "hdel lrem ltrim srem xautoclaim xdel xtrim zrem zremrangebylex zremrangebyrank \
         zremrangebyscore",
    ),
    ("1 RW insert", "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd"),
    (
        "1 OW update; 2 RO access",
        "geosearchstore sdiffstore sunionstore zdiffstore zinterstore zrangestore zunionstore",
    ),
    ("2 RO access", "eval_ro evalsha_ro fcall_ro xinfo|consumers xinfo|groups xinfo|stream"),
    ("1 RW access delete; 2 RW insert", "blmove brpoplpush lmove rpoplpush smove"),
    ("2 RO", "memory|usage object|encoding object|freq object|idletime object|refcount"),
    ("1 OW update", "mset psetex restore set setex"),
    ("1 RO access; 2 OW update", "copy georadius georadiusbymember sort"),
    ("2 RW access update", "eval evalsha fcall"),
    ("2 RW access delete", "blmpop bzmpop"),
    ("1 RM delete", "del unlink"),
    ("1 OW insert", "msetnx setnx"),
    ("2 RW insert", "xgroup|create xgroup|createconsumer"),
    ("2 RW delete", "xgroup|delconsumer xgroup|destroy"),
    ("2 OW update; 3 RO access", "bitop"),
    ("3 RW access delete", "migrate"),
    ("1 RW access", "pfcount"),
    ("2 RW access", "pfdebug"),
    ("1 RW access insert; 2 RO access", "pfmerge"),
    ("1 RW access delete; 2 OW update", "rename"),
    ("1 RW access delete; 2 OW insert", "renamenx"),
    ("1 RW update; 2 RO access", "sinterstore"),
    ("2 RW update", "xgroup|setid"),
];

/// The flags of the key that is the argument at `at`.
pub(super) fn of(command: &Command, args: Args<'_>, at: usize) -> Vec<&'static str> {
    let has = |words: &[&str], from: usize| {
        (from..args.len()).any(|at| words.iter().any(|word| args.is(at, word)))
    };
    match command.name {
        "set" if has(&["get"], 3) => return vec!["RW", "access", "update"],
        "bitfield" if !has(&["set", "incrby"], 2) => return vec!["RO", "access"],
        _ => {}
    }
    let is_it = |name: &str| {
        let (whole, part) = name.split_once('|').map_or((name, None), |(a, b)| (a, Some(b)));
        whole == command.name && part.is_none_or(|part| args.is(1, part)) || name == command.name
    };
    let listed = TABLE.iter().find(|(_, names)| names.split_ascii_whitespace().any(is_it));
    let Some((flags, _)) = listed else { return of_own(command, args, at) };
    let mut found = Vec::new();
    for part in flags.split("; ") {
        let mut words = part.split(' ');
        let from = words.next().and_then(|from| from.parse::<usize>().ok());
        if found.is_empty() || from.is_some_and(|from| from <= at) {
            found = words.collect();
        }
    }
    found
}

/// The same of a command that Redis has not.
fn of_own(command: &Command, args: Args<'_>, at: usize) -> Vec<&'static str> {
    match key_access(command, args, at) {
        Access { read: true, write: true } => vec!["RW", "access", "update"],
        Access { write: true, .. } => vec!["OW", "update"],
        Access { read: true, .. } => vec!["RO", "access"],
        Access { .. } => vec!["RO"],
    }
}

#[cfg(test)]
mod tests {
    use super::super::{all, find, has_keys};
    use super::*;
    use crate::protocol::args::OwnedArgs;

    #[test]
    fn flags_are_those_of_redis() {
        for (request, at, expected) in [
            ("set k v", 1, "OW update"),
            ("set k v get", 1, "RW access update"),
            ("mset a 1 b 2", 3, "OW update"),
            ("lmove a b left right", 1, "RW access delete"),
            ("lmove a b left right", 2, "RW insert"),
            ("sort a store b", 1, "RO access"),
            ("sort a store b", 3, "OW update"),
            ("bitfield k get u4 0", 1, "RO access"),
            ("bitfield k set u4 0 1", 1, "RW access update"),
            ("zunionstore d 2 a b", 1, "OW update"),
            ("zunionstore d 2 a b", 4, "RO access"),
            ("exists a b", 2, "RO"),
            ("xgroup destroy s g", 2, "RW delete"),
            ("object encoding k", 2, "RO"),
            ("delifeq k v", 1, "RW access update"),
        ] {
            let args: OwnedArgs = request.split(' ').map(str::as_bytes).collect();
            let command = find(args.as_args().at(0)).expect("a command");
            assert_eq!(of(command, args.as_args(), at).join(" "), expected, "{request}");
        }
    }

    /// All commands with keys are in the table, but those that Redis has not.
    #[test]
    fn the_table_is_whole() {
        let listed = |name: &str| {
            let is_it = |one: &str| one.split('|').next() == Some(name);
            TABLE.iter().any(|(_, names)| names.split_ascii_whitespace().any(is_it))
        };
        let commands = all().map(|(_, command)| command).filter(|command| has_keys(command));
        let missing: Vec<_> = commands.map(|one| one.name).filter(|name| !listed(name)).collect();
        assert_eq!(missing, OWN);
    }

    const OWN: [&str; 6] =
        ["delifeq", "delex", "debug|object", "spublish", "ssubscribe", "sunsubscribe"];
}
