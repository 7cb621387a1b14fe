//! The table as YCSB's Redis binding lays it out: a hash of named fields for each record, and a
//! sorted set of all keys, for scans.
//!
//! The binding scores a key with its Java hash code: scans go through the records in an order
//! that has nothing to do with the keys', and begin with any key of the start's score.

use super::shape::Shape;
use std::sync::Arc;

/// The sorted set of all keys.
pub const INDEX: &str = "_indices";
/// The beginning of fields' names; their number follows.
const FIELD: &str = "field";

/// The score that YCSB's Redis binding gives a key: `String.hashCode` in Java.
pub fn score(key: &[u8]) -> f64 {
    let hash = |hash: i32, byte: &u8| hash.wrapping_mul(31).wrapping_add(i32::from(*byte));
    f64::from(key.iter().fold(0, hash))
}

/// Whether a scan from `start` may begin with `first`, both of them keys.
pub(super) fn begins(start: &[u8], first: &[u8]) -> bool {
    score(start) == score(first)
}

/// Whether a scan may go on from one key to the other.
pub(super) fn ascends(from: &[u8], to: &[u8]) -> bool {
    (score(from), from) < (score(to), to)
}

/// The number in a field's name.
fn number(name: &[u8]) -> Option<usize> {
    std::str::from_utf8(name.strip_prefix(FIELD.as_bytes())?).ok()?.parse().ok()
}

/// A record's shape, and its fields' names.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    names: Arc<[String]>,
}

impl Layout {
    pub(super) fn of(shape: Shape) -> Self {
        Layout { shape, names: (0..shape.fields).map(|field| format!("{FIELD}{field}")).collect() }
    }

    /// The name of field number `field`.
    pub(super) fn name(&self, field: usize) -> &[u8] {
        self.names[field].as_bytes()
    }

    /// The fields of `record` with their names.
    pub(super) fn fields<'a>(&'a self, record: &'a [u8]) -> Vec<(&'a [u8], &'a [u8])> {
        let values = record.chunks_exact(self.shape.field_bytes);
        self.names.iter().map(String::as_bytes).zip(values).collect()
    }

    /// Puts fields together to a record in `record`, which has its size.
    pub(super) fn assemble<'r>(&self, record: &'r mut [u8]) -> Assembly<'r> {
        Assembly { shape: self.shape, record, found: 0, strange: false }
    }
}

/// A record of which some fields are there.
pub(super) struct Assembly<'r> {
    shape: Shape,
    record: &'r mut [u8],
    found: usize,
    strange: bool,
}

impl Assembly<'_> {
    /// Puts a field in its place.
    pub(super) fn put(&mut self, name: &[u8], value: &[u8]) {
        let Shape { fields, field_bytes } = self.shape;
        match number(name) {
            Some(field) if field < fields && value.len() == field_bytes => {
                self.record[field * field_bytes..][..field_bytes].copy_from_slice(value);
                self.found += 1;
            }
            _ => self.strange = true,
        }
    }

    /// Whether there were as many fields as there should be, and no others.
    pub(super) fn is_whole(&self) -> bool {
        self.found == self.shape.fields && !self.strange
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

    #[test]
    fn a_record_is_put_together_from_its_fields() {
        let layout = Layout::of(Shape { fields: 2, field_bytes: 8 });
        let mut record = [0; 16];
        let mut assembly = layout.assemble(&mut record);
        assembly.put(b"field1", b"22222222");
        assert!(!assembly.is_whole());
        assembly.put(b"field0", b"11111111");
        assert!(assembly.is_whole());
        assembly.put(b"field2", b"33333333");
        assert!(!assembly.is_whole());
        assert_eq!(&record, b"1111111122222222");
    }
}
