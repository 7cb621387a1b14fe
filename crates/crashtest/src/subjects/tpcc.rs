//! TPC-C on a few rows, in the heap's own collections.
//!
//! The model is the same transactions on tables in ordinary memory. The rows read back must be
//! such tables, and TPC-C's consistency conditions must hold on them.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::testing::TestHeap;
use perdura::{Error, Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use perdura_workloads::random::Random;
use perdura_workloads::records::{EachPair, Plain, Rooted};
use perdura_workloads::tpcc::{Desk, Input, Loader, Scale, check_consistency};
use perdura_workloads::{Records, check_root};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SEED: u64 = 11;
/// Small enough for a test pool.
const SCALE: Scale =
    Scale { warehouses: 1, districts: 2, customers: 3, items: 4, new_orders: 2, lines: (1, 3) };

/// The tables.
pub struct Tpcc {
    loader: Loader,
    desk: Desk,
}

impl Default for Tpcc {
    fn default() -> Self {
        Tpcc { loader: Loader::new(SCALE, SEED), desk: Desk::new(SCALE, SEED) }
    }
}

/// All tables, in ordinary memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// The fields of each row.
    rows: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// The members of each sorted set, with their scores.
    sets: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, f64>>,
}

/// [`Tables`] as a transaction's target. They are not rolled back: an aborting caller discards them.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Tables>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `body` on these tables, and returns them changed.
    fn on<T>(
        tables: &mut Tables,
        body: impl FnOnce(&mut dyn Tx, &Shared) -> Result<T>,
    ) -> Result<T> {
        let shared = Shared(Arc::new(Mutex::new(std::mem::take(tables))));
        // The heap stays empty: the tables are not in it.
        let done = body(&mut TestHeap::new(), &shared);
        *tables = std::mem::take(&mut *shared.lock());
        done
    }
}

impl Records for Shared {
    fn set_fields(&self, _: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()> {
        let mut tables = self.lock();
        let row = tables.rows.entry(key.to_vec()).or_default();
        row.extend(fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())));
        Ok(())
    }

    fn field(&self, _: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.lock().rows.get(key).and_then(|row| row.get(field)).cloned())
    }

    fn fields(&self, _: &mut dyn Tx, key: &[u8], each: &mut EachPair<'_>) -> Result<bool> {
        let tables = self.lock();
        let row = tables.rows.get(key);
        row.into_iter().flatten().for_each(|(name, value)| each(name, value));
        Ok(row.is_some())
    }

    fn remove(&self, _: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        let mut tables = self.lock();
        Ok(tables.rows.remove(key).is_some() | tables.sets.remove(key).is_some())
    }

    fn add(&self, _: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool> {
        let mut tables = self.lock();
        let set = tables.sets.entry(key.to_vec()).or_default();
        Ok(set.insert(member.to_vec(), score).is_none())
    }

    fn take(&self, _: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        let mut tables = self.lock();
        let Some(set) = tables.sets.get_mut(key) else { return Ok(false) };
        let taken = set.remove(member).is_some();
        if set.is_empty() {
            tables.sets.remove(key);
        }
        Ok(taken)
    }

    fn range(
        &self,
        _: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        let tables = self.lock();
        let mut members: Vec<_> = tables.sets.get(key).into_iter().flatten().collect();
        members.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let mut found = members.into_iter().filter(|(_, score)| **score >= from);
        let _ = found.all(|(member, score)| each(*score, member));
        Ok(())
    }

    fn members(&self, _: &mut dyn Tx, key: &[u8]) -> Result<u64> {
        Ok(self.lock().sets.get(key).map_or(0, |set| set.len() as u64))
    }
}

impl Listed for Tpcc {
    const ROW: Structure =
        Structure { name: "tpcc", line: "TPC-C, on a warehouse with two districts and four items" };
}

impl Subject for Tpcc {
    type Op = Input;
    type Model = Tables;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    /// Orders are never deleted.
    fn most_operations(&self) -> usize {
        10
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let records = Plain::create(tx)?;
        self.loader.batches().try_for_each(|batch| self.loader.load(tx, &records, &batch))
    }

    fn prepared(&self) -> Tables {
        let mut tables = Tables::default();
        let loaded = Shared::on(&mut tables, |tx, records| {
            self.loader.batches().try_for_each(|batch| self.loader.load(tx, records, &batch))
        });
        loaded.expect("tables in ordinary memory");
        tables
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Input {
        self.desk.draw(&mut Random::new(random.next(), 0), 1, 2 + random.below(1_000_000))
    }

    fn apply(&self, tx: &mut dyn Tx, input: &Input) -> Result<()> {
        let records = Plain::find(tx)?.expect("it was prepared");
        input.apply(tx, &records, SCALE)
    }

    fn step(&self, model: &mut Tables, input: &Input) -> bool {
        let before = input.rolls_back().then(|| model.clone());
        match Shared::on(model, |tx, records| input.apply(tx, records, SCALE)) {
            Ok(()) => true,
            Err(Error::Aborted(_)) if input.rolls_back() => {
                *model = before.expect("it was to be rolled back");
                false
            }
            Err(error) => panic!("the model cannot do {input:?}: {error}"),
        }
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Tables>> {
        let Some(records) = Plain::find(tx)? else { return Ok(None) };
        let mut tables = Tables::default();
        let Tables { rows, sets } = &mut tables;
        records.for_each(
            tx,
            &mut |row, name, value| {
                rows.entry(row.to_vec()).or_default().insert(name.to_vec(), value.to_vec());
            },
            &mut |set, score, member| {
                sets.entry(set.to_vec()).or_default().insert(member.to_vec(), score);
            },
        )?;
        let check = |tx: &mut dyn Tx, records: &_| check_consistency(tx, records, SCALE);
        match Shared::on(&mut tables, check)?.first() {
            Some(_) => Err(Error::corrupt("tables that TPC-C's conditions do not hold on", 0)),
            None => Ok(Some(tables)),
        }
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        check_root(tx, root, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that was changed outside transactions is no committed prefix, and makes the tables inconsistent.
    #[test]
    fn notices_inconsistent_tables() {
        let (subject, mut heap) = (Tpcc::default(), TestHeap::new());
        assert!(subject.read(&mut heap).expect("an empty heap").is_none());
        subject.prepare(&mut heap).expect("it is made");
        assert_eq!(subject.read(&mut heap).expect("tables"), Some(subject.prepared()));
        let records = Plain::find(&mut heap).expect("a root").expect("it is made");
        let ytd = 1_i64.to_le_bytes();
        records.set_fields(&mut heap, b"WAREHOUSE:1", &[(b"ytd", &ytd)]).expect("a row");
        assert!(matches!(subject.read(&mut heap), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn some_operations_are_rolled_back() {
        let (subject, mut random) = (Tpcc::default(), SplitMix64::new(1));
        let mut model = subject.prepared();
        let aborted = (0..1_000).filter(|_| {
            let (before, op) = (model.clone(), subject.draw(&mut random, 0));
            let committed = subject.step(&mut model, &op);
            assert!(committed || model == before);
            !committed
        });
        assert!((1..20).contains(&aborted.count()));
    }
}
