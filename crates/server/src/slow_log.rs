//! The slow log: commands that took longer than an option says, without their wait for durability.
//!
//! It has the commands' arguments, as clients with the password may see them. The program's own log never does.

use crate::acl::catalog;
use crate::command::Command;
use crate::keyspace::now;
use crate::listing::Listing;
use crate::protocol::Args;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Arguments of a command that are kept.
const MOST_ARGUMENTS: usize = 32;
/// Bytes of each.
const MOST_BYTES: usize = 128;

/// A command that took long.
#[derive(Clone, Debug)]
pub(crate) struct SlowCommand {
    /// Seconds since 1970 when it ended.
    pub(crate) time: u64,
    pub(crate) took: Duration,
    /// Its name and arguments, as many as are kept.
    pub(crate) args: Vec<Vec<u8>>,
    /// The command's name in the table.
    pub(crate) command: &'static str,
    pub(crate) client: u64,
    pub(crate) address: String,
    pub(crate) name: String,
}

impl SlowCommand {
    /// A command of `client`.
    pub(crate) fn new(
        command: &'static Command,
        args: Args<'_>,
        client: &Listing,
        took: Duration,
    ) -> Self {
        SlowCommand {
            time: now() / 1000,
            took,
            args: kept(command, args),
            command: command.name,
            client: client.id,
            address: client.address.to_string(),
            name: client.name(),
        }
    }
}

/// Options of Redis that are passwords.
const SECRET: [&[u8]; 3] = [b"requirepass", b"masterauth", b"masteruser"];

/// The kept part of a command: of those that give a password, none of the arguments; nor of those whose subcommand is not
/// there, and may be meant for one that gives a password.
fn kept(command: &Command, args: Args<'_>) -> Vec<Vec<u8>> {
    if matches!(command.name, "auth" | "hello") || catalog().lacks(command, args) {
        let hidden = std::iter::repeat_n(b"(redacted)".to_vec(), args.len().min(2) - 1);
        return std::iter::once(args.at(0).to_vec()).chain(hidden).collect();
    }
    if command.name == "config"
        && args.iter().any(|arg| SECRET.iter().any(|name| arg.eq_ignore_ascii_case(name)))
    {
        return [args.at(0), args.at(1), b"(redacted)"].map(<[u8]>::to_vec).into();
    }
    let changes_users = ["setuser", "getuser", "deluser"].iter().any(|sub| args.is(1, sub));
    if command.name == "acl" && changes_users {
        return [args.at(0), args.at(1), b"(redacted)"].map(<[u8]>::to_vec).into();
    }
    let beyond = args.len().saturating_sub(MOST_ARGUMENTS);
    let whole = if beyond == 0 { args.len() } else { MOST_ARGUMENTS - 1 };
    let mut kept: Vec<Vec<u8>> = args.iter().take(whole).map(shortened).collect();
    if beyond > 0 {
        kept.push(format!("... ({} more arguments)", beyond + 1).into_bytes());
    }
    kept
}

fn shortened(arg: &[u8]) -> Vec<u8> {
    match arg.len().checked_sub(MOST_BYTES) {
        None | Some(0) => arg.to_vec(),
        Some(beyond) => {
            [&arg[..MOST_BYTES], format!("... ({beyond} more bytes)").as_bytes()].concat()
        }
    }
}

/// The newest slow commands, with their numbers.
#[derive(Default)]
pub(crate) struct SlowLog(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// The newest first.
    entries: VecDeque<(u64, SlowCommand)>,
    next: u64,
}

impl SlowLog {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command, and forgets the oldest beyond `most`.
    pub(crate) fn push(&self, command: SlowCommand, most: usize) {
        let mut log = self.lock();
        let number = log.next;
        log.next += 1;
        log.entries.push_front((number, command));
        log.entries.truncate(most);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Commands that were slow since the server's start.
    pub(crate) fn total(&self) -> u64 {
        self.lock().next
    }

    /// The newest `count`.
    pub(crate) fn newest(&self, count: usize) -> Vec<(u64, SlowCommand)> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.lock().entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find;
    use crate::protocol::args::OwnedArgs;

    fn named(name: &str) -> &'static Command {
        find(name.as_bytes()).expect("a command")
    }

    #[test]
    fn long_commands_are_shortened() {
        let long = [b'x'; 200];
        let args: OwnedArgs =
            std::iter::once(&long[..]).chain((0..40).map(|_| &b"a"[..])).collect();
        let kept = kept(named("set"), args.as_args());
        assert_eq!(kept.len(), MOST_ARGUMENTS);
        assert!(kept[0].ends_with(b"xx... (72 more bytes)"));
        assert_eq!(kept[MOST_ARGUMENTS - 1], b"... (10 more arguments)");
    }

    #[test]
    fn passwords_are_not_kept() {
        for (words, shown) in [
            ("AUTH secret", "AUTH (redacted)"),
            ("HELLO", "HELLO"),
            ("HELLO 3 AUTH default secret", "HELLO (redacted)"),
            ("CONFIG SET save x RequirePass secret", "CONFIG SET (redacted)"),
            ("CONFIG GET save", "CONFIG GET save"),
            ("CONFIG SETT save secret", "CONFIG (redacted)"),
            ("ACL SETUSER bob on >secret", "ACL SETUSER (redacted)"),
            ("ACL SETUSERS bob on >secret", "ACL (redacted)"),
            ("OBJECT ENCODING a", "OBJECT ENCODING a"),
        ] {
            let args: OwnedArgs = words.split(' ').map(str::as_bytes).collect();
            let command = named(words.split(' ').next().unwrap());
            let kept = kept(command, args.as_args()).join(&b' ');
            assert_eq!(String::from_utf8(kept).unwrap(), shown);
        }
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let args: OwnedArgs = [&b"get"[..], b"key"].into_iter().collect();
        let at = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let client = Listing::new(7, at(1), at(2));
        let log = SlowLog::default();
        for micros in 1..=3 {
            let took = Duration::from_micros(micros);
            log.push(SlowCommand::new(named("get"), args.as_args(), &client, took), 2);
        }
        let numbers: Vec<u64> = log.newest(10).into_iter().map(|(number, _)| number).collect();
        assert_eq!((numbers, log.len(), log.total()), (vec![2, 1], 2, 3));
        log.clear();
        assert_eq!(log.len(), 0);
    }
}
