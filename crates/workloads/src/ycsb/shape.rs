//! The shape of a record, and its contents.

use crate::{Failure, Outcome, payload};

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

    /// The seed of a field's payload.
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

    /// The version of a field's `value`, if every byte of it is right.
    pub(super) fn verify_field(self, identity: u64, field: usize, value: &[u8]) -> Outcome<u64> {
        let version = payload::verify(self.field_identity(identity, field), value);
        version.ok_or_else(|| {
            Failure::Wrong(format!("field {field} of record user{identity} is damaged"))
        })
    }

    /// The sum of the fields' versions, if every byte is right.
    pub(super) fn verify_record(self, identity: u64, record: &[u8]) -> Outcome<u64> {
        let mut versions = 0u64;
        for (field, value) in record.chunks_exact(self.field_bytes).enumerate() {
            versions = versions.wrapping_add(self.verify_field(identity, field, value)?);
        }
        Ok(versions)
    }
}
