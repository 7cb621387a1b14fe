//! DEBUG, for tests of clients and of this server: off unless [`Options::debug_command`] is on, since
//! DEBUG SLEEP keeps other clients waiting.
//!
//! [`Options::debug_command`]: crate::Options::debug_command

use super::{ClientCall, Command, Failure, Next, Outcome, Run};
use crate::protocol::number;
use std::time::Duration;

/// Seconds that DEBUG SLEEP may take.
const LONGEST: f64 = 60.0;

pub(super) const TABLE: &[Command] =
    &[Command::new("debug", -2, (0, 0, 0), Run::Client(debug), "For tests, where it is allowed.")];

fn debug(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    if !call.server.options.debug_command {
        let text =
            "ERR DEBUG command not allowed. Start the server with --debug-command to allow it";
        return Err(Failure::Say(text.into()));
    }
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
        (b"set-active-expire" | b"sleep" | b"log", _) => {
            return Err(Failure::subcommand_arity(args, "debug"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "DEBUG")),
    }
    call.ok()
}
