//! The traits of engines and sessions, which run transactions.

use crate::pins::{Oldest, Pins};
use crate::tuning::Tuning;
use crate::{Access, Counters, Error, Mark, Mode, Result, Sums};
use perdura_memory::{Domain, Memory};
use std::ops::Range;
use std::sync::Arc;

/// A commit's place in the order of commits, with which its durability can be waited for.
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
    /// Deferred lines: their write-back was skipped, and checksums protect them.
    pub deferred: u64,
    /// Of these, the ones that were lost, and restored.
    pub corrected: u64,
}

/// The most sessions of an engine at a time.
pub const SESSIONS: usize = 4096;

/// A pair of consistency and synchronisation that is an engine.
pub trait Named {
    /// The engine's name.
    const NAME: &'static str;
}

/// One way to make transactions atomic, isolated and durable.
pub trait Engine<M: Memory>: Send + Sync + Sized + 'static {
    /// Its name in a pool's header, in options and in tables of figures.
    const NAME: &'static str;

    /// Whether its pools are whole after a crash.
    const CRASH_CONSISTENT: bool = true;

    /// Whether a transaction that has stored can be rolled back. If not, rolling one back, in whole or to a mark, makes
    /// the engine refuse every commit and checkpoint from then on (`Invalid`): the memory holds no committed state.
    const ROLLS_BACK: bool = true;

    /// Whether transactions of different sessions are kept apart. If not, sessions at the same time must share nothing.
    const ISOLATES: bool = true;

    /// Whether commits may wait for a later flush, so that [`flush_due`](Engine::flush_due) has something to do.
    const NEEDS_FLUSHER: bool = false;

    /// Whether write-backs are skipped, so that a power cut can lose data that cannot be restored.
    const SKIPS: bool = false;

    /// Whether each store of a transaction waits for the medium: those with few large stores take less time than those
    /// with many small ones.
    const SYNCS_STORES: bool = false;

    /// Whether a power cut leaves all commits up to some ticket. If not, it leaves the acknowledged ones and any of the
    /// others, each together with all commits that it has seen.
    const IN_ORDER: bool = true;

    /// Whether a power cut leaves all commits up to some ticket on memory of this domain. Unless [`Self::IN_ORDER`], the
    /// serial order of transactions may be another one.
    fn leaves_prefix(_domain: Domain) -> bool {
        Self::IN_ORDER
    }

    /// Whether its sessions have sections over several locks: see [`Session::begin_section`].
    const SECTIONS: bool = false;

    /// Whether it runs on pools that keep checksums of all pages.
    const KEEPS_CHECKSUMS: bool = true;

    /// Its per-thread state.
    type Session: Session + 'static;

    /// Why it is not crash-sync-safe on this memory. `None` if it is safe. (An engine that promises nothing for a crash is
    /// refused nowhere.)
    fn refusal(memory: &M) -> Option<&'static str> {
        let _ = memory;
        None
    }

    /// Fails if the engine is not to be started on this memory: not after a [`refusal`](Self::refusal), unless the memory
    /// [accepts that](Memory::accepts_unsafe).
    ///
    /// # Errors
    /// `NotSafe`.
    fn check_safe(memory: &M) -> Result<()> {
        match Self::refusal(memory) {
            Some(why) if !memory.accepts_unsafe() => {
                Err(Error::NotSafe { engine: Self::NAME, domain: memory.domain(), why })
            }
            _ => Ok(()),
        }
    }

    /// Bytes that it needs in `area` in addition to the log, for a pool of up to `limit` bytes.
    fn beside_log(limit: u64) -> u64 {
        let _ = limit;
        0
    }

    /// Writes an empty log into `area`, and makes it durable.
    fn format(memory: &M, area: Range<u64>);

    /// Examines the log in `area` without writing anything.
    ///
    /// # Errors
    /// `Corrupt` where the log holds what no crash can leave.
    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery>;

    /// Brings the pool to a committed state after a crash. It may itself be cut short and run again.
    ///
    /// # Errors
    /// `Corrupt` where the log holds what no crash can leave; nothing was written then. `Lost` where lines whose
    /// write-back was skipped cannot be restored from checksums.
    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery>;

    /// Starts on a memory whose log in `area` is empty or recovered.
    ///
    /// # Errors
    /// `Corrupt` if the log is neither; `NotSafe` after a [`refusal`](Engine::refusal).
    fn start(memory: Arc<M>, area: Range<u64>) -> Result<Arc<Self>> {
        Self::start_with_sums(memory, area, None)
    }

    /// As [`start`](Engine::start), on a memory whose pages have sums, which are maintained from now on.
    ///
    /// # Errors
    /// As [`start`](Engine::start).
    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>>;

    /// A session for one thread.
    ///
    /// # Errors
    /// `Sessions` when there are [`SESSIONS`].
    fn session(self: &Arc<Self>) -> Result<Self::Session>;

    /// Commits up to and including this ticket have left the log: memory that one of them freed may be written outside
    /// transactions.
    fn reclaimable(&self) -> Ticket;

    /// What may be reused beyond that: memory freed after the [`reclaimable`](Engine::reclaimable) ticket that no
    /// running transaction can reach all the same. Not for every commit: it looks at all running transactions.
    fn pins(&self) -> Pins {
        Pins { left: self.reclaimable(), seen: Vec::new() }
    }

    /// The running transaction that has kept freed memory from being reused for the longest time; `None` if none does.
    fn oldest(&self) -> Option<Oldest> {
        None
    }

    /// Makes commits durable that have waited too long: the background flush. Engines that let commits wait need it
    /// called now and then, by a thread or by a core of a simulated machine. **Not by a thread that is inside a
    /// transaction: the call would deadlock on it. The same goes for [`tune`](Engine::tune) and
    /// [`checkpoint`](Engine::checkpoint).**
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn flush_due(&self) -> Result<()> {
        Ok(())
    }

    /// Whether [`give_back`](Engine::give_back) should be called. Reports it once.
    fn give_back_due(&self) -> bool {
        false
    }

    /// Lets the memory give back what it keeps in addition to its durable image, as far as a checkpoint makes that
    /// possible: see [`Memory::give_back`].
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn give_back(&self) -> Result<()> {
        Ok(())
    }

    /// Changes settings of the running engine.
    fn tune(&self, tuning: &Tuning) {
        let _ = tuning;
    }

    /// Counts of work that belongs to no session.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Makes everything committed durable in place and empties the log. Other sessions may be running. After a
    /// checkpoint that failed or panicked, every later one fails: the lines that it was to make durable may be
    /// forgotten.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn checkpoint(&self) -> Result<()>;
}

/// The error of a call for sections.
pub(crate) const NO_SECTIONS: Error =
    Error::Invalid("the engine has no sections; use the engine 'atlas'");

/// One thread's transactions, one after the other.
///
/// Outside a transaction nothing can be written, and a read finds the memory's contents, which may lack committed words
/// or include a part of a commit in progress. A session that is dropped inside a transaction rolls it back; **one that
/// is leaked there (`std::mem::forget`) keeps the others waiting**.
///
/// Commit has two moments: *logical*, when the transaction is visible to others and ordered, and *durable*, when it
/// survives a power cut. [`commit`](Session::commit) returns at the first with a ticket for the second.
pub trait Session: Access + Send {
    /// Whether transactions can fail with a [`Conflict`](crate::Error::Conflict).
    const CONFLICTS: bool = false;

    /// Begins a transaction, after waiting for those that must finish first: **if one of these is on another session of
    /// the same thread, this deadlocks**. If a transaction is running on this session it is rolled back instead, and
    /// none is running then: what follows is refused.
    fn begin(&mut self, mode: Mode);

    /// Begins a transaction again after `conflicts` conflicts in a row, from 1. It may wait first; after many conflicts
    /// the transaction runs in a way that cannot conflict.
    fn begin_again(&mut self, mode: Mode, conflicts: u32) {
        let _ = conflicts;
        self.begin(mode);
    }

    /// Begins a transaction that cannot fail with a conflict: for callers that cannot run it again. Other writers may
    /// wait until it is over.
    fn begin_unfailing(&mut self, mode: Mode) {
        self.begin(mode);
    }

    /// Whether the running transaction has met a conflict, so that it can only be rolled back and run again.
    #[inline(always)]
    fn has_conflict(&self) -> bool {
        false
    }

    /// Begins a section: what it stores between its first lock and its last unlock is whole or absent after a power cut.
    /// It stores in place at once, and is over by [`commit`](Self::commit), which releases the locks that it still holds,
    /// or by [`abort`](Self::abort). Data is to be accessed only by sections that hold one and the same lock meanwhile,
    /// or only by transactions. **A thread that is inside a transaction or a section may wait for itself here.**
    ///
    /// # Errors
    /// `Invalid` under engines without [sections](Engine::SECTIONS), and on pools with checksums of all pages, which
    /// sections would share.
    fn begin_section(&mut self) -> Result<()> {
        Err(NO_SECTIONS)
    }

    /// Takes the lock with this number for the running section, after waiting for the section that has it.
    ///
    /// # Errors
    /// `Deadlock` if it would wait for itself; `TooLarge` when the log has no room to note what the section follows;
    /// `Invalid` outside of a section.
    fn lock(&mut self, id: u64) -> Result<()> {
        let _ = id;
        Err(NO_SECTIONS)
    }

    /// Releases the lock with this number. The section cannot be rolled back from here on if it has stored anything:
    /// others may have seen it. If it fails all the same, nothing is committed any more until the pool is recovered.
    ///
    /// # Errors
    /// `Invalid` if the running section does not hold it.
    fn unlock(&mut self, id: u64) -> Result<()> {
        let _ = id;
        Err(NO_SECTIONS)
    }

    /// The running transaction or section is about to read or change the heap's own data: a section waits for the lock of
    /// transactions here, and keeps it until it is over.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    #[inline(always)]
    fn enter_heap(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether a section runs.
    #[inline(always)]
    fn in_section(&self) -> bool {
        false
    }

    /// The last committed transaction's position in a serial order of all of the engine's transactions: the number of
    /// writing transactions up to it. Counted in a simulator only, for the crash tester. `None` if tickets are such an
    /// order.
    fn serial(&self) -> Option<u64> {
        None
    }

    /// Writes `from` into memory that this very transaction has allocated, and that no committed data refers to: an
    /// engine may skip the log for it. `at` is a multiple of 8, and the bytes up to the next multiple of 8 after the
    /// end may be overwritten too. If there are more than 256 bytes, the last line may hold no other committed data.
    /// Memory that a transaction has freed does not qualify until its ticket is [`reclaimable`](Engine::reclaimable):
    /// readers may still look at it. **The caller ensures all this**: a heap passes only memory from its allocator.
    ///
    /// # Errors
    /// As [`write_word`](Access::write_word).
    fn write_fresh(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.write_bytes(at, from)
    }

    /// As [`commit`](Self::commit), or [`commit_awaited`](Self::commit_awaited), for a transaction that was begun to read.
    #[inline(always)]
    fn end_reading(&mut self, awaited: bool) -> Result<Ticket> {
        if awaited { self.commit_awaited() } else { self.commit() }
    }

    /// As [`read_word`](Access::read_word), if it succeeds; perhaps only if that takes no checks beyond the usual ones.
    #[inline(always)]
    fn read_at_once(&mut self, at: u64) -> Option<u64> {
        self.read_word(at).ok()
    }

    /// As [`write_word`](Access::write_word), if it succeeds; perhaps only if that takes no checks beyond the usual ones.
    /// Returns whether the word was written.
    #[inline(always)]
    fn write_at_once(&mut self, at: u64, value: u64) -> bool {
        self.write_word(at, value).is_ok()
    }

    /// Whether [`set_floor`](Self::set_floor) does anything.
    const HAS_FLOOR: bool = false;

    /// Nothing before `floor`, a multiple of 8, is written [at once](Self::write_at_once) from here on: a caller that checks
    /// such offsets need not check others.
    fn set_floor(&mut self, floor: u64) {
        let _ = floor;
    }

    /// A point to return to. Nested transactions are flattened into their outermost one; marks are how a part of it is
    /// undone. Stores by [`write_fresh`](Self::write_fresh) are not undone.
    fn mark(&mut self) -> Mark;

    /// Undoes every write since `mark`; later marks are void.
    fn rollback_to(&mut self, mark: Mark);

    /// Ends the transaction: it is visible and ordered from here on.
    ///
    /// # Errors
    /// The transaction is rolled back if it does not fit in the log or the medium has failed. `Invalid` if none is
    /// running, or when the engine has used up its commit numbers. `Io` for every commit after one that panicked.
    fn commit(&mut self) -> Result<Ticket>;

    /// As [`commit`](Session::commit), for a caller that waits for the ticket at once: an engine may do both in one go.
    /// Errors after the logical commit are reported by the wait.
    ///
    /// # Errors
    /// As [`commit`](Session::commit).
    #[inline(always)]
    fn commit_awaited(&mut self) -> Result<Ticket> {
        self.commit()
    }

    /// When memory counts as allocated that the session's last commit, which had this ticket, has allocated: to be
    /// compared with [`Pins`].
    #[inline]
    fn born(&self, ticket: Ticket) -> Ticket {
        ticket
    }

    /// Ends the transaction without a trace.
    fn abort(&mut self);

    /// Whether the commit with this ticket is durable, without waiting.
    fn is_durable(&self, ticket: Ticket) -> bool;

    /// Returns when the commit with this ticket, and every one before it, is durable.
    ///
    /// # Errors
    /// `Io` when the medium failed: the commit may or may not be there after a restart. `Invalid` inside a transaction
    /// that reads, if the engine would have to store something.
    fn wait_durable(&mut self, ticket: Ticket) -> Result<()>;

    /// Empties the log as far as possible, so that freed memory can be reused. Callable inside and outside a
    /// transaction.
    ///
    /// # Errors
    /// `Io` when the medium failed.
    fn checkpoint(&mut self) -> Result<()>;

    /// What this session has done so far.
    fn counters(&self) -> &Counters;
}
