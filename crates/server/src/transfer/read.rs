//! The keyspace as records.

use super::record::{Change, PendingEntry, Record, StreamEnd};
use crate::keyspace::functions::Functions;
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::stream::{Id, Stream};
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{self, DATABASES, Database, Entry, Kind, text};
use perdura::{Error, Result, Root, Tx};

/// Fields, or members, of one record; Redis writes as many in one command.
const MOST_ITEMS: usize = 64;
/// Bytes from which on a record has no more of them.
const MOST_BYTES: usize = 64 << 10;
/// Keys looked at before the next ones are looked for.
const KEYS: u64 = 64;

/// Told of each record.
pub(crate) type Each<'a> = dyn FnMut(Record) -> Result<()> + 'a;

/// Whether a root is a keyspace.
pub fn is_keyspace(root: Root) -> bool {
    root.kind == keyspace::KIND
}

/// Calls `each` with the records of all keys that have not expired at `now`; returns how many keys these are.
pub(crate) fn all(tx: &mut dyn Tx, header: u64, now: u64, each: &mut Each<'_>) -> Result<u64> {
    libraries(tx, header, each)?;
    let mut keys = 0;
    for index in 0..DATABASES {
        let db = Database::new(header, index);
        let Some(table) = db.keys(tx)? else { continue };
        let mut cursor = 0;
        loop {
            let (next, found) = table.scan(tx, cursor, KEYS)?;
            for (key, entry) in found {
                let entry = entry.checked(table.at())?;
                if !entry.expired(now) {
                    one(tx, index, &key, entry, each)?;
                    keys += 1;
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(keys)
}

/// Calls `each` with the libraries of functions.
pub(crate) fn libraries(tx: &mut dyn Tx, header: u64, each: &mut Each<'_>) -> Result<()> {
    let Some(functions) = Functions::find(tx, header)? else { return Ok(()) };
    functions.each_library::<Error>(tx, &mut |tx, _, library| {
        let change = Change::Library(library.code(tx)?);
        each(Record { db: 0, key: Vec::new(), change })
    })
}

/// Calls `each` with the records of one key.
pub(crate) fn one(
    tx: &mut dyn Tx,
    db: u8,
    key: &[u8],
    entry: Entry,
    each: &mut Each<'_>,
) -> Result<()> {
    let mut tell = |change| each(Record { db, key: key.to_vec(), change });
    match entry.kind() {
        Kind::String => tell(Change::Text(text::read(tx, entry)?))?,
        Kind::Hash => fields(tx, entry, &mut |pairs| tell(Change::Fields(pairs)))?,
        Kind::Set => set_members(tx, entry, &mut |members| tell(Change::Set(members)))?,
        Kind::List => elements(tx, entry, &mut |elements| tell(Change::Elements(elements)))?,
        Kind::SortedSet => members(tx, entry, &mut |members| tell(Change::Members(members)))?,
        Kind::Stream => stream(tx, entry, &mut tell)?,
    }
    match entry.expires() {
        Some(time) => tell(Change::Expiry(time)),
        None => Ok(()),
    }
}

/// Collects items until they are worth a record.
struct Batch<'a, T> {
    items: Vec<T>,
    bytes: usize,
    each: &'a mut dyn FnMut(Vec<T>) -> Result<()>,
}

impl<'a, T> Batch<'a, T> {
    fn new(each: &'a mut dyn FnMut(Vec<T>) -> Result<()>) -> Self {
        Batch { items: Vec::new(), bytes: 0, each }
    }

    fn add(&mut self, item: T, bytes: usize) -> Result<()> {
        self.items.push(item);
        self.bytes += bytes;
        match self.items.len() >= MOST_ITEMS || self.bytes >= MOST_BYTES {
            true => self.end(),
            false => Ok(()),
        }
    }

    fn end(&mut self) -> Result<()> {
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        if items.is_empty() { Ok(()) } else { (self.each)(items) }
    }
}

type Pair = (Vec<u8>, Vec<u8>);

fn set_members(
    tx: &mut dyn Tx,
    entry: Entry,
    each: &mut dyn FnMut(Vec<Vec<u8>>) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::new(each);
    let set = Set::load(tx, Some(entry))?;
    set.walk(tx, &mut |_, member| batch.add(member.to_vec(), member.len()).map(|()| true))?;
    batch.end()
}

fn elements(
    tx: &mut dyn Tx,
    entry: Entry,
    each: &mut dyn FnMut(Vec<Vec<u8>>) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::new(each);
    let list = List::load(tx, Some(entry))?;
    list.walk(tx, 0, false, &mut |tx, item| {
        let element = item.read(tx)?;
        let bytes = element.len();
        batch.add(element, bytes).map(|()| true)
    })?;
    batch.end()
}

fn fields(
    tx: &mut dyn Tx,
    entry: Entry,
    each: &mut dyn FnMut(Vec<Pair>) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::new(each);
    match Hash::load(tx, Some(entry))? {
        Hash::Small(image) => {
            for (field, value) in image.iter() {
                batch.add((field.to_vec(), value.to_vec()), field.len() + value.len())?;
            }
        }
        Hash::Large(fields) => fields.for_each(tx, &mut |field, value| {
            let bytes = field.len() + value.len();
            batch.add((field, value), bytes)
        })?,
    }
    batch.end()
}

/// A stream's entries, its end, then its groups, each with its consumers and what is pending for them.
fn stream(tx: &mut dyn Tx, entry: Entry, tell: &mut dyn FnMut(Change) -> Result<()>) -> Result<()> {
    let (stream, all) = (Stream::load(tx, entry)?, (Id::MIN, Id::MAX));
    if stream.len() == 0 {
        tell(Change::EmptyStream)?;
    }
    stream.walk::<Error>(tx, all, false, &mut |_, entry| {
        let texts = entry.texts.iter().map(<[u8]>::to_vec).collect();
        tell(Change::Entry(entry.id, texts)).map(|()| true)
    })?;
    let (last, added, deleted) = (stream.last, Some(stream.added), stream.deleted);
    tell(Change::StreamEnd(StreamEnd { last, added, deleted }))?;
    stream.each_group::<Error>(tx, &mut |tx, name, group| {
        tell(Change::Group(name.clone(), group.last(tx)?, group.read(tx)?))?;
        group.each_consumer::<Error>(tx, &mut |tx, consumer_name, consumer| {
            let times = Some(consumer.times(tx)?);
            tell(Change::Consumer(name.clone(), consumer_name.clone(), times))?;
            group.walk::<Error>(tx, all, Some(consumer), &mut |_, id, pending| {
                let (group, consumer) = (name.clone(), consumer_name.clone());
                let (time, count) = (pending.time, pending.count);
                tell(Change::Pending(PendingEntry { group, consumer, id, time, count }))
                    .map(|()| true)
            })
        })
    })
}

fn members(
    tx: &mut dyn Tx,
    entry: Entry,
    each: &mut dyn FnMut(Vec<(f64, Vec<u8>)>) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::new(each);
    let mut walk = SortedSet::load(tx, entry)?.walk_at(tx, 0, false)?;
    while let Some((score, member)) = walk.next(tx)? {
        let bytes = member.len();
        batch.add((score, member), bytes)?;
    }
    batch.end()
}
