//! Group commit for a consistency that gives each transaction a record of its own.
//!
//! A transaction that is waited for, while another that writes waits to come in, does not pay for a record and
//! its fences: its words *join* those of the open group, in an [`Overlay`] that later transactions look through,
//! and it lets the next one in. The last to come, which nobody waits behind, writes down all of them with its own
//! words, as one transaction: one record, the fences of one, and each line stored once. So it leads for all, which
//! only wait for it. That is done where it is the [faster way](Choice). Where there is nobody else, nothing joins, and each transaction is written down as if this
//! were not here.
//!
//! Where it is told that transactions share ([`Tuning::share`]), those that are not waited for join too, whether another
//! waits or not: one record for all until one is waited for.
//!
//! Who waits and finds the lock free writes down what has joined, so that nobody depends on the next one's
//! coming. What always holds: a word that has joined is not in the memory, and a transaction that has seen it is
//! not durable before it.

use super::choice::Choice;
use super::core::{Core, ticket};
use super::protocol::{Consistency, Groups, Right};
use super::writer::Writer;
use crate::log::area::Geometry;
use crate::log::record;
use crate::planted::{self, Bug};
use crate::tuning::Tuning;
use crate::writes::overlay::Overlay;
use crate::writes::{LineWrite, WriteSet};
use crate::{Result, Ticket};
use perdura_memory::lock::{Beside, Writing};
use perdura_memory::{Domain, Memory};
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of log that a group may fill, unless told otherwise. Enough to spread the price of a fence
/// over a hundred small transactions; what it overlays is looked through by every read, and should
/// stay in the nearest cache. A large transaction is a group of its own, which nobody looks through.
pub(crate) const GROUP_BYTES: u64 = 4 << 10;
/// A transaction that would fill more than one in so many of these is large.
pub(crate) const LARGE_SHARE: u64 = 4;
/// Bits of a ticket that number the transactions of a group.
pub(crate) const TICKET_BITS: u32 = 20;

/// A consistency that writes one transaction down at a time.
pub(crate) trait OneRecord: Consistency<Groups = Sharing<Self>> {
    /// Whether a fence that serves several transactions on a memory of this domain saves any.
    fn gains_from_sharing(domain: Domain) -> bool;

    /// Commits what the writer has, durably or as far as [`Consistency::commit`] goes; its number.
    ///
    /// # Errors
    /// As [`Consistency::commit`].
    fn write_down<M: Memory>(
        core: &Core<M>,
        open: &mut Beside<'_, Overlay>,
        writer: &mut Writer,
    ) -> Result<u64>;
}

/// The groups of such a consistency.
pub struct Sharing<C>(PhantomData<C>);

/// What is the writer's own.
pub struct Shared {
    /// Fresh memory of those that have joined.
    fresh: Vec<Range<u64>>,
    choice: Choice,
}

impl<C: OneRecord> Groups for Sharing<C> {
    const ANY: bool = true;
    const AT_CHECKPOINT: bool = false;
    const TICKET_BITS: u32 = TICKET_BITS;

    type Open = Overlay;
    type Own = Shared;

    fn new<M: Memory>(memory: &M, _geometry: &Geometry, _salt: u64) -> (Overlay, Shared) {
        (Overlay::new(memory), Shared { fresh: Vec::new(), choice: Choice::new(memory.domain()) })
    }

    #[inline(always)]
    fn overlay(open: &Overlay) -> Option<&Overlay> {
        Some(open)
    }

    fn close<M: Memory>(
        core: &Core<M>,
        mut right: Writing<'_, Overlay, Shared>,
        writer: &mut Writer,
        _number: u64,
    ) -> Result<()> {
        core.ending(|| close::<M, C>(core, &mut right, writer))
    }

    fn tune(own: &mut Shared, tuning: &Tuning) {
        own.choice.tell(tuning.share);
    }
}

/// [`Consistency::commit`]: written down at once, unless it is told that transactions share. Then it joins, and is
/// durable when it is waited for, or the group is full.
#[inline]
pub(crate) fn commit<M: Memory, C: OneRecord>(
    core: &Core<M>,
    mut right: Right<'_, C>,
    writer: &mut Writer,
) -> Result<Ticket> {
    if right.own.choice.always_shares()
        && C::gains_from_sharing(core.memory.domain())
        && may_join(core, right.beside.get(), writer)
    {
        return try_join::<M, C>(core, &mut right, writer);
    }
    write_down::<M, C>(core, right, writer)
}

/// Makes the transaction durable with those that have joined.
#[inline]
fn write_down<M: Memory, C: OneRecord>(
    core: &Core<M>,
    mut right: Right<'_, C>,
    writer: &mut Writer,
) -> Result<Ticket> {
    let ticket = match right.beside.get().joined(&*core.memory) {
        0 => Ticket(C::write_down(core, &mut right.beside, writer)? << TICKET_BITS),
        _ => lead::<M, C>(core, &mut right, writer)?,
    };
    writer.counters.commits += 1;
    Ok(ticket)
}

/// [`Consistency::commit_awaited`]: joins, where somebody waits to come in.
#[inline]
pub(crate) fn commit_awaited<M: Memory, C: OneRecord>(
    core: &Core<M>,
    mut right: Right<'_, C>,
    writer: &mut Writer,
) -> Result<Ticket> {
    let wanted = right.beside.is_wanted(&*core.memory);
    // Who leads is asked, too, so that as many are counted as commit.
    let pays = (wanted || right.beside.get().joined(&*core.memory) > 0)
        && C::gains_from_sharing(core.memory.domain())
        && right.own.choice.shares(&*core.memory);
    if pays && wanted && may_join(core, right.beside.get(), writer) {
        return try_join::<M, C>(core, &mut right, writer);
    }
    write_down::<M, C>(core, right, writer)
}

/// The transaction, for which there is room, joins, unless the engine can commit nothing any more.
#[cold]
fn try_join<M: Memory, C: OneRecord>(
    core: &Core<M>,
    right: &mut Right<'_, C>,
    writer: &mut Writer,
) -> Result<Ticket> {
    core.memory.check_fence()?;
    core.next_number()?;
    Ok(join::<M, C>(core, right, writer))
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
    let ticket = take(core, &mut right.beside, &writer.writes, |_, _| {});
    right.own.fresh.append(&mut writer.fresh);
    writer.counters.commits += 1;
    writer.counters.shared += 1;
    ticket
}

/// Writes the writer's transaction down with those that have joined.
#[cold]
fn lead<M: Memory, C: OneRecord>(
    core: &Core<M>,
    right: &mut Right<'_, C>,
    writer: &mut Writer,
) -> Result<Ticket> {
    let overlay = right.beside.get();
    if bytes_with(core, overlay, &writer.writes) > core.geometry.segment_bytes {
        close::<M, C>(core, right, writer)?;
        return Ok(Ticket(C::write_down(core, &mut right.beside, writer)? << TICKET_BITS));
    }
    let last = ticket(TICKET_BITS, core.committed(), overlay.joined(&*core.memory) + 1);
    if !planted::has(Bug::JoinedLeftOut) {
        absorb(&*core.memory, overlay, &mut writer.writes);
    }
    right.own.fresh.iter().for_each(|range| writer.add_fresh(&*core.memory, range.clone()));
    C::write_down(core, &mut right.beside, writer)?;
    forget::<M, C>(core, right);
    Ok(last)
}

/// Writes down what has joined, beside what else the writer has.
fn close<M: Memory, C: OneRecord>(
    core: &Core<M>,
    right: &mut Right<'_, C>,
    writer: &mut Writer,
) -> Result<()> {
    if right.beside.get().joined(&*core.memory) == 0 {
        return Ok(());
    }
    std::mem::swap(&mut writer.writes, &mut writer.old);
    let fresh = std::mem::replace(&mut writer.fresh, right.own.fresh.clone());
    absorb(&*core.memory, right.beside.get(), &mut writer.writes);
    let closed = C::write_down(core, &mut right.beside, writer);
    writer.forget(&*core.memory);
    std::mem::swap(&mut writer.writes, &mut writer.old);
    writer.fresh = fresh;
    closed?;
    forget::<M, C>(core, right);
    Ok(())
}

/// What has joined is in the memory.
fn forget<M: Memory, C: OneRecord>(core: &Core<M>, right: &mut Right<'_, C>) {
    right.own.fresh.clear();
    right.beside.change(&*core.memory, |overlay| overlay.clear(&*core.memory));
    right.beside.let_readers_in(&*core.memory);
}

/// Adds to `writes`, which are later, what has joined.
fn absorb<M: Memory>(memory: &M, overlay: &Overlay, writes: &mut WriteSet) {
    for joined in overlay.lines(memory) {
        let own = writes.line(memory, joined.line).map_or(0, |own| own.mask);
        let mask = joined.mask & !own;
        for word in (0..joined.words.len()).filter(|word| mask & 1 << word != 0) {
            writes.put(memory, joined.line + word as u64 * 8, joined.words[word]);
        }
    }
}

/// The transaction that wants to store `writes` joins the open group, beside readers; `added` is told each
/// line, and which words of it had joined before. Its ticket.
#[inline]
pub(crate) fn take<M: Memory>(
    core: &Core<M>,
    open: &mut Beside<'_, Overlay>,
    writes: &WriteSet,
    mut added: impl FnMut(&LineWrite, u8),
) -> Ticket {
    let lines = writes.stored_lines();
    if !open.get().has_room(&*core.memory, lines) {
        open.change(&*core.memory, |overlay| overlay.make_room(&*core.memory, lines));
    }
    let overlay = open.get();
    let entries = writes.read(&*core.memory);
    for entry in entries.iter().filter(|entry| entry.mask != 0) {
        added(entry, overlay.add(&*core.memory, entry));
    }
    overlay.join(&*core.memory);
    ticket(TICKET_BITS, core.committed(), overlay.joined(&*core.memory))
}

/// An upper bound of a group's record's bytes, if what wants to store `more` joins.
pub(crate) fn bytes_with<M: Memory>(core: &Core<M>, overlay: &Overlay, more: &WriteSet) -> u64 {
    let (lines, words) = overlay.size(&*core.memory);
    record::words_for(lines + more.stored_lines(), words + more.words()) as u64 * 8
}
