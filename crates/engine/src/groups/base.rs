//! What the group layer needs to know of the logging below it.

use super::deferred::Deferred;
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

/// A way of logging on which [`Archapt`](super::archapt::Archapt) is layered.
pub trait Base: Send + Sync + Sized + 'static {
    /// The consistency whose log format it uses.
    type Log: Consistency;

    /// Whether write-backs are skipped.
    const SKIPS: bool = false;

    /// Whether a group survives a power cut as soon as its record is durable, so that its clients may be acknowledged
    /// then.
    const LOG_IS_ENOUGH: bool = Self::Log::NO_GAPS;

    /// As [`Consistency::logs_fresh`].
    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        Self::Log::logs_fresh(domain, len)
    }

    /// Makes durable what must be durable before the group's words may be stored in place. With undo logging
    /// `writer.old` has the words to log.
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
        Ok(redo::log(core, writer, ticket, |_| Ok(()))?)
    }
}

/// The old words are logged, each only once between two physical commits: recovery goes back to the last of these, and
/// needs the first old word only.
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

/// `B`, with lines that leave the history's queue deferred under checksums instead of written back: see
/// [`deferred`](super::deferred).
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

/// Adds to `old` the current values of the words of `entry`, except for words in the mask `had`, words whose older
/// values the log has already, and lines that are deferred and have not been stored to since the log was truncated:
/// their before-images restore them.
#[inline]
pub(super) fn first_old_words<M: Memory>(
    memory: &M,
    entry: &LineWrite,
    had: u8,
    (history, deferred): (&History, &Deferred),
    old: &mut WriteSet,
) {
    let stored = history.stored(memory, entry.line);
    let mask = entry.mask & !had & !stored;
    if mask == 0 || stored == 0 && deferred.is_deferred(memory, entry.line) {
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
