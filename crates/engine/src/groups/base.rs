//! What the layer needs to know of the engine below it.

use super::cover::Cover;
use super::history::History;
use crate::Result;
use crate::consistency::core::Core;
use crate::consistency::protocol::Consistency;
use crate::consistency::redo::{self, Redo};
use crate::consistency::undo::Undo;
use crate::consistency::writer::Writer;
use crate::writes::{LineWrite, WriteSet};
use perdura_memory::{Domain, Memory};
use std::marker::PhantomData;

/// A way of logging, for [`Archapt`](super::archapt::Archapt) to be a layer on.
pub trait Base: Send + Sync + Sized + 'static {
    /// The consistency whose log it is.
    type Log: Consistency;

    /// Whether write-backs are skipped.
    const SKIPS: bool = false;

    /// Whether a group outlives a power cut as soon as its record does, so that its clients may
    /// be answered then.
    const LOG_IS_ENOUGH: bool = Self::Log::NO_GAPS;

    /// As [`Consistency::logs_fresh`].
    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        Self::Log::logs_fresh(domain, len)
    }

    /// Makes durable what must be so before the group's words may be stored in place. With undo
    /// logging `writer.old` has the words that are to be logged.
    ///
    /// # Errors
    /// `TooLarge`, `Io`; nothing has been stored in place then.
    fn log<M: Memory>(core: &Core<M>, writer: &mut Writer, ticket: u64) -> Result<()>;
}

/// The new words are logged.
pub struct ArchaptRedo;

/// Fresh memory of more bytes is written back before the group's record, with one fence more for
/// the group: cheaper than logging it and writing it back as well.
const FRESH_LOGGED: u64 = 256;

impl Base for ArchaptRedo {
    type Log = Redo;

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        match domain {
            Domain::Transient => len <= FRESH_LOGGED,
            other => Redo::logs_fresh(other, len),
        }
    }

    #[inline]
    fn log<M: Memory>(core: &Core<M>, writer: &mut Writer, ticket: u64) -> Result<()> {
        redo::log(core, writer, ticket, |_| Ok(()))
    }
}

/// The old words are logged, and each but once between two physical commits: recovery goes back
/// to the last of them, and needs the first old word only.
pub struct ArchaptUndo;

impl Base for ArchaptUndo {
    type Log = Undo;

    fn log<M: Memory>(core: &Core<M>, writer: &mut Writer, ticket: u64) -> Result<()> {
        if writer.old.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut writer.writes, &mut writer.old);
        let logged = writer.append(core, ticket, |entry, word| entry.words[word], |_| Ok(()));
        std::mem::swap(&mut writer.writes, &mut writer.old);
        logged?;
        if core.memory.domain().evicts() {
            writer.fence(core)?;
        }
        Ok(())
    }
}

/// `B`, with lines that left the history's queue not written back but covered by checksums: see
/// [`cover`](super::cover).
pub struct Skipping<B>(PhantomData<B>);

impl<B: Base> Base for Skipping<B> {
    const SKIPS: bool = true;
    type Log = B::Log;

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        B::logs_fresh(domain, len)
    }

    #[inline]
    fn log<M: Memory>(core: &Core<M>, writer: &mut Writer, ticket: u64) -> Result<()> {
        B::log(core, writer, ticket)
    }
}

/// Adds to `old` what the words of `entry` are now, but for those in the mask `had`, for those
/// whose older values the log has already, and for lines that nobody has stored to since the log
/// was cut and that are covered: their before-image is what a power cut brings back.
#[inline]
pub(super) fn first_old_words<M: Memory>(
    memory: &M,
    entry: &LineWrite,
    had: u8,
    (history, cover): (&History, &Cover),
    old: &mut WriteSet,
) {
    let stored = history.stored(memory, entry.line);
    let mask = entry.mask & !had & !stored;
    if mask == 0 || stored == 0 && cover.covers(memory, entry.line) {
        return;
    }
    let (mut words, mut left) = ([0; 8], mask);
    while left != 0 {
        let word = left.trailing_zeros() as usize;
        left &= left - 1;
        words[word] = memory.load(entry.line + word as u64 * 8);
    }
    old.push(memory, &LineWrite { line: entry.line, mask, words });
}
