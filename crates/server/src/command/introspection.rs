//! What clients ask about the server itself: COMMAND, CONFIG, TIME.

use super::table::{Command, all, find};
use super::{ClientCall, Failure, Next, Outcome, Run, shown};
use crate::descriptors;
use crate::protocol::{Args, Reply, glob, number};
use crate::server::{Server, now};
use crate::stats::Stats;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::new("command", -1, NONE, Run::Client(command), "Which commands there are."),
    Command::new("config", -2, NONE, Run::Client(config), "The server's options."),
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
        b"list" if args.len() > 2 => return Err(Failure::SYNTAX),
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
        ("maxclients", server.max_clients().to_string()),
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
        (b"resetstat", 2) => {
            call.server.stats.iter().for_each(Stats::restart);
            call.ok()
        }
        (b"set", 4..) => {
            set_options(call.server, args.from(2))?;
            call.ok()
        }
        (b"get" | b"set" | b"resetstat", _) => Err(subcommand_arity(args, "config")),
        _ => Err(unknown_subcommand(args, "CONFIG")),
    }
}

/// Sets options: all that are given, or none. Only the number of clients can be changed while
/// the server runs; of all others the value that they have is accepted.
fn set_options(server: &Server, pairs: Args<'_>) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    let known = options(server);
    let mut given = Vec::new();
    let mut clients = None;
    for at in (0..pairs.len()).step_by(2) {
        let option = known.iter().find(|(name, _)| pairs.is(at, name));
        let Some((name, current)) = option else {
            let name = shown(pairs.at(at), usize::MAX);
            return Err(Failure::say(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        let refused = |why: &str| {
            Failure::say(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            ))
        };
        if given.contains(name) {
            return Err(refused("duplicate parameter"));
        }
        given.push(name);
        if *name == "maxclients" {
            clients = Some(client_count(pairs.at(at + 1)).map_err(|why| refused(&why))?);
        } else if !pairs.is(at + 1, current) {
            return Err(refused("can't set immutable config"));
        }
    }
    if let Some(clients) = clients {
        server.set_max_clients(clients);
    }
    Ok(())
}

/// A number of clients that there is room for.
fn client_count(text: &[u8]) -> Result<usize, String> {
    let count = number::parse_i64(text);
    let count = count.ok_or("argument couldn't be parsed into an integer")?;
    let count = u32::try_from(count).ok().filter(|&count| count > 0);
    let count = count.ok_or("argument must be between 1 and 4294967295 inclusive")? as usize;
    match descriptors::room_for(count) {
        room if room < count => Err(format!(
            "The operating system is not able to handle the specified number of clients, try \
             with {room}"
        )),
        _ => Ok(count),
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
