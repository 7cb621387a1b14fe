//! The keyspace without sockets: HSET, HGET, HGETALL, DEL, ZADD, ZREM, ZRANGEBYSCORE, ZCARD, SADD, SREM,
//! SMEMBERS, LPUSH, RPUSH, LPOP, RPOP, LRANGE, and of streams XRANGE and XPENDING, on database 0, in a caller's own
//! transactions.
//!
//! The structures are the server's, and so are their rules: a key that has expired is not
//! there, writing a hash leaves its expiry, a set or a list without members is no key, and a
//! value too large to be freed at once goes to the garbage list.

pub use crate::keyspace::End;
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::stream::{Id, Stream};
use crate::keyspace::zset::{Edge, SortedSet};
use crate::keyspace::{self, Database, Found, Kind, garbage, now};
use perdura::{Error, Result, Tx};

/// Entries or blocks of the garbage list that a removal frees besides its own.
const FREED: u64 = 256;

/// A pool's keyspace: a handle, good as long as the pool is open. Not to be used while a server
/// runs on the pool: its WATCH would not notice writes made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyspace {
    header: u64,
}

/// An entry of a stream: the two numbers of its ID.
pub type EntryId = (u64, u64);

/// Called with an entry of a stream, and its fields and values by turns.
pub type EachEntry<'a> = dyn FnMut(EntryId, &[&[u8]]) + 'a;

/// Called with a pending entry of a group, and the name of its consumer.
pub type EachPending<'a> = dyn FnMut(EntryId, &[u8]) + 'a;

impl Keyspace {
    /// The pool's keyspace, if it has one.
    ///
    /// # Errors
    /// `Corrupt`; `Aborted`, with advice, if the keyspace is another program's.
    pub fn find(tx: &mut dyn Tx) -> Result<Option<Self>> {
        let found = keyspace::find(tx)?.map_err(Error::Aborted)?;
        Ok(found.map(|header| Keyspace { header }))
    }

    /// The pool's keyspace; a new one if it has none.
    ///
    /// # Errors
    /// As [`find`](Keyspace::find) and the transaction.
    pub fn open(tx: &mut dyn Tx) -> Result<Self> {
        Keyspace::open_seeded(tx, keyspace::unguessable())
    }

    /// As [`open`](Keyspace::open), but the seed of a new one's hash maps is given: the same
    /// operations make the same pool again. With the seed, keys can be chosen that make the maps slow.
    ///
    /// # Errors
    /// As [`open`](Keyspace::open).
    pub fn open_seeded(tx: &mut dyn Tx, seed: u64) -> Result<Self> {
        let header = keyspace::open(tx, seed)?.map_err(Error::Aborted)?;
        Ok(Keyspace { header })
    }

    /// Sets fields of the hash at `key`, which is made if it is not there. No fields change
    /// nothing.
    ///
    /// # Errors
    /// `Invalid` if the key holds something else; as the transaction.
    pub fn set_fields(self, tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()> {
        let old = self.claim(tx, key, Kind::Hash)?;
        if fields.is_empty() {
            return Ok(());
        }
        let mut hash = Hash::load(tx, old.map(|old| old.entry))?;
        for (field, value) in fields {
            hash.set(tx, self.db(), field, value)?;
        }
        let expires = old.and_then(|old| old.entry.expires());
        let new = hash.save(tx)?.expiring(expires);
        self.db().put(tx, key, old, new)
    }

    /// The value of one field of the hash at `key`.
    ///
    /// # Errors
    /// As [`set_fields`](Keyspace::set_fields).
    pub fn field(self, tx: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.look(tx, key, Kind::Hash)? {
            Some(found) => Hash::load(tx, Some(found.entry))?.get(tx, field),
            None => Ok(None),
        }
    }

    /// Calls `each` with every field and value of the hash at `key`; false if there is none.
    ///
    /// # Errors
    /// As [`set_fields`](Keyspace::set_fields).
    pub fn fields(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<bool> {
        let Some(found) = self.look(tx, key, Kind::Hash)? else { return Ok(false) };
        Hash::load(tx, Some(found.entry))?.for_each(tx, each)?;
        Ok(true)
    }

    /// Removes `key`, whatever it holds, and frees a part of the garbage list. Whether it was
    /// there.
    ///
    /// # Errors
    /// As the transaction.
    pub fn remove(self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        let expired = match self.db().find(tx, key)? {
            Some(found) => is_expired(found),
            None => return Ok(false),
        };
        self.db().remove(tx, key)?;
        self.sweep(tx)?;
        Ok(!expired)
    }

    /// Adds `member` to the sorted set at `key`, which is made if it is not there, or gives it a
    /// new score. Whether it is new.
    ///
    /// # Errors
    /// `Invalid` if the score is not a number or the key holds something else; as the
    /// transaction.
    pub fn add(self, tx: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool> {
        if score.is_nan() {
            return Err(Error::Invalid("a score must be a number"));
        }
        let set = match self.claim(tx, key, Kind::SortedSet)? {
            Some(found) => SortedSet::load(tx, found.entry)?,
            None => {
                let set = SortedSet::create(tx, self.db())?;
                self.db().put(tx, key, None, set.entry())?;
                set
            }
        };
        let old = set.find(tx, member)?;
        set.set(tx, member, old, score)?;
        Ok(old.is_none())
    }

    /// Takes `member` from the sorted set at `key`. Whether it was there.
    ///
    /// # Errors
    /// `Invalid` if the key holds something else; as the transaction.
    pub fn take(self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        let Some(found) = self.claim(tx, key, Kind::SortedSet)? else { return Ok(false) };
        let set = SortedSet::load(tx, found.entry)?;
        let taken = set.remove(tx, member)?;
        if set.len(tx)? == 0 {
            self.db().remove(tx, key)?;
        }
        Ok(taken)
    }

    /// Calls `each` with members of the sorted set at `key` and their scores, from the lowest
    /// score that is at least `from` on, while it returns true.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn range(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        let Some(found) = self.look(tx, key, Kind::SortedSet)? else { return Ok(()) };
        let set = SortedSet::load(tx, found.entry)?;
        let rank = set.count_before(tx, &Edge::Before(from))?;
        let mut walk = set.walk_at(tx, rank, false)?;
        while let Some((score, member)) = walk.next(tx)? {
            if !each(score, &member) {
                break;
            }
        }
        Ok(())
    }

    /// Members of the sorted set at `key`.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn members(self, tx: &mut dyn Tx, key: &[u8]) -> Result<u64> {
        match self.look(tx, key, Kind::SortedSet)? {
            Some(found) => SortedSet::load(tx, found.entry)?.len(tx),
            None => Ok(0),
        }
    }

    /// Adds `member` to the set at `key`, which is made if it is not there. Whether it is new.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn insert(self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        let old = self.claim(tx, key, Kind::Set)?;
        let mut set = Set::load(tx, old.map(|old| old.entry))?;
        let added = set.set(tx, self.db(), member, b"")?;
        if added {
            let expires = old.and_then(|old| old.entry.expires());
            let new = set.save(tx)?.expiring(expires);
            self.db().put(tx, key, old, new)?;
        }
        Ok(added)
    }

    /// Takes `member` from the set at `key`. Whether it was there.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn withdraw(self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        let Some(found) = self.claim(tx, key, Kind::Set)? else { return Ok(false) };
        let mut set = Set::load(tx, Some(found.entry))?;
        let removed = set.remove(tx, member)?;
        if removed {
            let empty = set.len(tx)? == 0;
            let new = set.save(tx)?.expiring(found.entry.expires());
            self.db().put(tx, key, Some(found), new)?;
            if empty {
                self.db().remove(tx, key)?;
            }
        }
        Ok(removed)
    }

    /// Calls `each` with every member of the set at `key`; false if there is none.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn each_member(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let Some(found) = self.look(tx, key, Kind::Set)? else { return Ok(false) };
        Set::load(tx, Some(found.entry))?.for_each(tx, &mut |member, _| each(member))?;
        Ok(true)
    }

    /// Adds `element` at an end of the list at `key`, which is made if it is not there.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn push(self, tx: &mut dyn Tx, key: &[u8], end: End, element: &[u8]) -> Result<()> {
        let old = self.claim(tx, key, Kind::List)?;
        let mut list = List::load(tx, old.map(|old| old.entry))?;
        list.push(tx, end, element)?;
        let expires = old.and_then(|old| old.entry.expires());
        let new = list.save(tx)?.expiring(expires);
        self.db().put(tx, key, old, new)
    }

    /// Takes the element at an end of the list at `key`, if there is one.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn pop(self, tx: &mut dyn Tx, key: &[u8], end: End) -> Result<Option<Vec<u8>>> {
        let Some(found) = self.claim(tx, key, Kind::List)? else { return Ok(None) };
        let mut list = List::load(tx, Some(found.entry))?;
        let element = list.pop(tx, end)?;
        let empty = list.len() == 0;
        let new = list.save(tx)?.expiring(found.entry.expires());
        self.db().put(tx, key, Some(found), new)?;
        if empty {
            self.db().remove(tx, key)?;
        }
        Ok(element)
    }

    /// Calls `each` with the elements of the list at `key`, from the left one on, while it returns true; false if there
    /// is none.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn each_element(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool> {
        let Some(found) = self.look(tx, key, Kind::List)? else { return Ok(false) };
        let list = List::load(tx, Some(found.entry))?;
        list.walk(tx, 0, false, &mut |tx, item| Ok::<bool, Error>(each(&item.read(tx)?)))?;
        Ok(true)
    }

    /// Calls `each` with the ID of every entry of the stream at `key` and its fields and values by turns; false if there is
    /// no such key.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn each_entry(self, tx: &mut dyn Tx, key: &[u8], each: &mut EachEntry<'_>) -> Result<bool> {
        let Some(found) = self.look(tx, key, Kind::Stream)? else { return Ok(false) };
        let all = (Id::MIN, Id::MAX);
        Stream::load(tx, found.entry)?.walk(tx, all, false, &mut |_, entry| {
            let texts: Vec<&[u8]> = entry.texts.iter().collect();
            each((entry.id.ms, entry.id.seq), &texts);
            Ok::<bool, Error>(true)
        })?;
        Ok(true)
    }

    /// Calls `each` with the ID of every entry that is pending in a group of the stream at `key`, and its consumer's name;
    /// false if there is no such group.
    ///
    /// # Errors
    /// As [`take`](Keyspace::take).
    pub fn each_pending(
        self,
        tx: &mut dyn Tx,
        key: &[u8],
        group: &[u8],
        each: &mut EachPending<'_>,
    ) -> Result<bool> {
        let Some(found) = self.look(tx, key, Kind::Stream)? else { return Ok(false) };
        let stream = Stream::load(tx, found.entry)?;
        let Some(group) = stream.group(tx, group)? else { return Ok(false) };
        group.walk(tx, (Id::MIN, Id::MAX), None, &mut |tx, id, pending| {
            each((id.ms, id.seq), &pending.consumer().name(tx)?);
            Ok::<bool, Error>(true)
        })?;
        Ok(true)
    }

    /// Frees a part of the values that were too large to be freed when they were removed. Returns whether there is
    /// more.
    ///
    /// # Errors
    /// As the transaction.
    pub fn sweep(self, tx: &mut dyn Tx) -> Result<bool> {
        garbage::sweep(tx, self.header, FREED)
    }

    fn db(self) -> Database {
        Database::new(self.header, 0)
    }

    /// A key's value, which must be of this kind.
    fn look(self, tx: &mut dyn Tx, key: &[u8], kind: Kind) -> Result<Option<Found>> {
        let found = self.db().find(tx, key)?.filter(|found| !is_expired(*found));
        of_kind(found, kind)
    }

    /// The same, to be changed: an expired value is removed.
    fn claim(self, tx: &mut dyn Tx, key: &[u8], kind: Kind) -> Result<Option<Found>> {
        match self.db().find(tx, key)? {
            Some(found) if is_expired(found) => {
                self.db().remove(tx, key)?;
                Ok(None)
            }
            found => of_kind(found, kind),
        }
    }
}

/// Whether a key's time has come. The clock is read only for those that have one.
fn is_expired(found: Found) -> bool {
    found.entry.expires().is_some() && found.entry.expired(now())
}

fn of_kind(found: Option<Found>, kind: Kind) -> Result<Option<Found>> {
    match found {
        Some(found) if found.entry.kind() != kind => {
            Err(Error::Invalid("the key holds another kind of value: remove it, or use another"))
        }
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;
    use std::collections::BTreeSet;

    /// Blocks that the keyspace reaches, all of it whole.
    fn reached(heap: &mut TestHeap) -> usize {
        let mut blocks = BTreeSet::new();
        let mut visit = |at| {
            assert!(blocks.insert(at), "the block at {at:#x} is there twice");
            Ok(())
        };
        assert!(keyspace::check(heap, &mut visit).expect("a whole keyspace").is_some());
        blocks.len()
    }

    #[test]
    fn everything_is_freed_sooner_or_later() {
        let mut heap = TestHeap::new();
        let keyspace = Keyspace::open_seeded(&mut heap, 1).expect("a keyspace");
        let (value, many) = ([b'v'; 900], 700);
        for round in 0..2 {
            for index in 0..many {
                let name = format!("name{index}");
                let pairs = [(name.as_bytes(), value.as_slice())];
                keyspace.set_fields(&mut heap, b"hash", &pairs).expect("a field");
                assert!(keyspace.add(&mut heap, b"set", index as f64, name.as_bytes()).unwrap());
            }
            heap.commit();
            assert_eq!(keyspace.members(&mut heap, b"set").expect("a count"), many);
            assert_eq!(reached(&mut heap), heap.live(), "round {round}");
            assert!(keyspace.remove(&mut heap, b"hash").expect("a removal"));
            assert!(keyspace.remove(&mut heap, b"set").expect("a removal"));
            heap.commit();
            assert_eq!(reached(&mut heap), heap.live(), "garbage is reached too");
            while keyspace.sweep(&mut heap).expect("a sweep") {}
            heap.commit();
            assert!(heap.live() < 10, "{} blocks are left", heap.live());
            assert_eq!(reached(&mut heap), heap.live());
        }
    }

    #[test]
    fn sets_and_lists_are_as_the_server_keeps_them() {
        let mut heap = TestHeap::new();
        let keyspace = Keyspace::open(&mut heap).expect("a keyspace");
        for number in 0..3000_u32 {
            let name = number.to_string();
            assert!(keyspace.insert(&mut heap, b"set", name.as_bytes()).unwrap());
            assert!(!keyspace.insert(&mut heap, b"set", name.as_bytes()).unwrap());
            let end = if number % 2 == 0 { End::Left } else { End::Right };
            keyspace.push(&mut heap, b"list", end, name.as_bytes()).unwrap();
        }
        heap.commit();
        let (mut members, mut elements) = (BTreeSet::new(), Vec::new());
        let there = keyspace.each_member(&mut heap, b"set", &mut |member| {
            members.insert(member.to_vec());
        });
        assert!(there.unwrap() && members.len() == 3000);
        let there = keyspace.each_element(&mut heap, b"list", &mut |element| {
            elements.push(element.to_vec());
            elements.len() < 2
        });
        assert!(there.unwrap());
        assert_eq!(elements, [b"2998".to_vec(), b"2996".to_vec()]);
        assert_eq!(reached(&mut heap), heap.live());
        for number in 0..3000_u32 {
            let name = number.to_string();
            assert!(keyspace.withdraw(&mut heap, b"set", name.as_bytes()).unwrap());
            assert!(keyspace.pop(&mut heap, b"list", End::Right).unwrap().is_some());
        }
        assert!(!keyspace.withdraw(&mut heap, b"set", b"1").unwrap());
        assert_eq!(keyspace.pop(&mut heap, b"list", End::Left).unwrap(), None);
        assert!(!keyspace.each_element(&mut heap, b"list", &mut |_| true).unwrap());
        while keyspace.sweep(&mut heap).expect("a sweep") {}
        heap.commit();
        assert_eq!(reached(&mut heap), heap.live());
        assert!(heap.live() < 10, "{} blocks are left", heap.live());
    }

    #[test]
    fn streams_are_walked() {
        let mut heap = TestHeap::new();
        let keyspace = Keyspace::open(&mut heap).expect("a keyspace");
        let mut stream = Stream::create(&mut heap).unwrap();
        stream.create_group(&mut heap, b"group", Id::MIN, None).unwrap();
        let group = stream.group(&mut heap, b"group").unwrap().expect("the group");
        let one = group.create_consumer(&mut heap, b"one", 5).unwrap();
        for ms in 1..=300 {
            let id = Id { ms, seq: 2 };
            stream.append(&mut heap, id, [b"field".as_slice(), b"value"].into_iter(), 100).unwrap();
            if ms % 100 == 0 {
                group.assign(&mut heap, id, one, (7, 1)).unwrap();
            }
        }
        let entry = stream.save(&mut heap).unwrap();
        keyspace.db().put(&mut heap, b"stream", None, entry).unwrap();
        heap.commit();
        let (mut count, mut pending) = (0, Vec::new());
        let there = keyspace.each_entry(&mut heap, b"stream", &mut |(ms, seq), texts| {
            count += 1;
            assert_eq!((ms, seq, texts), (count, 2, [b"field".as_slice(), b"value"].as_slice()));
        });
        assert!(there.unwrap() && count == 300);
        let there = keyspace.each_pending(&mut heap, b"stream", b"group", &mut |id, consumer| {
            pending.push((id, consumer.to_vec()));
        });
        let expected = [100, 200, 300].map(|ms| ((ms, 2), b"one".to_vec()));
        assert!(there.unwrap() && pending == expected);
        assert!(!keyspace.each_entry(&mut heap, b"none", &mut |_, _| {}).unwrap());
        assert!(!keyspace.each_pending(&mut heap, b"stream", b"no", &mut |_, _| {}).unwrap());
    }

    #[test]
    fn expiries_are_as_the_server_keeps_them() {
        let mut heap = TestHeap::new();
        let keyspace = Keyspace::open(&mut heap).expect("a keyspace");
        assert_eq!(Keyspace::find(&mut heap).expect("a look"), Some(keyspace));
        let db = keyspace.db();
        let expire = |heap: &mut TestHeap, key: &[u8], time| {
            let found = db.find(heap, key).unwrap().expect("the key");
            db.put(heap, key, Some(found), found.entry.expiring(Some(time))).unwrap();
        };
        for key in [b"past".as_slice(), b"future"] {
            keyspace.set_fields(&mut heap, key, &[(b"f", b"old")]).unwrap();
        }
        let future = now() + 1_000_000;
        expire(&mut heap, b"past", 1);
        expire(&mut heap, b"future", future);
        assert!(!keyspace.fields(&mut heap, b"past", &mut |_, _| {}).unwrap());
        assert_eq!(keyspace.field(&mut heap, b"past", b"f").unwrap(), None);
        for key in [b"past".as_slice(), b"future"] {
            keyspace.set_fields(&mut heap, key, &[(b"g", b"new")]).unwrap();
        }
        assert_eq!(keyspace.field(&mut heap, b"past", b"f").unwrap(), None, "it began anew");
        assert_eq!(keyspace.field(&mut heap, b"future", b"f").unwrap(), Some(b"old".to_vec()));
        let found = db.find(&mut heap, b"future").unwrap().expect("the key");
        assert_eq!(found.entry.expires(), Some(future), "it still expires");
        heap.commit();
        assert_eq!(reached(&mut heap), heap.live());
        expire(&mut heap, b"future", 1);
        assert!(!keyspace.remove(&mut heap, b"future").unwrap(), "it had gone");
        assert!(keyspace.remove(&mut heap, b"past").unwrap());
    }

    #[test]
    fn refuses_wrong_types() {
        let mut heap = TestHeap::new();
        let keyspace = Keyspace::open(&mut heap).expect("a keyspace");
        keyspace.set_fields(&mut heap, b"hash", &[(b"f", b"v")]).unwrap();
        keyspace.add(&mut heap, b"set", 1.0, b"m").unwrap();
        let invalid = |error: Error| matches!(error, Error::Invalid(_));
        assert!(invalid(keyspace.add(&mut heap, b"hash", 1.0, b"m").unwrap_err()));
        assert!(invalid(keyspace.field(&mut heap, b"set", b"f").unwrap_err()));
        assert!(invalid(keyspace.add(&mut heap, b"set", f64::NAN, b"m").unwrap_err()));
        assert!(keyspace.take(&mut heap, b"set", b"m").unwrap());
        assert!(!keyspace.remove(&mut heap, b"set").unwrap(), "an empty set is no key");
        let mut other = TestHeap::new();
        other.set_root("redis", perdura::Root { at: 4096, kind: 1007 }).unwrap();
        let refused = Keyspace::open(&mut other).unwrap_err().to_string();
        assert!(refused.contains("serve another pool"), "{refused}");
    }
}
