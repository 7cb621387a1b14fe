//! The workload's own table: blocks of a record's size in the pool, found by a hash map, and for
//! the workload that scans an ordered map.

use super::shape::Shape;
use super::table::Table;
use perdura::collections::{Bytes, HashMap, OrderedMap, Visit};
use perdura::{Ptr, Purpose, Result, Root, Tx, TxExt};

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
pub struct Own {
    records: Records,
    index: Option<Index>,
    shape: Shape,
}

impl Own {
    fn at<X: Tx + ?Sized>(tx: &mut X, at: u64, shape: Shape) -> Result<Self> {
        let [records, index]: [u64; 2] = tx.read(Ptr::new(at))?;
        let index = (index != 0).then(|| Index::new(index));
        Ok(Own { records: Records::new(records), index, shape })
    }
}

impl Table for Own {
    const STATIC: bool = true;

    type Place<'k> = u64;

    fn create<X: Tx>(tx: &mut X, shape: Shape, indexed: bool) -> Result<Self> {
        let records = Records::create(tx)?;
        let index = if indexed { Some(Index::create(tx)?) } else { None };
        let parts = [records.at(), index.map_or(0, Index::at)];
        let parts = tx.new_object(Purpose::General, parts)?;
        tx.set_root(ROOT, Root { at: parts.at(), kind: KIND })?;
        Ok(Own { records, index, shape })
    }

    fn open<X: Tx>(tx: &mut X, shape: Shape) -> Result<Option<Self>> {
        match tx.root(ROOT)? {
            Some(root) => Own::at(tx, root.at, shape).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn shape(&self) -> Shape {
        self.shape
    }

    #[inline]
    fn find<X: Tx>(&self, tx: &mut X, key: &[u8]) -> Result<Option<u64>> {
        self.records.get(tx, key)
    }

    #[inline]
    fn read<X: Tx>(&self, tx: &mut X, place: u64, record: &mut [u8]) -> Result<bool> {
        tx.read_bytes(place, record).map(|()| true)
    }

    #[inline]
    fn write_field<X: Tx>(&self, tx: &mut X, place: u64, field: usize, value: &[u8]) -> Result<()> {
        tx.write_bytes(place + (field * self.shape.field_bytes) as u64, value)
    }

    fn insert<X: Tx>(&self, tx: &mut X, key: &[u8], record: &[u8]) -> Result<bool> {
        let at = tx.new_bytes(Purpose::Value, record)?;
        let mut fresh = self.records.set(tx, key, at)?;
        if let Some(index) = self.index {
            fresh &= index.set(tx, key, at)?;
        }
        Ok(fresh)
    }

    fn scan<X: Tx>(
        &self,
        tx: &mut X,
        key: &[u8],
        limit: usize,
        mut each: impl FnMut(&mut X, &[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        let mut cursor = index.cursor(tx, key..)?;
        for _ in 0..limit {
            let Some((key, at)) = cursor.next(tx)? else { break };
            each(tx, &key, at)?;
        }
        Ok(())
    }

    fn begins(start: &[u8], first: &[u8]) -> bool {
        start == first
    }

    fn ascends(from: &[u8], to: &[u8]) -> bool {
        from < to
    }

    fn counts<X: Tx>(&self, tx: &mut X) -> Result<Vec<u64>> {
        let mut counts = vec![self.records.len(tx)?];
        if let Some(index) = self.index {
            counts.push(index.len(tx)?);
        }
        Ok(counts)
    }
}

/// Checks the collections of the table at `at`, and reports its blocks and records to `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let table = Own::at(tx, at, Shape::default())?;
    table.records.check(tx, visit)?;
    if let Some(index) = table.index {
        index.check(tx, visit)?;
    }
    table.records.for_each(tx, &mut |_, record| visit(record))
}
