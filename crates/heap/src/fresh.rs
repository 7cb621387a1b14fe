//! Memory that the running transaction has allocated: the right to write it without the log.
//!
//! Invariant: only allocation makes a [`Fresh`], and it is valid in its own transaction only.

/// Memory that a transaction has allocated: [`Tx::allocate`](crate::Tx::allocate) returns it, and
/// [`Tx::write_fresh`](crate::Tx::write_fresh) takes. Others refer to it by its [offset](Fresh::at), which is
/// all that is left of it when the transaction has ended.
///
/// ```
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// use perdura::{Purpose, Tx};
///
/// let new = tx.allocate(Purpose::General, 100)?;
/// assert!(new.bytes() >= 100);
/// tx.write_fresh(new, 0, &[1; 100])?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// The transaction's number.
    pub(crate) transaction: u64,
    /// Number of allocations that the transaction made before it.
    pub(crate) place: usize,
}

impl Fresh {
    /// The offset of its first byte.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Usable bytes: the requested ones, rounded up.
    pub const fn bytes(&self) -> u64 {
        self.len
    }

    /// Whether `len` bytes from its byte `from` on lie in it, and `from` is a multiple of a word.
    pub(crate) const fn has(&self, from: u64, len: u64) -> bool {
        from.is_multiple_of(8) && from <= self.len && len <= self.len - from
    }
}
