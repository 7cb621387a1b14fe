//! DEBUG, for tests of clients and of this server: off unless [`Options::debug_command`] is on, since
//! DEBUG SLEEP keeps other clients waiting.
//!
//! [`Options::debug_command`]: crate::Options::debug_command

use super::{Call, ClientCall, Command, Failure, Next, Outcome, Run, objects};
use crate::protocol::number;
use crate::rdb::{form, values};
use crate::server::Server;
use std::time::Duration;

/// Seconds that DEBUG SLEEP may take.
const LONGEST: f64 = 60.0;

pub(super) const TABLE: &[Command] = &[
    Command::new("debug", -2, (0, 0, 0), Run::Client(debug), "For tests, where it is allowed.")
        .with_parts(),
    Command::new("debug|object", 3, (2, 2, 1), Run::Read(object), "How a key's value is kept."),
];

/// The error where it is not.
fn check(server: &Server) -> Outcome {
    if server.options.debug_command {
        return Ok(());
    }
    let text = "ERR DEBUG command not allowed. Start the server with --debug-command to allow it";
    Err(Failure::Say(text.into()))
}

/// The fields of Redis that tools read. The value is where its block is in the pool.
fn object(call: &mut Call<'_>) -> Outcome {
    check(call.env.server)?;
    let (key, db, now) = (call.args.at(2), call.db.index(), call.env.now);
    let Some(entry) = call.inspect(key)? else { return Err(Failure::NO_KEY) };
    let encoding = objects::encoding_of(call, entry)?;
    let (mut value, most) = (Vec::new(), call.env.server.options.max_reply);
    values::write(call.tx, entry, form::STREAM_LAST, &mut value, &mut |len| len <= most)?;
    let at = if entry.is_in_place() { 0 } else { entry.at() };
    let server = call.env.server;
    let known = server.eviction.idle(db, key, now).flatten().map(|millis| millis / 1000);
    let idle = known.unwrap_or(server.started.elapsed().as_secs());
    // Of the value itself, without the byte that says what it is.
    let len = value.len().saturating_sub(1);
    call.out.simple(&format!(
        "Value at:{at:#x} refcount:1 encoding:{encoding} serializedlength:{len} lru:0 lru_seconds_idle:{idle}"
    ));
    Ok(())
}

fn debug(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    check(call.server)?;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"set-active-expire", 3) => match args.at(2) {
            b"0" => call.server.set_expires_actively(false),
            b"1" => call.server.set_expires_actively(true),
            _ => return Err(Failure::NOT_INTEGER),
        },
        (b"sleep", 3) => {
            let seconds = number::parse_f64(args.at(2)).ok_or(Failure::NOT_FLOAT)?;
            std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST)));
        }
        // Quoted: a line of the log is no client's to forge.
        (b"log", 3..) => tracing::info!("DEBUG LOG: {:?}", String::from_utf8_lossy(args.at(2))),
        // Commands work on the pool itself: there is nothing to write, or to read back.
        (b"reload" | b"loadaof", 2..) => {}
        // Lists have no such nodes: for Redis's tests.
        (b"quicklist-packed-threshold", 3) => {}
        (b"set-active-expire" | b"sleep" | b"log" | b"object", _) => {
            return Err(Failure::subcommand_arity(args, "debug"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "DEBUG")),
    }
    call.ok()
}
