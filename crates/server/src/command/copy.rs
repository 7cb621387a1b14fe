//! COPY: by the records that an export would have of the key.

use super::{Call, Command, Failure, Outcome, Run, keys};
use crate::keyspace::Database;
use crate::transfer::{load, read};

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
            let mut records = Vec::new();
            read::one(call.tx, target.index(), to, entry, &mut |record| {
                records.push(record);
                Ok(())
            })?;
            for record in &records {
                load::apply(call.tx, call.env.keyspace, record, call.env.now)?;
            }
            call.touch(to)?;
            true
        }
        _ => false,
    };
    call.db = home;
    call.out.flag(copied);
    Ok(())
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
