//! The traits of a consistency, and of the groups of those whose transactions share records.

use super::core::Core;
use super::writer::Writer;
use crate::error::Boxed;
use crate::log::area::{Checkpoint, Geometry, KnownDurable};
use crate::log::record::FoundRecord;
use crate::log::recovery;
use crate::sections::running::Running;
use crate::tuning::Tuning;
use crate::writes::overlay::MayOverlay;
use crate::{Counters, Recovery, Result, Ticket};
use perdura_memory::lock::{Lock, Order, Writing};
use perdura_memory::{Domain, Memory};

/// The data that readers share with the writer of an engine of consistency `C`.
pub(crate) type OpenOf<C> = <<C as Consistency>::Groups as Groups>::Open;
/// That writer's own data.
pub(crate) type OwnOf<C> = <<C as Consistency>::Groups as Groups>::Own;

/// The right of the writer of an engine of consistency `C`.
pub(crate) type Right<'a, C> = Writing<'a, OpenOf<C>, OwnOf<C>>;
/// Its lock.
pub(crate) type LockOf<O, C> = Lock<O, OpenOf<C>, OwnOf<C>>;

/// How buffered transactions become durable.
pub trait Consistency: Send + Sync + Sized + 'static {
    /// Whether recovery stops at the first ticket missing from the log; a transaction is durable then as soon as its
    /// record is.
    const NO_GAPS: bool;

    /// Whether the words of a short transaction are kept in the form of its record.
    const LOGS_NEW_WORDS: bool = false;

    /// Whether its log is written back and fenced before its words are stored in place.
    const FENCES: bool = true;

    /// Whether each store in place waits for its entry of the log: see [`Engine::SYNCS_STORES`](crate::Engine::SYNCS_STORES).
    const SYNCS_STORES: bool = false;

    /// Whether it has sections over several locks: see [`Session::begin_section`](crate::Session::begin_section).
    const SECTIONS: bool = false;

    /// How its transactions form groups; [`NoGroups`] if they do not.
    type Groups: Groups;

    /// Whether fresh memory of this many bytes goes through the log as other writes do, rather
    /// than being written in place at once and flushed at commit.
    fn logs_fresh(domain: Domain, len: u64) -> bool;

    /// Commits the writer's non-empty transaction.
    ///
    /// # Errors
    /// `TooLarge`, `Io`; nothing has been stored in place then.
    fn commit<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket>;

    /// As [`commit`](Self::commit), for a caller that waits for the ticket at once.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    #[inline]
    fn commit_awaited<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        Self::commit(core, right, writer)
    }

    /// Work that may follow a commit once the lock is released.
    #[inline]
    fn after_commit<M: Memory, O: Order>(
        _core: &Core<M>,
        _lock: &LockOf<O, Self>,
        _writer: &mut Writer,
    ) {
    }

    /// Ends the current run of a log: everything in it is durable in place. By the writer.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn checkpoint_within<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        counters: &mut Counters,
    ) -> Result<()>;

    /// As [`checkpoint_within`](Self::checkpoint_within), by a thread that does not hold the lock.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn checkpoint<M: Memory, O: Order>(
        core: &Core<M>,
        lock: &LockOf<O, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        lock.writing(&*core.memory, |right| Self::checkpoint_within(core, right, counters))
    }

    /// Makes commits durable whose durability has been left for later, in engines with sections. Returns whether there
    /// were any.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn advance<M: Memory>(_core: &Core<M>, _counters: &mut Counters) -> Result<bool> {
        Ok(false)
    }

    /// Stores the buffered words of a section, each after its record, in engines with sections.
    ///
    /// # Errors
    /// `TooLarge`, `Io`.
    fn store_heap<M: Memory>(
        _core: &Core<M>,
        _right: &mut Right<'_, Self>,
        _writer: &mut Writer,
        _running: &mut Running,
    ) -> Boxed<()> {
        Ok(())
    }

    /// As [`Engine::reclaimable`](crate::Engine::reclaimable), as a group's number.
    fn reclaimable<M: Memory>(core: &Core<M>) -> u64 {
        core.checkpointed()
    }

    /// Of the records in a log, the transactions that recovery takes, oldest first, and how many it discards. The log
    /// has noted as durable what `known_durable` says.
    ///
    /// # Errors
    /// `Corrupt` where the log notes more as durable than it holds.
    fn choose<M: Memory>(
        _memory: &M,
        _geometry: &Geometry,
        checkpoint: Checkpoint,
        records: Vec<FoundRecord>,
        known_durable: KnownDurable,
    ) -> Result<(Vec<Vec<FoundRecord>>, u64)> {
        recovery::transactions(records, checkpoint.ticket, Self::NO_GAPS, known_durable)
    }

    /// Stores the words of recovered transactions in place, given oldest first.
    ///
    /// # Errors
    /// `Corrupt` before anything is stored.
    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery>;
}

/// How transactions form groups: committed ones may be held outside the memory, to share a record. The defaults are
/// those of engines without groups.
pub trait Groups: Send + Sync + 'static {
    /// Whether there are groups.
    const ANY: bool = false;

    /// As [`Engine::NEEDS_FLUSHER`](crate::Engine::NEEDS_FLUSHER).
    const NEEDS_FLUSHER: bool = false;

    /// Low bits of a ticket that tell the transactions of a group apart. The bits above are the group's number, by
    /// which the log and the engine's own counts go.
    const TICKET_BITS: u32 = 0;

    /// As [`Engine::SKIPS`](crate::Engine::SKIPS).
    const SKIPS: bool = false;

    /// Whether committed transactions stay in the writer's write set, where the next one continues: a
    /// [window](super::eager).
    const WINDOWS: bool = false;

    /// The data that readers share with the writer: the open group.
    type Open: MayOverlay + Send + Sync;

    /// The writer's own data.
    type Own: Send;

    /// Both, when the engine starts on an empty log with this salt.
    fn new<M: Memory>(memory: &M, geometry: &Geometry, salt: u64) -> (Self::Open, Self::Own);

    /// Bytes after the log for the checksums of a pool of up to `limit` bytes.
    fn checksum_bytes(_limit: u64) -> u64 {
        0
    }

    /// Whether `[at, at + len)` is protected by checksums, so that it may be stored to only through the log.
    #[inline]
    fn is_protected(_own: &Self::Own, _at: u64, _len: u64) -> bool {
        false
    }

    /// How many transactions have committed but are in no record yet.
    #[inline(always)]
    fn joined<M: Memory>(memory: &M, right: &Writing<'_, Self::Open, Self::Own>) -> u64 {
        right.shared.get().overlay().map_or(0, |overlay| overlay.joined(memory))
    }

    /// Whether a window is open, which a reader has to [close](Self::close) first.
    #[inline(always)]
    fn has_window<M: Memory>(_memory: &M, _open: &Self::Open) -> bool {
        false
    }

    /// A transaction that excludes all others begins, and continues in the window's write set.
    #[inline(always)]
    fn enter<M: Memory>(
        _memory: &M,
        _right: Writing<'_, Self::Open, Self::Own>,
        _writer: &mut Writer,
    ) {
    }

    /// A transaction of the session that worked on the window last is about to read outside the writer's lock: copies the
    /// window's words to its write set, which is empty.
    fn copy_window<M: Memory>(
        _memory: &M,
        _right: Writing<'_, Self::Open, Self::Own>,
        _writer: &mut Writer,
    ) {
    }

    /// A transaction that has entered the window ends: the window gets its write set back, without uncommitted writes.
    #[inline(always)]
    fn leave<M: Memory>(
        _memory: &M,
        _right: Writing<'_, Self::Open, Self::Own>,
        _writer: &mut Writer,
    ) {
    }

    /// Whether a checkpoint of the consistency itself logs the transactions that have joined.
    const AT_CHECKPOINT: bool = true;

    /// Closes the open group, if it has this number, because a thread waits for it: it is committed. It is also made
    /// durable if records alone do not suffice and it could become durable only with the lock held.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn close<M: Memory>(
        _core: &Core<M>,
        _right: Writing<'_, Self::Open, Self::Own>,
        _writer: &mut Writer,
        _number: u64,
    ) -> Result<()> {
        Ok(())
    }

    /// As [`close`](Self::close), for a session that is about to read.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn close_to_read<M: Memory>(
        core: &Core<M>,
        right: Writing<'_, Self::Open, Self::Own>,
        writer: &mut Writer,
    ) -> Result<()> {
        Self::close(core, right, writer, u64::MAX)
    }

    /// As [`Engine::flush_due`](crate::Engine::flush_due).
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn flush_due<M: Memory>(
        _core: &Core<M>,
        _right: Writing<'_, Self::Open, Self::Own>,
    ) -> Result<()> {
        Ok(())
    }

    /// As [`Engine::tune`](crate::Engine::tune).
    fn tune(_own: &mut Self::Own, _tuning: &Tuning) {}

    /// After a checkpoint: from here on the pool needs only its own lines.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn settle<M: Memory>(
        _core: &Core<M>,
        _right: Writing<'_, Self::Open, Self::Own>,
        _counters: &mut Counters,
    ) -> Result<()> {
        Ok(())
    }

    /// Restores lost deferred lines, which no log protects, after the log, whose last transaction is `highest`, has
    /// been applied. Returns how many deferred lines there are, and how many were lost. The caller fences.
    ///
    /// # Errors
    /// `Lost` where something cannot be restored, `Corrupt` for what no crash can leave; nothing is stored then.
    fn mend<M: Memory>(
        _memory: &M,
        _geometry: &Geometry,
        _checkpoint: Checkpoint,
        _highest: u64,
    ) -> Result<(u64, u64)> {
        Ok((0, 0))
    }
}

/// Each transaction has a record of its own.
pub struct NoGroups;

impl Groups for NoGroups {
    type Open = ();
    type Own = ();

    fn new<M: Memory>(_memory: &M, _geometry: &Geometry, _salt: u64) -> ((), ()) {
        ((), ())
    }
}
