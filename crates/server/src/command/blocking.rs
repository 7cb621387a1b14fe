//! Commands whose clients wait until there is something to take, and performing these for them.

use super::lists::{end, many_of_lists, move_between, pop_first, pop_many};
use super::{Call, Command, Env, Failure, Outcome, perform};
use crate::keyspace::{Database, End, Entry, Hint, Kind};
use crate::protocol::{Reply, number};
use crate::waiting::{Doom, Name, Waiter, Wish};
use perdura::{Error, Tx};
use std::time::Duration;

const TWO: (i32, i32, i32) = (1, 2, 1);
const BUT_LAST: (i32, i32, i32) = (1, -2, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::blocking("blpop", -3, BUT_LAST, blpop, "LPOP of the first list there is, or waits."),
    Command::blocking("brpop", -3, BUT_LAST, brpop, "RPOP of the first list there is, or waits."),
    Command::blocking("blmove", 6, TWO, blmove, "LMOVE, or waits."),
    Command::blocking("brpoplpush", 4, TWO, brpoplpush, "RPOPLPUSH, or waits."),
    Command::blocking("blmpop", -5, NONE, blmpop, "LMPOP, or waits."),
];

/// The time-out in the argument at `index`, in seconds; zero means for ever.
pub(super) fn timeout(call: &Call<'_>, index: usize) -> Outcome<Option<Duration>> {
    let wrong = Failure::Say("ERR timeout is not a float or out of range".into());
    let seconds = number::parse_f64(call.args.at(index)).ok_or(wrong)?;
    let millis = (seconds * 1000.0).ceil();
    // As far as the time that it ends at is one.
    let most = (i64::MAX as u64).saturating_sub(call.env.now) as f64;
    match () {
        () if millis >= most => Err(Failure::Say("ERR timeout is out of range".into())),
        () if millis < 0.0 => Err(Failure::Say("ERR timeout is negative".into())),
        () if millis == 0.0 => Ok(None),
        () => Ok(Some(Duration::from_millis(millis as u64))),
    }
}

fn blpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Left)
}

fn brpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Right)
}

fn pop(call: &mut Call<'_>, from: End) -> Outcome {
    let last = call.args.len() - 1;
    let timeout = timeout(call, last)?;
    match pop_first(call, call.args.first(1, last - 1), from)? {
        true => Ok(()),
        false => call.wait(Wish::new(Kind::List, (1, last - 1), timeout)),
    }
}

fn blmove(call: &mut Call<'_>) -> Outcome {
    let ends = [end(call.args, 3)?, end(call.args, 4)?];
    move_or_wait(call, ends, 5)
}

fn brpoplpush(call: &mut Call<'_>) -> Outcome {
    move_or_wait(call, [End::Right, End::Left], 3)
}

fn move_or_wait(call: &mut Call<'_>, ends: [End; 2], last: usize) -> Outcome {
    let timeout = timeout(call, last)?;
    if move_between(call, ends)? {
        return Ok(());
    }
    if !call.may_wait {
        call.out.null();
        return Ok(());
    }
    call.wait(Wish::new(Kind::List, (1, 1), timeout))
}

fn blmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, from, count) = many_of_lists(call.args.from(2))?;
    let timeout = timeout(call, 1)?;
    match pop_many(call, keys, from, count)? {
        true => Ok(()),
        false => call.wait(Wish::new(Kind::List, (3, keys.len()), timeout)),
    }
}

/// Serves the clients that wait for the keys that were written, as long as they hold something. `alone` says that the
/// transaction does nothing else, and how many it serves at most: others are left for later.
///
/// # Errors
/// The transaction must be undone up to where the keys were written.
pub(crate) fn serve(tx: &mut dyn Tx, env: Env<'_>, alone: Option<usize>) -> Result<(), Error> {
    while let Some(name) = env.waits.next_written() {
        // The client that was tried last: those before it are served, or wait on.
        let mut tried = None;
        loop {
            if alone.is_some_and(|most| env.waits.mark() >= most) {
                env.waits.note(name.0, &name.1);
                return Ok(());
            }
            let Some((arrival, waiter)) = next_waiter(tx, env, &name, tried)? else { break };
            let id = waiter.to.id;
            tried = Some(arrival);
            env.waits.tries(id);
            if env.server.following.gate().refusal(waiter.command).is_some() {
                // It came before this server began to follow a master.
                env.waits.give_up(&env.server.waiting, Doom::Demoted);
                env.waits.release_unserved(&env.server.waiting, id);
                continue;
            }
            let before = tx.point();
            let told = env.effects.mark();
            let alone = alone.is_some() && env.waits.mark() == 0;
            match serve_one(tx, env, &waiter, alone) {
                Ok(Some(reply)) => env.waits.serve(&waiter, reply),
                // It is served by itself later, and so are those whose keys were not looked at yet.
                Err(Error::TooLarge { .. }) if !alone => {
                    tx.undo_to(before)?;
                    env.effects.back_to(told);
                    env.waits.release(&env.server.waiting, id);
                    return Ok(());
                }
                // It found nothing that it takes: it waits on, in its place.
                Ok(None) => {
                    env.waits.release_unserved(&env.server.waiting, id);
                }
                Err(error) => {
                    env.waits.release(&env.server.waiting, id);
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// The first of the clients after those that were tried that waits for a value as a key holds it, or for its end.
fn next_waiter(
    tx: &mut dyn Tx,
    env: Env<'_>,
    name: &Name,
    tried: Option<u64>,
) -> Result<Option<(u64, std::sync::Arc<Waiter>)>, Error> {
    let (db, key) = name;
    let found = Database::new(env.keyspace, *db).find(tx, key)?;
    let entry = found.map(|found| found.entry).filter(|entry| !entry.expired(env.now));
    Ok(env.server.waiting.claim(name, entry.map(Entry::kind), tried))
}

/// Performs a client's command. Returns its reply; `None` if it found nothing.
fn serve_one(
    tx: &mut dyn Tx,
    env: Env<'_>,
    waiter: &Waiter,
    alone: bool,
) -> Result<Option<Vec<u8>>, Error> {
    let mut reply = Vec::new();
    let before = tx.point();
    let call = Call {
        tx: &mut *tx,
        env: Env { careful: true, ..env },
        db: Database::new(env.keyspace, waiter.db),
        client: &waiter.client,
        args: waiter.args.as_args(),
        out: Reply::new(&mut reply, waiter.protocol).at_most(env.server.options.max_reply),
        may_wait: true,
        near: Hint::default(),
    };
    let other = env.tracked.act_as(waiter.to.id, waiter.client.remembers());
    let done = perform::one(call, waiter.command);
    env.tracked.act_as(other.0, other.1);
    let waits = env.waits.take_wish().is_some();
    match done {
        Ok(_) if waits => Ok(None),
        Ok(_) => Ok(Some(reply)),
        Err(error @ Error::TooLarge { .. }) if alone => {
            tx.undo_to(before)?;
            reply.clear();
            Failure::Pool(error).tell(&mut Reply::new(&mut reply, waiter.protocol));
            Ok(Some(reply))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use crate::command::harness::Bench;

    /// The key was filled before the server has begun to follow a master, and is looked at afterwards.
    #[test]
    fn nobody_takes_anything_from_a_replica() {
        for follows in [false, true] {
            let mut bench = Bench::new();
            assert_eq!(bench.run("RPUSH list x"), ":1");
            let told = bench.look_again("BLPOP list 0", follows).unwrap();
            assert_eq!(told.starts_with("-UNBLOCKED"), follows, "{told}");
            assert_eq!(bench.run("LLEN list"), if follows { ":1" } else { ":0" });
        }
    }
}
