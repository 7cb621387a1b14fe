//! Undo logging as Table I of *Persistence and Synchronization* has it, with a fence for each store: a baseline.
//!
//! Commit, holding the lock:
//! 1. for each store of the transaction: the old word goes into the log as an *entry*, which is written back and fenced;
//!    then the new word is stored in place;
//! 2. the stored lines are written back, and fenced;
//! 3. the first entry is made void, and that is fenced: the transaction is durable.
//!
//! A store is of a word. A transaction's writes wait until 1, as under `undo`, so that a word that it stores twice is one
//! store. Where stores are durable in their order there is only the last fence, which the acknowledgement waits for.
//!
//! Log and data both go through the caches, as in the table. Entries are records of one line each, one behind the other
//! from the start of a segment, so that the log's first lines tend to be cached.
//!
//! What always holds: no word is stored in place before its entry, and all earlier ones, are durable. A transaction whose
//! first entry is void has committed; its other entries stay behind until they are overwritten.
//!
//! Recovery stores the old words of the one transaction that has its first entry.

use super::alone::{self, TakenSegments};
use super::core::Core;
use super::protocol::{Consistency, NoGroups, Right};
use super::writer::{Stores, Writer, store_words};
use crate::log::area::{Checkpoint, Geometry, KnownDurable};
use crate::log::record::{self, FoundRecord, Part};
use crate::log::recovery::store_words as store_again;
use crate::planted::{self, Bug};
use crate::writes::LineWrite;
use crate::{Counters, Error, Recovery, Result, Ticket};
use perdura_memory::lock::SharedRight;
use perdura_memory::{Domain, LINE, Memory, WORD};
use std::ops::Range;

/// Undo logging of each store by itself.
pub struct UndoEach;

/// The most stores of a transaction: its entries are numbered as a record's parts are.
const MOST_STORES: u64 = u16::MAX as u64;

/// Bytes of an entry.
const ENTRY: u64 = LINE;
const _: () = assert!(record::words_for(1, 1) as u64 * WORD == ENTRY);

impl Consistency for UndoEach {
    // Transactions become void one by one, as under `undo`.
    const NO_GAPS: bool = false;

    type Groups = NoGroups;

    #[inline]
    fn logs_fresh(_domain: Domain, _len: u64) -> bool {
        false
    }

    #[inline]
    fn commit<M: Memory>(
        core: &Core<M>,
        mut right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Result<Ticket> {
        let ticket = core.next_number()?;
        let stores = writer.writes.words() as u64;
        if stores == 0 {
            // Fresh memory alone, to which nothing refers.
            writer.flush_fresh(core);
            writer.fence(core)?;
            core.set_committed(ticket);
            core.set_durable(ticket);
        } else {
            let taken = take_segments(core, writer, stores)?;
            writer.flush_fresh(core);
            let mut tail = Tail::new(core, &taken, (ticket, stores));
            store_each(core, &mut right.shared, writer, &mut tail)?;
            let place = taken.place(core, stores as u16);
            // If that fails, readers would find words that recovery may take back.
            conclude(core, writer, place.first).inspect_err(|_| core.break_off())?;
            writer.committed_alone(core, ticket, place);
        }
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

    fn reclaimable<M: Memory>(core: &Core<M>) -> u64 {
        // An undo log protects nothing that has committed.
        core.committed()
    }

    fn choose<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        mut records: Vec<FoundRecord>,
        (durable, at): KnownDurable,
    ) -> Result<(Vec<Vec<FoundRecord>>, u64)> {
        records.retain(|record| record.part.ticket > checkpoint.ticket);
        let mut firsts = records.iter().filter(|record| record.part.part == 0);
        let Some(first) = firsts.next().map(|record| record.part) else {
            return Ok((Vec::new(), 0));
        };
        if first.ticket <= durable {
            return Err(Error::corrupt(
                "log with a record that had become void; what tells so is",
                at,
            ));
        }
        if let Some(second) = firsts.next() {
            return Err(Error::corrupt("undo log of two transactions", second.at));
        }
        if planted::has(Bug::RemnantsTakenBack) {
            return Ok((vec![records], 0));
        }
        // Each entry was durable before the next one was written, so that none is missing.
        records.retain(|record| record.part.ticket == first.ticket);
        let (_, behind_gaps) = geometry.records_with_gaps(memory, checkpoint, u64::MAX / 2);
        let out_of_turn = records.iter().zip(0..).find(|(record, turn)| record.part.part != *turn);
        let behind = behind_gaps.iter().find(|record| record.part.ticket == first.ticket);
        match out_of_turn.map(|(record, _)| record).or(behind) {
            Some(record) => Err(Error::corrupt("log entry without the one before it", record.at)),
            None => Ok((vec![records], 0)),
        }
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        store_again(memory, whole.iter().flatten().rev())?;
        Ok(Recovery { rolled_back: whole.len() as u64, ..Recovery::default() })
    }
}

/// Takes the segments for so many entries.
#[inline]
fn take_segments<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    stores: u64,
) -> Result<TakenSegments> {
    if stores > MOST_STORES {
        writer.counters.aborts_capacity += 1;
        return Err(Error::TooLarge { needed: stores * ENTRY, available: MOST_STORES * ENTRY });
    }
    let segments = stores.div_ceil(core.geometry.segment_bytes / ENTRY);
    writer.take_alone(core, segments as usize, stores * ENTRY)
}

/// The stores that write a line: a word each.
fn stores_of(line: LineWrite) -> impl Iterator<Item = LineWrite> {
    let mut left = line.mask;
    std::iter::from_fn(move || {
        let mask = left & left.wrapping_neg();
        left &= !mask;
        (mask != 0).then_some(LineWrite { mask, ..line })
    })
}

/// Where a transaction's next entry goes.
struct Tail<'a> {
    taken: &'a TakenSegments,
    /// How many of the segments are in use.
    used: usize,
    room: Range<u64>,
    part: Part,
}

impl<'a> Tail<'a> {
    fn new<M: Memory>(
        core: &Core<M>,
        taken: &'a TakenSegments,
        (ticket, stores): (u64, u64),
    ) -> Self {
        let behind = record::behind(ticket, core.durable_at_least());
        Tail {
            taken,
            used: 0,
            room: 0..0,
            part: Part { ticket, part: 0, parts: stores as u16, behind },
        }
    }

    /// Writes the entry of a store, and asks for it to become durable.
    #[inline]
    #[track_caller]
    fn log<M: Memory>(&mut self, core: &Core<M>, writer: &mut Writer, store: &LineWrite) {
        if self.room.is_empty() {
            self.room = core.geometry.segment(self.taken.at(self.used));
            self.used += 1;
        }
        let at = self.room.start;
        let bytes = writer.encode_overwritten(core, at, self.part, store);
        writer.store_record(core, at, bytes, Stores::InCaches);
        self.room.start += ENTRY;
        self.part.part += 1;
    }
}

/// Logs each store, and then makes it.
#[inline]
fn store_each<M: Memory>(
    core: &Core<M>,
    open: &mut SharedRight<'_, ()>,
    writer: &mut Writer,
    tail: &mut Tail<'_>,
) -> Result<()> {
    let mut is_first = true;
    for index in 0..writer.writes.entries().len() {
        let line = writer.writes.read_part(&*core.memory, index..index + 1)[0];
        for store in stores_of(line) {
            tail.log(core, writer, &store);
            let is_early = planted::has(Bug::StoredBeforeEntry) && !is_first;
            if is_early {
                store_words(&*core.memory, &store);
            }
            if let Err(error) = writer.order(core) {
                if !is_first {
                    core.break_off();
                }
                return Err(error);
            }
            if std::mem::take(&mut is_first) {
                core.be_alone(open);
                writer.keep_overwritten(core);
            }
            if !is_early {
                store_words(&*core.memory, &store);
            }
        }
    }
    Ok(())
}

/// Makes the stored words durable, and then the entry at `first` void: without it the others do not count.
#[inline]
fn conclude<M: Memory>(core: &Core<M>, writer: &mut Writer, first: u64) -> Result<()> {
    writer.write_back_stored(core);
    writer.order(core)?;
    writer.cache_log(core, first, &[0; 8]);
    writer.fence(core)
}
