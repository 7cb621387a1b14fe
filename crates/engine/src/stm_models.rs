//! Models for loom of software transactional memory: its clock, ownership records and lanes, with minimal transactions
//! (the steps are those of `optimistic`), on loom's words.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p perdura-engine --lib --target-dir target/loom models

use crate::Ticket;
use crate::optimistic::Locks;
use crate::sync::stm::{Begun, Clock, Lane, Lanes, RecordWord, Records, Stamp};
use loom::model::Builder;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use perdura_memory::Ram;
use std::sync::Arc;

/// As in `models`.
const PREEMPTIONS: usize = 2;

/// Two words, each with a record of its own.
struct Rig {
    ram: Ram,
    clock: Clock,
    records: Records,
    lanes: Arc<Lanes>,
    words: [AtomicU64; 2],
}

/// A transaction: its reads, and its moment.
#[derive(Default)]
struct Tx {
    moment: u64,
    reads: Vec<(u32, RecordWord)>,
}

impl Rig {
    fn new() -> Arc<Self> {
        let ram = Ram::new(128);
        Arc::new(Rig {
            clock: Clock::new(&ram, 0),
            records: Records::new(&ram),
            lanes: Arc::new(Lanes::new(&ram, 2, Ticket(0))),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
            ram,
        })
    }

    fn lane(&self) -> Lane {
        Lane::new(&self.lanes).expect("a lane")
    }

    fn begin(&self, lane: &Lane) -> Tx {
        let moment = self.clock.now(&self.ram).number;
        lane.run_since(&self.ram, moment, moment + 1);
        Tx { moment, reads: Vec::new() }
    }

    /// `None` for a conflict; a locked word counts as one here, so that nothing waits.
    fn read(&self, lane: &Lane, tx: &mut Tx, index: usize) -> Option<u64> {
        let place = Records::place(index as u64 * 64);
        let word = self.records.view().load(&self.ram, place);
        let value = self.words[index].load(Ordering::Relaxed);
        if word.is_locked() || !self.records.view().holds(&self.ram, place, word) {
            return None;
        }
        let stamp = word.stamp();
        if stamp.number() > tx.moment && stamp.lane() != lane.number() {
            self.clock.raise(&self.ram, stamp.number());
            let moment = self.clock.now(&self.ram).number;
            let hold = |(place, word): &(u32, RecordWord)| {
                self.records.view().load(&self.ram, *place) == *word
            };
            if !tx.reads.iter().all(hold) {
                return None;
            }
            tx.moment = moment;
        }
        tx.reads.push((place, word));
        Some(value)
    }

    /// Commits these words; returns the stamp, or `None` for a conflict.
    fn commit(&self, lane: &mut Lane, tx: &Tx, writes: &[(usize, u64)]) -> Option<Stamp> {
        let mut turn = 0;
        let Begun { has_bias, .. } = loop {
            match lane.begin_commit(&self.ram, false) {
                Some(begun) => break begun,
                None => lane.wait_to_commit(&self.ram, false, &mut turn),
            }
        };
        let mut locks = Locks::new(&self.ram, lane.number());
        locks.are_alone = has_bias;
        let stamp = self.commit_locked(lane, &mut locks, tx, writes);
        if stamp.is_none() {
            locks.give_back(&self.ram, self.records.view());
        }
        lane.end_commit(&self.ram);
        lane.note_commit(&self.ram);
        stamp
    }

    fn commit_locked(
        &self,
        lane: &Lane,
        locks: &mut Locks,
        tx: &Tx,
        writes: &[(usize, u64)],
    ) -> Option<Stamp> {
        for (index, _) in writes {
            locks.lock(&self.ram, (&self.records, self.records.view()), *index as u64 * 64).ok()?;
        }
        locks.complete(self.records.view());
        let mut number = self.clock.to_commit(&self.ram).number;
        let latest = locks.latest_of_others();
        if latest > number {
            self.clock.raise(&self.ram, latest);
            number = self.clock.to_commit(&self.ram).number;
        }
        let stamp = lane.next_stamp(&self.ram, number + 1)?;
        let holds = |(place, word): &(u32, RecordWord)| {
            let now = self.records.view().load(&self.ram, *place);
            now == *word || locks.held(now, *word)
        };
        if !tx.reads.iter().all(holds) {
            return None;
        }
        self.records.view().before_stores();
        for (index, value) in writes {
            self.words[*index].store(*value, Ordering::Relaxed);
        }
        locks.unlock(&self.ram, self.records.view(), stamp);
        Some(stamp)
    }

    fn value(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::SeqCst)
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(model);
}

/// Tries once to add one to a word; returns whether it has.
fn add(rig: &Rig, lane: &mut Lane, index: usize) -> bool {
    let mut tx = rig.begin(lane);
    let Some(value) = rig.read(lane, &mut tx, index) else { return false };
    rig.commit(lane, &tx, &[(index, value + 1)]).is_some()
}

#[test]
fn no_update_is_lost() {
    check(|| {
        let rig = Rig::new();
        let (other, mut lane) = (rig.clone(), rig.lane());
        let mut others = rig.lane();
        let added = thread::spawn(move || u64::from(add(&other, &mut others, 0)));
        let mut sum = u64::from(add(&rig, &mut lane, 0));
        sum += u64::from(add(&rig, &mut lane, 0));
        sum += added.join().expect("no panic");
        assert_eq!(rig.value(0), sum);
    });
}

/// A session that has the bias, and another one that commits at the same time.
#[test]
fn the_bias_is_taken_away() {
    check(|| {
        let rig = Rig::new();
        let mut lane = rig.lane();
        let mut sum = 0;
        // No other session has committed: it has the bias from here on.
        for _ in 0..3 {
            sum += u64::from(add(&rig, &mut lane, 0));
        }
        assert!(lane.begin_commit(&rig.ram, false).is_some_and(|begun| begun.has_bias));
        lane.end_commit(&rig.ram);
        let (other, mut others) = (rig.clone(), rig.lane());
        let added = thread::spawn(move || u64::from(add(&other, &mut others, 0)));
        sum += u64::from(add(&rig, &mut lane, 0));
        sum += added.join().expect("no panic");
        assert_eq!(rig.value(0), sum);
    });
}

/// Each reads one word and writes the other one: they cannot both have read the original values.
#[test]
fn writes_are_not_skewed() {
    fn cross(rig: &Rig, lane: &mut Lane, from: usize) -> Option<u64> {
        let mut tx = rig.begin(lane);
        let value = rig.read(lane, &mut tx, from)?;
        rig.commit(lane, &tx, &[(1 - from, 1)]).map(|_| value)
    }
    check(|| {
        let rig = Rig::new();
        let (other, mut lane, mut others) = (rig.clone(), rig.lane(), rig.lane());
        let second = thread::spawn(move || cross(&other, &mut others, 1));
        let first = cross(&rig, &mut lane, 0);
        assert!(first != Some(0) || second.join().expect("no panic") != Some(0));
    });
}

/// A body sees both words of a commit, or none.
#[test]
fn a_body_sees_one_state() {
    check(|| {
        let rig = Rig::new();
        let (other, lane, mut others) = (rig.clone(), rig.lane(), rig.lane());
        let writer = thread::spawn(move || {
            for value in 1..3 {
                let tx = other.begin(&others);
                other.commit(&mut others, &tx, &[(0, value), (1, value)]);
            }
        });
        let mut tx = rig.begin(&lane);
        if let Some(first) = rig.read(&lane, &mut tx, 0)
            && let Some(second) = rig.read(&lane, &mut tx, 1)
        {
            assert_eq!(first, second);
        }
        writer.join().expect("no panic");
    });
}

/// A checkpoint that has moved the clock and waited finds the stores of commits up to its number.
#[test]
fn a_checkpoint_waits_for_commits() {
    check(|| {
        let rig = Rig::new();
        let (other, mut others) = (rig.clone(), rig.lane());
        let writer = thread::spawn(move || {
            let tx = other.begin(&others);
            other.commit(&mut others, &tx, &[(0, 1)]).expect("no conflict").number()
        });
        let number = rig.clock.tick(&rig.ram).number;
        rig.lanes.quiesce(&rig.ram);
        let found = rig.value(0);
        let stamped = writer.join().expect("no panic");
        assert!(stamped > number || found == 1, "{stamped} up to {number}, and not there");
    });
}

/// A session that is alone meets no commit in progress.
#[test]
fn alone_is_alone() {
    check(|| {
        let rig = Rig::new();
        let (other, mut others) = (rig.clone(), rig.lane());
        let writer = thread::spawn(move || {
            let tx = other.begin(&others);
            other.commit(&mut others, &tx, &[(0, 1), (1, 1)])
        });
        rig.lanes.be_alone(&rig.ram);
        let [first, second] = [0, 1].map(|index| rig.words[index].load(Ordering::Relaxed));
        rig.lanes.let_in(&rig.ram);
        assert_eq!(first, second);
        writer.join().expect("no panic");
    });
}

/// No store in place is in progress while everything is still: what is compared then may be stored again.
#[test]
fn stillness_excludes_stores() {
    check(|| {
        let rig = Rig::new();
        let (other, lane) = (rig.clone(), rig.lane());
        let storer = thread::spawn(move || {
            let _storing = lane.store_in_place(&other.ram);
            other.words.iter().for_each(|word| word.store(1, Ordering::Relaxed));
        });
        let still = rig.lanes.be_still(&rig.ram);
        let [first, second] = [0, 1].map(|index| rig.words[index].load(Ordering::Relaxed));
        assert_eq!(first, second);
        // As the drop of a copy would.
        rig.words[0].store(first, Ordering::Relaxed);
        drop(still);
        storer.join().expect("no panic");
        assert_eq!(rig.value(0), 1, "a store is lost");
    });
}
