//! An engine on software transactional memory: opening, recovery, checkpoints, snapshots.

use super::dirty::DirtySets;
use super::group::{self, Group};
use super::session::OptimisticSession;
use super::snapshots::Snapshots;
use super::state::{Durability, Optimistic};
use crate::consistency::core::Core;
use crate::engine::{Named, SESSIONS};
use crate::log::area::{self, Checkpoint, Geometry};
use crate::log::record::FoundRecord;
use crate::log::{left, recovery};
use crate::pins::{Oldest, Pins, Seen};
use crate::planted::{self, Bug};
use crate::sync::stm::{Clock, Lanes, Moment, Records, Stamp};
use crate::sync::{Concurrency, Patience};
use crate::tuning::Tuning;
use crate::writes::{Ended, Versions};
use crate::{Counters, Engine, Error, Recovery, Result, Sums, Ticket};
use perdura_memory::{Domain, Memory, Speculation};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

impl<M, C, S> Engine<M> for Optimistic<M, C, S>
where
    M: Memory + 'static,
    C: Durability,
    S: Concurrency,
    (C, S): Named,
{
    const NAME: &'static str = <(C, S)>::NAME;
    const CRASH_CONSISTENT: bool = C::LOGS;
    const IN_ORDER: bool = false;
    const KEEPS_CHECKSUMS: bool = false;
    type Session = OptimisticSession<M, C, S>;

    fn leaves_prefix(domain: Domain) -> bool {
        numbers::<C>(domain)
    }

    fn format(memory: &M, area: Range<u64>) {
        Geometry::format(memory, area, Self::NAME, 0);
    }

    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let (geometry, _, whole, discarded) = read_log::<M, C>(memory, area, Self::NAME)?;
        recovery::check_words(memory, &geometry, &whole)?;
        Ok(Recovery { replayed: whole.len() as u64, discarded, ..Recovery::default() })
    }

    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let (geometry, checkpoint, whole, discarded) = read_log::<M, C>(memory, area, Self::NAME)?;
        recovery::check_words(memory, &geometry, &whole)?;
        left::make_durable(memory, &geometry, &whole)?;
        let recovery = C::apply(memory, &whole)?;
        memory.fence();
        memory.check_fence()?;
        let highest = whole.last().map_or(0, |parts| parts[0].part.ticket);
        geometry.set_checkpoint(
            memory,
            Checkpoint {
                sequence: checkpoint.sequence + 1,
                ticket: first_ticket::<C>(memory.domain(), highest.max(checkpoint.ticket)),
                salt: area::new_salt(memory, checkpoint.salt),
            },
        );
        memory.check_fence()?;
        Ok(Recovery { discarded, ..recovery })
    }

    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        if sums.as_ref().is_some_and(Sums::has_all) {
            return Err(Error::Invalid(
                "the engines stm, ccstm, ccstm-undo and htm do not keep checksums of all pages, since concurrent transactions would conflict on the sums: take another engine, or a pool without them",
            ));
        }
        let geometry = Geometry::read(&*memory, area, Self::NAME)?;
        let checkpoint = numbered_as_here::<M, C>(&*memory, &geometry)?;
        let core = Core::new(memory, (geometry, checkpoint), 0, sums)?;
        let memory = &*core.memory;
        let group = numbers::<C>(memory.domain()).then(|| Group::new(memory));
        let domain = memory.domain();
        let tracks = match C::LOGS {
            true => domain.needs_write_back() && !C::UNDOES,
            false => !domain.evicts(),
        };
        let number = if group.is_some() { 0 } else { Stamp(checkpoint.ticket).number() };
        let lanes = Arc::new(Lanes::new(memory, SESSIONS, Ticket(checkpoint.ticket)));
        let speculates = S::SPECULATES && memory.speculation() != Speculation::Absent;
        Ok(Arc::new(Optimistic {
            hardware: speculates.then(Patience::default),
            group,
            clock: Clock::new(memory, number),
            records: Records::new(memory),
            versions: Versions::new(memory),
            snapshots: Snapshots::new(memory),
            dirty: tracks.then(DirtySets::new),
            lanes,
            core,
            pair: PhantomData,
        }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        let limit = self.lanes.limit() as u64;
        OptimisticSession::new(self.clone()).ok_or(Error::Sessions { limit })
    }

    fn reclaimable(&self) -> Ticket {
        self.lanes.horizon(&*self.core.memory)
    }

    fn pins(&self) -> Pins {
        let memory = &*self.core.memory;
        // In this order: a transaction that is not found yet does not reach what these commits have freed.
        let left = Ticket(self.core.checkpointed());
        let running = match planted::has(Bug::HorizonIgnoresRunning) {
            true => Vec::new(),
            false => self.lanes.running(memory),
        };
        let seen = running.into_iter().map(|(_, since, until)| match &self.group {
            Some(group) => Seen {
                since: self.lanes.horizon(memory).max(Ticket(group.reached_by(since))),
                until: Ticket(until),
            },
            None => Seen { since: Stamp::up_to(since), until: up_to(until) },
        });
        Pins::new(left, seen.collect())
    }

    fn oldest(&self) -> Option<Oldest> {
        let memory = &*self.core.memory;
        // Transactions that are running now began before that.
        let number = self.clock.tick(memory).number;
        let (age, lane) = self.lanes.oldest_known(memory, number)?;
        Some(Oldest { age, on_snapshot: self.snapshots.has(lane) })
    }

    fn give_back_due(&self) -> bool {
        self.core.memory.give_back_due() || self.core.touched.take_many()
    }

    fn give_back(&self) -> Result<()> {
        Engine::checkpoint(self)?;
        let Optimistic { core, lanes, .. } = self;
        while core.give_back(&mut lanes.be_still(&*core.memory))? {}
        Ok(())
    }

    fn tune(&self, tuning: &Tuning) {
        self.core.snapshots.tune(tuning);
        self.lanes.tune_bias(tuning.bias_after);
        self.core.segments.tune(tuning.kept_segments);
        if let Some(patience) = &self.hardware {
            patience.tune(tuning);
        }
    }

    fn checkpoint(&self) -> Result<()> {
        self.empty(&mut Counters::default()).map(drop)
    }
}

impl<M: Memory, C: Durability, S> Optimistic<M, C, S> {
    /// A checkpoint: everything committed is durable in place, and the log is empty. The caller is in no commit.
    /// Commits with numbers up to the returned one have left the log.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    pub(super) fn empty(&self, counters: &mut Counters) -> Result<u64> {
        let memory = &*self.core.memory;
        self.core.check_usable()?;
        self.core.alone(|| {
            if let Some(group) = &self.group {
                return self.empty_in_turn(group, counters);
            }
            let number = self.clock.tick(memory).number;
            if !planted::has(Bug::CommitsOverlooked) {
                self.lanes.quiesce(memory);
            }
            // Commits with numbers up to this one are in place; under an undo log durably.
            if !C::UNDOES {
                if C::LOGS || !memory.domain().evicts() {
                    self.write_back_dirty(counters);
                } else {
                    memory.write_back(0, memory.len());
                }
                self.fence(counters)?;
            }
            self.core.move_checkpoint(Stamp::up_to(number).0, counters)?;
            self.move_horizon(number);
            Ok(number)
        })
    }

    /// The same on a block device: words in place must not be written back before the records that hold them are
    /// durable, nor change while they are captured.
    fn empty_in_turn(&self, group: &Group, counters: &mut Counters) -> Result<u64> {
        let memory = &*self.core.memory;
        let turn = group.take(memory);
        let ticket = self.core.last_commit();
        if !planted::has(Bug::CapturedTooEarly) {
            self.fence(counters)?;
            self.core.raise_durable(ticket);
        }
        // Commits up to the ticket are over: they had read the clock.
        let number = self.clock.tick(memory).number;
        self.write_back_dirty(counters);
        drop(turn);
        self.fence(counters)?;
        self.core.move_checkpoint(ticket, counters)?;
        group.checkpointed(number, ticket);
        self.move_horizon(number);
        Ok(number)
    }

    fn fence(&self, counters: &mut Counters) -> Result<()> {
        self.core.memory.fence();
        counters.fences += 1;
        Ok(self.core.memory.check_fence()?)
    }

    /// Commits with clock numbers up to this one have left the log: memory that they freed may be reused, as far as no
    /// running transaction can reach it.
    pub(super) fn move_horizon(&self, number: u64) {
        let memory = &*self.core.memory;
        let oldest = match planted::has(Bug::HorizonIgnoresRunning) {
            true => u64::MAX,
            false => self.lanes.oldest(memory),
        };
        self.lanes.oldest_known(memory, number);
        let reached = match &self.group {
            Some(group) => group.reached(oldest),
            None => Some(Stamp::up_to(number.min(oldest)).0),
        };
        if let Some(ticket) = reached {
            self.lanes.move_horizon(memory, Ticket(ticket));
        }
    }

    /// A checkpoint, if half of the log is in use.
    #[cold]
    pub(super) fn empty_if_half_full(&self, counters: &mut Counters) {
        let due = (self.core.geometry.segments as usize / 2).max(1);
        if self.core.segments.full() >= due && !self.core.is_checkpointing() {
            // A failure shows again at the next fence, before anything is acknowledged.
            let _ = self.empty(counters);
        }
    }

    /// Writes back the lines that sessions have stored to.
    fn write_back_dirty(&self, counters: &mut Counters) {
        if let Some(dirty) = &self.dirty {
            counters.write_backs_data += dirty.write_back(&*self.core.memory);
        }
    }

    /// Whether fresh memory of this many bytes goes through the log.
    #[inline]
    pub(super) fn logs_fresh(&self, len: u64) -> bool {
        C::logs_fresh(self.core.memory.domain(), len)
    }

    /// Begins a snapshot of what is committed now, for a transaction that runs in this lane.
    pub(super) fn begin_snapshot(&self, lane: usize) -> Moment {
        let memory = &*self.core.memory;
        self.snapshots.begin(memory);
        // From here on all commits in progress keep what they overwrite.
        self.lanes.begin_snapshot(memory);
        let moment = self.clock.tick(memory);
        // From here on they have later numbers.
        self.lanes.quiesce(memory);
        self.versions.begin(moment.number);
        self.snapshots.taken(memory, lane, moment.number);
        moment
    }

    /// Ends a snapshot; the transaction is over, or continues without.
    pub(super) fn end_snapshot(&self, lane: usize) {
        let memory = &*self.core.memory;
        let ended = self.snapshots.end(memory, lane);
        self.lanes.end_snapshot(memory);
        // A snapshot that begins after the clock was read has a later number.
        let number = self.clock.now(memory).number;
        if planted::has(Bug::VersionsForgotten) {
            return self.versions.forget(&Ended { left: &[], ended: &[], known: number });
        }
        // One that is beginning may have its moment already, but not before its transaction's.
        let begins = self.snapshots.any_begins();
        let known = if begins { number.min(self.lanes.oldest(memory)) } else { number };
        let (left, ended) = (self.snapshots.numbers(), ended.as_slice());
        self.versions.forget(&Ended { left: &left, ended, known });
    }
}

/// As [`Stamp::up_to`], for a number that need not be one of a commit.
fn up_to(number: u64) -> Ticket {
    if Stamp::is_number(number) { Stamp::up_to(number) } else { Ticket(u64::MAX) }
}

type Log = (Geometry, Checkpoint, Vec<Vec<FoundRecord>>, u64);

/// The contents of the log.
fn read_log<M: Memory, C: Durability>(memory: &M, area: Range<u64>, name: &str) -> Result<Log> {
    let geometry = Geometry::read(memory, area, name)?;
    let checkpoint = geometry.checkpoint(memory)?;
    if C::UNDOES {
        let records = records_behind_void(memory, &geometry, checkpoint);
        let unknown = (0, geometry.start);
        let (whole, discarded) =
            recovery::transactions(records, checkpoint.ticket, false, unknown)?;
        return Ok((geometry, checkpoint, whole, discarded));
    }
    let (records, known_durable) = if group::is_numbered(checkpoint.ticket) {
        geometry.records_and_known_durable(memory, checkpoint)
    } else {
        (records_without_gaps(memory, &geometry, checkpoint)?, (0, geometry.start))
    };
    // Where commits are not numbered, every one with a whole record counts.
    let no_gaps = group::is_numbered(checkpoint.ticket);
    let (whole, discarded) =
        recovery::transactions(records, checkpoint.ticket, no_gaps, known_durable)?;
    Ok((geometry, checkpoint, whole, discarded))
}

/// The log's records, of sessions that fence each record before they write the next one.
fn records_without_gaps<M: Memory>(
    memory: &M,
    geometry: &Geometry,
    checkpoint: Checkpoint,
) -> Result<Vec<FoundRecord>> {
    match geometry.records_and_behind_gaps(memory, checkpoint) {
        (records, None) => Ok(records),
        (_, Some(at)) => {
            Err(Error::corrupt("log without a record that was durable; what tells so is", at))
        }
    }
}

/// The log's records, those behind void ones too: of transactions whose stores in place count only once their record is
/// void. Other parts of such a record are left over, and count for nothing without the first.
fn records_behind_void<M: Memory>(
    memory: &M,
    geometry: &Geometry,
    checkpoint: Checkpoint,
) -> Vec<FoundRecord> {
    let (mut records, behind) = geometry.records_with_gaps(memory, checkpoint, u64::MAX / 2);
    if !planted::has(Bug::BehindVoidUnread) {
        records.extend(behind);
    }
    records.sort_by_key(|record| record.part);
    records
}

/// Whether commits are numbered on a memory of this domain: see [`group`].
const fn numbers<C: Durability>(domain: Domain) -> bool {
    C::LOGS && !C::UNDOES && !domain.evicts()
}

/// The ticket of an empty log on a memory of this domain, after an earlier life that reached `highest`.
fn first_ticket<C: Durability>(domain: Domain, highest: u64) -> u64 {
    let number = Stamp(highest).number();
    match () {
        () if numbers::<C>(domain) => group::first(highest),
        () if group::is_numbered(highest) || !Stamp::is_number(2 * number) => 0,
        () => Stamp::up_to(number).0,
    }
}

/// The log's checkpoint, with a ticket of the kind used on this memory: the log is empty, and the pool may be new, or
/// may have been on another kind of memory.
fn numbered_as_here<M: Memory, C: Durability>(
    memory: &M,
    geometry: &Geometry,
) -> Result<Checkpoint> {
    let found = geometry.checkpoint(memory)?;
    if group::is_numbered(found.ticket) == numbers::<C>(memory.domain()) {
        return Ok(found);
    }
    let ticket = first_ticket::<C>(memory.domain(), found.ticket);
    let checkpoint = Checkpoint { sequence: found.sequence + 1, ticket, ..found };
    geometry.set_checkpoint(memory, checkpoint);
    memory.check_fence()?;
    Ok(checkpoint)
}
