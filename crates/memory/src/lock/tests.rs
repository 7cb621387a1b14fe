//! The lock on threads; `engine/src/models.rs` has it in every order of theirs.

use super::tests_order::AnyOrder;
use super::*;
use crate::Ram;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

type Pair = Arc<Lock<AnyOrder, [u64; 2], u64>>;

#[test]
fn readers_and_writers_exclude_one_another() {
    let ram = Ram::new(64);
    let lock = Pair::new(Lock::new(&ram, 4, [0; 2], 0));
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (lock, ram, done) = (&lock, &ram, &done);
            scope.spawn(move || {
                let mut seat = Seat::new(lock).expect("a slot");
                for round in 0..20_000 {
                    if (round + thread) % 3 == 0 {
                        seat.enter(Mode::Write, ram);
                        let Writing { own, mut beside } = seat.writing().expect("the writer");
                        *own += 1;
                        let value = beside.get()[0] + 1;
                        beside.change(ram, |both| *both = [value; 2]);
                    } else {
                        seat.enter(Mode::Read, ram);
                        let [one, other] = *seat.shared().expect("a reader");
                        assert_eq!(one, other);
                        assert!(seat.writing().is_none());
                    }
                    seat.leave(ram);
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    lock.writing(&ram, |right| {
        assert_eq!((*right.own, *right.beside.get()), (26_667, [26_667; 2]));
    });
    assert!(Seat::new(&lock).is_some_and(|seat| seat.shared().is_none() && seat.mode().is_none()));
}

/// Places are limited, and come back; a seat that is dropped inside of a transaction leaves.
#[test]
fn seats_come_back() {
    let ram = Ram::new(64);
    let lock = Pair::new(Lock::new(&ram, 2, [0; 2], 0));
    let (one, mut other) = (Seat::new(&lock), Seat::new(&lock).expect("a slot"));
    assert!(Seat::new(&lock).is_none());
    other.enter(Mode::Write, &ram);
    drop(other);
    let mut again = Seat::new(&lock).expect("the slot that came back");
    again.enter(Mode::Write, &ram);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(one))).is_ok());
    again.enter(Mode::Read, &ram);
    assert!(lock.writing(&ram, |right| right.beside.has_readers(&ram)));
}
