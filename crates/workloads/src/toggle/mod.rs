//! Inserts a key if it is absent, deletes it if it is there (NV-Heaps, LOC): on a hash table, a
//! red-black tree, a B+ tree, and edges in a graph.
//!
//! Keys are drawn uniformly from twice as many as there are entries, every second of which is there
//! at first. So half of the operations insert, half delete, and the size stays. A key's value
//! follows from it. The keys are the numbers from 0 on, or a list ([`Toggles::among`]).
//!
//! Toggles of a key commute, whichever thread does them: an even number of toggles leaves the key as
//! it was at first, an odd number does not. So threads may share all keys, and the model is a bit
//! for each key, flipped when a transaction has committed.

#[cfg(test)]
pub(crate) mod tests;

use crate::list::{self, Given, Listed, OnWorkload, Row};
use crate::random::Random;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit;
use perdura::{Result, Root, Tx};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Toggles in one transaction of the load.
const LOAD_BATCH: usize = 64;

/// Called with every key and value of a set.
pub type Pairs<'a> = dyn FnMut(u64, u64) -> Result<()> + 'a;

/// A set of keys, each with a value that follows from it, in the heap.
pub trait KeySet: Copy + Send + Sync {
    /// Its name, a word: its root is `bench.NAME`.
    const NAME: &'static str;
    /// The kind of its root.
    const KIND: u32;
    /// Bytes that an entry takes at most, nodes that are half empty included.
    const BYTES_PER_ENTRY: u64;

    /// A new, empty one, for about this many entries, and keys below `below`.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn create<T: Tx + ?Sized>(tx: &mut T, entries: u64, below: u64) -> Result<Self>;

    /// The one whose header is at `at`.
    fn open(at: u64) -> Self;

    /// Where its header is.
    fn at(self) -> u64;

    /// Inserts the key if it is absent, deletes it if it is there; true if it is there now.
    ///
    /// # Errors
    /// As the transaction's reads and writes; `Corrupt` if it is damaged.
    fn toggle<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool>;

    /// Checks all of it, and reports every block of it, and every key with its value.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; the errors of `visit` and `pair`.
    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut Pairs<'_>,
    ) -> Result<()>;
}

/// A set with a row in the list of workloads.
pub trait ListedSet: KeySet + 'static {
    /// A description in one line.
    const LINE: &'static str;
    /// Toggles in a transaction: as many as make as many lines dirty as LOC's paper has.
    const OPS_PER_TX: u64;
}

impl<K: ListedSet> Listed for Toggles<K> {
    const ROW: Row = Row {
        name: K::NAME,
        line: K::LINE,
        parameters: &[
            list::entries("entries at first, and about so many all the time", 65_536),
            list::ops_per_tx("keys toggled in a transaction", K::OPS_PER_TX),
        ],
        operations: |_| 500_000,
        rolls_back: |_| false,
        roots: &[(K::KIND, check_blocks::<K>)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let workload = Toggles::<K>::new(given.entries(), given.ops_per_tx())?;
        let bytes = workload.bytes();
        Ok(code.run(workload, bytes))
    }
}

/// Checks the set that a root leads to, and reports its blocks.
pub(crate) fn check_blocks<K: KeySet>(
    tx: &mut dyn Tx,
    at: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    K::open(at).check(tx, visit, &mut |_, _| Ok(()))
}

/// The value that belongs to a key: 32 bits, as many as the B+ tree has room for.
#[inline]
pub const fn value_of(key: u64) -> u64 {
    (key ^ 0x7066).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// A new, empty set, with its root.
///
/// # Errors
/// As [`KeySet::create`].
pub fn create<K: KeySet, T: Tx + ?Sized>(tx: &mut T, entries: u64, below: u64) -> Result<K> {
    let set = K::create(tx, entries, below)?;
    tx.set_root(&root_name::<K>(), Root { at: set.at(), kind: K::KIND })?;
    Ok(set)
}

/// Toggles each key in turn.
///
/// # Errors
/// As [`KeySet::toggle`].
#[inline]
pub fn toggle<K: KeySet, T: Tx + ?Sized>(tx: &mut T, set: K, keys: &[u64]) -> Result<()> {
    keys.iter().try_for_each(|key| set.toggle(tx, *key).map(drop))
}

fn root_name<K: KeySet>() -> String {
    format!("bench.{}", K::NAME)
}

/// The workload.
#[derive(Debug)]
pub struct Toggles<K> {
    entries: u64,
    per_transaction: usize,
    keys: Keys,
    present: Present,
    of: PhantomData<fn() -> K>,
}

/// The keys that are drawn, by number.
#[derive(Debug)]
enum Keys {
    /// A key is its number.
    Numbers,
    Listed {
        keys: Vec<u64>,
        numbers: HashMap<u64, u64>,
        below: u64,
    },
}

impl Keys {
    fn key(&self, number: u64) -> u64 {
        match self {
            Keys::Numbers => number,
            Keys::Listed { keys, .. } => keys[number as usize],
        }
    }

    fn number(&self, key: u64) -> Option<u64> {
        match self {
            Keys::Numbers => Some(key),
            Keys::Listed { numbers, .. } => numbers.get(&key).copied(),
        }
    }

    fn below(&self, entries: u64) -> u64 {
        match self {
            Keys::Numbers => 2 * entries,
            Keys::Listed { below, .. } => *below,
        }
    }
}

/// Which keys should be there: a bit for the number of each.
#[derive(Debug)]
struct Present(Vec<AtomicU64>);

impl Present {
    fn flip(&self, number: u64) {
        self.0[(number / 64) as usize].fetch_xor(1 << (number % 64), Ordering::Relaxed);
    }

    fn has(&self, number: u64) -> bool {
        let word = self.0.get((number / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (number % 64) != 0)
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

impl<K: KeySet> Toggles<K> {
    /// About `entries` entries, `per_transaction` toggles in a transaction.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(entries: u64, per_transaction: usize) -> Outcome<Self> {
        Self::with(entries, per_transaction, Keys::Numbers)
    }

    /// Toggles these keys, all different and less than `below`; every second one, from the first on, is there at
    /// first.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn among(keys: Vec<u64>, below: u64, per_transaction: usize) -> Outcome<Self> {
        let numbers: HashMap<u64, u64> = keys.iter().copied().zip(0..).collect();
        if numbers.len() < keys.len() || !keys.len().is_multiple_of(2) {
            let what = "toggling needs keys that differ, an even number of them";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let entries = keys.len() as u64 / 2;
        Self::with(entries, per_transaction, Keys::Listed { keys, numbers, below })
    }

    fn with(entries: u64, per_transaction: usize, keys: Keys) -> Outcome<Self> {
        if entries == 0 || entries > 1 << 32 || per_transaction == 0 {
            let what = "toggling needs an entry at least (and 2^32 at most), and a toggle in a transaction";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let words = (2 * entries).div_ceil(64);
        let present = Present((0..words).map(|_| AtomicU64::new(0)).collect());
        Ok(Toggles { entries, per_transaction, keys, present, of: PhantomData })
    }

    /// Upper bound of the bytes of the entries.
    pub fn bytes(&self) -> u64 {
        self.entries.saturating_mul(K::BYTES_PER_ENTRY)
    }

    fn open<S: Session>(&self, session: &mut S) -> Outcome<K> {
        let root = session.read(|tx| tx.root(&root_name::<K>()))?;
        root.map(|root| K::open(root.at)).ok_or_else(|| Failure::wrong("the set's root is gone"))
    }

    /// Toggles the keys of these numbers in a transaction.
    fn toggle_all<S: Session>(&self, session: &mut S, set: K, numbers: &[u64]) -> Outcome {
        session.transaction(|tx| {
            numbers.iter().try_for_each(|number| set.toggle(tx, self.keys.key(*number)).map(drop))
        })?;
        numbers.iter().for_each(|number| self.present.flip(*number));
        Ok(())
    }
}

/// The numbers below `total` in a fixed random order.
pub(crate) fn shuffled(total: u64) -> Vec<u64> {
    let (mut numbers, mut random): (Vec<u64>, _) = ((0..total).collect(), Random::new(total, 0));
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers
}

impl<K: KeySet> Workload for Toggles<K> {
    const KINDS: &'static [&'static str] = &["toggle"];
    const BY_HANDLE: bool = true;

    fn load_size(&self) -> u64 {
        self.entries
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let below = self.keys.below(self.entries);
        let set = session.transaction(|tx| create::<K, _>(tx, self.entries, below))?;
        for indices in shuffled(self.entries).chunks(LOAD_BATCH) {
            let numbers: Vec<u64> = indices.iter().map(|index| 2 * index).collect();
            self.toggle_all(session, set, &numbers)?;
            progress.loaded(numbers.len() as u64)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let set = self.open(session)?;
        let mut numbers = vec![0; self.per_transaction];
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            // Drawn outside: the body may run more than once.
            numbers.fill_with(|| share.random.below(2 * self.entries));
            recorder.operation(0, || self.toggle_all(session, set, &numbers))?;
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let set = self.open(session)?;
        let mut pairs = session.read(|tx| {
            let mut pairs = Vec::new();
            set.check(tx, &mut |_| Ok(()), &mut |key, value| {
                pairs.push((key, value));
                Ok(())
            })?;
            Ok(pairs)
        })?;
        for &(key, value) in &pairs {
            let number = self.keys.number(key);
            if !number.is_some_and(|number| self.present.has(number)) || value != value_of(key) {
                let what = format!("key {key} should not be there, or not with {value}");
                return Err(Failure::Wrong(what));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let (found, expected) = (pairs.len() as u64, self.present.count());
        if found != expected {
            let what = format!("{found} keys are there, there should be {expected}");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}
