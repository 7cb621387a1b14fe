//! What a consistency is, and what groups are for those whose transactions share records.

use super::core::Core;
use super::writer::Writer;
use crate::log::area::{Checkpoint, Geometry, Told};
use crate::log::record::Found;
use crate::log::recovery;
use crate::tuning::Tuning;
use crate::writes::overlay::Overlay;
use crate::{Counters, Recovery, Result, Ticket};
use perdura_memory::lock::{Lock, Order, Writing};
use perdura_memory::{Domain, Memory};

/// What readers look at beside the writer of an engine of consistency `C`.
pub(crate) type OpenOf<C> = <<C as Consistency>::Groups as Groups>::Open;
/// What is that writer's own.
pub(crate) type OwnOf<C> = <<C as Consistency>::Groups as Groups>::Own;

/// The right of the writer of an engine of consistency `C`.
pub(crate) type Right<'a, C> = Writing<'a, OpenOf<C>, OwnOf<C>>;
/// Its lock.
pub(crate) type LockOf<O, C> = Lock<O, OpenOf<C>, OwnOf<C>>;

/// How buffered transactions become durable.
pub trait Consistency: Send + Sync + Sized + 'static {
    /// Whether recovery ends at the first ticket that is missing from the log; a transaction is durable then
    /// as soon as its record is.
    const NO_GAPS: bool;

    /// Whether its log is written back and fenced before its words are in place.
    const FENCES: bool = true;

    /// What groups of its transactions do; [`NoGroups`] if there are none.
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
    ) -> Result<Ticket>;

    /// As [`commit`](Self::commit), for a caller that waits for the ticket at once.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    #[inline]
    fn commit_awaited<M: Memory>(
        core: &Core<M>,
        right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Result<Ticket> {
        Self::commit(core, right, writer)
    }

    /// What may be done after a commit when the lock has been given back.
    #[inline]
    fn committed<M: Memory, O: Order>(
        _core: &Core<M>,
        _lock: &LockOf<O, Self>,
        _writer: &mut Writer,
    ) {
    }

    /// Ends the current run of a log: what it holds is durable in place. By the writer.
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

    /// As [`Engine::reclaimable`](crate::Engine::reclaimable), as a group's number.
    fn reclaimable<M: Memory>(core: &Core<M>) -> u64 {
        core.checkpointed()
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
        recovery::transactions(records, checkpoint.ticket, Self::NO_GAPS, told)
    }

    /// Stores the words of recovered transactions in place, given oldest first.
    ///
    /// # Errors
    /// `Corrupt` before anything is stored.
    fn apply<M: Memory>(memory: &M, whole: &[Vec<Found>]) -> Result<Recovery>;
}

/// What groups of transactions do: those that have committed may wait outside of the memory, to share a
/// record. The defaults are those of engines without groups.
pub trait Groups: Send + Sync + 'static {
    /// Whether there are any.
    const ANY: bool = false;

    /// As [`Engine::TENDED`](crate::Engine::TENDED).
    const TENDED: bool = false;

    /// Bits of a ticket that tell the transactions of a group apart. The bits above are the
    /// group's number, and what the log and the engine's own counts go by.
    const TICKET_BITS: u32 = 0;

    /// As [`Engine::SKIPS`](crate::Engine::SKIPS).
    const SKIPS: bool = false;

    /// Whether committed transactions stay in the writer's write set, where the next one goes on: a
    /// [window](super::eager).
    const WINDOWS: bool = false;

    /// What readers look at beside the writer: the open group.
    type Open: Send + Sync;

    /// What is the writer's own.
    type Own: Send;

    /// Both, when the engine starts on an empty log with this salt.
    fn new<M: Memory>(memory: &M, geometry: &Geometry, salt: u64) -> (Self::Open, Self::Own);

    /// Bytes behind the log for the checksums of a pool of up to `limit` bytes.
    fn checksum_bytes(_limit: u64) -> u64 {
        0
    }

    /// Whether checksums vouch for what `[at, at + len)` holds, so that nothing may be stored there
    /// but through the log.
    #[inline]
    fn is_protected(_own: &Self::Own, _at: u64, _len: u64) -> bool {
        false
    }

    /// Committed words that are not in the memory yet; `None` if there never are.
    #[inline(always)]
    fn overlay(_open: &Self::Open) -> Option<&Overlay> {
        None
    }

    /// Transactions that have committed and are in no record yet.
    #[inline(always)]
    fn joined<M: Memory>(memory: &M, right: &Writing<'_, Self::Open, Self::Own>) -> u64 {
        Self::overlay(right.beside.get()).map_or(0, |overlay| overlay.joined(memory))
    }

    /// Whether a window is open, which those that read have to [end](Self::close) first.
    #[inline(always)]
    fn has_window<M: Memory>(_memory: &M, _open: &Self::Open) -> bool {
        false
    }

    /// A transaction that excludes all others begins, and goes on in the window's write set.
    #[inline(always)]
    fn enter<M: Memory>(
        _memory: &M,
        _right: Writing<'_, Self::Open, Self::Own>,
        _writer: &mut Writer,
    ) {
    }

    /// Such a transaction is over: the window gets its write set back, without what has not committed.
    #[inline(always)]
    fn leave<M: Memory>(
        _memory: &M,
        _right: Writing<'_, Self::Open, Self::Own>,
        _writer: &mut Writer,
    ) {
    }

    /// Whether a checkpoint of the consistency writes down what has joined by itself.
    const AT_CHECKPOINT: bool = true;

    /// Ends the open group, if it is the one with this number, which somebody waits for: it is committed. It
    /// is durable as well where records do not suffice, and where they become so only with the lock held.
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

    /// As [`close`](Self::close), by a session that is going to read.
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

    /// As [`Engine::tend`](crate::Engine::tend).
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn tend<M: Memory>(_core: &Core<M>, _right: Writing<'_, Self::Open, Self::Own>) -> Result<()> {
        Ok(())
    }

    /// As [`Engine::tune`](crate::Engine::tune).
    fn tune(_own: &mut Self::Own, _tuning: &Tuning) {}

    /// After a checkpoint: from here on nothing but the pool's lines themselves is needed.
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

/// Each transaction has a record of its own.
pub struct NoGroups;

impl Groups for NoGroups {
    type Open = ();
    type Own = ();

    fn new<M: Memory>(_memory: &M, _geometry: &Geometry, _salt: u64) -> ((), ()) {
        ((), ())
    }
}
