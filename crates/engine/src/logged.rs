//! What the logging engines share: a lock, a log area, and sessions that buffer their writes.
//!
//! A transaction's writes wait in a [`WriteSet`](crate::writes::WriteSet) until commit, for undo as
//! for redo logging: the log is then written in one go and fenced once, instead of once for each
//! range. What differs is what the log holds and what is fenced when: the [`Protocol`].

use crate::archapt::Tuning;
use crate::area::{self, Checkpoint, Geometry, Segments, Told};
use crate::engine::Recovery;
use crate::left;
use crate::lock::{Apart, SharedLock};
use crate::overlay::Overlay;
use crate::planted::{self, Bug};
use crate::record::Found;
use crate::session::Buffered;
use crate::touched::Touched;
use crate::writer::Writer;
use crate::{Counters, Engine, Error, Mode, Result, Sums, Ticket};
use perdura_memory::{DirtyLines, Memory};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How a buffered transaction becomes durable.
pub trait Protocol: Send + Sync + Sized + 'static {
    /// The engine's name.
    const NAME: &'static str;

    /// Whether recovery ends at the first ticket that is missing from the log.
    const NO_GAPS: bool;

    /// Whether records are stored past the caches, rather than in them and written back.
    const STREAMS: bool;

    /// Whether committed words may wait outside of the memory, in an
    /// [`overlay`](Protocol::overlay).
    const GROUPS: bool = false;

    /// As [`Engine::SKIPS`].
    const SKIPS: bool = false;

    /// Bits of a ticket that tell the transactions of a group apart. The bits above are the
    /// group's number, and what the log and the engine's own counts go by.
    const GROUP_BITS: u32 = 0;

    /// What the engine keeps besides.
    type State: Send + Sync;

    /// Its state when it starts on an empty log with this salt.
    fn state<M: Memory>(memory: &M, geometry: &Geometry, salt: u64) -> Self::State;

    /// Bytes behind the log for the checksums of a pool of up to `limit` bytes.
    fn checksum_bytes(_limit: u64) -> u64 {
        0
    }

    /// Whether checksums vouch for what `[at, at + len)` holds, so that nothing may be stored there
    /// but through the log. The caller is in a transaction that writes.
    #[inline]
    fn is_protected<M: Memory>(_engine: &Logged<M, Self>, _at: u64, _len: u64) -> bool {
        false
    }

    /// Committed words that are not in the memory yet; `None` if there never are. Called by
    /// sessions that are in a transaction.
    #[inline(always)]
    fn overlay<M: Memory>(_engine: &Logged<M, Self>) -> Option<&Overlay> {
        None
    }

    /// Whether fresh memory of this many bytes goes through the log as other writes do, rather
    /// than being written in place at once and flushed at commit.
    fn logs_fresh(domain: perdura_memory::Domain, len: u64) -> bool;

    /// Commits the writer's non-empty transaction; the caller holds the lock as the writer.
    ///
    /// # Errors
    /// `TooLarge`, `Io`; nothing has been stored in place then.
    fn commit<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) -> Result<Ticket>;

    /// As [`commit`](Self::commit), by one who waits for the ticket at once.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    #[inline]
    fn commit_awaited<M: Memory>(engine: &Logged<M, Self>, writer: &mut Writer) -> Result<Ticket> {
        Self::commit(engine, writer)
    }

    /// What may be done after a commit when the lock has been given back.
    #[inline]
    fn committed<M: Memory>(_engine: &Logged<M, Self>, _writer: &mut Writer) {}

    /// Returns when the group with this number is durable. The caller holds the lock as `mode`
    /// says, if at all.
    ///
    /// # Errors
    /// `Io` when the medium failed; `Invalid` where the lock that the caller holds is in the way.
    fn wait<M: Memory>(
        engine: &Logged<M, Self>,
        writer: &mut Writer,
        _group: u64,
        _mode: Option<Mode>,
    ) -> Result<()> {
        // Everything up to the last commit has asked to be durable by now.
        let committed = engine.committed.0.load(Ordering::Acquire);
        writer.fence(engine)?;
        engine.durable.0.fetch_max(committed, Ordering::AcqRel);
        Ok(())
    }

    /// The last commit that a reader may have seen something of: of the transactions that have joined
    /// the overlay the first `overlaid`. The caller is in a transaction.
    #[inline]
    fn seen<M: Memory>(engine: &Logged<M, Self>, _overlaid: u64) -> Ticket {
        last_ticket::<Self>(engine.committed.0.load(Ordering::Acquire))
    }

    /// Makes a segment free, for a commit that needs one.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn make_room<M: Memory>(engine: &Logged<M, Self>, counters: &mut Counters) -> Result<()> {
        Self::checkpoint(engine, true, counters)
    }

    /// As [`Engine::reclaimable`], as a group's number.
    fn reclaimable<M: Memory>(engine: &Logged<M, Self>) -> u64;

    /// As [`Engine::tend`].
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn tend<M: Memory>(_engine: &Logged<M, Self>) -> Result<()> {
        Ok(())
    }

    /// As [`Engine::tune`].
    fn tune<M: Memory>(_engine: &Logged<M, Self>, _tuning: &Tuning) {}

    /// Keeps what was counted for no session in particular, for
    /// [`shared_counters`](Self::shared_counters).
    fn count_shared<M: Memory>(_engine: &Logged<M, Self>, _counters: &Counters) {}

    /// What was counted for no session in particular.
    fn shared_counters<M: Memory>(_engine: &Logged<M, Self>) -> Counters {
        Counters::default()
    }

    /// Ends the current run of a log: what it holds is durable in place.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn checkpoint<M: Memory>(
        engine: &Logged<M, Self>,
        exclusive: bool,
        counters: &mut Counters,
    ) -> Result<()>;

    /// As [`checkpoint`](Self::checkpoint), and afterwards nothing but the pool's lines themselves
    /// is needed.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn settle<M: Memory>(engine: &Logged<M, Self>, counters: &mut Counters) -> Result<()> {
        Self::checkpoint(engine, false, counters)
    }

    /// Of the records in a log, the transactions that recovery takes, oldest first, and how many
    /// it discards. The log has `told` what was durable.
    ///
    /// # Errors
    /// `Corrupt` where the log says that there must be more than there is.
    fn choose<M: Memory>(
        _memory: &M,
        _geometry: &Geometry,
        checkpoint: Checkpoint,
        records: Vec<Found>,
        told: Told,
    ) -> Result<(Vec<Vec<Found>>, u64)> {
        area::transactions(records, checkpoint.ticket, Self::NO_GAPS, told)
    }

    /// Stores the words of recovered transactions in place, given oldest first.
    ///
    /// # Errors
    /// `Corrupt` before anything is stored.
    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery>;

    /// Once the log is in place, whose last transaction is `highest`: restores what was lost of lines
    /// that no log protects. How many there are of these, and how many were lost. The caller
    /// fences.
    ///
    /// # Errors
    /// `Lost` where something cannot be restored, `Corrupt` for what no crash can leave; nothing
    /// is stored then.
    fn mend<M: Memory>(
        _memory: &M,
        _geometry: &Geometry,
        _checkpoint: Checkpoint,
        _highest: u64,
    ) -> Result<(u64, u64)> {
        Ok((0, 0))
    }
}

/// Ends the exclusive right to checkpoint, whatever happens.
struct Alone<'a>(&'a AtomicBool);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Notes what is not finished as failed.
pub(crate) struct Attempt<'a> {
    pub(crate) failed: &'a AtomicBool,
    pub(crate) finished: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// An engine that logs.
pub struct Logged<M: Memory, P: Protocol> {
    pub(crate) memory: Arc<M>,
    pub(crate) lock: SharedLock,
    pub(crate) geometry: Geometry,
    pub(crate) segments: Segments,
    /// Lines stored in place whose write-back is still to come.
    pub(crate) dirty: DirtyLines,
    /// Ticket of the last logical commit; stored by the writer.
    pub(crate) committed: Apart<AtomicU64>,
    /// Everything up to this ticket is durable.
    pub(crate) durable: Apart<AtomicU64>,
    /// Everything up to this ticket has left the log.
    pub(crate) checkpointed: AtomicU64,
    /// Sequence number of the last checkpoint.
    pub(crate) sequence: AtomicU64,
    /// Seed of all records' checks.
    pub(crate) salt: u64,
    pub(crate) checkpointing: AtomicBool,
    /// Of what is at rest, if the memory has any.
    pub(crate) sums: Option<Sums>,
    /// A checkpoint has panicked, or failed.
    checkpoint_failed: AtomicBool,
    /// A commit has panicked.
    broken: AtomicBool,
    pub(crate) touched: Touched,
    pub(crate) state: P::State,
}

impl<M: Memory, P: Protocol> Logged<M, P> {
    /// Notes in the log what has been acknowledged, so that it is missed if it is damaged. Where
    /// nothing becomes durable by itself the next record says the same.
    #[inline]
    pub(crate) fn acknowledge(&self) {
        if self.memory.domain().evicts() {
            let durable = self.durable.0.load(Ordering::Acquire);
            self.geometry.acknowledge(&*self.memory, self.salt, durable);
        }
    }

    /// No reader is there from here on, until the transaction that writes is over.
    #[inline]
    pub(crate) fn be_alone(&self) {
        if planted::has(Bug::NotAlone) {
            return;
        }
        self.lock.be_alone(&*self.memory);
    }

    /// Whether a commit was cut short by a panic: its words may be in place in part, and its record in
    /// the log or not. Nothing is committed any more, until recovery has seen to it.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// A commit is cut short by a panic. The lock is held.
    #[cold]
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// The number of the next commit, or group of them.
    ///
    /// # Errors
    /// `Invalid` when they run out.
    #[inline]
    pub(crate) fn next_number(&self) -> Result<u64> {
        let next = self.committed.0.load(Ordering::Relaxed) + 1;
        if next > last_number::<P>() { Err(numbers_ran_out()) } else { Ok(next) }
    }

    /// Runs `body` as the only [part](Self::part) of a checkpoint that does so.
    pub(crate) fn alone<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let mut turn = 0;
        while self.checkpointing.swap(true, Ordering::Acquire) {
            self.memory.pause(turn);
            turn += 1;
        }
        let _alone = Alone(&self.checkpointing);
        self.part(body)
    }

    /// Runs a part of a checkpoint. If it panics or fails, what it has taken from the set of dirty lines
    /// may not be durable: there are no checkpoints any more.
    pub(crate) fn part<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.checkpoint_failed.load(Ordering::Relaxed) || self.is_broken() {
            self.memory.check_fence()?;
            return Err(cut_short());
        }
        let mut attempt = Attempt { failed: &self.checkpoint_failed, finished: false };
        let result = body();
        attempt.finished = result.is_ok();
        result
    }

    /// Durably moves the checkpoint to `ticket` and frees the segments behind it; nobody else
    /// does so meanwhile.
    pub(crate) fn move_checkpoint(&self, ticket: u64, counters: &mut Counters) -> Result<()> {
        // No locked instruction: it would wait for write-backs.
        let sequence = self.sequence.load(Ordering::Relaxed) + 1;
        self.sequence.store(sequence, Ordering::Relaxed);
        let checkpoint = Checkpoint { sequence, ticket, salt: self.salt };
        self.geometry.set_checkpoint(&*self.memory, checkpoint);
        counters.fences += 1;
        if self.memory.domain().needs_write_back() {
            counters.write_backs_metadata += 1;
        }
        self.memory.check_fence()?;
        self.checkpointed.store(ticket, Ordering::Release);
        self.segments.release(ticket);
        counters.checkpoints += 1;
        Ok(())
    }
}

impl<M: Memory + 'static, P: Protocol> Engine<M> for Logged<M, P> {
    const NAME: &'static str = P::NAME;
    const TENDED: bool = P::GROUPS;
    const SKIPS: bool = P::SKIPS;
    type Session = Buffered<M, P>;

    fn format(memory: &M, area: Range<u64>) {
        Geometry::format(memory, area, P::NAME, P::checksum_bytes(memory.limit()));
    }

    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let (geometry, _, whole, discarded) = read_log::<M, P>(memory, area)?;
        check_words(memory, &geometry, &whole)?;
        let found = whole.len() as u64;
        Ok(Recovery {
            replayed: if P::NO_GAPS { found } else { 0 },
            rolled_back: if P::NO_GAPS { 0 } else { found },
            discarded,
            ..Recovery::default()
        })
    }

    fn beside_log(limit: u64) -> u64 {
        P::checksum_bytes(limit)
    }

    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery> {
        let (geometry, checkpoint, whole, discarded) = read_log::<M, P>(memory, area)?;
        check_words(memory, &geometry, &whole)?;
        let highest = whole.iter().flatten().map(|record| record.part.ticket).max();
        let highest = highest.unwrap_or(0).max(checkpoint.ticket);
        left::make_durable(memory, &geometry, &whole)?;
        let recovery = P::apply(memory, &whole)?;
        memory.fence();
        memory.check_fence()?;
        let (covered, corrected) = P::mend(memory, &geometry, checkpoint, highest)?;
        if covered > 0 {
            memory.fence();
            memory.check_fence()?;
        }
        geometry.set_checkpoint(
            memory,
            Checkpoint {
                sequence: checkpoint.sequence + 1,
                ticket: if highest > last_number::<P>() / 2 { 0 } else { highest },
                salt: area::new_salt(memory, checkpoint.salt),
            },
        );
        memory.check_fence()?;
        Ok(Recovery { discarded, covered, corrected, ..recovery })
    }

    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        let geometry = Geometry::read(&*memory, area, P::NAME)?;
        let Checkpoint { sequence, ticket, salt } = geometry.checkpoint(&*memory)?;
        if ticket > last_number::<P>() {
            return Err(Error::corrupt("checkpoint of a commit that cannot be", geometry.start));
        }
        if sums.as_ref().is_some_and(Sums::has_all) {
            // What another log had acknowledged.
            geometry.acknowledge(&*memory, salt, 0);
        }
        let sessions = (geometry.segments as usize / 4).clamp(1, 128);
        Ok(Arc::new(Logged {
            lock: SharedLock::new(sessions),
            segments: Segments::new(&geometry),
            dirty: DirtyLines::new(memory.limit()),
            committed: Apart(AtomicU64::new(ticket)),
            durable: Apart(AtomicU64::new(ticket)),
            checkpointed: AtomicU64::new(ticket),
            sequence: AtomicU64::new(sequence),
            salt,
            checkpointing: AtomicBool::new(false),
            checkpoint_failed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            touched: Touched::new(memory.domain()),
            sums,
            state: P::state(&*memory, &geometry, salt),
            geometry,
            memory,
        }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        Buffered::new(self.clone()).ok_or(Error::Sessions { limit: self.lock.slots() as u64 })
    }

    fn reclaimable(&self) -> Ticket {
        last_ticket::<P>(P::reclaimable(self))
    }

    fn tend(&self) -> Result<()> {
        P::tend(self)
    }

    fn give_back_due(&self) -> bool {
        self.memory.give_back_due() || self.touched.take_many()
    }

    fn give_back(&self) -> Result<()> {
        Engine::checkpoint(self)?;
        // Nothing is stored but by the writer, and by the thread that checkpoints.
        let some = || self.alone(|| Ok(self.memory.give_back()));
        while self.lock.writing(&*self.memory, some)? {}
        Ok(())
    }

    fn tune(&self, tuning: &Tuning) {
        P::tune(self, tuning);
    }

    fn counters(&self) -> Counters {
        P::shared_counters(self)
    }

    fn checkpoint(&self) -> Result<()> {
        let mut counters = Counters::default();
        let result = P::settle(self, &mut counters);
        P::count_shared(self, &counters);
        result
    }
}

/// The last number that a commit, or a group of them, can have; some are left, for groups that are
/// open then. Recovery begins anew long before: with a new salt, nothing old can be taken for new.
const fn last_number<P: Protocol>() -> u64 {
    (u64::MAX >> (P::GROUP_BITS + 1)) - 8
}

#[cold]
fn numbers_ran_out() -> Error {
    Error::Invalid(
        "the pool has numbered as many commits as it can since it was opened; close it and open it again",
    )
}

/// What is told once a commit or a checkpoint has not come to its end.
#[cold]
pub(crate) fn cut_short() -> Error {
    let text = "a commit or a checkpoint was cut short; open the pool again";
    std::io::Error::other(text).into()
}

/// The last ticket of a group.
pub(crate) fn last_ticket<P: Protocol>(group: u64) -> Ticket {
    Ticket(((group + 1) << P::GROUP_BITS) - 1)
}

type Log = (Geometry, Checkpoint, Vec<Vec<Found>>, u64);

fn read_log<M: Memory, P: Protocol>(memory: &M, area: Range<u64>) -> Result<Log> {
    let geometry = Geometry::read(memory, area, P::NAME)?;
    let checkpoint = geometry.checkpoint(memory)?;
    let (records, told) = geometry.records_and_told(memory, checkpoint);
    let (whole, discarded) = P::choose(memory, &geometry, checkpoint, records, told)?;
    Ok((geometry, checkpoint, whole, discarded))
}

/// Stores the words of records in place, in their order, and asks for them to become durable.
pub(crate) fn store_words<'a, M: Memory>(
    memory: &M,
    mut records: impl Iterator<Item = &'a Found>,
) -> Result<()> {
    records.try_for_each(|record| {
        record.for_each_word(|at, value| {
            memory.store(at, value);
            memory.write_back(at, 8);
            Ok(())
        })
    })
}

/// Every word of every record must lie in the pool, and none in the log: whoever recovers
/// checks before the first store.
fn check_words<M: Memory>(memory: &M, geometry: &Geometry, whole: &[Vec<Found>]) -> Result<()> {
    let log = geometry.start..geometry.segment(geometry.segments - 1).end;
    for record in whole.iter().flatten() {
        record.for_each_word(|at, _| {
            if !memory.contains(at, 8) {
                return Err(Error::corrupt(
                    "log record for memory beyond the pool's end",
                    record.at,
                ));
            }
            if log.contains(&at) {
                return Err(Error::corrupt("log record for the log itself", record.at));
            }
            Ok(())
        })?;
    }
    Ok(())
}
