//! hashmap_tx: a table of chains that is rebuilt with twice as many buckets, or half as many.
//!
//! ```text
//! header   keys, buckets, the table, a, b
//! table    the first entry of each bucket
//! entry    key, value, next
//! ```
//!
//! A key's bucket is `((a * key + b) mod P) mod buckets`. As in PMDK, every insertion and removal changes the count of
//! keys: so any two of them conflict.

use super::{PmdkMap, Then};
use crate::stamp::block::{self, WORD, word};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

const BUCKETS_AT_FIRST: u64 = 10;
/// A chain longer than this makes the table grow.
const LONG: u64 = 10;
/// A chain longer than this makes it grow if there are more than two keys for each bucket.
const RATHER_LONG: u64 = 5;
const P: u64 = 32_212_254_719;
const A: u64 = 2_147_483_629;
const B: u64 = 1_879_048_201;
const HEADER: usize = 5;
const BUCKETS: u64 = 1;
const TABLE: u64 = 2;
/// No chain is longer.
const LONGEST: u64 = 1 << 32;

/// The map whose header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashmapTx(u64);

/// The header's contents.
#[derive(Clone, Copy, Debug)]
struct Table {
    keys: u64,
    buckets: u64,
    at: u64,
    a: u64,
    b: u64,
}

impl Table {
    fn bucket(&self, key: u64) -> u64 {
        let mixed = self.a.wrapping_mul(key).wrapping_add(self.b);
        word(self.at, mixed % P % self.buckets)
    }

    /// The link to the entry of this key, that entry (0 if there is none), and how many come before it.
    fn find<T: Tx + ?Sized>(&self, tx: &mut T, key: u64) -> Result<(u64, u64, u64)> {
        let mut link = self.bucket(key);
        for before in 0..LONGEST {
            let entry = tx.read_word(link)?;
            if entry == 0 || tx.read_word(entry)? == key {
                return Ok((link, entry, before));
            }
            link = word(entry, 2);
        }
        Err(Error::corrupt("a chain without an end", link))
    }
}

impl HashmapTx {
    fn table<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Table> {
        let mut header = [0; HEADER];
        block::read(tx, self.0, &mut header)?;
        let [keys, buckets, at, a, b] = header;
        if buckets == 0 {
            return Err(Error::corrupt("a hash map without buckets", self.0));
        }
        Ok(Table { keys, buckets, at, a, b })
    }

    /// All entries with their keys, by bucket.
    fn entries<T: Tx + ?Sized>(tx: &mut T, table: &Table) -> Result<Vec<(u64, u64)>> {
        let mut entries = Vec::new();
        for bucket in 0..table.buckets {
            let mut entry = tx.read_word(word(table.at, bucket))?;
            while entry != 0 {
                if entries.len() as u64 >= table.keys {
                    return Err(Error::corrupt("more keys than a hash map counts", entry));
                }
                entries.push((entry, tx.read_word(entry)?));
                entry = tx.read_word(word(entry, 2))?;
            }
        }
        Ok(entries)
    }
}

impl PmdkMap for HashmapTx {
    const NAME: &'static str = "hashmap-tx";
    const NAMED: [[&'static str; 2]; 3] = [
        ["hashmap-tx-insert", "PMDK's hash map: each key inserted"],
        ["hashmap-tx-remove", "the same, each key removed"],
        ["hashmap-tx-get", "the same, each key looked up"],
    ];
    const KIND: u32 = 2_020;
    const KIND_OF_BLOCKS: u32 = 2_022;
    const BYTES_PER_KEY: u64 = 32 + 3 * WORD;

    fn create<T: Tx + ?Sized>(tx: &mut T) -> Result<Self> {
        let table = block::new(tx, [0; BUCKETS_AT_FIRST as usize])?;
        block::new(tx, [0, BUCKETS_AT_FIRST, table, A, B]).map(HashmapTx)
    }

    fn open(at: u64) -> Self {
        HashmapTx(at)
    }

    fn at(self) -> u64 {
        self.0
    }

    fn insert<T: Tx + ?Sized>(self, tx: &mut T, key: u64, value: u64) -> Result<(bool, Then)> {
        let table = self.table(tx)?;
        let (_, there, mut chain) = table.find(tx, key)?;
        if there != 0 {
            tx.write_word(word(there, 1), value)?;
            return Ok((false, Then::Nothing));
        }
        let bucket = table.bucket(key);
        let first = tx.read_word(bucket)?;
        let entry = block::new(tx, [key, value, first])?;
        tx.write_word(bucket, entry)?;
        tx.write_word(self.0, table.keys + 1)?;
        chain += 1;
        let full = table.keys + 1 > 2 * table.buckets;
        let grows = chain > LONG || (chain > RATHER_LONG && full);
        let then = if grows { Then::Rebuild(2 * table.buckets) } else { Then::Nothing };
        Ok((true, then))
    }

    fn remove<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<(Option<u64>, Then)> {
        let table = self.table(tx)?;
        let (link, entry, _) = table.find(tx, key)?;
        if entry == 0 {
            return Ok((None, Then::Nothing));
        }
        let (value, next) = (tx.read_word(word(entry, 1))?, tx.read_word(word(entry, 2))?);
        tx.write_word(link, next)?;
        let keys = table.keys.checked_sub(1);
        let keys = keys.ok_or_else(|| Error::corrupt("a hash map that counts no keys", self.0))?;
        tx.write_word(self.0, keys)?;
        tx.free(entry)?;
        let shrinks = keys < table.buckets && table.buckets / 2 >= BUCKETS_AT_FIRST;
        let then = if shrinks { Then::Rebuild(table.buckets / 2) } else { Then::Nothing };
        Ok((Some(value), then))
    }

    fn get<T: Tx + ?Sized>(self, tx: &mut T, key: u64) -> Result<Option<u64>> {
        let table = self.table(tx)?;
        match table.find(tx, key)?.1 {
            0 => Ok(None),
            entry => tx.read_word(word(entry, 1)).map(Some),
        }
    }

    /// Does nothing if another thread has rebuilt it already.
    fn rebuild<T: Tx + ?Sized>(self, tx: &mut T, buckets: u64) -> Result<()> {
        let old = self.table(tx)?;
        if buckets != 2 * old.buckets && buckets != old.buckets / 2 {
            return Ok(());
        }
        let new = Table { buckets, at: 0, ..old };
        let mut firsts = vec![0; buckets as usize];
        for (entry, key) in Self::entries(tx, &old)? {
            let first = &mut firsts[(new.bucket(key) / WORD) as usize];
            tx.write_word(word(entry, 2), *first)?;
            *first = entry;
        }
        let at = tx.allocate(Purpose::General, buckets * WORD)?;
        tx.write_fresh(at, 0, bytemuck::cast_slice(&firsts))?;
        tx.write_word(word(self.0, BUCKETS), buckets)?;
        tx.write_word(word(self.0, TABLE), at.at())?;
        tx.free(old.at)
    }

    fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        pair: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        visit(self.0)?;
        let table = self.table(tx)?;
        visit(table.at)?;
        if tx.usable(table.at)? / WORD < table.buckets {
            return Err(Error::corrupt("a hash map of more buckets than it has room for", self.0));
        }
        let entries = Self::entries(tx, &table)?;
        if entries.len() as u64 != table.keys {
            return Err(Error::corrupt("a hash map that does not count its keys", self.0));
        }
        for (entry, key) in entries {
            visit(entry)?;
            if table.find(tx, key)?.1 != entry {
                return Err(Error::corrupt("a key in another's bucket, or twice", entry));
            }
            pair(key, tx.read_word(word(entry, 1))?)?;
        }
        Ok(())
    }
}
