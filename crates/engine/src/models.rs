//! Models for loom, which runs each under every interleaving of threads, and with every value that a load may return
//! under the memory model: the lock, and the overlay that is read while a writer adds to it.
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p perdura-engine --lib --target-dir target/loom models
//!
//! Data guarded by the lock is in loom's cells here: they fail when one thread may access it while another does, and
//! when nothing orders their accesses.

use crate::sync::{Fair, Spin};
use crate::writes::LineWrite;
use crate::writes::overlay::Overlay;
use loom::model::Builder;
use loom::sync::Arc as LoomArc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use perdura_memory::Ram;
use perdura_memory::lock::{Lock, Mode, Order, Seat, Stays, Writing};
use std::sync::Arc;

/// Preemptions in one run, unless LOOM_MAX_PREEMPTIONS says otherwise: each one more makes the models five times as
/// slow, and errors need few.
const PREEMPTIONS: usize = 2;

/// A lock, and its data: a value that readers look at, and how often it was changed.
struct Rig<O: Order = Spin> {
    lock: Arc<Lock<O, u64, u64>>,
    ram: Arc<Ram>,
}

impl<O: Order> Clone for Rig<O> {
    fn clone(&self) -> Self {
        Rig { lock: self.lock.clone(), ram: self.ram.clone() }
    }
}

impl<O: Order> Rig<O> {
    fn new(slots: usize) -> Self {
        let ram = Arc::new(Ram::new(64));
        Rig { lock: Arc::new(Lock::new(&*ram, slots, 0, 0)), ram }
    }

    /// As on a system without a heavy fence.
    fn symmetric(slots: usize) -> Self {
        let ram = Arc::new(Ram::new(64));
        Rig { lock: Arc::new(Lock::new(&*ram, slots, 0, 0).symmetric()), ram }
    }

    fn seat(&self) -> Option<Seat<O, u64, u64>> {
        Seat::new(&self.lock)
    }

    /// A reading transaction; returns what it has read.
    fn read(&self, seat: &mut Seat<O, u64, u64>) -> u64 {
        seat.enter(Mode::Read, &*self.ram);
        let value = *seat.shared(&*self.ram).expect("a reader");
        seat.leave(&*self.ram);
        value
    }

    /// A session's transaction that adds one.
    fn add_in(&self, seat: &mut Seat<O, u64, u64>) {
        seat.enter(Mode::Write, &*self.ram);
        let Writing { own, mut shared } = seat.writing().expect("the writer");
        let value = *shared.get();
        *own += 1;
        shared.change(&*self.ram, &Stays, |shared| *shared = value + 1);
        seat.leave(&*self.ram);
    }

    /// A transaction that adds one. It reads alongside readers, and stores alone.
    fn add(&self) {
        self.lock.writing(&*self.ram, |Writing { own, mut shared }| {
            let value = *shared.get();
            *own += 1;
            shared.change(&*self.ram, &Stays, |shared| *shared = value + 1);
        });
    }
}

/// Checks `model` in every run with few preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(model);
}

#[test]
fn a_reader_and_a_writer() {
    reader_and_writer(<Rig>::new);
}

#[test]
fn a_reader_and_a_writer_without_heavy_fences() {
    reader_and_writer(<Rig>::symmetric);
}

fn reader_and_writer(new: fn(usize) -> Rig) {
    check(move || {
        let rig = new(1);
        let mut seat = rig.seat().expect("a slot");
        let other = rig.clone();
        let writer = thread::spawn(move || {
            other.add();
            other.add();
        });
        let (first, second) = (rig.read(&mut seat), rig.read(&mut seat));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
        assert_eq!(rig.read(&mut seat), 2);
    });
}

fn two_writers_on<O: Order>() {
    check(|| {
        let rig = Rig::<O>::new(1);
        let other = rig.clone();
        let writer = thread::spawn(move || other.add());
        rig.add();
        writer.join().expect("no panic");
        let mut seat = rig.seat().expect("a slot");
        assert_eq!(rig.read(&mut seat), 2);
    });
}

#[test]
fn two_writers() {
    two_writers_on::<Spin>();
}

#[test]
fn two_writers_of_the_fair_lock() {
    two_writers_on::<Fair>();
}

/// Two sessions that write, `mine` and `theirs` times.
fn two_sessions(mine: u64, theirs: u64) {
    check(move || {
        let rig = <Rig>::new(2);
        let other = rig.clone();
        let session = thread::spawn(move || {
            let mut seat = other.seat().expect("a slot");
            (0..theirs).for_each(|_| other.add_in(&mut seat));
        });
        let mut seat = rig.seat().expect("a slot");
        (0..mine).for_each(|_| rig.add_in(&mut seat));
        session.join().expect("no panic");
        assert_eq!(rig.read(&mut seat), mine + theirs);
    });
}

/// The lock is biased to each of them at times; what they read, too.
#[test]
fn the_bias_is_taken_away() {
    two_sessions(2, 2);
}

/// The bias goes to another session while its owner is about to enter: revoked twice, once by each.
#[test]
fn the_bias_goes_on_to_another_session() {
    two_sessions(2, 3);
}

/// The lock is biased to a session while another one reads, for the first time.
#[test]
fn a_first_reader_while_the_lock_is_biased() {
    check(|| {
        let rig = <Rig>::new(2);
        let mut reader = rig.seat().expect("a slot");
        let other = rig.clone();
        let writer = thread::spawn(move || {
            let mut seat = other.seat().expect("a slot");
            (0..2).for_each(|_| other.add_in(&mut seat));
        });
        let (first, second) = (rig.read(&mut reader), rig.read(&mut reader));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
        assert_eq!(rig.read(&mut reader), 2);
    });
}

/// A reading session is closed, and a writing one takes its slot, to which the lock may be biased.
#[test]
fn a_place_is_handed_on_with_the_bias() {
    check(|| {
        let rig = <Rig>::new(1);
        let other = rig.clone();
        let session = thread::spawn(move || {
            if let Some(mut seat) = other.seat() {
                other.read(&mut seat);
                other.add_in(&mut seat);
            }
        });
        if let Some(mut seat) = rig.seat() {
            rig.add_in(&mut seat);
            rig.add_in(&mut seat);
        }
        session.join().expect("no panic");
        rig.add();
        let mut seat = rig.seat().expect("a slot");
        assert!((1..=4).contains(&rig.read(&mut seat)));
    });
}

/// A leaving writer lets readers in before it lets the next writer in, and never after.
#[test]
fn two_writers_and_a_reader() {
    check(|| {
        let rig = <Rig>::new(1);
        let mut seat = rig.seat().expect("a slot");
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let rig = rig.clone();
                thread::spawn(move || rig.add())
            })
            .collect();
        assert!(rig.read(&mut seat) <= 2);
        for writer in writers {
            writer.join().expect("no panic");
        }
        assert_eq!(rig.read(&mut seat), 2);
    });
}

#[test]
fn two_readers_and_a_writer() {
    check(|| {
        let rig = <Rig>::new(2);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (rig, mut seat) = (rig.clone(), rig.seat().expect("a slot"));
                thread::spawn(move || rig.read(&mut seat))
            })
            .collect();
        rig.add();
        for reader in readers {
            assert!(reader.join().expect("no panic") <= 1);
        }
    });
}

/// Sessions come and go while there is a writer.
#[test]
fn slots_are_taken_during_a_write() {
    check(|| {
        let rig = <Rig>::new(1);
        let other = rig.clone();
        let session = thread::spawn(move || {
            let mut seat = other.seat().expect("a slot");
            other.read(&mut seat);
        });
        rig.add();
        session.join().expect("no panic");
        assert!(rig.seat().is_some());
    });
}

/// The writer stays, and readers come in again; then it is alone a second time.
#[test]
fn readers_are_let_in_between() {
    check(|| {
        let rig = <Rig>::new(1);
        let mut seat = rig.seat().expect("a slot");
        let other = rig.clone();
        let writer = thread::spawn(move || {
            other.lock.writing(&*other.ram, |mut right| {
                for value in 1..=2 {
                    right.shared.change(&*other.ram, &Stays, |shared| *shared = value);
                    right.shared.let_readers_in(&*other.ram);
                }
            });
        });
        let (first, second) = (rig.read(&mut seat), rig.read(&mut seat));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
    });
}

/// A lock whose writers share their stores: how many have joined, and how many are stored.
type Shared = Arc<Lock<Spin, (), [u64; 2]>>;

/// A transaction that joins if another wants to enter, and leads for all otherwise, and then waits.
fn share(lock: &Shared, ram: &Ram, stored: &AtomicU64) {
    fn lead(own: &mut [u64; 2], stored: &AtomicU64) {
        own[1] += std::mem::take(&mut own[0]);
        stored.store(own[1], Ordering::Release);
    }
    let mut seat = Seat::new(lock).expect("a slot");
    seat.enter(Mode::Write, ram);
    let Writing { own, shared } = seat.writing().expect("a writer");
    own[0] += 1;
    let number = own[0] + own[1];
    if !shared.is_wanted(ram) {
        lead(own, stored);
    }
    seat.leave(ram);
    let is_stored = || stored.load(Ordering::Acquire) >= number;
    lock.writing_unless(ram, is_stored, |right| lead(right.own, stored));
    assert!(is_stored(), "{number} is not stored");
}

#[test]
fn no_waiting_transaction_is_forgotten() {
    check(|| {
        let (ram, stored) = (Arc::new(Ram::new(64)), LoomArc::new(AtomicU64::new(0)));
        let lock: Shared = Arc::new(Lock::new(&*ram, 2, (), [0; 2]));
        let (other, its, theirs) = (lock.clone(), ram.clone(), stored.clone());
        let second = thread::spawn(move || share(&other, &its, &theirs));
        share(&lock, &ram, &stored);
        second.join().expect("no panic");
        assert_eq!(stored.load(Ordering::Acquire), 2);
    });
}

const LINES: [u64; 2] = [0, 640];

/// Lets a transaction join that stores `value` in a word of both lines.
fn join(overlay: &Overlay, value: u64) {
    let ram = &Ram::new(64);
    for line in LINES {
        let mut words = [0; 8];
        words[value as usize % 2] = value;
        overlay.add(ram, &LineWrite { line, mask: 1 << (value % 2), words });
    }
    overlay.join(ram);
}

/// Reads everything as of now: all of it must be from one moment.
fn look(overlay: &Overlay) -> u64 {
    let ram = &Ram::new(64);
    let snapshot = overlay.joined(ram);
    for line in LINES {
        for word in 0..2 {
            // The last transaction up to the snapshot that stored to this word.
            let wanted = (1..=snapshot).rev().find(|value| value % 2 == word);
            let found =
                overlay.may_have(ram, line).then(|| overlay.find(ram, line, snapshot)).flatten();
            let got = found.and_then(|found| overlay.word(ram, found, line + word * 8));
            assert_eq!(got, wanted, "word {word} of line {line} as of {snapshot}");
        }
    }
    snapshot
}

#[test]
fn snapshots_during_a_write() {
    check(|| {
        let overlay = LoomArc::new(Overlay::new(&Ram::new(64)));
        let other = overlay.clone();
        let writer = thread::spawn(move || {
            join(&other, 1);
            join(&other, 2);
        });
        let (first, second) = (look(&overlay), look(&overlay));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
        assert_eq!(look(&overlay), 2);
    });
}

/// The overlay is emptied by a writer that is alone, and filled again.
#[test]
fn emptied_alone() {
    check(|| {
        let ram = Arc::new(Ram::new(64));
        let lock: Arc<Lock<Spin, Overlay, ()>> =
            Arc::new(Lock::new(&*ram, 1, Overlay::new(&*ram), ()));
        let mut seat = Seat::new(&lock).expect("a slot");
        let (other, its) = (lock.clone(), ram.clone());
        let writer = thread::spawn(move || {
            other.writing(&*its, |mut right| {
                join(right.shared.get(), 1);
                right.shared.change(&*its, &Stays, |overlay| overlay.clear(&*its));
                right.shared.let_readers_in(&*its);
                join(right.shared.get(), 1);
            });
        });
        seat.enter(Mode::Read, &*ram);
        look(&seat.shared(&*ram).expect("a reader"));
        seat.leave(&*ram);
        writer.join().expect("no panic");
    });
}
