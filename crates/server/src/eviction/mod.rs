//! Eviction: when the pool is full, keys are deleted to make room, if the option `maxmemory-policy` says which.
//!
//! As in Redis, the order is approximate: some keys are drawn at random, and of these the ones go that are unused longest
//! (or used most seldom). An eviction is a transaction like any other: it is durable, and told to watchers, exports and
//! those who listen for events.
//!
//! Keys are evicted before the pool is full, between turns ([`Eviction::is_due`]), and when a write finds no room (`room.rs`).

mod policy;
#[cfg(test)]
mod tests;
mod uses;

pub use policy::EvictionPolicy;

use crate::command::{Env, Random};
use crate::keyspace::{DATABASES, Database, Entry, unguessable};
use crate::pause::Paused;
use crate::store::{Facts, Session};
use perdura::{Error, Result, Tx};
use policy::Order;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use uses::Uses;

/// Keys evicted in one transaction.
pub(crate) const AT_ONCE: usize = 16;
/// Of the pool, one part in this number is kept free between turns.
const FREE_PART: u64 = 32;
/// Draws for each sample that may go: others may not, since they do not expire.
const DRAWS: usize = 4;

/// The policy, and what it needs to know of keys.
pub(crate) struct Eviction {
    policy: AtomicU8,
    uses: Uses,
}

impl Eviction {
    /// Evicts nothing until that is [set](Self::set).
    pub(crate) fn new() -> Self {
        Eviction { policy: AtomicU8::new(0), uses: Uses::new(unguessable()) }
    }

    pub(crate) fn policy(&self) -> EvictionPolicy {
        EvictionPolicy::numbered(self.policy.load(Relaxed))
    }

    /// Sets the policy, for a pool that may have `bytes`. What is known of keys is forgotten if another order knew it.
    pub(crate) fn set(&self, policy: EvictionPolicy, bytes: u64) {
        let new = policy.order();
        if matches!(new, Some(Order::Unused | Order::Seldom)) && new != self.policy().order() {
            self.uses.restart(bytes);
        }
        self.policy.store(policy as u8, Relaxed);
    }

    /// Whether uses of keys are to be noted.
    #[inline]
    pub(crate) fn notes_uses(&self) -> bool {
        self.policy.load(Relaxed) != EvictionPolicy::NoEviction as u8
    }

    /// A command uses a key.
    #[inline(never)]
    pub(crate) fn note_use(&self, db: u8, key: &[u8], now: u64) {
        match self.policy().order() {
            Some(Order::Unused) => self.uses.use_now(self.uses.place(db, key), now),
            Some(Order::Seldom) => self.uses.count(self.uses.place(db, key), now),
            _ => {}
        }
    }

    /// Milliseconds since a key was used, if that is known; `None` if uses are not kept.
    pub(crate) fn idle(&self, db: u8, key: &[u8], now: u64) -> Option<Option<u64>> {
        let is_kept = self.policy().order() == Some(Order::Unused);
        is_kept.then(|| self.uses.idle(self.uses.place(db, key), now))
    }

    /// How often a key is used, on Redis's scale; `None` if that is not counted.
    pub(crate) fn frequency(&self, db: u8, key: &[u8], now: u64) -> Option<u8> {
        let is_kept = self.policy().order() == Some(Order::Seldom);
        is_kept.then(|| self.uses.frequency(self.uses.place(db, key), now))
    }

    /// Whether too little of the pool is free.
    pub(crate) fn is_due(&self, facts: impl FnOnce() -> Facts) -> bool {
        if self.policy() == EvictionPolicy::NoEviction {
            return false;
        }
        let facts = facts();
        facts.taken() > facts.limit - facts.limit / FREE_PART
    }
}

/// Evicts some keys, at most [`AT_ONCE`]. Returns the transaction's ticket, if there were any.
///
/// # Errors
/// `Io` when the medium failed; `Corrupt`.
pub(crate) fn evict<S: Session>(session: &mut S, env: Env<'_>) -> Result<Option<S::Ticket>, Error> {
    // A master says itself which keys are gone.
    let is_paused = env.server.pause.now() != Paused::None;
    let evicts = env.server.eviction.policy() != EvictionPolicy::NoEviction && !is_paused;
    if !evicts || env.server.following.is_replica() {
        return Ok(None);
    }
    // Some may be too much for one transaction.
    for most in [AT_ONCE, 1] {
        let mut count = 0;
        let done = session.write(&mut |tx| {
            env.begin_writing(tx)?;
            count = evict_some(tx, env, most)?;
            env.end_writing(tx)
        });
        env.end(&done);
        match done {
            Err(Error::TooLarge { .. }) if most > 1 => {}
            done => return done.map(|ticket| (count > 0).then_some(ticket)),
        }
    }
    Ok(None)
}

/// Evicts at most `most` keys. Returns how many.
pub(crate) fn evict_some(tx: &mut dyn Tx, env: Env<'_>, most: usize) -> Result<usize> {
    let policy = env.server.eviction.policy();
    if env.server.following.is_replica() {
        return Ok(0);
    }
    let mut count = 0;
    for (db, key) in choose(tx, env, policy, most)? {
        let db = Database::new(env.keyspace, db);
        env.keep(tx, db, &key);
        // It may have been drawn twice.
        if db.find(tx, &key)?.is_some() {
            env.touch_evicted(tx, &db, &key)?;
            db.remove(tx, &key)?;
            env.tally.evicted();
            count += 1;
        }
    }
    Ok(count)
}

/// A key that may go, of which those with the least worth go first.
struct Candidate {
    worth: u64,
    db: u8,
    key: Vec<u8>,
}

/// Chooses the keys that go.
fn choose(
    tx: &mut dyn Tx,
    env: Env<'_>,
    policy: EvictionPolicy,
    most: usize,
) -> Result<Vec<(u8, Vec<u8>)>> {
    let Some(order) = policy.order() else { return Ok(Vec::new()) };
    if order == Order::Soonest {
        return soonest(tx, env, most);
    }
    let samples = most * env.server.tuning.samples();
    let mut drawn = Vec::new();
    let sizes = sizes(tx, env)?;
    let all: u64 = sizes.iter().sum();
    let mut random = Random::new();
    for _ in 0..samples * DRAWS {
        if all == 0 || drawn.len() == samples {
            break;
        }
        let db = database_of(&sizes, random.below(all));
        let Some(keys) = Database::new(env.keyspace, db).keys(tx)? else { continue };
        let Some((key, entry)) = keys.random(tx, random.next())? else { continue };
        if !policy.spares_lasting() || entry.expires().is_some() {
            drawn.push(Candidate { worth: worth(env, order, db, &key, entry), db, key });
        }
    }
    if policy.spares_lasting() {
        // Few expire: they are drawn from among themselves.
        for _ in drawn.len()..samples {
            let Some((db, key, entry)) = draw_expiring(tx, env, &mut random)? else { break };
            drawn.push(Candidate { worth: worth(env, order, db, &key, entry), db, key });
        }
    }
    drawn.sort_by_key(|candidate| candidate.worth);
    drawn.truncate(most);
    Ok(drawn.into_iter().map(|Candidate { db, key, .. }| (db, key)).collect())
}

/// Draws a key that expires: the first one after a time between the first and the last. `None` if there is none.
fn draw_expiring(
    tx: &mut dyn Tx,
    env: Env<'_>,
    random: &mut Random,
) -> Result<Option<(u8, Vec<u8>, Entry)>> {
    let start = random.below(DATABASES.into());
    for step in 0..u64::from(DATABASES) {
        let index = ((start + step) % u64::from(DATABASES)) as u8;
        let db = Database::new(env.keyspace, index);
        let Some(expiries) = db.expiries(tx)? else { continue };
        let (Some(((first, _), ())), Some(((last, _), ()))) =
            (expiries.first(tx)?, expiries.last(tx)?)
        else {
            continue;
        };
        let time = first + random.below((last - first).saturating_add(1));
        let found = expiries.cursor(tx, (time, &b""[..])..)?.next(tx)?;
        let Some(((_, key), ())) = found else { continue };
        let Some(found) = db.find(tx, &key)? else {
            return Err(Error::corrupt("an expiring key that is not there", expiries.at()));
        };
        return Ok(Some((index, key, found.entry)));
    }
    Ok(None)
}

fn worth(env: Env<'_>, order: Order, db: u8, key: &[u8], entry: Entry) -> u64 {
    let uses = &env.server.eviction.uses;
    match order {
        _ if entry.expired(env.now) => 0,
        // What is not known counts as unused for ever.
        Order::Unused => {
            let idle = uses.idle(uses.place(db, key), env.now);
            idle.map_or(0, |idle| u64::MAX - idle)
        }
        Order::Seldom => u64::from(uses.frequency(uses.place(db, key), env.now)),
        Order::Any | Order::Soonest => 0,
    }
}

/// How many keys each database has.
fn sizes(tx: &mut dyn Tx, env: Env<'_>) -> Result<Vec<u64>> {
    (0..DATABASES).map(|index| Database::new(env.keyspace, index).len(tx)).collect()
}

/// The database of the key with this number, below the number of all keys.
fn database_of(sizes: &[u64], mut number: u64) -> u8 {
    for (db, size) in (0..).zip(sizes) {
        if number < *size {
            return db;
        }
        number -= size;
    }
    0
}

/// The keys that expire first.
fn soonest(tx: &mut dyn Tx, env: Env<'_>, most: usize) -> Result<Vec<(u8, Vec<u8>)>> {
    let mut found = Vec::new();
    for index in 0..DATABASES {
        let db = Database::new(env.keyspace, index);
        let Some(expiries) = db.expiries(tx)? else { continue };
        let mut cursor = expiries.cursor(tx, ..)?;
        for _ in 0..most {
            let Some(((time, key), ())) = cursor.next(tx)? else { break };
            found.push((time, index, key));
        }
    }
    found.sort();
    found.truncate(most);
    Ok(found.into_iter().map(|(_, db, key)| (db, key)).collect())
}
