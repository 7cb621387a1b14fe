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

/// A point inside a transaction that it can go back to ([`Access::rollback_to`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub usize);

/// Reads and writes inside a transaction, by offset. Object-safe, so that code that does not
/// care for the last nanosecond can take a `&mut dyn Access`.
///
/// A read sees the transaction's own writes. Offsets may come from the pool's contents: what
/// is out of bounds is an [`Error::Corrupt`](crate::Error::Corrupt), not a panic.
pub trait Access {
    /// The word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// `Corrupt` where there is no aligned word.
    fn read_word(&mut self, at: u64) -> Result<u64>;

    /// Writes the word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// `Corrupt` where there is no aligned word, `ReadOnly`, `TooLarge`.
    fn write_word(&mut self, at: u64, value: u64) -> Result<()>;

    /// Fills `to` from `at`, of any alignment.
    ///
    /// # Errors
    /// `Corrupt` where it is out of bounds.
    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()>;

    /// Writes `from` at `at`, of any alignment.
    ///
    /// # Errors
    /// As [`write_word`](Access::write_word).
    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()>;

    /// Writes `from` into memory that this very transaction has allocated, and that nothing
    /// committed refers to: an engine may skip the log for it. `at` is a multiple of 8, and the
    /// bytes up to the next multiple of 8 after the end may be overwritten too. If there are more than
    /// 256, nothing else that is committed may be in the last line. What a transaction has freed is
    /// no such memory until its ticket is [`reclaimable`](crate::Engine::reclaimable): readers may
    /// still look at it.
    ///
    /// # Errors
    /// As [`write_word`](Access::write_word).
    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.write_bytes(at, from)
    }

    /// What this transaction may do.
    fn mode(&self) -> Mode;

    /// A point to go back to. Nested transactions are flattened into their outermost one;
    /// marks are how a part of it is undone.
    fn mark(&mut self) -> Mark;

    /// Undoes every write since `mark`; later marks are void.
    fn rollback_to(&mut self, mark: Mark);
}
