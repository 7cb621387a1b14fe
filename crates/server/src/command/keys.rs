//! Keys of any kind: deleting, renaming, counting.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::{DATABASES, Database, Found};
use crate::protocol::number;

const NONE: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("del", -2, ALL, Run::Write(del), "Deletes keys."),
    Command::new("unlink", -2, ALL, Run::Write(del), "Deletes keys."),
    Command::brief("exists", -2, ALL, Run::Read(exists), "Counts which of the keys are there."),
    Command::new("touch", -2, ALL, Run::Read(exists), "Counts which of the keys are there."),
    Command::brief("type", 2, ONE, Run::Read(kind), "What a key holds."),
    Command::new("rename", 3, TWO, Run::Write(rename), "Renames a key."),
    Command::new("renamenx", 3, TWO, Run::Write(renamenx), "Renames a key to a new name."),
    Command::new("move", 3, ONE, Run::Write(move_key), "Moves a key to another database."),
    Command::new("dbsize", 1, NONE, Run::Read(dbsize), "How many keys there are."),
    Command::new("swapdb", 3, NONE, Run::Write(swapdb), "Lets two databases change places."),
    Command::new("flushdb", -1, NONE, Run::Write(flushdb), "Deletes all keys of the database."),
    Command::new("flushall", -1, NONE, Run::Write(flushall), "Deletes all keys."),
    Command::new("randomkey", 1, NONE, Run::Read(randomkey), "Any key."),
];

fn del(call: &mut Call<'_>) -> Outcome {
    let mut deleted = 0;
    for key in call.args.from(1).iter() {
        deleted += i64::from(call.remove(key)?);
    }
    call.out.integer(deleted);
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Outcome {
    let mut there = 0;
    for key in call.args.from(1).iter() {
        there += i64::from(call.look(key)?.is_some());
    }
    call.out.integer(there);
    Ok(())
}

fn kind(call: &mut Call<'_>) -> Outcome {
    let found = call.peek(call.args.at(1))?;
    call.out.simple(found.map_or("none", |entry| entry.kind().name()));
    Ok(())
}

/// Moves the value of `from` to `to`, perhaps in another database. Both were kept for an export.
fn carry(call: &mut Call<'_>, from: &[u8], to: &[u8], db: Database) -> Outcome {
    let Some(entry) = call.db.take(call.tx, from)? else { return Err(Failure::NO_KEY) };
    call.touch(from)?;
    db.put(call.tx, to, None, entry)?;
    Ok(call.env.touch(call.tx, &db, to)?)
}

fn rename(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.at(1), call.args.at(2));
    if call.claim(from)?.is_none() {
        return Err(Failure::NO_KEY);
    }
    if from != to {
        call.env.keep(call.tx, call.db, to);
        call.db.remove(call.tx, to)?;
        carry(call, from, to, call.db)?;
    }
    call.out.ok();
    Ok(())
}

fn renamenx(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.at(1), call.args.at(2));
    if call.claim(from)?.is_none() {
        return Err(Failure::NO_KEY);
    }
    let free = call.claim(to)?.is_none();
    if free {
        carry(call, from, to, call.db)?;
    }
    call.out.flag(free);
    Ok(())
}

/// A database's number.
pub(super) fn database(text: &[u8]) -> Outcome<u8> {
    number::parse_i64(text).ok_or(Failure::NOT_INTEGER).and_then(numbered)
}

/// The number of a database, if there is one with it.
fn numbered(index: i64) -> Outcome<u8> {
    let index = u8::try_from(index).ok().filter(|&index| index < DATABASES);
    index.ok_or(Failure::DB_INDEX)
}

fn move_key(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let db = Database::new(call.env.keyspace, database(call.args.at(2))?);
    if db.index() == call.db.index() {
        return Err(Failure::Say("ERR source and destination objects are the same".into()));
    }
    let there = |found: Option<Found>| found.is_some_and(|f| !f.entry.expired(call.env.cutoff));
    let taken = there(db.find(call.tx, key)?);
    let movable = call.claim(key)?.is_some() && !taken;
    if movable {
        call.env.keep(call.tx, db, key);
        db.remove(call.tx, key)?;
        carry(call, key, key, db)?;
    }
    call.out.flag(movable);
    Ok(())
}

fn swapdb(call: &mut Call<'_>) -> Outcome {
    let number = |at: usize, wrong: &'static str| {
        let number = number::parse_i64(call.args.at(at));
        number.filter(|number| i32::try_from(*number).is_ok()).ok_or(Failure::Say(wrong.into()))
    };
    let one = number(1, "ERR invalid first DB index")?;
    let other = number(2, "ERR invalid second DB index")?;
    let database = |index| numbered(index).map(|index| Database::new(call.env.keyspace, index));
    let (one, other) = (database(one)?, database(other)?);
    call.out.ok();
    if one.index() == other.index() {
        return Ok(());
    }
    // Who watches a key hears of it whether it goes or comes.
    for before in [true, false] {
        call.env.touch_all(call.tx, &one)?;
        call.env.touch_all(call.tx, &other)?;
        if before {
            one.swap(call.tx, other)?;
        }
    }
    Ok(())
}

fn dbsize(call: &mut Call<'_>) -> Outcome {
    let len = call.db.len(call.tx)?;
    call.out.size(len);
    Ok(())
}

/// FLUSHDB's and FLUSHALL's options change nothing: deleted values are always freed later.
fn check_flush(call: &Call<'_>) -> Outcome {
    let known = call.args.is(1, "async") || call.args.is(1, "sync");
    match call.args.len() {
        1 => Ok(()),
        2 if known => Ok(()),
        _ => Err(Failure::SYNTAX),
    }
}

/// Deletes all keys of a database.
fn clear(call: &mut Call<'_>, db: Database) -> Outcome {
    call.env.end_walks();
    call.env.touch_all(call.tx, &db)?;
    Ok(db.clear(call.tx)?)
}

fn flushdb(call: &mut Call<'_>) -> Outcome {
    check_flush(call)?;
    clear(call, call.db)?;
    call.out.ok();
    Ok(())
}

fn flushall(call: &mut Call<'_>) -> Outcome {
    check_flush(call)?;
    for index in 0..DATABASES {
        clear(call, Database::new(call.env.keyspace, index))?;
    }
    call.out.ok();
    Ok(())
}

fn randomkey(call: &mut Call<'_>) -> Outcome {
    /// Expired keys are met this often at most.
    const TRIES: u64 = 64;
    if let Some(keys) = call.db.keys(call.tx)? {
        for turn in 0..TRIES {
            let seed = call.env.seed.wrapping_mul(TRIES).wrapping_add(turn);
            let Some((key, entry)) = keys.random(call.tx, seed)? else { break };
            if !entry.expired(call.env.now) {
                call.out.bulk(&key);
                return Ok(());
            }
        }
    }
    call.out.null();
    Ok(())
}
