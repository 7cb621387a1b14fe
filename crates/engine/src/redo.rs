//! Redo logging with asynchronous write-back, in Mnemosyne's manner, with one fence.
//!
//! Commit, holding the lock:
//! 1. the new words go into the log as one record that proves itself whole, and are fenced:
//!    the only wait;
//! 2. the words are stored in place, and their lines noted as dirty.
//!
//! A checkpoint writes the dirty lines back, each once however often it was stored to, fences,
//! and moves the checkpoint, which empties the log. Recovery applies the whole records after
//! the checkpoint in the order of their tickets, up to the first gap.
//!
//! Large fresh memory is stored in place while the transaction runs, and fenced before 1: its
//! record must not become durable, by eviction, while what it refers to is not.
//!
//! Where nothing becomes durable by itself ([`Domain::evicts`] is false: a block device), 2 comes
//! before the fence, outside of which the lock is released, so that one sync serves many
//! transactions. What holds always: no word is durable in place before the record that holds it
//! is durable.

use crate::area::Geometry;
use crate::engine::Recovery;
use crate::logged::{Logged, Protocol, store_words};
use crate::planted::{self, Bug};
use crate::record::Found;
use crate::writer::Writer;
use crate::{Counters, Result, Ticket};
use perdura_memory::{Domain, LINE, Memory, lines_in};
use std::sync::atomic::Ordering;

/// The protocol; [`RedoEngine`] is the engine.
pub struct Redo;

/// Redo logging on the memory `M`.
pub type RedoEngine<M> = Logged<M, Redo>;

/// Fresh memory up to this many bytes is logged: a sequential log is flushed faster than
/// scattered lines, and the lines themselves later, without anybody waiting. More is stored in
/// place at once, and costs a fence of its own.
const FRESH_LOGGED: u64 = 1024;
/// The same on a block device, where a fence is a sync.
const FRESH_LOGGED_MEDIA: u64 = 64 << 10;

impl Protocol for Redo {
    const NAME: &'static str = "redo";
    const NO_GAPS: bool = true;
    const STREAMS: bool = true;

    type State = ();

    fn state<M: Memory>(_memory: &M, _geometry: &Geometry, _salt: u64) {}

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        match domain {
            Domain::Persistent | Domain::Process => false,
            Domain::Transient => len <= FRESH_LOGGED,
            Domain::Media => len <= FRESH_LOGGED_MEDIA,
        }
    }

    #[inline]
    fn commit<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) -> Result<Ticket> {
        let ticket = engine.next_number()?;
        log(engine, writer, ticket)?;
        engine.be_alone();
        let track = engine.memory.domain().needs_write_back();
        if planted::has(Bug::CommittedBeforeStored) {
            engine.committed.0.store(ticket, Ordering::Release);
        }
        if planted::has(Bug::DirtyBeforeStored) {
            writer.writes.entries().iter().for_each(|entry| engine.dirty.mark_alone(entry.line));
        }
        writer.apply(engine, |entry, _| {
            if track && !planted::has(Bug::DirtyBeforeStored) {
                engine.dirty.mark_alone(entry.line);
            }
        });
        engine.committed.0.store(ticket, Ordering::Release);
        writer.counters.commits += 1;
        Ok(Ticket(ticket))
    }

    #[inline]
    fn committed<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) {
        // Only looked at when a segment was filled: the common commit pays nothing for it.
        if std::mem::take(&mut writer.filled) {
            checkpoint_if_half_full(engine, writer);
        }
    }

    fn checkpoint<M: Memory>(
        engine: &Logged<M, Self>,
        exclusive: bool,
        counters: &mut Counters,
    ) -> Result<()> {
        if engine.memory.domain().evicts() {
            return engine.alone(|| {
                let ticket = engine.committed.0.load(Ordering::Acquire);
                write_back_dirty(engine, counters, LINE);
                fence(engine, counters)?;
                engine.move_checkpoint(ticket, counters)
            });
        }
        let ticket = if exclusive {
            engine.part(|| capture(engine, counters))?
        } else {
            engine.lock.writing(&*engine.memory, || engine.part(|| capture(engine, counters)))?
        };
        engine.alone(|| {
            fence(engine, counters)?;
            if ticket > engine.checkpointed.load(Ordering::Acquire) {
                engine.move_checkpoint(ticket, counters)?;
            }
            Ok(())
        })
    }

    fn reclaimable<M: Memory>(engine: &Logged<M, Self>) -> u64 {
        engine.checkpointed.load(Ordering::Acquire)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery> {
        store_words(memory, whole.iter().flatten())?;
        Ok(Recovery { replayed: whole.len() as u64, ..Recovery::default() })
    }
}

/// On a block device, with the lock held: what is in place must not be written back before the
/// records that hold it are durable, nor change while it is being captured.
fn capture<M: Memory>(engine: &Logged<M, Redo>, counters: &mut Counters) -> Result<u64> {
    let ticket = engine.committed.0.load(Ordering::Acquire);
    fence(engine, counters)?;
    engine.durable.0.fetch_max(ticket, Ordering::AcqRel);
    // Clean lines between dirty ones are as durable as they are visible: fewer, longer writes.
    write_back_dirty(engine, counters, 4096);
    Ok(ticket)
}

#[track_caller]
fn fence<M: Memory>(engine: &Logged<M, Redo>, counters: &mut Counters) -> Result<()> {
    engine.memory.fence();
    counters.fences += 1;
    Ok(engine.memory.check_fence()?)
}

/// Writes every dirty line back, joining runs that are less than `gap` bytes apart.
fn write_back_dirty<M: Memory>(engine: &Logged<M, Redo>, counters: &mut Counters, gap: u64) {
    let mut run = 0..0;
    engine.dirty.drain(|next| {
        if next.start - run.end < gap && run.end > run.start {
            run.end = next.end;
            return;
        }
        engine.memory.write_back(run.start, run.end - run.start);
        counters.write_backs_data += lines_in(run.start, run.end - run.start);
        run = next;
    });
    engine.memory.write_back(run.start, run.end - run.start);
    counters.write_backs_data += lines_in(run.start, run.end - run.start);
}

/// Makes the transaction's record durable, where what is stored in place could otherwise be so
/// before it.
#[inline]
#[track_caller]
pub(crate) fn log<M: Memory, P: Protocol>(
    engine: &Logged<M, P>,
    writer: &mut Writer,
    ticket: u64,
) -> Result<()> {
    fence_fresh(engine, writer)?;
    writer.append(engine, ticket, |entry, word| entry.words[word])?;
    if engine.memory.domain().evicts() {
        if planted::has(Bug::DurableBeforeFence) {
            engine.durable.0.store(ticket, Ordering::Release);
        }
        writer.fence(engine)?;
        engine.durable.0.store(ticket, Ordering::Release);
    }
    Ok(())
}

/// What the record will make reachable, and does not hold, must be durable before the record
/// may be.
#[inline]
fn fence_fresh<M: Memory, P: Protocol>(engine: &Logged<M, P>, writer: &mut Writer) -> Result<()> {
    if writer.fresh.is_empty() {
        return Ok(());
    }
    writer.flush_fresh(engine);
    writer.fence(engine)
}

/// Log in use, in segments, from which on a checkpoint is due.
pub(crate) fn due<M: Memory, P: Protocol>(engine: &Logged<M, P>) -> usize {
    (engine.geometry.segments as usize / 2).max(1)
}

#[cold]
fn checkpoint_if_half_full<M: Memory>(engine: &Logged<M, Redo>, writer: &mut Writer) {
    if engine.segments.full() >= due(engine) && !engine.checkpointing.load(Ordering::Relaxed) {
        // A failure shows again at the next fence, before anything is acknowledged.
        let _ = Redo::checkpoint(engine, false, &mut writer.counters);
    }
}
