//! The table in the layout of YCSB's Redis binding, on any [`Records`](crate::Records). Its scans
//! find the same records as the binding's scans.

use super::layout::{self, INDEX, Layout, score};
use super::shape::Shape;
use super::table::Table;
use crate::records::Rooted;
use perdura::{Result, Tx};

/// A handle to the records.
#[derive(Clone)]
pub struct Keyed<R> {
    records: R,
    layout: Layout,
}

impl<R: Rooted> Keyed<R> {
    fn new(records: R, shape: Shape) -> Self {
        Keyed { records, layout: Layout::of(shape) }
    }
}

impl<R: Rooted> Table for Keyed<R> {
    type Place<'k> = &'k [u8];

    /// Keeps the index whether there will be scans or not, as the binding does.
    fn create<X: Tx>(tx: &mut X, shape: Shape, _indexed: bool) -> Result<Self> {
        R::create(tx).map(|records| Keyed::new(records, shape))
    }

    fn open<X: Tx>(tx: &mut X, shape: Shape) -> Result<Option<Self>> {
        Ok(R::find(tx)?.map(|records| Keyed::new(records, shape)))
    }

    fn shape(&self) -> Shape {
        self.layout.shape
    }

    fn find<'k, X: Tx>(&self, _tx: &mut X, key: &'k [u8]) -> Result<Option<&'k [u8]>> {
        Ok(Some(key))
    }

    fn read<X: Tx>(&self, tx: &mut X, key: &[u8], record: &mut [u8]) -> Result<bool> {
        let mut assembly = self.layout.assemble(record);
        self.records.fields(tx, key, &mut |name, value| assembly.put(name, value))?;
        Ok(assembly.is_whole())
    }

    fn write_field<X: Tx>(&self, tx: &mut X, key: &[u8], field: usize, value: &[u8]) -> Result<()> {
        self.records.set_fields(tx, key, &[(self.layout.name(field), value)])
    }

    fn insert<X: Tx>(&self, tx: &mut X, key: &[u8], record: &[u8]) -> Result<bool> {
        self.records.set_fields(tx, key, &self.layout.fields(record))?;
        self.records.add(tx, INDEX.as_bytes(), score(key), key)
    }

    fn scan<X: Tx>(
        &self,
        tx: &mut X,
        key: &[u8],
        limit: usize,
        mut each: impl FnMut(&mut X, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(limit);
        self.records.range(tx, INDEX.as_bytes(), score(key), &mut |_, member| {
            keys.push(member.to_vec());
            keys.len() < limit
        })?;
        keys.iter().try_for_each(|key| each(tx, key, key))
    }

    fn begins(start: &[u8], first: &[u8]) -> bool {
        layout::begins(start, first)
    }

    fn ascends(from: &[u8], to: &[u8]) -> bool {
        layout::ascends(from, to)
    }

    fn counts<X: Tx>(&self, tx: &mut X) -> Result<Vec<u64>> {
        Ok(vec![self.records.members(tx, INDEX.as_bytes())?])
    }
}
