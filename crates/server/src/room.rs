//! Makes room for a write that the pool has refused: frees deleted values and expired keys, evicts keys if a policy says
//! which, and empties pages that are mostly free.
//!
//! Invariants: the write itself has been undone, and no transaction is running on this thread.
//! One thread makes room at a time; the others wait for it, also outside of transactions.

use crate::command::Env;
use crate::cron::Chores;
use crate::eviction::{self, EvictionPolicy};
use crate::keyspace::compact::Walk;
use crate::store::Session;
use perdura::Error;
use std::sync::PoisonError;
use tracing::debug;

/// Transactions of chores for the first attempt; twice as many for each that follows.
const FIRST: u32 = 4;
/// Doublings.
const MOST: u32 = 8;
/// While more than one part in this number of the pool is held back for transactions that read, nothing is evicted.
const PINNED_PART: u64 = 8;
/// Attempts that evict keys, and do not empty pages.
const IN_PIECES: u32 = 2;

/// Frees something, since there was no room for a write. False if there is nothing to free: the write is then refused.
/// Raises `last` to the ticket of its last transaction, if it has any: what these tell others is told when that is durable.
///
/// # Errors
/// `Io` when the medium failed.
pub(crate) fn make<S: Session>(
    session: &mut S,
    env: Env<'_>,
    attempts: u32,
    lack: &Lack<'_>,
    last: &mut Option<S::Ticket>,
) -> Result<bool, Error> {
    let _alone = env.server.room.lock().unwrap_or_else(PoisonError::into_inner);
    let most = FIRST << attempts.min(MOST);
    let made = tidy(session, env, most, last).and_then(|any| match any {
        true => Ok(true),
        false => {
            let evicted = evict(session, env, 1 << attempts.min(MOST), lack, last);
            evicted.and_then(|any| match any {
                // What has gone has left no room in one piece, for a while.
                true if attempts < IN_PIECES => Ok(true),
                any => Ok(compact(session, env)? || any),
            })
        }
    });
    match made {
        Err(error @ Error::Io(_)) => Err(error),
        // Damage, or a log that is too small: the write is refused for want of room, as it is.
        Err(_) => Ok(false),
        Ok(done) => Ok(done),
    }
}

/// Evicts keys, if there is a policy, and that may make room. Returns whether there were any.
fn evict<S: Session>(
    session: &mut S,
    env: Env<'_>,
    most: u32,
    lack: &Lack<'_>,
    last: &mut Option<S::Ticket>,
) -> Result<bool, Error> {
    if env.server.eviction.policy() == EvictionPolicy::NoEviction || lack.is_in_vain(env) {
        return Ok(false);
    }
    let mut any = false;
    for _ in 0..most {
        let Some(ticket) = eviction::evict(session, env)? else { break };
        *last = (*last).max(Some(ticket));
        any = true;
    }
    // Large values are freed in steps.
    tidy(session, env, most, last)?;
    Ok(any)
}

/// Why a write was refused, and how much it needs.
pub(crate) struct Lack<'a> {
    pub(crate) error: &'a Error,
    /// Bytes of values that it writes at least; 0 if that is not known.
    pub(crate) least: u64,
}

impl<'a> Lack<'a> {
    pub(crate) fn of(error: &'a Error) -> Self {
        Lack { error, least: 0 }
    }

    /// Whether nothing is evicted for the transaction since it takes too much.
    pub(crate) fn is_too_much(&self, env: Env<'_>) -> bool {
        env.server.eviction.policy() != EvictionPolicy::NoEviction && self.never_fits(env)
    }

    /// Whether there will not be room for the transaction if everything goes: for what it writes at least, or for what it had
    /// allocated when it was refused, and asked for then. What it would have asked for after that is not known: so one
    /// that has taken half of all that there is counts as one of these, too.
    fn never_fits(&self, env: Env<'_>) -> bool {
        let Error::Full { requested, taken, .. } = self.error else { return false };
        let facts = env.server.facts();
        let most = facts.limit.saturating_sub(facts.overhead);
        self.least > most || requested.saturating_add(*taken) > most || *taken > most / 2
    }

    /// Whether to evict keys would make no room: for what never fits, or while all that is freed is held back for a
    /// transaction that reads for long.
    fn is_in_vain(&self, env: Env<'_>) -> bool {
        let Error::Full { requested, pinned, .. } = self.error else { return false };
        let limit = env.server.facts().limit;
        self.never_fits(env) || *pinned > (*requested).max(limit / PINNED_PART)
    }
}

/// Empties pages. Whether that made some free.
fn compact<S: Session>(session: &mut S, env: Env<'_>) -> Result<bool, Error> {
    let Some(compaction) = session.compact() else { return Ok(false) };
    let (mut walk, mut more) = (Walk::default(), true);
    while more {
        let mut next = walk.clone();
        let written = session.write(&mut |tx| {
            next = walk.clone();
            more = next.step(tx, env.keyspace)?;
            Ok(())
        });
        match written {
            Ok(_) => walk = next,
            // Other transactions have taken the room that there was.
            Err(Error::Full { .. } | Error::NoSpace { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    let pages = compaction.finish()?;
    debug!(pages, "pages emptied to make room");
    Ok(pages > 0)
}

/// Does the work that the cron would do sooner or later. Returns whether there was any.
fn tidy<S: Session>(
    session: &mut S,
    env: Env<'_>,
    most: u32,
    last: &mut Option<S::Ticket>,
) -> Result<bool, Error> {
    let mut any = false;
    for _ in 0..most {
        let mut chores = Chores::default();
        session.read(&mut |tx| {
            chores = Chores::find(tx, env)?;
            Ok(())
        })?;
        if chores.is_none() {
            break;
        }
        *last = (*last).max(Some(chores.run(session, env)?));
        any = true;
    }
    Ok(any)
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
