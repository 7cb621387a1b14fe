//! FUNCTION, as far as a server without functions can say something: that there are none.

use super::{ClientCall, Command, Failure, Next, Outcome, Run, shown};

pub(super) const TABLE: &[Command] =
    &[Command::new("function", -2, (0, 0, 0), Run::Client(function), "Says that there are none.")];

fn function(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"flush", 2) => return call.ok(),
        (b"flush", 3) if args.is(2, "async") || args.is(2, "sync") => return call.ok(),
        (b"flush", _) => {
            let text = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
            return Err(Failure::Say(text.into()));
        }
        (b"list", _) => {
            check_list(call)?;
            call.reply().array(0);
        }
        (b"stats", 2) => {
            let mut out = call.reply();
            out.map(2);
            out.bulk(b"running_script");
            out.null();
            out.bulk(b"engines");
            out.map(0);
        }
        (b"kill", 2) => {
            return Err(Failure::Say("NOTBUSY No scripts in execution right now.".into()));
        }
        (b"delete", 3) => return Err(Failure::Say("ERR Library not found".into())),
        (b"stats" | b"kill" | b"delete", _) => {
            return Err(Failure::subcommand_arity(args, "function"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "FUNCTION")),
    }
    Ok(Next::Go)
}

/// The options of FUNCTION LIST.
fn check_list(call: &ClientCall<'_>) -> Outcome {
    let args = call.args;
    let mut at = 2;
    while at < args.len() {
        if args.is(at, "libraryname") {
            if at + 1 == args.len() {
                return Err(Failure::Say("ERR library name argument was not given".into()));
            }
            at += 1;
        } else if !args.is(at, "withcode") {
            let argument = shown(args.at(at), 128);
            return Err(Failure::say(format!("ERR Unknown argument {argument}")));
        }
        at += 1;
    }
    Ok(())
}
