//! Where the keys are among a command's arguments: COMMAND GETKEYS.
//!
//! Most commands' are at places that [`Command::keys`] has; the others' are listed here.

use super::{Command, Failure, Outcome};
use crate::protocol::{Args, number};
use std::ops::Range;

/// Keys beside those that a command has at fixed places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    /// As many as the argument at a place says, after it. Without any the command is wrong.
    Counted(usize),
    /// The same, but there may be none.
    CountedOrNone(usize),
    /// The first half of the arguments after STREAMS.
    Streams,
    /// Those of MIGRATE: after KEYS, or the one before its options.
    Moved,
    /// The key after the last of these words from a place on.
    After(&'static [&'static str], usize),
}

const TABLE: &[(&str, More)] = &[
    ("zunion", More::Counted(1)),
    ("zinter", More::Counted(1)),
    ("zdiff", More::Counted(1)),
    ("zintercard", More::Counted(1)),
    ("zunionstore", More::Counted(2)),
    ("zinterstore", More::Counted(2)),
    ("zdiffstore", More::Counted(2)),
    ("sintercard", More::Counted(1)),
    ("lmpop", More::Counted(1)),
    ("blmpop", More::Counted(2)),
    ("zmpop", More::Counted(1)),
    ("bzmpop", More::Counted(2)),
    ("eval", More::CountedOrNone(2)),
    ("evalsha", More::CountedOrNone(2)),
    ("eval_ro", More::CountedOrNone(2)),
    ("evalsha_ro", More::CountedOrNone(2)),
    ("fcall", More::CountedOrNone(2)),
    ("fcall_ro", More::CountedOrNone(2)),
    ("migrate", More::Moved),
    ("xread", More::Streams),
    ("xreadgroup", More::Streams),
    ("sort", More::After(&["store"], 2)),
    ("georadius", More::After(&["store", "storedist"], 6)),
    ("georadiusbymember", More::After(&["store", "storedist"], 5)),
];

fn more(command: &Command) -> Option<More> {
    TABLE.iter().find(|(name, _)| *name == command.name).map(|(_, more)| *more)
}

/// Whether a command has keys, or patterns of keys, at no fixed place.
pub(crate) fn move_about(command: &Command) -> bool {
    more(command).is_some() || command.name == "sort_ro"
}

/// Whether a command has keys.
#[cfg(test)]
pub(crate) fn has_keys(command: &Command) -> bool {
    command.keys.0 > 0 || more(command).is_some()
}

/// The arguments of a request that are keys. Its length is one that the command takes.
pub(crate) fn positions(command: &Command, args: Args<'_>) -> Outcome<Vec<usize>> {
    let more = more(command);
    let (first, last, step) = command.keys;
    if first == 0 && more.is_none() {
        return Err(Failure::Say("ERR The command has no key arguments".into()));
    }
    let mut keys = Vec::new();
    if first > 0 {
        let last = if last < 0 { args.len() as i32 + last } else { last };
        let all = (first..=last).step_by(step as usize).map(|at| at as usize);
        keys.extend(all.filter(|&at| at < args.len()));
    }
    match more {
        None => {}
        Some(More::Counted(at)) => keys.extend(counted(args, at, 1)?),
        Some(More::CountedOrNone(at)) => keys.extend(counted(args, at, 0)?),
        Some(More::Moved) => {
            if let Some(moved) = moved(args) {
                keys = moved.collect();
            }
        }
        Some(More::Streams) => keys.extend(streams(args)?),
        Some(More::After(words, from)) => keys.extend(last_after(words, args, from)),
    }
    Ok(keys)
}

fn counted(args: Args<'_>, at: usize, least: usize) -> Outcome<Range<usize>> {
    let left = args.len().saturating_sub(at + 1);
    let count = args.get(at).and_then(number::parse_i64).and_then(|n| usize::try_from(n).ok());
    let count = count.filter(|count| (least..=left).contains(count));
    let wrong = "ERR Invalid arguments specified for command";
    let count = count.ok_or(Failure::Say(wrong.into()))?;
    Ok(at + 1..at + 1 + count)
}

/// The keys of MIGRATE that are after KEYS.
fn moved(args: Args<'_>) -> Option<Range<usize>> {
    let mut at = 6;
    while at < args.len() {
        at += match () {
            () if args.is(at, "keys") => {
                return args.at(3).is_empty().then_some(at + 1..args.len());
            }
            () if args.is(at, "auth") => 2,
            () if args.is(at, "auth2") => 3,
            () => 1,
        };
    }
    None
}

/// The keys of XREAD and XREADGROUP.
fn streams(args: Args<'_>) -> Outcome<Range<usize>> {
    let mut at = 1;
    while at < args.len() {
        at += match () {
            () if args.is(at, "streams") => {
                let left = args.len() - at - 1;
                if left == 0 || !left.is_multiple_of(2) {
                    break;
                }
                return Ok(at + 1..at + 1 + left / 2);
            }
            () if args.is(at, "block") || args.is(at, "count") => 2,
            () if args.is(at, "group") => 3,
            () => 1,
        };
    }
    Err(Failure::Say("ERR Invalid arguments specified for command".into()))
}

/// The argument after the last of these words from a place on, none of which is the argument of another option.
fn last_after(words: &[&str], args: Args<'_>, from: usize) -> Option<usize> {
    let is = |at: usize, names: &[&str]| names.iter().any(|name| args.is(at, name));
    let (mut at, mut found) = (from, None);
    while at < args.len() {
        at += match () {
            () if is(at, words) => {
                found = Some(at + 1).filter(|&at| at < args.len()).or(found);
                2
            }
            () if is(at, &["limit"]) => 3,
            () if is(at, &["by", "get", "count"]) => 2,
            () => 1,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{Run, all, find};
    use super::*;
    use crate::protocol::args::OwnedArgs;

    fn keys_of(request: &str) -> String {
        let args: OwnedArgs = request.split(' ').map(str::as_bytes).collect();
        let args = args.as_args();
        let command = find(args.at(0)).unwrap();
        assert!(command.takes(args.len()), "{request}");
        match positions(command, args) {
            Ok(found) => {
                let keys: Vec<&[u8]> = found.into_iter().map(|at| args.at(at)).collect();
                String::from_utf8(keys.join(&b' ')).unwrap()
            }
            Err(Failure::Say(text)) => text.into_owned(),
            Err(Failure::NoRoom(text)) => panic!("{text}"),
            Err(Failure::Pool(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn keys_are_found_wherever_they_are() {
        let none = "ERR The command has no key arguments";
        let wrong = "ERR Invalid arguments specified for command";
        for (request, expected) in [
            ("mset a 1 b 2", "a b"),
            ("ping", none),
            ("zunionstore d 2 a b weights 1 2", "d a b"),
            ("zinter 2 a b withscores", "a b"),
            ("zdiff 3 a b", wrong),
            ("zintercard 0 a", wrong),
            ("sintercard x a", wrong),
            ("lmpop 1 a left", "a"),
            ("blmpop 0 2 a b left", "a b"),
            ("bzmpop 0 1 z min", "z"),
            ("eval return 2 a b c", "a b"),
            ("evalsha_ro digest 0", ""),
            ("eval return -1 a", wrong),
            ("sort l by store get store limit 0 1 alpha", "l"),
            ("sort l store one get # STORE two", "l two"),
            ("sort_ro l", "l"),
            ("xread count 2 block 0 streams a b 0 $", "a b"),
            ("xreadgroup group streams c noack streams a >", "a"),
            ("xread streams a b 0", wrong),
            ("xgroup create s g 0", "s"),
            ("migrate host 6379 key 0 5000 copy auth keys", "key"),
            ("migrate host 6379  0 5000 auth2 keys keys keys a b", "a b"),
            ("migrate host 6379 key 0 5000 keys a", "key"),
            ("georadius g 1 2 3 km", "g"),
            ("georadius g 1 2 3 km count 1 storedist d", "g d"),
            ("georadiusbymember g store 3 km store d", "g d"),
        ] {
            assert_eq!(keys_of(request), expected, "{request}");
        }
    }

    #[test]
    fn every_command_has_its_keys_somewhere() {
        for (name, _) in TABLE {
            assert!(find(name.as_bytes()).is_some(), "{name}");
        }
        let keyless: Vec<&str> = all()
            .map(|(_, command)| command)
            .filter(|command| !matches!(command.run, Run::Client(_)))
            .filter(|command| command.keys.0 == 0 && more(command).is_none())
            .filter(|command| !command.name.starts_with("function|"))
            .map(|command| command.name)
            .collect();
        let expected = [
            "dbsize",
            "swapdb",
            "flushdb",
            "flushall",
            "randomkey",
            "keys",
            "scan",
            "wait",
            "waitaof",
            "publish",
            "info",
        ];
        assert_eq!(keyless, expected);
    }
}
