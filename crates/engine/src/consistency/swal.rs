//! S-WAL: software write-ahead logging with a commit record, the baseline of the LOC paper (ICCD 2014, figure 2(a)).
//!
//! Commit, holding the lock; each phase is durable before the next begins:
//! 1. the new words go into the log as one record;
//! 2. a commit record says that the log is complete: the transaction survives a crash from here on;
//! 3. the words are stored in place, and their lines written back;
//! 4. the log is truncated: the checkpoint moves behind the transaction.
//!
//! Both copies go through the caches, the log's too. A truncated log starts at its beginning again, so that its lines
//! tend to be cached: the kindest way to run this protocol.
//!
//! Recovery stores the words of the one transaction that has a commit record, and trusts that record: a commit record
//! without a complete log record is damage, not an unfinished transaction.

use super::alone;
use super::core::Core;
use super::protocol::{Consistency, NoGroups, Right};
use super::redo::Redo;
use super::writer::{Stores, Writer};
use crate::error::Boxed;
use crate::log::area::{Checkpoint, Geometry, KnownDurable};
use crate::log::record::FoundRecord;
use crate::log::recovery;
use crate::{Counters, Error, Recovery, Result, Ticket};
use perdura_memory::{Domain, LINE, Memory, PAGE};

/// S-WAL.
pub struct SWal;

/// Fresh memory up to this many bytes is logged like everything else, the paper's nodes included; only memory that
/// could fill the log is stored in place at once.
const FRESH_LOGGED: u64 = PAGE;

impl Consistency for SWal {
    // The checkpoint moves with every commit: the next ticket is the one that counts.
    const NO_GAPS: bool = true;

    type Groups = NoGroups;

    #[inline]
    fn logs_fresh(_domain: Domain, len: u64) -> bool {
        len <= FRESH_LOGGED
    }

    #[inline]
    fn commit<M: Memory>(
        core: &Core<M>,
        mut right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        let ticket = core.next_number()?;
        writer.flush_fresh(core);
        let place = writer
            .write_alone(core, (ticket, Stores::InCaches), |entry, word| entry.words[word])?;
        writer.fence(core)?;
        write_commit(core, writer, ticket, place.parts);
        writer.fence(core)?;
        core.be_alone(&mut right.shared);
        // If that fails, its commit record stands: no other record may be written.
        store(core, writer, ticket).inspect_err(|_| core.break_off())?;
        writer.after_commit_alone(core, ticket, place);
        writer.counters.commits += 1;
        Ok(Ticket(ticket))
    }

    fn checkpoint_within<M: Memory>(
        core: &Core<M>,
        _right: Right<'_, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        alone::checkpoint(core, counters)
    }

    fn choose<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        records: Vec<FoundRecord>,
        known_durable: KnownDurable,
    ) -> Result<(Vec<Vec<FoundRecord>>, u64)> {
        let (mut whole, discarded) =
            recovery::transactions(records, checkpoint.ticket, true, known_durable)?;
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

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        Redo::apply(memory, whole)
    }
}

/// Stores the words durably, and removes the transaction from the log.
#[inline]
fn store<M: Memory>(core: &Core<M>, writer: &mut Writer, ticket: u64) -> Result<()> {
    writer.apply_and_write_back(core);
    writer.fence(core)?;
    // Fences.
    core.alone(|| core.move_checkpoint(ticket, &mut writer.counters))
}

#[inline]
#[track_caller]
fn write_commit<M: Memory>(core: &Core<M>, writer: &mut Writer, ticket: u64, parts: u16) {
    core.geometry.store_commit(&*core.memory, core.salt, ticket, parts);
    writer.counters.log_bytes += LINE;
    writer.counters.write_backs_log += u64::from(core.memory.domain().needs_write_back());
}
