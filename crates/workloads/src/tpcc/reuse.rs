//! How often each row is used. The rows of a transaction depend on the transactions before it, so
//! all are carried out.
//!
//! A transaction that reads or changes a row uses it once, however often it does so. Loading and
//! rolled-back transactions do not count; sorted sets are not rows.

use super::tally::TransactionEffect;
use super::{Tpcc, load, warehouse_of};
use crate::random::Random;
use crate::records::{EachPair, Rooted};
use crate::reuse::{Reuse, Uses};
use crate::{Outcome, Progress, Records, Session, Share};
use perdura::{Result, Tx};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl<R: Rooted> Tpcc<R> {
    /// The distribution over `operations` transactions of one thread, drawn from `seed`, in a
    /// heap without TPC-C's tables.
    ///
    /// # Errors
    /// As the transactions; `Stopped` once `progress` is.
    pub fn reuse<S: Session>(
        &self,
        session: &mut S,
        operations: u64,
        seed: u64,
        progress: &Progress,
    ) -> Outcome<Reuse> {
        let records = session.transaction(|tx| R::create(tx))?;
        let records = Noting { records, noted: Arc::default() };
        progress.restart();
        for batch in self.loader.batches() {
            session.transaction(|tx| self.loader.load(tx, &records, &batch))?;
            progress.loaded(0)?;
        }
        let mut uses = Uses::of(records.noted().rows.len() as u64);
        let random = Random::new(seed, 0);
        let mut share = Share { thread: 0, threads: 1, operations, random };
        for number in 1..=operations {
            let warehouse = warehouse_of(&mut share, self.scale);
            let input = self.desk.draw(&mut share.random, warehouse, load::FIRST_DATE + number);
            records.noted().used.clear();
            let done = self.transact(session, &records, &input)?;
            if !matches!(done, TransactionEffect::RolledBack) {
                records.noted().used.iter().for_each(|row| uses.note(*row));
            }
            progress.loaded(1)?;
        }
        Ok(uses.reuse())
    }
}

/// A store that notes which rows are used.
#[derive(Clone, Debug)]
struct Noting<R> {
    records: R,
    noted: Arc<Mutex<Noted>>,
}

/// Rows by their keys, in the order in which they came, and those that were used last.
#[derive(Debug, Default)]
struct Noted {
    rows: HashMap<Vec<u8>, u64>,
    used: BTreeSet<u64>,
}

impl<R> Noting<R> {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a use of the row at `key`, which is there.
    fn note(&self, key: &[u8]) {
        let mut noted = self.noted();
        let next = noted.rows.len() as u64;
        let row = match noted.rows.get(key) {
            Some(row) => *row,
            None => *noted.rows.entry(key.to_vec()).or_insert(next),
        };
        noted.used.insert(row);
    }
}

impl<R: Records> Records for Noting<R> {
    fn set_fields(&self, tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()> {
        self.note(key);
        self.records.set_fields(tx, key, fields)
    }

    fn field(&self, tx: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.records.field(tx, key, field)?;
        if found.is_some() {
            self.note(key);
        }
        Ok(found)
    }

    fn fields(&self, tx: &mut dyn Tx, key: &[u8], each: &mut EachPair<'_>) -> Result<bool> {
        let found = self.records.fields(tx, key, each)?;
        if found {
            self.note(key);
        }
        Ok(found)
    }

    fn remove(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        self.records.remove(tx, key)
    }

    fn add(&self, tx: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool> {
        self.records.add(tx, key, score, member)
    }

    fn take(&self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        self.records.take(tx, key, member)
    }

    fn range(
        &self,
        tx: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        self.records.range(tx, key, from, each)
    }

    fn members(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<u64> {
        self.records.members(tx, key)
    }
}
