//! Undo logging in PMDK's order, with the snapshots batched.
//!
//! Commit, holding the lock:
//! 1. the old words go into the log as one record, and are fenced;
//! 2. the new words are stored in place, their lines written back, and fenced;
//! 3. the record is made void, and that is fenced: the transaction is durable.
//!
//! A transaction's writes wait until 1, so that there is one fence for all its snapshots and not
//! one for each. Recovery stores the old words of a whole record back: its transaction was not
//! acknowledged.

use crate::alone;
use crate::area::Geometry;
use crate::engine::Recovery;
use crate::logged::{Logged, Protocol, store_words};
use crate::record::Found;
use crate::writer::Writer;
use crate::{Counters, Result, Ticket};
use perdura_memory::{Domain, Memory};
use std::sync::atomic::Ordering;

/// The protocol; [`UndoEngine`] is the engine.
pub struct Undo;

/// Undo logging on the memory `M`.
pub type UndoEngine<M> = Logged<M, Undo>;

impl Protocol for Undo {
    const NAME: &'static str = "undo";
    // Records are made void one by one, so that the one that counts may stand alone.
    const NO_GAPS: bool = false;
    const STREAMS: bool = true;

    type State = ();

    fn state<M: Memory>(_memory: &M, _geometry: &Geometry, _salt: u64) {}

    #[inline]
    fn logs_fresh(_domain: Domain, _len: u64) -> bool {
        false
    }

    #[inline]
    fn commit<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) -> Result<Ticket> {
        let ticket = engine.next_number()?;
        writer.flush_fresh(engine);
        let place = writer.write_alone(engine, ticket, |entry, word| {
            engine.memory.load(entry.line + word as u64 * 8)
        })?;
        writer.fence(engine)?;
        engine.be_alone();
        // If that fails, readers would find words that recovery may take back.
        store(engine, writer, place.first).inspect_err(|_| engine.break_off())?;
        writer.committed_alone(engine, ticket, place);
        Ok(Ticket(ticket))
    }

    fn checkpoint<M: Memory>(
        engine: &Logged<M, Self>,
        exclusive: bool,
        counters: &mut Counters,
    ) -> Result<()> {
        alone::checkpoint(engine, exclusive, counters)
    }

    fn reclaimable<M: Memory>(engine: &Logged<M, Self>) -> u64 {
        // An undo log protects nothing that has committed.
        engine.committed.0.load(Ordering::Acquire)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery> {
        store_words(memory, whole.iter().rev().flatten())?;
        Ok(Recovery { rolled_back: whole.len() as u64, ..Recovery::default() })
    }
}

/// Stores the words, whose old ones are durable in the record at `first`, and makes that void, each
/// durably.
#[inline]
fn store<M: Memory>(engine: &Logged<M, Undo>, writer: &mut Writer, first: u64) -> Result<()> {
    writer.apply_and_write_back(engine);
    writer.fence(engine)?;
    void(engine, writer, first);
    writer.fence(engine)
}

/// Makes the record at `first` void by zeroing its check: without its first part it does not
/// count. The whole line, past the caches: the next record is stored there in the same way.
#[inline]
#[track_caller]
fn void<M: Memory>(engine: &Logged<M, Undo>, writer: &mut Writer, first: u64) {
    writer.stream_log(engine, first, &[0; 8]);
}
