//! Streams: adding, removing and reading entries by their IDs.

use super::stream_ids as ids;
use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::stream::{Entry, Excess, Id, Stream, Trim};
use crate::keyspace::{Found, Kind};
use crate::protocol::{Args, Reply};

pub(super) const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::brief("xadd", -5, ONE, Run::Write(xadd), "Adds an entry to a stream."),
    Command::brief("xlen", 2, ONE, Run::Read(xlen), "How many entries a stream has."),
    Command::new("xrange", -4, ONE, Run::Read(xrange), "A stream's entries between two IDs."),
    Command::new("xrevrange", -4, ONE, Run::Read(xrevrange), "The same, the last one first."),
    Command::new("xdel", -3, ONE, Run::Write(xdel), "Removes entries of a stream."),
    Command::new("xtrim", -4, ONE, Run::Write(xtrim), "Removes entries from a stream's beginning."),
    Command::new("xsetid", -3, ONE, Run::Write(xsetid), "Sets the last ID of a stream."),
];

/// Bytes of the fields and values of an entry, as Redis allows them.
const LARGEST_ENTRY: usize = 1 << 30;

/// The stream of a key, if it is there.
pub(super) fn look(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<Stream>> {
    match call.look_for(key, Kind::Stream)? {
        Some(entry) => Ok(Some(Stream::load(call.tx, entry)?)),
        None => Ok(None),
    }
}

/// The stream of a key, to be changed.
pub(super) fn claim(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<(Found, Stream)>> {
    match call.claim_for(key, Kind::Stream)? {
        Some(old) => Ok(Some((old, Stream::load(call.tx, old.entry)?))),
        None => Ok(None),
    }
}

/// Puts a changed stream back, and tells watchers.
pub(super) fn save(call: &mut Call<'_>, key: &[u8], old: Option<Found>, stream: Stream) -> Outcome {
    let expires = old.and_then(|old| old.entry.expires());
    let new = stream.save(call.tx)?.expiring(expires);
    call.put(key, old, new)
}

/// Answers an entry.
pub(super) fn tell(out: &mut Reply<'_>, entry: &Entry) {
    out.array(2);
    out.bulk(entry.id.text().as_bytes());
    out.array(entry.texts.len());
    entry.texts.iter().for_each(|text| out.bulk(text));
}

/// The options of XADD and XTRIM.
#[derive(Default)]
struct Options {
    /// The ID of the entry, if it is given, and whether its second number is.
    id: Option<(Id, bool)>,
    no_stream: bool,
    trim: Option<Trim>,
    /// The place of the ID.
    at: usize,
}

/// What is trimmed, as the option at `at` says, whether only whole chunks are, and the place of its value.
fn excess(call: &Call<'_>, at: usize) -> Outcome<(Excess, bool, usize)> {
    let args = call.args;
    let has_sign = args.len() - 1 - at >= 2 && matches!(&args[at + 1], b"~" | b"=");
    let approximate = has_sign && &args[at + 1] == b"~";
    let value = if has_sign { at + 2 } else { at + 1 };
    let excess = if args.is(at, "maxlen") {
        let most = call.integer(value)?;
        let wrong = Failure::Say("ERR The MAXLEN argument must be >= 0.".into());
        Excess::Beyond(u64::try_from(most).map_err(|_| wrong)?)
    } else {
        Excess::Before(ids::strict(args.at(value))?)
    };
    Ok((excess, approximate, value))
}

fn options(call: &Call<'_>, adds: bool) -> Outcome<Options> {
    let (args, mut options) = (call.args, Options::default());
    let (mut trim, mut limit) = (None, None);
    let mut at = 2;
    while at < args.len() {
        let more = at + 1 < args.len();
        match () {
            () if adds && &args[at] == b"*" => break,
            () if more && (args.is(at, "maxlen") || args.is(at, "minid")) => {
                if trim.is_some() {
                    let text = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
                    return Err(Failure::Say(text.into()));
                }
                let (excess, approximate, value) = excess(call, at)?;
                trim = Some((excess, approximate));
                at = value;
            }
            () if more && args.is(at, "limit") => {
                let wrong = Failure::Say("ERR The LIMIT argument must be >= 0.".into());
                limit = Some(u64::try_from(call.integer(at + 1)?).map_err(|_| wrong)?);
                at += 1;
            }
            () if adds && args.is(at, "nomkstream") => options.no_stream = true,
            () if adds => {
                options.id = Some(ids::of_new(args.at(at))?);
                break;
            }
            () => return Err(Failure::SYNTAX),
        }
        at += 1;
    }
    options.at = at;
    let say = |text: &'static str| Err(Failure::Say(text.into()));
    if call.env.obeys() {
        // A master, or a file, tells what was trimmed, and has left the limit in its place.
        limit = trim.map(|_| 0).filter(|_| limit.is_some());
    }
    options.trim = match (trim, limit) {
        (None, Some(1..)) => {
            return say(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            );
        }
        (None, _) if !adds => {
            return say("ERR syntax error, XTRIM must be called with a trimming strategy");
        }
        (_, Some(_)) if !call.env.obeys() && !trim.is_some_and(|(_, approximate)| approximate) => {
            return say("ERR syntax error, LIMIT cannot be used without the special ~ option");
        }
        (None, _) => None,
        (Some((excess, approximate)), limit) => {
            let usual = call.env.server.tuning.stream_chunk();
            let usual = if usual == u64::MAX { 10_000 } else { usual.saturating_mul(100) };
            let usual = if approximate { usual.min(1_000_000) } else { 0 };
            Some(Trim { excess, approximate, limit: limit.unwrap_or(usual) })
        }
    };
    Ok(options)
}

/// The ID of the next entry of a stream.
fn next_id(stream: &Stream, given: Option<(Id, bool)>, now: u64) -> Outcome<Id> {
    let last = stream.last;
    if last == Id::MAX {
        let text = "ERR The stream has exhausted the last possible ID, unable to add more items";
        return Err(Failure::Say(text.into()));
    }
    let id = match given {
        Some((id, true)) => Some(id),
        Some((id, false)) if id.ms == last.ms => {
            last.seq.checked_add(1).map(|seq| Id { seq, ..last })
        }
        Some((id, false)) => Some(id),
        None if now > last.ms => Some(Id { ms: now, seq: 0 }),
        None => last.next(),
    };
    let text = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    id.filter(|id| *id > last).ok_or(Failure::Say(text.into()))
}

fn xadd(call: &mut Call<'_>) -> Outcome {
    let (args, key) = (call.args, call.args.at(1));
    let options = options(call, true)?;
    let texts = args.from(options.at + 1);
    if texts.len() < 2 || texts.len() % 2 == 1 {
        return Err(Failure::arity("xadd"));
    }
    if options.id == Some((Id::MIN, true)) {
        return Err(Failure::Say("ERR The ID specified in XADD must be greater than 0-0".into()));
    }
    let (old, mut stream) = match claim(call, key)? {
        Some((old, stream)) => (Some(old), stream),
        None if options.no_stream => {
            call.out.null();
            return Ok(());
        }
        None => (None, Stream::create(call.tx)?),
    };
    let id = next_id(&stream, options.id, call.env.now)?;
    if texts.bytes() > LARGEST_ENTRY {
        return Err(Failure::Say("ERR Elements are too large to be stored".into()));
    }
    let most = call.env.server.tuning.stream_chunk();
    stream.append(call.tx, id, texts.iter(), most)?;
    let trimmed = match options.trim {
        Some(trim) => stream.trim(call.tx, call.db, trim)?,
        None => 0,
    };
    save(call, key, old, stream)?;
    call.tell(key, "xadd");
    if trimmed > 0 {
        call.tell(key, "xtrim");
    }
    call.out.bulk(id.text().as_bytes());
    Ok(())
}

fn xlen(call: &mut Call<'_>) -> Outcome {
    let len = look(call, call.args.at(1))?.map_or(0, |stream| stream.len());
    call.out.size(len);
    Ok(())
}

fn xrange(call: &mut Call<'_>) -> Outcome {
    range(call, false)
}

fn xrevrange(call: &mut Call<'_>) -> Outcome {
    range(call, true)
}

fn range(call: &mut Call<'_>, backwards: bool) -> Outcome {
    let args = call.args;
    let (from, to) = if backwards { (args.at(3), args.at(2)) } else { (args.at(2), args.at(3)) };
    let range = ids::interval(from, to)?;
    let mut count = None;
    for at in (4..args.len()).step_by(2) {
        if !args.is(at, "count") || at + 1 == args.len() {
            return Err(Failure::SYNTAX);
        }
        count = Some(u64::try_from(call.integer(at + 1)?).unwrap_or(0));
    }
    let Some(stream) = look(call, args.at(1))? else {
        call.out.array(0);
        return Ok(());
    };
    if count == Some(0) {
        call.out.null_array();
        return Ok(());
    }
    tell_range(call, &stream, range, backwards, count)
}

/// Answers with the entries of a range of IDs, `count` at most.
pub(super) fn tell_range(
    call: &mut Call<'_>,
    stream: &Stream,
    range: (Id, Id),
    backwards: bool,
    count: Option<u64>,
) -> Outcome {
    let (start, mut told) = (call.out.len(), 0);
    let out = &mut call.out;
    stream.walk(call.tx, range, backwards, &mut |_, entry| {
        tell(out, &entry);
        told += 1;
        Ok::<bool, Failure>(!out.is_cut() && count != Some(told))
    })?;
    out.array_since(start, told as usize);
    Ok(())
}

/// All of these IDs.
pub(super) fn all_ids(args: Args<'_>) -> Outcome<Vec<Id>> {
    args.iter().map(ids::strict).collect()
}

fn xdel(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let Some((old, mut stream)) = claim(call, key)? else {
        call.out.integer(0);
        return Ok(());
    };
    let mut removed = 0;
    for id in all_ids(call.args.from(2))? {
        if stream.remove(call.tx, id)? {
            stream.deleted = stream.deleted.max(id);
            removed += 1;
        }
    }
    if removed > 0 {
        save(call, key, Some(old), stream)?;
        call.tell(key, "xdel");
    }
    call.out.size(removed);
    Ok(())
}

fn xtrim(call: &mut Call<'_>) -> Outcome {
    let (key, options) = (call.args.at(1), options(call, false)?);
    let (Some(trim), Some((old, mut stream))) = (options.trim, claim(call, key)?) else {
        call.out.integer(0);
        return Ok(());
    };
    let removed = stream.trim(call.tx, call.db, trim)?;
    if removed > 0 {
        save(call, key, Some(old), stream)?;
        call.tell(key, "xtrim");
    }
    call.out.size(removed);
    Ok(())
}

fn xsetid(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let say = |text: &'static str| Err(Failure::Say(text.into()));
    let id = ids::strict(args.at(2))?;
    let (mut added, mut deleted, mut at) = (None, Id::MIN, 3);
    while at < args.len() {
        match () {
            () if at + 1 == args.len() => return Err(Failure::SYNTAX),
            () if args.is(at, "entriesadded") => match u64::try_from(call.integer(at + 1)?) {
                Ok(count) => added = Some(count),
                Err(_) => return say("ERR entries_added must be positive"),
            },
            () if args.is(at, "maxdeletedid") => {
                deleted = ids::strict(args.at(at + 1))?;
                if id < deleted {
                    return say(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    );
                }
            }
            () => return Err(Failure::SYNTAX),
        }
        at += 2;
    }
    let Some((old, mut stream)) = claim(call, args.at(1))? else { return Err(Failure::NO_KEY) };
    if id < stream.deleted {
        return say("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
    }
    if stream.len() > 0 {
        if id < stream.top_id(call.tx)? {
            return say(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            );
        }
        if added.is_some_and(|added| added < stream.len()) {
            return say(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            );
        }
    }
    stream.last = id;
    stream.added = added.unwrap_or(stream.added);
    if deleted != Id::MIN {
        stream.deleted = deleted;
    }
    save(call, args.at(1), Some(old), stream)?;
    call.tell(args.at(1), "xsetid");
    call.out.ok();
    Ok(())
}
