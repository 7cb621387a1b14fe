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
use crate::engine::Recovery;
use crate::logged::{Logged, Protocol, store_words};
use crate::record::Found;
use crate::session::Buffered;
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

    #[inline]
    fn logs_fresh(_domain: Domain, _len: u64) -> bool {
        false
    }

    #[inline]
    fn commit<M: Memory>(session: &mut Buffered<M, Self>) -> Result<Ticket> {
        let result = commit_locked(session);
        session.finish();
        result
    }

    fn checkpoint<M: Memory>(
        engine: &Logged<M, Self>,
        exclusive: bool,
        counters: &mut Counters,
    ) -> Result<()> {
        alone::checkpoint(engine, exclusive, counters)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery> {
        store_words(memory, whole.iter().rev().flatten())?;
        Ok(Recovery { rolled_back: whole.len() as u64, ..Recovery::default() })
    }
}

fn commit_locked<M: Memory>(session: &mut Buffered<M, Undo>) -> Result<Ticket> {
    let ticket = session.engine.committed.0.load(Ordering::Relaxed) + 1;
    session.flush_fresh();
    let place = session
        .write_alone(ticket, |memory, entry, word| memory.load(entry.line + word as u64 * 8))?;
    session.fence()?;
    session.apply_and_write_back();
    session.fence()?;
    void(session, place.first);
    session.fence()?;
    session.committed_alone(ticket, place);
    Ok(Ticket(ticket))
}

/// Makes the record at `first` void by zeroing its check: without its first part it does not
/// count. The whole line, past the caches: the next record is stored there in the same way.
#[inline]
#[track_caller]
fn void<M: Memory>(session: &mut Buffered<M, Undo>, first: u64) {
    session.stream_log(first, &[0; 8]);
}
