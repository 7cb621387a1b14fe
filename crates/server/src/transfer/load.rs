//! Records into a pool, in transactions of a bounded size.

use super::TransferError;
use super::record::{Change, PendingEntry, Record, StreamEnd};
use crate::command::Failure;
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::stream::{Group, Stream};
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{self, DATABASES, Database, End, Found, Kind, garbage, now, text};
use crate::script::libraries;
use perdura::{Error, Handle, Result, Ticket, Tx};

/// Bytes of one transaction: a share of the log, and no more than this.
const MOST_BYTES: u64 = 256 << 10;
const LOG_SHARE: u64 = 16;
/// Entries or blocks of the garbage list that a transaction frees.
const FREED: u64 = 256;
/// Entries of a stream in one chunk.
const CHUNK: u64 = 100;

/// The counts of what was put into a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// Keys that are there now.
    pub keys: u64,
    /// Commands that were read.
    pub commands: u64,
    /// Whether the stream said itself where it ends, so that nothing can be missing.
    pub has_end: bool,
    /// Keys that are not there any more: deleted, or their time had come.
    pub gone: u64,
    /// Bytes at the end of Redis's last file that were left out: they are no whole command, or no whole transaction.
    pub left_out: u64,
    /// Keys of Redis's snapshot that were left out: lists, sets, hashes and sorted sets with nothing in them.
    pub empty: u64,
}

/// A pool that is being filled.
pub(super) struct Loader<'a> {
    handle: &'a mut Handle,
    header: u64,
    pending: Vec<(Record, u64)>,
    bytes: u64,
    most: u64,
    last: Option<Ticket>,
    /// Keys that were there before.
    before: u64,
    /// Keys that were made, and how many of them were deleted again.
    made: u64,
    gone: u64,
}

impl<'a> Loader<'a> {
    /// Begins; the keyspace is made if there is none.
    pub(super) fn new(handle: &'a mut Handle) -> Result<Self, TransferError> {
        let seed = keyspace::unguessable();
        let header = handle.transaction(|tx| keyspace::open(tx, seed))?;
        let header = header.map_err(TransferError::Keyspace)?;
        let log = handle.pool().info().log_bytes;
        let most = (log / LOG_SHARE).clamp(1, MOST_BYTES);
        let before = handle.read(|tx| keys(tx, header))?;
        Ok(Loader {
            handle,
            header,
            pending: Vec::new(),
            bytes: 0,
            most,
            last: None,
            before,
            made: 0,
            gone: 0,
        })
    }

    /// Takes a record, which was read at offset `at` of its stream.
    pub(super) fn add(&mut self, record: Record, at: u64) -> Result<(), TransferError> {
        self.bytes += record.bytes() as u64;
        self.pending.push((record, at));
        if self.bytes >= self.most { self.flush() } else { Ok(()) }
    }

    /// Keys that were made so far; call [`flush`](Loader::flush) before.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Puts the records that it has taken into the pool. A record that does not fit into a transaction with the others
    /// gets one of its own.
    pub(super) fn flush(&mut self) -> Result<(), TransferError> {
        let pending = std::mem::take(&mut self.pending);
        let (mut rest, mut most) = (pending.as_slice(), pending.len());
        while !rest.is_empty() {
            let (part, after) = rest.split_at(most.min(rest.len()));
            match self.commit(part) {
                Ok(()) => rest = after,
                Err(TransferError::Pool(Error::TooLarge { .. })) if part.len() > 1 => {
                    most = part.len() / 2;
                }
                Err(error) => return Err(error),
            }
        }
        self.bytes = 0;
        Ok(())
    }

    fn commit(&mut self, part: &[(Record, u64)]) -> Result<(), TransferError> {
        let (header, time) = (self.header, now());
        let mut refused = None;
        let done = self.handle.submit(|tx| {
            let (mut made, mut gone) = (0, 0);
            for (record, at) in part {
                let effect = apply(tx, header, record, time).inspect_err(|error| {
                    if let Error::Invalid(what) = error {
                        let what = (*what).to_owned();
                        refused = Some(TransferError::Bad { at: *at, what });
                    }
                })?;
                made += u64::from(effect == Effect::Made);
                gone += u64::from(effect == Effect::Gone);
            }
            garbage::sweep(tx, header, FREED)?;
            Ok((made, gone))
        });
        let ((made, gone), ticket) = done.map_err(|error| match refused {
            Some(refused) => refused,
            None => error.into(),
        })?;
        self.made += made;
        self.gone += gone;
        self.last = Some(ticket);
        Ok(())
    }

    /// Returns when everything is durable, and as much as it should be.
    pub(super) fn end(mut self) -> Result<Loaded, TransferError> {
        self.flush()?;
        if let Some(last) = self.last {
            self.handle.wait(last)?;
        }
        let header = self.header;
        while self.handle.transaction(|tx| garbage::sweep(tx, header, FREED))? {}
        let found = self.handle.read(|tx| keys(tx, header))?;
        let expected = (self.before + self.made).saturating_sub(self.gone);
        if found != expected {
            return Err(TransferError::Count { found, expected });
        }
        Ok(Loaded { keys: found, gone: self.gone, ..Loaded::default() })
    }
}

/// Keys of a pool's keyspace.
pub(super) fn count(handle: &mut Handle) -> Result<u64, TransferError> {
    let found = handle.read(|tx| match keyspace::find(tx)? {
        Ok(Some(header)) => keys(tx, header).map(Ok),
        Ok(None) => Ok(Ok(0)),
        Err(what) => Ok(Err(what)),
    })?;
    found.map_err(TransferError::Keyspace)
}

/// Keys in all databases.
fn keys(tx: &mut dyn Tx, header: u64) -> Result<u64> {
    (0..DATABASES).map(|index| Database::new(header, index).len(tx)).sum()
}

/// The effect of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The key is new.
    Made,
    /// It is gone.
    Gone,
    /// It was there, and is, or neither.
    Stays,
}

/// Does a record's command. A key whose time has come is removed.
pub(crate) fn apply(tx: &mut dyn Tx, header: u64, record: &Record, now: u64) -> Result<Effect> {
    if let Change::Library(code) = &record.change {
        return match libraries::load(tx, header, code, true) {
            Ok(_) => Ok(Effect::Stays),
            Err(Failure::Pool(error)) => Err(error),
            Err(Failure::Say(text)) => Err(Error::Aborted(text.into_owned())),
            Err(Failure::NoRoom(text)) => Err(Error::Aborted(text)),
        };
    }
    let db = Database::new(header, record.db);
    let key = record.key.as_slice();
    let old = db.find(tx, key)?;
    let expires = old.and_then(|old| old.entry.expires());
    match &record.change {
        Change::Text(value) => {
            let reusable = old.map(|old| old.entry).filter(|old| old.kind() == Kind::String);
            if let (Some(old), None) = (old, reusable) {
                db.discard(tx, old.entry)?;
            }
            let new = text::store(tx, reusable, value)?;
            db.put(tx, key, old, new)?;
        }
        Change::Library(_) => return Ok(Effect::Stays),
        Change::Fields(pairs) => {
            of_kind(old, Kind::Hash)?;
            let mut hash = Hash::load(tx, old.map(|old| old.entry))?;
            for (field, value) in pairs {
                hash.set(tx, db, field, value)?;
            }
            let new = hash.save(tx)?.expiring(expires);
            db.put(tx, key, old, new)?;
        }
        Change::Set(members) => {
            of_kind(old, Kind::Set)?;
            let mut set = Set::load(tx, old.map(|old| old.entry))?;
            for member in members {
                set.set(tx, db, member, b"")?;
            }
            let new = set.save(tx)?.expiring(expires);
            db.put(tx, key, old, new)?;
        }
        Change::Elements(elements) => {
            of_kind(old, Kind::List)?;
            let mut list = List::load(tx, old.map(|old| old.entry))?;
            for element in elements {
                list.push(tx, End::Right, element)?;
            }
            let new = list.save(tx)?.expiring(expires);
            db.put(tx, key, old, new)?;
        }
        Change::Members(members) => {
            of_kind(old, Kind::SortedSet)?;
            let set = match old {
                Some(old) => SortedSet::load(tx, old.entry)?,
                None => {
                    let set = SortedSet::create(tx, db)?;
                    db.put(tx, key, None, set.entry())?;
                    set
                }
            };
            for (score, member) in members {
                let before = set.find(tx, member)?;
                set.set(tx, member, before, *score)?;
            }
        }
        Change::Entry(..)
        | Change::EmptyStream
        | Change::StreamEnd(_)
        | Change::Group(..)
        | Change::Consumer(..)
        | Change::Pending(_) => {
            of_kind(old, Kind::Stream)?;
            let mut stream = match old {
                Some(old) => Stream::load(tx, old.entry)?,
                None => Stream::create(tx)?,
            };
            apply_to_stream(tx, &mut stream, &record.change, now)?;
            let new = stream.save(tx)?.expiring(expires);
            db.put(tx, key, old, new)?;
        }
        Change::Expiry(time) => {
            let Some(found) = old else { return Ok(Effect::Stays) };
            if *time <= now {
                db.remove(tx, key)?;
                return Ok(Effect::Gone);
            }
            db.put(tx, key, old, found.entry.expiring(Some(*time)))?;
        }
        Change::Removal => {
            return Ok(if db.remove(tx, key)? { Effect::Gone } else { Effect::Stays });
        }
    }
    Ok(if old.is_none() { Effect::Made } else { Effect::Stays })
}

/// Does the part of a record's command that is about a stream.
fn apply_to_stream(tx: &mut dyn Tx, stream: &mut Stream, change: &Change, now: u64) -> Result<()> {
    match change {
        Change::Entry(id, texts) => {
            if *id <= stream.last {
                return Err(Error::Invalid(
                    "an entry's ID is not greater than the last one of its stream; import a stream that makes each key once, or deletes it before",
                ));
            }
            stream.append(tx, *id, texts.iter().map(Vec::as_slice), CHUNK)
        }
        Change::StreamEnd(StreamEnd { last, added, deleted }) => {
            if *last < stream.top_id(tx)? {
                return Err(Error::Invalid(
                    "XSETID gives an ID that is less than that of an entry",
                ));
            }
            stream.last = *last;
            stream.added = added.unwrap_or(stream.added);
            stream.deleted = *deleted;
            Ok(())
        }
        Change::Group(name, last, read) => stream.create_group(tx, name, *last, *read).map(drop),
        Change::Consumer(group, name, times) => {
            let group = group_of(tx, stream, group)?;
            if group.consumer(tx, name)?.is_none() {
                let (seen, active) = times.unwrap_or((now as i64, -1));
                group.create_consumer(tx, name, seen)?.set_active(tx, active)?;
            }
            Ok(())
        }
        Change::Pending(PendingEntry { group, consumer, id, time, count }) => {
            let group = group_of(tx, stream, group)?;
            let consumer = match group.consumer(tx, consumer)? {
                Some(consumer) => consumer,
                None => group.create_consumer(tx, consumer, now as i64)?,
            };
            group.assign(tx, *id, consumer, (*time, *count))
        }
        _ => Ok(()),
    }
}

fn group_of(tx: &mut dyn Tx, stream: &Stream, name: &[u8]) -> Result<Group> {
    let missing = "a stream has no such group: XGROUP CREATE must come before";
    stream.group(tx, name)?.ok_or(Error::Invalid(missing))
}

fn of_kind(found: Option<Found>, kind: Kind) -> Result<()> {
    match found {
        Some(found) if found.entry.kind() != kind => Err(Error::Invalid(
            "the key holds another kind of value by now; import a stream that makes each key once, or deletes it before",
        )),
        _ => Ok(()),
    }
}
