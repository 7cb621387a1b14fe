//! Open pools.

use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::table::{Slot, Table};
use perdura::{Domain, EngineKind, Options, Pool, Survives, Ticket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Pools that can be open in a process at once.
const MOST: usize = 64;
static SLOTS: [Slot<Arc<Shared>>; MOST] = [const { Slot::new() }; MOST];
static POOLS: Table<Arc<Shared>> = Table { kind: 1, what: "pool", slots: &SLOTS };

/// A pool, and the state that its sessions share.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    /// Sessions that are open.
    pub(crate) sessions: AtomicU32,
    /// The highest ticket that was given.
    highest: AtomicU64,
    /// How often the named roots may have changed.
    pub(crate) root_changes: AtomicU64,
}

impl Shared {
    /// Notes the ticket that a commit was given.
    pub(crate) fn gave(&self, ticket: Ticket) -> Ticket {
        self.highest.fetch_max(ticket.0, Ordering::Relaxed);
        ticket
    }

    /// The ticket, if a commit of this pool can have it.
    pub(crate) fn ticket(&self, ticket: u64) -> Result<Ticket> {
        let highest = self.highest.load(Ordering::Relaxed);
        if ticket <= highest {
            return Ok(Ticket(ticket));
        }
        Err(Fail::new(
            PERDURA_ERR_INVALID,
            format!(
                "no commit on this pool was given the ticket {ticket} (the last: {highest}); pass one that a commit gave"
            ),
        ))
    }
}

/// How the file is opened.
#[derive(Clone, Copy)]
pub(crate) enum How {
    Create,
    Open,
    OpenOrCreate,
}

/// The options of a pool.
#[derive(Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) size: u64,
    pub(crate) log_size: u64,
    pub(crate) engine: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) flags: u32,
    pub(crate) must_outlive: u32,
}

impl Wanted {
    fn options(&self) -> Result<Options> {
        use crate::types::{PERDURA_ACCEPT_WEAKER, PERDURA_CHECKSUMS, PERDURA_FORCE};
        let unsupported = |why| Fail::new(PERDURA_ERR_UNSUPPORTED, why);
        let mut options = Options::new();
        if let Some(name) = &self.engine {
            options = options.engine(name.parse::<EngineKind>().map_err(unsupported)?);
        }
        if let Some(name) = &self.domain {
            options = options.domain(Some(name.parse::<Domain>().map_err(unsupported)?));
        }
        if self.size != 0 {
            options = options.size(self.size);
        }
        if self.log_size != 0 {
            options = options.log(self.log_size);
        }
        if self.must_outlive != 0 {
            let survives = Survives::from_number(self.must_outlive.into()).ok_or_else(|| {
                invalid("must_outlive", self.must_outlive, "one of PERDURA_SURVIVES_...")
            })?;
            options = options.requires(survives);
        }
        if self.flags & !(PERDURA_ACCEPT_WEAKER | PERDURA_FORCE | PERDURA_CHECKSUMS) != 0 {
            let known = "PERDURA_ACCEPT_WEAKER, PERDURA_FORCE and PERDURA_CHECKSUMS only";
            return Err(invalid("flags", self.flags, known));
        }
        Ok(options
            .checksums(self.flags & PERDURA_CHECKSUMS != 0)
            .accept_weaker(self.flags & PERDURA_ACCEPT_WEAKER != 0)
            .force(self.flags & PERDURA_FORCE != 0))
    }
}

fn invalid(name: &str, value: u32, expected: &str) -> Fail {
    Fail::new(PERDURA_ERR_INVALID, format!("the option {name} is {value}: set {expected}"))
}

/// Creates or opens a pool.
pub(crate) fn open(how: How, path: &Path, wanted: &Wanted) -> Result<u64> {
    crate::ffi::fork::watch();
    let options = wanted.options()?;
    let pool = match how {
        How::Create => options.create(path),
        How::Open => options.open(path),
        How::OpenOrCreate => options.open_or_create(path),
    }?;
    POOLS.insert(Arc::new(Shared {
        pool,
        sessions: AtomicU32::new(0),
        highest: AtomicU64::new(0),
        root_changes: AtomicU64::new(1),
    }))
}

/// The pool of this number. It stays open while this is held.
pub(crate) fn get(id: u64) -> Result<Arc<Shared>> {
    Ok(POOLS.wait(id)?.clone())
}

/// Closes a pool that has no sessions.
pub(crate) fn close(id: u64) -> Result<()> {
    let held = POOLS.wait(id)?;
    let sessions = held.sessions.load(Ordering::Acquire);
    if sessions != 0 {
        let advice = "close them with perdura_session_close first";
        return Err(Fail::new(PERDURA_ERR_BUSY, format!("{sessions} sessions are open: {advice}")));
    }
    if Arc::strong_count(&held) != 1 {
        let why = "another thread is in a call on the pool: close it when that has returned";
        return Err(Fail::new(PERDURA_ERR_BUSY, why));
    }
    let shared = Arc::into_inner(held.take());
    match shared {
        Some(shared) => Ok(shared.pool.close()?),
        // It cannot have been taken meanwhile: the table's lock was held.
        None => Ok(()),
    }
}

/// Makes everything committed durable in place and empties the log.
pub(crate) fn checkpoint(id: u64) -> Result<()> {
    Ok(get(id)?.pool.checkpoint()?)
}
