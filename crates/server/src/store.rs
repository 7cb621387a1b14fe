//! The server's needs of a pool: sessions, and transactions whose durability can be
//! waited for later. A seam, so that tests run on a heap in plain memory.

use perdura::alloc::space::Usage;
use perdura::{
    Compaction, Counters, EngineKind, Handle, Memory as _, Pool, Recovery, Result, Ticket, Tx,
};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const PAGE: u64 = 4096;
/// If emptying pages would free one page in this many, a walk over all keys is worth it.
const WORTH: u64 = 64;

/// The body of a transaction; it may run more than once.
pub(crate) type Body<'a> = dyn FnMut(&mut dyn Tx) -> Result<()> + 'a;

/// A pool.
pub(crate) trait Store: Clone + Send + 'static {
    /// One thread's access to the pool.
    type Session: Session;

    /// A session for one more thread.
    fn session(&self) -> Result<Self::Session>;

    /// The facts of INFO about the pool.
    fn facts(&self) -> Facts;

    /// Where an export of it goes, if it is in a file.
    fn export_path(&self) -> Option<PathBuf> {
        None
    }

    /// Permissions of its file, if it is in one.
    fn mode(&self) -> Option<u32> {
        None
    }

    /// Whether a read transaction of any length sees one moment and does not delay writers.
    fn has_snapshots(&self) -> bool {
        false
    }
}

/// One thread's transactions.
pub(crate) trait Session: Send {
    /// A commit whose durable moment can be waited for.
    type Ticket: Copy + Ord;

    /// Runs a transaction up to its logical commit.
    fn write(&mut self, body: &mut Body<'_>) -> Result<Self::Ticket>;

    /// Runs a read-only transaction. All that it has read is durable when its ticket is.
    fn read(&mut self, body: &mut Body<'_>) -> Result<Self::Ticket>;

    /// Begins to empty pages, if enough of them would become free to be worth a walk over all keys.
    fn compact(&mut self) -> Option<Compaction>;

    /// Gives some of the pool's free space back to the file system, if much is free. Whether it did.
    fn release(&mut self) -> Result<bool>;

    /// Checks that the pool's file is still the one that was opened, and its medium has not failed.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Its counters so far.
    fn counters(&self) -> Counters;

    /// Whether `ticket`'s commit is durable.
    fn is_durable(&self, ticket: Self::Ticket) -> bool;

    /// Returns when it is.
    fn wait(&mut self, ticket: Self::Ticket) -> Result<()>;
}

/// The facts of INFO about a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) engine: String,
    pub(crate) domain: String,
    /// The failures that its data survives.
    pub(crate) survives: String,
    pub(crate) path: String,
    /// Bytes that objects take.
    pub(crate) used: u64,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Bytes up to which it grows.
    pub(crate) limit: u64,
    /// Bytes of the header, the log and the page table.
    pub(crate) overhead: u64,
    /// The free space of the file as it is now.
    pub(crate) usage: Usage,
    /// Bytes that are freed and held back for running transactions, and for how long the oldest of these runs.
    pub(crate) pinned_bytes: u64,
    pub(crate) oldest_transaction: Option<Duration>,
    /// Why it could not when that was tried last.
    pub(crate) cannot_grow: Option<String>,
    /// The work of recovery when the pool was opened.
    pub(crate) recovery: Recovery,
    /// The counters of sessions that have ended.
    pub(crate) counters: Counters,
    /// Syncs of the file.
    pub(crate) syncs: u64,
}

impl Facts {
    /// Whether acknowledged writes are in a log, and so outlive the failures that the domain names.
    pub(crate) fn keeps_log(&self) -> bool {
        self.engine.parse().is_ok_and(EngineKind::is_crash_consistent)
    }

    /// Bytes that are taken of [`limit`](Self::limit): the pool is full when that is all of it, but for free slots that
    /// nothing fits into.
    pub(crate) fn taken(&self) -> u64 {
        self.used + self.overhead
    }

    /// Bytes of the largest object that the free pages, and those by which the file may grow, have room for in one
    /// piece.
    pub(crate) fn largest_free(&self) -> u64 {
        self.usage.largest_free_run.max(self.limit.saturating_sub(self.bytes))
    }
}

impl Store for Pool {
    type Session = Handle;

    fn session(&self) -> Result<Handle> {
        Pool::session(self)
    }

    fn facts(&self) -> Facts {
        let info = self.info();
        Facts {
            engine: info.engine,
            domain: info.domain.to_string(),
            survives: info.survives.to_string(),
            path: info.path,
            used: info.used_bytes.saturating_sub(info.usage.limbo_bytes),
            overhead: {
                let Usage { free_page_bytes, free_slot_bytes, .. } = info.usage;
                info.bytes.saturating_sub(info.used_bytes + free_page_bytes + free_slot_bytes)
            },
            bytes: info.bytes,
            usage: info.usage,
            pinned_bytes: info.pinned_bytes,
            oldest_transaction: info.oldest_transaction,
            limit: info.limit,
            cannot_grow: self.cannot_grow().map(|error| error.to_string()),
            recovery: self.recovery().clone(),
            counters: self.counters(),
            syncs: self.memory().syncs(),
        }
    }

    fn export_path(&self) -> Option<PathBuf> {
        let mut name = self.path().file_name()?.to_os_string();
        name.push(".export");
        Some(self.path().with_file_name(name))
    }

    fn mode(&self) -> Option<u32> {
        self.path().metadata().ok().map(|found| found.permissions().mode())
    }

    fn has_snapshots(&self) -> bool {
        matches!(self.engine(), EngineKind::CcStm | EngineKind::CcStmUndo | EngineKind::Stm)
    }
}

impl Session for Handle {
    type Ticket = Ticket;

    fn write(&mut self, body: &mut Body<'_>) -> Result<Ticket> {
        self.submit(|tx| body(tx)).map(|((), ticket)| ticket)
    }

    fn read(&mut self, body: &mut Body<'_>) -> Result<Ticket> {
        self.submit_read(|tx| body(tx)).map(|((), ticket)| ticket)
    }

    fn compact(&mut self) -> Option<Compaction> {
        let all = self.pool().memory().limit() / PAGE;
        self.pool().compact((all / WORTH).max(1))
    }

    fn release(&mut self) -> Result<bool> {
        self.pool().release_some().map(|bytes| bytes > 0)
    }

    fn check(&self) -> Result<()> {
        self.pool().failure().map_or(Ok(()), Err)
    }

    fn counters(&self) -> Counters {
        Handle::counters(self)
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        Handle::is_durable(self, ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<()> {
        Handle::wait(self, ticket)
    }
}
