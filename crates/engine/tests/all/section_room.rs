//! Sections and the room in the log: more than there is, waiting for others, and using it again.

use crate::sections::{AtlasSession, DATA, cuts, left, started, store, word};
use perdura_engine::{Access, Engine, Error, Mode, Session};
use perdura_memory::Domain;
use perdura_memory::image::Cut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One that needs more log than there is leaves nothing, and is in nobody's way.
#[test]
fn a_section_larger_than_the_log_leaves_nothing() {
    let (memory, engine) = started(Domain::Transient);
    let mut session = engine.session().unwrap();
    for round in 1..4 {
        session.begin_section().unwrap();
        session.lock(1).unwrap();
        let stored = (0..8 * 1024).try_for_each(|index| session.write_word(DATA + index * 8, 1));
        assert!(matches!(stored, Err(Error::TooLarge { .. })), "{stored:?}");
        session.abort();
        let ticket = store(&mut session, 1, 0, round);
        session.wait_durable(ticket).unwrap();
        for cut in cuts() {
            assert_eq!(left(&memory, cut, 2), [round, 0], "{cut:?}");
        }
    }
    // A transaction, while another session's section keeps the log from being emptied.
    let mut other = engine.session().unwrap();
    other.begin_section().unwrap();
    other.lock(2).unwrap();
    other.write_word(word(100), 1).unwrap();
    for round in 1..4000 {
        session.begin(Mode::Write);
        session.write_word(word(0), round).unwrap();
        match session.commit() {
            Ok(_) => assert!(round < 3999, "the log has room for ever"),
            Err(Error::TooLarge { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    other.commit().unwrap();
    let ticket = store(&mut session, 1, 0, 5);
    session.wait_durable(ticket).unwrap();
    assert_eq!(left(&memory, Cut::None, 1), [5]);
}

/// A section that is preempted, or takes its time, keeps the log behind it from being emptied: others wait for it, and it
/// goes on itself however much they have logged.
#[test]
fn sections_wait_for_room() {
    let (memory, engine) = started(Domain::Transient);
    let is_full = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut slow = engine.session().unwrap();
        slow.begin_section().unwrap();
        slow.lock(1).unwrap();
        slow.write_word(word(0), 1).unwrap();
        let is_full = &is_full;
        scope.spawn(move || {
            while !is_full.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(100));
            // More than is left of its segment.
            for index in 0..100 {
                slow.write_word(word(100 + index), 1).unwrap();
            }
            slow.commit().unwrap();
        });
        let mut session = engine.session().unwrap();
        let before = Instant::now();
        for round in 1..4000 {
            store(&mut session, 2, 1, round);
            is_full.store(round > 100, Ordering::Release);
        }
        assert!(before.elapsed() > Duration::from_millis(100), "the log has room for all");
    });
    engine.checkpoint().unwrap();
    assert_eq!(left(&memory, Cut::None, 2), [1, 3999]);
}

/// The first section waits for a lock, and its holder for room, which only the first one's end would give: the holder goes
/// on. So does a transaction.
#[test]
fn who_is_waited_for_finds_room() {
    for is_transaction in [false, true] {
        let (memory, engine) = started(Domain::Transient);
        let mut first = engine.session().unwrap();
        first.begin_section().unwrap();
        first.lock(1).unwrap();
        first.write_word(word(0), 1).unwrap();
        let mut holder = engine.session().unwrap();
        if is_transaction {
            holder.begin(Mode::Write);
        } else {
            holder.begin_section().unwrap();
            holder.lock(2).unwrap();
            holder.write_word(word(1), 1).unwrap();
        }
        let mut other = engine.session().unwrap();
        let logged = (1..).take_while(|round| stored(&mut other, 3, 2, *round)).count();
        assert!(logged > 100, "{logged}");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                match is_transaction {
                    true => first.enter_heap().unwrap(),
                    false => first.lock(2).unwrap(),
                }
                first.commit().unwrap();
            });
            std::thread::sleep(Duration::from_millis(20));
            let before = Instant::now();
            // More than is left of an open segment.
            for index in 0..200 {
                holder.write_word(word(1 + index), 1).unwrap();
            }
            holder.commit().unwrap();
            assert!(before.elapsed() < Duration::from_secs(1), "it waits for nobody");
        });
        engine.checkpoint().unwrap();
        assert_eq!(left(&memory, Cut::None, 2), [1, 1]);
    }
}

/// As [`store`], if there is room.
fn stored(session: &mut AtlasSession, lock: u64, line: u64, value: u64) -> bool {
    session.begin_section().unwrap();
    match session.lock(lock).and_then(|()| session.write_word(word(line), value)) {
        Ok(()) => session.commit().map(drop).unwrap(),
        Err(Error::TooLarge { .. }) => {
            session.abort();
            return false;
        }
        Err(error) => panic!("{error}"),
    }
    true
}

/// The log is emptied behind the cut, as often as necessary, while sections go on.
#[test]
fn the_log_is_used_again() {
    let (memory, engine) = started(Domain::Transient);
    let mut sessions: Vec<_> = (0..5).map(|_| engine.session().unwrap()).collect();
    let mut values = [0; 5];
    for round in 1..3000_usize {
        let index = round * 7 % 5;
        let ticket = store(&mut sessions[index], index as u64, index as u64, round as u64);
        values[index] = round as u64;
        if round % 200 == 0 {
            sessions[index].wait_durable(ticket).unwrap();
        }
        if round % 97 == 0 {
            let values = left(&memory, Cut::Seed(round as u64), 5);
            assert!(values.iter().all(|value| *value <= round as u64));
        }
    }
    assert!(sessions.iter().any(|session| session.counters().checkpoints > 0));
    engine.checkpoint().unwrap();
    assert_eq!(left(&memory, Cut::None, 5), values);
}
