//! The table as YCSB's Redis binding lays it out, on any [`Records`]: a hash of named fields for
//! each record, and a sorted set of all keys, `_indices`, for scans.
//!
//! The binding scores a key with its Java hash code: scans go through the records in an order
//! that has nothing to do with the keys', and begin with any key of the start's score. They find
//! what the binding's scans find.

use super::shape::Shape;
use super::table::Table;
use crate::records::Rooted;
use perdura::{Result, Tx};
use std::sync::Arc;

/// The sorted set of all keys.
const INDEX: &[u8] = b"_indices";
/// What the names of fields begin with; their number follows.
const FIELD: &str = "field";

/// A handle to the records.
#[derive(Clone)]
pub struct Keyed<R> {
    records: R,
    shape: Shape,
    names: Arc<[String]>,
}

/// The score that YCSB's Redis binding gives a key: `String.hashCode` in Java.
pub fn score(key: &[u8]) -> f64 {
    let hash = |hash: i32, byte: &u8| hash.wrapping_mul(31).wrapping_add(i32::from(*byte));
    f64::from(key.iter().fold(0, hash))
}

/// The number in a field's name.
fn number(name: &[u8]) -> Option<usize> {
    std::str::from_utf8(name.strip_prefix(FIELD.as_bytes())?).ok()?.parse().ok()
}

impl<R: Rooted> Keyed<R> {
    fn new(records: R, shape: Shape) -> Self {
        let names = (0..shape.fields).map(|field| format!("{FIELD}{field}")).collect();
        Keyed { records, shape, names }
    }
}

impl<R: Rooted> Table for Keyed<R> {
    type Place<'k> = &'k [u8];

    /// The index is kept whether there will be scans or not, as the binding does.
    fn create<X: Tx>(tx: &mut X, shape: Shape, _indexed: bool) -> Result<Self> {
        R::create(tx).map(|records| Keyed::new(records, shape))
    }

    fn open<X: Tx>(tx: &mut X, shape: Shape) -> Result<Option<Self>> {
        Ok(R::find(tx)?.map(|records| Keyed::new(records, shape)))
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn find<'k, X: Tx>(&self, _tx: &mut X, key: &'k [u8]) -> Result<Option<&'k [u8]>> {
        Ok(Some(key))
    }

    fn read<X: Tx>(&self, tx: &mut X, key: &[u8], record: &mut [u8]) -> Result<bool> {
        let Shape { fields, field_bytes } = self.shape;
        let (mut found, mut strange) = (0, false);
        self.records.fields(tx, key, &mut |name, value| match number(name) {
            Some(field) if field < fields && value.len() == field_bytes => {
                record[field * field_bytes..][..field_bytes].copy_from_slice(value);
                found += 1;
            }
            _ => strange = true,
        })?;
        Ok(found == fields && !strange)
    }

    fn write_field<X: Tx>(&self, tx: &mut X, key: &[u8], field: usize, value: &[u8]) -> Result<()> {
        self.records.set_fields(tx, key, &[(self.names[field].as_bytes(), value)])
    }

    fn insert<X: Tx>(&self, tx: &mut X, key: &[u8], record: &[u8]) -> Result<bool> {
        let values = record.chunks_exact(self.shape.field_bytes);
        let fields: Vec<(&[u8], &[u8])> =
            self.names.iter().map(String::as_bytes).zip(values).collect();
        self.records.set_fields(tx, key, &fields)?;
        self.records.add(tx, INDEX, score(key), key)
    }

    fn scan<X: Tx>(
        &self,
        tx: &mut X,
        key: &[u8],
        limit: usize,
        mut each: impl FnMut(&mut X, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(limit);
        self.records.range(tx, INDEX, score(key), &mut |_, member| {
            keys.push(member.to_vec());
            keys.len() < limit
        })?;
        keys.iter().try_for_each(|key| each(tx, key, key))
    }

    fn begins(start: &[u8], first: &[u8]) -> bool {
        score(start) == score(first)
    }

    fn ascends(from: &[u8], to: &[u8]) -> bool {
        (score(from), from) < (score(to), to)
    }

    fn counts<X: Tx>(&self, tx: &mut X) -> Result<Vec<u64>> {
        Ok(vec![self.records.members(tx, INDEX)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_java() {
        assert_eq!(score(b""), 0.0);
        assert_eq!(score(b"user"), 3_599_307.0);
        assert_eq!(score(b"user6284781860667377211"), -594_971_599.0);
        assert_eq!(score(b"polygenelubricants"), f64::from(i32::MIN));
    }

    #[test]
    fn fields_have_numbers() {
        assert_eq!(number(b"field12"), Some(12));
        assert_eq!(number(b"field"), None);
        assert_eq!(number(b"12"), None);
    }
}
