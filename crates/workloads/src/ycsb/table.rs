//! The table: records by key, and their keys in order for the workload that scans.

use super::operation::Found;
use crate::{Failure, Outcome, payload};
use perdura::collections::{Bytes, HashMap, OrderedMap, Visit};
use perdura::{Ptr, Purpose, Result, Root, Tx, TxExt};
use std::ops::Bound;

/// Fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many.
    pub fields: usize,
    /// Bytes in each, 8 or more.
    pub field_bytes: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { fields: 10, field_bytes: 100 }
    }
}

impl Shape {
    /// Bytes in a record.
    pub const fn record_bytes(self) -> usize {
        self.fields * self.field_bytes
    }

    pub(super) const fn is_valid(self) -> bool {
        self.fields > 0 && self.field_bytes >= payload::VERSION
    }

    /// What a field's payload is derived from.
    pub(super) const fn field_identity(self, record: u64, field: usize) -> u64 {
        record ^ (field as u64).rotate_right(8)
    }

    /// Fills a new record: every field at version 0.
    pub(super) fn fill_record(self, identity: u64, record: &mut Vec<u8>) {
        record.resize(self.record_bytes(), 0);
        for (field, value) in record.chunks_exact_mut(self.field_bytes).enumerate() {
            payload::fill(self.field_identity(identity, field), 0, value);
        }
    }

    /// The sum of the fields' versions, if every byte is right.
    pub(super) fn verify_record(self, identity: u64, record: &[u8]) -> Outcome<u64> {
        let mut versions = 0u64;
        for (field, value) in record.chunks_exact(self.field_bytes).enumerate() {
            let version = payload::verify(self.field_identity(identity, field), value);
            let version = version.ok_or_else(|| {
                Failure::Wrong(format!("field {field} of record user{identity} is damaged"))
            })?;
            versions = versions.wrapping_add(version);
        }
        Ok(versions)
    }
}

const ROOT: &str = "bench.ycsb";
/// The kind of the table's root: an object with pointers to the records' map and to the index,
/// which may be null.
pub(crate) const KIND: u32 = 2_002;

/// Where a record is, by its key. Keys are at most 23 bytes and lie in the entry itself.
type Records = HashMap<Bytes<3>, u64, false>;
/// The same in the order of keys.
type Index = OrderedMap<Bytes<3>, u64>;

/// A handle to the table.
#[derive(Clone, Copy)]
pub(super) struct Table {
    records: Records,
    index: Option<Index>,
    pub(super) shape: Shape,
}

impl Table {
    /// A new, empty table.
    pub(super) fn create<T: Tx + ?Sized>(tx: &mut T, shape: Shape, indexed: bool) -> Result<Self> {
        let records = Records::create(tx)?;
        let index = if indexed { Some(Index::create(tx)?) } else { None };
        let parts = [records.at(), index.map_or(0, Index::at)];
        let parts = tx.new_object(Purpose::General, parts)?;
        tx.set_root(ROOT, Root { at: parts.at(), kind: KIND })?;
        Ok(Table { records, index, shape })
    }

    /// The table that was created in this pool.
    pub(super) fn open<T: Tx + ?Sized>(tx: &mut T, shape: Shape) -> Result<Option<Self>> {
        match tx.root(ROOT)? {
            Some(root) => Self::read(tx, root.at, shape).map(Some),
            None => Ok(None),
        }
    }

    fn read<T: Tx + ?Sized>(tx: &mut T, at: u64, shape: Shape) -> Result<Self> {
        let [records, index]: [u64; 2] = tx.read(Ptr::new(at))?;
        let index = (index != 0).then(|| Index::new(index));
        Ok(Table { records: Records::new(records), index, shape })
    }

    /// Where the record with this key is.
    #[inline]
    pub(super) fn find<T: Tx + ?Sized>(&self, tx: &mut T, key: &[u8]) -> Result<Option<u64>> {
        self.records.get(tx, key)
    }

    /// Adds a record; false if its key was there already.
    pub(super) fn insert<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        key: &[u8],
        record: &[u8],
    ) -> Result<bool> {
        let at = tx.new_bytes(Purpose::Value, record)?;
        let mut fresh = self.records.set(tx, key, at)?;
        if let Some(index) = self.index {
            fresh &= index.set(tx, key, at)?;
        }
        Ok(fresh)
    }

    /// Reads up to `limit` records from `key` on, in order.
    pub(super) fn scan<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        key: &[u8],
        limit: usize,
        found: &mut Found,
    ) -> Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        let mut cursor = index.range(tx, Bound::Included(key), Bound::Unbounded)?;
        for _ in 0..limit {
            let Some((key, at)) = cursor.next(tx)? else { break };
            found.scanned(tx, &key, at, self.shape)?;
        }
        Ok(())
    }

    /// The numbers of records and, if there is one, of entries in the index.
    pub(super) fn counts<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<(u64, Option<u64>)> {
        let records = self.records.len(tx)?;
        let indexed = match self.index {
            Some(index) => Some(index.len(tx)?),
            None => None,
        };
        Ok((records, indexed))
    }
}

/// Checks the collections of the table at `at`, and reports its blocks and records to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let table = Table::read(tx, at, Shape::default())?;
    table.records.check(tx, visit)?;
    if let Some(index) = table.index {
        index.check(tx, visit)?;
    }
    table.records.for_each(tx, &mut |_, record| visit(record))
}
