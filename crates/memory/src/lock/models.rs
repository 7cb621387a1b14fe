//! Models for loom (see `.ci/loom`) of slots, and of readers that writers move; those of other transactions are in
//! `engine/src/models.rs`.

use super::tests_order::AnyOrder;
use super::{Lock, Mode, Moves, Seat, Turn};
use crate::Ram;
use crate::atomics::{AtomicU64, Ordering, UnsafeCell, pause};
use loom::model::Builder;
use loom::sync::{Arc as LoomArc, Mutex};
use loom::thread;
use std::sync::Arc;

/// As for the engine's models.
const PREEMPTIONS: usize = 2;

/// Checks `model` in every run with few preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    check_preempting(PREEMPTIONS, model);
}

/// As [`check`], with this many preemptions.
fn check_preempting(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// A value that the holder of a slot keeps.
struct Kept(UnsafeCell<u64>);

// SAFETY: only the session that holds the single slot accesses it.
unsafe impl Sync for Kept {}
// SAFETY: as above.
unsafe impl Send for Kept {}

impl Kept {
    fn add(&self) {
        // SAFETY: one session at a time holds the only slot; loom fails if that does not order the accesses.
        self.0.with_mut(|kept| unsafe { *kept += 1 });
    }
}

/// A slot is used by one session after the other, on different threads.
#[test]
fn models_slots_are_handed_over() {
    loom::model(|| {
        let lock: Arc<Lock<AnyOrder, (), ()>> =
            Arc::new(Lock::new(&crate::Ram::new(64), 1, (), ()));
        let mine = LoomArc::new(Kept(UnsafeCell::new(0)));
        let (other, theirs) = (lock.clone(), mine.clone());
        let session = thread::spawn(move || {
            if let Some(_seat) = Seat::new(&other) {
                theirs.add();
            }
        });
        if let Some(_seat) = Seat::new(&lock) {
            mine.add();
        }
        session.join().expect("no panic");
    });
}

/// What a moved reader has been given: the state, and what it had noted.
type Given = (Turn, u64, Option<u64>);

/// Words in place, which are equal whenever nothing is being stored, and equal to the lock's shared value; and the
/// states of moved readers. Writers do not wait for readers.
struct Place {
    lock: Arc<Lock<AnyOrder, u64, u64>>,
    ram: Ram,
    words: [AtomicU64; 2],
    given: Mutex<Vec<Given>>,
    /// Stands for what is kept for moved readers, and freed after them.
    kept: UnsafeCell<u64>,
}

// SAFETY: `kept` is read by readers that have been moved and have not ended, and changed by a writer for which they have.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Moves<u64> for Place {
    fn patience_ns(&self) -> Option<u64> {
        Some(0)
    }

    fn give_state(&self, reader: Turn, noted: Option<u64>, shared: &u64) {
        let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!(words, [*shared; 2], "something is being stored");
        self.given.lock().expect("no panic").push((reader, *shared, noted));
    }
}

impl Place {
    fn new(change: fn(Lock<AnyOrder, u64, u64>) -> Lock<AnyOrder, u64, u64>) -> LoomArc<Self> {
        let ram = Ram::new(64);
        let lock = Arc::new(change(Lock::new(&ram, 2, 0, 0)));
        let words = [0, 0].map(AtomicU64::new);
        LoomArc::new(Place { lock, ram, words, given: Mutex::default(), kept: UnsafeCell::new(0) })
    }

    fn seat(&self) -> Seat<AnyOrder, u64, u64> {
        Seat::new(&self.lock).expect("a slot")
    }

    /// Stores `value` for everyone.
    fn store(&self, value: u64) {
        self.lock.writing(&self.ram, |mut right| {
            right.shared.change(&self.ram, self, |shared| *shared = value);
            self.words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
            let given = self.given.lock().expect("no panic");
            if given.iter().all(|(reader, ..)| reader.is_over()) {
                // SAFETY: no reader is left that looks at it.
                self.kept.with_mut(|kept| unsafe { *kept = value });
            }
        });
    }

    /// What the transaction of `seat` has been given, once it has been.
    fn given_to(&self, seat: &Seat<AnyOrder, u64, u64>) -> (u64, Option<u64>) {
        let mut turn = 0;
        loop {
            let given = self.given.lock().expect("no panic");
            let own = given.iter().find(|(reader, ..)| seat.is_at(reader));
            let own = own.map(|(_, value, noted)| (*value, *noted));
            drop(given);
            if let Some(own) = own {
                // SAFETY: the reader has been moved, and has not ended.
                self.kept.with(|kept| _ = unsafe { *kept });
                return own;
            }
            pause(&self.ram, turn);
            turn += 1;
        }
    }

    /// The state that a running transaction sees: all that it loads is of one, whether and whenever it is moved.
    fn look(&self, seat: &mut Seat<AnyOrder, u64, u64>) -> u64 {
        const NOTED: u64 = 7;
        let shared = seat.shared(&self.ram).map(|shared| {
            shared.note(NOTED);
            *shared
        });
        let mut seen = Vec::from_iter(shared);
        for word in &self.words {
            let loaded = word.load(Ordering::Relaxed);
            seen.push(if seat.is_moved(&self.ram) {
                let (value, noted) = self.given_to(seat);
                assert_eq!(noted, shared.map(|_| NOTED), "what it notes is known to the writer");
                value
            } else {
                loaded
            });
        }
        assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?} in one transaction");
        seen[0]
    }

    /// A reading transaction; returns the state that it saw.
    fn read(&self, seat: &mut Seat<AnyOrder, u64, u64>) -> u64 {
        seat.enter(Mode::Read, &self.ram);
        let seen = self.look(seat);
        seat.leave(&self.ram);
        seen
    }
}

/// Two reading transactions, while two states are stored.
fn moved_reader(change: fn(Lock<AnyOrder, u64, u64>) -> Lock<AnyOrder, u64, u64>) {
    check(move || {
        let place = Place::new(change);
        let mut seat = place.seat();
        let other = place.clone();
        let writer = thread::spawn(move || (1..=2).for_each(|value| other.store(value)));
        let (first, second) = (place.read(&mut seat), place.read(&mut seat));
        assert!(first <= second, "{second} after {first}");
        writer.join().expect("no panic");
        assert_eq!(place.read(&mut seat), 2);
    });
}

#[test]
fn a_moved_reader() {
    moved_reader(|lock| lock);
}

#[test]
fn a_moved_reader_without_heavy_fences() {
    moved_reader(Lock::symmetric);
}

/// One transaction and one store, in more orders: a word that is loaded just before the transaction is moved.
#[test]
fn a_reader_that_is_moved_once() {
    check_preempting(PREEMPTIONS + 1, || {
        let place = Place::new(|lock| lock);
        let mut seat = place.seat();
        let other = place.clone();
        let writer = thread::spawn(move || other.store(1));
        place.read(&mut seat);
        writer.join().expect("no panic");
    });
}

/// A session that has entered as a writer reads on, and may be moved from then on.
#[test]
fn a_writer_that_only_reads_from_now_on() {
    check(|| {
        let place = Place::new(|lock| lock);
        let mut seat = place.seat();
        let other = place.clone();
        let writer = thread::spawn(move || (1..=2).for_each(|value| other.store(value)));
        seat.enter(Mode::Write, &place.ram);
        let entered = *seat.shared(&place.ram).expect("the writer");
        seat.read_on(&place.ram);
        assert_eq!(place.look(&mut seat), entered, "nothing is stored in between");
        seat.leave(&place.ram);
        writer.join().expect("no panic");
        assert_eq!(place.read(&mut seat), 2);
    });
}
