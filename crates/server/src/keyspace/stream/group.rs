//! Groups of consumers, and which entries were delivered to whom and not acknowledged yet.
//!
//! A group's words: `0x6209 << 48`, the last delivered ID's two numbers, how many entries were read (all ones: unknown),
//! the number of pending entries, the map of these by ID, the map of consumers by name (each 0 until it is needed). A
//! consumer's: `0xC025 << 48`, when it was last seen, and when it last got something (-1: never), the number of its pending
//! entries, the set of their IDs (0 until it is needed), the bytes of its name, its name. Both lie where they are until they
//! are removed: a pending entry names its consumer's place.

use super::super::{Database, Short, garbage};
use super::Id;
use perdura::collections::OrderedMap;
use perdura::{Error, Persist, Purpose, Result, Tx};

const GROUP: u64 = 0x6209 << 48;
const CONSUMER: u64 = 0xC025 << 48;

const LAST: u64 = 8;
const READ: u64 = 24;
const PENDING: u64 = 32;
pub(super) const PENDING_MAP: u64 = 40;
pub(super) const CONSUMERS: u64 = 48;
const GROUP_WORDS: usize = 7;

const SEEN: u64 = 8;
const ACTIVE: u64 = 16;
const OWN: u64 = 24;
pub(super) const OWN_SET: u64 = 32;
const NAME_LEN: u64 = 40;
const NAME: u64 = 48;
/// Bytes of the longest name that is believed.
const NAME_MAX: u64 = 1 << 40;

/// Pending entries that are removed with their consumer one by one, however few are left.
const MANY: u64 = 64;

/// It is not known how many entries a group has read.
const UNKNOWN: u64 = u64::MAX;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Persist)]
#[persist(name = "perdura-server.Pending")]
#[repr(C)]
pub(crate) struct Pending {
    /// When it was last delivered, in milliseconds since 1970.
    pub(crate) time: i64,
    /// How often it was.
    pub(crate) count: u64,
    /// Where the consumer is that it was delivered to.
    pub(super) consumer: u64,
}

impl Pending {
    pub(crate) fn consumer(self) -> Consumer {
        Consumer { at: self.consumer }
    }
}

/// The pending entries of a group.
pub(super) type PendingMap = OrderedMap<Id, Pending>;
/// Those of one consumer.
pub(super) type OwnSet = OrderedMap<Id, ()>;
/// A group's consumers.
pub(super) type Consumers = OrderedMap<Short, u64>;

/// A group: a handle to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    at: u64,
}

/// A consumer of a group: a handle to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    at: u64,
}

/// Called with a pending entry's ID and its state; false ends the walk.
pub(crate) type EachPending<'a, E> = dyn FnMut(&mut dyn Tx, Id, Pending) -> Result<bool, E> + 'a;

/// Called with a consumer and its name in a transaction.
pub(crate) type EachConsumer<'a, E> =
    dyn FnMut(&mut dyn Tx, Vec<u8>, Consumer) -> Result<(), E> + 'a;

impl Group {
    pub(super) fn load(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        if tx.read_word(at).map_err(Error::in_pool)? != GROUP {
            return Err(Error::corrupt("a group of a stream", at));
        }
        Ok(Group { at })
    }

    pub(super) fn create(tx: &mut dyn Tx, last: Id, read: Option<u64>) -> Result<Self> {
        let new = tx.allocate(Purpose::General, 8 * GROUP_WORDS as u64)?;
        let words: [u64; GROUP_WORDS] =
            [GROUP, last.ms, last.seq, read.unwrap_or(UNKNOWN), 0, 0, 0];
        tx.write_fresh(new, 0, bytemuck::bytes_of(&words))?;
        Ok(Group { at: new.at() })
    }

    pub(super) fn at(self) -> u64 {
        self.at
    }

    /// The ID of the last entry that was delivered.
    pub(crate) fn last(self, tx: &mut dyn Tx) -> Result<Id> {
        let mut words = [0; 2];
        tx.read_words(self.at + LAST, &mut words)?;
        Ok(Id { ms: words[0], seq: words[1] })
    }

    pub(crate) fn set_last(self, tx: &mut dyn Tx, last: Id) -> Result<()> {
        tx.write_word(self.at + LAST, last.ms)?;
        tx.write_word(self.at + LAST + 8, last.seq)
    }

    /// How many of the entries that were ever added are before the last delivered one, and this one; `None` if that is not
    /// known.
    pub(crate) fn read(self, tx: &mut dyn Tx) -> Result<Option<u64>> {
        Ok(Some(tx.read_word(self.at + READ)?).filter(|read| *read != UNKNOWN))
    }

    pub(crate) fn set_read(self, tx: &mut dyn Tx, read: Option<u64>) -> Result<()> {
        tx.write_word(self.at + READ, read.unwrap_or(UNKNOWN))
    }

    /// How many entries are pending.
    pub(crate) fn pending_count(self, tx: &mut dyn Tx) -> Result<u64> {
        tx.read_word(self.at + PENDING)
    }

    pub(super) fn pending_map(self, tx: &mut dyn Tx) -> Result<Option<PendingMap>> {
        let at = tx.read_word(self.at + PENDING_MAP)?;
        Ok((at != 0).then(|| PendingMap::new(at)))
    }

    pub(super) fn consumers(self, tx: &mut dyn Tx) -> Result<Option<Consumers>> {
        let at = tx.read_word(self.at + CONSUMERS)?;
        Ok((at != 0).then(|| Consumers::new(at)))
    }

    /// The state of a pending entry.
    pub(crate) fn pending(self, tx: &mut dyn Tx, id: Id) -> Result<Option<Pending>> {
        match self.pending_map(tx)? {
            Some(map) => map.get(tx, id),
            None => Ok(None),
        }
    }

    /// The least ID of a pending entry, and the greatest.
    pub(crate) fn pending_ends(self, tx: &mut dyn Tx) -> Result<Option<(Id, Id)>> {
        let Some(map) = self.pending_map(tx)? else { return Ok(None) };
        match (map.first(tx)?, map.last(tx)?) {
            (Some((first, _)), Some((last, _))) => Ok(Some((first, last))),
            _ => Ok(None),
        }
    }

    /// The least ID of a pending entry from this one on.
    pub(crate) fn pending_from(self, tx: &mut dyn Tx, id: Id) -> Result<Option<(Id, Pending)>> {
        match self.pending_map(tx)? {
            Some(map) => map.cursor(tx, id..)?.next(tx),
            None => Ok(None),
        }
    }

    /// Calls `each` with the pending entries of a range of IDs, those of one consumer only if one is given, until it
    /// returns false. It may change none of them.
    pub(crate) fn walk<E: From<Error>>(
        self,
        tx: &mut dyn Tx,
        (from, to): (Id, Id),
        of: Option<Consumer>,
        each: &mut EachPending<'_, E>,
    ) -> Result<(), E> {
        let Some(map) = self.pending_map(tx)? else { return Ok(()) };
        if from > to {
            return Ok(());
        }
        let Some(consumer) = of else {
            let mut cursor = map.cursor(tx, from..=to)?;
            while let Some((id, pending)) = cursor.next(tx)? {
                if !each(tx, id, pending)? {
                    break;
                }
            }
            return Ok(());
        };
        let Some(own) = consumer.own(tx)? else { return Ok(()) };
        let mut cursor = own.cursor(tx, from..=to)?;
        while let Some((id, ())) = cursor.next(tx)? {
            let pending = map.get(tx, id)?.ok_or_else(|| unlisted(self.at))?;
            if !each(tx, id, pending)? {
                break;
            }
        }
        Ok(())
    }

    /// How many consumers it has.
    pub(crate) fn consumer_count(self, tx: &mut dyn Tx) -> Result<u64> {
        match self.consumers(tx)? {
            Some(consumers) => consumers.len(tx),
            None => Ok(0),
        }
    }

    /// The consumer of this name.
    pub(crate) fn consumer(self, tx: &mut dyn Tx, name: &[u8]) -> Result<Option<Consumer>> {
        let Some(consumers) = self.consumers(tx)? else { return Ok(None) };
        match consumers.get(tx, name)? {
            Some(at) => Consumer::load(tx, at).map(Some),
            None => Ok(None),
        }
    }

    /// Calls `each` with every consumer and its name, in the order of names. It may remove none of them.
    pub(crate) fn each_consumer<E: From<Error>>(
        self,
        tx: &mut dyn Tx,
        each: &mut EachConsumer<'_, E>,
    ) -> Result<(), E> {
        let Some(consumers) = self.consumers(tx)? else { return Ok(()) };
        let mut cursor = consumers.cursor(tx, ..)?;
        while let Some((name, at)) = cursor.next(tx)? {
            let consumer = Consumer::load(tx, at)?;
            each(tx, name, consumer)?;
        }
        Ok(())
    }

    /// Makes a consumer, seen now, whose name no other has.
    pub(crate) fn create_consumer(
        self,
        tx: &mut dyn Tx,
        name: &[u8],
        now: i64,
    ) -> Result<Consumer> {
        let new = tx.allocate(Purpose::General, NAME + name.len() as u64)?;
        let words = [CONSUMER, now as u64, -1_i64 as u64, 0, 0, name.len() as u64];
        tx.write_fresh(new, 0, bytemuck::bytes_of(&words))?;
        if !name.is_empty() {
            tx.write_fresh(new, NAME, name)?;
        }
        let consumers = match self.consumers(tx)? {
            Some(consumers) => consumers,
            None => {
                let consumers = Consumers::create(tx)?;
                tx.write_word(self.at + CONSUMERS, consumers.at())?;
                consumers
            }
        };
        consumers.set(tx, name, new.at())?;
        Ok(Consumer { at: new.at() })
    }

    /// Removes a consumer; its pending entries are none of the group's any longer. Returns how many they were, if it was
    /// there.
    pub(crate) fn remove_consumer(
        self,
        tx: &mut dyn Tx,
        db: Database,
        name: &[u8],
    ) -> Result<Option<u64>> {
        let Some(consumer) = self.consumer(tx, name)? else { return Ok(None) };
        let count = consumer.pending_count(tx)?;
        let left = self.pending_count(tx)?.checked_sub(count).ok_or_else(|| unlisted(self.at))?;
        if count > MANY && count >= left {
            let before = tx.point();
            match self.withdraw(tx, db, consumer, left) {
                // Deleting goes on in a full pool.
                Err(error) if error.is_full() => tx.undo_to(before)?,
                done => return done.map(|()| Some(count)),
            }
        }
        if let (Some(map), Some(own)) = (self.pending_map(tx)?, consumer.own(tx)?) {
            let mut cursor = own.cursor(tx, ..)?;
            while let Some((id, ())) = cursor.next(tx)? {
                map.remove(tx, id)?;
            }
            own.destroy(tx)?;
        }
        tx.write_word(self.at + PENDING, left)?;
        if let Some(consumers) = self.consumers(tx)? {
            consumers.remove(tx, name)?;
        }
        tx.free(consumer.at)?;
        Ok(Some(count))
    }

    /// Removes a consumer for which more is pending than the `left` entries of others: these are kept in a new map, and the
    /// old one is freed later, with the consumer, as a group that has nothing else.
    fn withdraw(self, tx: &mut dyn Tx, db: Database, consumer: Consumer, left: u64) -> Result<()> {
        let (Some(map), Some(consumers)) = (self.pending_map(tx)?, self.consumers(tx)?) else {
            return Err(unlisted(self.at));
        };
        let new = match left {
            0 => 0,
            _ => {
                let mut kept = 0;
                let new = map.retained(tx, &mut |_, pending| {
                    let stays = pending.consumer != consumer.at;
                    kept += u64::from(stays);
                    if kept > left { Err(unlisted(self.at)) } else { Ok(stays) }
                })?;
                if kept != left {
                    return Err(unlisted(self.at));
                }
                new.at()
            }
        };
        tx.write_word(self.at + PENDING_MAP, new)?;
        tx.write_word(self.at + PENDING, left)?;
        let name = consumer.name(tx)?;
        consumers.remove(tx, &name)?;
        let gone = Group::create(tx, Id::MIN, None)?;
        let its_consumers = Consumers::create(tx)?;
        its_consumers.set(tx, &name, consumer.at)?;
        tx.write_word(gone.at + PENDING_MAP, map.at())?;
        tx.write_word(gone.at + CONSUMERS, its_consumers.at())?;
        garbage::discard_group(tx, db, gone.at)
    }

    /// Makes an entry pending for a consumer, whoever it was pending for before, with this time and count.
    pub(crate) fn assign(
        self,
        tx: &mut dyn Tx,
        id: Id,
        to: Consumer,
        (time, count): (i64, u64),
    ) -> Result<()> {
        let map = match self.pending_map(tx)? {
            Some(map) => map,
            None => {
                let map = PendingMap::create(tx)?;
                tx.write_word(self.at + PENDING_MAP, map.at())?;
                map
            }
        };
        let old = map.get(tx, id)?;
        map.set(tx, id, Pending { time, count, consumer: to.at })?;
        match old {
            Some(old) if old.consumer == to.at => return Ok(()),
            Some(old) => old.consumer().remove_own(tx, id)?,
            None => {
                let all = self.pending_count(tx)?;
                tx.write_word(self.at + PENDING, all.wrapping_add(1))?;
            }
        }
        to.add_own(tx, id)
    }

    /// Ends an entry's being pending. Returns whether it was.
    pub(crate) fn acknowledge(self, tx: &mut dyn Tx, id: Id) -> Result<bool> {
        let Some(map) = self.pending_map(tx)? else { return Ok(false) };
        let Some(old) = map.remove(tx, id)? else { return Ok(false) };
        let all = self.pending_count(tx)?.checked_sub(1).ok_or_else(|| unlisted(self.at))?;
        tx.write_word(self.at + PENDING, all)?;
        old.consumer().remove_own(tx, id)?;
        Ok(true)
    }
}

const fn unlisted(at: u64) -> Error {
    Error::corrupt("pending entries of a group, and of its consumers", at)
}

impl Consumer {
    pub(super) fn load(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        if tx.read_word(at).map_err(Error::in_pool)? != CONSUMER {
            return Err(Error::corrupt("a consumer of a stream's group", at));
        }
        Ok(Consumer { at })
    }

    pub(super) fn at(self) -> u64 {
        self.at
    }

    /// Its name.
    pub(crate) fn name(self, tx: &mut dyn Tx) -> Result<Vec<u8>> {
        let len = tx.read_word(self.at + NAME_LEN)?;
        if len > NAME_MAX || NAME + len > tx.usable(self.at)? {
            return Err(Error::corrupt("a consumer of a stream's group", self.at));
        }
        let mut name = vec![0; len as usize];
        tx.read_bytes(self.at + NAME, &mut name)?;
        Ok(name)
    }

    /// When it last asked for something, and when it last got something: never, if that is -1.
    pub(crate) fn times(self, tx: &mut dyn Tx) -> Result<(i64, i64)> {
        Ok((tx.read_word(self.at + SEEN)? as i64, tx.read_word(self.at + ACTIVE)? as i64))
    }

    pub(crate) fn set_seen(self, tx: &mut dyn Tx, now: i64) -> Result<()> {
        tx.write_word(self.at + SEEN, now as u64)
    }

    pub(crate) fn set_active(self, tx: &mut dyn Tx, now: i64) -> Result<()> {
        tx.write_word(self.at + ACTIVE, now as u64)
    }

    /// How many entries are pending for it.
    pub(crate) fn pending_count(self, tx: &mut dyn Tx) -> Result<u64> {
        tx.read_word(self.at + OWN)
    }

    pub(super) fn own(self, tx: &mut dyn Tx) -> Result<Option<OwnSet>> {
        let at = tx.read_word(self.at + OWN_SET)?;
        Ok((at != 0).then(|| OwnSet::new(at)))
    }

    fn add_own(self, tx: &mut dyn Tx, id: Id) -> Result<()> {
        let own = match self.own(tx)? {
            Some(own) => own,
            None => {
                let own = OwnSet::create(tx)?;
                tx.write_word(self.at + OWN_SET, own.at())?;
                own
            }
        };
        own.set(tx, id, ())?;
        let count = self.pending_count(tx)?;
        tx.write_word(self.at + OWN, count.wrapping_add(1))
    }

    fn remove_own(self, tx: &mut dyn Tx, id: Id) -> Result<()> {
        let was_there = match self.own(tx)? {
            Some(own) => own.remove(tx, id)?.is_some(),
            None => false,
        };
        let count = self.pending_count(tx)?;
        match count.checked_sub(1) {
            Some(left) if was_there => tx.write_word(self.at + OWN, left),
            _ => Err(unlisted(self.at)),
        }
    }
}
