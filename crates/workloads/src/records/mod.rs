//! A keyed store, as a database workload sees it: hashes of named fields, and sorted sets.
//!
//! The commands of Redis that YCSB's and TPC-C's Redis layouts need. Workloads are written
//! against [`Records`]; the server's keyspace is one implementation, the heap's own collections
//! another ([`Plain`]). Anything not specified here is as in Redis: a key that holds the other kind
//! is an error, and a sorted set without members does not exist.

#[doc(hidden)]
pub mod conformance;
mod plain;

pub use plain::{EachField, EachMember, Plain};
pub(crate) use plain::{KIND, check_blocks};

use perdura::{Result, Tx};

/// Called with each field and value, or with each member.
pub type EachPair<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// Hashes and sorted sets by key. Every operation runs in the transaction it is given.
pub trait Records: Clone + Send + Sync {
    /// Sets fields of the hash at `key`, which is made if it is not there. No fields change
    /// nothing.
    ///
    /// # Errors
    /// As the transaction.
    fn set_fields(&self, tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()>;

    /// The value of one field of the hash at `key`.
    ///
    /// # Errors
    /// As the transaction.
    fn field(&self, tx: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Calls `each` with every field and value of the hash at `key`; false if there is none.
    ///
    /// # Errors
    /// As the transaction.
    fn fields(&self, tx: &mut dyn Tx, key: &[u8], each: &mut EachPair<'_>) -> Result<bool>;

    /// Removes the hash or sorted set at `key`. Returns whether it was there.
    ///
    /// # Errors
    /// As the transaction.
    fn remove(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool>;

    /// Adds `member` to the sorted set at `key`, which is made if it is not there, or gives it a
    /// new score. Returns whether it is new.
    ///
    /// # Errors
    /// `Invalid` if the score is not a number; as the transaction.
    fn add(&self, tx: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool>;

    /// Takes `member` from the sorted set at `key`. Returns whether it was there.
    ///
    /// # Errors
    /// As the transaction.
    fn take(&self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool>;

    /// Calls `each` with members of the sorted set at `key` and their scores, from the lowest
    /// score that is at least `from` on, while it returns true. Members of the same score come in
    /// the order of their bytes.
    ///
    /// # Errors
    /// As the transaction.
    fn range(
        &self,
        tx: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()>;

    /// Members of the sorted set at `key`.
    ///
    /// # Errors
    /// As the transaction.
    fn members(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<u64>;
}

/// Records that are found again in a pool: one store in each.
pub trait Rooted: Records {
    /// Makes the store, empty, in a pool that has none. The same in every run.
    ///
    /// # Errors
    /// As the transaction.
    fn create(tx: &mut dyn Tx) -> Result<Self>;

    /// The pool's store, if it has one.
    ///
    /// # Errors
    /// As the transaction.
    fn find(tx: &mut dyn Tx) -> Result<Option<Self>>;
}
