//! Echo: a key-value store with versions, and clients that commit their puts in batches.
//!
//! A client begins with the store's last snapshot. Its puts go to a local store in ordinary memory, where its gets look
//! first; other gets read the persistent store as it was at the snapshot. When there are enough puts, a transaction
//! adds them to the persistent store as versions of a new snapshot, all or none. If another client has put one of the
//! keys since, there is a conflict, and the client does the batch again, from a new snapshot.
//!
//! Every byte that is read is checked. At the end the versions are compared with a sum over all committed batches.

mod master;
#[cfg(test)]
mod tests;

pub use master::{Committed, KEY, Key, Master, Version, key_of};

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::random::Random;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload, payload};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Of ten operations of a client, those that are puts.
const PUTS: u64 = 8;
/// Of ten puts, those of a key that is there.
const UPDATES: u64 = 7;
/// Keys that are loaded, or checked, by one transaction.
const LOAD_BATCH: u64 = 8;
const VALUE_BYTES: &str = "value-bytes";

/// The workload.
#[derive(Debug)]
pub struct Echo {
    keys: u64,
    value_bytes: usize,
    puts: usize,
    next_key: AtomicU64,
    marks: AtomicU64,
    committed: AtomicU64,
    versions: AtomicU64,
    inserted: AtomicU64,
    gets: AtomicU64,
    local_gets: AtomicU64,
    conflicts: AtomicU64,
}

/// What a client does before a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Put(u64),
    Get(u64),
}

impl Echo {
    /// `keys` keys at first, values of `value_bytes` bytes, and a commit after `puts` puts.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(keys: u64, value_bytes: usize, puts: usize) -> Outcome<Self> {
        let fits = (payload::VERSION..=1 << 20).contains(&value_bytes);
        if keys == 0 || puts == 0 || !fits || !value_bytes.is_multiple_of(8) {
            let what = "Echo needs a key, a put in a batch, and values of a multiple of 8 bytes, \
                        at most 1 MiB";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Echo {
            keys,
            value_bytes,
            puts,
            next_key: AtomicU64::new(keys),
            marks: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            versions: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            local_gets: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
        })
    }

    fn master<S: Session>(&self, session: &mut S) -> Outcome<Master> {
        let master = session.read(|tx| Master::find(tx, self.value_bytes))?;
        master.ok_or_else(|| Failure::wrong("the store's root is gone"))
    }

    /// A client's next batch. `own` are keys that it has put, beside those that all know.
    fn draw(&self, random: &mut Random, own: &[u64]) -> Vec<Step> {
        let (mut steps, mut puts) = (Vec::with_capacity(self.puts * 2), 0);
        while puts < self.puts {
            let is_put = random.below(10) < PUTS;
            let is_new = is_put && random.below(10) >= UPDATES;
            let key = if is_new {
                self.next_key.fetch_add(1, Relaxed)
            } else {
                let index = random.below(self.keys + own.len() as u64);
                index.checked_sub(self.keys).map_or(index, |index| own[index as usize])
            };
            puts += usize::from(is_put);
            steps.push(if is_put { Step::Put(key) } else { Step::Get(key) });
        }
        steps
    }

    /// Does a batch, and again while there is a conflict. Returns the keys put.
    fn perform<S: Session>(
        &self,
        session: &mut S,
        master: &Master,
        steps: &[Step],
    ) -> Outcome<Vec<u64>> {
        loop {
            let seen = session.read(|tx| master.snapshot(tx))?;
            let mut local = Vec::with_capacity(self.puts);
            let (mut gets, mut local_gets) = (0, 0);
            for step in steps {
                match *step {
                    Step::Put(key) if local.contains(&key) => {}
                    Step::Put(key) => local.push(key),
                    Step::Get(key) if local.contains(&key) => local_gets += 1,
                    Step::Get(key) => {
                        let found = session.read(|tx| master.get(tx, key, seen))?;
                        if found.is_none() {
                            let what = format!("snapshot {seen} lacks key {key}");
                            return Err(Failure::Wrong(what));
                        }
                        gets += 1;
                    }
                }
            }
            self.gets.fetch_add(gets, Relaxed);
            self.local_gets.fetch_add(local_gets, Relaxed);
            match session.transaction(|tx| master.commit(tx, seen, &local))? {
                Some(done) => {
                    self.note(&done, local.len());
                    return Ok(local);
                }
                None => self.conflicts.fetch_add(1, Relaxed),
            };
        }
    }

    fn note(&self, done: &Committed, versions: usize) {
        self.committed.fetch_add(1, Relaxed);
        self.versions.fetch_add(versions as u64, Relaxed);
        self.inserted.fetch_add(done.inserted, Relaxed);
        self.marks.fetch_add(done.marks, Relaxed);
    }

    /// Upper bound of the bytes after this many batches.
    pub fn bytes(&self, batches: u64) -> u64 {
        let (key, version) = (400, self.value_bytes as u64 * 5 / 4 + 128);
        let puts = batches.saturating_mul(self.puts as u64);
        let versions = puts.saturating_add(self.keys).saturating_mul(version);
        versions.saturating_add((puts / 3).saturating_add(self.keys).saturating_mul(key))
    }
}

impl Listed for Echo {
    const ROW: Row = Row {
        name: "echo",
        line: "Echo: versions of keys, committed in batches",
        parameters: &[
            list::entries("keys at first", 10_000),
            list::ops_per_tx("puts in a batch", 8),
            Parameter {
                name: VALUE_BYTES,
                line: "bytes of a value, a multiple of 8",
                usual: Usual::Bytes(1024),
            },
        ],
        operations: |_| 10_000,
        rolls_back: |_| false,
        roots: &[(master::KIND, master::check_blocks)],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let value_bytes = given.values.number(VALUE_BYTES) as usize;
        let workload = Echo::new(given.entries(), value_bytes, given.ops_per_tx())?;
        let bytes = workload.bytes(given.operations);
        Ok(code.run(workload, bytes))
    }
}

impl Workload for Echo {
    const KINDS: &'static [&'static str] = &["batch"];

    fn load_size(&self) -> u64 {
        self.keys
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let master = session.transaction(|tx| Master::create(tx, self.value_bytes))?;
        for first in (0..self.keys).step_by(LOAD_BATCH as usize) {
            let batch: Vec<u64> = (first..self.keys.min(first + LOAD_BATCH)).collect();
            let done = session.transaction(|tx| master.commit(tx, u64::MAX, &batch))?;
            self.note(&done.expect("no version is newer"), batch.len());
            progress.loaded(batch.len() as u64)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let master = self.master(session)?;
        let mut own = Vec::new();
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let steps = self.draw(&mut share.random, &own);
            let put = recorder.operation(0, || self.perform(session, &master, &steps))?;
            // New keys ascend.
            for key in put.into_iter().filter(|key| *key >= self.keys) {
                if own.last().is_none_or(|last| *last < key) {
                    own.push(key);
                }
            }
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let master = self.master(session)?;
        let (mut cursor, mut marks, mut keys, mut versions) = (0, 0_u64, 0, 0);
        loop {
            let (next, found) = session.read(|tx| master.scan(tx, cursor, LOAD_BATCH))?;
            for (number, of_key) in found {
                keys += 1;
                versions += of_key.len() as u64;
                for version in of_key {
                    marks = marks.wrapping_add(master::mark(number, version));
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let snapshot = session.read(|tx| master.snapshot(tx))?;
        for (what, found, expected) in [
            ("snapshots", snapshot, &self.committed),
            ("keys", keys, &self.inserted),
            ("versions", versions, &self.versions),
        ] {
            let expected = expected.load(Relaxed);
            if found != expected {
                let what = format!("the store has {found} {what}, {expected} were committed");
                return Err(Failure::Wrong(what));
            }
        }
        if marks != self.marks.load(Relaxed) {
            return Err(Failure::wrong("the store has other versions than were committed"));
        }
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        [
            ("versions", &self.versions),
            ("new keys", &self.inserted),
            ("gets of the store", &self.gets),
            ("local gets", &self.local_gets),
            ("conflicts", &self.conflicts),
        ]
        .map(|(name, count)| (name, count.load(Relaxed)))
        .to_vec()
    }
}
