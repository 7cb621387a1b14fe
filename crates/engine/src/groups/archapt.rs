//! Archapt as a consistency, and its groups.

use super::base::Base;
use super::deferred::{self, Layout};
use super::group::{Group, Leader};
use crate::consistency::core::Core;
use crate::consistency::protocol::{Consistency, Groups, Right};
use crate::consistency::shared::TICKET_BITS;
use crate::consistency::writer::Writer;
use crate::error::Boxed;
use crate::log::area::{Checkpoint, Geometry, KnownDurable};
use crate::log::record::FoundRecord;
use crate::log::recovery;
use crate::tuning::Tuning;
use crate::writes::overlay::Overlay;
use crate::{Counters, Recovery, Result, Ticket};
use perdura_memory::lock::Writing;
use perdura_memory::{Domain, LINE, Memory};
use std::marker::PhantomData;

/// Groups on the logging of `B`.
pub struct Archapt<B>(PhantomData<B>);

impl<B: Base> Consistency for Archapt<B> {
    const NO_GAPS: bool = B::Log::NO_GAPS;

    type Groups = Self;

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        B::logs_fresh(domain, len)
    }

    #[inline]
    fn commit<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        Ok(Leader::<M, B>::new(core, right).counting_for(writer, Leader::join)?)
    }

    #[inline]
    fn commit_awaited<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        Ok(Leader::<M, B>::new(core, right).counting_for(writer, Leader::commit_awaited)?)
    }

    fn checkpoint_within<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        let mut leader = Leader::<M, B>::new(core, right);
        let emptied = leader.empty_log();
        *counters += std::mem::take(&mut *leader.group.writer.counters);
        *counters += std::mem::take(&mut *core.counters());
        emptied
    }

    fn choose<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        mut records: Vec<FoundRecord>,
        known_durable: KnownDurable,
    ) -> Result<(Vec<Vec<FoundRecord>>, u64)> {
        if B::SKIPS && B::LOG_IS_ENOUGH {
            records.extend(deferred::images(memory, &Layout::of(geometry, checkpoint.salt)));
            records.sort_by_key(|record| record.part);
        }
        recovery::transactions(records, checkpoint.ticket, Self::NO_GAPS, known_durable)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        B::Log::apply(memory, whole)
    }
}

impl<B: Base> Groups for Archapt<B> {
    const ANY: bool = true;
    const NEEDS_FLUSHER: bool = true;
    const TICKET_BITS: u32 = TICKET_BITS;
    const SKIPS: bool = B::SKIPS;

    type Open = Overlay;
    type Own = Group;

    fn new<M: Memory>(memory: &M, geometry: &Geometry, salt: u64) -> (Overlay, Group) {
        let layout = Layout::of(geometry, salt);
        let queue = memory.last_level_cache() / LINE;
        let sizes = (layout, geometry.segment_bytes);
        (Overlay::new(memory), Group::new(memory, queue, B::LOG_IS_ENOUGH, sizes))
    }

    fn checksum_bytes(limit: u64) -> u64 {
        if B::SKIPS { Layout::bytes(limit) } else { 0 }
    }

    #[inline]
    fn is_protected(group: &Group, at: u64, len: u64) -> bool {
        // With redo, a line that was deferred when it was stored to is in the log as a whole: memory that shares the
        // line must be logged as well.
        B::SKIPS && (B::LOG_IS_ENOUGH && !at.is_multiple_of(LINE) || group.deferred.any(at, len))
    }

    fn close<M: Memory>(
        core: &Core<M>,
        right: Writing<'_, Overlay, Group>,
        writer: &mut Writer,
        number: u64,
    ) -> Result<()> {
        let mut leader = Leader::<M, B>::new(core, right);
        leader.counting_for(writer, |leader, _| leader.close_awaited(number))
    }

    fn flush_due<M: Memory>(core: &Core<M>, right: Writing<'_, Overlay, Group>) -> Result<()> {
        let mut leader = Leader::<M, B>::new(core, right);
        let flushed = leader.flush_if_due();
        *core.counters() += std::mem::take(&mut *leader.group.writer.counters);
        flushed
    }

    fn tune(group: &mut Group, tuning: &Tuning) {
        group.tune(tuning);
    }

    fn settle<M: Memory>(
        core: &Core<M>,
        right: Writing<'_, Overlay, Group>,
        counters: &mut Counters,
    ) -> Result<()> {
        let mut leader = Leader::<M, B>::new(core, right);
        let settled = leader.empty_log().and_then(|()| leader.write_back_deferred());
        *counters += std::mem::take(&mut *leader.group.writer.counters);
        settled
    }

    fn mend<M: Memory>(
        memory: &M,
        geometry: &Geometry,
        checkpoint: Checkpoint,
        highest: u64,
    ) -> Result<(u64, u64)> {
        if !B::SKIPS {
            return Ok((0, 0));
        }
        // An undo log rolls back what is after the checkpoint.
        let last = if B::LOG_IS_ENOUGH { highest } else { checkpoint.ticket };
        let found = deferred::examine(memory, Layout::of(geometry, checkpoint.salt), last)?;
        found.mend(memory)?;
        Ok((found.deferred.len() as u64, found.corrected.len() as u64))
    }
}
