//! pmembench's `map_insert`, `map_remove` and `map_get`, on two of PMDK's maps: the crit-bit tree `ctree` and the hash
//! table `hashmap_tx`. Reimplemented from the behaviour of PMDK's programs.
//!
//! Each thread inserts, removes or looks up its part of the keys, each once and in a transaction; unless they are to
//! be inserted, all keys are loaded before. Keys are random words. A value is the word that the map has with its key, or,
//! if it is longer, a block of its own, which the word points to: allocated by the transaction that inserts the key, and
//! freed by the one that removes it. Invariants: no key is drawn twice, so that at the end either all keys are
//! there, or none.

pub mod ctree;
pub mod hashmap_tx;
#[cfg(test)]
mod tests;

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::payload;
use crate::random::{Random, splitmix64};
use crate::stamp::block::WORD;
use crate::stamp::party::Meeting;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Root, Tx};
use std::marker::PhantomData;

/// Keys inserted by one transaction of the load.
const LOAD_BATCH: u64 = 64;

/// The operation on the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `map_insert`: into an empty map.
    Insert,
    /// `map_remove`: until the map is empty.
    Remove,
    /// `map_get`.
    Get,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 3] = [Operation::Insert, Operation::Remove, Operation::Get];
}

/// Work left after an insertion or a removal, to be done in a separate transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// The map should be rebuilt with this many buckets.
    Rebuild(u64),
}

/// A map of PMDK's.
pub trait PmdkMap: Copy + Send + Sync + 'static {
    /// Its name: its root is `bench.NAME`.
    const NAME: &'static str;
    /// The names of its workloads, and their descriptions in one line, by [`Operation`].
    const NAMED: [[&'static str; 2]; 3];
    /// The kind of its root.
    const KIND: u32;
    /// The same if its values are blocks.
    const KIND_OF_BLOCKS: u32;
    /// Upper bound of the bytes of a key.
    const BYTES_PER_KEY: u64;

    /// A new, empty one.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self>;

    /// The one whose header is at `at`.
    fn open(at: u64) -> Self;

    /// Where its header is.
    fn at(self) -> u64;

    /// Inserts a key, which is not 0, or replaces its value; false if it was there.
    ///
    /// # Errors
    /// As the transaction's reads and writes; `Corrupt` if the map is damaged.
    fn insert<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<(bool, Then)>;

    /// Removes a key; its value if it was there.
    ///
    /// # Errors
    /// As the transaction's reads and writes; `Corrupt` if the map is damaged.
    fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<(Option<u64>, Then)>;

    /// A key's value.
    ///
    /// # Errors
    /// As the transaction's reads; `Corrupt` if the map is damaged.
    fn get<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<Option<u64>>;

    /// Rebuilds the map, if that is still needed.
    ///
    /// # Errors
    /// As the transaction's reads and writes; `Corrupt` if the map is damaged.
    fn rebuild<T: Tx + ?Sized>(self, tx: &mut T, buckets: u64) -> Result<()>;

    /// Checks all of it, and reports every block of it, and every key with its value.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; the errors of `visit` and `pair`.
    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()>;
}

/// The value that belongs to a key, if it is a word.
const fn value_of(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x706D
}

/// Bytes of the longest value.
const LONGEST: u64 = 1 << 20;

/// Values of this many bytes.
#[derive(Clone, Copy, Debug)]
struct ValueLen(u64);

impl ValueLen {
    /// Whether values are blocks.
    const fn is_block(self) -> bool {
        self.0 > WORD
    }

    /// The word that the map gets for a new key.
    fn put<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<u64> {
        if !self.is_block() {
            return Ok(value_of(key));
        }
        let mut bytes = vec![0; self.0 as usize];
        payload::fill(key, value_of(key), &mut bytes);
        let new = tx.allocate(Purpose::Value, self.0)?;
        tx.write_fresh(new, 0, &bytes)?;
        Ok(new.at())
    }

    /// Whether the word that the map has is the key's, with its block.
    fn is_right<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<bool> {
        if !self.is_block() {
            return Ok(value == value_of(key));
        }
        if tx.usable(value)? < self.0 {
            return Err(Error::corrupt("a value that is too short", value));
        }
        let mut bytes = vec![0; self.0 as usize];
        tx.read_bytes(value, &mut bytes)?;
        Ok(payload::verify(key, &bytes) == Some(value_of(key)))
    }

    /// Frees the block of a value that was removed; false if it is another key's.
    fn free<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<bool> {
        if !self.is_block() {
            return Ok(value == value_of(key));
        }
        // The version, which differs between keys: a removal need not read the rest.
        let is_right = tx.read_word(value)? == value_of(key).to_le();
        tx.free(value)?;
        Ok(is_right)
    }
}

/// The workload.
#[derive(Debug)]
pub struct MapBench<M> {
    operation: Operation,
    value_len: ValueLen,
    keys: Vec<u64>,
    /// Keys in the order in which they are removed or looked up, by number.
    order: Vec<u64>,
    meeting: Meeting,
    of: PhantomData<fn() -> M>,
}

impl<M: PmdkMap> MapBench<M> {
    /// Does `operation` with this number of keys, which follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(operation: Operation, keys: u64, seed: u64) -> Outcome<Self> {
        if keys == 0 || keys > 1 << 32 {
            let what = "a map needs a key (2^32 at most)";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let mut random = Random::new(seed, 1 << 33);
        let first = random.word();
        // Different words, since mixing is a bijection; the one that may be 0 is left out.
        let mixed = (0..=keys).map(|number| splitmix64(first.wrapping_add(number)));
        let drawn = mixed.filter(|key| *key != 0).take(keys as usize).collect();
        let mut order: Vec<u64> = (0..keys).collect();
        if operation != Operation::Insert {
            random.shuffle(&mut order);
        }
        let (value_len, meeting) = (ValueLen(WORD), Meeting::default());
        Ok(MapBench { operation, value_len, keys: drawn, order, meeting, of: PhantomData })
    }

    /// The same with values of this many bytes; more than 8 are a block.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn with_values(self, bytes: u64) -> Outcome<Self> {
        if !(WORD..=LONGEST).contains(&bytes) {
            let what = "a value has 8 to 2^20 bytes (value-bytes)";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(MapBench { value_len: ValueLen(bytes), ..self })
    }

    /// Upper bound of the bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        let block =
            if self.value_len.is_block() { self.value_len.0 + self.value_len.0 / 2 } else { 0 };
        self.keys.len() as u64 * (M::BYTES_PER_KEY + block)
    }

    /// The kind of the root.
    fn kind(&self) -> u32 {
        if self.value_len.is_block() { M::KIND_OF_BLOCKS } else { M::KIND }
    }

    fn root() -> String {
        format!("bench.{}", M::NAME)
    }

    fn open<S: Session>(session: &mut S) -> Outcome<M> {
        let root = session.read(|tx| tx.root(&Self::root()))?;
        root.map(|root| M::open(root.at)).ok_or_else(|| Failure::wrong("the map's root is gone"))
    }

    fn then<S: Session>(session: &mut S, map: M, then: Then) -> Outcome {
        if let Then::Rebuild(buckets) = then {
            session.transaction(|tx| map.rebuild(tx, buckets))?;
        }
        Ok(())
    }

    /// One key's operation. Returns whether its result was right.
    fn perform<S: Session>(&self, session: &mut S, map: M, key: u64) -> Outcome<bool> {
        let value_len = self.value_len;
        match self.operation {
            Operation::Insert => {
                let (new, then) = session.transaction(|tx| {
                    let value = value_len.put(tx, key)?;
                    map.insert(tx, key, value)
                })?;
                Self::then(session, map, then)?;
                Ok(new)
            }
            Operation::Remove => {
                let (is_right, then) = session.transaction(|tx| {
                    let (removed, then) = map.remove(tx, key)?;
                    let Some(value) = removed else { return Ok((false, then)) };
                    Ok((value_len.free(tx, key, value)?, then))
                })?;
                Self::then(session, map, then)?;
                Ok(is_right)
            }
            Operation::Get => Ok(session.read(|tx| match map.get(tx, key)? {
                Some(value) => value_len.is_right(tx, key, value),
                None => Ok(false),
            })?),
        }
    }
}

/// The workload of one [`Operation`], by its number.
pub struct Each<M, const OPERATION: usize>(PhantomData<M>);

impl<M: PmdkMap, const OPERATION: usize> Listed for Each<M, OPERATION> {
    const ROW: Row = Row {
        name: M::NAMED[OPERATION][0],
        line: M::NAMED[OPERATION][1],
        parameters: &[
            list::entries("keys, each used once and in a transaction", 10_000),
            Parameter {
                name: "value-bytes",
                line: "bytes of a value; more than 8 are a block of its own",
                usual: Usual::Bytes(WORD),
            },
        ],
        operations: |values| values.entries(),
        rolls_back: |_| false,
        roots: &[(M::KIND, check_blocks::<M>), (M::KIND_OF_BLOCKS, check_values::<M>)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let workload = MapBench::<M>::new(Operation::ALL[OPERATION], given.entries(), given.seed)?;
        let workload = workload.with_values(given.values.number("value-bytes"))?;
        let bytes = workload.bytes();
        Ok(code.run(workload, bytes))
    }
}

impl<M: PmdkMap> Workload for MapBench<M> {
    const KINDS: &'static [&'static str] = &["insert", "remove", "get"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        if self.operation == Operation::Insert { 0 } else { self.keys.len() as u64 }
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let map = session.transaction(|tx| {
            let map = M::create(tx)?;
            tx.set_root(&Self::root(), Root { at: map.at(), kind: self.kind() })?;
            Ok(map)
        })?;
        let loaded = &self.keys[..self.load_size() as usize];
        for keys in loaded.chunks(LOAD_BATCH as usize) {
            let then = session.transaction(|tx| {
                let mut last = Then::Nothing;
                for key in keys {
                    let value = self.value_len.put(tx, *key)?;
                    match map.insert(tx, *key, value)?.1 {
                        Then::Nothing => {}
                        then => last = then,
                    }
                }
                Ok(last)
            })?;
            Self::then(session, map, then)?;
            progress.loaded(keys.len() as u64)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let party = self.meeting.join(share.threads);
        let map = Self::open(session)?;
        for number in share.part_of(self.keys.len() as u64) {
            if !recorder.go_on() {
                return Ok(());
            }
            let key = self.keys[self.order[number as usize] as usize];
            let kind = self.operation as usize;
            if !recorder.operation(kind, || self.perform(session, map, key))? {
                return Err(Failure::Wrong(format!("key {key} is not as it was left")));
            }
        }
        party.end();
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let map = Self::open(session)?;
        let mut keys = session.read(|tx| {
            let mut pairs = Vec::new();
            map.check(tx, &mut |_| Ok(()), &mut |key, value| {
                pairs.push((key, value));
                Ok(())
            })?;
            let mut keys = Vec::new();
            for (key, value) in pairs {
                keys.push((key, self.value_len.is_right(tx, key, value)?));
            }
            Ok(keys)
        })?;
        if self.meeting.was_left() {
            return Ok(());
        }
        let left = if self.operation == Operation::Remove { &[][..] } else { &self.keys };
        let mut expected: Vec<_> = left.iter().map(|key| (*key, true)).collect();
        expected.sort_unstable();
        keys.sort_unstable();
        if keys != expected {
            let (found, expected) = (keys.len(), expected.len());
            let what = format!(
                "{found} keys are there, which are not the {expected} that should be, or have other values"
            );
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}

/// Checks the map that a root leads to, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_blocks<M: PmdkMap>(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    M::open(at).check(tx, visit, &mut |_, _| Ok(()))
}

/// The same for a map whose values are blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_values<M: PmdkMap>(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    let mut values = Vec::new();
    M::open(at).check(tx, visit, &mut |_, value| {
        values.push(value);
        Ok(())
    })?;
    values.into_iter().try_for_each(visit)
}
