//! Group commit for a consistency that gives each transaction a record of its own.
//!
//! If another writing transaction waits to enter, a transaction that is waited for does not pay for its own record and
//! fences: its words *join* those of the open group, in an [`Overlay`] that later transactions look through, and the
//! next one is let in. The last one, behind which none waits, leads: it logs all of them with its own words as one
//! transaction, with one record, the fences of one, and each line stored once, while the others only wait for it. This
//! is done if it is the [faster way](SharingChoice). Without other writers nothing joins, and each transaction is
//! logged as if this module did not exist.
//!
//! If the tuning demands sharing ([`Tuning::share`]), transactions that are not waited for join too, whether another
//! one waits or not: one record for all until one of them is waited for.
//!
//! A waiting thread that finds the lock free logs the group itself, so that no thread depends on a later transaction.
//! What always holds: a word that has joined is not in the memory, and a transaction that has seen it is not durable
//! before it.

use super::choice::SharingChoice;
use super::core::{Core, ticket};
use super::protocol::{Consistency, Groups, Right};
use super::writer::Writer;
use crate::error::{Boxed, boxed};
use crate::log::area::Geometry;
use crate::log::record;
use crate::planted::{self, Bug};
use crate::tuning::Tuning;
use crate::writes::overlay::Overlay;
use crate::writes::{LineWrite, WriteSet};
use crate::{Result, Ticket};
use perdura_memory::lock::{SharedRight, Writing};
use perdura_memory::{Domain, Memory};
use std::marker::PhantomData;
use std::ops::Range;

/// The default limit of a group's log record, in bytes. Enough to spread the price of a fence over a hundred small
/// transactions; the overlay is looked through by every read, and should stay in the nearest cache. A large transaction
/// is a group of its own, which no reader looks through.
pub(crate) const GROUP_BYTES: u64 = 4 << 10;
/// A transaction is large if it would fill more than one part in this number of a group.
pub(crate) const LARGE_SHARE: u64 = 4;
/// Bits of a ticket that number the transactions of a group.
pub(crate) const TICKET_BITS: u32 = 20;

/// A consistency that logs one transaction at a time.
pub(crate) trait OneRecord: Consistency<Groups = Sharing<Self>> {
    /// Whether a fence that serves several transactions on a memory of this domain saves any.
    fn gains_from_sharing(domain: Domain) -> bool;

    /// Commits the writer's transaction, durably or as far as [`Consistency::commit`] goes; returns its number.
    ///
    /// # Errors
    /// As [`Consistency::commit`].
    fn log_transaction<M: Memory>(
        core: &Core<M>,
        open: &mut SharedRight<'_, Overlay>,
        writer: &mut Writer,
    ) -> Boxed<u64>;
}

/// The groups of such a consistency.
pub struct Sharing<C>(PhantomData<C>);

/// The writer's own data.
pub struct SharingState {
    /// Fresh memory of the transactions that have joined.
    fresh: Vec<Range<u64>>,
    choice: SharingChoice,
}

impl<C: OneRecord> Groups for Sharing<C> {
    const ANY: bool = true;
    const AT_CHECKPOINT: bool = false;
    const TICKET_BITS: u32 = TICKET_BITS;

    type Open = Overlay;
    type Own = SharingState;

    fn new<M: Memory>(memory: &M, _geometry: &Geometry, _salt: u64) -> (Overlay, SharingState) {
        (
            Overlay::new(memory),
            SharingState { fresh: Vec::new(), choice: SharingChoice::new(memory.domain()) },
        )
    }

    fn close<M: Memory>(
        core: &Core<M>,
        mut right: Writing<'_, Overlay, SharingState>,
        writer: &mut Writer,
        _number: u64,
    ) -> Result<()> {
        core.ending(|| close::<M, C>(core, &mut right, writer))
    }

    fn tune(own: &mut SharingState, tuning: &Tuning) {
        own.choice.tune(tuning.share);
    }
}

/// [`Consistency::commit`]: logged at once, unless the tuning demands sharing. Then it joins, and becomes durable when
/// it is waited for or the group is full.
#[inline]
pub(crate) fn commit<M: Memory, C: OneRecord>(
    core: &Core<M>,
    mut right: Right<'_, C>,
    writer: &mut Writer,
) -> Boxed<Ticket> {
    if right.own.choice.always_shares()
        && C::gains_from_sharing(core.memory.domain())
        && may_join(core, right.shared.get(), writer)
    {
        return try_join::<M, C>(core, right.own, right.shared.again(), writer);
    }
    log_group::<M, C>(core, right, writer)
}

/// Makes the transaction durable with those that have joined.
#[inline(always)]
fn log_group<M: Memory, C: OneRecord>(
    core: &Core<M>,
    mut right: Right<'_, C>,
    writer: &mut Writer,
) -> Boxed<Ticket> {
    let ticket = match right.shared.get().joined(&*core.memory) {
        0 => Ticket(C::log_transaction(core, &mut right.shared, writer)? << TICKET_BITS),
        _ => lead::<M, C>(core, right.own, right.shared.again(), writer)?,
    };
    writer.counters.commits += 1;
    Ok(ticket)
}

/// [`Consistency::commit_awaited`]: joins, if another writer waits to enter.
#[inline(always)]
pub(crate) fn commit_awaited<M: Memory, C: OneRecord>(
    core: &Core<M>,
    mut right: Right<'_, C>,
    writer: &mut Writer,
) -> Boxed<Ticket> {
    let wanted = right.shared.is_wanted(&*core.memory);
    // The leader asks too, so that every commit is counted.
    let pays = (wanted || right.shared.get().joined(&*core.memory) > 0)
        && C::gains_from_sharing(core.memory.domain())
        && right.own.choice.shares(&*core.memory);
    if pays && wanted && may_join(core, right.shared.get(), writer) {
        return try_join::<M, C>(core, right.own, right.shared.again(), writer);
    }
    log_group::<M, C>(core, right, writer)
}

/// Lets the transaction, which fits, join, unless the engine can commit nothing any more. The right comes in parts, since
/// as a whole it would be in memory, also for those that do not join.
#[cold]
fn try_join<M: Memory, C: OneRecord>(
    core: &Core<M>,
    own: &mut SharingState,
    shared: SharedRight<'_, Overlay>,
    writer: &mut Writer,
) -> Boxed<Ticket> {
    let mut right = Writing { own, shared };
    core.memory.check_fence().map_err(boxed)?;
    core.next_number()?;
    writer.writes.to_lines(&*core.memory);
    Ok(join::<M, C>(core, &mut right, writer))
}

/// Whether there is room for the transaction in the open group.
fn may_join<M: Memory>(core: &Core<M>, overlay: &Overlay, writer: &Writer) -> bool {
    writer.record_bytes() <= GROUP_BYTES / LARGE_SHARE
        && bytes_with(core, overlay, &writer.writes) <= GROUP_BYTES.min(core.geometry.segment_bytes)
        && overlay.joined(&*core.memory) + 1 < 1 << TICKET_BITS
}

fn join<M: Memory, C: OneRecord>(
    core: &Core<M>,
    right: &mut Right<'_, C>,
    writer: &mut Writer,
) -> Ticket {
    let ticket = take(core, &mut right.shared, &writer.writes, |_, _| {});
    right.own.fresh.append(&mut writer.fresh);
    writer.counters.commits += 1;
    writer.counters.shared += 1;
    ticket
}

/// Logs the writer's transaction together with the group.
#[cold]
fn lead<M: Memory, C: OneRecord>(
    core: &Core<M>,
    own: &mut SharingState,
    shared: SharedRight<'_, Overlay>,
    writer: &mut Writer,
) -> Boxed<Ticket> {
    let mut right = Writing { own, shared };
    writer.writes.to_lines(&*core.memory);
    let overlay = right.shared.get();
    if bytes_with(core, overlay, &writer.writes) > core.geometry.segment_bytes {
        close::<M, C>(core, &mut right, writer)?;
        return Ok(Ticket(log_apart::<M, C>(core, &mut right, writer)? << TICKET_BITS));
    }
    let last = ticket(TICKET_BITS, core.last_commit(), overlay.joined(&*core.memory) + 1);
    if !planted::has(Bug::JoinedLeftOut) {
        absorb(&*core.memory, overlay, &mut writer.writes);
    }
    right.own.fresh.iter().for_each(|range| writer.add_fresh(&*core.memory, range.clone()));
    log_apart::<M, C>(core, &mut right, writer)?;
    forget::<M, C>(core, &mut right);
    Ok(last)
}

/// [`OneRecord::log_transaction`] out of line.
#[inline(never)]
fn log_apart<M: Memory, C: OneRecord>(
    core: &Core<M>,
    right: &mut Right<'_, C>,
    writer: &mut Writer,
) -> Boxed<u64> {
    C::log_transaction(core, &mut right.shared, writer)
}

/// Logs the group, independently of the writer's own transaction.
fn close<M: Memory, C: OneRecord>(
    core: &Core<M>,
    right: &mut Right<'_, C>,
    writer: &mut Writer,
) -> Result<()> {
    if right.shared.get().joined(&*core.memory) == 0 {
        return Ok(());
    }
    std::mem::swap(&mut writer.writes, &mut writer.old);
    let fresh = std::mem::replace(&mut writer.fresh, right.own.fresh.clone());
    absorb(&*core.memory, right.shared.get(), &mut writer.writes);
    let closed = log_apart::<M, C>(core, right, writer);
    writer.forget(&*core.memory);
    std::mem::swap(&mut writer.writes, &mut writer.old);
    writer.fresh = fresh;
    closed?;
    forget::<M, C>(core, right);
    Ok(())
}

/// Clears the group once its words are in the memory.
fn forget<M: Memory, C: OneRecord>(core: &Core<M>, right: &mut Right<'_, C>) {
    right.own.fresh.clear();
    right.shared.change(&*core.memory, core, |overlay| overlay.clear(&*core.memory));
    right.shared.let_readers_in(&*core.memory);
}

/// Adds the group's words to `writes`, which are later.
fn absorb<M: Memory>(memory: &M, overlay: &Overlay, writes: &mut WriteSet) {
    for joined in overlay.lines(memory) {
        let own = writes.line(memory, joined.line).map_or(0, |own| own.mask);
        let mask = joined.mask & !own;
        for word in (0..joined.words.len()).filter(|word| mask & 1 << word != 0) {
            writes.put(memory, joined.line + word as u64 * 8, joined.words[word]);
        }
    }
}

/// Lets the transaction with these `writes` join the open group, alongside readers; `added` is called with each line
/// and the mask of its words that had joined before. Returns the ticket.
#[inline]
pub(crate) fn take<M: Memory>(
    core: &Core<M>,
    open: &mut SharedRight<'_, Overlay>,
    writes: &WriteSet,
    mut added: impl FnMut(&LineWrite, u8),
) -> Ticket {
    let lines = writes.stored_lines();
    if !open.get().has_room(&*core.memory, lines) {
        open.change(&*core.memory, core, |overlay| overlay.make_room(&*core.memory, lines));
    }
    let overlay = open.get();
    let entries = writes.read(&*core.memory);
    for entry in entries.iter().filter(|entry| entry.mask != 0) {
        added(entry, overlay.add(&*core.memory, entry));
    }
    overlay.join(&*core.memory);
    ticket(TICKET_BITS, core.last_commit(), overlay.joined(&*core.memory))
}

/// An upper bound of the bytes of the group's record if a transaction with the writes `more` joins.
pub(crate) fn bytes_with<M: Memory>(core: &Core<M>, overlay: &Overlay, more: &WriteSet) -> u64 {
    let (lines, words) = overlay.size(&*core.memory);
    record::words_for(lines + more.stored_lines(), words + more.words()) as u64 * 8
}
