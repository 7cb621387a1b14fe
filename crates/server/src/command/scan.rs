//! KEYS, SCAN, HSCAN, SSCAN, ZSCAN.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::hash::Hash;
use crate::keyspace::set::Set;
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{Entry, Kind};
use crate::protocol::{Args, glob, number};

const NONE: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
/// Elements looked at in one call, whatever COUNT asks for.
const MOST: u64 = 1 << 16;

pub(super) const TABLE: &[Command] = &[
    Command::new("keys", 2, NONE, Run::Read(keys), "All keys that match a pattern."),
    Command::new("scan", -2, NONE, Run::Read(scan), "Some keys, and where to go on."),
    Command::new("hscan", -3, ONE, Run::Read(hscan), "Some fields, and where to go on."),
    Command::new("sscan", -3, ONE, Run::Read(sscan), "Some members, and where to go on."),
    Command::new("zscan", -3, ONE, Run::Read(zscan), "Some members, and where to go on."),
];

/// The arguments of a SCAN.
struct Options<'a> {
    cursor: u64,
    count: u64,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// From the arguments after the cursor.
    fn parse(cursor: u64, args: Args<'a>, typed: bool) -> Outcome<Self> {
        let mut options = Options { cursor, count: 10, pattern: None, kind: None };
        for at in (0..args.len()).step_by(2) {
            let value = args.get(at + 1).ok_or(Failure::SYNTAX)?;
            if args.is(at, "count") {
                let count = number::parse_i64(value).ok_or(Failure::NOT_INTEGER)?;
                options.count =
                    u64::try_from(count).ok().filter(|&c| c > 0).ok_or(Failure::SYNTAX)?;
            } else if args.is(at, "match") {
                options.pattern = Some(value);
            } else if args.is(at, "type") && typed {
                options.kind = Some(value);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        options.count = options.count.min(MOST);
        Ok(options)
    }

    fn takes(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }

    fn takes_kind(&self, entry: Entry) -> bool {
        let name = entry.kind().name().as_bytes();
        self.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(name))
    }
}

/// The cursor at `index`, as C's strtoul reads it: nothing is 0, and a sign is no error.
fn cursor(call: &Call<'_>, index: usize) -> Outcome<u64> {
    let text = std::str::from_utf8(call.args.at(index)).map_err(|_| Failure::CURSOR)?;
    let cursor = match text.strip_prefix('-') {
        _ if text.is_empty() => Some(0),
        Some(digits) => digits.parse().ok().map(u64::wrapping_neg),
        None => text.parse().ok(),
    };
    cursor.ok_or(Failure::CURSOR)
}

fn keys(call: &mut Call<'_>) -> Outcome {
    let pattern = call.args.at(1);
    let (start, mut count) = (call.out.len(), 0);
    if let Some(keys) = call.db.keys(call.tx)? {
        let (out, now) = (&mut call.out, call.env.now);
        keys.for_each(call.tx, &mut |key, entry| {
            if !entry.expired(now) && glob::matches(pattern, &key) {
                out.bulk(&key);
                count += 1;
            }
            Ok(())
        })?;
    }
    call.out.array_since(start, count);
    Ok(())
}

fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor(call, 1)?;
    let options = Options::parse(cursor, call.args.from(2), true)?;
    let (next, found) = match call.db.keys(call.tx)? {
        Some(keys) => keys.scan(call.tx, options.cursor, options.count)?,
        None => (0, Vec::new()),
    };
    let mut names = head(call, next);
    for (key, entry) in found {
        if !entry.expired(call.env.now) && options.takes(&key) && options.takes_kind(entry) {
            names.push(call, &key);
        }
    }
    names.end(call);
    Ok(())
}

/// The entry to go through, and how; `None` once it is answered that there is none. As in Redis,
/// the cursor is looked at before the key, and the key before the options.
fn begin<'a>(call: &mut Call<'a>, kind: Kind) -> Outcome<Option<(Entry, Options<'a>)>> {
    let cursor = cursor(call, 2)?;
    match call.look_for(call.args.at(1), kind)? {
        Some(entry) => Ok(Some((entry, Options::parse(cursor, call.args.from(3), false)?))),
        None => {
            head(call, 0).end(call);
            Ok(None)
        }
    }
}

fn hscan(call: &mut Call<'_>) -> Outcome {
    let Some((entry, options)) = begin(call, Kind::Hash)? else { return Ok(()) };
    let hash = Hash::load(call.tx, Some(entry))?;
    let (next, pairs) = hash.scan(call.tx, options.cursor, options.count)?;
    let mut names = head(call, next);
    for (field, value) in pairs {
        if options.takes(&field) {
            names.push(call, &field);
            names.push(call, &value);
        }
    }
    names.end(call);
    Ok(())
}

fn sscan(call: &mut Call<'_>) -> Outcome {
    let Some((entry, options)) = begin(call, Kind::Set)? else { return Ok(()) };
    let set = Set::load(call.tx, Some(entry))?;
    let (next, members) = set.scan(call.tx, options.cursor, options.count)?;
    let mut names = head(call, next);
    for (member, _) in members {
        if options.takes(&member) {
            names.push(call, &member);
        }
    }
    names.end(call);
    Ok(())
}

fn zscan(call: &mut Call<'_>) -> Outcome {
    let Some((entry, options)) = begin(call, Kind::SortedSet)? else { return Ok(()) };
    let set = SortedSet::load(call.tx, entry)?;
    let (next, members) = set.scan(call.tx, options.cursor, options.count)?;
    let mut names = head(call, next);
    for (member, score) in members {
        if options.takes(&member) {
            names.push(call, &member);
            let mut text = Vec::new();
            number::push_score(&mut text, score);
            names.push(call, &text);
        }
    }
    names.end(call);
    Ok(())
}

/// A list under way, of a length that is not known yet.
struct Names {
    start: usize,
    count: usize,
}

/// Begins a SCAN's reply.
fn head(call: &mut Call<'_>, next: u64) -> Names {
    call.out.array(2);
    call.out.bulk(next.to_string().as_bytes());
    Names { start: call.out.len(), count: 0 }
}

impl Names {
    fn push(&mut self, call: &mut Call<'_>, name: &[u8]) {
        call.out.bulk(name);
        self.count += 1;
    }

    fn end(self, call: &mut Call<'_>) {
        call.out.array_since(self.start, self.count);
    }
}
