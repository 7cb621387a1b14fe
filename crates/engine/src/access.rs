//! What a transaction's body may do: read and write words and bytes.

use crate::Result;

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It may not; it shares the memory with other readers, writes nothing and fences nothing.
    Read,
    /// It may.
    Write,
}

/// A point inside a transaction that it can go back to
/// ([`Session::rollback_to`](crate::Session::rollback_to)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub usize);

/// Reads and writes inside a transaction, by offset. Object-safe, so that code that does not
/// care for the last nanosecond can take a `&mut dyn Access`.
///
/// A read sees the transaction's own writes. What is out of bounds is an
/// [`Error::Misuse`](crate::Error::Misuse), not a panic; code that has the offset from the pool's contents
/// makes damage of it with [`in_pool`](crate::Error::in_pool).
pub trait Access {
    /// The word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// `Misuse` where there is no aligned word.
    fn read_word(&mut self, at: u64) -> Result<u64>;

    /// Writes the word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// `Misuse` where there is no aligned word, `ReadOnly`, `TooLarge`.
    fn write_word(&mut self, at: u64, value: u64) -> Result<()>;

    /// Fills `to` from `at`, of any alignment.
    ///
    /// # Errors
    /// `Misuse` where it is out of bounds.
    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()>;

    /// Writes `from` at `at`, of any alignment.
    ///
    /// # Errors
    /// As [`write_word`](Access::write_word).
    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()>;

    /// Says that what is at `at` will be read soon: it is fetched meanwhile, if that can be. For addresses that
    /// are known together, so that the processor waits for them at the same time. Anything is allowed.
    #[inline(always)]
    fn prefetch(&mut self, at: u64) {
        let _ = at;
    }

    /// What this transaction may do.
    fn mode(&self) -> Mode;
}
