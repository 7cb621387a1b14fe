//! BGSAVE and LASTSAVE.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new(
        "bgsave",
        -1,
        NONE,
        Run::Client(bgsave),
        "Writes an export beside the pool, in the background.",
    ),
    Command::new("lastsave", 1, NONE, Run::Client(lastsave), "When the last export was written."),
];

fn bgsave(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let scheduled = call.args.len() == 2 && call.args.is(1, "schedule");
    if call.args.len() > 1 && !scheduled {
        return Err(Failure::SYNTAX);
    }
    match call.server.save.begin() {
        Ok(true) => {
            call.reply().simple("Background saving started");
            Ok(Next::Go)
        }
        Ok(false) => Err(Failure::Say("ERR Background save already in progress".into())),
        Err(error) => Err(Failure::say(format!("ERR Background save cannot start: {error}"))),
    }
}

fn lastsave(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let last = call.server.save.told().last;
    call.reply().integer(last as i64);
    Ok(Next::Go)
}
