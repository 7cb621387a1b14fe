//! Archapt (Wu, Ren, Li: Architecture-Aware, High Performance Transaction for Persistent Memory):
//! a layer on undo and on redo logging that takes write-backs of data out of transactions.
//!
//! A commit has the paper's two moments. At the *logical* commit the transaction's words join a
//! `Group`: they are visible to every later transaction, and durable nowhere. At the *physical*
//! commit a group becomes durable as a whole, as one transaction of the engine below. Then its
//! lines wait for their write-back in the `History`, the paper's LRU queue:
//! - *redo*: the log has the new words, so that a group is durable with its record. A line that
//!   is written again while it waits needs no write-back for what the later record covers; a line
//!   is written back when it leaves the queue, or when its oldest record is about to be
//!   overwritten.
//! - *undo*: the log has the old words, each word once between two physical commits. A group
//!   is durable when its lines are written back, each once however often it was written, and the
//!   log is cut behind it.
//!
//! What always holds: no word is durable in place before the record that protects it is; a record
//! is overwritten only when every line that it protects has been written back, or is protected
//! whole by a later one. docs/archapt.md says where this is the paper's way and where not.
//!
//! Two more engines skip write-backs, and have checksums vouch for what was left to the caches
//! (III-C): less certain, and for measuring what that gains.
//!
//! Reading order: `group`, `open` (with `overlay`), `direct`, `answer`, `history`,
//! `pace`, [`base`] (what differs between undo and redo); then, for skipping, [`cover`] and `skip`.

mod answer;
pub mod base;
pub mod cover;
mod direct;
mod group;
mod history;
mod open;
mod pace;
mod skip;

pub use base::{ArchaptRedo, ArchaptUndo, Base, Skipping};
pub use cover::Skip;

use crate::area::{self, Checkpoint, Geometry, Told};
use crate::engine::Recovery;
use crate::logged::{Logged, Protocol};
use crate::overlay::Overlay;
use crate::record::Found;
use crate::writer::Writer;
use crate::{Counters, Error, Mode, Result, Ticket};
use cover::Layout;
use group::Group;
use open::State;
use perdura_memory::{Domain, LINE, Memory, line_of};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The layer on `B`; [`ArchaptUndoEngine`] and [`ArchaptRedoEngine`] are the engines.
pub struct Archapt<B>(PhantomData<B>);

/// Archapt on undo logging, on the memory `M`.
pub type ArchaptUndoEngine<M> = Logged<M, Archapt<ArchaptUndo>>;
/// Archapt on redo logging, on the memory `M`.
pub type ArchaptRedoEngine<M> = Logged<M, Archapt<ArchaptRedo>>;

/// Archapt on undo logging that skips write-backs, on the memory `M`.
pub type SkippingUndoEngine<M> = Logged<M, Archapt<Skipping<ArchaptUndo>>>;
/// Archapt on redo logging that skips write-backs, on the memory `M`.
pub type SkippingRedoEngine<M> = Logged<M, Archapt<Skipping<ArchaptRedo>>>;

/// What can be set while an engine runs; `None` leaves the engine's own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Lines that may wait for their write-back: as many as the last-level cache has, unless
    /// given.
    pub queue_lines: Option<u64>,
    /// Bytes of log that a group may fill before it is made durable though nobody waits; four times
    /// as many while there are readers.
    pub group_bytes: Option<u64>,
    /// Nanoseconds after which a group is made durable though nobody waits.
    pub answer_within_ns: Option<u64>,
    /// When write-backs are skipped, of engines that can.
    pub skip: Option<Skip>,
}

impl<B: Base> Protocol for Archapt<B> {
    const NAME: &'static str = B::NAME;
    const NO_GAPS: bool = B::NO_GAPS;
    const STREAMS: bool = true;
    const GROUPS: bool = true;
    const SKIPS: bool = B::SKIPS;
    const GROUP_BITS: u32 = group::TICKET_BITS;

    type State = State;

    fn state<M: Memory>(memory: &M, geometry: &Geometry, salt: u64) -> Self::State {
        let layout = Layout::of(geometry, salt);
        let queue = memory.last_level_cache() / LINE;
        State::new(Group::new(memory.limit(), queue, B::LOG_IS_ENOUGH, layout))
    }

    fn checksum_bytes(limit: u64) -> u64 {
        if B::SKIPS { Layout::bytes(limit) } else { 0 }
    }

    #[inline]
    fn is_protected<M: Memory>(engine: &Logged<M, Self>, at: u64, len: u64) -> bool {
        // With redo, a line that was covered when it was stored to is in the log as a whole: what
        // shares it with others must be there as well.
        // SAFETY: the caller is in a transaction that writes.
        B::SKIPS
            && (B::LOG_IS_ENOUGH && !at.is_multiple_of(LINE)
                || unsafe { engine.state.group() }.covers(at, len))
    }

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        B::logs_fresh(domain, len)
    }

    #[inline]
    fn overlay<M: Memory>(engine: &Logged<M, Self>) -> Option<&Overlay> {
        // SAFETY: sessions ask between beginning and ending a transaction.
        Some(unsafe { engine.state.overlay() })
    }

    #[inline]
    fn commit<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) -> Result<Ticket> {
        // SAFETY: the caller is the writer, and nothing below reaches in again.
        let group = unsafe { engine.state.group() };
        group.counting_for(writer, |group, writer| group.join::<M, B>(engine, writer))
    }

    #[inline]
    fn commit_awaited<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) -> Result<Ticket> {
        // SAFETY: the caller is the writer, and nothing below reaches in again.
        let group = unsafe { engine.state.group() };
        group.counting_for(writer, |group, writer| group.commit_awaited::<M, B>(engine, writer))
    }

    fn wait<M: Memory>(
        engine: &Logged<M, Self>,
        writer: &mut Writer,
        number: u64,
        mode: Option<Mode>,
    ) -> Result<()> {
        let mut answer = || {
            // SAFETY: this is the writer: the caller is, or right here.
            let group = unsafe { engine.state.group() };
            group.counting_for(writer, |group, _| group.answer::<M, B>(engine, number))
        };
        match mode {
            Some(Mode::Write) => answer(),
            // It would wait for itself.
            Some(Mode::Read) => Err(Error::Invalid("a wait inside of a transaction that reads")),
            None => engine.lock.writing(&*engine.memory, answer),
        }
    }

    #[inline]
    fn seen<M: Memory>(engine: &Logged<M, Self>, overlaid: u64) -> Ticket {
        // SAFETY: the caller is in a transaction.
        let joined = unsafe { engine.state.overlay() }.joined();
        // A transaction that could have written may have ended the group.
        open::ticket(engine, overlaid.min(joined))
    }

    fn checkpoint<M: Memory>(
        engine: &Logged<M, Self>,
        exclusive: bool,
        counters: &mut Counters,
    ) -> Result<()> {
        let mut checkpoint = || {
            // SAFETY: this is the writer: the caller is, or right here.
            let group = unsafe { engine.state.group() };
            let emptied = group.empty_log::<M, B>(engine);
            *counters += std::mem::take(&mut *group.writer.counters);
            *counters += std::mem::take(&mut *engine.state.counters());
            emptied
        };
        if exclusive { checkpoint() } else { engine.lock.writing(&*engine.memory, checkpoint) }
    }

    /// Room is made before a record is written, by whoever has the group.
    fn make_room<M: Memory>(_engine: &Logged<M, Self>, _counters: &mut Counters) -> Result<()> {
        Ok(())
    }

    fn reclaimable<M: Memory>(engine: &Logged<M, Self>) -> u64 {
        engine.checkpointed.load(Ordering::Acquire)
    }

    fn tend<M: Memory>(engine: &Logged<M, Self>) -> Result<()> {
        engine.lock.writing(&*engine.memory, || {
            // SAFETY: this is the writer.
            let group = unsafe { engine.state.group() };
            let answered = group.answer_if_due::<M, B>(engine);
            *engine.state.counters() += std::mem::take(&mut *group.writer.counters);
            answered
        })
    }

    fn tune<M: Memory>(engine: &Logged<M, Self>, tuning: &Tuning) {
        engine.lock.writing(&*engine.memory, || {
            // SAFETY: this is the writer.
            unsafe { engine.state.group() }.tune(tuning);
        });
    }

    fn count_shared<M: Memory>(engine: &Logged<M, Self>, counters: &Counters) {
        *engine.state.counters() += *counters;
    }

    fn shared_counters<M: Memory>(engine: &Logged<M, Self>) -> Counters {
        *engine.state.counters()
    }

    fn settle<M: Memory>(engine: &Logged<M, Self>, counters: &mut Counters) -> Result<()> {
        Self::checkpoint(engine, false, counters)?;
        if !B::SKIPS {
            return Ok(());
        }
        engine.lock.writing(&*engine.memory, || {
            // SAFETY: this is the writer.
            let group = unsafe { engine.state.group() };
            let settled = group.empty_log(engine).and_then(|()| group.write_back_covered(engine));
            *counters += std::mem::take(&mut *group.writer.counters);
            settled
        })
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery> {
        B::apply(memory, whole)
    }

    fn choose<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        mut records: Vec<Found>,
        told: Told,
    ) -> Result<(Vec<Vec<Found>>, u64)> {
        if B::SKIPS && B::LOG_IS_ENOUGH {
            records.extend(cover::images(memory, &Layout::of(geometry, checkpoint.salt)));
            records.sort_by_key(|record| record.part);
        }
        area::transactions(records, checkpoint.ticket, Self::NO_GAPS, told)
    }

    fn mend<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        highest: u64,
    ) -> Result<(u64, u64)> {
        if !B::SKIPS {
            return Ok((0, 0));
        }
        // An undo log takes back what is after the checkpoint.
        let last = if B::LOG_IS_ENOUGH { highest } else { checkpoint.ticket };
        let found = cover::examine(memory, Layout::of(geometry, checkpoint.salt), last)?;
        found.mend(memory)?;
        Ok((found.covered.len() as u64, found.corrected.len() as u64))
    }
}

/// The lines of a range of bytes that begins at a word, and of each the words that it touches.
fn lines(range: &Range<u64>) -> impl Iterator<Item = (u64, u8)> + use<> {
    let Range { start, end } = *range;
    (line_of(start)..end).step_by(LINE as usize).map(move |line| {
        let first = (start.max(line) - line) / 8;
        let after = (end.min(line + LINE) - line).div_ceil(8);
        (line, (0xFF_u8 << first) & (0xFF >> (8 - after)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_range_are_found_by_line() {
        assert_eq!(lines(&(64..128)).collect::<Vec<_>>(), [(64, 0xFF)]);
        assert_eq!(lines(&(96..136)).collect::<Vec<_>>(), [(64, 0xF0), (128, 1)]);
        assert_eq!(lines(&(72..81)).collect::<Vec<_>>(), [(64, 0b110)]);
    }
}
