//! DUMP and RESTORE: values in Redis's own form.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{End, Entry, text};
use crate::protocol::number;
use crate::rdb::packs::{self, Packing};
use crate::rdb::reader::{Malformed, Reader, finite_or_infinite};
use crate::rdb::{self, form, streams, values};

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("dump", 2, ONE, Run::Read(dump), "A key's value in Redis's form."),
    Command::new("restore", -4, ONE, Run::Write(restore), "Makes a key of what DUMP answered."),
];

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Failure::Say("ERR Bad data format".into())
    }
}

fn dump(call: &mut Call<'_>) -> Outcome {
    let Some(entry) = call.look(call.args.at(1))? else {
        call.out.null();
        return Ok(());
    };
    let mut to = Vec::new();
    let out = &mut call.out;
    let stream_form = match call.env.server.tuning.dump_version() {
        rdb::VERSION_MAX => form::STREAM_LAST,
        _ => form::STREAM,
    };
    values::write(call.tx, entry, stream_form, &mut to, &mut |len| out.has_room(len))?;
    if !call.out.is_cut() {
        rdb::finish(&mut to);
        call.out.bulk(&to);
    }
    Ok(())
}

/// The options of RESTORE.
#[derive(Default)]
struct Options {
    replace: bool,
    /// The time is one since 1970.
    absolute: bool,
}

fn options(call: &Call<'_>) -> Outcome<Options> {
    let (args, mut options) = (call.args, Options::default());
    let (mut has_idle, mut has_frequency) = (false, false);
    let mut at = 4;
    while at < args.len() {
        let more = at + 1 < args.len();
        match () {
            () if args.is(at, "replace") => options.replace = true,
            () if args.is(at, "absttl") => options.absolute = true,
            // Neither is kept.
            () if args.is(at, "idletime") && more && !has_frequency => {
                if call.integer(at + 1)? < 0 {
                    let text = "ERR Invalid IDLETIME value, must be >= 0";
                    return Err(Failure::Say(text.into()));
                }
                (has_idle, at) = (true, at + 1);
            }
            () if args.is(at, "freq") && more && !has_idle => {
                if !(0..=255).contains(&call.integer(at + 1)?) {
                    let text = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                    return Err(Failure::Say(text.into()));
                }
                (has_frequency, at) = (true, at + 1);
            }
            () => return Err(Failure::SYNTAX),
        }
        at += 1;
    }
    Ok(options)
}

fn restore(call: &mut Call<'_>) -> Outcome {
    let options = options(call)?;
    let key = call.args.at(1);
    if call.claim(key)?.is_some() && !options.replace {
        return Err(Failure::Say("BUSYKEY Target key name already exists.".into()));
    }
    let time = call.integer(2)?;
    if time < 0 {
        return Err(Failure::Say("ERR Invalid TTL value, must be >= 0".into()));
    }
    let Some(value) = rdb::checked(call.args.at(3)) else {
        let text = "ERR DUMP payload version or checksum are wrong";
        return Err(Failure::Say(text.into()));
    };
    let from = if options.absolute { 0 } else { call.env.now };
    let expires = match time {
        0 => None,
        time => Some(
            // Exports have it as an integer with a sign.
            from.checked_add(time as u64)
                .filter(|time| i64::try_from(*time).is_ok())
                .ok_or(Failure::expire_time("restore"))?,
        ),
    };
    let mut reader = Reader::new(value);
    let new = read(call, &mut reader)?;
    call.remove(key)?;
    match expires {
        Some(time) if time <= call.env.cutoff => call.db.discard(call.tx, new)?,
        expires => call.put(key, None, new.expiring(expires))?,
    }
    call.out.ok();
    Ok(())
}

/// A collection that is being made.
enum Target {
    List(List),
    Set(Set),
    /// With a field whose value comes next.
    Hash(Hash, Option<Vec<u8>>),
    /// With a member whose score comes next.
    SortedSet(SortedSet, Option<Vec<u8>>),
}

impl Target {
    fn add(&mut self, call: &mut Call<'_>, text: &[u8]) -> Outcome {
        match self {
            Target::List(list) => list.push(call.tx, End::Right, text)?,
            Target::Set(set) => {
                if !set.set(call.tx, call.db, text, b"")? {
                    return Err(Malformed.into());
                }
            }
            Target::Hash(hash, field) => match field.take() {
                None => *field = Some(text.to_vec()),
                Some(field) => {
                    if !hash.set(call.tx, call.db, &field, text)? {
                        return Err(Malformed.into());
                    }
                }
            },
            Target::SortedSet(set, member) => match member.take() {
                None => *member = Some(text.to_vec()),
                Some(member) => {
                    let score = number::parse_f64(text).ok_or(Malformed)?;
                    rank(call, *set, &member, score)?;
                }
            },
        }
        Ok(())
    }

    /// Its entry, if it has something in it, and nothing is missing.
    fn finish(self, call: &mut Call<'_>) -> Outcome<Entry> {
        let (entry, len) = match self {
            Target::List(list) => {
                let len = list.len();
                (list.save(call.tx)?, len)
            }
            Target::Set(set) => {
                let len = set.len(call.tx)?;
                (set.save(call.tx)?, len)
            }
            Target::Hash(_, Some(_)) | Target::SortedSet(_, Some(_)) => {
                return Err(Malformed.into());
            }
            Target::Hash(hash, None) => {
                let len = hash.len(call.tx)?;
                (hash.save(call.tx)?, len)
            }
            Target::SortedSet(set, None) => (set.entry(), set.len(call.tx)?),
        };
        if len == 0 { Err(Malformed.into()) } else { Ok(entry) }
    }
}

/// Adds a member that is not there yet.
fn rank(call: &mut Call<'_>, set: SortedSet, member: &[u8], score: f64) -> Outcome {
    let score = finite_or_infinite(score)?;
    if set.score(call.tx, member)?.is_some() {
        return Err(Malformed.into());
    }
    Ok(set.set(call.tx, member, None, score)?)
}

/// Makes the value that is read. If that fails, the command does, and all is undone.
fn read(call: &mut Call<'_>, reader: &mut Reader<'_>) -> Outcome<Entry> {
    let found = reader.byte()?;
    if found == form::STRING {
        let value = reader.string()?;
        at_end(reader)?;
        return Ok(text::store(call.tx, None, &value)?);
    }
    if matches!(found, form::STREAM_FIRST | form::STREAM | form::STREAM_LAST) {
        let most = call.env.server.tuning.stream_chunk();
        let bytes_max = call.env.server.options.max_request;
        let stream = streams::read(call.tx, found, reader, (most, bytes_max))?;
        at_end(reader)?;
        return Ok(stream.save(call.tx)?);
    }
    let list = |call: &mut Call<'_>| Outcome::Ok(Target::List(List::load(call.tx, None)?));
    let set = |call: &mut Call<'_>| Outcome::Ok(Target::Set(Set::load(call.tx, None)?));
    let hash = |call: &mut Call<'_>| Outcome::Ok(Target::Hash(Hash::load(call.tx, None)?, None));
    let sorted = |call: &mut Call<'_>| {
        Outcome::Ok(Target::SortedSet(SortedSet::create(call.tx, call.db)?, None))
    };
    let (mut target, packing) = match found {
        form::LIST => (list(call)?, None),
        form::SET => (set(call)?, None),
        form::HASH => (hash(call)?, None),
        form::SORTED_SET | form::SORTED_SET_TEXT => (sorted(call)?, None),
        form::LIST_ZIPLIST | form::LIST_OF_ZIPLISTS => (list(call)?, Some(Packing::Ziplist)),
        form::LIST_OF_LISTPACKS => (list(call)?, Some(Packing::Listpack)),
        form::SET_INTEGERS => (set(call)?, Some(Packing::Integers)),
        form::SET_LISTPACK => (set(call)?, Some(Packing::Listpack)),
        form::HASH_ZIPMAP => (hash(call)?, Some(Packing::Zipmap)),
        form::HASH_ZIPLIST => (hash(call)?, Some(Packing::Ziplist)),
        form::HASH_LISTPACK => (hash(call)?, Some(Packing::Listpack)),
        form::SORTED_SET_ZIPLIST => (sorted(call)?, Some(Packing::Ziplist)),
        form::SORTED_SET_LISTPACK => (sorted(call)?, Some(Packing::Listpack)),
        _ => return Err(Malformed.into()),
    };
    let count = match (found, packing) {
        (form::LIST_OF_ZIPLISTS | form::LIST_OF_LISTPACKS, _) | (_, None) => reader.len()?,
        (_, Some(_)) => 1,
    };
    for _ in 0..count {
        // A string by itself in a list of packed ones.
        let is_plain = found == form::LIST_OF_LISTPACKS
            && match reader.len()? {
                1 => true,
                2 => false,
                _ => return Err(Malformed.into()),
            };
        let element = reader.string()?;
        match packing {
            Some(packing) if !is_plain => {
                packs::elements::<Failure>(packing, &element, &mut |text| target.add(call, text))?;
            }
            _ => match &mut target {
                Target::SortedSet(set, _) => {
                    let score = match found {
                        form::SORTED_SET => reader.score()?,
                        _ => reader.score_in_digits()?,
                    };
                    rank(call, *set, &element, score)?;
                }
                Target::Hash(..) => {
                    target.add(call, &element)?;
                    let value = reader.string()?;
                    target.add(call, &value)?;
                }
                _ => target.add(call, &element)?,
            },
        }
    }
    at_end(reader)?;
    target.finish(call)
}

fn at_end(reader: &Reader<'_>) -> Outcome {
    if reader.is_at_end() { Ok(()) } else { Err(Malformed.into()) }
}
