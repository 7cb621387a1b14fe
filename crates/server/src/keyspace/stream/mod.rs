//! Streams: a chain of [`Chunk`]s of entries in the order of their IDs, behind a header.
//!
//! The header's words: `0x57E4 << 48`, the number of entries, the last ID's two numbers, how many entries were ever added,
//! the first chunk and the last, the index, the greatest deleted ID's two numbers, the groups. One that has only one chunk
//! has no index (0); others have an ordered map from IDs to chunks: all entries of a chunk are from its ID on, and those of
//! the chunks before it are less. The groups, if there are any (0: none), are an ordered map from names to what
//! [`group`] has. No chunk is empty; a stream without entries is a key all the same, and has no chunk and no index.

mod change;
mod copy;
mod entry;
pub(crate) mod group;
mod id;
mod progress;
#[cfg(test)]
mod tests;
mod upkeep;

pub(crate) use change::{Excess, Trim};
pub(crate) use entry::Entry;
pub(crate) use group::{Consumer, Group, Pending};
pub(crate) use id::Id;
pub(crate) use progress::Extent;
pub(super) use upkeep::{check_swept, check_swept_group, rest, sweep, sweep_group};

use super::chunk::{Chunk, Element, End, elements};
use super::entry::{Entry as KeyEntry, Form, Kind};
use super::{Database, Short};
use perdura::collections::OrderedMap;
use perdura::{Error, Purpose, Result, Tx};

const TAG: u64 = 0x57E4 << 48;
const WORDS: usize = 11;
/// Places of the header's words that change step by step when it is freed.
const LEN: u64 = 8;
const FIRST: u64 = 8 * 5;
const INDEX: u64 = 8 * 7;
const GROUPS: u64 = 8 * 10;
/// Entries that a pool has room for, by far.
const LEN_MAX: u64 = 1 << 56;

/// Where the chunks of a stream are.
type Index = OrderedMap<Id, u64>;
/// A stream's groups, by their names.
type Groups = OrderedMap<Short, u64>;

/// A stream that was looked up, or a new one. Changes must be [saved](Stream::save).
pub(crate) struct Stream {
    at: u64,
    /// The header's words as they are stored.
    stored: [u64; WORDS],
    len: u64,
    /// The ID of the last entry that was added, or a greater one.
    pub(crate) last: Id,
    /// How many entries were added so far.
    pub(crate) added: u64,
    /// The greatest ID of those that were deleted one by one; 0-0 for none.
    pub(crate) deleted: Id,
    first: u64,
    tail: u64,
    index: u64,
    groups: u64,
}

/// Called with an entry in a transaction; false ends the walk.
pub(crate) type EachEntry<'a, E> = dyn FnMut(&mut dyn Tx, Entry) -> Result<bool, E> + 'a;

/// Called with a group and its name in a transaction.
pub(crate) type EachGroup<'a, E> = dyn FnMut(&mut dyn Tx, Vec<u8>, Group) -> Result<(), E> + 'a;

const fn miscounted(at: u64) -> Error {
    Error::corrupt("a stream whose chunks have other entries than it counts", at)
}

impl Stream {
    /// The stream of an entry of the keyspace.
    pub(crate) fn load(tx: &mut dyn Tx, entry: KeyEntry) -> Result<Self> {
        Self::at_header(tx, entry.at())
    }

    fn at_header(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        let mut words = [0; WORDS];
        tx.read_words(at, &mut words).map_err(Error::in_pool)?;
        let [tag, len, ms, seq, added, first, tail, index, deleted_ms, deleted_seq, groups] = words;
        if tag != TAG || len > LEN_MAX || (len == 0) != (first == 0) || (first == 0) != (tail == 0)
        {
            return Err(Error::corrupt("a stream's header", at));
        }
        let (last, deleted) = (Id { ms, seq }, Id { ms: deleted_ms, seq: deleted_seq });
        Ok(Stream { at, stored: words, len, last, added, deleted, first, tail, index, groups })
    }

    /// A new one without entries.
    pub(crate) fn create(tx: &mut dyn Tx) -> Result<Self> {
        let new = tx.allocate(Purpose::General, 8 * WORDS as u64)?;
        let mut stored = [0; WORDS];
        stored[0] = TAG;
        tx.write_fresh(new, 0, bytemuck::bytes_of(&stored))?;
        let (at, none) = (new.at(), Id::MIN);
        let (len, added, first, tail, index, groups) = (0, 0, 0, 0, 0, 0);
        Ok(Stream { at, stored, len, last: none, added, deleted: none, first, tail, index, groups })
    }

    fn words(&self) -> [u64; WORDS] {
        let Stream { len, last, added, deleted, first, tail, index, groups, .. } = *self;
        let (ms, seq) = (deleted.ms, deleted.seq);
        [TAG, len, last.ms, last.seq, added, first, tail, index, ms, seq, groups]
    }

    /// Writes changes back. Returns the stream's entry, which never expires.
    pub(crate) fn save(self, tx: &mut dyn Tx) -> Result<KeyEntry> {
        self.save_header(tx)?;
        Ok(self.entry())
    }

    fn save_header(&self, tx: &mut dyn Tx) -> Result<()> {
        for (index, (new, old)) in self.words().into_iter().zip(self.stored).enumerate() {
            if new != old {
                tx.write_word(self.at + 8 * index as u64, new)?;
            }
        }
        Ok(())
    }

    fn entry(&self) -> KeyEntry {
        KeyEntry::outside(Kind::Stream, Form::Stream, self.at)
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// How many chunks it has.
    pub(crate) fn chunks(&self, tx: &mut dyn Tx) -> Result<u64> {
        match (self.index, self.first) {
            (_, 0) => Ok(0),
            (0, _) => Ok(1),
            (index, _) => Index::new(index).len(tx),
        }
    }

    /// The ID of the first entry; 0-0 if there is none.
    pub(crate) fn first_id(&self, tx: &mut dyn Tx) -> Result<Id> {
        self.edge(tx, self.first, End::Left)
    }

    /// The ID of the last entry that is there; 0-0 if there is none.
    pub(crate) fn top_id(&self, tx: &mut dyn Tx) -> Result<Id> {
        self.edge(tx, self.tail, End::Right)
    }

    fn edge(&self, tx: &mut dyn Tx, at: u64, end: End) -> Result<Id> {
        match at {
            0 => Ok(Id::MIN),
            at => {
                let chunk = Chunk::load(tx, at)?;
                outer_id(tx, &chunk, end)
            }
        }
    }

    /// The chunk in which an entry of this ID would be, with its ID in the index.
    fn chunk_of(&self, tx: &mut dyn Tx, id: Id) -> Result<(Id, u64)> {
        if self.index == 0 || self.first == self.tail {
            return Ok((id, self.first));
        }
        let found = Index::new(self.index).cursor(tx, ..=id)?.at_end().prev(tx)?;
        Ok(found.unwrap_or((Id::MIN, self.first)))
    }

    /// Calls `each` with the entries from one ID to another, or backwards, until it returns false. It may change anything
    /// but the chunks of this stream. Returns whether it was called.
    pub(crate) fn walk<E: From<Error>>(
        &self,
        tx: &mut dyn Tx,
        (from, to): (Id, Id),
        backwards: bool,
        each: &mut EachEntry<'_, E>,
    ) -> Result<bool, E> {
        if from > to || self.first == 0 {
            return Ok(false);
        }
        let (mut found, mut passed) = (false, 0);
        let (_, mut at) = self.chunk_of(tx, if backwards { to } else { from })?;
        while at != 0 {
            let chunk = Chunk::load(tx, at)?;
            let bytes = chunk.read(tx)?;
            passed += chunk.count as u64;
            if chunk.count == 0 || passed > self.len {
                return Err(miscounted(self.at).into());
            }
            let mut all: Vec<Element<'_>> = elements(&bytes).map(|(element, _)| element).collect();
            if backwards {
                all.reverse();
            }
            for element in all {
                let id = entry::id_of(tx, element, at)?;
                match () {
                    () if !backwards && id > to || backwards && id < from => return Ok(found),
                    () if id < from || id > to => continue,
                    () => {}
                }
                let entry = element.read(tx)?;
                found = true;
                if !each(tx, Entry::read(entry).ok_or_else(|| entry::damaged(at))?)? {
                    return Ok(true);
                }
            }
            at = if backwards { chunk.before } else { chunk.after };
        }
        Ok(found)
    }

    /// The entry of an ID.
    pub(crate) fn get(&self, tx: &mut dyn Tx, id: Id) -> Result<Option<Entry>> {
        let mut found = None;
        self.walk(tx, (id, id), false, &mut |_, entry| {
            found = Some(entry);
            Ok::<bool, Error>(false)
        })?;
        Ok(found)
    }

    /// How many groups it has.
    pub(crate) fn group_count(&self, tx: &mut dyn Tx) -> Result<u64> {
        if self.groups == 0 { Ok(0) } else { Groups::new(self.groups).len(tx) }
    }

    /// The group of this name.
    pub(crate) fn group(&self, tx: &mut dyn Tx, name: &[u8]) -> Result<Option<Group>> {
        match self.groups {
            0 => Ok(None),
            groups => match Groups::new(groups).get(tx, name)? {
                Some(at) => Group::load(tx, at).map(Some),
                None => Ok(None),
            },
        }
    }

    /// Calls `each` with every group and its name, in the order of names. It may change none of them.
    pub(crate) fn each_group<E: From<Error>>(
        &self,
        tx: &mut dyn Tx,
        each: &mut EachGroup<'_, E>,
    ) -> Result<(), E> {
        if self.groups == 0 {
            return Ok(());
        }
        let mut cursor = Groups::new(self.groups).cursor(tx, ..)?;
        while let Some((name, at)) = cursor.next(tx)? {
            let group = Group::load(tx, at)?;
            each(tx, name, group)?;
        }
        Ok(())
    }

    /// Makes a group, if there is none of this name. Returns whether it is new.
    pub(crate) fn create_group(
        &mut self,
        tx: &mut dyn Tx,
        name: &[u8],
        last: Id,
        read: Option<u64>,
    ) -> Result<bool> {
        if self.groups == 0 {
            self.groups = Groups::create(tx)?.at();
        }
        let groups = Groups::new(self.groups);
        if groups.contains(tx, name)? {
            return Ok(false);
        }
        let group = Group::create(tx, last, read)?;
        groups.set(tx, name, group.at())?;
        Ok(true)
    }

    /// Removes a group. Returns whether it was there.
    pub(crate) fn remove_group(
        &mut self,
        tx: &mut dyn Tx,
        db: Database,
        name: &[u8],
    ) -> Result<bool> {
        if self.groups == 0 {
            return Ok(false);
        }
        let groups = Groups::new(self.groups);
        let Some(at) = groups.remove(tx, name)? else { return Ok(false) };
        super::garbage::discard_group(tx, db, at)?;
        if groups.is_empty(tx)? {
            groups.destroy(tx)?;
            self.groups = 0;
        }
        Ok(true)
    }
}

/// The ID of a chunk's outermost entry.
fn outer_id(tx: &mut dyn Tx, chunk: &Chunk, end: End) -> Result<Id> {
    let bytes = chunk.outermost(tx, end)?;
    match elements(&bytes).next() {
        Some((element, _)) => entry::id_of(tx, element, chunk.at),
        None => Err(entry::damaged(chunk.at)),
    }
}
