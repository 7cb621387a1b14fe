//! XINFO: what a stream is like, its groups, and their consumers.

use super::stream_groups::{no_group, wrong_subcommand};
use super::streams::{look, tell, tell_range};
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::stream::{Extent, Group, Id, Stream};

const SECOND: (i32, i32, i32) = (2, 2, 1);

pub(super) const TABLE: &[Command] =
    &[Command::new("xinfo", -2, SECOND, Run::Read(xinfo), "What a stream is like.")];

const HELP: [&str; 6] = [
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
];

/// Entries, and pending ones of each group and consumer, that XINFO STREAM FULL shows unless told otherwise.
const SHOWN: u64 = 10;

fn xinfo(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let sub = args.at(1).to_ascii_lowercase();
    let takes = match sub.as_slice() {
        b"stream" => args.len() >= 3,
        b"groups" => args.len() == 3,
        b"consumers" => args.len() == 4,
        b"help" => args.len() == 2,
        _ => return Err(Failure::unknown_subcommand(args, "XINFO")),
    };
    if !takes {
        return Err(Failure::subcommand_arity(args, "xinfo"));
    }
    if sub.as_slice() == b"help" {
        call.out.help("XINFO", &HELP);
        return Ok(());
    }
    let stream = look(call, args.at(2))?.ok_or(Failure::NO_KEY)?;
    match sub.as_slice() {
        b"stream" => tell_stream(call, &stream),
        b"groups" => tell_groups(call, &stream),
        _ => tell_consumers(call, &stream),
    }
}

/// The COUNT of XINFO STREAM FULL, 0 for any; none without FULL.
fn full(call: &Call<'_>) -> Outcome<Option<u64>> {
    let args = call.args;
    match args.len() {
        3 => Ok(None),
        4 if args.is(3, "full") => Ok(Some(SHOWN)),
        6 if args.is(3, "full") && args.is(4, "count") => {
            Ok(Some(u64::try_from(call.integer(5)?).unwrap_or(SHOWN)))
        }
        _ => Err(wrong_subcommand(call, "XINFO")),
    }
}

fn tell_stream(call: &mut Call<'_>, stream: &Stream) -> Outcome {
    let full = full(call)?;
    let (chunks, extent) = (stream.chunks(call.tx)?, stream.extent(call.tx)?);
    let first = stream.first_id(call.tx)?;
    let out = &mut call.out;
    out.map(if full.is_some() { 9 } else { 10 });
    for (name, count) in
        [("length", stream.len()), ("radix-tree-keys", chunks), ("radix-tree-nodes", chunks + 1)]
    {
        out.bulk(name.as_bytes());
        out.size(count);
    }
    out.bulk(b"last-generated-id");
    out.bulk(stream.last.text().as_bytes());
    out.bulk(b"max-deleted-entry-id");
    out.bulk(stream.deleted.text().as_bytes());
    out.bulk(b"entries-added");
    out.size(stream.added);
    out.bulk(b"recorded-first-entry-id");
    out.bulk(first.text().as_bytes());
    let Some(most) = full else {
        out.bulk(b"groups");
        let groups = stream.group_count(call.tx)?;
        call.out.size(groups);
        for (name, backwards) in [("first-entry", false), ("last-entry", true)] {
            let out = &mut call.out;
            out.bulk(name.as_bytes());
            let found = stream.walk(call.tx, (Id::MIN, Id::MAX), backwards, &mut |_, entry| {
                tell(out, &entry);
                Ok::<bool, Failure>(false)
            })?;
            if !found {
                out.null();
            }
        }
        return Ok(());
    };
    let most = Some(most).filter(|most| *most > 0);
    out.bulk(b"entries");
    tell_range(call, stream, (Id::MIN, Id::MAX), false, most)?;
    call.out.bulk(b"groups");
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    stream.each_group::<Failure>(call.tx, &mut |tx, name, group| {
        if out.is_cut() {
            return Ok(());
        }
        told += 1;
        out.map(7);
        out.bulk(b"name");
        out.bulk(&name);
        tell_progress(tx, out, group, extent)?;
        out.bulk(b"pel-count");
        out.size(group.pending_count(tx)?);
        out.bulk(b"pending");
        let (start, mut pending_told) = (out.len(), 0);
        group.walk(tx, (Id::MIN, Id::MAX), None, &mut |tx, id, pending| {
            out.array(4);
            out.bulk(id.text().as_bytes());
            out.bulk(&pending.consumer().name(tx)?);
            out.integer(pending.time);
            out.integer(pending.count as i64);
            pending_told += 1;
            Ok::<bool, Failure>(!out.is_cut() && most != Some(pending_told))
        })?;
        out.array_since(start, pending_told as usize);
        out.bulk(b"consumers");
        tell_all_consumers(tx, out, group, most)
    })?;
    out.array_since(start, told);
    Ok(())
}

/// What a group has read, and has still to read.
fn tell_progress(
    tx: &mut dyn perdura::Tx,
    out: &mut crate::protocol::Reply<'_>,
    group: Group,
    extent: Extent,
) -> Outcome {
    let (last, read) = (group.last(tx)?, group.read(tx)?);
    out.bulk(b"last-delivered-id");
    out.bulk(last.text().as_bytes());
    out.bulk(b"entries-read");
    match read {
        Some(read) => out.size(read),
        None => out.null(),
    }
    out.bulk(b"lag");
    match extent.lag(last, read) {
        Some(lag) => out.integer(lag),
        None => out.null(),
    }
    Ok(())
}

/// The consumers of a group as XINFO STREAM FULL shows them.
fn tell_all_consumers(
    tx: &mut dyn perdura::Tx,
    out: &mut crate::protocol::Reply<'_>,
    group: Group,
    most: Option<u64>,
) -> Outcome {
    let (start, mut told) = (out.len(), 0);
    group.each_consumer::<Failure>(tx, &mut |tx, name, consumer| {
        if out.is_cut() {
            return Ok(());
        }
        told += 1;
        let (seen, active) = consumer.times(tx)?;
        out.map(5);
        out.bulk(b"name");
        out.bulk(&name);
        out.bulk(b"seen-time");
        out.integer(seen);
        out.bulk(b"active-time");
        out.integer(active);
        out.bulk(b"pel-count");
        out.size(consumer.pending_count(tx)?);
        out.bulk(b"pending");
        let (start, mut pending_told) = (out.len(), 0);
        group.walk(tx, (Id::MIN, Id::MAX), Some(consumer), &mut |_, id, pending| {
            out.array(3);
            out.bulk(id.text().as_bytes());
            out.integer(pending.time);
            out.integer(pending.count as i64);
            pending_told += 1;
            Ok::<bool, Failure>(!out.is_cut() && most != Some(pending_told))
        })?;
        out.array_since(start, pending_told as usize);
        Ok(())
    })?;
    out.array_since(start, told);
    Ok(())
}

fn tell_groups(call: &mut Call<'_>, stream: &Stream) -> Outcome {
    let extent = stream.extent(call.tx)?;
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    stream.each_group::<Failure>(call.tx, &mut |tx, name, group| {
        if out.is_cut() {
            return Ok(());
        }
        told += 1;
        out.map(6);
        out.bulk(b"name");
        out.bulk(&name);
        out.bulk(b"consumers");
        out.size(group.consumer_count(tx)?);
        out.bulk(b"pending");
        out.size(group.pending_count(tx)?);
        tell_progress(tx, out, group, extent)
    })?;
    out.array_since(start, told);
    Ok(())
}

fn tell_consumers(call: &mut Call<'_>, stream: &Stream) -> Outcome {
    let (key, name) = (call.args.at(2), call.args.at(3));
    let group = stream.group(call.tx, name)?.ok_or_else(|| no_group(key, name))?;
    let now = call.env.now as i64;
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    group.each_consumer::<Failure>(call.tx, &mut |tx, name, consumer| {
        if out.is_cut() {
            return Ok(());
        }
        told += 1;
        let (seen, active) = consumer.times(tx)?;
        out.map(4);
        out.bulk(b"name");
        out.bulk(&name);
        out.bulk(b"pending");
        out.size(consumer.pending_count(tx)?);
        out.bulk(b"idle");
        out.integer(now.wrapping_sub(seen).max(0));
        out.bulk(b"inactive");
        out.integer(if active == -1 { -1 } else { now.wrapping_sub(active) });
        Ok(())
    })?;
    out.array_since(start, told);
    Ok(())
}
