//! ACL: users and what they may do.

use super::{ClientCall, Command, Failure, Next, Outcome, Run, find_whole, shown};
use crate::acl::{self, CATEGORIES, Selector, catalog, category, has_spaces};
use crate::protocol::{Args, Reply, number};
use std::fs::File;
use std::io::Read;
use tracing::warn;

pub(super) const TABLE: &[Command] =
    &[Command::new("acl", -2, (0, 0, 0), Run::Client(acl), "Users and what they may do.")];

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
    ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store \
    users in the Redis configuration.";

/// Bits of a password of ACL GENPASS.
const BITS: i64 = 256;
const BITS_MAX: i64 = 4096;
/// Entries that ACL LOG shows.
const SHOWN: i64 = 10;

fn acl(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let args = call.args;
    let sub = args.at(1).to_ascii_lowercase();
    match (sub.as_slice(), args.len()) {
        (b"setuser", 3..) => set_user(call),
        (b"deluser", 3..) => delete_users(call),
        (b"getuser", 3) => show_user(call),
        (b"list", 2) => {
            let users = call.server.acl.users().clone();
            let mut out = call.reply();
            out.array(users.len());
            users.values().for_each(|user| out.bulk(&user.describe()));
            Ok(Next::Go)
        }
        (b"users", 2) => {
            let users = call.server.acl.users().clone();
            let mut out = call.reply();
            out.array(users.len());
            users.keys().for_each(|name| out.bulk(name));
            Ok(Next::Go)
        }
        (b"whoami", 2) => {
            let user = call.client.listing.user();
            call.reply().bulk(&user.name);
            Ok(Next::Go)
        }
        (b"load" | b"save", 2) if !call.server.acl.has_file() => Err(Failure::Say(NO_FILE.into())),
        (b"load", 2) => load(call),
        (b"save", 2) => save(call),
        (b"cat", 2) => {
            let mut out = call.reply();
            out.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|name| out.bulk(name.as_bytes()));
            Ok(Next::Go)
        }
        (b"cat", 3) => show_category(call),
        (b"genpass", 2 | 3) => make_password(call),
        (b"log", 2 | 3) => show_log(call),
        (b"dryrun", 4..) => try_out(call),
        (b"help", 2) => help(call),
        (b"cat" | b"genpass" | b"log", _) => {
            let sub = shown(args.at(1), 128);
            Err(Failure::say(format!(
                "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try ACL HELP."
            )))
        }
        (
            b"setuser" | b"deluser" | b"getuser" | b"list" | b"users" | b"whoami" | b"load"
            | b"save" | b"dryrun" | b"help",
            _,
        ) => Err(Failure::subcommand_arity(args, "acl")),
        _ => Err(Failure::unknown_subcommand(args, "ACL")),
    }
}

fn error(text: &str) -> Failure {
    Failure::say(format!("ERR {text}"))
}

fn set_user(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (name, rules) = (call.args.at(2), call.args.from(3));
    if has_spaces(name) {
        return Err(error("Usernames can't contain spaces or null characters"));
    }
    call.server.set_user(name, rules.iter()).map_err(|why| error(&why))?;
    call.client.renew();
    call.ok()
}

fn delete_users(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let names = call.args.from(2);
    if names.iter().any(|name| name == acl::DEFAULT) {
        return Err(error("The 'default' user cannot be removed"));
    }
    let (count, ends_own) = call.server.remove_users(names.iter(), &call.client.listing);
    call.reply().size(count as u64);
    Ok(end_own(call, ends_own))
}

/// Ends the connection that the command is from once it is answered, if its user is gone.
fn end_own(call: &mut ClientCall<'_>, ends: bool) -> Next {
    call.client.renew();
    if ends {
        call.client.listing.kill();
        return Next::Close;
    }
    Next::Go
}

fn show_user(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let Some(user) = call.server.acl.user(call.args.at(2)) else {
        call.reply().null();
        return Ok(Next::Go);
    };
    let mut out = call.reply();
    out.map(6);
    out.bulk(b"flags");
    let flags = user.flags();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(user.passwords.len());
    user.passwords.iter().for_each(|hash| out.bulk(hash));
    show_selector(&mut out, user.root());
    out.bulk(b"selectors");
    out.array(user.selectors.len() - 1);
    for selector in &user.selectors[1..] {
        out.map(3);
        show_selector(&mut out, selector);
    }
    Ok(Next::Go)
}

fn show_selector(out: &mut Reply<'_>, selector: &Selector) {
    for (name, rules) in [
        ("commands", selector.command_rules()),
        ("keys", selector.key_rules()),
        ("channels", selector.channel_rules()),
    ] {
        out.bulk(name.as_bytes());
        out.bulk(&rules);
    }
}

fn load(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let loaded = call.server.load_users(&call.client.listing);
    let ends_own = loaded.map_err(|why| error(&why))?;
    call.reply().ok();
    Ok(end_own(call, ends_own))
}

fn save(call: &mut ClientCall<'_>) -> Outcome<Next> {
    if let Err(why) = call.server.save_users() {
        warn!("the ACL file was not written: {why}");
        return Err(error(
            "There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    call.ok()
}

fn show_category(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let name = call.args.at(2);
    let Some(category) = category(name) else {
        return Err(error(&format!("Unknown category '{}'", shown(name, 128))));
    };
    let own = |name: &str| super::table::is_there(name);
    let listed = catalog().all.iter().filter(|one| one.is_in(category) && own(one.name));
    let names: Vec<_> = listed.map(|one| one.name).collect();
    let mut out = call.reply();
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name.as_bytes()));
    Ok(Next::Go)
}

fn make_password(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let bits = match call.args.get(2) {
        Some(bits) => number::parse_i64(bits).ok_or(Failure::NOT_INTEGER)?,
        None => BITS,
    };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(error(&format!(
            "ACL GENPASS argument must be the number of bits for the output password, a positive \
             number up to {BITS_MAX}"
        )));
    }
    let mut random = vec![0; bits.unsigned_abs().div_ceil(4) as usize];
    // The system's generator: that of the keyspace is only hard to guess.
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    read.map_err(|why| error(&format!("no random numbers: {why}")))?;
    random.iter_mut().for_each(|byte| *byte = acl::digit(*byte));
    call.reply().bulk(&random);
    Ok(Next::Go)
}

fn show_log(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let count = match call.args.get(2) {
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            call.server.acl.clear_log();
            return call.ok();
        }
        Some(count) => number::parse_i64(count).ok_or(Failure::NOT_INTEGER)?,
        None => SHOWN,
    };
    let entries = call.server.acl.newest(usize::try_from(count).unwrap_or(0));
    let now = crate::keyspace::now();
    let mut out = call.reply();
    out.array(entries.len());
    for entry in entries {
        out.map(10);
        out.bulk(b"count");
        out.size(entry.count);
        out.bulk(b"reason");
        out.bulk(entry.reason.name().as_bytes());
        out.bulk(b"context");
        out.bulk(entry.context.name().as_bytes());
        out.bulk(b"object");
        out.bulk(&entry.object);
        out.bulk(b"username");
        out.bulk(&entry.user);
        out.bulk(b"age-seconds");
        out.double(now.saturating_sub(entry.updated) as f64 / 1000.0);
        out.bulk(b"client-info");
        out.bulk(entry.client.as_bytes());
        for (name, number) in [
            ("entry-id", entry.id),
            ("timestamp-created", entry.created),
            ("timestamp-last-updated", entry.updated),
        ] {
            out.bulk(name.as_bytes());
            out.size(number);
        }
    }
    Ok(Next::Go)
}

/// ACL DRYRUN: whether a user may send a request.
fn try_out(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (name, request): (&[u8], Args<'_>) = (call.args.at(2), call.args.from(3));
    let Some(user) = call.server.acl.user(name) else {
        return Err(error(&format!("User '{}' not found", shown(name, usize::MAX))));
    };
    let Some(command) = find_whole(request) else {
        let name = shown(request.at(0), usize::MAX);
        return Err(error(&format!("Command '{name}' not found")));
    };
    if !command.takes(request.len()) {
        return Err(Failure::arity(command.name));
    }
    match acl::check(&user, command, request) {
        Ok(()) => call.reply().ok(),
        Err(denied) => call.reply().bulk(denied.text(&user, true).as_bytes()),
    }
    Ok(Next::Go)
}

fn help(call: &mut ClientCall<'_>) -> Outcome<Next> {
    call.reply().help(
        "ACL",
        &[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
            "DELUSER <username> [<username> ...]",
            "    Delete a list of users.",
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether the user can execute the given command without executing the command.",
            "GETUSER <username>",
            "    Get the user's details.",
            "GENPASS [<bits>]",
            "    Generate a secure 256-bit user password. The optional `bits` argument can",
            "    be used to specify a different size.",
            "LIST",
            "    Show users details in config file format.",
            "LOAD",
            "    Reload users from the ACL file.",
            "LOG [<count> | RESET]",
            "    Show the ACL log entries.",
            "SAVE",
            "    Save the current config to the ACL file.",
            "SETUSER <username> <attribute> [<attribute> ...]",
            "    Create or modify a user with the specified attributes.",
            "USERS",
            "    List all the registered usernames.",
            "WHOAMI",
            "    Return the current connection username.",
        ],
    );
    Ok(Next::Go)
}
