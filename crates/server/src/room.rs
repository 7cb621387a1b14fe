//! Makes room for a write that the pool has refused: frees deleted values and expired keys, evicts keys if a policy says
//! which, and empties pages that are mostly free.
//!
//! Invariants: the write itself has been undone, and no transaction is running on this thread.
//! One thread makes room at a time; the others wait for it, also outside of transactions.

use crate::command::Env;
use crate::cron::Chores;
use crate::eviction;
use crate::keyspace::compact::Walk;
use crate::store::Session;
use perdura::Error;
use std::sync::PoisonError;
use tracing::debug;

/// Transactions of chores for the first attempt; twice as many for each that follows.
const FIRST: u32 = 4;
/// Doublings.
const MOST: u32 = 8;
/// Attempts that evict keys, and do not empty pages.
const IN_PIECES: u32 = 2;

/// Frees something. False if there is nothing to free: the write is then refused.
///
/// # Errors
/// `Io` when the medium failed.
pub(crate) fn make<S: Session>(
    session: &mut S,
    env: Env<'_>,
    attempts: u32,
) -> Result<bool, Error> {
    let _alone = env.server.room.lock().unwrap_or_else(PoisonError::into_inner);
    let most = FIRST << attempts.min(MOST);
    let made = tidy(session, env, most).and_then(|any| match any {
        true => Ok(true),
        false => evict(session, env, 1 << attempts.min(MOST)).and_then(|any| match any {
            // What has gone has left no room in one piece, for a while.
            true if attempts < IN_PIECES => Ok(true),
            any => Ok(compact(session, env)? || any),
        }),
    });
    match made {
        Err(error @ Error::Io(_)) => Err(error),
        // Damage, or a log that is too small: the write is refused for want of room, as it is.
        Err(_) => Ok(false),
        Ok(done) => Ok(done),
    }
}

/// Evicts keys, if there is a policy. Returns whether there were any.
fn evict<S: Session>(session: &mut S, env: Env<'_>, most: u32) -> Result<bool, Error> {
    let mut any = false;
    for _ in 0..most {
        if eviction::evict(session, env)?.is_none() {
            break;
        }
        any = true;
    }
    // Large values are freed in steps.
    tidy(session, env, most)?;
    Ok(any)
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
fn tidy<S: Session>(session: &mut S, env: Env<'_>, most: u32) -> Result<bool, Error> {
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
        chores.run(session, env)?;
        any = true;
    }
    Ok(any)
}
