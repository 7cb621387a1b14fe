//! Redo logging with asynchronous write-back, in Mnemosyne's manner, with one fence.
//!
//! Commit, holding the lock, of a transaction or of several that are waited for together ([`shared`]):
//! 1. the new words go into the log as one record that proves itself complete, and are fenced: the only wait;
//! 2. the words are stored in place, and their lines marked as dirty.
//!
//! A checkpoint writes the dirty lines back, each once however often it was stored to, fences, and moves the
//! checkpoint, which empties the log. Recovery applies the complete records after the checkpoint in the order of their
//! tickets, up to the first gap.
//!
//! Large fresh memory is stored in place while the transaction runs, and fenced before 1: its record must not become
//! durable, by eviction, while the memory that it refers to is not.
//!
//! Where nothing becomes durable without a fence ([`Domain::evicts`] is false: a block device), 2 comes before the
//! fence, and the lock is released before the fence, so that one sync serves many transactions. What always holds: no
//! word is durable in place before the record that holds it is durable.

use super::core::Core;
use super::protocol::{Consistency, LockOf, Right};
use super::shared::{self, OneRecord, Sharing};
use super::writer::Writer;
use crate::error::Boxed;
use crate::log::record::FoundRecord;
use crate::log::recovery::store_words;
use crate::planted::{self, Bug};
use crate::writes::overlay::{MayOverlay, Overlay};
use crate::{Counters, Recovery, Result, Ticket};
use perdura_memory::lock::{Order, SharedRight};
use perdura_memory::{Domain, LINE, Memory, line_of, lines_in};

/// Redo logging.
pub struct Redo;

/// Fresh memory up to this many bytes is logged: a sequential log is flushed faster than scattered lines, and the lines
/// themselves are flushed later, with no thread waiting. Larger fresh memory is stored in place at once, and costs a
/// fence of its own.
const FRESH_LOGGED: u64 = 1024;
/// The same on a block device, where a fence is a sync.
const FRESH_LOGGED_MEDIA: u64 = 64 << 10;

impl Consistency for Redo {
    const LOGS_NEW_WORDS: bool = true;

    const NO_GAPS: bool = true;

    type Groups = Sharing<Self>;

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        match domain {
            Domain::Persistent | Domain::Process => false,
            Domain::Transient => len <= FRESH_LOGGED,
            Domain::Media => len <= FRESH_LOGGED_MEDIA,
        }
    }

    #[inline(always)]
    fn commit<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        shared::commit::<M, Self>(core, right, writer)
    }

    #[inline(always)]
    fn commit_awaited<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        shared::commit_awaited::<M, Self>(core, right, writer)
    }

    #[inline]
    fn after_commit<M: Memory, O: Order>(
        core: &Core<M>,
        lock: &LockOf<O, Self>,
        writer: &mut Writer,
    ) {
        after_commit::<M, Self, O>(core, lock, writer);
    }

    fn checkpoint_within<M: Memory>(
        core: &Core<M>,
        _right: Right<'_, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        empty(core, counters)
    }

    fn checkpoint<M: Memory, O: Order>(
        core: &Core<M>,
        lock: &LockOf<O, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        empty_alongside_writers::<M, Self, O>(core, lock, counters)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        store_words(memory, whole.iter().flatten())?;
        Ok(Recovery { replayed: whole.len() as u64, ..Recovery::default() })
    }
}

impl OneRecord for Redo {
    /// On a block device one sync serves all transactions whose records are in the log, without this.
    fn gains_from_sharing(domain: Domain) -> bool {
        domain.needs_write_back() && domain.evicts()
    }

    #[inline(always)]
    fn log_transaction<M: Memory>(
        core: &Core<M>,
        open: &mut SharedRight<'_, Overlay>,
        writer: &mut Writer,
    ) -> Boxed<u64> {
        log_transaction_here(core, open, writer)
    }
}

/// Makes the writer's transaction durable in a record, and stores it in place; returns the record's number.
///
/// # Errors
/// As [`Consistency::commit`].
#[inline(never)]
pub(crate) fn log_transaction<M: Memory, S: MayOverlay>(
    core: &Core<M>,
    open: &mut SharedRight<'_, S>,
    writer: &mut Writer,
) -> Boxed<u64> {
    log_transaction_here(core, open, writer)
}

/// As [`log_transaction`], in its caller: for the commits that are most.
#[inline(always)]
fn log_transaction_here<M: Memory, S: MayOverlay>(
    core: &Core<M>,
    open: &mut SharedRight<'_, S>,
    writer: &mut Writer,
) -> Boxed<u64> {
    let number = core.next_number()?;
    log(core, writer, number, |counters| empty(core, counters))?;
    core.be_alone(open);
    let track = core.memory.domain().needs_write_back();
    if planted::has(Bug::CommittedBeforeStored) {
        core.set_last_commit(number);
    }
    if planted::has(Bug::DirtyBeforeStored) {
        writer.writes.for_each(&*core.memory, |at, _| core.mark_dirty(line_of(at)));
    }
    if track && !planted::has(Bug::DirtyBeforeStored) {
        writer.apply_words(core, core.dirty_marker());
    } else {
        apply_unmarked(core, writer);
    }
    core.set_last_commit(number);
    Ok(number)
}

/// Stores words in place that need no write-back, or whose lines are marked.
#[inline(never)]
fn apply_unmarked<M: Memory>(core: &Core<M>, writer: &mut Writer) {
    writer.apply_words(core, |_| {});
}

/// A checkpoint concurrent with writers, except for the part that a block device needs the lock for.
pub(crate) fn empty_alongside_writers<M: Memory, C: Consistency, O: Order>(
    core: &Core<M>,
    lock: &LockOf<O, C>,
    counters: &mut Counters,
) -> Result<()> {
    if core.memory.domain().evicts() {
        return write_back(core, counters);
    }
    let captured = |_: Right<'_, C>| core.part(|| capture(core, counters));
    let ticket = lock.writing(&*core.memory, captured)?;
    conclude(core, ticket, counters)
}

/// A checkpoint. The caller is the writer.
pub(crate) fn empty<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<()> {
    if core.memory.domain().evicts() {
        return write_back(core, counters);
    }
    let ticket = core.part(|| capture(core, counters))?;
    conclude(core, ticket, counters)
}

/// A checkpoint where lines may be written back while they are stored to.
fn write_back<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<()> {
    core.alone(|| {
        let ticket = core.last_commit();
        write_back_dirty(core, counters, LINE);
        fence(core, counters)?;
        core.move_checkpoint(ticket, counters)
    })
}

/// The rest of a checkpoint on a block device, once the dirty lines have been captured.
fn conclude<M: Memory>(core: &Core<M>, ticket: u64, counters: &mut Counters) -> Result<()> {
    core.alone(|| {
        fence(core, counters)?;
        if ticket > core.checkpointed() {
            core.move_checkpoint(ticket, counters)?;
        }
        Ok(())
    })
}

/// The first part on a block device, with the lock held: words in place must not be written back before the records
/// that hold them are durable, nor change while they are captured.
fn capture<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<u64> {
    let ticket = core.last_commit();
    fence(core, counters)?;
    core.raise_durable(ticket);
    // Clean lines between dirty ones may be written too, as they are durable as they are visible: fewer, longer writes.
    write_back_dirty(core, counters, 4096);
    Ok(ticket)
}

#[track_caller]
fn fence<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<()> {
    core.memory.fence();
    counters.fences += 1;
    Ok(core.memory.check_fence()?)
}

/// Writes every dirty line back, joining runs that are less than `gap` bytes apart.
fn write_back_dirty<M: Memory>(core: &Core<M>, counters: &mut Counters, gap: u64) {
    let mut run = 0..0;
    core.take_dirty(|next| {
        if next.start - run.end < gap && run.end > run.start {
            run.end = next.end;
            return;
        }
        core.memory.write_back(run.start, run.end - run.start);
        counters.write_backs_data += lines_in(run.start, run.end - run.start);
        run = next;
    });
    core.memory.write_back(run.start, run.end - run.start);
    counters.write_backs_data += lines_in(run.start, run.end - run.start);
}

/// Makes the transaction's record durable, if words stored in place could otherwise become durable before it.
#[inline(always)]
#[track_caller]
pub(crate) fn log<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    ticket: u64,
    make_room: impl FnMut(&mut Counters) -> Result<()>,
) -> Boxed<()> {
    fence_fresh(core, writer)?;
    writer.append_words(core, ticket, make_room)?;
    if core.memory.domain().evicts() {
        if planted::has(Bug::DurableBeforeFence) {
            core.set_durable(ticket);
        }
        writer.fence(core)?;
        core.set_durable(ticket);
    }
    Ok(())
}

/// Memory that the record makes reachable but does not hold must be durable before the record may be.
#[inline(always)]
fn fence_fresh<M: Memory>(core: &Core<M>, writer: &mut Writer) -> Boxed<()> {
    if writer.fresh.is_empty() { Ok(()) } else { fence_some_fresh(core, writer) }
}

#[inline(never)]
fn fence_some_fresh<M: Memory>(core: &Core<M>, writer: &mut Writer) -> Boxed<()> {
    writer.flush_fresh(core);
    if planted::has(Bug::FreshUnfenced) {
        return Ok(());
    }
    writer.fence(core)
}

/// The number of segments in use from which on a checkpoint is due.
fn due<M: Memory>(core: &Core<M>) -> usize {
    (core.geometry.segments as usize / 2).max(1)
}

/// What follows a commit, outside the lock.
#[inline]
pub(crate) fn after_commit<M: Memory, C: Consistency, O: Order>(
    core: &Core<M>,
    lock: &LockOf<O, C>,
    writer: &mut Writer,
) {
    // Checked only when a segment was filled: the common commit pays nothing for it.
    if writer.filled {
        writer.filled = false;
        checkpoint_if_half_full::<M, C, O>(core, lock, writer);
    }
}

#[cold]
fn checkpoint_if_half_full<M: Memory, C: Consistency, O: Order>(
    core: &Core<M>,
    lock: &LockOf<O, C>,
    writer: &mut Writer,
) {
    if core.segments.full() >= due(core) && !core.is_checkpointing() {
        // A failure shows again at the next fence, before anything is acknowledged.
        let _ = C::checkpoint(core, lock, &mut writer.counters);
    }
}
