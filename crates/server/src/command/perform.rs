//! Running commands on data inside a transaction: a command that fails leaves no trace.

use super::client::BRIEF;
use super::events;
use super::monitor::{self, By};
use super::{Call, Command, Env, Exec, Failure, Outcome, Run, Step};
use crate::keyspace::{Database, Hint};
use crate::listing::Listing;
use crate::protocol::Reply;
use crate::replication;
use crate::slow_log::SlowCommand;
use crate::watch::{WatchList, Watched};
use perdura::{Error, Savepoint, Tx};
use std::time::Instant;

/// How a command was answered.
pub(crate) enum Answer {
    /// With its result, or with an error.
    Done,
    /// The pool, or the disk, is full.
    Full(Failure),
}

/// How a command that may change something is undone.
enum Undo {
    To(Savepoint),
    /// With its transaction, which is run again, unless it has changed nothing.
    WithAll,
}

/// Runs one command; if it fails, its writes are undone and its reply is the error.
pub(crate) fn one(mut call: Call<'_>, command: &'static Command) -> Result<Answer, Error> {
    let start = call.out.len();
    let told = call.env.effects.mark();
    // Also one that reads removes expired keys, if replicas are to hear of it.
    let may_change = command.writes() || call.env.effects.are_on();
    let before = if may_change { call.tx.moment().changes } else { 0 };
    if command.nests {
        call.env.effects.open();
    }
    // Those that it performs may fail by themselves.
    call.env.careful |= command.nests;
    // The commands that it performs are timed themselves.
    let began = command.nests.then(Instant::now);
    let (posted, expired) = (call.env.posts.mark(), call.env.tally.expired_so_far());
    let brief = command.is_brief(&call.args);
    if !brief {
        call.env.tally.begin_long();
    }
    let undo = match call.env.careful {
        _ if !may_change => None,
        true => Some(Undo::To(call.tx.point())),
        false => Some(Undo::WithAll),
    };
    let done: Outcome = match command.run {
        Run::Read(run) | Run::Write(run) => run(&mut call),
        Run::Client(_) => return Ok(Answer::Done),
    };
    if call.env.server.tracking.is_used() {
        call.env.tracked.note_read(&call, command);
    }
    let mut done = done.and_then(|()| whole(&call.out, call.env));
    if call.env.server.events.are_wanted() && command.writes() && !command.nests {
        done = match done {
            Ok(()) => events::done(&mut call, command),
            Err(failure) => {
                call.env.posts.take_written();
                Err(failure)
            }
        };
    }
    if call.env.effects.are_on() {
        if command.nests {
            call.env.effects.close(told);
        } else if done.is_ok() && command.writes() && call.tx.moment().changes != before {
            done = replication::tell(&mut call, command, start);
        }
    }
    // One that finds no room is called again when there is some.
    let again = !call.env.last_resort && done.as_ref().is_err_and(Failure::is_full);
    if !again {
        let brief = brief && call.out.len() - start <= BRIEF;
        let mut timed = call.env.tally.ended(command, done.is_ok(), brief);
        if let Some(began) = began {
            timed = Some(call.env.tally.took(began.elapsed()));
        }
        if let Some(took) = timed.filter(|took| call.env.server.tuning.is_notable(*took)) {
            call.env.tally.slow(SlowCommand::new(command, call.args, call.client, took));
        }
    }
    // The server has every offset from the pool: a wrong one is damage.
    let Err(failure) = done.map_err(Failure::in_pool) else { return Ok(Answer::Done) };
    call.env.effects.back_to(told);
    // Also where it is run again: what it has told so far would come before its answer.
    call.out.truncate(start);
    if let Failure::Pool(Error::Conflict) = failure {
        // The whole transaction is run again, with no more care than before.
        return Err(Error::Conflict);
    }
    let is_changed = may_change && call.tx.moment().changes != before;
    match undo {
        Some(Undo::To(point)) => call.tx.undo_to(point)?,
        Some(Undo::WithAll) if is_changed => {
            call.env.tally.need_care();
            return Err(Error::Conflict);
        }
        _ => {}
    }
    if is_changed || command.nests {
        // Keys that had expired are there again.
        call.env.posts.back_to(posted);
        call.env.tally.expired_back_to(expired);
    }
    match failure {
        Failure::Pool(error) if !is_answer(&error, call.env) => Err(error),
        failure => {
            call.env.tally.error(failure.code());
            failure.tell(&mut call.out);
            match &failure {
                Failure::Pool(error @ Error::NoSpace { .. }) => call.env.server.warn_of_disk(error),
                Failure::Pool(Error::Full { requested, .. }) => {
                    call.env.server.warn_of_full(*requested)
                }
                _ => {}
            }
            Ok(if failure.is_full() { Answer::Full(failure) } else { Answer::Done })
        }
    }
}

/// Whether a reply is not larger than it may be.
fn whole(out: &Reply<'_>, env: Env<'_>) -> Outcome {
    if !out.is_cut() {
        return Ok(());
    }
    let most = env.server.options.max_reply;
    Err(Failure::say(format!("ERR the reply is larger than {most} bytes, see --max-reply")))
}

/// Whether a command can answer this error, with the rest of the transaction going on.
fn is_answer(error: &Error, env: Env<'_>) -> bool {
    match error {
        Error::Full { .. } | Error::NoSpace { .. } => env.last_resort,
        Error::Corrupt { .. } | Error::Invalid(_) | Error::ReadOnly => true,
        _ => false,
    }
}

/// Runs the commands of an EXEC: all, or none if one does not fit into the pool, or on the disk.
pub(crate) fn all(
    tx: &mut dyn Tx,
    env: Env<'_>,
    client: &Listing,
    exec: &mut Exec,
    out: Reply<'_>,
) -> Result<(), Error> {
    steps(tx, env, client, exec, out)?;
    let db = exec.steps.iter().rev().find_map(|step| match step {
        Step::Data { db, .. } => Some(*db),
        Step::Said(_) => None,
    });
    monitor::tell_exec(env, db.unwrap_or(exec.db), client);
    Ok(())
}

fn steps(
    tx: &mut dyn Tx,
    env: Env<'_>,
    client: &Listing,
    exec: &mut Exec,
    mut out: Reply<'_>,
) -> Result<(), Error> {
    exec.aborted = exec.disturbed || !unchanged(tx, env, &exec.watched)?;
    if exec.aborted {
        out.null_array();
        return Ok(());
    }
    let watches = exec.watched.iter().next().is_some();
    let env = Env { careful: true, watches, ..env };
    let start = out.len();
    let (mark, counted, posted) = (tx.point(), env.tally.mark(), env.posts.mark());
    let told = env.effects.mark();
    env.effects.open();
    out.array(exec.steps.len());
    for step in &exec.steps {
        match step_of(tx, env, client, step, &mut out) {
            Ok(Answer::Done) => {}
            Ok(Answer::Full(failure)) => {
                tx.undo_to(mark)?;
                env.posts.back_to(posted);
                env.effects.back_to(told);
                env.effects.close(told);
                out.truncate(start);
                failure.tell(&mut out);
                return Ok(());
            }
            Err(error) => {
                // All of it is done again, or refused as a whole: the counted calls were none.
                env.tally.back_to(counted);
                env.posts.back_to(posted);
                env.effects.back_to(told);
                env.effects.close(told);
                tx.undo_to(mark)?;
                out.truncate(start);
                return Err(error);
            }
        }
    }
    if let Err(failure) = whole(&out, env) {
        tx.undo_to(mark)?;
        env.posts.back_to(posted);
        env.effects.back_to(told);
        out.truncate(start);
        env.tally.error(failure.code());
        failure.tell(&mut out);
    }
    env.effects.close(told);
    Ok(())
}

/// Whether the watched keys were neither written nor have expired. They are read first: a transaction that commits
/// a write of one of them between this and the commit is in conflict, and one that has done so before is counted.
fn unchanged(tx: &mut dyn Tx, env: Env<'_>, watched: &WatchList) -> Result<bool, Error> {
    for one in watched.iter() {
        if has_expired(tx, env, one)? {
            return Ok(false);
        }
    }
    Ok(env.server.watch.unchanged(watched))
}

/// The same for one key.
pub(crate) fn is_unchanged(
    tx: &mut dyn Tx,
    env: Env<'_>,
    watched: &Watched,
) -> Result<bool, Error> {
    Ok(!has_expired(tx, env, watched)? && env.server.watch.is_unchanged(watched))
}

/// Reads a watched key's entry. Whether it has expired since it is watched.
fn has_expired(tx: &mut dyn Tx, env: Env<'_>, watched: &Watched) -> Result<bool, Error> {
    let (db, key) = watched.name();
    let found = Database::new(env.keyspace, db).find(tx, key)?;
    let time = found.and_then(|found| found.entry.expires());
    Ok(time.is_some_and(|time| watched.expired(time, env.now)))
}

fn step_of(
    tx: &mut dyn Tx,
    env: Env<'_>,
    client: &Listing,
    step: &Step,
    out: &mut Reply<'_>,
) -> Result<Answer, Error> {
    match step {
        Step::Said(reply) => {
            out.raw(reply);
            Ok(Answer::Done)
        }
        Step::Data { command, args, db, remembers } => {
            if env.server.tracking.is_used() {
                env.tracked.act_as(client.id, *remembers);
            }
            let db = Database::new(env.keyspace, *db);
            let args = args.as_args();
            monitor::tell(env, db.index(), By::Client(client), command, args);
            one(
                Call {
                    tx,
                    env,
                    db,
                    client,
                    args,
                    out: out.again(),
                    may_wait: false,
                    near: Hint::default(),
                },
                command,
            )
        }
    }
}
