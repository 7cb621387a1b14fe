//! Durable puts of small values: the work by which embedded stores are compared.
//!
//! [`Puts`] describes the puts, and gives every library the same keys and values in the same order. A [`Library`] opens
//! a [`Store`] in a folder, each thread puts through a [`Session`] of its own, and [`run`] times them, has the store
//! closed and opened again, and compares every key with the value put last.
//!
//! To add a store: implement [`Library`] in a file of `stores`, and name it there. When `put` returns, its data must be
//! as durable as the library makes anything.

mod run;

pub use run::{PutFigure, run};

use crate::Result;
use perdura_workloads::random::{Random, splitmix64};
use serde::Serialize;
use std::ops::Range;
use std::path::Path;

/// A key. Neighbouring numbers have keys that are not neighbours in order.
pub type Key = [u8; 16];

/// A key and its new value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// The key, which may be present already.
    pub key: Key,
    /// Incompressible bytes.
    pub value: Vec<u8>,
}

/// The parameters of the puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Puts {
    /// Puts of all threads together.
    pub puts: u64,
    /// Different keys, drawn uniformly; each may be put more than once, or never.
    pub keys: u64,
    /// Bytes in a value.
    pub value_bytes: usize,
    /// Puts in a transaction.
    pub batch: u64,
    /// Threads.
    pub threads: u32,
    /// Whether the threads put the same keys; otherwise each has its own part of them.
    pub shared: bool,
    /// The root of everything random.
    pub seed: u64,
}

impl Puts {
    /// The key with this number. Different numbers of a seed have different keys.
    pub fn key(&self, number: u64) -> Key {
        let mut key = Key::default();
        key[..8].copy_from_slice(&splitmix64(number ^ self.seed).to_be_bytes());
        key[8..].copy_from_slice(&number.to_be_bytes());
        key
    }

    /// A thread's puts, in order.
    pub fn stream(&self, thread: u32) -> Stream {
        let keys = if self.shared { 0..self.keys } else { self.part(self.keys, thread) };
        Stream { puts: *self, random: Random::new(self.seed, thread.into()), keys, number: 0 }
    }

    /// How many puts a thread makes.
    pub fn share(&self, thread: u32) -> u64 {
        let share = self.part(self.puts, thread);
        share.end - share.start
    }

    fn part(&self, total: u64, thread: u32) -> Range<u64> {
        let cut = |thread: u32| {
            (u128::from(total) * u128::from(thread) / u128::from(self.threads.max(1))) as u64
        };
        cut(thread)..cut(thread + 1)
    }

    /// Bytes of all keys and values, if every key is present.
    pub fn data_bytes(&self) -> u64 {
        let value = self.value_bytes as u64;
        self.keys.min(self.puts).saturating_mul(value.saturating_add(size_of::<Key>() as u64))
    }
}

/// One thread's puts, one after the other.
#[derive(Clone, Debug)]
pub struct Stream {
    puts: Puts,
    random: Random,
    keys: Range<u64>,
    number: u64,
}

impl Stream {
    /// Sets `put` to the next one.
    pub fn next(&mut self, put: &mut Put) {
        self.number = self.keys.start + self.random.below(self.keys.end - self.keys.start);
        put.key = self.puts.key(self.number);
        put.value.resize(self.puts.value_bytes, 0);
        for part in put.value.chunks_mut(8) {
            part.copy_from_slice(&self.random.word().to_le_bytes()[..part.len()]);
        }
    }

    /// The number of the last put's key.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// An embedded store, configured as its authors recommend.
pub trait Library {
    /// Its name in tables, with its version.
    fn name(&self) -> &str;

    /// Its settings, in words: above all what makes a put durable.
    fn settings(&self) -> &str;

    /// Opens the store in `folder`, or creates it; runs `work` on it; closes it.
    ///
    /// # Errors
    /// `Failed` with the store's own message; errors of `work`.
    fn open(&self, folder: &Path, puts: &Puts, work: Work<'_>) -> Result<()>;
}

/// Work on an open store.
pub type Work<'a> = &'a mut dyn FnMut(&dyn Store) -> Result<()>;

/// An open store that threads share.
pub trait Store: Sync {
    /// A session for the calling thread.
    ///
    /// # Errors
    /// `Failed` with the store's own message.
    fn session(&self) -> Result<Box<dyn Session + '_>>;
}

/// One thread's access to a store.
pub trait Session {
    /// Puts all of `batch` in one transaction; returns when it is durable.
    ///
    /// # Errors
    /// `Failed` with the store's own message.
    fn put(&mut self, batch: &[Put]) -> Result<()>;

    /// A key's value, if the key is present.
    ///
    /// # Errors
    /// `Failed` with the store's own message.
    fn get(&mut self, key: &Key) -> Result<Option<Vec<u8>>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PUTS: Puts = Puts {
        puts: 1_001,
        keys: 100,
        value_bytes: 13,
        batch: 1,
        threads: 3,
        shared: false,
        seed: 5,
    };

    fn numbers(puts: &Puts, thread: u32) -> BTreeSet<u64> {
        let (mut stream, mut put) = (puts.stream(thread), Put::default());
        let share = 0..puts.share(thread);
        share
            .map(|_| {
                stream.next(&mut put);
                assert_eq!((put.key, put.value.len()), (puts.key(stream.number()), 13));
                stream.number()
            })
            .collect()
    }

    #[test]
    fn threads_share_the_puts_and_the_keys_only_if_asked_to() {
        assert_eq!((0..3).map(|thread| PUTS.share(thread)).sum::<u64>(), 1_001);
        let parts: Vec<_> = (0..3).map(|thread| numbers(&PUTS, thread)).collect();
        assert!(parts[0].is_disjoint(&parts[1]) && parts[1].is_disjoint(&parts[2]));
        assert!(parts.iter().flatten().all(|&number| number < 100));
        let shared = Puts { shared: true, ..PUTS };
        assert!(!numbers(&shared, 0).is_disjoint(&numbers(&shared, 1)));
    }

    #[test]
    fn a_seed_gives_the_same_puts_and_another_one_others() {
        let puts = |puts: Puts| {
            let (mut stream, mut put) = (puts.stream(1), Put::default());
            stream.next(&mut put);
            put
        };
        assert_eq!(puts(PUTS), puts(PUTS));
        let other = puts(Puts { seed: 6, ..PUTS });
        assert!(other.value != puts(PUTS).value);
        let keys: BTreeSet<Key> = (0..100).map(|number| PUTS.key(number)).collect();
        assert_eq!(keys.len(), 100);
        assert!(!keys.contains(&Puts { seed: 6, ..PUTS }.key(7)));
    }
}
