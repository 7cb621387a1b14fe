//! SLOWLOG: which commands took long.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};
use crate::protocol::number;

pub(super) const TABLE: &[Command] =
    &[Command::new("slowlog", -2, (0, 0, 0), Run::Client(slowlog), "Commands that took long.")];

/// Entries that SLOWLOG GET answers unless it is asked for another number.
const USUAL: i64 = 10;

fn slowlog(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    let log = &call.server.slow_log;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"get", 2 | 3) => get(call)?,
        (b"len", 2) => call.reply().size(log.len() as u64),
        (b"reset", 2) => {
            log.clear();
            return call.ok();
        }
        (b"help", 2) => call.reply().help(
            "SLOWLOG",
            &[
                "GET [<count>]",
                "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
                "    Entries are made of:",
                "    id, timestamp, time in microseconds, arguments array, client IP and port,",
                "    client name",
                "LEN",
                "    Return the length of the slowlog.",
                "RESET",
                "    Reset the slowlog.",
            ],
        ),
        (b"get" | b"len" | b"reset" | b"help", _) => {
            return Err(Failure::subcommand_arity(args, "slowlog"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "SLOWLOG")),
    }
    Ok(Next::Go)
}

fn get(call: &mut ClientCall<'_>) -> Outcome {
    let count = match call.args.get(2) {
        None => USUAL,
        Some(text) => number::parse_i64(text).filter(|count| *count >= -1).ok_or_else(|| {
            Failure::Say("ERR count should be greater than or equal to -1".into())
        })?,
    };
    // -1 is all of them.
    let found = call.server.slow_log.newest(usize::try_from(count).unwrap_or(usize::MAX));
    let mut out = call.reply();
    out.array(found.len());
    for (number, command) in found {
        out.array(6);
        out.size(number);
        out.size(command.time);
        out.size(u64::try_from(command.took.as_micros()).unwrap_or(u64::MAX));
        out.array(command.args.len());
        command.args.iter().for_each(|arg| out.bulk(arg));
        out.bulk(command.address.as_bytes());
        out.bulk(command.name.as_bytes());
    }
    Ok(())
}
