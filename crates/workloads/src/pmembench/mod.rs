//! pmembench's `map_insert`, `map_remove` and `map_get`, on two of PMDK's maps: the crit-bit tree `ctree` and the hash
//! table `hashmap_tx`. Reimplemented from the behaviour of PMDK's programs.
//!
//! Each thread inserts, removes or looks up its part of the keys, each once and in a transaction; unless they are to
//! be inserted, all keys are loaded before. Keys are random words. What always holds: no key is drawn twice, so that
//! at the end either all keys are there, or none.

pub mod ctree;
pub mod hashmap_tx;
#[cfg(test)]
mod tests;

use crate::list::{self, Given, Listed, OnWorkload, Row};
use crate::random::{Random, splitmix64};
use crate::stamp::party::Meeting;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit;
use perdura::{Result, Root, Tx};
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
    /// Bytes that a key takes at most.
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
    /// `Corrupt` if it is damaged; what `visit` and `pair` return.
    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()>;
}

/// The value that belongs to a key.
const fn value_of(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x706D
}

/// The workload.
#[derive(Debug)]
pub struct MapBench<M> {
    operation: Operation,
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
        Ok(MapBench { operation, keys: drawn, order, meeting: Meeting::default(), of: PhantomData })
    }

    /// Bytes that the keys take at most.
    pub fn bytes(&self) -> u64 {
        self.keys.len() as u64 * M::BYTES_PER_KEY
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
        let value = value_of(key);
        match self.operation {
            Operation::Insert => {
                let (new, then) = session.transaction(|tx| map.insert(tx, key, value))?;
                Self::then(session, map, then)?;
                Ok(new)
            }
            Operation::Remove => {
                let (removed, then) = session.transaction(|tx| map.remove(tx, key))?;
                Self::then(session, map, then)?;
                Ok(removed == Some(value))
            }
            Operation::Get => Ok(session.read(|tx| map.get(tx, key))? == Some(value)),
        }
    }
}

/// The workload of one [`Operation`], by its number.
pub struct Each<M, const OPERATION: usize>(PhantomData<M>);

impl<M: PmdkMap, const OPERATION: usize> Listed for Each<M, OPERATION> {
    const ROW: Row = Row {
        name: M::NAMED[OPERATION][0],
        line: M::NAMED[OPERATION][1],
        parameters: &[list::entries("keys, each used once and in a transaction", 10_000)],
        operations: |values| values.entries(),
        rolls_back: false,
        roots: &[(M::KIND, check_blocks::<M>)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let workload = MapBench::<M>::new(Operation::ALL[OPERATION], given.entries(), given.seed)?;
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
            tx.set_root(&Self::root(), Root { at: map.at(), kind: M::KIND })?;
            Ok(map)
        })?;
        let loaded = &self.keys[..self.load_size() as usize];
        for keys in loaded.chunks(LOAD_BATCH as usize) {
            let then = session.transaction(|tx| {
                let mut last = Then::Nothing;
                for key in keys {
                    match map.insert(tx, *key, value_of(*key))?.1 {
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
        let mut pairs = session.read(|tx| {
            let mut pairs = Vec::new();
            map.check(tx, &mut |_| Ok(()), &mut |key, value| {
                pairs.push((key, value));
                Ok(())
            })?;
            Ok(pairs)
        })?;
        if self.meeting.was_left() {
            return Ok(());
        }
        let left = if self.operation == Operation::Remove { &[][..] } else { &self.keys };
        let mut expected: Vec<_> = left.iter().map(|key| (*key, value_of(*key))).collect();
        expected.sort_unstable();
        pairs.sort_unstable();
        if pairs != expected {
            let (found, expected) = (pairs.len(), expected.len());
            let what =
                format!("{found} keys are there, which are not the {expected} that should be");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}

/// Checks the map that a root leads to, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; what `visit` returns.
pub fn check_blocks<M: PmdkMap>(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    M::open(at).check(tx, visit, &mut |_, _| Ok(()))
}
