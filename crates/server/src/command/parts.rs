//! The subcommands of commands, and how many arguments each of them takes: inside of MULTI a request for one that is not
//! there, or with too few or too many arguments, is refused when it would be queued, so that EXEC does nothing.

use super::{Command, Failure};
use crate::protocol::Args;

/// A subcommand, with its arity in the sense of [`Command::arity`].
type Part = (&'static str, i32);

/// The commands that have subcommands.
const WHOLE: &[(&str, &[Part])] = &[
    (
        "acl",
        &[
            ("cat", -2),
            ("deluser", -3),
            ("dryrun", -4),
            ("genpass", -2),
            ("getuser", 3),
            ("help", 2),
            ("list", 2),
            ("load", 2),
            ("log", -2),
            ("save", 2),
            ("setuser", -3),
            ("users", 2),
            ("whoami", 2),
        ],
    ),
    (
        "client",
        &[
            ("caching", 3),
            ("getname", 2),
            ("getredir", 2),
            ("id", 2),
            ("info", 2),
            ("kill", -3),
            ("list", -2),
            ("no-evict", 3),
            ("no-touch", 3),
            ("pause", -3),
            ("reply", 3),
            ("setinfo", 4),
            ("setname", 3),
            ("tracking", -3),
            ("trackinginfo", 2),
            ("unblock", -3),
            ("unpause", 2),
        ],
    ),
    (
        "command",
        &[
            ("count", 2),
            ("docs", -2),
            ("getkeys", -4),
            ("getkeysandflags", -4),
            ("info", -2),
            ("list", -2),
        ],
    ),
    ("config", &[("get", -3), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    (
        "function",
        &[
            ("delete", 3),
            ("dump", 2),
            ("flush", -2),
            ("help", 2),
            ("kill", 2),
            ("list", -2),
            ("load", -3),
            ("restore", -3),
            ("stats", 2),
        ],
    ),
    (
        "latency",
        &[
            ("doctor", 2),
            ("graph", 3),
            ("help", 2),
            ("histogram", -2),
            ("history", 3),
            ("latest", 2),
            ("reset", -2),
        ],
    ),
    ("memory", &[("help", 2), ("usage", -3)]),
    ("object", &[("encoding", 3), ("freq", 3), ("help", 2), ("idletime", 3), ("refcount", 3)]),
    (
        "pubsub",
        &[
            ("channels", -2),
            ("help", 2),
            ("numpat", 2),
            ("numsub", -2),
            ("shardchannels", -2),
            ("shardnumsub", -2),
        ],
    ),
    ("script", &[("exists", -3), ("flush", -2), ("help", 2), ("kill", 2), ("load", 3)]),
    ("slowlog", &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)]),
    (
        "xgroup",
        &[
            ("create", -5),
            ("createconsumer", 5),
            ("delconsumer", 5),
            ("destroy", 4),
            ("help", 2),
            ("setid", -5),
        ],
    ),
    ("xinfo", &[("consumers", 4), ("groups", 3), ("help", 2), ("stream", -3)]),
];

/// Whether a command has subcommands.
#[cfg(test)]
pub(super) fn are_of(command: &Command) -> bool {
    WHOLE.iter().any(|(whole, _)| *whole == command.name)
}

/// Why a request cannot be queued: its command has no such subcommand, or not with so many arguments.
pub(crate) fn refusal(command: &Command, args: Args<'_>) -> Option<Failure> {
    let name = command.name.split('|').next().unwrap_or_default();
    let (_, parts) = WHOLE.iter().find(|(whole, _)| *whole == name)?;
    let sub = args.get(1)?;
    let Some((_, arity)) = parts.iter().find(|(part, _)| part.as_bytes().eq_ignore_ascii_case(sub))
    else {
        return Some(Failure::unknown_subcommand(args, &name.to_uppercase()));
    };
    (!super::client::fits(*arity, args.len())).then(|| Failure::subcommand_arity(args, name))
}
