//! A pair of a logging consistency and a synchronisation, as an engine: opening, recovery, checkpoints.

use super::session::Buffered;
use super::state::Logged;
use crate::consistency::core::{Core, last_number, ticket};
use crate::consistency::protocol::{Consistency, Groups, Right};
use crate::consistency::writer::Writer;
use crate::engine::{Named, SESSIONS};
use crate::log::area::{self, Checkpoint, Geometry};
use crate::log::record::FoundRecord;
use crate::log::{left, recovery};
use crate::pins::{Oldest, Pins, Seen};
use crate::planted::{self, Bug};
use crate::sync::{self, Synchronisation};
use crate::tuning::Tuning;
use crate::{Counters, Engine, Error, Recovery, Result, Sums, Ticket};
use perdura_memory::Memory;
use perdura_memory::lock::Lock;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

impl<M, C, S> Engine<M> for Logged<M, C, S>
where
    M: Memory + 'static,
    C: Consistency,
    S: Synchronisation,
    (C, S): Named,
{
    const NAME: &'static str = <(C, S)>::NAME;
    const NEEDS_FLUSHER: bool = C::Groups::NEEDS_FLUSHER;
    const SKIPS: bool = C::Groups::SKIPS;
    const SYNCS_STORES: bool = C::SYNCS_STORES;
    const SECTIONS: bool = C::SECTIONS;
    type Session = Buffered<M, C, S>;

    fn refusal(memory: &M) -> Option<&'static str> {
        sync::refusal::<S>(C::FENCES, memory.domain(), memory.speculation())
    }

    fn format(memory: &M, area: Range<u64>) {
        Geometry::format(memory, area, Self::NAME, C::Groups::checksum_bytes(memory.limit()));
    }

    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let (geometry, _, whole, discarded) = read_log::<M, C>(memory, area, Self::NAME)?;
        recovery::check_words(memory, &geometry, &whole)?;
        let found = whole.len() as u64;
        Ok(Recovery {
            replayed: if C::NO_GAPS { found } else { 0 },
            rolled_back: if C::NO_GAPS { 0 } else { found },
            discarded,
            ..Recovery::default()
        })
    }

    fn beside_log(limit: u64) -> u64 {
        C::Groups::checksum_bytes(limit)
    }

    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let (geometry, checkpoint, whole, discarded) = read_log::<M, C>(memory, area, Self::NAME)?;
        recovery::check_words(memory, &geometry, &whole)?;
        let highest = whole.iter().flatten().map(|record| record.part.ticket).max();
        let highest = highest.unwrap_or(0).max(checkpoint.ticket);
        left::make_durable(memory, &geometry, &whole)?;
        let recovery = C::apply(memory, &whole)?;
        memory.fence();
        memory.check_fence()?;
        let (deferred, corrected) = C::Groups::mend(memory, &geometry, checkpoint, highest)?;
        if deferred > 0 {
            memory.fence();
            memory.check_fence()?;
        }
        geometry.set_checkpoint(
            memory,
            Checkpoint {
                sequence: checkpoint.sequence + 1,
                ticket: if highest > last_number(C::Groups::TICKET_BITS) / 2 { 0 } else { highest },
                salt: area::new_salt(memory, checkpoint.salt),
            },
        );
        memory.check_fence()?;
        Ok(Recovery { discarded, deferred, corrected, ..recovery })
    }

    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        Self::check_safe(&memory)?;
        let geometry = Geometry::read(&*memory, area, Self::NAME)?;
        let checkpoint = geometry.checkpoint(&*memory)?;
        let (open, own) = C::Groups::new(&*memory, &geometry, checkpoint.salt);
        let core = Core::new(memory, (geometry, checkpoint), C::Groups::TICKET_BITS, sums)?;
        let core = if C::SECTIONS { core.with_sections() } else { core };
        let lock = Arc::new(Lock::new(&*core.memory, SESSIONS, open, own));
        Ok(Arc::new(Logged { core, lock }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        Buffered::new(self.clone()).ok_or(Error::Sessions { limit: self.lock.slots() as u64 })
    }

    fn reclaimable(&self) -> Ticket {
        // In this order: a snapshot that is not counted yet is of a commit no earlier than that.
        let reclaimable = C::reclaimable(&self.core);
        // Memory freed since is still in the oldest snapshot.
        let oldest = match planted::has(Bug::ReclaimedUnderSnapshots) {
            true => u64::MAX,
            false => self.core.snapshots.oldest(),
        };
        ticket(C::Groups::TICKET_BITS, reclaimable.min(oldest), 0)
    }

    fn pins(&self) -> Pins {
        // In this order, as above.
        let left = C::reclaimable(&self.core);
        let numbers = match planted::has(Bug::ReclaimedUnderSnapshots) {
            true => Vec::new(),
            false => self.core.snapshots.numbers(),
        };
        let last = |number| ticket(C::Groups::TICKET_BITS, number, 0);
        // Some of the next group may have joined when a reader began that has been moved since.
        let next = if planted::has(Bug::JoinedUnpinned) { 0 } else { 1 };
        let seen = |number| Seen { since: last(number), until: last(number + next) };
        Pins::new(last(left), numbers.into_iter().map(seen).collect())
    }

    fn oldest(&self) -> Option<Oldest> {
        let since = self.core.snapshots.first_ns()?;
        let age = Duration::from_nanos(self.core.memory.now().saturating_sub(since));
        Some(Oldest { age, on_snapshot: true })
    }

    fn flush_due(&self) -> Result<()> {
        if !C::Groups::NEEDS_FLUSHER {
            return Ok(());
        }
        self.core.check_usable()?;
        if C::SECTIONS {
            let mut counters = Counters::default();
            let advanced = C::advance(&self.core, &mut counters);
            *self.core.counters() += counters;
            return advanced.map(drop);
        }
        self.lock.writing(&*self.core.memory, |right| C::Groups::flush_due(&self.core, right))
    }

    fn give_back_due(&self) -> bool {
        self.core.memory.give_back_due() || self.core.touched.take_many()
    }

    fn give_back(&self) -> Result<()> {
        Engine::checkpoint(self)?;
        let Logged { core, lock } = self;
        let memory = &*core.memory;
        let give_back = || {
            while lock.writing(memory, |mut right| core.give_back(&mut right))? {}
            Ok(())
        };
        if C::SECTIONS {
            return core.sections().gate.closed(memory, give_back).unwrap_or(Ok(()));
        }
        give_back()
    }

    fn tune(&self, tuning: &Tuning) {
        self.core.snapshots.tune(tuning);
        self.lock.tune_bias(tuning.bias_after);
        self.core.segments.tune(tuning.kept_segments);
        if C::Groups::ANY {
            self.lock.writing(&*self.core.memory, |right| C::Groups::tune(right.own, tuning));
        }
    }

    fn counters(&self) -> Counters {
        *self.core.counters()
    }

    fn checkpoint(&self) -> Result<()> {
        let (Logged { core, lock }, mut counters) = (self, Counters::default());
        core.check_usable()?;
        let mut result = self.log_open_group(|right| {
            let mut writer = Writer::new_passing(&*core.memory, core.geometry.segment_bytes);
            let closed = C::Groups::close(core, right, &mut writer, u64::MAX);
            counters += std::mem::take(&mut *writer.counters);
            closed
        });
        if result.is_ok() {
            result = C::checkpoint(core, lock, &mut counters);
        }
        if C::Groups::SKIPS && result.is_ok() {
            result =
                lock.writing(&*core.memory, |right| C::Groups::settle(core, right, &mut counters));
        }
        if C::Groups::ANY || C::SECTIONS {
            *core.counters() += counters;
        }
        result
    }
}

impl<M: Memory, C: Consistency, S: Synchronisation> Logged<M, C, S> {
    /// Calls `close` to log the transactions of the open group, if a checkpoint does not do so itself.
    pub(super) fn log_open_group(
        &self,
        close: impl FnOnce(Right<'_, C>) -> Result<()>,
    ) -> Result<()> {
        if !C::Groups::ANY || C::Groups::AT_CHECKPOINT {
            return Ok(());
        }
        let memory = &*self.core.memory;
        self.lock.writing(memory, |right| match C::Groups::joined(memory, &right) {
            0 => Ok(()),
            _ => close(right),
        })
    }
}

type Log = (Geometry, Checkpoint, Vec<Vec<FoundRecord>>, u64);

fn read_log<M: Memory, C: Consistency>(memory: &M, area: Range<u64>, name: &str) -> Result<Log> {
    let geometry = Geometry::read(memory, area, name)?;
    let checkpoint = geometry.checkpoint(memory)?;
    let (records, known_durable) = geometry.records_and_known_durable(memory, checkpoint);
    let (whole, discarded) = C::choose(memory, &geometry, checkpoint, records, known_durable)?;
    Ok((geometry, checkpoint, whole, discarded))
}
