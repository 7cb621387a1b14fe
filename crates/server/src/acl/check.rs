//! Whether a user may do what a request asks for.

use super::catalog::{Access, Listed, catalog};
use super::selector::Selector;
use super::user::User;
use crate::command::{Command, key_positions};
use crate::protocol::Args;

/// Why a request is denied, in the order in which Redis tells the one of several reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    /// A wrong password, or a user that there is not.
    Password,
}

impl Reason {
    pub(crate) const ALL: [Reason; 4] =
        [Reason::Command, Reason::Key, Reason::Channel, Reason::Password];

    /// ACL LOG's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Password => "auth",
        }
    }
}

/// A request that is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) reason: Reason,
    /// The command's name, the key, or the channel.
    pub(crate) object: Vec<u8>,
}

impl Denied {
    /// The text of the error, without its code. That of a request does not show names of keys and channels.
    pub(crate) fn text(&self, user: &User, shows: bool) -> String {
        let (name, object) =
            (String::from_utf8_lossy(&user.name), String::from_utf8_lossy(&self.object));
        match self.reason {
            Reason::Command => {
                format!("User {name} has no permissions to run the '{object}' command")
            }
            Reason::Key if shows => {
                format!("User {name} has no permissions to access the '{object}' key")
            }
            Reason::Channel if shows => {
                format!("User {name} has no permissions to access the '{object}' channel")
            }
            Reason::Key => "No permissions to access a key".to_owned(),
            Reason::Channel | Reason::Password => "No permissions to access a channel".to_owned(),
        }
    }

    /// Why EXEC does not perform a command that was queued.
    pub(crate) fn text_of_exec(&self) -> String {
        let why = match self.reason {
            Reason::Command => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel | Reason::Password => {
                "no permission to access one of the channels used as arguments to the command"
            }
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
             call. This command is no longer allowed for the following reason: {why}"
        )
    }
}

/// A request, as selectors look at it.
struct Wanted<'a> {
    at: usize,
    listed: &'static Listed,
    args: Args<'a>,
    /// The arguments that are keys, once they are known.
    keys: Option<Vec<usize>>,
}

/// Whether a user may do what a request asks for, by a command that takes as many arguments.
pub(crate) fn check(user: &User, command: &Command, args: Args<'_>) -> Result<(), Denied> {
    if user.is_unlimited() {
        return Ok(());
    }
    let Some(at) = catalog().of(command, args) else {
        // A request of HTTP, which ends its connection.
        let is_request = matches!(command.name, "post" | "host:");
        let object = command.name.as_bytes().to_vec();
        return if is_request { Ok(()) } else { Err(Denied { reason: Reason::Command, object }) };
    };
    let mut wanted = Wanted { at, listed: &catalog().all[at], args, keys: None };
    // Of several reasons the last key or channel that no selector permits.
    let mut worst = (Reason::Command, 0);
    for selector in &user.selectors {
        match wanted.check(selector, command) {
            Ok(()) => return Ok(()),
            Err(found) => worst = worst.max(found),
        }
    }
    let object = match worst {
        (Reason::Command, _) => wanted.listed.name.as_bytes(),
        (_, at) => args.at(at),
    };
    Err(Denied { reason: worst.0, object: object.to_vec() })
}

/// Whether a user may do what SORT asks for, and read every key: those that BY and GET name follow from data.
pub(crate) fn reads_all_keys(user: &User, command: &Command, args: Args<'_>) -> bool {
    let Some(at) = catalog().of(command, args) else { return false };
    let mut wanted = Wanted { at, listed: &catalog().all[at], args, keys: None };
    let takes = |one: &Selector| one.reads_all_keys() && wanted.check(one, command).is_ok();
    user.is_unlimited() || user.selectors.iter().any(takes)
}

/// Whether everybody may send a command: it gives a password, or ends the connection or its state.
fn is_for_all(name: &str) -> bool {
    matches!(name, "auth" | "hello" | "quit" | "reset")
}

impl Wanted<'_> {
    /// Whether a selector permits it; otherwise the reason, and the argument.
    fn check(&mut self, selector: &Selector, command: &Command) -> Result<(), (Reason, usize)> {
        let Wanted { at, listed, args, .. } = *self;
        if !is_for_all(listed.name) && !selector.permits(at, args.get(1)) {
            return Err((Reason::Command, 0));
        }
        if !selector.has_all_keys() && listed.has_keys() {
            // Where there is an error, the command says so, and does nothing.
            let keys =
                self.keys.get_or_insert_with(|| key_positions(command, args).unwrap_or_default());
            for &at in keys.iter() {
                let Some(key) = args.get(at) else { continue };
                if !selector.permits_key(key, access(listed, args, at)) {
                    return Err((Reason::Key, at));
                }
            }
        }
        if selector.has_all_channels() {
            return Ok(());
        }
        let (channels, is_pattern) = channels(listed.name, args.len());
        for at in channels {
            if !selector.permits_channel(args.at(at), is_pattern) {
                return Err((Reason::Channel, at));
            }
        }
        Ok(())
    }
}

/// How the key at an argument is accessed: for a few commands that follows from their options.
fn access(listed: &Listed, args: Args<'_>, at: usize) -> Access {
    let has = |words: &[&str], from: usize| {
        (from..args.len()).any(|at| words.iter().any(|word| args.is(at, word)))
    };
    match listed.name {
        "set" if has(&["get", "ifeq", "ifne"], 3) => Access::BOTH,
        "set" => Access::WRITE,
        "bitfield" if !writes_bits(args) => Access::READ,
        _ => listed.access(at),
    }
}

/// How a request accesses the key at an argument.
pub(crate) fn key_access(command: &Command, args: Args<'_>, at: usize) -> Access {
    let listed = catalog().of(command, args).map(|at| &catalog().all[at]);
    listed.map_or(Access::BOTH, |listed| access(listed, args, at))
}

/// Whether a BITFIELD writes, or is none.
fn writes_bits(args: Args<'_>) -> bool {
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        at += match () {
            () if args.is(at, "get") && left >= 2 => 3,
            () if args.is(at, "overflow") && left >= 1 => 2,
            () => return true,
        };
    }
    false
}

/// The arguments that are channels to publish to, or to listen to; and whether they are patterns.
fn channels(name: &str, len: usize) -> (std::ops::Range<usize>, bool) {
    match name {
        "publish" | "spublish" => (1..2, false),
        "subscribe" | "ssubscribe" => (1..len, false),
        "psubscribe" => (1..len, true),
        _ => (0..0, false),
    }
}
