//! How replicas are told of a command's effect: as the command itself, where the same command does the same to the same
//! keys, whenever and by whichever version it is performed; otherwise as one that does.
//!
//! Times become points in time, what was drawn at random or numbered by a clock is named, and clients that wait are left
//! out, as in Redis. What a command has done is read from the keyspace after it, and from its reply.

use super::value::Value;
use crate::command::stream_ids::strict;
use crate::command::stream_reads::request;
use crate::command::{Call, Command, Outcome};
use crate::keyspace::hash::Hash;
use crate::keyspace::stream::{Group, Id, Stream};
use crate::keyspace::{Entry, Kind, text};
use crate::protocol::number;
use crate::rdb::{self, form, values};
use crate::transfer::read;
use crate::transfer::record::{Change, PendingEntry, Record};

/// Notes the effect of a command that has succeeded, and whose reply begins at `start`.
///
/// # Errors
/// As reads of its keys.
pub(crate) fn tell(call: &mut Call<'_>, command: &Command, start: usize) -> Outcome {
    let (args, key) = (call.args, call.args.get(1).unwrap_or_default());
    match command.name {
        "set" | "setnx" | "getset" => tell_text(call, key, args.at(2)),
        "setex" | "psetex" => tell_text(call, key, args.at(3)),
        "getex" | "expire" | "pexpire" | "expireat" | "pexpireat" => tell_time(call, key),
        "delex" | "delifeq" => tell_gone(call, key),
        "incrbyfloat" => tell_number(call, key),
        "hincrbyfloat" => tell_field(call, key, args.at(2)),
        "restore" => tell_all(call, key),
        "sort" => tell_sorted(call),
        "geosearchstore" => tell_all(call, key),
        "georadius" => tell_placed(call, 6),
        "georadiusbymember" => tell_placed(call, 5),
        "function|load" | "function|delete" | "function|flush" | "function|restore" => {
            tell_libraries(call)
        }
        "spop" => tell_drawn(call, key, start),
        "blpop" => tell_popped(call, start, b"LPOP"),
        "brpop" => tell_popped(call, start, b"RPOP"),
        "bzpopmin" => tell_popped(call, start, b"ZPOPMIN"),
        "bzpopmax" => tell_popped(call, start, b"ZPOPMAX"),
        "blmpop" => note_rest(call, b"LMPOP", 2, args.len()),
        "bzmpop" => note_rest(call, b"ZMPOP", 2, args.len()),
        "blmove" => note_rest(call, b"LMOVE", 1, args.len() - 1),
        "brpoplpush" => note_rest(call, b"RPOPLPUSH", 1, args.len() - 1),
        "move" => tell_moved(call, key, start),
        "xadd" => tell_entry(call, key, start),
        "xtrim" => tell_length(call, key),
        "xreadgroup" => tell_delivered(call, start),
        "xclaim" => tell_claimed(call, key),
        "xautoclaim" => tell_claimed_from(call, key, start),
        _ => {
            note(call, args.iter());
            Ok(())
        }
    }
}

fn note<'a>(call: &Call<'_>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    call.env.effects.note(Some(call.db.index()), args);
}

fn note_all(call: &Call<'_>, args: &[&[u8]]) {
    note(call, args.iter().copied());
}

/// The same arguments, from `first` on up to `end`, of another command.
fn note_rest(call: &mut Call<'_>, name: &[u8], first: usize, end: usize) -> Outcome {
    let rest = call.args.first(first, end - first);
    let args: Vec<&[u8]> = std::iter::once(name).chain(rest.iter()).collect();
    note_all(call, &args);
    Ok(())
}

/// A key's entry, if it is there.
fn found(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<Entry>> {
    Ok(call.db.find(call.tx, key)?.map(|found| found.entry))
}

/// A time as all read it.
fn shown(time: u64) -> String {
    time.min(i64::MAX as u64).to_string()
}

fn tell_text(call: &mut Call<'_>, key: &[u8], value: &[u8]) -> Outcome {
    // Not if an expired key is all that it has changed.
    let Some(entry) = found(call, key)? else { return Ok(()) };
    match entry.expires() {
        Some(time) => note_all(call, &[b"SET", key, value, b"PXAT", shown(time).as_bytes()]),
        None => note_all(call, &[b"SET", key, value]),
    }
    Ok(())
}

fn tell_time(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    match found(call, key)?.map(Entry::expires) {
        Some(Some(time)) => note_all(call, &[b"PEXPIREAT", key, shown(time).as_bytes()]),
        Some(None) => note_all(call, &[b"PERSIST", key]),
        None => note_all(call, &[b"DEL", key]),
    }
    Ok(())
}

fn tell_gone(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    if found(call, key)?.is_none() {
        note_all(call, &[b"DEL", key]);
    }
    Ok(())
}

fn tell_number(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    if let Some(entry) = found(call, key)? {
        let value = text::read(call.tx, entry)?;
        note_all(call, &[b"SET", key, &value, b"KEEPTTL"]);
    }
    Ok(())
}

fn tell_field(call: &mut Call<'_>, key: &[u8], field: &[u8]) -> Outcome {
    let entry = found(call, key)?;
    if let Some(value) = Hash::load(call.tx, entry)?.get(call.tx, field)? {
        note_all(call, &[b"HSET", key, field, &value]);
    }
    Ok(())
}

/// A key with all that it holds.
fn tell_all(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let Some(entry) = found(call, key)? else {
        note_all(call, &[b"DEL", key]);
        return Ok(());
    };
    let mut value = Vec::new();
    values::write(call.tx, entry, form::STREAM, &mut value, &mut |_| true)?;
    rdb::finish(&mut value);
    let time = entry.expires().map_or("0".to_owned(), shown);
    note_all(call, &[b"RESTORE", key, time.as_bytes(), &value, b"REPLACE", b"ABSTTL"]);
    Ok(())
}

/// What SORT has stored: elements with the same weight have no order that all agree on.
fn tell_sorted(call: &mut Call<'_>) -> Outcome {
    let (args, mut at, mut key) = (call.args, 2, None);
    while at < args.len() {
        match () {
            // Of several the last one counts.
            () if args.is(at, "store") => (key, at) = (args.get(at + 1), at + 2),
            () if args.is(at, "limit") => at += 3,
            () if args.is(at, "by") || args.is(at, "get") => at += 2,
            () => at += 1,
        }
    }
    key.map_or(Ok(()), |key| tell_all(call, key))
}

/// The places that were stored, if any were: which are within a distance, and how far they are, follows from a library's
/// sines; which of those that are as far as each other, from the way in which they are looked for. Options are at `at`.
fn tell_placed(call: &mut Call<'_>, mut at: usize) -> Outcome {
    let (args, mut key) = (call.args, None);
    while at < args.len() {
        match () {
            () if args.is(at, "store") || args.is(at, "storedist") => {
                (key, at) = (args.get(at + 1), at + 2);
            }
            () if args.is(at, "count") => at += 2,
            () => at += 1,
        }
    }
    key.map_or(Ok(()), |key| tell_all(call, key))
}

/// All libraries: a replica may have some of them already, or take other versions' payloads for wrong.
fn tell_libraries(call: &mut Call<'_>) -> Outcome {
    let effects = call.env.effects;
    effects.note(None, [&b"FUNCTION"[..], b"FLUSH"].into_iter());
    read::libraries(call.tx, call.env.keyspace, &mut |record| {
        effects.note_record(&record);
        Ok(())
    })?;
    Ok(())
}

/// The reply, as far as it is one.
fn reply<'a>(call: &'a Call<'_>, start: usize) -> Value<'a> {
    Value::read(call.out.since(start)).unwrap_or(Value::Other)
}

fn tell_drawn(call: &mut Call<'_>, key: &[u8], start: usize) -> Outcome {
    let members = match reply(call, start) {
        Value::Bulk(member) => vec![member],
        Value::Array(members) => members.iter().filter_map(Value::bulk).collect(),
        Value::Other => Vec::new(),
    };
    if !members.is_empty() {
        let args: Vec<&[u8]> = [&b"SREM"[..], key].into_iter().chain(members).collect();
        note_all(call, &args);
    }
    Ok(())
}

/// Replies begin with the key that something was taken from.
fn tell_popped(call: &mut Call<'_>, start: usize, name: &[u8]) -> Outcome {
    if let Value::Array(parts) = reply(call, start)
        && let Some(key) = parts.first().and_then(Value::bulk)
    {
        note_all(call, &[name, key]);
    }
    Ok(())
}

/// A key was moved, if the reply says so: then its place was free, or what was there had expired, which a replica does not
/// go by.
fn tell_moved(call: &mut Call<'_>, key: &[u8], start: usize) -> Outcome {
    let db = number::parse_i64(call.args.at(2)).and_then(|db| u8::try_from(db).ok());
    if let Some(db) = db.filter(|_| call.out.since(start) == b":1\r\n") {
        call.env.effects.note_removal(db, key);
        note(call, call.args.iter());
    }
    Ok(())
}

/// The number of arguments of XADD before the ID, and whether it trims.
fn before_id(call: &Call<'_>) -> (usize, bool) {
    let (args, mut at, mut trims) = (call.args, 2, false);
    loop {
        match () {
            () if args.is(at, "nomkstream") => at += 1,
            () if args.is(at, "maxlen") || args.is(at, "minid") => {
                let sign = matches!(args.get(at + 1), Some(b"~" | b"="));
                (at, trims) = (at + 2 + usize::from(sign), true);
            }
            () if args.is(at, "limit") => at += 2,
            () => return (at, trims),
        }
    }
}

fn tell_entry(call: &mut Call<'_>, key: &[u8], start: usize) -> Outcome {
    let (at, trims) = before_id(call);
    let Value::Bulk(id) = reply(call, start) else { return Ok(()) };
    let fields = call.args.from(at + 1);
    let args: Vec<&[u8]> = [&b"XADD"[..], key, id].into_iter().chain(fields.iter()).collect();
    note_all(call, &args);
    if trims { tell_length(call, key) } else { Ok(()) }
}

/// Entries go from the beginning: how many are left says which.
fn tell_length(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    if let Some((_, stream)) = stream(call, key)? {
        let len = stream.len().to_string();
        note_all(call, &[b"XTRIM", key, b"MAXLEN", b"=", len.as_bytes()]);
    }
    Ok(())
}

fn stream(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<(Entry, Stream)>> {
    match found(call, key)? {
        Some(entry) if entry.kind() == Kind::Stream => {
            Ok(Some((entry, Stream::load(call.tx, entry)?)))
        }
        _ => Ok(None),
    }
}

/// A group of a stream: as named by a command, and found.
struct Named<'n> {
    key: &'n [u8],
    name: &'n [u8],
    stream: Stream,
    group: Group,
}

impl<'n> Named<'n> {
    fn find(call: &mut Call<'_>, key: &'n [u8], name: &'n [u8]) -> Outcome<Option<Self>> {
        let Some((_, stream)) = stream(call, key)? else { return Ok(None) };
        let group = stream.group(call.tx, name)?;
        Ok(group.map(|group| Named { key, name, stream, group }))
    }

    /// What is pending under an ID now; nothing if its entry is gone, since a replica would take it for acknowledged.
    fn tell_pending(&self, call: &mut Call<'_>, id: Id) -> Outcome {
        let Some(pending) = self.group.pending(call.tx, id)? else {
            note_all(call, &[b"XACK", self.key, self.name, id.text().as_bytes()]);
            return Ok(());
        };
        if self.stream.get(call.tx, id)?.is_none() {
            return Ok(());
        }
        let change = Change::Pending(PendingEntry {
            group: self.name.to_vec(),
            consumer: pending.consumer().name(call.tx)?,
            id,
            time: pending.time,
            count: pending.count,
        });
        let record = Record { db: call.db.index(), key: self.key.to_vec(), change };
        call.env.effects.note_record(&record);
        Ok(())
    }

    /// How far the group is.
    fn tell_progress(&self, call: &mut Call<'_>) -> Outcome {
        let last = self.group.last(call.tx)?.text();
        let read = self.group.read(call.tx)?.map_or("-1".to_owned(), |read| read.to_string());
        let group: [&[u8]; 5] = [b"XGROUP", b"SETID", self.key, self.name, last.as_bytes()];
        note_all(call, &[group.as_slice(), &[b"ENTRIESREAD", read.as_bytes()]].concat());
        Ok(())
    }

    fn tell_consumer(&self, call: &Call<'_>, consumer: &[u8]) {
        note_all(call, &[b"XGROUP", b"CREATECONSUMER", self.key, self.name, consumer]);
    }
}

/// The ID of an entry in a reply: itself, or the first of its parts.
fn id_of(value: &Value<'_>) -> Option<Id> {
    match value {
        Value::Bulk(text) => strict(text).ok(),
        Value::Array(parts) => strict(parts.first()?.bulk()?).ok(),
        Value::Other => None,
    }
}

/// The keys of a reply to XREADGROUP, with the IDs of their entries.
fn delivered(reply: &Value<'_>) -> Vec<(Vec<u8>, Vec<Id>)> {
    let Value::Array(parts) = reply else { return Vec::new() };
    // Pairs in the one protocol, and keys and entries in turns in the other.
    let is_flat = parts.first().is_some_and(|part| matches!(part, Value::Bulk(_)));
    let pair = |key: &Value<'_>, entries: &Value<'_>| {
        let Value::Array(entries) = entries else { return None };
        Some((key.bulk()?.to_vec(), entries.iter().filter_map(id_of).collect()))
    };
    match is_flat {
        true => parts.chunks_exact(2).filter_map(|two| pair(&two[0], &two[1])).collect(),
        false => {
            let nested = parts.iter().filter_map(|part| match part {
                Value::Array(two) if two.len() == 2 => pair(&two[0], &two[1]),
                _ => None,
            });
            nested.collect()
        }
    }
}

fn tell_delivered(call: &mut Call<'_>, start: usize) -> Outcome {
    let request = request(call, true)?;
    let (name, consumer) = request.group.unwrap_or_default();
    let delivered = delivered(&reply(call, start));
    for key in request.keys.iter() {
        let Some(named) = Named::find(call, key, name)? else { continue };
        named.tell_consumer(call, consumer);
        for (_, ids) in delivered.iter().filter(|(own, _)| own == key) {
            for id in ids {
                named.tell_pending(call, *id)?;
            }
        }
        named.tell_progress(call)?;
    }
    Ok(())
}

fn tell_claimed(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let args = call.args;
    let Some(named) = Named::find(call, key, args.at(2))? else { return Ok(()) };
    named.tell_consumer(call, args.at(3));
    for id in args.from(5).iter().map_while(|id| strict(id).ok()) {
        named.tell_pending(call, id)?;
    }
    named.tell_progress(call)
}

fn tell_claimed_from(call: &mut Call<'_>, key: &[u8], start: usize) -> Outcome {
    let args = call.args;
    let ids: Vec<Id> = match reply(call, start) {
        Value::Array(parts) => parts
            .iter()
            .skip(1)
            .filter_map(|part| match part {
                Value::Array(entries) => Some(entries.iter().filter_map(id_of)),
                _ => None,
            })
            .flatten()
            .collect(),
        _ => Vec::new(),
    };
    let Some(named) = Named::find(call, key, args.at(2))? else { return Ok(()) };
    named.tell_consumer(call, args.at(3));
    for id in ids {
        named.tell_pending(call, id)?;
    }
    Ok(())
}
