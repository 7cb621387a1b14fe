//! XCLAIM and XAUTOCLAIM: entries that were delivered to one consumer become another one's.

use super::stream_groups::no_key_or_group;
use super::stream_ids as ids;
use super::stream_reads::consumer;
use super::streams::{ONE, claim, tell};
use super::{Call, Command, Failure, Outcome, Run, shown};
use crate::keyspace::stream::{Consumer, Group, Id, Pending, Stream};
use crate::protocol::number;

pub(super) const TABLE: &[Command] = &[
    Command::new("xclaim", -6, ONE, Run::Write(xclaim), "Makes pending entries a consumer's."),
    Command::new("xautoclaim", -6, ONE, Run::Write(xautoclaim), "The same, for all from an ID on."),
];

/// Pending entries that XAUTOCLAIM looks at for each one that it may claim.
const ATTEMPTS: u64 = 10;
/// The greatest COUNT of XAUTOCLAIM.
const COUNT_MAX: i64 = i64::MAX / 16;

/// The stream of a key, and its group; an error if one of them is not there.
fn claim_group(call: &mut Call<'_>) -> Outcome<(Stream, Group)> {
    let (key, name) = (call.args.at(1), call.args.at(2));
    if let Some((_, stream)) = claim(call, key)?
        && let Some(group) = stream.group(call.tx, name)?
    {
        return Ok((stream, group));
    }
    Err(no_key_or_group(key, name))
}

/// An integer, or the error that says which one is wrong.
fn number_of(call: &Call<'_>, at: usize, what: &str, command: &str) -> Outcome<i64> {
    let wrong = || Failure::say(format!("ERR Invalid {what} argument for {command}"));
    number::parse_i64(call.args.at(at)).ok_or_else(wrong)
}

/// How entries are claimed.
struct Terms {
    /// Milliseconds since an entry was delivered, at least; 0 for any.
    idle: i64,
    /// When it is said to be delivered, and how often, if not once more.
    time: i64,
    count: Option<u64>,
    /// Whether its ID is the whole answer, and it does not count as delivered.
    just_id: bool,
}

impl Terms {
    fn spares(&self, old: Pending, now: i64) -> bool {
        self.idle > 0 && now.wrapping_sub(old.time) < self.idle
    }

    /// How often it was delivered then.
    fn count(&self, old: Option<Pending>) -> u64 {
        let before = old.map_or(1, |old| old.count);
        self.count.unwrap_or(if self.just_id { before } else { before.wrapping_add(1) })
    }
}

fn xclaim(call: &mut Call<'_>) -> Outcome {
    let (args, key, now) = (call.args, call.args.at(1), call.env.now as i64);
    let (stream, group) = claim_group(call)?;
    let idle = number_of(call, 4, "min-idle-time", "XCLAIM")?.max(0);
    let parsed = args.from(5).iter().map_while(|id| ids::strict(id).ok());
    let wanted: Vec<Id> = parsed.collect();
    let (mut time, mut count, mut force, mut just_id) = (None, None, false, false);
    let (mut last, mut at) = (Id::MIN, 5 + wanted.len());
    while at < args.len() {
        let more = at + 1 < args.len();
        match () {
            () if args.is(at, "force") => force = true,
            () if args.is(at, "justid") => just_id = true,
            () if args.is(at, "idle") && more => {
                at += 1;
                time = Some(now.wrapping_sub(number_of(call, at, "IDLE option", "XCLAIM")?));
            }
            () if args.is(at, "time") && more => {
                at += 1;
                time = Some(number_of(call, at, "TIME option", "XCLAIM")?);
            }
            () if args.is(at, "retrycount") && more => {
                at += 1;
                let given = number_of(call, at, "RETRYCOUNT option", "XCLAIM")?;
                count = u64::try_from(given).ok();
            }
            () if args.is(at, "lastid") && more => {
                at += 1;
                last = ids::strict(args.at(at))?;
            }
            () => {
                let option = shown(args.at(at), usize::MAX);
                return Err(Failure::say(format!("ERR Unrecognized XCLAIM option '{option}'")));
            }
        }
        at += 1;
    }
    if last > group.last(call.tx)? {
        group.set_last(call.tx, last)?;
    }
    // A time that is none is now.
    let time = time.filter(|time| (0..=now).contains(time)).unwrap_or(now);
    let terms = Terms { idle, time, count, just_id };
    let consumer = consumer(call, key, group, args.at(3))?;
    let (start, mut told) = (call.out.len(), 0);
    for id in wanted {
        if call.out.is_cut() {
            break;
        }
        let old = group.pending(call.tx, id)?;
        let Some(entry) = stream.get(call.tx, id)? else {
            // It was deleted: nobody can be working on it.
            if old.is_some() {
                group.acknowledge(call.tx, id)?;
            }
            continue;
        };
        if old.is_none() && !force || old.is_some_and(|old| terms.spares(old, now)) {
            continue;
        }
        group.assign(call.tx, id, consumer, (terms.time, terms.count(old)))?;
        consumer.set_active(call.tx, now)?;
        if just_id {
            call.out.bulk(id.text().as_bytes());
        } else {
            tell(&mut call.out, &entry);
        }
        told += 1;
    }
    call.out.array_since(start, told);
    Ok(())
}

/// What XAUTOCLAIM has found.
struct Claimed {
    told: usize,
    deleted: Vec<Id>,
    /// Where the next call goes on.
    next: Id,
}

fn xautoclaim(call: &mut Call<'_>) -> Outcome {
    let (args, key, now) = (call.args, call.args.at(1), call.env.now as i64);
    let idle = number_of(call, 4, "min-idle-time", "XAUTOCLAIM")?.max(0);
    let from = ids::start(args.at(5))?;
    let (mut count, mut just_id, mut at) = (100, false, 6);
    while at < args.len() {
        if args.is(at, "count") && at + 1 < args.len() {
            at += 1;
            let given = number::parse_i64(args.at(at)).filter(|n| (1..=COUNT_MAX).contains(n));
            count = given.ok_or(Failure::Say("ERR COUNT must be > 0".into()))? as u64;
        } else if args.is(at, "justid") {
            just_id = true;
        } else {
            return Err(Failure::SYNTAX);
        }
        at += 1;
    }
    let (stream, group) = claim_group(call)?;
    let consumer = consumer(call, key, group, args.at(3))?;
    call.out.array(3);
    let start = call.out.len();
    let terms = Terms { idle, time: now, count: None, just_id };
    let claimed = claim_from(call, &stream, (group, consumer), (from, count), &terms)?;
    call.out.array_since(start, claimed.told);
    // The cursor is known at the end, and comes first.
    let mut cursor = Vec::new();
    crate::protocol::Reply::new(&mut cursor, call.out.protocol())
        .bulk(claimed.next.text().as_bytes());
    call.out.insert(start, &cursor);
    call.out.array(claimed.deleted.len());
    claimed.deleted.iter().for_each(|id| call.out.bulk(id.text().as_bytes()));
    Ok(())
}

/// Claims pending entries from an ID on, `count` at most, those that were deleted included, and answers with them.
fn claim_from(
    call: &mut Call<'_>,
    stream: &Stream,
    (group, consumer): (Group, Consumer),
    (from, count): (Id, u64),
    terms: &Terms,
) -> Outcome<Claimed> {
    let now = call.env.now as i64;
    let (mut told, mut deleted) = (0, Vec::new());
    let (mut left, mut attempts) = (count, count.saturating_mul(ATTEMPTS));
    let mut at = Some(from);
    let mut is_active = false;
    while left > 0 && attempts > 0 && !call.out.is_cut() {
        let Some(from) = at else { break };
        let Some((id, old)) = group.pending_from(call.tx, from)? else {
            at = None;
            break;
        };
        attempts -= 1;
        at = id.next();
        let Some(entry) = stream.get(call.tx, id)? else {
            group.acknowledge(call.tx, id)?;
            deleted.push(id);
            left -= 1;
            continue;
        };
        if terms.spares(old, now) {
            continue;
        }
        group.assign(call.tx, id, consumer, (terms.time, terms.count(Some(old))))?;
        is_active = true;
        if terms.just_id {
            call.out.bulk(id.text().as_bytes());
        } else {
            tell(&mut call.out, &entry);
        }
        told += 1;
        left -= 1;
    }
    if is_active {
        consumer.set_active(call.tx, now)?;
    }
    let next = match at {
        Some(from) => group.pending_from(call.tx, from)?.map_or(Id::MIN, |(id, _)| id),
        None => Id::MIN,
    };
    Ok(Claimed { told, deleted, next })
}
