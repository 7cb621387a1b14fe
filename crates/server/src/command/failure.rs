//! Why a command could not do its work.

use crate::protocol::{Args, Reply, number};
use perdura::Error;
use std::borrow::Cow;

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A reply to the client; the command's writes are undone.
    Say(Cow<'static, str>),
    /// The same, since there was no room for the writes of a command that it has performed: an EXEC does nothing then.
    NoRoom(String),
    /// The pool refused.
    Pool(Error),
}

/// A client's bytes, as errors quote them: not all of them, and as C would print them.
pub(crate) fn shown(text: &[u8], most: usize) -> String {
    let text = number::until_nul(text);
    String::from_utf8_lossy(&text[..text.len().min(most)]).into_owned()
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Pool(error)
    }
}

impl Failure {
    /// A failure with a text made for the occasion.
    pub(crate) fn say(text: String) -> Self {
        Failure::Say(Cow::Owned(text))
    }

    /// The same, where the offset or length in question came from the pool itself.
    pub(crate) fn in_pool(self) -> Self {
        match self {
            Failure::Pool(error) => Failure::Pool(error.in_pool()),
            said => said,
        }
    }

    /// Writes it as a reply.
    pub(crate) fn tell(&self, out: &mut Reply<'_>) {
        match self {
            Failure::Say(text) => out.error(text),
            Failure::NoRoom(text) => out.error(text),
            Failure::Pool(Error::Full { .. }) => {
                out.error("OOM command not allowed when used memory > 'maxmemory'.");
            }
            Failure::Pool(Error::NoSpace { source, .. }) => out.error(&format!(
                "MISCONF Errors writing to the pool's file: {source}; free space on its file system, \
                 then try again"
            )),
            Failure::Pool(Error::TooLarge { needed, available }) => out.error(&format!(
                "ERR too large to be done at once: it needs {needed} bytes of the pool's log, which \
                 has {available}; split it, or move to a pool made with `perdura pool create --log`"
            )),
            Failure::Pool(Error::Io(_)) => out.error("ERR persistence failed"),
            Failure::Pool(error) => out.error(&format!("ERR {error}")),
        }
    }

    /// The first word of its reply: INFO counts errors by it.
    pub(crate) fn code(&self) -> &str {
        match self {
            Failure::Say(text) => text.split(' ').next().unwrap_or_default(),
            Failure::NoRoom(text) => text.split(' ').next().unwrap_or_default(),
            Failure::Pool(Error::Full { .. }) => "OOM",
            Failure::Pool(Error::NoSpace { .. }) => "MISCONF",
            Failure::Pool(_) => "ERR",
        }
    }

    /// Whether there was no room for the command's writes.
    pub(crate) fn is_full(&self) -> bool {
        matches!(
            self,
            Failure::NoRoom(_) | Failure::Pool(Error::Full { .. } | Error::NoSpace { .. })
        )
    }

    const fn text(text: &'static str) -> Self {
        Failure::Say(Cow::Borrowed(text))
    }

    pub(crate) const WRONG_TYPE: Failure =
        Self::text("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const NOT_INTEGER: Failure =
        Self::text("ERR value is not an integer or out of range");
    pub(crate) const NOT_FLOAT: Failure = Self::text("ERR value is not a valid float");
    pub(crate) const HASH_NOT_INTEGER: Failure = Self::text("ERR hash value is not an integer");
    pub(crate) const HASH_NOT_FLOAT: Failure = Self::text("ERR hash value is not a float");
    pub(crate) const OVERFLOW: Failure = Self::text("ERR increment or decrement would overflow");
    pub(crate) const NOT_FINITE: Failure =
        Self::text("ERR increment would produce NaN or Infinity");
    pub(crate) const SYNTAX: Failure = Self::text("ERR syntax error");
    pub(crate) const NO_KEY: Failure = Self::text("ERR no such key");
    pub(crate) const TOO_LONG: Failure =
        Self::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(crate) const OFFSET: Failure = Self::text("ERR offset is out of range");
    pub(crate) const CURSOR: Failure = Self::text("ERR invalid cursor");
    pub(crate) const MIN_MAX: Failure = Self::text("ERR min or max is not a float");
    pub(crate) const MIN_MAX_STRING: Failure =
        Self::text("ERR min or max not valid string range item");
    pub(crate) const SCORE_NAN: Failure = Self::text("ERR resulting score is not a number (NaN)");
    pub(crate) const OUT_OF_RANGE: Failure = Self::text(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    pub(crate) const MUST_BE_POSITIVE: Failure =
        Self::text("ERR value is out of range, must be positive");
    pub(crate) const DB_INDEX: Failure = Self::text("ERR DB index is out of range");

    /// "wrong number of arguments" for a command.
    pub(crate) fn arity(command: &str) -> Self {
        Failure::say(format!("ERR wrong number of arguments for '{command}' command"))
    }

    /// A subcommand with too few arguments, or too many.
    pub(crate) fn subcommand_arity(args: Args<'_>, name: &str) -> Self {
        Self::arity(&format!("{name}|{}", shown(args.at(1), 128).to_lowercase()))
    }

    /// A subcommand that does not exist.
    pub(crate) fn unknown_subcommand(args: Args<'_>, name: &str) -> Self {
        let sub = shown(args.at(1), 128);
        Failure::say(format!("ERR unknown subcommand '{sub}'. Try {name} HELP."))
    }

    /// "invalid expire time" in a command.
    pub(crate) fn expire_time(command: &str) -> Self {
        Failure::say(format!("ERR invalid expire time in '{command}' command"))
    }
}
