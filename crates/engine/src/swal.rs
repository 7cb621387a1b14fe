//! S-WAL: software write-ahead logging with a commit record, as the LOC paper measures against
//! (ICCD 2014, figure 2(a)).
//!
//! Commit, holding the lock; each phase is durable before the next begins:
//! 1. the new words go into the log as one record;
//! 2. a commit record says that the log is whole: the transaction outlives a crash from here on;
//! 3. the words are stored in place, and their lines written back;
//! 4. the log is truncated: the checkpoint moves behind the transaction.
//!
//! Both copies go through the caches, the log's too. A truncated log begins at its beginning, so
//! that its lines tend to be cached: the kindest way to run this protocol.
//!
//! Recovery stores the words of the one transaction that has a commit record, and takes the
//! commit record's word: a transaction that has one, but no whole record, is a damaged pool and
//! not an unfinished transaction.

use crate::alone;
use crate::area::{self, Checkpoint, Geometry, Told};
use crate::engine::Recovery;
use crate::logged::{Logged, Protocol};
use crate::record::Found;
use crate::redo::Redo;
use crate::writer::Writer;
use crate::{Counters, Error, Result, Ticket};
use perdura_memory::{Domain, LINE, Memory, PAGE};
use std::sync::atomic::Ordering;

/// The protocol; [`SWalEngine`] is the engine.
pub struct SWal;

/// S-WAL on the memory `M`.
pub type SWalEngine<M> = Logged<M, SWal>;

/// Fresh memory up to this many bytes is logged as all else is, the paper's nodes included; only
/// what could fill the log is stored in place at once.
const FRESH_LOGGED: u64 = PAGE;

impl Protocol for SWal {
    const NAME: &'static str = "s-wal";
    // The checkpoint moves with every commit: what counts is the ticket after it.
    const NO_GAPS: bool = true;
    const STREAMS: bool = false;

    type State = ();

    fn state<M: Memory>(_memory: &M, _geometry: &Geometry, _salt: u64) {}

    #[inline]
    fn logs_fresh(_domain: Domain, len: u64) -> bool {
        len <= FRESH_LOGGED
    }

    #[inline]
    fn commit<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) -> Result<Ticket> {
        let ticket = engine.next_number()?;
        writer.flush_fresh(engine);
        let place = writer.write_alone(engine, ticket, |entry, word| entry.words[word])?;
        writer.fence(engine)?;
        write_commit(engine, writer, ticket, place.parts);
        writer.fence(engine)?;
        engine.be_alone();
        // If that fails, its commit record stands: no other record may be written.
        store(engine, writer, ticket).inspect_err(|_| engine.break_off())?;
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

    fn choose<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        records: Vec<Found>,
        told: Told,
    ) -> Result<(Vec<Vec<Found>>, u64)> {
        let (mut whole, discarded) = area::transactions(records, checkpoint.ticket, true, told)?;
        let committed = geometry.commit(memory, checkpoint.salt);
        let Some((ticket, parts)) = committed.filter(|(ticket, _)| *ticket > checkpoint.ticket)
        else {
            return Ok((Vec::new(), discarded + whole.len() as u64));
        };
        let part = whole.first().and_then(|records| records.first()).map(|record| record.part);
        if part.map(|part| (part.ticket, part.parts)) != Some((ticket, parts)) {
            return Err(Error::corrupt("commit record without its log", geometry.start));
        }
        let discarded = discarded + whole.len() as u64 - 1;
        whole.truncate(1);
        Ok((whole, discarded))
    }

    fn reclaimable<M: Memory>(engine: &Logged<M, Self>) -> u64 {
        engine.checkpointed.load(Ordering::Acquire)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery> {
        Redo::apply(memory, whole)
    }
}

/// Stores the words durably, and removes the transaction from the log.
#[inline]
fn store<M: Memory>(engine: &Logged<M, SWal>, writer: &mut Writer, ticket: u64) -> Result<()> {
    writer.apply_and_write_back(engine);
    writer.fence(engine)?;
    // Fences.
    engine.alone(|| engine.move_checkpoint(ticket, &mut writer.counters))
}

#[inline]
#[track_caller]
fn write_commit<M: Memory>(engine: &Logged<M, SWal>, writer: &mut Writer, ticket: u64, parts: u16) {
    engine.geometry.store_commit(&*engine.memory, engine.salt, ticket, parts);
    writer.counters.log_bytes += LINE;
    writer.counters.write_backs_log += u64::from(engine.memory.domain().needs_write_back());
}
