//! Inserts, removals and look-ups of words, on a hash map or an ordered map.
//!
//! Keys are drawn uniformly from a domain of which half is there at the start; a quarter of the
//! operations insert, a quarter remove, and half look up. So half of each kind have an effect, and
//! the size stays about the same. A key's value follows from it; the number of keys at the end must
//! agree with the threads' successful inserts and removals.

use crate::list::{self, Given, Listed, OnWorkload, Row};
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::{HashMap, OrderedMap, kind};
use perdura::{Result, Root, Tx};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, Ordering};

const ROOT: &str = "bench.map";
/// Keys inserted by one transaction of the load.
const LOAD_BATCH: u64 = 64;

/// A map from words to words that lives in the heap.
pub trait WordMap: Copy + Send + Sync + 'static {
    /// The workload's name, and a description in one line.
    const NAMED: [&'static str; 2];
    /// Its kind, in the catalogue of roots.
    const KIND: u32;

    /// A new, empty one.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self>;

    /// The one whose header is at `at`.
    fn open(at: u64) -> Self;

    /// Where its header is.
    fn at(self) -> u64;

    /// Inserts a key unless it is there, as the baselines do; true if it was not.
    ///
    /// # Errors
    /// As the transaction's reads and writes.
    fn insert<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<bool>;

    /// Removes a key; true if it was there.
    ///
    /// # Errors
    /// As the transaction's reads and writes.
    fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool>;

    /// A key's value.
    ///
    /// # Errors
    /// As the transaction's reads.
    fn find<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<Option<u64>>;

    /// The number of keys.
    ///
    /// # Errors
    /// As the transaction's reads.
    fn len<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64>;
}

macro_rules! word_map {
    ($map:ty, $kind:expr, $name:literal, $line:literal) => {
        impl WordMap for $map {
            const NAMED: [&'static str; 2] = [$name, $line];

            const KIND: u32 = $kind;

            fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self> {
                <$map>::create(tx)
            }

            fn open(at: u64) -> Self {
                <$map>::new(at)
            }

            fn at(self) -> u64 {
                <$map>::at(self)
            }

            #[inline]
            fn insert<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<bool> {
                self.insert_if_absent(tx, key, value)
            }

            #[inline]
            fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<bool> {
                Ok(<$map>::remove(self, tx, key)?.is_some())
            }

            #[inline]
            fn find<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<Option<u64>> {
                self.get(tx, key)
            }

            fn len<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
                <$map>::len(self, tx)
            }
        }
    };
}

word_map!(
    HashMap<u64, u64>,
    kind::HASH_MAP,
    "hash-map",
    "25 % inserts, 25 % removals, 50 % look-ups in the heap's hash map"
);
word_map!(OrderedMap<u64, u64>, kind::ORDERED_MAP, "ordered-map", "the same in its ordered map");

/// The workload on a [`HashMap`].
pub type OnHashMap = Maps<HashMap<u64, u64>>;
/// The workload on an [`OrderedMap`].
pub type OnOrderedMap = Maps<OrderedMap<u64, u64>>;

/// The workload.
#[derive(Debug)]
pub struct Maps<M> {
    keys: u64,
    maps: u64,
    /// Keys that should be there.
    expected: AtomicI64,
    of: PhantomData<fn() -> M>,
}

/// The value that belongs to a key.
#[inline]
const fn value_of(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD0
}

const fn is_loaded(key: u64) -> bool {
    key.is_multiple_of(2)
}

impl<M: WordMap> Maps<M> {
    /// `keys` keys (at least 2), in one map for all threads, or in one for each of `maps`
    /// threads that never touch another's.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(keys: u64, maps: usize) -> Outcome<Self> {
        let maps = maps.max(1) as u64;
        if keys / maps < 2 {
            return Err(Failure::Parameters("a map needs at least two keys".to_owned()));
        }
        Ok(Maps { keys, maps, expected: AtomicI64::new(0), of: PhantomData })
    }

    fn root(map: u64) -> String {
        format!("{ROOT}.{map}")
    }

    fn open<S: Session>(&self, session: &mut S, map: u64) -> Outcome<M> {
        let root = session.read(|tx| tx.root(&Self::root(map)))?;
        root.map(|root| M::open(root.at)).ok_or_else(|| Failure::wrong("the map's root is gone"))
    }

    /// Keys in each map's domain.
    fn domain(&self) -> u64 {
        self.keys / self.maps
    }

    fn load_map<S: Session>(&self, session: &mut S, map: u64, progress: &Progress) -> Outcome {
        let handle = session.transaction(|tx| {
            let map_handle = M::create(tx)?;
            let root = Root { at: map_handle.at(), kind: M::KIND };
            tx.set_root(&Self::root(map), root)?;
            Ok(map_handle)
        })?;
        for first in (0..self.domain()).step_by(LOAD_BATCH as usize) {
            let end = self.domain().min(first + LOAD_BATCH);
            let loaded = session.transaction(|tx| {
                let mut loaded = 0;
                for key in (first..end).filter(|key| is_loaded(*key)) {
                    loaded += i64::from(handle.insert(tx, key, value_of(key))?);
                }
                Ok(loaded)
            })?;
            self.expected.fetch_add(loaded, Ordering::Relaxed);
            progress.loaded(end - first)?;
        }
        Ok(())
    }

    fn check_map<S: Session>(&self, session: &mut S, map: u64) -> Outcome<i64> {
        let handle = self.open(session, map)?;
        let mut present = 0;
        for first in (0..self.domain()).step_by(LOAD_BATCH as usize) {
            let end = self.domain().min(first + LOAD_BATCH);
            present += session.read(|tx| {
                let mut present = Ok(0);
                for key in first..end {
                    match (handle.find(tx, key)?, &mut present) {
                        (Some(value), Ok(count)) if value == value_of(key) => *count += 1,
                        (Some(_), _) => present = Err(wrong_value(key)),
                        (None, _) => {}
                    }
                }
                Ok(present)
            })??;
        }
        let len = session.read(|tx| handle.len(tx))?;
        if len as i64 == present {
            return Ok(present);
        }
        Err(Failure::Wrong(format!("the map says that it has {len} keys, {present} were found")))
    }
}

#[cold]
fn wrong_value(key: u64) -> Failure {
    Failure::Wrong(format!("key {key} has another's value"))
}

/// The change in the number of keys by an operation, or the value that it found.
enum OperationEffect {
    Changed(i64),
    Found(Option<u64>),
}

/// The maximum number of bytes that a key takes, half-empty nodes included.
const BYTES_PER_KEY: u64 = 64;

impl<M: WordMap> Listed for Maps<M> {
    const ROW: Row = Row {
        name: M::NAMED[0],
        line: M::NAMED[1],
        parameters: &[
            list::entries("keys that are drawn; half of them are there", 65_536),
            list::disjoint("each thread has a map of its own, with its part of the keys"),
        ],
        operations: |_| 2_000_000,
        rolls_back: |_| false,
        roots: &[],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let keys = given.entries();
        Ok(code.run(Self::new(keys, given.parts())?, keys.saturating_mul(BYTES_PER_KEY)))
    }
}

impl<M: WordMap> Workload for Maps<M> {
    const KINDS: &'static [&'static str] = &["insert", "remove", "look-up"];

    const STATIC: bool = true;

    fn load_size(&self) -> u64 {
        self.domain() * self.maps
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        (0..self.maps).try_for_each(|map| self.load_map(session, map, progress))
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let map = self.open(session, share.thread as u64 % self.maps)?;
        let domain = self.domain();
        let mut changed = 0;
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let kind = (share.random.below(4) as usize).min(2);
            let key = share.random.below(domain);
            let done = recorder.operation(kind, || match kind {
                0 => session.transaction(|tx| {
                    Ok(OperationEffect::Changed(i64::from(map.insert(tx, key, value_of(key))?)))
                }),
                1 => session.transaction(|tx| {
                    Ok(OperationEffect::Changed(-i64::from(map.remove(tx, key)?)))
                }),
                _ => session.read(|tx| Ok(OperationEffect::Found(map.find(tx, key)?))),
            })?;
            match done {
                OperationEffect::Changed(by) => changed += by,
                OperationEffect::Found(Some(value)) if value != value_of(key) => {
                    return Err(wrong_value(key));
                }
                OperationEffect::Found(_) => {}
            }
        }
        self.expected.fetch_add(changed, Ordering::Relaxed);
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let mut present = 0;
        for map in 0..self.maps {
            present += self.check_map(session, map)?;
        }
        let expected = self.expected.load(Ordering::Relaxed);
        if present != expected {
            let what = format!("{present} keys are there, there should be {expected}");
            return Err(Failure::Wrong(what));
        }
        Ok(())
    }
}
