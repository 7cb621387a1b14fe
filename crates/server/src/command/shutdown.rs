//! SHUTDOWN: ends the server as SIGTERM does.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};

pub(super) const TABLE: &[Command] = &[Command::new(
    "shutdown",
    -1,
    (0, 0, 0),
    Run::Client(shutdown),
    "Ends the server; what was acknowledged is durable.",
)];

/// The options change nothing: there is nothing to save, and there are no replicas to wait for. As in Redis a SHUTDOWN
/// that succeeds has no reply: its connection is closed.
fn shutdown(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (mut save, mut nosave, mut abort, mut others) = (false, false, false, false);
    for at in 1..call.args.len() {
        match () {
            () if call.args.is(at, "save") => save = true,
            () if call.args.is(at, "nosave") => nosave = true,
            () if call.args.is(at, "abort") => abort = true,
            () if call.args.is(at, "now") || call.args.is(at, "force") => others = true,
            () => return Err(Failure::SYNTAX),
        }
    }
    if (save && nosave) || (abort && (save || nosave || others)) {
        return Err(Failure::SYNTAX);
    }
    if abort {
        // It would have to be sent while the server ends, and then nothing is read any more.
        return Err(Failure::Say("ERR No shutdown in progress.".into()));
    }
    let client = &call.client.listing;
    call.server.stop(&format!("SHUTDOWN of client {} at {}", client.id, client.address));
    Ok(Next::Close)
}
