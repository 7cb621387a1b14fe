//! What clients ask about the server itself: COMMAND, TIME.

use super::table::{Command, all, find};
use super::{ClientCall, Failure, Next, Outcome, Run, shown};
use crate::protocol::{Args, Reply, glob};
use crate::server::now;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new("command", -1, NONE, Run::Client(command), "Which commands there are."),
    Command::new("time", 1, NONE, Run::Client(time), "The server's clock."),
];

/// The error for a subcommand with too few arguments, or too many.
pub(super) fn subcommand_arity(args: Args<'_>, name: &str) -> Failure {
    Failure::arity(&format!("{name}|{}", shown(args.at(1), 128).to_lowercase()))
}

/// The error for a subcommand that does not exist.
pub(super) fn unknown_subcommand(args: Args<'_>, name: &str) -> Failure {
    let sub = shown(args.at(1), 128);
    Failure::say(format!("ERR unknown subcommand '{sub}'. Try {name} HELP."))
}

/// Answers a command's HELP: `lines` are of its subcommands.
pub(super) fn help(out: &mut Reply<'_>, name: &str, lines: &[&str]) {
    out.array(lines.len() + 3);
    out.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| out.simple(line));
    out.simple("HELP");
    out.simple("    Print this help.");
}

fn command(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    let Some(sub) = args.get(1) else {
        let mut out = call.reply();
        out.array(all().count());
        all().for_each(|(_, command)| describe(&mut out, command));
        return Ok(Next::Go);
    };
    match sub.to_ascii_lowercase().as_slice() {
        b"count" if args.len() == 2 => call.reply().size(all().count() as u64),
        b"list" => list(&mut call.reply(), args.from(2))?,
        b"info" if args.len() > 2 => {
            let mut out = call.reply();
            out.array(args.len() - 2);
            for name in args.from(2).iter() {
                match find(name) {
                    Some(command) => describe(&mut out, command),
                    None => out.null(),
                }
            }
        }
        b"info" => {
            let mut out = call.reply();
            out.array(all().count());
            all().for_each(|(_, command)| describe(&mut out, command));
        }
        b"docs" => docs(&mut call.reply(), args.from(2)),
        b"getkeys" if args.len() > 3 => return get_keys(call),
        b"count" | b"getkeys" => return Err(subcommand_arity(args, "command")),
        _ => return Err(unknown_subcommand(args, "COMMAND")),
    }
    Ok(Next::Go)
}

/// COMMAND LIST, and its FILTERBY: no command is of a module, and categories are not listed.
fn list(out: &mut Reply<'_>, filter: Args<'_>) -> Outcome {
    let takes: &dyn Fn(&str) -> bool = match () {
        () if filter.len() == 0 => &|_| true,
        () if filter.len() != 3 || !filter.is(0, "filterby") => return Err(Failure::SYNTAX),
        () if filter.is(1, "pattern") => {
            &|name| glob::matches(&filter.at(2).to_ascii_lowercase(), name.as_bytes())
        }
        () if filter.is(1, "module") || filter.is(1, "aclcat") => &|_| false,
        () => return Err(Failure::SYNTAX),
    };
    let names = || all().map(|(_, command)| command.name).filter(|name| takes(name));
    out.array(names().count());
    names().for_each(|name| out.bulk(name.as_bytes()));
    Ok(())
}

/// A command's line in COMMAND and COMMAND INFO.
fn describe(out: &mut Reply<'_>, command: &Command) {
    let flag = match command.run {
        Run::Read(_) => "readonly",
        Run::Write(_) => "write",
        Run::Client(_) => "fast",
    };
    let (first, last, step) = command.keys;
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.integer(command.arity.into());
    out.set(1);
    out.simple(flag);
    out.integer(first.into());
    out.integer(last.into());
    out.integer(step.into());
    // Categories, tips, key specifications, subcommands: none are listed.
    for _ in 0..4 {
        out.array(0);
    }
}

fn docs(out: &mut Reply<'_>, names: Args<'_>) {
    let wanted = |command: &Command| {
        let named = |name: &[u8]| name.eq_ignore_ascii_case(command.name.as_bytes());
        names.len() == 0 || names.iter().any(named)
    };
    let start = out.len();
    let mut count = 0;
    for (group, command) in all().filter(|(_, command)| wanted(command)) {
        count += 1;
        out.bulk(command.name.as_bytes());
        out.map(2);
        for (name, text) in [("summary", command.summary), ("group", group)] {
            out.bulk(name.as_bytes());
            out.bulk(text.as_bytes());
        }
    }
    out.map_since(start, count);
}

fn get_keys(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args.from(2);
    let Some(command) = find(args.at(0)) else {
        return Err(Failure::Say("ERR Invalid command specified".into()));
    };
    if !command.takes(args.len()) {
        let text = "ERR Invalid number of arguments specified for command";
        return Err(Failure::Say(text.into()));
    }
    let (first, last, step) = command.keys;
    if first == 0 {
        return Err(Failure::Say("ERR The command has no key arguments".into()));
    }
    let last = if last < 0 { args.len() as i32 + last } else { last };
    let keys: Vec<&[u8]> =
        (first..=last).step_by(step as usize).filter_map(|at| args.get(at as usize)).collect();
    let mut out = call.reply();
    out.array(keys.len());
    keys.iter().for_each(|key| out.bulk(key));
    Ok(Next::Go)
}

fn time(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let micros = now() * 1000;
    let mut out = call.reply();
    out.array(2);
    out.bulk((micros / 1_000_000).to_string().as_bytes());
    out.bulk((micros % 1_000_000).to_string().as_bytes());
    Ok(Next::Go)
}
