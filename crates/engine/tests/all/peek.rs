//! Reads that the transaction does not depend on.

use crate::{is_concurrent, ram};
use perdura_engine::area::SMALLEST;
use perdura_engine::{Access, Engine, Error, Mode, Session, on_each_engine};
use perdura_memory::{AnyMemory, LINE};
use std::ops::Range;
use std::sync::Arc;

const LOG: Range<u64> = 0..16 * SMALLEST;
const DATA: u64 = LOG.end;
const LEN: u64 = DATA + (4 << 20);

fn started<E: Engine<AnyMemory>>() -> Arc<E> {
    let memory = Arc::new(ram(LEN));
    E::format(&memory, LOG);
    E::start(memory, LOG).unwrap()
}

fn peek<S: Session>(session: &mut S) -> [u64; 3] {
    let mut words = [0; 3];
    session.peek_bytes(DATA, bytemuck::cast_slice_mut(&mut words)).unwrap();
    words
}

/// It sees committed words and the transaction's own, and knows the memory's bounds.
fn sees_own<E: Engine<AnyMemory>>() {
    let engine = started::<E>();
    let mut session = engine.session().unwrap();
    session.begin(Mode::Write);
    session.write_word(DATA, 1).unwrap();
    assert_eq!(peek(&mut session), [1, 0, 0], "{}", E::NAME);
    session.commit().unwrap();
    session.begin(Mode::Write);
    session.write_word(DATA + 8, 2).unwrap();
    assert_eq!(peek(&mut session), [1, 2, 0], "{}", E::NAME);
    let outside = session.peek_bytes(LEN - 8, &mut [0; 16]);
    assert!(matches!(outside, Err(Error::Misuse { .. })), "{}: {outside:?}", E::NAME);
    session.commit().unwrap();
    session.begin(Mode::Read);
    assert_eq!(peek(&mut session), [1, 2, 0], "{}", E::NAME);
    session.commit().unwrap();
}

#[test]
fn own_writes_are_peeked_at() {
    on_each_engine!(crash_consistent sees_own::<AnyMemory>());
}

/// A word that another transaction changes meanwhile is no conflict if it was peeked at, and one if it was read.
fn conflicts<E: Engine<AnyMemory>>() {
    if !is_concurrent::<_, E>() {
        return; // The two would wait for each other.
    }
    for (peeks, expected) in [(true, Some(7)), (false, None)] {
        let engine = started::<E>();
        let (mut one, mut other) = (engine.session().unwrap(), engine.session().unwrap());
        one.begin(Mode::Write);
        let seen = if peeks { peek(&mut one)[0] } else { one.read_word(DATA).unwrap() };
        assert_eq!(seen, 0);
        other.begin(Mode::Write);
        other.write_word(DATA, 5).unwrap();
        other.commit().unwrap();
        if peeks {
            assert_eq!(peek(&mut one)[0], 5, "{}: it need not be of one moment", E::NAME);
        }
        let committed = one.write_word(DATA + LINE, 7).and_then(|()| one.commit());
        if committed.is_err() {
            one.abort();
        }
        other.begin(Mode::Read);
        let found = other.read_word(DATA + LINE).unwrap();
        other.commit().unwrap();
        assert_eq!((found > 0).then_some(found), expected, "{}: {committed:?}", E::NAME);
    }
}

#[test]
fn words_peeked_at_are_no_conflict() {
    on_each_engine!(crash_consistent conflicts::<AnyMemory>());
}
