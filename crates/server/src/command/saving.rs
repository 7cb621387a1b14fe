//! BGSAVE, SAVE and LASTSAVE.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};
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
        "Writes an export beside the pool, while other clients may wait.",
    ),
    Command::new("lastsave", 1, NONE, Run::Client(lastsave), "When the last export was written."),
];

fn bgsave(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let scheduled = call.args.len() == 2 && call.args.is(1, "schedule");
    if call.args.len() > 1 && !scheduled {
        return Err(Failure::SYNTAX);
    }
    begin(call)?;
    call.reply().simple("Background saving started");
    Ok(Next::Go)
}

fn begin(call: &ClientCall<'_>) -> Outcome {
    match call.server.save.begin() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Say("ERR Background save already in progress".into())),
        Err(error) => Err(Failure::say(format!("ERR Background save cannot start: {error}"))),
    }
}

/// As BGSAVE, and answered at the end of the export. The thread that serves this client waits, and so do its other
/// clients.
fn save(call: &mut ClientCall<'_>) -> Outcome<Next> {
    /// How soon an end of the server is noticed.
    const TICK: Duration = Duration::from_millis(100);
    begin(call)?;
    loop {
        // A thread that waits for an export is not stuck.
        call.stats.looks.add(1);
        if let Some(notifier) = call.server.notifier.get() {
            notifier.beat(&call.server.stats);
        }
        match call.server.save.wait(TICK) {
            None if call.server.stopping() => {
                return Err(Failure::Say("ERR the export was given up: the server ends".into()));
            }
            None => {}
            Some(Ok(())) => return call.ok(),
            Some(Err(text)) => return Err(Failure::say(format!("ERR the export failed: {text}"))),
        }
    }
}

fn lastsave(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let last = call.server.save.status().last;
    call.reply().integer(last as i64);
    Ok(Next::Go)
}
