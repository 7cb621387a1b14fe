//! Sections, and wrong calls in them.

use crate::SIZE;
use crate::pool::{Fixture, expect, session_of};
use perdura_c::*;
use std::sync::mpsc::channel;
use std::thread;

/// A pool with sections, and two objects in it.
fn accounts() -> (Fixture, [u64; 2]) {
    let c = Fixture::with_engine(SIZE, Some(c"atlas"));
    c.begin(PERDURA_WRITE);
    let at = [c.alloc(64), c.alloc(64)];
    at.iter().for_each(|&at| expect(perdura_write_u64(c.session, at, 1), PERDURA_OK, ""));
    expect(c.set_root(c"it", at[0], 1000), PERDURA_OK, "");
    c.commit();
    (c, at)
}

#[test]
fn a_section_is_there_whole_or_rolled_back() {
    let (c, [one, other]) = accounts();
    let s = c.session;
    let read = |at| {
        c.begin(PERDURA_READ);
        let value = c.word(at).1;
        c.commit();
        value
    };
    expect(perdura_begin_section(s), PERDURA_OK, "");
    expect(perdura_lock(s, one), PERDURA_OK, "");
    expect(perdura_lock(s, other), PERDURA_OK, "");
    expect(perdura_write_u64(s, one, 5), PERDURA_OK, "");
    expect(perdura_write_u64(s, other, 6), PERDURA_OK, "");
    let new = c.alloc(64);
    expect(perdura_write_u64(s, new, 8), PERDURA_OK, "");
    expect(perdura_unlock(s, one), PERDURA_OK, "");
    expect(perdura_commit(s), PERDURA_OK, "");
    assert_eq!([read(one), read(other), read(new)], [5, 6, 8]);

    expect(perdura_begin_section(s), PERDURA_OK, "");
    expect(perdura_lock(s, one), PERDURA_OK, "");
    expect(perdura_write_u64(s, one, 7), PERDURA_OK, "");
    assert_eq!(c.word(one).1, 7);
    expect(perdura_abort(s), PERDURA_OK, "");
    assert_eq!(read(one), 5);

    // A ticket, without a wait.
    expect(perdura_begin_section(s), PERDURA_OK, "");
    expect(perdura_lock(s, one), PERDURA_OK, "");
    expect(perdura_write_u64(s, one, 9), PERDURA_OK, "");
    let mut ticket = 0;
    // SAFETY: a ticket.
    expect(unsafe { perdura_submit(s, &mut ticket) }, PERDURA_OK, "");
    expect(perdura_wait(s, ticket), PERDURA_OK, "");
    assert_eq!(read(one), 9);
    c.close();
}

#[test]
fn wrong_calls_in_sections() {
    let (c, [one, other]) = accounts();
    let s = c.session;
    expect(perdura_lock(s, one), PERDURA_ERR_NO_TX, "begin one first");
    expect(perdura_unlock(s, one), PERDURA_ERR_NO_TX, "begin one first");
    // A transaction has no locks.
    c.begin(PERDURA_WRITE);
    expect(perdura_lock(s, one), PERDURA_ERR_INVALID, "section");
    expect(perdura_abort(s), PERDURA_OK, "");
    // A section in a transaction, or in a section, or the reverse.
    c.begin(PERDURA_WRITE);
    expect(perdura_begin_section(s), PERDURA_ERR_TX_OPEN, "commit or abort it first");
    expect(perdura_abort(s), PERDURA_OK, "");
    for again in [|s| perdura_begin_section(s), |s| perdura_begin(s, PERDURA_READ)] {
        expect(perdura_begin_section(s), PERDURA_OK, "");
        expect(again(s), PERDURA_ERR_TX_OPEN, "commit or abort it first");
        expect(perdura_abort(s), PERDURA_OK, "");
    }
    let second = session_of(c.pool);
    expect(perdura_begin_section(s), PERDURA_OK, "");
    expect(perdura_begin_section(second), PERDURA_ERR_TX_OPEN, "this thread has");
    expect(perdura_abort(s), PERDURA_OK, "");
    // Its own lock, twice; one that it does not hold; what is only for transactions; a stray offset.
    let wrong: [&dyn Fn() -> i32; 4] = [
        &|| perdura_lock(s, one),
        &|| perdura_unlock(s, other),
        &|| c.set_root(c"it", other, 1000),
        &|| perdura_write_u64(s, other + 512, 1),
    ];
    let codes =
        [PERDURA_ERR_DEADLOCK, PERDURA_ERR_INVALID, PERDURA_ERR_INVALID, PERDURA_ERR_OFFSET];
    for (call, code) in wrong.iter().zip(codes) {
        expect(perdura_begin_section(s), PERDURA_OK, "");
        expect(perdura_lock(s, one), PERDURA_OK, "");
        expect(perdura_write_u64(s, one, 100), PERDURA_OK, "");
        expect(call(), code, "");
        expect(perdura_write_u64(s, one, 101), PERDURA_ERR_ROLLED_BACK, "abort it");
        expect(perdura_commit(s), PERDURA_ERR_ROLLED_BACK, "begin again");
        c.begin(PERDURA_READ);
        assert_eq!(c.word(one).1, 1);
        c.commit();
    }
    // A session that is closed within a section gives its locks back.
    expect(perdura_begin_section(second), PERDURA_OK, "");
    expect(perdura_lock(second, one), PERDURA_OK, "");
    expect(perdura_session_close(second), PERDURA_OK, "");
    expect(perdura_begin_section(s), PERDURA_OK, "");
    expect(perdura_lock(s, one), PERDURA_OK, "");
    expect(perdura_commit(s), PERDURA_OK, "");
    c.close();
}

#[test]
fn other_engines_have_no_sections() {
    let c = Fixture::new(SIZE);
    expect(perdura_begin_section(c.session), PERDURA_ERR_UNSUPPORTED, "atlas");
    c.begin(PERDURA_WRITE);
    c.commit();
    c.close();
}

/// Two sections that wait for each other: one of them is told, and the other goes on.
#[test]
fn a_circle_is_an_error() {
    let (c, [one, other]) = accounts();
    let (s, pool) = (c.session, c.pool);
    let (tell, told) = channel();
    expect(perdura_begin_section(s), PERDURA_OK, "");
    expect(perdura_lock(s, one), PERDURA_OK, "");
    let waits = thread::spawn(move || {
        let second = session_of(pool);
        expect(perdura_begin_section(second), PERDURA_OK, "");
        expect(perdura_lock(second, other), PERDURA_OK, "");
        tell.send(()).unwrap();
        let code = perdura_lock(second, one);
        expect(perdura_abort(second), PERDURA_OK, "");
        expect(perdura_session_close(second), PERDURA_OK, "");
        code
    });
    told.recv().unwrap();
    let mine = perdura_lock(s, other);
    expect(perdura_abort(s), PERDURA_OK, "");
    let codes = [mine, waits.join().unwrap()];
    assert!(codes.contains(&PERDURA_ERR_DEADLOCK), "{codes:?}");
    assert!(codes.iter().all(|code| [PERDURA_OK, PERDURA_ERR_DEADLOCK].contains(code)));
    c.close();
}
