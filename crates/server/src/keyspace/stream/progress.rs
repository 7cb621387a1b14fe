//! How far groups have come: how many entries they have read, and how many are still to be read. Entries that were deleted
//! one by one make this unknown, as in Redis.

use super::{Id, Stream};
use perdura::{Result, Tx};

/// A stream's counts and ends at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    len: u64,
    first: Id,
    last: Id,
    deleted: Id,
    added: u64,
}

impl Stream {
    pub(crate) fn extent(&self, tx: &mut dyn Tx) -> Result<Extent> {
        let first = self.first_id(tx)?;
        let Stream { len, last, deleted, added, .. } = *self;
        Ok(Extent { len, first, last, deleted, added })
    }
}

impl Extent {
    /// Whether entries from an ID on may have been deleted one by one.
    fn has_gaps(self, from: Id) -> bool {
        let may = self.len > 0 && self.deleted != Id::MIN && self.first <= self.deleted;
        may && from <= self.deleted
    }

    /// How many of the entries that were ever added are not after this ID, if that is known.
    pub(crate) fn read_up_to(self, id: Id) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if id == self.last || self.len == 0 && id < self.last {
            return Some(self.added);
        }
        if id > self.last || self.deleted != Id::MIN && self.deleted >= self.first {
            return None;
        }
        let before = self.added.wrapping_sub(self.len);
        match id.cmp(&self.first) {
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// How many a group has read after an entry was delivered.
    pub(crate) fn read_after(self, read: Option<u64>, id: Id) -> Option<u64> {
        match read {
            Some(read) if !self.has_gaps(id) => Some(read.wrapping_add(1)),
            read if self.added == 0 => read,
            _ => self.read_up_to(id),
        }
    }

    /// How many entries a group has still to read, if that is known.
    pub(crate) fn lag(self, last: Id, read: Option<u64>) -> Option<i64> {
        let read = match read {
            _ if self.added == 0 => return Some(0),
            Some(read) if !self.has_gaps(last) => read,
            _ => self.read_up_to(last)?,
        };
        Some(self.added.wrapping_sub(read) as i64)
    }
}
