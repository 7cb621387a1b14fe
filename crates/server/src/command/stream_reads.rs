//! XREAD and XREADGROUP: entries that are newer than those that a client, or a group, has seen.

use super::stream_ids as ids;
use super::streams::{claim, look, tell, tell_range};
use super::{Call, Command, Failure, Outcome, Run, shown};
use crate::keyspace::Kind;
use crate::keyspace::stream::{Consumer, Group, Id, Stream};
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Protocol, number};
use crate::waiting::Wish;
use std::time::Duration;

const NONE: (i32, i32, i32) = (0, 0, 0);

pub(super) const TABLE: &[Command] = &[
    Command::waiting("xread", -4, NONE, Run::Read(xread), "New entries of streams, or waits."),
    Command::blocking("xreadgroup", -7, NONE, xreadgroup, "New entries for a group's consumer."),
];

/// The arguments of both.
pub(crate) struct Request<'a> {
    /// How long to wait, if at all; `Some(None)` for ever.
    block: Option<Option<Duration>>,
    /// Entries of each stream at most.
    count: Option<u64>,
    pub(crate) group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// Where the keys begin.
    first: usize,
    pub(crate) keys: Args<'a>,
    ids: Args<'a>,
}

/// A time-out in milliseconds; zero means for ever.
fn timeout(call: &Call<'_>, at: usize) -> Outcome<Option<Duration>> {
    let wrong = Failure::Say("ERR timeout is not an integer or out of range".into());
    let millis = number::parse_i64(call.args.at(at)).ok_or(wrong)?;
    match u64::try_from(millis) {
        Err(_) => Err(Failure::Say("ERR timeout is negative".into())),
        Ok(0) => Ok(None),
        Ok(millis) if millis.saturating_add(call.env.now) > i64::MAX as u64 => {
            Err(Failure::Say("ERR timeout is out of range".into()))
        }
        Ok(millis) => Ok(Some(Duration::from_millis(millis))),
    }
}

pub(crate) fn request<'a>(call: &Call<'a>, with_group: bool) -> Outcome<Request<'a>> {
    let args = call.args;
    let (mut block, mut count, mut group, mut no_ack) = (None, None, None, false);
    let only_in_group = |option| {
        let text = format!(
            "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
        );
        Failure::say(text)
    };
    let mut at = 1;
    loop {
        let more = args.len().saturating_sub(at + 1);
        match () {
            () if args.is(at, "block") && more > 0 => {
                if call.env.server.runs.of(call.env.worker).is_running() {
                    let name = shown(args.at(0), 128);
                    let text =
                        format!("ERR {name} command is not allowed with BLOCK option from scripts");
                    return Err(Failure::say(text));
                }
                block = Some(timeout(call, at + 1)?);
                at += 1;
            }
            () if args.is(at, "count") && more > 0 => {
                count = u64::try_from(call.integer(at + 1)?).ok().filter(|count| *count > 0);
                at += 1;
            }
            () if args.is(at, "streams") && more > 0 => break,
            () if args.is(at, "group") && more > 1 => {
                if !with_group {
                    return Err(only_in_group("GROUP"));
                }
                group = Some((args.at(at + 1), args.at(at + 2)));
                at += 2;
            }
            () if args.is(at, "noack") => {
                if !with_group {
                    return Err(only_in_group("NOACK"));
                }
                no_ack = true;
            }
            () => return Err(Failure::SYNTAX),
        }
        at += 1;
    }
    let rest = args.from(at + 1);
    if rest.len() % 2 == 1 {
        let (name, symbol) = if with_group { ("xreadgroup", '>') } else { ("xread", '$') };
        return Err(Failure::say(format!(
            "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{symbol}' must be specified."
        )));
    }
    if with_group && group.is_none() {
        return Err(Failure::Say("ERR Missing GROUP option for XREADGROUP".into()));
    }
    let half = rest.len() / 2;
    let (keys, ids) = (rest.first(0, half), rest.from(half));
    Ok(Request { block, count, group, no_ack, first: at + 1, keys, ids })
}

/// The array, or in RESP3 the map, of streams' keys and entries that is being answered.
struct Streams {
    start: usize,
    count: usize,
}

impl Streams {
    /// A stream's entries come next.
    fn add(&mut self, call: &mut Call<'_>, key: &[u8]) {
        self.count += 1;
        if call.out.protocol() == Protocol::Resp2 {
            call.out.array(2);
        }
        call.out.bulk(key);
    }

    /// Ends the reply; false if it is none.
    fn end(self, call: &mut Call<'_>) -> bool {
        match (self.count, call.out.protocol()) {
            (0, _) => return false,
            (count, Protocol::Resp2) => call.out.array_since(self.start, count),
            (count, Protocol::Resp3) => call.out.map_since(self.start, count),
        }
        true
    }
}

fn xread(call: &mut Call<'_>) -> Outcome {
    let request = request(call, false)?;
    let mut after = Vec::with_capacity(request.ids.len());
    for (key, id) in request.keys.iter().zip(request.ids.iter()) {
        let stream = look(call, key)?;
        after.push(match number::until_nul(id) {
            b"$" => stream.map_or(Id::MIN, |stream| stream.last),
            b">" => {
                let text = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.";
                return Err(Failure::Say(text.into()));
            }
            id => ids::strict(id)?,
        });
    }
    let mut streams = Streams { start: call.out.len(), count: 0 };
    for (key, after) in request.keys.iter().zip(&after) {
        let Some(stream) = look(call, key)? else { continue };
        let (Some(from), true) = (after.next(), stream.top_id(call.tx)? > *after) else { continue };
        streams.add(call, key);
        tell_range(call, &stream, (from, Id::MAX), false, request.count)?;
        if call.out.is_cut() {
            return Ok(());
        }
    }
    if streams.end(call) {
        return Ok(());
    }
    let Some(timeout) = request.block else {
        call.out.null_array();
        return Ok(());
    };
    let mut wish = Wish::new(Kind::Stream, (request.first, request.keys.len()), timeout);
    // `$` is the last ID now, not when an entry has come.
    if request.ids.iter().any(|id| number::until_nul(id) == b"$") {
        let mut args = OwnedArgs::default();
        call.args
            .first(0, request.first + request.keys.len())
            .iter()
            .for_each(|arg| args.push(arg));
        after.iter().for_each(|id| args.push(id.text().as_bytes()));
        wish.args = Some(args);
    }
    call.wait(wish)
}

/// The error of a group that is not there.
fn no_group(key: &[u8], group: &[u8]) -> Failure {
    let (key, group) = (shown(key, usize::MAX), shown(group, usize::MAX));
    Failure::say(format!(
        "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
    ))
}

/// The stream of a key, and its group.
fn claim_group(call: &mut Call<'_>, key: &[u8], name: &[u8]) -> Outcome<(Stream, Group)> {
    if let Some((_, stream)) = claim(call, key)?
        && let Some(group) = stream.group(call.tx, name)?
    {
        return Ok((stream, group));
    }
    Err(no_group(key, name))
}

/// The consumer of this name, which has been seen just now; a new one if there is none.
pub(super) fn consumer(
    call: &mut Call<'_>,
    key: &[u8],
    group: Group,
    name: &[u8],
) -> Outcome<Consumer> {
    let now = call.env.now as i64;
    match group.consumer(call.tx, name)? {
        Some(consumer) => {
            consumer.set_seen(call.tx, now)?;
            Ok(consumer)
        }
        None => {
            let consumer = group.create_consumer(call.tx, name, now)?;
            call.tell(key, "xgroup-createconsumer");
            Ok(consumer)
        }
    }
}

fn xreadgroup(call: &mut Call<'_>) -> Outcome {
    let request = request(call, true)?;
    let (group_name, name) = request.group.unwrap_or_default();
    let mut after = Vec::with_capacity(request.ids.len());
    for (key, id) in request.keys.iter().zip(request.ids.iter()) {
        claim_group(call, key, group_name)?;
        after.push(match number::until_nul(id) {
            b"$" => {
                let text = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.";
                return Err(Failure::Say(text.into()));
            }
            // As in Redis, the greatest ID stands for `>`.
            b">" => Id::MAX,
            id => ids::strict(id)?,
        });
    }
    let mut streams = Streams { start: call.out.len(), count: 0 };
    for (key, after) in request.keys.iter().zip(&after) {
        let (stream, group) = claim_group(call, key, group_name)?;
        let consumer = consumer(call, key, group, name)?;
        if let Some(from) = after.next() {
            streams.add(call, key);
            tell_history(call, &stream, (group, consumer), from, request.count)?;
        } else {
            let last = group.last(call.tx)?;
            if stream.top_id(call.tx)? > last {
                streams.add(call, key);
                deliver(call, &stream, (group, consumer), &request)?;
            }
        }
        if call.out.is_cut() {
            return Ok(());
        }
    }
    if streams.end(call) {
        return Ok(());
    }
    let Some(timeout) = request.block else {
        call.out.null_array();
        return Ok(());
    };
    let wish = Wish::new(Kind::Stream, (request.first, request.keys.len()), timeout);
    // The end of a group is told at once.
    call.wait(Wish { or_gone: true, ..wish })
}

/// Answers with the entries that are pending for a consumer.
fn tell_history(
    call: &mut Call<'_>,
    stream: &Stream,
    (group, consumer): (Group, Consumer),
    from: Id,
    count: Option<u64>,
) -> Outcome {
    let now = call.env.now as i64;
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    group.walk(call.tx, (from, Id::MAX), Some(consumer), &mut |tx, id, pending| {
        match stream.get(tx, id)? {
            Some(entry) => {
                tell(out, &entry);
                let count = pending.count.wrapping_add(1);
                group.assign(tx, id, consumer, (now, count))?;
            }
            // It was deleted.
            None => {
                out.array(2);
                out.bulk(id.text().as_bytes());
                out.null_array();
            }
        }
        told += 1;
        Ok::<bool, Failure>(!out.is_cut() && count != Some(told))
    })?;
    out.array_since(start, told as usize);
    Ok(())
}

/// Answers with entries that were not delivered to the group yet. They are pending now, unless they are acknowledged at
/// once.
fn deliver(
    call: &mut Call<'_>,
    stream: &Stream,
    (group, consumer): (Group, Consumer),
    request: &Request<'_>,
) -> Outcome {
    let (now, extent) = (call.env.now as i64, stream.extent(call.tx)?);
    let (mut last, mut read) = (group.last(call.tx)?, group.read(call.tx)?);
    let Some(from) = last.next() else { return Ok(()) };
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    stream.walk(call.tx, (from, Id::MAX), false, &mut |tx, entry| {
        read = extent.read_after(read, entry.id);
        last = entry.id;
        tell(out, &entry);
        if !request.no_ack {
            group.assign(tx, entry.id, consumer, (now, 1))?;
        }
        told += 1;
        Ok::<bool, Failure>(!out.is_cut() && request.count != Some(told))
    })?;
    out.array_since(start, told as usize);
    if told > 0 && !request.no_ack {
        consumer.set_active(call.tx, now)?;
    }
    group.set_last(call.tx, last)?;
    group.set_read(call.tx, read)?;
    Ok(())
}
