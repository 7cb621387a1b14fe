//! What clients ask about the server itself: COMMAND, CONFIG GET, TIME.

use super::table::{Command, all, find};
use super::{ClientCall, Failure, Next, Outcome, Run};
use crate::protocol::{Args, Reply, glob};
use crate::server::{Server, now};

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new("command", -1, NONE, Run::Client(command), "Which commands there are."),
    Command::new("config", -2, NONE, Run::Client(config), "The server's options."),
    Command::new("time", 1, NONE, Run::Client(time), "The server's clock."),
];

/// The error for a subcommand that does not exist.
pub(super) fn unknown_subcommand(args: Args<'_>, name: &str) -> Failure {
    let sub = String::from_utf8_lossy(&args.at(1)[..args.at(1).len().min(128)]).into_owned();
    Failure::say(format!("ERR unknown subcommand '{sub}'. Try {name} HELP."))
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
        b"count" => call.reply().size(all().count() as u64),
        b"list" => {
            let mut out = call.reply();
            out.array(all().count());
            all().for_each(|(_, command)| out.bulk(command.name.as_bytes()));
        }
        b"info" if args.len() > 2 => {
            let mut out = call.reply();
            out.array(args.len() - 2);
            for name in args.from(2).iter() {
                match find(name) {
                    Some(command) => describe(&mut out, command),
                    None => out.null_array(),
                }
            }
        }
        b"info" => {
            let mut out = call.reply();
            out.array(all().count());
            all().for_each(|(_, command)| describe(&mut out, command));
        }
        b"docs" => docs(&mut call.reply(), args.from(2)),
        b"getkeys" if args.len() > 2 => return get_keys(call),
        _ => return Err(unknown_subcommand(args, "COMMAND")),
    }
    Ok(Next::Go)
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
    // Categories, tips, key specifications, subcommands: none are told.
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

/// The options that CONFIG GET tells, under Redis's names.
fn options(server: &Server) -> Vec<(&'static str, String)> {
    let facts = server.facts();
    vec![
        ("appendfsync", "always".to_owned()),
        ("appendonly", if facts.engine == "volatile" { "no" } else { "yes" }.to_owned()),
        ("bind", server.address.ip().to_string()),
        ("databases", crate::keyspace::DATABASES.to_string()),
        ("io-threads", server.stats.len().to_string()),
        ("maxclients", server.options.max_clients.to_string()),
        ("maxmemory", facts.limit.to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", server.address.port().to_string()),
        ("proto-max-bulk-len", (512u64 << 20).to_string()),
        ("save", String::new()),
        ("timeout", "0".to_owned()),
    ]
}

fn config(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"get", 3..) => {
            let asked = |name: &str| {
                let name = name.as_bytes();
                args.from(2).iter().any(|p| glob::matches(&p.to_ascii_lowercase(), name))
            };
            let mut found = options(call.server);
            found.retain(|(name, _)| asked(name));
            let mut out = call.reply();
            out.map(found.len());
            for (name, value) in found {
                out.bulk(name.as_bytes());
                out.bulk(value.as_bytes());
            }
            Ok(Next::Go)
        }
        (b"resetstat", 2) => call.ok(),
        (b"set", 4..) => Err(Failure::Say(
            "ERR options are set when the server starts: see `perdura serve --help`".into(),
        )),
        (b"get" | b"set" | b"resetstat", _) => {
            let name = String::from_utf8_lossy(args.at(1)).to_lowercase();
            Err(Failure::arity(&format!("config|{name}")))
        }
        _ => Err(unknown_subcommand(args, "CONFIG")),
    }
}

fn time(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let micros = now() * 1000;
    let mut out = call.reply();
    out.array(2);
    out.bulk((micros / 1_000_000).to_string().as_bytes());
    out.bulk((micros % 1_000_000).to_string().as_bytes());
    Ok(Next::Go)
}
