//! Housekeeping, in small transactions between turns: deletes keys whose time has come, and
//! frees deleted values. When there is nothing to do, free space goes back to the file system.
//!
//! Invariant: a look that finds nothing to do reads a few words for each database, however long the names and
//! values of its keys are.

use crate::command::Env;
use crate::eviction;
use crate::keyspace::{DATABASES, Database, garbage};
use crate::pause::Paused;
use crate::store::Session;
use perdura::{Error, Tx};
use std::time::{Duration, Instant};
use tracing::debug;

/// Keys deleted in one transaction.
const KEYS: u64 = 32;
/// Entries or blocks freed in one transaction.
const FREED: u64 = 256;
/// Time from one look to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that one look may take, while clients wait.
const LONGEST: Duration = Duration::from_millis(1);

/// When to look next.
#[derive(Default)]
pub(crate) struct Cron {
    last: Option<Instant>,
    busy: bool,
}

impl Cron {
    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let since = |last| now.saturating_duration_since(last);
        self.busy || self.last.is_none_or(|last| since(last) >= PAUSE)
    }

    /// Whether the last look left something to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Looks, and does a bit. Returns the ticket of its last commit. Fails only when the medium does.
    pub(crate) fn run<S: Session>(
        &mut self,
        session: &mut S,
        env: Env<'_>,
    ) -> Result<Option<S::Ticket>, Error> {
        let mut last = None;
        match self.work(session, env, &mut last) {
            Err(error @ Error::Io(_)) => Err(error),
            // Damage, or a full log: clients get errors of their own, and the next run tries again.
            _ => Ok(last),
        }
    }

    fn work<S: Session>(
        &mut self,
        session: &mut S,
        env: Env<'_>,
        last: &mut Option<S::Ticket>,
    ) -> Result<(), Error> {
        session.check()?;
        let started = Instant::now();
        self.last = Some(started);
        self.busy = false;
        loop {
            let mut chores = Chores::default();
            session.read(&mut |tx| {
                chores = Chores::find(tx, env)?;
                Ok(())
            })?;
            let due = chores.is_none() && env.server.eviction.is_due(|| env.server.facts());
            if due && let Some(ticket) = eviction::evict(session, env)? {
                *last = (*last).max(Some(ticket));
                if started.elapsed() < LONGEST {
                    continue;
                }
                self.busy = true;
                return Ok(());
            }
            if chores.is_none() {
                if !session.release()? {
                    return Ok(());
                }
                debug!("free space given back to the file system");
            }
            if started.elapsed() >= LONGEST {
                self.busy = true;
                return Ok(());
            }
            if chores.is_none() {
                continue;
            }
            *last = (*last).max(Some(chores.run(session, env)?));
        }
    }
}

/// Does one transaction's worth of the work. Returns whether there was any.
#[cfg(test)]
pub(crate) fn tidy(tx: &mut dyn Tx, env: Env<'_>) -> Result<bool, Error> {
    let chores = Chores::find(tx, env)?;
    chores.go(tx, env)?;
    Ok(!chores.is_none())
}

/// The work to do.
#[derive(Default)]
pub(crate) struct Chores {
    /// A database with an expired key.
    expired: Option<u8>,
    garbage: bool,
}

impl Chores {
    pub(crate) fn is_none(&self) -> bool {
        self.expired.is_none() && !self.garbage
    }

    pub(crate) fn find(tx: &mut dyn Tx, env: Env<'_>) -> Result<Self, Error> {
        let mut chores = Chores { expired: None, garbage: !garbage::is_empty(tx, env.keyspace)? };
        // A master says itself which keys are gone.
        let goes = env.server.expires_actively() && env.server.pause.now() == Paused::None;
        let expires = goes && !env.server.following.is_replica();
        let indices = if expires { 0..DATABASES } else { 0..0 };
        for index in indices {
            let time = Database::new(env.keyspace, index).next_expiry(tx)?;
            if time.is_some_and(|time| time <= env.cutoff) {
                chores.expired = Some(index);
                break;
            }
        }
        Ok(chores)
    }

    /// Does it, in a transaction.
    pub(crate) fn run<S: Session>(
        &self,
        session: &mut S,
        env: Env<'_>,
    ) -> Result<S::Ticket, Error> {
        let done = session.write(&mut |tx| {
            env.begin_writing(tx)?;
            self.go(tx, env)?;
            env.end_writing(tx)
        });
        env.end(&done);
        done
    }

    fn go(&self, tx: &mut dyn Tx, env: Env<'_>) -> Result<(), Error> {
        if let Some(index) = self.expired {
            expire(tx, env, Database::new(env.keyspace, index))?;
        }
        if self.garbage {
            let before = garbage::first(tx, env.keyspace)?;
            garbage::sweep(tx, env.keyspace, FREED)?;
            if garbage::first(tx, env.keyspace)? != before {
                env.tally.freed();
            }
        }
        Ok(())
    }
}

/// Deletes some keys whose time has come.
fn expire(tx: &mut dyn Tx, env: Env<'_>, db: Database) -> Result<(), Error> {
    let Some(expiries) = db.expiries(tx)? else { return Ok(()) };
    if env.server.following.is_replica() {
        return Ok(());
    }
    for _ in 0..KEYS {
        match expiries.first(tx)? {
            Some(((time, key), ())) if time <= env.cutoff => {
                env.keep(tx, db, &key);
                if !db.remove(tx, &key)? {
                    return Err(Error::corrupt("an expiring key that is not there", expiries.at()));
                }
                env.touch_expired(&db, &key, time);
                env.tally.expired();
            }
            _ => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::command::harness::Bench;
    use std::time::{Duration, Instant};

    /// A thousand looks at keys that are to expire: they read some words each, not the names and values.
    #[test]
    fn a_look_does_not_read_names() {
        let mut bench = Bench::new();
        let (name, value) = ("n".repeat(16 << 20), "v".repeat(16 << 20));
        for args in [vec!["set", name.as_str(), "1", "ex", "100"], vec!["setex", "k", "50", &value]]
        {
            let args: Vec<_> = args.into_iter().map(|arg| arg.as_bytes().to_vec()).collect();
            assert_eq!(bench.perform_within(&args, 100 << 20), Some(b"+OK\r\n".to_vec()));
        }
        let start = Instant::now();
        for _ in 0..1000 {
            bench.run_cron();
        }
        // Copying the name takes milliseconds each time.
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(bench.run("dbsize"), ":2");
        bench.now += 100_000;
        bench.run_cron();
        assert_eq!(bench.run("dbsize"), ":0");
        bench.check();
    }
}
