//! Groups of a stream's consumers: XGROUP, XACK, XPENDING.

use super::stream_ids as ids;
use super::streams::{ONE, all_ids, claim, look, save};
use super::{Call, Command, Failure, Outcome, Run, shown};
use crate::keyspace::stream::{Group, Id, Stream};
use crate::protocol::number;

const SECOND: (i32, i32, i32) = (2, 2, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new(
        "xgroup",
        -2,
        SECOND,
        Run::Write(xgroup),
        "Makes and removes groups of consumers.",
    ),
    Command::brief("xack", -4, ONE, Run::Write(xack), "Acknowledges entries."),
    Command::new("xpending", -3, ONE, Run::Read(xpending), "Entries that are not acknowledged."),
];

const HELP: [&str; 14] = [
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
];

/// A subcommand with wrong options.
pub(super) fn wrong_subcommand(call: &Call<'_>, name: &str) -> Failure {
    let sub = shown(call.args.at(1), 128);
    Failure::say(format!(
        "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try {name} HELP."
    ))
}

/// The error of a group that is not there.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> Failure {
    let (key, group) = (shown(key, usize::MAX), shown(group, usize::MAX));
    Failure::say(format!("NOGROUP No such consumer group '{group}' for key name '{key}'"))
}

/// The error of a key or a group that is not there.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> Failure {
    let (key, group) = (shown(key, usize::MAX), shown(group, usize::MAX));
    Failure::say(format!("NOGROUP No such key '{key}' or consumer group '{group}'"))
}

fn xgroup(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let sub = args.at(1).to_ascii_lowercase();
    let takes = match sub.as_slice() {
        b"create" | b"setid" => args.len() >= 5,
        b"destroy" => args.len() == 4,
        b"createconsumer" | b"delconsumer" => args.len() == 5,
        b"help" => args.len() == 2,
        _ => return Err(Failure::unknown_subcommand(args, "XGROUP")),
    };
    if !takes {
        return Err(Failure::subcommand_arity(args, "xgroup"));
    }
    match sub.as_slice() {
        b"create" => create(call),
        b"setid" => set_id(call),
        b"destroy" => destroy(call),
        b"createconsumer" => create_consumer(call),
        b"delconsumer" => remove_consumer(call),
        _ => {
            call.out.help("XGROUP", &HELP);
            Ok(())
        }
    }
}

/// The options of CREATE and SETID: MKSTREAM, which only CREATE has, and the number of entries read.
fn options(call: &Call<'_>, creates: bool) -> Outcome<(bool, Option<u64>)> {
    let args = call.args;
    let (mut makes, mut read, mut at) = (false, None, 5);
    while at < args.len() {
        match () {
            () if creates && args.is(at, "mkstream") => makes = true,
            () if args.is(at, "entriesread") && at + 1 < args.len() => {
                at += 1;
                read = match call.integer(at)? {
                    -1 => None,
                    count => Some(u64::try_from(count).map_err(|_| {
                        let text = "ERR value for ENTRIESREAD must be positive or -1";
                        Failure::Say(text.into())
                    })?),
                };
            }
            () => return Err(wrong_subcommand(call, "XGROUP")),
        }
        at += 1;
    }
    Ok((makes, read))
}

fn no_stream() -> Failure {
    Failure::Say("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.".into())
}

fn create(call: &mut Call<'_>) -> Outcome {
    let (args, key) = (call.args, call.args.at(2));
    let (makes, read) = options(call, true)?;
    let found = claim(call, key)?;
    if found.is_none() && !makes {
        return Err(no_stream());
    }
    if args.len() > 8 {
        return Err(wrong_subcommand(call, "XGROUP"));
    }
    let last = match number::until_nul(args.at(4)) {
        b"$" => found.as_ref().map_or(Id::MIN, |(_, stream)| stream.last),
        id => ids::strict(id)?,
    };
    let is_new = found.is_none();
    let (old, mut stream) = match found {
        Some((old, stream)) => (Some(old), stream),
        None => (None, Stream::create(call.tx)?),
    };
    if !stream.create_group(call.tx, args.at(3), last, read)? {
        return Err(Failure::Say("BUSYGROUP Consumer Group name already exists".into()));
    }
    if is_new {
        save(call, key, old, stream)?;
    } else {
        // Watchers are not told of groups, as in Redis.
        stream.save(call.tx)?;
    }
    call.tell(key, "xgroup-create");
    call.out.ok();
    Ok(())
}

/// The group that the command names, of a stream that must be there.
fn claim_group(call: &mut Call<'_>) -> Outcome<(Stream, Group)> {
    let (key, name) = (call.args.at(2), call.args.at(3));
    let (_, stream) = claim(call, key)?.ok_or_else(no_stream)?;
    let group = stream.group(call.tx, name)?.ok_or_else(|| no_group(key, name))?;
    Ok((stream, group))
}

fn set_id(call: &mut Call<'_>) -> Outcome {
    let (args, key) = (call.args, call.args.at(2));
    let (_, read) = options(call, false)?;
    let (stream, group) = claim_group(call)?;
    if args.len() != 5 && args.len() != 7 {
        return Err(wrong_subcommand(call, "XGROUP"));
    }
    let last = match number::until_nul(args.at(4)) {
        b"$" => stream.last,
        id => ids::any(id, 0)?,
    };
    group.set_last(call.tx, last)?;
    group.set_read(call.tx, read)?;
    call.tell(key, "xgroup-setid");
    call.out.ok();
    Ok(())
}

fn destroy(call: &mut Call<'_>) -> Outcome {
    let (key, name) = (call.args.at(2), call.args.at(3));
    let (_, mut stream) = claim(call, key)?.ok_or_else(no_stream)?;
    let removed = stream.remove_group(call.tx, call.db, name)?;
    stream.save(call.tx)?;
    if removed {
        // Its consumers wait in vain.
        call.env.note_for_waiters(&call.db, key);
        call.tell(key, "xgroup-destroy");
    }
    call.out.flag(removed);
    Ok(())
}

fn create_consumer(call: &mut Call<'_>) -> Outcome {
    let (key, name) = (call.args.at(2), call.args.at(4));
    let (_, group) = claim_group(call)?;
    let is_new = group.consumer(call.tx, name)?.is_none();
    if is_new {
        group.create_consumer(call.tx, name, call.env.now as i64)?;
        call.tell(key, "xgroup-createconsumer");
    }
    call.out.flag(is_new);
    Ok(())
}

fn remove_consumer(call: &mut Call<'_>) -> Outcome {
    let (key, name) = (call.args.at(2), call.args.at(4));
    let (_, group) = claim_group(call)?;
    let pending = group.remove_consumer(call.tx, call.db, name)?;
    if pending.is_some() {
        call.tell(key, "xgroup-delconsumer");
    }
    call.out.size(pending.unwrap_or(0));
    Ok(())
}

fn xack(call: &mut Call<'_>) -> Outcome {
    let (key, name) = (call.args.at(1), call.args.at(2));
    let group = match claim(call, key)? {
        Some((_, stream)) => stream.group(call.tx, name)?,
        None => None,
    };
    let Some(group) = group else {
        call.out.integer(0);
        return Ok(());
    };
    let mut count = 0;
    for id in all_ids(call.args.from(3))? {
        count += i64::from(group.acknowledge(call.tx, id)?);
    }
    call.out.integer(count);
    Ok(())
}

/// The arguments of XPENDING that name entries.
struct Wanted<'a> {
    range: (Id, Id),
    count: u64,
    /// Milliseconds since an entry was delivered, at least.
    idle: i64,
    consumer: Option<&'a [u8]>,
}

fn wanted<'a>(call: &Call<'a>) -> Outcome<Option<Wanted<'a>>> {
    let args = call.args;
    match args.len() {
        3 => return Ok(None),
        6..=9 => {}
        _ => return Err(Failure::SYNTAX),
    }
    let (mut idle, mut at) = (0, 3);
    if args.is(3, "idle") {
        idle = call.integer(4)?;
        if args.len() < 8 {
            return Err(Failure::SYNTAX);
        }
        at = 5;
    }
    let count = u64::try_from(call.integer(at + 2)?).unwrap_or(0);
    let range = ids::interval(args.at(at), args.at(at + 1))?;
    Ok(Some(Wanted { range, count, idle, consumer: args.get(at + 3) }))
}

fn xpending(call: &mut Call<'_>) -> Outcome {
    let wanted = wanted(call)?;
    let (key, name) = (call.args.at(1), call.args.at(2));
    let group = match look(call, key)? {
        Some(stream) => stream.group(call.tx, name)?,
        None => None,
    };
    let group = group.ok_or_else(|| no_key_or_group(key, name))?;
    match wanted {
        None => sum_up(call, group),
        Some(wanted) => tell_pending(call, group, &wanted),
    }
}

fn sum_up(call: &mut Call<'_>, group: Group) -> Outcome {
    call.out.array(4);
    call.out.size(group.pending_count(call.tx)?);
    let Some((first, last)) = group.pending_ends(call.tx)? else {
        call.out.null();
        call.out.null();
        call.out.null_array();
        return Ok(());
    };
    call.out.bulk(first.text().as_bytes());
    call.out.bulk(last.text().as_bytes());
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    group.each_consumer::<Failure>(call.tx, &mut |tx, name, consumer| {
        let count = consumer.pending_count(tx)?;
        if count > 0 && !out.is_cut() {
            out.array(2);
            out.bulk(&name);
            out.bulk(count.to_string().as_bytes());
            told += 1;
        }
        Ok(())
    })?;
    out.array_since(start, told);
    Ok(())
}

fn tell_pending(call: &mut Call<'_>, group: Group, wanted: &Wanted<'_>) -> Outcome {
    let consumer = match wanted.consumer {
        None => None,
        Some(name) => match group.consumer(call.tx, name)? {
            Some(consumer) => Some(consumer),
            None => {
                call.out.array(0);
                return Ok(());
            }
        },
    };
    if wanted.count == 0 {
        call.out.array(0);
        return Ok(());
    }
    let now = call.env.now as i64;
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    group.walk(call.tx, wanted.range, consumer, &mut |tx, id, pending| {
        let idle = now.wrapping_sub(pending.time);
        if wanted.idle != 0 && idle < wanted.idle {
            return Ok::<bool, Failure>(true);
        }
        out.array(4);
        out.bulk(id.text().as_bytes());
        out.bulk(&pending.consumer().name(tx)?);
        out.integer(idle.max(0));
        out.integer(pending.count as i64);
        told += 1;
        Ok(!out.is_cut() && told != wanted.count)
    })?;
    out.array_since(start, told as usize);
    Ok(())
}
