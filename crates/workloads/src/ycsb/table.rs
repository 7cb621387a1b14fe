//! The table of records: the interface between the workload and the store that it measures.

use super::shape::Shape;
use perdura::{Result, Tx};

/// Records by key, and a way to go through them from a key on.
pub trait Table: Sized {
    /// See [`Workload::STATIC`](crate::Workload::STATIC).
    const STATIC: bool = false;

    /// Where a record is, for the rest of the transaction that found it.
    type Place<'k>: Copy;

    /// A new, empty one; `indexed` if there will be scans.
    ///
    /// # Errors
    /// As the transaction.
    fn create<X: Tx>(tx: &mut X, shape: Shape, indexed: bool) -> Result<Self>;

    /// The one that was created in this pool.
    ///
    /// # Errors
    /// As the transaction.
    fn open<X: Tx>(tx: &mut X, shape: Shape) -> Result<Option<Self>>;

    /// The shape of the records.
    fn shape(&self) -> Shape;

    /// Where the record with this key is. A missing record may be noticed only when it is
    /// [read](Table::read).
    ///
    /// # Errors
    /// As the transaction.
    fn find<'k, X: Tx>(&self, tx: &mut X, key: &'k [u8]) -> Result<Option<Self::Place<'k>>>;

    /// Reads all fields, one after the other, into `record`; false if not all of them are there.
    ///
    /// # Errors
    /// As the transaction.
    fn read<X: Tx>(&self, tx: &mut X, place: Self::Place<'_>, record: &mut [u8]) -> Result<bool>;

    /// Writes one field.
    ///
    /// # Errors
    /// As the transaction.
    fn write_field<X: Tx>(
        &self,
        tx: &mut X,
        place: Self::Place<'_>,
        field: usize,
        value: &[u8],
    ) -> Result<()>;

    /// Adds a record; false if its key was there already.
    ///
    /// # Errors
    /// As the transaction.
    fn insert<X: Tx>(&self, tx: &mut X, key: &[u8], record: &[u8]) -> Result<bool>;

    /// Calls `each` with the keys and places of up to `limit` records from `key` on.
    ///
    /// # Errors
    /// The errors of `each`; as the transaction.
    fn scan<X: Tx>(
        &self,
        tx: &mut X,
        key: &[u8],
        limit: usize,
        each: impl FnMut(&mut X, &[u8], Self::Place<'_>) -> Result<()>,
    ) -> Result<()>;

    /// Whether a scan from `start` may begin with `first`, both of them keys.
    fn begins(start: &[u8], first: &[u8]) -> bool;

    /// Whether a scan may go on from one key to the other.
    fn ascends(from: &[u8], to: &[u8]) -> bool;

    /// How many records there are, by each of its counts.
    ///
    /// # Errors
    /// As the transaction.
    fn counts<X: Tx>(&self, tx: &mut X) -> Result<Vec<u64>>;
}
