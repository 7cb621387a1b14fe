//! YCSB's core workloads A to F (Cooper et al., 2010), in process; and [through a client](remote),
//! on a store elsewhere.
//!
//! One [`Table`] of records, each of ten fields of 100 bytes: the workload's [own](Own), or one
//! that is [`Keyed`] as YCSB's Redis binding lays it out. An operation is a transaction (or
//! several operations are, if asked for): F's read and write are one, and a scan is one that
//! only reads. Every byte that is read is verified, since payloads follow from the record, the
//! field and a version. F's versions count its writes, so that at the end their sum is known.

mod acknowledged;
mod generator;
mod keyed;
mod keys;
mod layout;
mod listed;
mod mix;
mod operation;
mod own;
pub mod remote;
mod reuse;
mod shape;
mod table;

pub use keyed::Keyed;
pub use keys::{Chooser, Name, Order, identity_of};
pub use layout::{INDEX, score};
pub use listed::{Core, bytes_of};
pub use mix::{Distribution, Kind, Letter, Mix};
pub use own::Own;
pub(crate) use own::{KIND, check_blocks};
pub use shape::Shape;
pub use table::Table;

use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use acknowledged::Acknowledged;
use generator::Generator;
use operation::{Found, Operation};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records in one transaction of the load.
const LOAD_BATCH: u64 = 16;

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which of the core workloads.
    pub letter: Letter,
    /// Records loaded.
    pub records: u64,
    /// Operations expected, warm-up included: YCSB sizes the key domain by them.
    pub operations: u64,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// How keys are named.
    pub order: Order,
    /// Fields and their size.
    pub shape: Shape,
    /// Operations in a transaction.
    pub operations_per_transaction: u64,
}

impl Options {
    /// The workload as YCSB ships it, on `records` records.
    pub fn new(letter: Letter, records: u64, operations: u64) -> Self {
        Options {
            letter,
            records,
            operations,
            distribution: letter.distribution(),
            order: Order::Hashed,
            shape: Shape::default(),
            operations_per_transaction: 1,
        }
    }
}

/// The workload on its own table.
pub type Ycsb = YcsbOn<Own>;
/// The workload on a keyed store.
pub type YcsbOver<R> = YcsbOn<Keyed<R>>;

/// The workload on the table `T`.
pub struct YcsbOn<T> {
    of: PhantomData<fn() -> T>,
    options: Options,
    inserts: Acknowledged,
    chooser: Chooser,
    modified: AtomicU64,
}

impl<T: Table> YcsbOn<T> {
    /// A workload that has not been loaded.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(options: Options) -> Outcome<Self> {
        let Options { records, shape, operations_per_transaction: several, .. } = options;
        if records == 0 || several == 0 || !shape.is_valid() {
            let what = "YCSB needs a record, a field of 8 bytes, and an operation in a transaction";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(YcsbOn {
            of: PhantomData,
            options,
            inserts: Acknowledged::new(records),
            chooser: options.chooser(records),
            modified: AtomicU64::new(0),
        })
    }

    fn table<S: Session>(&self, session: &mut S) -> Outcome<T> {
        let shape = self.options.shape;
        let table = session.read(|tx| T::open(tx, shape))?;
        table.ok_or_else(|| Failure::wrong("the table's root is gone"))
    }

    fn generator(&self) -> Generator<'_> {
        Generator::new(self.options, self.chooser.clone(), &self.inserts)
    }

    /// Notes the transaction's effects, now that others see them. It may be durable only when the
    /// session has [finished](Session::finish).
    fn acknowledge(&self, operations: &[Operation]) {
        for operation in operations {
            match operation.kind {
                Kind::Insert => self.inserts.acknowledge(operation.record),
                Kind::ReadModifyWrite => {
                    self.modified.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }

    fn load_batch<S: Session>(
        &self,
        session: &mut S,
        table: &T,
        batch: std::ops::Range<u64>,
    ) -> Outcome {
        let Options { order, shape, .. } = self.options;
        let mut payload = Vec::new();
        let fresh = session.transaction(|tx| {
            let mut fresh = true;
            for record in batch.clone() {
                let identity = order.identity(record);
                shape.fill_record(identity, &mut payload);
                fresh &= table.insert(tx, Name::new(identity).as_bytes(), &payload)?;
            }
            Ok(fresh)
        })?;
        if fresh { Ok(()) } else { Err(Failure::wrong("two records have the same key")) }
    }

    /// Reads every record; returns the sum of all versions.
    fn check_records<S: Session>(&self, session: &mut S, table: &T) -> Outcome<u64> {
        let Options { order, shape, .. } = self.options;
        let mut record = vec![0; shape.record_bytes()];
        let mut versions = 0u64;
        for number in 0..self.inserts.existing() {
            let identity = order.identity(number);
            let name = Name::new(identity);
            let there = session.read(|tx| {
                let Some(place) = table.find(tx, name.as_bytes())? else { return Ok(false) };
                table.read(tx, place, &mut record)
            })?;
            if !there {
                return Err(Failure::Wrong(format!("record {number} is gone, or not whole")));
            }
            versions = versions.wrapping_add(shape.verify_record(identity, &record)?);
        }
        Ok(versions)
    }
}

impl<T: Table> Workload for YcsbOn<T> {
    const KINDS: &'static [&'static str] = Kind::NAMES;

    const STATIC: bool = T::STATIC;

    fn load_size(&self) -> u64 {
        self.options.records
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let Options { records, letter, shape, .. } = self.options;
        let indexed = letter.mix().scan > 0.0;
        let table = session.transaction(|tx| T::create(tx, shape, indexed))?;
        for first in (0..records).step_by(LOAD_BATCH as usize) {
            let end = records.min(first + LOAD_BATCH);
            self.load_batch(session, &table, first..end)?;
            progress.loaded(end - first)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let Options { shape, operations_per_transaction: several, .. } = self.options;
        let table = self.table(session)?;
        let mut generator = self.generator();
        let mut operations: Vec<_> = (0..several).map(|_| Operation::new()).collect();
        let mut found = Found::default();
        while recorder.done() < share.operations && recorder.go_on() {
            let count = several.min(share.operations - recorder.done());
            let batch = &mut operations[..count as usize];
            for operation in batch.iter_mut() {
                generator.prepare(operation, &mut share.random);
            }
            let kind = if several == 1 { batch[0].kind as usize } else { Kind::SEVERAL };
            let writes = batch.iter().any(Operation::writes);
            recorder.operations(kind, count, || {
                let mut body = |tx: &mut S::Tx<'_>| {
                    found.clear();
                    batch.iter_mut().try_for_each(|op| op.run(tx, &table, &mut found))
                };
                if writes { session.transaction(&mut body) } else { session.read(&mut body) }
            })?;
            found.verify(shape)?;
            self.acknowledge(batch);
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let table = self.table(session)?;
        let (existing, taken) = (self.inserts.existing(), self.inserts.taken());
        if existing != taken {
            let what = format!("{taken} records were inserted, {existing} acknowledged");
            return Err(Failure::Wrong(what));
        }
        let versions = self.check_records(session, &table)?;
        let modified = self.modified.load(Ordering::Relaxed);
        if self.options.letter.mix().update == 0.0 && versions != modified {
            let what = format!("the records count {versions} writes, {modified} were committed");
            return Err(Failure::Wrong(what));
        }
        let counts = session.read(|tx| table.counts(tx))?;
        match counts.into_iter().find(|count| *count != existing) {
            None => Ok(()),
            Some(count) => {
                let what = format!("{existing} records were acknowledged, {count} are there");
                Err(Failure::Wrong(what))
            }
        }
    }
}
