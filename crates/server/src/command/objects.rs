//! OBJECT and MEMORY USAGE: how keys are kept, and how much they take.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::set::Set;
use crate::keyspace::{Entry, Kind, size, text};
use crate::protocol::number;

const SECOND: (i32, i32, i32) = (2, 2, 1);

pub(super) const OBJECT: &[Command] =
    &[Command::new("object", -2, SECOND, Run::Read(object), "How a key's value is kept.")];
pub(super) const MEMORY: &[Command] =
    &[Command::new("memory", -2, SECOND, Run::Read(memory), "Bytes of the pool that a key takes.")];

const OBJECT_HELP: [&str; 13] = [
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the key <key>, under an LFU policy. The",
    "    returned integer is proportional to the logarithm of the real access frequency.",
    "IDLETIME <key>",
    "    Return the idle time of the key <key>, under an LRU policy: the approximated",
    "    number of seconds elapsed since the last access.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>: 1.",
    "Of a key that is not there, all answer nil.",
];

const MEMORY_HELP: [&str; 3] = [
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    counted, or, with SAMPLES, estimated by up to <count> of them (0: all).",
];

fn object(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"encoding", 3) => encoding(call),
        (b"refcount", 3) => {
            match call.inspect(args.at(2))? {
                Some(_) => call.out.integer(1),
                None => call.out.null(),
            }
            Ok(())
        }
        (b"idletime", 3) => idle_time(call),
        (b"freq", 3) => frequency(call),
        (b"help", 2) => {
            call.out.help("OBJECT", &OBJECT_HELP);
            Ok(())
        }
        (b"encoding" | b"refcount" | b"idletime" | b"freq" | b"help", _) => {
            Err(Failure::subcommand_arity(args, "object"))
        }
        _ => Err(Failure::unknown_subcommand(args, "OBJECT")),
    }
}

/// Seconds since a key was used; since the server's start, if it was not used since then.
fn idle_time(call: &mut Call<'_>) -> Outcome {
    let (key, now, db) = (call.args.at(2), call.env.now, call.db.index());
    let idle = call.env.server.eviction.idle(db, key, now).map(|idle| {
        idle.map_or(call.env.server.started.elapsed().as_secs(), |millis| millis / 1000)
    });
    tracked(call, idle, "ERR idle time is tracked under an LRU maxmemory policy only.")
}

fn frequency(call: &mut Call<'_>) -> Outcome {
    let (key, now, db) = (call.args.at(2), call.env.now, call.db.index());
    let frequency = call.env.server.eviction.frequency(db, key, now).map(u64::from);
    let text = "ERR An LFU maxmemory policy is not selected, access frequency not tracked.";
    tracked(call, frequency, text)
}

/// Answers with a number, or the error `text` if none is kept; with nil if the key does not exist.
fn tracked(call: &mut Call<'_>, number: Option<u64>, text: &'static str) -> Outcome {
    match (call.inspect(call.args.at(2))?, number) {
        (None, _) => call.out.null(),
        (Some(_), Some(number)) => call.out.size(number),
        (Some(_), None) => return Err(Failure::Say(text.into())),
    }
    Ok(())
}

fn encoding(call: &mut Call<'_>) -> Outcome {
    match call.inspect(call.args.at(2))? {
        Some(entry) => {
            let name = encoding_of(call, entry)?;
            call.out.bulk(name.as_bytes());
        }
        None => call.out.null(),
    }
    Ok(())
}

/// The encoding of Redis's that is nearest to how a value is kept.
pub(super) fn encoding_of(call: &mut Call<'_>, entry: Entry) -> Outcome<&'static str> {
    /// Digits and sign of the longest integer.
    const INTEGER: u64 = 20;
    Ok(match entry.kind() {
        Kind::String => {
            let short = text::len(call.tx, entry)? <= INTEGER;
            let is_integer = short && number::parse_i64(&text::read(call.tx, entry)?).is_some();
            match () {
                () if is_integer => "int",
                () if entry.is_in_place() => "embstr",
                () => "raw",
            }
        }
        Kind::Hash if entry.is_one_block() => "listpack",
        Kind::Hash => "hashtable",
        Kind::SortedSet => "skiplist",
        Kind::Set if !entry.is_one_block() => "hashtable",
        Kind::Set if Set::load(call.tx, Some(entry))?.is_of_integers() => "intset",
        Kind::Set => "listpack",
        Kind::List if entry.is_one_block() => "listpack",
        Kind::List => "quicklist",
        Kind::Stream => "stream",
    })
}

fn memory(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"usage", 3..) => {
            let samples = samples(call)?;
            let bytes = match call.inspect(args.at(2))? {
                Some(_) => size::of_key(call.tx, call.db, args.at(2), samples)?,
                None => None,
            };
            match bytes {
                Some(bytes) => call.out.size(bytes),
                None => call.out.null(),
            }
            Ok(())
        }
        (b"help", 2) => {
            call.out.help("MEMORY", &MEMORY_HELP);
            Ok(())
        }
        (b"usage" | b"help", _) => Err(Failure::subcommand_arity(args, "memory")),
        _ => Err(Failure::unknown_subcommand(args, "MEMORY")),
    }
}

/// The number of SAMPLES; 0 means all of a value, as no number does.
fn samples(call: &Call<'_>) -> Outcome<Option<u64>> {
    let mut samples = None;
    for at in (3..call.args.len()).step_by(2) {
        if !call.args.is(at, "samples") || at + 1 == call.args.len() {
            return Err(Failure::SYNTAX);
        }
        let count = u64::try_from(call.integer(at + 1)?).map_err(|_| Failure::SYNTAX)?;
        samples = Some(count).filter(|count| *count > 0);
    }
    Ok(samples)
}
