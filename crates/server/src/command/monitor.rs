//! MONITOR: clients that are told of every command that the server performs.
//!
//! Commands on data are told of with the transaction that they are part of: in the order of a thread's transactions, each
//! once, when it is durable. Those of administration are not, and passwords are left out, as in Redis.

use super::{ClientCall, Command, Env, Next, Outcome, Run};
use crate::acl::{catalog, category};
use crate::client::Client;
use crate::listing::Listing;
use crate::protocol::Args;
use crate::pubsub::{Kind, Post};
use std::fmt::Write;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of an argument that are shown.
const SHOWN: usize = 1 << 16;
const REDACTED: &[u8] = b"(redacted)";

pub(super) const TABLE: &[Command] =
    &[Command::new("monitor", 1, (0, 0, 0), Run::Client(monitor), "Shows all that is performed.")];

static ADMIN: LazyLock<Option<usize>> = LazyLock::new(|| category(b"admin"));

fn monitor(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let Client { listing, home, subscriptions, .. } = &mut *call.client;
    let own = subscriptions.get_or_insert_default();
    call.server.pubsub.subscribe(own, &home.listener(listing), Kind::Monitor, b"");
    call.client.restrict();
    call.ok()
}

/// Whose command it is.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    Client(&'a Listing),
    Script,
}

/// Tells of a command of the transaction under way.
#[inline]
pub(crate) fn tell(env: Env<'_>, db: u8, by: By<'_>, command: &Command, args: Args<'_>) {
    if env.server.pubsub.is_monitored()
        && let Some(post) = post(env, db, by, command, args)
    {
        env.posts.add(post);
    }
}

/// Tells of an EXEC whose commands are performed, or not.
pub(crate) fn tell_exec(env: Env<'_>, db: u8, client: &Listing) {
    if env.server.pubsub.is_monitored() && env.posts.check_room().is_ok() {
        env.posts.add(line_of(db, By::Client(client), [b"exec".as_slice()].into_iter()));
    }
}

/// Tells of a command that was performed, and is no part of a transaction.
pub(crate) fn tell_done(env: Env<'_>, client: &Client, command: &Command, args: Args<'_>) {
    if let Some(post) = post(env, client.db, By::Client(&client.listing), command, args) {
        env.posts.add_ready(post);
    }
}

/// A command's line, unless it is not to be seen, or there is no room for it.
fn post(env: Env<'_>, db: u8, by: By<'_>, command: &Command, args: Args<'_>) -> Option<Post> {
    let place = catalog().of(command, args);
    let is_admin = ADMIN.zip(place).is_some_and(|(admin, at)| catalog().all[at].is_in(admin));
    let secret = secrets(command, args);
    let shown = args.iter().enumerate();
    let shown = shown.map(|(at, arg)| if secret.contains(&at) { REDACTED } else { arg });
    (!is_admin && env.posts.check_room().is_ok()).then(|| line_of(db, by, shown))
}

fn line_of<'a>(db: u8, by: By<'_>, args: impl Iterator<Item = &'a [u8]>) -> Post {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = format!("+{}.{:06} [{db} ", now.as_secs(), now.subsec_micros());
    // Nothing that is written to a string fails.
    let _ = match by {
        By::Client(client) => write!(line, "{}]", client.address),
        By::Script => write!(line, "lua]"),
    };
    args.for_each(|arg| push_quoted(&mut line, arg));
    line.push_str("\r\n");
    Post { kind: Kind::Monitor, channel: Vec::new(), message: line.into_bytes() }
}

/// The arguments that are passwords, and names with them.
fn secrets(command: &Command, args: Args<'_>) -> std::ops::Range<usize> {
    match command.name {
        "auth" => 1..args.len(),
        "hello" => match (2..args.len()).find(|&at| args.is(at, "auth")) {
            Some(at) => at + 1..at + 3,
            None => 0..0,
        },
        "migrate" => migrate_secrets(args),
        _ => 0..0,
    }
}

/// The first password of MIGRATE, and all up to the last one.
pub(crate) fn migrate_secrets(args: Args<'_>) -> std::ops::Range<usize> {
    let (mut at, mut secrets) = (6, 0..0);
    while at < args.len() && !args.is(at, "keys") {
        let count = match () {
            () if args.is(at, "auth") => 1,
            () if args.is(at, "auth2") => 2,
            () => 0,
        };
        if count > 0 {
            let first = if secrets.is_empty() { at + 1 } else { secrets.start };
            secrets = first..at + 1 + count;
        }
        at += 1 + count;
    }
    secrets
}

/// Writes an argument as Redis does: bytes that cannot be seen as `\xHH`.
fn push_quoted(line: &mut String, arg: &[u8]) {
    line.push_str(" \"");
    for &byte in &arg[..arg.len().min(SHOWN)] {
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x07 => line.push_str("\\a"),
            0x08 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => {
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
    line.push('"');
    if arg.len() > SHOWN {
        let _ = write!(line, "... ({} more bytes)", arg.len() - SHOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_migrate_are_not_shown() {
        for (request, expected) in [
            ("migrate h 1 k 0 1 copy replace", 0..0),
            ("migrate h 1 k 0 1 auth keys replace", 7..8),
            ("migrate h 1 k 0 1 copy auth2 u p keys auth x", 8..10),
            ("migrate h 1 k 0 1 auth a copy auth2 u p", 7..12),
        ] {
            let args: crate::protocol::args::OwnedArgs =
                request.split(' ').map(str::as_bytes).collect();
            assert_eq!(migrate_secrets(args.as_args()), expected, "{request}");
        }
    }

    #[test]
    fn arguments_are_shown_as_redis_shows_them() {
        let shown = |arg: &[u8]| {
            let mut line = String::new();
            push_quoted(&mut line, arg);
            line
        };
        assert_eq!(
            shown(b"a \"b\"\\\r\n\t\x07\x08\x00\xff~"),
            r#" "a \"b\"\\\r\n\t\a\b\x00\xff~""#
        );
        assert_eq!(shown(b""), " \"\"");
        let long = vec![b'x'; SHOWN + 7];
        assert!(shown(&long).ends_with("x\"... (7 more bytes)"));
    }
}
