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

use crate::engine::Recovery;
use crate::logged::{Logged, Protocol};
use crate::record::{Found, Part};
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
        if !exclusive {
            engine.lock.write(&*engine.memory);
        }
        let ticket = engine.committed.0.load(Ordering::Acquire);
        let result = engine.alone(|| {
            // Nothing is pending in place; the checkpoint carries the tickets over a restart.
            engine.move_checkpoint(ticket, counters)
        });
        if !exclusive {
            engine.lock.done_writing();
        }
        result
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery> {
        for record in whole.iter().rev().flatten() {
            record.for_each_word(|at, value| {
                memory.store(at, value);
                memory.write_back(at, 8);
                Ok(())
            })?;
        }
        Ok(Recovery { rolled_back: whole.len() as u64, ..Recovery::default() })
    }
}

fn commit_locked<M: Memory>(session: &mut Buffered<M, Undo>) -> Result<Ticket> {
    let ticket = session.engine.committed.0.load(Ordering::Relaxed) + 1;
    session.flush_fresh();
    let (first, extra) = write_log(session, ticket)?;
    session.fence()?;
    let counted = session.engine.memory.domain().needs_write_back();
    session.apply(|engine, line, counters| {
        engine.memory.write_back(line, 64);
        counters.write_backs_data += u64::from(counted);
    });
    session.fence()?;
    void(session, first);
    session.fence()?;
    extra.into_iter().for_each(|segment| session.engine.segments.put_back(segment));
    session.engine.committed.0.store(ticket, Ordering::Release);
    session.engine.durable.0.store(ticket, Ordering::Release);
    session.counters.commits += 1;
    Ok(Ticket(ticket))
}

/// Writes the old words to the session's segment, and to more of them if they need it. Returns
/// the first record's place, and the additional segments.
fn write_log<M: Memory>(session: &mut Buffered<M, Undo>, ticket: u64) -> Result<(u64, Vec<u32>)> {
    let bytes = session.record_bytes();
    let own = match session.segment {
        Some(own) => own,
        None => session.take_segment(bytes)?,
    };
    session.segment = Some(own);
    let runs = if bytes <= session.engine.geometry.segment_bytes {
        std::iter::once(0..session.writes.entries().len()).collect()
    } else {
        session.split()
    };
    let extra = session.take_segments(runs.len() - 1, bytes)?;
    let parts = runs.len() as u16;
    let mut first = 0;
    for (index, run) in runs.into_iter().enumerate() {
        let segment = if index == 0 { own } else { extra[index - 1] };
        let at = session.engine.geometry.segment(segment).start;
        let part = Part { ticket, part: index as u16, parts };
        let memory = session.engine.memory.clone();
        session.encode(at, part, run, |entry, word| memory.load(entry.line + word as u64 * 8));
        session.store_record(at);
        if index == 0 {
            first = at;
        }
    }
    Ok((first, extra))
}

/// Makes the record at `first` void by zeroing its check: without its first part it does not
/// count. The whole line, past the caches: the next record is stored there in the same way.
#[inline]
#[track_caller]
fn void<M: Memory>(session: &mut Buffered<M, Undo>, first: u64) {
    session.stream_log(first, &[0; 8]);
}
