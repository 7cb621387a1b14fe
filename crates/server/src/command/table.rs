//! The table of commands, finding one by its name in any case, and COMMAND, which shows the table.

use super::{ClientCall, Command, Failure, Next, Outcome, Run};
use super::{
    acl, blocking, config, connection, copy, debug, expiry, functions, hash_numbers, hashes, info,
};
use super::{
    bits, choices, dump, geo, hyperloglog, lcs, set_algebra, set_choices, sets, sort, substrings,
    zset_algebra, zset_pops,
};
use super::{
    flags, key_flags, key_places, keys, latency, list_places, lists, migrate, monitor, multi,
    numbers, objects, pubsub, replication, saving, scan, scripts, shutdown, slowlog, stream_claims,
    stream_groups, stream_info, stream_reads, streams, strings,
};
use super::{zset_ranges, zsets};
use crate::acl::{CATEGORIES, catalog, category};
use crate::protocol::{Args, Reply, glob};
use std::sync::LazyLock;

const TABLE: &[Command] =
    &[Command::new("command", -1, (0, 0, 0), Run::Client(command), "Which commands there are.")];

/// The families, each with the group that COMMAND DOCS names.
static FAMILIES: [(&str, &[Command]); 50] = [
    ("string", strings::TABLE),
    ("string", substrings::TABLE),
    ("string", numbers::TABLE),
    ("string", lcs::TABLE),
    ("bitmap", bits::TABLE),
    ("hyperloglog", hyperloglog::TABLE),
    ("generic", keys::TABLE),
    ("generic", copy::TABLE),
    ("generic", dump::TABLE),
    ("generic", migrate::TABLE),
    ("generic", sort::TABLE),
    ("generic", expiry::TABLE),
    ("generic", scan::TABLE),
    ("hash", hashes::TABLE),
    ("hash", hash_numbers::TABLE),
    ("list", lists::TABLE),
    ("list", list_places::TABLE),
    ("list", blocking::TABLE),
    ("set", sets::TABLE),
    ("set", set_choices::TABLE),
    ("set", set_algebra::TABLE),
    ("sorted-set", zsets::TABLE),
    ("sorted-set", zset_ranges::TABLE),
    ("sorted-set", zset_pops::TABLE),
    ("sorted-set", zset_algebra::TABLE),
    ("sorted-set", choices::TABLE),
    ("geo", geo::TABLE),
    ("stream", streams::TABLE),
    ("stream", stream_reads::TABLE),
    ("stream", stream_groups::TABLE),
    ("stream", stream_claims::TABLE),
    ("stream", stream_info::TABLE),
    ("connection", connection::TABLE),
    ("server", TABLE),
    ("server", acl::TABLE),
    ("server", config::TABLE),
    ("server", saving::TABLE),
    ("server", replication::TABLE),
    ("server", shutdown::TABLE),
    ("server", slowlog::TABLE),
    ("server", latency::TABLE),
    ("server", monitor::TABLE),
    ("server", debug::TABLE),
    ("scripting", scripts::TABLE),
    ("pubsub", pubsub::TABLE),
    ("scripting", functions::TABLE),
    ("generic", objects::OBJECT),
    ("server", objects::MEMORY),
    ("server", info::TABLE),
    ("transactions", multi::TABLE),
];

/// Every command with its group, numbered.
static COMMANDS: LazyLock<Box<[(&'static str, Command)]>> = LazyLock::new(|| {
    let all = FAMILIES.iter().flat_map(|(group, table)| table.iter().map(move |c| (*group, *c)));
    all.enumerate()
        .map(|(number, (group, command))| (group, Command { number, ..command }))
        .collect()
});

/// Every command with its group, those included that are subcommands of others.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static Command)> {
    COMMANDS.iter().map(|(group, command)| (*group, command))
}

fn is_part(command: &Command) -> bool {
    command.name.contains('|')
}

/// Every command that is no subcommand.
fn whole() -> impl Iterator<Item = (&'static str, &'static Command)> {
    all().filter(|(_, command)| !is_part(command))
}

/// The command that a subcommand of the command `name` is.
pub(super) fn part(name: &str, sub: &[u8]) -> Option<&'static Command> {
    let is_it = |command: &&Command| {
        let own = command.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('|'));
        own.is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(sub))
    };
    all().map(|(_, command)| command).find(is_it)
}

/// The command of a request, or of its subcommand.
pub(crate) fn find_whole(args: Args<'_>) -> Option<&'static Command> {
    let command = find(args.get(0)?)?;
    Some(command.part(args).unwrap_or(command))
}

/// Slots of the index: a power of two, sparse enough for short probes.
const SLOTS: usize = 1024;

/// A command and its name in one word: see [`fold`].
#[derive(Clone, Copy)]
struct Indexed {
    name: u64,
    command: &'static Command,
}

static INDEX: LazyLock<Box<[Option<Indexed>; SLOTS]>> = LazyLock::new(|| {
    let mut index = Box::new([None; SLOTS]);
    for (_, command) in whole() {
        let name = fold(command.name.as_bytes());
        let mut slot = slot(name);
        while index[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        index[slot] = Some(Indexed { name, command });
    }
    index
});

/// The longest name that its length and its [folded](fold) word tell apart from all others.
const FOLDS: usize = 8;

/// A name in one word, the same in any case: all of a short one; the beginning, mixed with the end, of another.
#[inline]
fn fold(name: &[u8]) -> u64 {
    let four = |at: usize| {
        u64::from(name[at])
            | u64::from(name[at + 1]) << 8
            | u64::from(name[at + 2]) << 16
            | u64::from(name[at + 3]) << 24
    };
    let word = match name.len() {
        0 => 0,
        len @ 1..4 => {
            let [first, middle, last] = [0, len / 2, len - 1].map(|at| u64::from(name[at]));
            first | middle << 8 | last << 16
        }
        len @ 4..=FOLDS => four(0) | four(len - 4) << 32,
        len => four(0) | (four(4) ^ four(len - 4) ^ four(len - 8)) << 32,
    };
    // Bytes from 64 on are letters, or in no name.
    word | (word & 0x4040_4040_4040_4040) >> 1
}

#[inline]
fn slot(name: u64) -> usize {
    (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SLOTS
}

/// The command of this name.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let (index, folded) = (&**INDEX, fold(name));
    let mut slot = slot(folded);
    loop {
        let found = index[slot]?;
        let wanted = found.command.name.as_bytes();
        if found.name == folded
            && wanted.len() == name.len()
            && (wanted.len() <= FOLDS || wanted.eq_ignore_ascii_case(name))
        {
            return Some(found.command);
        }
        slot = (slot + 1) % SLOTS;
    }
}

fn command(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    let Some(sub) = args.get(1) else {
        let mut out = call.reply();
        out.array(whole().count());
        whole().for_each(|(_, command)| describe(&mut out, command));
        return Ok(Next::Go);
    };
    match sub.to_ascii_lowercase().as_slice() {
        b"count" if args.len() == 2 => call.reply().size(whole().count() as u64),
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
            out.array(whole().count());
            whole().for_each(|(_, command)| describe(&mut out, command));
        }
        b"docs" => docs(&mut call.reply(), args.from(2)),
        b"getkeys" if args.len() > 3 => return get_keys(call, false),
        b"getkeysandflags" if args.len() > 3 => return get_keys(call, true),
        b"count" | b"getkeys" | b"getkeysandflags" => {
            return Err(Failure::subcommand_arity(args, "command"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "COMMAND")),
    }
    Ok(Next::Go)
}

/// Whether there is a command of this name, or one whose subcommand it may be.
pub(super) fn is_there(name: &str) -> bool {
    find(name.split('|').next().unwrap_or_default().as_bytes()).is_some()
}

/// COMMAND LIST, and its FILTERBY: no command is of a module.
fn list(out: &mut Reply<'_>, filter: Args<'_>) -> Outcome {
    let takes: &dyn Fn(&str) -> bool = match () {
        () if filter.len() == 0 => &|_| true,
        () if filter.len() != 3 || !filter.is(0, "filterby") => return Err(Failure::SYNTAX),
        () if filter.is(1, "pattern") => {
            &|name| glob::matches(&filter.at(2).to_ascii_lowercase(), name.as_bytes())
        }
        () if filter.is(1, "module") => &|_| false,
        () if filter.is(1, "aclcat") => {
            let category = category(filter.at(2));
            &move |name| category.is_some_and(|category| is_in(name, category))
        }
        () => return Err(Failure::SYNTAX),
    };
    let names = || whole().map(|(_, command)| command.name).filter(|name| takes(name));
    out.array(names().count());
    names().for_each(|name| out.bulk(name.as_bytes()));
    Ok(())
}

/// Whether a command is in a category of ACL.
fn is_in(name: &str, category: usize) -> bool {
    let at = catalog().find(name.as_bytes());
    at.is_some_and(|at| catalog().all[at].is_in(category))
}

/// A command's line in COMMAND and COMMAND INFO.
fn describe(out: &mut Reply<'_>, command: &Command) {
    let (first, last, step) = command.keys;
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.integer(command.arity.into());
    let moves = key_places::move_about(command);
    let flags = flags::of(command);
    out.set(flags.len() + usize::from(moves));
    flags.iter().for_each(|flag| out.simple(flag));
    if moves {
        out.simple("movablekeys");
    }
    out.integer(first.into());
    out.integer(last.into());
    out.integer(step.into());
    let categories = CATEGORIES.iter().enumerate().filter(|(at, _)| is_in(command.name, *at));
    let categories: Vec<_> = categories.map(|(_, name)| format!("@{name}")).collect();
    out.set(categories.len());
    categories.iter().for_each(|name| out.simple(name));
    // Tips, key specifications, subcommands: none are listed.
    for _ in 0..3 {
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
    for (group, command) in whole().filter(|(_, command)| wanted(command)) {
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

fn get_keys(call: &mut ClientCall<'_>, with_flags: bool) -> Outcome<Next> {
    let args = call.args.from(2);
    let Some(command) = find(args.at(0)) else {
        return Err(Failure::Say("ERR Invalid command specified".into()));
    };
    if !command.takes(args.len()) {
        let text = "ERR Invalid number of arguments specified for command";
        return Err(Failure::Say(text.into()));
    }
    let keys = key_places::positions(command, args)?;
    let mut out = call.reply();
    out.array(keys.len());
    for at in keys {
        if !with_flags {
            out.bulk(args.at(at));
            continue;
        }
        let flags = key_flags::of(command, args, at);
        out.array(2);
        out.bulk(args.at(at));
        out.set(flags.len());
        flags.iter().for_each(|flag| out.simple(flag));
    }
    Ok(Next::Go)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        let mut names = std::collections::HashSet::new();
        for (_, command) in whole() {
            assert!(names.insert(command.name), "{} is there twice", command.name);
            assert_eq!(command.name, command.name.to_lowercase());
            let found = find(command.name.to_uppercase().as_bytes()).unwrap();
            assert!(std::ptr::eq(found, command));
            // What is almost its name is no name, or another's.
            for at in 0..command.name.len() {
                for other in [0, b' ', b'_', b'X', command.name.as_bytes()[at] ^ 0x40] {
                    let mut name = command.name.to_owned().into_bytes();
                    name[at] = other;
                    let is_it = |found: &Command| found.name.as_bytes().eq_ignore_ascii_case(&name);
                    assert!(find(&name).is_none_or(is_it), "{name:?}");
                }
            }
        }
        assert!(find(b"no-such-command").is_none());
        assert!(find(b"").is_none());
    }
}
