//! Undo logging for sections between locks ([`sections`](crate::sections)): Atlas.
//!
//! A transaction is a section over one lock, the engine's. Its writes wait until it commits, as under `undo-each`, so that
//! readers see whole states; then, holding the lock:
//! 1. for each store: the old word goes into the log as a record, which is fenced; then the new word is stored in place;
//! 2. the stored lines are written back, and fenced;
//! 3. the section's last record is stored in the caches: the transaction is visible and ordered, and follows the one that
//!    held the lock before, unless that is in the cut.
//!
//! Its durability is left to the [cut](crate::sections::cut). A section over locks of the program's stores in place as it
//! goes; the words of the heap itself, which are behind the lock of transactions, wait until its end.

use super::core::{Core, numbers_ran_out};
use super::protocol::{Consistency, Groups, LockOf, Right};
use super::room::{self, make_room, take_room};
use super::undo_each::stores_of;
use super::writer::{Writer, cache_log, stream_log};
use crate::error::Boxed;
use crate::log::area::{Checkpoint, Geometry, KnownDurable};
use crate::log::record::{self, FoundRecord, Part};
use crate::planted::{self, Bug};
use crate::sections::log::{OPEN, last_bytes};
use crate::sections::recover;
use crate::sections::running::Running;
use crate::writes::{ALL, LineWrite};
use crate::{Counters, Error, Recovery, Result, Ticket};
use perdura_memory::lock::{Order, SharedRight};
use perdura_memory::{Domain, LINE, Memory, WORD, line_of};

/// Undo logging for sections.
pub struct Atlas;

/// No groups; but durability lags.
pub struct Lagging;

impl Groups for Lagging {
    const NEEDS_FLUSHER: bool = true;
    type Open = ();
    type Own = ();

    fn new<M: Memory>(_memory: &M, _geometry: &Geometry, _salt: u64) -> ((), ()) {
        ((), ())
    }
}

impl Consistency for Atlas {
    // Sections leave the log in the order in which they enter the cut.
    const NO_GAPS: bool = false;
    const SYNCS_STORES: bool = true;
    const SECTIONS: bool = true;

    type Groups = Lagging;

    #[inline]
    fn logs_fresh(_domain: Domain, _len: u64) -> bool {
        false
    }

    fn commit<M: Memory>(
        core: &Core<M>,
        mut right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        if writer.writes.is_empty() {
            return commit_fresh(core, writer);
        }
        let needed = needed(writer.writes.read(&*core.memory));
        // Less may be free while sections run: then it is taken back.
        if needed > u64::from(core.geometry.segments) * core.geometry.segment_bytes {
            return Err(Box::new(writer.too_large(core, needed)));
        }
        let mut running = writer.section.take().expect("a session with sections");
        let locks = &core.sections().locks;
        locks.note_heap(running.session);
        let result = commit_transaction(core, &mut right.shared, writer, &mut running);
        locks.forget_heap();
        running.end(&*core.memory);
        writer.section = Some(running);
        result
    }

    fn checkpoint_within<M: Memory>(
        core: &Core<M>,
        _right: Right<'_, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        make_room(core, counters)
    }

    fn checkpoint<M: Memory, O: Order>(
        core: &Core<M>,
        _lock: &LockOf<O, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        make_room(core, counters)
    }

    fn advance<M: Memory>(core: &Core<M>, counters: &mut Counters) -> Result<bool> {
        room::advance(core, counters)
    }

    fn store_heap<M: Memory>(
        core: &Core<M>,
        right: &mut Right<'_, Self>,
        writer: &mut Writer,
        running: &mut Running,
    ) -> Boxed<()> {
        store_each(core, &mut right.shared, writer, running)
    }

    fn reclaimable<M: Memory>(core: &Core<M>) -> u64 {
        // Recovery may undo what is not in the cut.
        core.durable()
    }

    fn choose<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        mut records: Vec<FoundRecord>,
        known_durable: KnownDurable,
    ) -> Result<(Vec<Vec<FoundRecord>>, u64)> {
        // A last record that is lost leaves a gap before the records of the next session.
        let (_, behind_gaps) = geometry.records_with_gaps(memory, checkpoint, u64::MAX / 2);
        records.extend(behind_gaps);
        Ok((recover::choose(records, checkpoint.ticket, known_durable)?, 0))
    }

    fn apply<M: Memory>(memory: &M, undone: &[Vec<FoundRecord>]) -> Result<Recovery> {
        recover::undo(memory, undone)?;
        Ok(Recovery { rolled_back: undone.len() as u64, ..Recovery::default() })
    }
}

/// The bytes of log for a transaction with these writes, at most, but for its last record.
fn needed(entries: &[LineWrite]) -> u64 {
    let stores = entries.iter().copied().flat_map(stores_of);
    stores.map(|store| record::words_for(2, 1 + store.mask.count_ones() as usize) as u64 * 8).sum()
}

/// Commits a transaction of fresh memory alone, to which nothing refers.
#[cold]
fn commit_fresh<M: Memory>(core: &Core<M>, writer: &mut Writer) -> Boxed<Ticket> {
    let (memory, cut) = (&*core.memory, &core.sections().cut);
    writer.flush_fresh(core);
    writer.fence(core)?;
    let ticket = cut.ticket(memory, core.last_number).ok_or_else(numbers_ran_out)?;
    core.set_last_commit(ticket);
    core.raise_durable(cut.ticket_bound(memory));
    writer.counters.commits += 1;
    Ok(Ticket(ticket))
}

/// Commits a transaction: a section over the engine's lock, which it holds.
fn commit_transaction<M: Memory>(
    core: &Core<M>,
    open: &mut SharedRight<'_, ()>,
    writer: &mut Writer,
    running: &mut Running,
) -> Boxed<Ticket> {
    let (memory, sections) = (&*core.memory, core.sections());
    let heap = sections.locks.heap();
    running.begin(memory, sections);
    running.follow(memory, sections, heap.last(memory));
    begin_records(core, running, true)?;
    writer.flush_fresh(core);
    let stored = store_each(core, open, writer, running);
    let result = match stored {
        Ok(()) => {
            writer.write_back_stored(core);
            end(core, writer, running, true)
        }
        Err(error) if running.parts == 0 => {
            give_up(core, running);
            return Err(error);
        }
        Err(error) if matches!(*error, Error::TooLarge { .. }) => {
            take_back(core, writer, running, true)?;
            Err(error)
        }
        Err(error) => {
            // Otherwise nothing is stored, and nothing is committed on a medium that has failed.
            if !running.undo.is_empty() {
                core.break_off();
            }
            return Err(error);
        }
    };
    // Also if it was taken back: its number was its ticket.
    heap.set_last(memory, running.release(heap.last(memory)));
    core.set_last_commit(running.number);
    if result.is_ok() {
        writer.counters.commits += 1;
    }
    result.map(Ticket)
}

/// Gives the section a number, with which it may write records; with `is_ticket` that is its ticket, too.
pub(crate) fn begin_records<M: Memory>(
    core: &Core<M>,
    running: &mut Running,
    is_ticket: bool,
) -> Boxed<()> {
    if running.number == 0 {
        let (memory, session) = (&*core.memory, running.session);
        let number = core.sections().cut.begin(memory, session, is_ticket, core.last_number);
        running.number = number.ok_or_else(numbers_ran_out)?;
    }
    Ok(())
}

/// The section does without a number: it has no record.
pub(crate) fn give_up<M: Memory>(core: &Core<M>, running: &mut Running) {
    if running.number != 0 {
        core.sections().cut.give_up(&*core.memory, running.number);
        running.number = 0;
    }
    running.log.hand_over(&core.segments, core.checkpointed());
}

/// Stores the buffered words, each after its record.
pub(crate) fn store_each<M: Memory>(
    core: &Core<M>,
    open: &mut SharedRight<'_, ()>,
    writer: &mut Writer,
    running: &mut Running,
) -> Boxed<()> {
    let mut is_first = true;
    for index in 0..writer.writes.entries().len() {
        let line = writer.writes.read_part(&*core.memory, index..index + 1)[0];
        for store in stores_of(line) {
            let old = overwritten(&*core.memory, store);
            log_old(core, writer, running, &[old])?;
            if std::mem::take(&mut is_first) {
                core.be_alone(open);
                writer.keep_overwritten(core);
            }
            keep(running, &old);
            core.memory.store_words(store.line, store.mask, &store.words);
        }
    }
    Ok(())
}

/// The words that a store overwrites.
pub(crate) fn overwritten<M: Memory>(memory: &M, mut store: LineWrite) -> LineWrite {
    for (word, value) in store.words.iter_mut().enumerate() {
        if store.mask & 1 << word != 0 {
            *value = memory.load(store.line + word as u64 * WORD);
        }
    }
    store
}

/// Keeps old words, to put them back if the section is.
pub(crate) fn keep(running: &mut Running, old: &LineWrite) {
    let words = (0..8).filter(|word| old.mask & 1 << word != 0);
    running.undo.extend(words.map(|word| (old.line + word as u64 * WORD, old.words[word])));
}

/// Writes a record of old words, and returns when it is durable: the words may be stored to.
///
/// # Errors
/// `TooLarge` when there is no room in the log; `Io`.
#[inline]
pub(crate) fn log_old<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    running: &mut Running,
    old: &[LineWrite],
) -> Boxed<()> {
    if running.parts >= OPEN - 2 {
        return Err(Box::new(too_many(writer)));
    }
    running.begin_record(old);
    let bytes = running.log.bytes();
    take_room(core, writer, running, bytes, last_bytes(0))?;
    let part = part(core, running, OPEN);
    let (at, words) = running.log.encode(&*core.memory, core.salt, part);
    writer.counters.log_bytes += words.len() as u64 * WORD;
    if core.memory.domain().needs_write_back() {
        stream_log(core, &mut writer.counters, at, words);
    } else {
        // Nothing but a fence orders what is stored past the caches.
        cache_log(core, &mut writer.counters, at, words);
    }
    running.recorded();
    writer.order(core)
}

/// What the section's next record says of itself.
fn part<M: Memory>(core: &Core<M>, running: &Running, parts: u16) -> Part {
    let behind = record::behind(running.number, core.sections().cut.bound(&*core.memory));
    Part { ticket: running.number, part: running.parts, parts, behind }
}

#[cold]
fn too_many(writer: &mut Writer) -> Error {
    writer.counters.aborts_capacity += 1;
    Error::TooLarge { needed: u64::from(OPEN) * LINE, available: u64::from(OPEN - 2) * LINE }
}

/// Completes the section, whose lines have been asked to become durable: stores its last record. Returns its ticket.
pub(crate) fn end<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    running: &mut Running,
    is_ticket: bool,
) -> Boxed<u64> {
    let memory = &*core.memory;
    let stored = !(running.undo.is_empty() && running.logged.is_empty());
    // If that fails, others would find words that recovery may take back.
    let ordered = if stored { writer.order(core) } else { Ok(()) };
    ordered.inspect_err(|_| core.break_off())?;
    let last = last_bytes(running.unlogged());
    take_room(core, writer, running, last, 0).inspect_err(|_| {
        if running.is_in_log() {
            core.break_off();
        }
    })?;
    running.begin_record(&[]);
    let part = part(core, running, running.parts + 1);
    let (at, words) = running.log.encode(memory, core.salt, part);
    let bytes = words.len() as u64 * WORD;
    writer.counters.log_bytes += bytes;
    // Its write-back is the cut's.
    memory.copy_in(at, bytemuck::cast_slice(words));
    running.recorded();
    core.touch_segments();
    running.log.hand_over(&core.segments, core.checkpointed());
    let follows = running.take_follows();
    let cut = &core.sections().cut;
    Ok(cut.complete(memory, running.number, is_ticket, follows, at..at + bytes))
}

/// Asks for the lines that the section has stored to in place to become durable.
pub(crate) fn write_back_logged<M: Memory>(core: &Core<M>, writer: &mut Writer, running: &Running) {
    let counted = core.memory.domain().needs_write_back();
    let entries = running.logged.read(&*core.memory);
    for entry in entries.iter().filter(|_| !planted::has(Bug::SectionDataForgotten)) {
        core.memory.write_back(entry.line, LINE);
        if counted {
            writer.counters.dirtied(entry.mask.count_ones());
        }
        writer.counters.write_backs_data += u64::from(counted);
    }
    writer.counters.dirty_bytes += running.logged.words() as u64 * WORD;
    core.touched.note(entries);
}

/// Puts the section's old words back, and completes it: it has changed nothing. Returns its ticket.
pub(crate) fn take_back<M: Memory>(
    core: &Core<M>,
    writer: &mut Writer,
    running: &mut Running,
    is_ticket: bool,
) -> Boxed<u64> {
    let memory = &*core.memory;
    for (at, value) in running.undo.iter().rev() {
        memory.store(*at, *value);
    }
    let mut lines: Vec<u64> = running.undo.iter().map(|(at, _)| line_of(*at)).collect();
    // A part may have been undone before.
    lines.extend(running.logged.read(memory).iter().map(|entry| entry.line));
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        memory.write_back(line, LINE);
        writer.counters.write_backs_data += u64::from(memory.domain().needs_write_back());
    }
    end(core, writer, running, is_ticket)
}

/// A store of a word, as one of its line.
pub(crate) fn word_of(at: u64, value: u64) -> LineWrite {
    let (line, word) = (line_of(at), (at % LINE / WORD) as usize);
    let mut words = [0; 8];
    words[word] = value;
    LineWrite { line, mask: 1 << word & ALL, words }
}
