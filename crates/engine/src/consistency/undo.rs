//! Undo logging in PMDK's order, with the snapshots batched.
//!
//! Commit, holding the lock, of a transaction or of several that are waited for together ([`shared`]):
//! 1. the old words go into the log as one record, and are fenced;
//! 2. the new words are stored in place, their lines written back, and fenced;
//! 3. the record is made void, and that is fenced: the transaction is durable.
//!
//! A transaction's writes wait until 1, so that there is one fence for all its snapshots and not
//! one for each. Recovery stores the old words of a whole record back: its transaction was not
//! acknowledged.

use super::alone;
use super::core::Core;
use super::protocol::{Consistency, Right};
use super::shared::{self, OneRecord, Sharing};
use super::writer::{Stores, Writer};
use crate::error::Boxed;
use crate::log::record::FoundRecord;
use crate::log::recovery::store_words;
use crate::writes::overlay::Overlay;
use crate::{Counters, Recovery, Result, Ticket};
use perdura_memory::lock::SharedRight;
use perdura_memory::{Domain, Memory};

/// Undo logging.
pub struct Undo;

impl Consistency for Undo {
    // Records are made void one by one, so that the valid one may have gaps around it.
    const NO_GAPS: bool = false;

    type Groups = Sharing<Self>;

    #[inline]
    fn logs_fresh(_domain: Domain, _len: u64) -> bool {
        false
    }

    #[inline]
    fn commit<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        shared::commit::<M, Self>(core, right, writer)
    }

    #[inline]
    fn commit_awaited<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        shared::commit_awaited::<M, Self>(core, right, writer)
    }

    fn checkpoint_within<M: Memory>(
        core: &Core<M>,
        _right: Right<'_, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        alone::checkpoint(core, counters)
    }

    fn reclaimable<M: Memory>(core: &Core<M>) -> u64 {
        // An undo log protects nothing that has committed.
        core.last_commit()
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        store_words(memory, whole.iter().rev().flatten())?;
        Ok(Recovery { rolled_back: whole.len() as u64, ..Recovery::default() })
    }
}

impl OneRecord for Undo {
    fn gains_from_sharing(domain: Domain) -> bool {
        domain.needs_write_back()
    }

    #[inline]
    fn log_transaction<M: Memory>(
        core: &Core<M>,
        open: &mut SharedRight<'_, Overlay>,
        writer: &mut Writer,
    ) -> Boxed<u64> {
        let number = core.next_number()?;
        writer.flush_fresh(core);
        let place = writer.write_alone(core, (number, Stores::PastCaches), |entry, word| {
            core.memory.load(entry.line + word as u64 * 8)
        })?;
        writer.fence(core)?;
        core.be_alone(open);
        // If that fails, readers would find words that recovery may take back.
        store(core, writer, place.first).inspect_err(|_| core.break_off())?;
        writer.after_commit_alone(core, number, place);
        Ok(number)
    }
}

/// Stores the words, whose old ones are durable in the record at `first`, and makes that void, each
/// durably.
#[inline]
fn store<M: Memory>(core: &Core<M>, writer: &mut Writer, first: u64) -> Result<()> {
    writer.apply_and_write_back(core);
    writer.fence(core)?;
    void(core, writer, first);
    Ok(writer.fence(core)?)
}

/// Makes the record at `first` void by zeroing its check: without its first part it does not
/// count. The whole line, past the caches: the next record is stored there in the same way.
#[inline]
#[track_caller]
fn void<M: Memory>(core: &Core<M>, writer: &mut Writer, first: u64) {
    writer.stream_log(core, first, &[0; 8]);
}
