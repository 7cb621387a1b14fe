//! Undo logging as Table I of *Persistence and Synchronization* has it, with a fence for each store: a baseline.
//!
//! Commit, holding the lock:
//! 1. for each store of the transaction: the old word goes into the log as an *entry*, which is written back and fenced;
//!    then the new word is stored in place;
//! 2. the stored lines are written back, and fenced;
//! 3. the first entry is made void, and that is fenced: the transaction is durable.
//!
//! A transaction's writes wait until 1, as under `undo`, so that a word that it stores twice is one store. A line that it
//! stores whole is one store too, for a processor's widest stores are of a line. Where stores are durable in their order
//! there is only the last fence, which the acknowledgement waits for.
//!
//! Log and data both go through the caches, as in the table. Entries are records of one part each, one behind the other
//! from the start of a segment, so that the log's first lines tend to be cached.
//!
//! What always holds: no word is stored in place before its entry, and all earlier ones, are durable. A transaction whose
//! first entry is void has committed; its other entries stay behind until they are overwritten.
//!
//! Recovery stores the old words of the one transaction that has its first entry.

use super::alone::{self, TakenSegments};
use super::core::Core;
use super::protocol::{Consistency, NoGroups, Right};
use super::writer::{Stores, Writer, cache_log};
use crate::error::Boxed;
use crate::log::area::{Checkpoint, Geometry, KnownDurable};
use crate::log::record::{self, FoundRecord, Part};
use crate::log::recovery::store_words as store_again;
use crate::planted::{self, Bug};
use crate::writes::{ALL, LineWrite};
use crate::{Counters, Error, Recovery, Result, Ticket};
use perdura_memory::lock::SharedRight;
use perdura_memory::{Domain, LINE, Memory};
use std::ops::Range;

/// Undo logging of each store by itself.
pub struct UndoEach;

/// The most stores of a transaction: its entries are numbered as a record's parts are.
const MOST_STORES: u64 = u16::MAX as u64;

impl Consistency for UndoEach {
    // Transactions become void one by one, as under `undo`.
    const NO_GAPS: bool = false;
    const SYNCS_STORES: bool = true;

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
    ) -> Boxed<Ticket> {
        let ticket = core.next_number()?;
        let LogNeeds { stores, bytes, segments } = needs(core, writer.writes.read(&*core.memory));
        if stores == 0 {
            // Fresh memory alone, to which nothing refers.
            writer.flush_fresh(core);
            writer.fence(core)?;
            core.set_last_commit(ticket);
            core.set_durable(ticket);
        } else {
            if stores > MOST_STORES {
                return Err(Box::new(too_many(writer, bytes)));
            }
            let taken = writer.take_alone(core, segments, bytes)?;
            writer.flush_fresh(core);
            store_each(core, &mut right.shared, writer, &mut Tail::new(&taken, ticket, stores))?;
            let place = taken.place(core, stores as u16);
            // If that fails, readers would find words that recovery may take back.
            conclude(core, writer, place.first).inspect_err(|_| core.break_off())?;
            writer.after_commit_alone(core, ticket, place);
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
        core.last_commit()
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

/// What a transaction needs of the log, at most.
struct LogNeeds {
    stores: u64,
    bytes: u64,
    segments: usize,
}

/// What a transaction with these writes needs: its entries lie one behind the other, each within one segment.
fn needs<M: Memory>(core: &Core<M>, entries: &[LineWrite]) -> LogNeeds {
    let (mut needs, mut left) = (LogNeeds { stores: 0, bytes: 0, segments: 0 }, 0);
    for bytes in entries.iter().copied().flat_map(stores_of).map(|store| entry_bytes(&store)) {
        if bytes > left {
            needs.segments += 1;
            left = core.geometry.segment_bytes;
        }
        left -= bytes;
        needs.stores += 1;
        needs.bytes += bytes;
    }
    needs
}

/// The stores that write a line: of the whole line, or of each word.
pub(crate) fn stores_of(line: LineWrite) -> impl Iterator<Item = LineWrite> {
    let mut left = line.mask;
    std::iter::from_fn(move || {
        let mask = if left == ALL { ALL } else { left & left.wrapping_neg() };
        left &= !mask;
        (mask != 0).then_some(LineWrite { mask, ..line })
    })
}

/// Bytes of a store's entry, at most: fewer if old words are 0.
fn entry_bytes(store: &LineWrite) -> u64 {
    record::words_for(1, store.mask.count_ones() as usize) as u64 * 8
}

#[cold]
fn too_many(writer: &mut Writer, needed: u64) -> Error {
    writer.counters.aborts_capacity += 1;
    Error::TooLarge { needed, available: MOST_STORES * LINE }
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
    fn new(taken: &'a TakenSegments, ticket: u64, stores: u64) -> Self {
        let part = Part { ticket, part: 0, parts: stores as u16, behind: 0 };
        Tail { taken, used: 0, room: 0..0, part }
    }

    /// Writes the entry of a store, and asks for it to become durable.
    #[inline]
    #[track_caller]
    fn log<M: Memory>(&mut self, core: &Core<M>, writer: &mut Writer, store: &LineWrite) {
        if entry_bytes(store) > self.room.end - self.room.start {
            self.room = core.geometry.segment(self.taken.at(self.used));
            self.used += 1;
            self.part.behind = record::behind(self.part.ticket, core.durable_at_least());
        }
        let at = self.room.start;
        let stored = writer.encode_overwritten(core, at, self.part, store);
        writer.store_record(core, at, stored, Stores::InCaches);
        self.room.start += stored;
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
                core.memory.store_words(store.line, store.mask, &store.words);
            }
            if let Err(error) = writer.order(core) {
                if !is_first {
                    core.break_off();
                }
                return Err(*error);
            }
            if std::mem::take(&mut is_first) {
                core.be_alone(open);
                writer.keep_overwritten(core);
            }
            if !is_early {
                core.memory.store_words(store.line, store.mask, &store.words);
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
    cache_log(core, &mut writer.counters, first, &[0; 8]);
    Ok(writer.fence(core)?)
}
