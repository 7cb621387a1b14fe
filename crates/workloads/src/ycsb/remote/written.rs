//! The versions that may be in the fields: those that may have been written last.
//!
//! Requests of several clients overlap, and only the store knows the order in which it executed
//! them. A value may be a field's last if no other write of the field began after that value's
//! write was acknowledged.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// Locks of the table, each for a part of it, so that clients seldom wait for one another.
const PARTS: usize = 64;

/// A field of a record.
type Field = (u64, usize);

/// The fields that were written since the load.
pub(super) struct Written(Box<[Mutex<HashMap<Field, Writes>>]>);

/// Writes of one field.
#[derive(Default)]
struct Writes {
    begun: u64,
    /// Number and version of each write that may be the last; empty for a field with its loaded version.
    last: Vec<(u64, u64)>,
}

/// A write that is under way.
pub(super) struct Write {
    field: Field,
    version: u64,
    number: u64,
    /// The writes that were acknowledged when it began, and so precede it.
    before: Vec<u64>,
}

impl Written {
    pub(super) fn new() -> Self {
        Written((0..PARTS).map(|_| Mutex::default()).collect())
    }

    /// A write of `version` is about to be sent.
    pub(super) fn begin(&self, record: u64, field: usize, version: u64) -> Write {
        let field = (record, field);
        let mut part = self.part(record);
        let writes = part.entry(field).or_default();
        writes.begun += 1;
        let before = writes.last.iter().map(|(number, _)| *number).collect();
        Write { field, version, number: writes.begun, before }
    }

    /// The write has been acknowledged.
    pub(super) fn answered(&self, write: Write) {
        let mut part = self.part(write.field.0);
        let writes = part.entry(write.field).or_default();
        writes.last.retain(|(number, _)| !write.before.contains(number));
        writes.last.push((write.number, write.version));
    }

    /// Whether the field may have this version, now that every write has been acknowledged.
    pub(super) fn allows(&self, record: u64, field: usize, version: u64) -> bool {
        match self.part(record).get(&(record, field)) {
            Some(writes) => writes.last.iter().any(|(_, last)| *last == version),
            None => version == 0,
        }
    }

    fn part(&self, record: u64) -> MutexGuard<'_, HashMap<Field, Writes>> {
        let part = &self.0[(record % PARTS as u64) as usize];
        part.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(written: &Written) -> Vec<u64> {
        (0..9).filter(|version| written.allows(3, 1, *version)).collect()
    }

    #[test]
    fn the_last_of_several_in_a_row_is_there() {
        let written = Written::new();
        assert_eq!(allowed(&written), [0]);
        for version in [5, 2] {
            written.answered(written.begin(3, 1, version));
            assert_eq!(allowed(&written), [version]);
        }
        assert!(written.allows(3, 0, 0) && !written.allows(3, 0, 2));
    }

    #[test]
    fn of_those_that_overlap_either_may_be() {
        let written = Written::new();
        let [long, first] = [1, 2].map(|version| written.begin(3, 1, version));
        written.answered(first);
        let second = written.begin(3, 1, 3);
        written.answered(second);
        written.answered(long);
        assert_eq!(allowed(&written), [1, 3], "2 was answered before 3 began");
        written.answered(written.begin(3, 1, 4));
        assert_eq!(allowed(&written), [4]);
    }

    #[test]
    fn a_version_written_twice_stays_until_both_are_over() {
        let written = Written::new();
        let first = written.begin(3, 1, 7);
        written.answered(written.begin(3, 1, 7));
        written.answered(written.begin(3, 1, 8));
        written.answered(first);
        assert_eq!(allowed(&written), [7, 8]);
    }
}
