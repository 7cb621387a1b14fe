//! What the body of a transaction may do: read and write words and bytes.

use crate::error::Result;
use perdura_memory::{LINE, WORD};

pub use perdura_memory::lock::Mode;

/// A point inside a transaction that it can go back to
/// ([`Session::rollback_to`](crate::Session::rollback_to)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub usize);

/// The offsets of the words from `at` on. A wrong offset may be near the end of all numbers: there they wrap around.
#[inline(always)]
pub fn words_from(at: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(at), |at| Some(at.wrapping_add(WORD)))
}

/// Reads and writes inside a transaction, by offset. Object-safe, so that code which is not performance-critical can
/// take a `&mut dyn Access`.
///
/// A read sees the transaction's own writes. An access out of bounds is an [`Error::Misuse`](crate::Error::Misuse), not
/// a panic; code that has the offset from the pool's contents turns that into damage with
/// [`in_pool`](crate::Error::in_pool).
pub trait Access {
    /// The word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// `Misuse` where there is no aligned word.
    fn read_word(&mut self, at: u64) -> Result<u64>;

    /// Fills `to` with the words from `at` on, a multiple of 8: as [`read_word`](Access::read_word) for each of them, and
    /// faster for a few.
    ///
    /// # Errors
    /// As [`read_word`](Access::read_word).
    #[inline]
    fn read_words(&mut self, at: u64, to: &mut [u64]) -> Result<()> {
        for (word, at) in to.iter_mut().zip(words_from(at)) {
            *word = self.read_word(at)?;
        }
        Ok(())
    }

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

    /// As [`read_bytes`](Access::read_bytes), but the transaction does not depend on what it reads here: it need not
    /// be of one moment, and others may change it before this transaction commits. Each word is one that this
    /// transaction has written, or that some transaction has committed. For a copy whose use is checked afterwards, by
    /// reads of the few words that matter.
    ///
    /// Engines that check reads leave that check out; for all others it is the same.
    ///
    /// # Errors
    /// As [`read_bytes`](Access::read_bytes).
    #[inline]
    fn peek_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.read_bytes(at, to)
    }

    /// Writes `from` at `at`, of any alignment.
    ///
    /// # Errors
    /// As [`write_word`](Access::write_word).
    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()>;

    /// Announces that the word at `at` will be read soon, so that it may be prefetched. For addresses that are known
    /// together, so that the processor waits for them at the same time. Any address is allowed.
    #[inline(always)]
    fn prefetch(&mut self, at: u64) {
        let _ = at;
    }

    /// What this transaction may do.
    fn mode(&self) -> Mode;

    /// A small number that differs between sessions that are open at the same time: data that all of them change may
    /// have a part for each, so that they do not conflict. Which part is changed must make no difference to what is
    /// read.
    #[inline]
    fn lane(&self) -> u32 {
        0
    }
}

/// Splits a write of bytes into runs of whole words, each in one line, which `put_run` writes, and words at the edges.
pub(crate) fn put_lines<A: Access>(
    access: &mut A,
    at: u64,
    from: &[u8],
    put_run: impl Fn(&mut A, u64, &[u64]),
) -> Result<()> {
    let head = ((at.next_multiple_of(WORD) - at) as usize).min(from.len());
    put_bytes(access, at, &from[..head])?;
    let (mut at, mut rest) = (at + head as u64, &from[head..]);
    while rest.len() >= WORD as usize {
        let mut words = [0; (LINE / WORD) as usize];
        let run = match rest.first_chunk::<{ LINE as usize }>() {
            // A copy of a fixed size is faster.
            Some(line) if at.is_multiple_of(LINE) => {
                words = bytemuck::cast(*line);
                LINE as usize
            }
            _ => {
                let run = rest.len().min((LINE - at % LINE) as usize) & !(WORD as usize - 1);
                bytemuck::cast_slice_mut(&mut words)[..run].copy_from_slice(&rest[..run]);
                run
            }
        };
        put_run(access, at, &words[..run / WORD as usize]);
        (at, rest) = (at + run as u64, &rest[run..]);
    }
    put_bytes(access, at, rest)
}

/// Writes bytes as whole words; the words at the edges keep their other bytes.
pub(crate) fn put_bytes<A: Access + ?Sized>(access: &mut A, at: u64, from: &[u8]) -> Result<()> {
    let (mut at, mut rest) = (at, from);
    while !rest.is_empty() {
        let (word, skip) = (at & !7, (at % 8) as usize);
        let count = rest.len().min(8 - skip);
        let mut bytes = if count == 8 { [0; 8] } else { access.read_word(word)?.to_ne_bytes() };
        bytes[skip..skip + count].copy_from_slice(&rest[..count]);
        access.write_word(word, u64::from_ne_bytes(bytes))?;
        (at, rest) = (word + 8, &rest[count..]);
    }
    Ok(())
}
