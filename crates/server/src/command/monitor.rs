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
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of an argument that are shown.
const SHOWN: usize = 1 << 16;
/// Bytes of a line after which no more arguments are shown.
const LINE_MAX: usize = 1 << 20;
const REDACTED: &[u8] = b"(redacted)";
/// The end of the last line for which there is room.
const NO_MORE: &str = " ... (commands that follow are not shown)";
const END: &str = "\r\n";

pub(super) const TABLE: &[Command] =
    &[Command::new("monitor", 1, (0, 0, 0), Run::Client(monitor), "Shows all that is performed.")];

static ADMIN: LazyLock<Option<usize>> = LazyLock::new(|| category(b"admin"));

fn monitor(call: &mut ClientCall<'_>) -> Outcome<Next> {
    if call.client.monitors() {
        // Not answered a second time, as in Redis.
        return Ok(Next::Go);
    }
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
        && is_shown(command, args)
        && let Some(line) = line_with(env, || shown_line(db, by, command, args))
    {
        env.posts.add(line);
    }
}

/// Tells of an EXEC whose commands are performed, or not.
pub(crate) fn tell_exec(env: Env<'_>, db: u8, client: &Listing) {
    let exec = || line_of(db, By::Client(client), [b"exec".as_slice()].into_iter());
    if env.server.pubsub.is_monitored()
        && let Some(line) = line_with(env, exec)
    {
        env.posts.add(line);
    }
}

/// Tells of a command that was performed, and is no part of a transaction.
pub(crate) fn tell_done(env: Env<'_>, client: &Client, command: &Command, args: Args<'_>) {
    if is_shown(command, args) {
        let by = By::Client(&client.listing);
        let line = line_with(env, || shown_line(client.db, by, command, args));
        line.into_iter().for_each(|line| env.posts.add_ready_line(line));
    }
}

/// Whether a command is told of: not one of administration, and none that may be meant for one, since its subcommand is not
/// there.
fn is_shown(command: &Command, args: Args<'_>) -> bool {
    let place = catalog().of(command, args);
    let is_admin = ADMIN.zip(place).is_some_and(|(admin, at)| catalog().all[at].is_in(admin));
    !is_admin && !catalog().lacks(command, args)
}

/// The line that `make` makes, if there is room for it. The last one says so.
fn line_with(env: Env<'_>, make: impl FnOnce() -> Post) -> Option<Post> {
    let mut line = env.posts.has_room_for_line().then(make)?;
    if env.posts.is_last_line(&line) {
        line.message.truncate(line.message.len() - END.len());
        line.message.extend_from_slice(NO_MORE.as_bytes());
        line.message.extend_from_slice(END.as_bytes());
    }
    Some(line)
}

/// A command's line, without passwords.
fn shown_line(db: u8, by: By<'_>, command: &Command, args: Args<'_>) -> Post {
    let secret = secrets(command, args);
    let shown = args.iter().enumerate();
    line_of(db, by, shown.map(|(at, arg)| if secret.contains(&at) { REDACTED } else { arg }))
}

fn line_of<'a>(db: u8, by: By<'_>, mut args: impl Iterator<Item = &'a [u8]>) -> Post {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = format!("+{}.{:06} [{db} ", now.as_secs(), now.subsec_micros());
    line += &match by {
        By::Client(client) => format!("{}]", client.address),
        By::Script => "lua]".to_owned(),
    };
    let mut line = line.into_bytes();
    while let Some(arg) = args.next() {
        if line.len() > LINE_MAX {
            let more = 1 + args.count();
            line.extend_from_slice(format!(" ... ({more} more arguments)").as_bytes());
            break;
        }
        push_quoted(&mut line, arg);
    }
    line.extend_from_slice(END.as_bytes());
    Post { kind: Kind::Monitor, channel: Vec::new(), message: line }
}

/// The arguments that are passwords, and names with them.
fn secrets(command: &Command, args: Args<'_>) -> Vec<usize> {
    match command.name {
        "auth" => (1..args.len()).collect(),
        "hello" => secrets_of_hello(args),
        _ => Vec::new(),
    }
}

/// The same of HELLO, whose options are read as HELLO reads them. From the first wrong one on, anything may be a password.
fn secrets_of_hello(args: Args<'_>) -> Vec<usize> {
    let (mut secret, mut at) = (Vec::new(), 2);
    while at < args.len() {
        if args.is(at, "auth") && at + 2 < args.len() {
            secret.extend([at + 1, at + 2]);
            at += 3;
        } else if args.is(at, "setname") && at + 1 < args.len() {
            at += 2;
        } else {
            secret.extend(at..args.len());
            break;
        }
    }
    secret
}

/// Writes an argument as Redis does: bytes that cannot be seen as `\xHH`.
fn push_quoted(line: &mut Vec<u8>, arg: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    line.extend_from_slice(b" \"");
    for &byte in &arg[..arg.len().min(SHOWN)] {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => {
                let [high, low] = [byte >> 4, byte & 0xf].map(|half| DIGITS[usize::from(half)]);
                line.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
    line.push(b'"');
    if arg.len() > SHOWN {
        let more = arg.len() - SHOWN;
        line.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find_whole;
    use crate::protocol::args::OwnedArgs;

    #[test]
    fn arguments_are_shown_as_redis_shows_them() {
        let shown = |arg: &[u8]| {
            let mut line = Vec::new();
            push_quoted(&mut line, arg);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(
            shown(b"a \"b\"\\\r\n\t\x07\x08\x00\xff~"),
            r#" "a \"b\"\\\r\n\t\a\b\x00\xff~""#
        );
        assert_eq!(shown(b""), " \"\"");
        let long = vec![b'x'; SHOWN + 7];
        assert!(shown(&long).ends_with("x\"... (7 more bytes)"));
    }

    #[test]
    fn a_line_has_so_many_arguments() {
        let arg = [0; SHOWN];
        let line = line_of(0, By::Script, (0..16_000).map(|_| arg.as_slice())).message;
        assert!((LINE_MAX..LINE_MAX + 5 * SHOWN).contains(&line.len()), "{} bytes", line.len());
        let end = String::from_utf8_lossy(&line[line.len() - 40..]).into_owned();
        assert!(end.ends_with("\\x00\" ... (15996 more arguments)\r\n"), "{end}");
    }

    #[test]
    fn passwords_are_not_shown() {
        for (words, shown) in [
            ("AUTH secret", Some("\"AUTH\" \"(redacted)\"")),
            (
                "HELLO 3 SETNAME auth AUTH default secret",
                Some("\"HELLO\" \"3\" \"SETNAME\" \"auth\" \"AUTH\" \"(redacted)\" \"(redacted)\""),
            ),
            (
                "HELLO 3 auth u a AUTH u b SETNAME n",
                Some(
                    "\"HELLO\" \"3\" \"auth\" \"(redacted)\" \"(redacted)\" \"AUTH\" \"(redacted)\" \
                     \"(redacted)\" \"SETNAME\" \"n\"",
                ),
            ),
            ("HELLO 3 SETNAME n AUTH secret", Some("\"n\" \"(redacted)\" \"(redacted)\"")),
            ("HELLO 3", Some("\"HELLO\" \"3\"")),
            ("ACL SETUSER bob on >secret", None),
            ("ACL SETUSERS bob on >secret", None),
            ("CONFIG SETT requirepass secret", None),
            ("ACL WHOAMI", Some("\"ACL\" \"WHOAMI\"")),
            ("OBJECT ENCODING a", Some("\"OBJECT\" \"ENCODING\" \"a\"")),
            ("XGROUP CREATE s g 0", Some("\"CREATE\" \"s\" \"g\" \"0\"")),
            ("FUNCTION LIST", Some("\"FUNCTION\" \"LIST\"")),
            ("COMMAND", Some("\"COMMAND\"")),
            ("GET secrets", Some("\"GET\" \"secrets\"")),
        ] {
            let args: OwnedArgs = words.split(' ').map(str::as_bytes).collect();
            let args = args.as_args();
            let command = find_whole(args).expect("a command");
            let line = is_shown(command, args).then(|| {
                let line = shown_line(0, By::Script, command, args).message;
                String::from_utf8(line).expect("a text").trim_end().to_owned()
            });
            let is_it = match (&line, shown) {
                (Some(line), Some(shown)) => line.ends_with(shown),
                (line, shown) => line.is_none() && shown.is_none(),
            };
            assert!(is_it, "{words}: {line:?}");
        }
    }
}
