//! The lock on real threads; `engine/src/models.rs` checks it under every interleaving.

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
                        let Writing { own, mut shared } = seat.writing().expect("the writer");
                        *own += 1;
                        let value = shared.get()[0] + 1;
                        shared.change(ram, &Stays, |both| *both = [value; 2]);
                    } else {
                        seat.enter(Mode::Read, ram);
                        let [one, other] = *seat.shared(ram).expect("a reader");
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
        assert_eq!((*right.own, *right.shared.get()), (26_667, [26_667; 2]));
    });
    let mut seat = Seat::new(&lock).expect("a slot");
    assert!(seat.shared(&ram).is_none() && seat.mode().is_none());
}

/// A session that is the only writer for long enters by the bias; other sessions revoke and get it.
#[test]
fn the_bias_goes_from_session_to_session() {
    const BURST: u64 = 3_000;
    let ram = Ram::new(64);
    let lock = Pair::new(Lock::new(&ram, 4, [0; 2], 0));
    let by_bias = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (lock, ram, by_bias) = (&lock, &ram, &by_bias);
            scope.spawn(move || {
                let mut seat = Seat::new(lock).expect("a slot");
                for burst in 0..20 {
                    for round in 0..BURST {
                        seat.enter(Mode::Write, ram);
                        by_bias.fetch_add(seat.is_biased().into(), Ordering::Relaxed);
                        let Writing { own, mut shared } = seat.writing().expect("the writer");
                        *own += 1;
                        let value = shared.get()[0] + 1;
                        shared.change(ram, &Stays, |both| *both = [value; 2]);
                        seat.leave(ram);
                        if burst % 4 == thread && round % 500 == 0 {
                            seat.enter(Mode::Read, ram);
                            let [one, other] = *seat.shared(ram).expect("a reader");
                            assert_eq!(one, other);
                            seat.leave(ram);
                            std::thread::yield_now();
                        }
                    }
                    // So that other sessions have the lock to themselves at times.
                    std::thread::sleep(std::time::Duration::from_millis((thread * 7 + burst) % 5));
                }
            });
        }
    });
    let all = 3 * 20 * BURST;
    lock.writing(&ram, |right| {
        assert_eq!((*right.own, *right.shared.get()), (all, [all; 2]));
    });
    let by_bias = by_bias.into_inner();
    println!("{by_bias} of {all} by the bias");
    assert!(by_bias > 0 || !super::barrier::is_there());
}

/// Alone, the first transactions enter by the flag and all later ones by the bias; a user of the lock that is no
/// session revokes it.
#[test]
fn one_session_alone_gets_the_bias() {
    let ram = Ram::new(64);
    let lock = Pair::new(Lock::new(&ram, 4, [0; 2], 0));
    let mut seat = Seat::new(&lock).expect("a slot");
    let mut biased = |times: u64| {
        let enters = (0..times).map(|_| {
            seat.enter(Mode::Write, &ram);
            let biased = seat.is_biased();
            seat.leave(&ram);
            u64::from(biased)
        });
        enters.sum::<u64>()
    };
    let there = u64::from(super::barrier::is_there());
    assert_eq!(biased(1025), 0);
    assert_eq!(biased(10), 10 * there);
    lock.writing(&ram, |_| ());
    assert_eq!(biased(1024), 0);
    assert!(biased(10) >= 9 * there);
}

/// Seats are limited, and returned when dropped; a seat dropped inside a transaction leaves.
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
    assert!(lock.writing(&ram, |right| right.shared.has_readers(&ram)));
}
