//! The rest of a commit over an undo log.
//!
//! With its lines locked and its reads validated a commit
//! 1. writes a record of the old words, and fences it;
//! 2. stores the new words in place, writes their lines back, and fences them;
//! 3. makes the record void, and fences that: the transaction is durable;
//! 4. unlocks.
//!
//! What always holds: two records that are not void have no line in common, since each has its lines locked from before
//! it is written until it is durably void. So recovery may store the old words of every whole record back, in any order,
//! and a transaction that has seen another's words is later than that one's last fence.

use super::session::OptimisticSession;
use super::state::Durability;
use crate::consistency::core::Core;
use crate::consistency::writer::Writer;
use crate::planted::{self, Bug};
use crate::sync::stm::Stamp;
use crate::{Result, Ticket};
use perdura_memory::{Memory, WORD};

impl<M: Memory, C: Durability, S> OptimisticSession<M, C, S> {
    /// Commits with locks, and unlocks. If that fails after the first store in place, nothing is committed any more.
    pub(super) fn commit_undoable(&mut self, stamp: Stamp) -> Result<Ticket> {
        let OptimisticSession { engine, writer, locks, .. } = self;
        let (core, memory) = (&engine.core, &*engine.core.memory);
        if !writer.writes.is_empty() {
            let old = |line: u64, word: usize| memory.load(line + word as u64 * WORD);
            let first =
                writer.append(core, stamp.0, |entry, word| old(entry.line, word), |_| Ok(()))?;
            writer.fence(core)?;
            engine.records.view().before_stores();
            store(core, writer).inspect_err(|_| core.break_off())?;
            if planted::has(Bug::UnlockedBeforeDurable) {
                locks.unlock(memory, engine.records.view(), stamp);
            }
            void(core, writer, first).inspect_err(|_| core.break_off())?;
        }
        locks.unlock(memory, engine.records.view(), stamp);
        writer.counters.commits += 1;
        Ok(Ticket(stamp.0))
    }
}

/// Stores the words in place, durably: their old ones are in the log.
#[inline]
fn store<M: Memory>(core: &Core<M>, writer: &mut Writer) -> Result<()> {
    writer.apply_and_write_back(core);
    Ok(writer.fence(core)?)
}

/// Makes the record at `first` void, durably: without its first part it does not count.
#[inline]
fn void<M: Memory>(core: &Core<M>, writer: &mut Writer, first: u64) -> Result<()> {
    writer.stream_log(core, first, &[0; 8]);
    Ok(writer.fence(core)?)
}
