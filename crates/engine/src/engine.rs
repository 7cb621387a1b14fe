//! Engines and sessions: who runs transactions, and when they are over.

use crate::tuning::Tuning;
use crate::{Access, Counters, Mark, Mode, Result, Sums};
use perdura_memory::{Domain, Memory};
use std::ops::Range;
use std::sync::Arc;

/// A commit's place in the order of commits; what is waited for until it is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Committed transactions whose writes were applied again.
    pub replayed: u64,
    /// Unfinished transactions whose writes were undone.
    pub rolled_back: u64,
    /// Log records that were there but belong to no acknowledged transaction.
    pub discarded: u64,
    /// Lines that had been left to the caches, with checksums to vouch for them.
    pub covered: u64,
    /// Of these, the ones that were lost, and restored.
    pub corrected: u64,
}

/// A pair of consistency and synchronisation that is an engine.
pub trait Named {
    /// The engine's name.
    const NAME: &'static str;
}

/// One way to make transactions atomic, isolated and durable.
pub trait Engine<M: Memory>: Send + Sync + Sized + 'static {
    /// The name that a pool's header, an option and a table of figures give it.
    const NAME: &'static str;

    /// Whether its pools are whole after a crash.
    const CRASH_CONSISTENT: bool = true;

    /// Whether a transaction can be rolled back that has stored. Where it cannot, rolling one back, in whole or to a
    /// mark, makes the engine refuse every commit and checkpoint from then on (`Invalid`): what is in place is no
    /// committed state.
    const ROLLS_BACK: bool = true;

    /// Whether commits may wait for somebody to ask for them, so that [`tend`](Engine::tend) has
    /// something to do.
    const TENDED: bool = false;

    /// Whether write-backs are skipped, so that a power cut can take what cannot be restored.
    const SKIPS: bool = false;

    /// Whether a power cut leaves the commits up to some ticket. If not, it leaves those that were acknowledged, and
    /// any of the others; and each with all that it has seen.
    const IN_ORDER: bool = true;

    /// Whether it runs on pools that keep checksums of all pages.
    const KEEPS_CHECKSUMS: bool = true;

    /// What it keeps per thread.
    type Session: Session + 'static;

    /// Why it is not crash-sync-safe on a memory of this domain, if it is not: it is not started there.
    /// (What promises nothing for a crash is refused nowhere.)
    fn refusal(domain: Domain) -> Option<&'static str> {
        let _ = domain;
        None
    }

    /// Bytes that it would have in `area` beside the log, for a pool of up to `limit` bytes.
    fn beside_log(limit: u64) -> u64 {
        let _ = limit;
        0
    }

    /// Writes an empty log into `area`, and makes it durable.
    fn format(memory: &M, area: Range<u64>);

    /// Looks at the log in `area` without writing anything.
    ///
    /// # Errors
    /// `Corrupt` where the log holds what no crash can leave.
    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery>;

    /// Brings the pool to a committed state after a crash. May itself be cut short and run
    /// again.
    ///
    /// # Errors
    /// `Corrupt` where the log holds what no crash can leave; nothing was written then. `Lost` where
    /// write-backs were skipped, and checksums cannot restore what that lost.
    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery>;

    /// Starts on a memory whose log in `area` is empty or recovered.
    ///
    /// # Errors
    /// `Corrupt` if the log is neither; `NotSafe` after a [`refusal`](Engine::refusal).
    fn start(memory: Arc<M>, area: Range<u64>) -> Result<Arc<Self>> {
        Self::start_with_sums(memory, area, None)
    }

    /// As [`start`](Engine::start), on a memory whose pages have sums: from now on they are kept.
    ///
    /// # Errors
    /// As [`start`](Engine::start).
    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>>;

    /// A session for one thread.
    ///
    /// # Errors
    /// `Sessions` when there are too many.
    fn session(self: &Arc<Self>) -> Result<Self::Session>;

    /// Commits up to and including this ticket have left the log: memory that one of them
    /// freed may be written outside of transactions' protection.
    fn reclaimable(&self) -> Ticket;

    /// Makes durable what has waited longer than it should. Engines that let commits wait need it
    /// called now and then, by a thread or by a core of a simulated machine. **Not by a thread that is inside
    /// of a transaction, which it would wait for in vain; nor are [`tune`](Engine::tune) and
    /// [`checkpoint`](Engine::checkpoint).**
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn tend(&self) -> Result<()> {
        Ok(())
    }

    /// Whether [`give_back`](Engine::give_back) should be called. Says so once.
    fn give_back_due(&self) -> bool {
        false
    }

    /// Lets the memory give back what it keeps beside its durable image, as far as a checkpoint makes
    /// that possible: see [`Memory::give_back`].
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn give_back(&self) -> Result<()> {
        Ok(())
    }

    /// Changes what can be changed while it runs.
    fn tune(&self, tuning: &Tuning) {
        let _ = tuning;
    }

    /// What was done for no session in particular.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Makes everything committed durable in place and empties the log. Other sessions may be
    /// running. After one that failed or panicked, every later one fails: what it was to make durable may
    /// be forgotten.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn checkpoint(&self) -> Result<()>;
}

/// One thread's transactions, one after the other.
///
/// Outside of a transaction nothing can be written, and a read finds what is in place, which may be
/// less than has committed, or a part of what is being stored. A session that is dropped inside of a
/// transaction rolls it back; **one that is leaked there (`std::mem::forget`) keeps the others waiting**.
///
/// Commit has two moments: *logical*, when the transaction is visible to others and ordered,
/// and *durable*, when it survives a power cut. [`commit`](Session::commit) returns at the first
/// with a ticket for the second.
pub trait Session: Access + Send {
    /// Whether transactions can fail for a [`Conflict`](crate::Error::Conflict).
    const CONFLICTS: bool = false;

    /// Begins a transaction; waits for those that must finish first: **another session of the same
    /// thread may be one of them, which is waited for in vain**. If a transaction is running on this
    /// session it is rolled back instead, and none is running then: what follows is refused.
    fn begin(&mut self, mode: Mode);

    /// Begins a transaction again after `conflicts` conflicts in a row, from 1. It may wait first; after many conflicts it
    /// runs in a way that cannot fail for another one.
    fn begin_again(&mut self, mode: Mode, conflicts: u32) {
        let _ = conflicts;
        self.begin(mode);
    }

    /// Begins a transaction that does not fail for a conflict: for callers that cannot run it again. Others that write
    /// may wait until it is over.
    fn begin_unfailing(&mut self, mode: Mode) {
        self.begin(mode);
    }

    /// Whether the running transaction has met a conflict, so that all that is left is to roll it back and run it again.
    #[inline(always)]
    fn has_conflict(&self) -> bool {
        false
    }

    /// The last committed transaction's position in a serial order of all of the engine's transactions: the number of
    /// writing transactions up to it. Counted in a simulator only, for the crash tester. `None` where tickets are in such an
    /// order.
    fn serial(&self) -> Option<u64> {
        None
    }

    /// Writes `from` into memory that this very transaction has allocated, and that nothing
    /// committed refers to: an engine may skip the log for it. `at` is a multiple of 8, and the
    /// bytes up to the next multiple of 8 after the end may be overwritten too. If there are more than
    /// 256, nothing else that is committed may be in the last line. What a transaction has freed is
    /// no such memory until its ticket is [`reclaimable`](Engine::reclaimable): readers may
    /// still look at it. **The caller sees to that**: a heap takes nothing but what its allocator gave.
    ///
    /// # Errors
    /// As [`write_word`](Access::write_word).
    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.write_bytes(at, from)
    }

    /// A point to go back to. Nested transactions are flattened into their outermost one;
    /// marks are how a part of it is undone. What [`write_fresh`](Self::write_fresh) stored is not.
    fn mark(&mut self) -> Mark;

    /// Undoes every write since `mark`; later marks are void.
    fn rollback_to(&mut self, mark: Mark);

    /// Ends the transaction: it is visible and ordered from here on.
    ///
    /// # Errors
    /// The transaction is rolled back if it does not fit in the log or the medium has failed. `Invalid`
    /// if none is running, or when the engine has numbered all commits that it can. `Io` for every
    /// commit after one that panicked.
    fn commit(&mut self) -> Result<Ticket>;

    /// As [`commit`](Session::commit), by one who waits for the ticket at once: an engine may do
    /// both in one go. What goes wrong after the logical commit is told by the wait.
    ///
    /// # Errors
    /// As [`commit`](Session::commit).
    #[inline]
    fn commit_awaited(&mut self) -> Result<Ticket> {
        self.commit()
    }

    /// Ends the transaction without a trace.
    fn abort(&mut self);

    /// Whether the commit with this ticket is durable, without waiting.
    fn is_durable(&self, ticket: Ticket) -> bool;

    /// Returns when the commit with this ticket, and every one before it, is durable.
    ///
    /// # Errors
    /// `Io` when the medium failed: the commit may or may not be there after a restart. `Invalid`
    /// inside of a transaction that reads, if the engine must store something for it.
    fn wait_durable(&mut self, ticket: Ticket) -> Result<()>;

    /// Empties the log as far as possible, so that what was freed can be used again. Callable
    /// inside and outside of a transaction.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn checkpoint(&mut self) -> Result<()>;

    /// What this session has done so far.
    fn counters(&self) -> &Counters;
}
