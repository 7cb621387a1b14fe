//! COPY: a walk through the value, during which the copy is filled.

use super::{Call, Command, Failure, Outcome, Run, keys};
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::stream::Stream;
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{Database, End, Entry, Kind, text};

/// Fields of a hash looked at in one step.
const STEP: u64 = 256;

pub(super) const TABLE: &[Command] =
    &[Command::new("copy", -3, (1, 2, 1), Run::Write(copy), "Copies a key.")];

fn copy(call: &mut Call<'_>) -> Outcome {
    let (args, home) = (call.args, call.db);
    let (mut target, mut replace, mut at) = (home, false, 3);
    while at < args.len() {
        if args.is(at, "replace") {
            replace = true;
        } else if args.is(at, "db") && at + 1 < args.len() {
            at += 1;
            target = Database::new(call.env.keyspace, keys::database(args.at(at))?);
        } else {
            return Err(Failure::SYNTAX);
        }
        at += 1;
    }
    let (from, to) = (args.at(1), args.at(2));
    if from == to && target.index() == home.index() {
        return Err(Failure::Say("ERR source and destination objects are the same".into()));
    }
    let found = call.look(from)?;
    call.db = target;
    let copied = match found {
        Some(entry) if call.claim(to)?.is_none() || replace => {
            call.remove(to)?;
            let copied = copy_of(call, entry)?.expiring(entry.expires());
            call.put(to, None, copied)?;
            true
        }
        _ => false,
    };
    call.db = home;
    call.out.flag(copied);
    Ok(())
}

/// A copy of a value, which never expires, for the call's database. Elements are copied one by one, or some at a time.
fn copy_of(call: &mut Call<'_>, entry: Entry) -> Outcome<Entry> {
    let (tx, db) = (&mut *call.tx, call.db);
    Ok(match entry.kind() {
        Kind::String => {
            let value = text::read(tx, entry)?;
            text::store(tx, None, &value)?
        }
        Kind::Hash => {
            let (hash, mut copy) = (Hash::load(tx, Some(entry))?, Hash::load(tx, None)?);
            let mut cursor = 0;
            loop {
                let (next, pairs) = hash.scan(tx, cursor, STEP)?;
                for (field, value) in pairs {
                    copy.set(tx, db, &field, &value)?;
                }
                cursor = next;
                if cursor == 0 {
                    break copy.save(tx)?;
                }
            }
        }
        Kind::Set => {
            let (set, mut copy) = (Set::load(tx, Some(entry))?, Set::load(tx, None)?);
            set.walk(tx, &mut |tx, member| {
                copy.set(tx, db, member, b"")?;
                Ok::<bool, Failure>(true)
            })?;
            copy.save(tx)?
        }
        Kind::List => {
            let (list, mut copy) = (List::load(tx, Some(entry))?, List::load(tx, None)?);
            list.walk(tx, 0, false, &mut |tx, element| {
                let element = element.read(tx)?;
                copy.push(tx, End::Right, &element)?;
                Ok::<bool, Failure>(true)
            })?;
            copy.save(tx)?
        }
        Kind::Stream => {
            let most = call.env.server.tuning.stream_chunk();
            Stream::load(tx, entry)?.copy(tx, most)?.save(tx)?
        }
        Kind::SortedSet => {
            let (set, copy) = (SortedSet::load(tx, entry)?, SortedSet::create(tx, db)?);
            let mut walk = set.walk_at(tx, 0, false)?;
            while let Some((score, member)) = walk.next(tx)? {
                copy.set(tx, &member, None, score)?;
            }
            copy.entry()
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::command::harness::Bench;

    #[test]
    fn every_type_is_copied() {
        let mut bench = Bench::new();
        let many: String = (0..600).map(|number| format!(" {number}")).collect();
        bench.run(&format!("rpush list{many}"));
        bench.run(&format!("sadd set{many}"));
        bench.run("hset hash a 1 b 2");
        bench.run("zadd zset 1 a 2 b");
        bench.run("set text value ex 100");
        let pairs: String = (0..2000).map(|number| format!(" {number} {number}")).collect();
        bench.run(&format!("hset fields{pairs}"));
        bench.run(&format!("zadd ranks{pairs}"));
        bench.play(&[
            ("copy fields copied", ":1"),
            ("hlen copied", ":2000"),
            ("hmget copied 0 1999", "*2 $1 0 $4 1999"),
            ("hdel copied 5", ":1"),
            ("hget fields 5", "$1 5"),
            ("copy ranks copied replace", ":1"),
            ("zcard copied", ":2000"),
            ("zrange copied 998 999", "*2 $3 998 $3 999"),
            ("zscore copied 1999", "$4 1999"),
            ("zrem copied 5", ":1"),
            ("zscore ranks 5", "$1 5"),
            ("del copied", ":1"),
        ]);
        bench.play(&[
            ("copy list other", ":1"),
            ("llen other", ":600"),
            ("lrange other 300 301", "*2 $3 300 $3 301"),
            ("copy set other", ":0"),
            ("copy set other replace", ":1"),
            ("scard other", ":600"),
            ("sdiff other set", "*0"),
            ("srem other 5", ":1"),
            ("sismember set 5", ":1"),
            ("copy hash other replace", ":1"),
            ("hmget other a b", "*2 $1 1 $1 2"),
            ("copy zset other replace", ":1"),
            ("zrange other 0 -1 withscores", "*4 $1 a $1 1 $1 b $1 2"),
            ("copy text other replace", ":1"),
            ("ttl other", ":100"),
            ("get other", "$5 value"),
            ("copy none other replace", ":0"),
            ("exists other", ":1"),
            ("copy text text db 3", ":1"),
            ("copy text text", "-ERR source and destination objects are the same"),
            ("copy text text db 0", "-ERR source and destination objects are the same"),
            ("copy text x db 16", "-ERR DB index is out of range"),
            ("copy text x db", "-ERR syntax error"),
            ("copy text x bad", "-ERR syntax error"),
        ]);
        bench.now += 101_000;
        bench.play(&[("copy text x", ":0"), ("copy list other", ":1")]);
        bench.run_cron();
        bench.check();
    }
}
