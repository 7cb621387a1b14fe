//! BGSAVE, SAVE and LASTSAVE; BGREWRITEAOF; WAIT and WAITAOF.
//!
//! SAVE keeps no thread: its client waits, and is answered by the export's end (`save.rs`).

use super::{Call, ClientCall, Command, Failure, Next, Outcome, Run};
use crate::client::Client;
use crate::protocol::number;
use crate::save::Saver;
use crate::waiting::{Address, Wish};
use std::time::Duration;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new(
        "bgsave",
        -1,
        NONE,
        Run::Client(bgsave),
        "Writes an export beside the pool, in the background.",
    ),
    Command::new(
        "save",
        1,
        NONE,
        Run::Client(save),
        "Writes an export beside the pool, and answers when it is there.",
    ),
    Command::new("bgrewriteaof", 1, NONE, Run::Client(rewrite), "There is nothing to rewrite."),
    Command::new("lastsave", 1, NONE, Run::Client(lastsave), "When the last export was written."),
    Command::waiting("wait", 3, NONE, Run::Read(wait), "Waits until replicas have all writes."),
    Command::new(
        "waitaof",
        4,
        NONE,
        Run::Read(wait_durable),
        "Where all writes are durable: here.",
    ),
];

fn bgsave(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let scheduled = call.args.len() == 2 && call.args.is(1, "schedule");
    if call.args.len() > 1 && !scheduled {
        return Err(Failure::SYNTAX);
    }
    begin(call, None)?;
    call.reply().simple("Background saving started");
    Ok(Next::Go)
}

/// The pool's log is not one that grows.
fn rewrite(call: &mut ClientCall<'_>) -> Outcome<Next> {
    call.reply().simple("Background append only file rewriting started");
    Ok(Next::Go)
}

fn wait(call: &mut Call<'_>) -> Outcome {
    if call.env.server.following.is_replica() {
        let text = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica \
                    is configured to be writable (which is not the default) writes to replicas are just local and \
                    are not propagated.";
        return Err(Failure::Say(text.into()));
    }
    let (wanted, timeout) = replicas(call, 1)?;
    if wanted == 0 || !call.may_wait {
        let count = call.env.server.replication.count_with(call.env.effects.last_number());
        call.out.size(count as u64);
        return Ok(());
    }
    call.wait(Wish::for_replicas(wanted, timeout))
}

/// Whatever is answered is durable, the writes before this too.
fn wait_durable(call: &mut Call<'_>) -> Outcome {
    if !(0..=1).contains(&call.integer(1)?) {
        let text = "ERR value is out of range, value must between 0 and 1";
        return Err(Failure::Say(text.into()));
    }
    replicas(call, 2)?;
    call.out.array(2);
    call.out.integer(1);
    call.out.integer(0);
    Ok(())
}

/// A number of replicas, and the time to wait for them.
fn replicas(call: &Call<'_>, at: usize) -> Outcome<(usize, Option<Duration>)> {
    let Ok(wanted) = usize::try_from(call.integer(at)?) else {
        return Err(Failure::MUST_BE_POSITIVE);
    };
    match number::parse_i64(call.args.at(at + 1)) {
        None => Err(Failure::Say("ERR timeout is not an integer or out of range".into())),
        Some(millis) if millis < 0 => Err(Failure::Say("ERR timeout is negative".into())),
        Some(0) => Ok((wanted, None)),
        Some(millis) => Ok((wanted, Some(Duration::from_millis(millis as u64)))),
    }
}

fn begin(call: &ClientCall<'_>, saver: Option<Saver>) -> Outcome {
    match call.server.save.begin(saver) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Say("ERR Background save already in progress".into())),
        Err(error) => Err(Failure::say(format!("ERR Background save cannot start: {error}"))),
    }
}

/// As BGSAVE, and answered at the end of the export.
fn save(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let Client { listing, home, protocol, .. } = &*call.client;
    let to = Address { worker: home.worker, slot: home.slot, id: listing.id };
    begin(call, Some(Saver { to, protocol: *protocol }))?;
    Ok(Next::Wait)
}

fn lastsave(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let last = call.server.save.status().last;
    call.reply().integer(last as i64);
    Ok(Next::Go)
}
