//! Calls in a wrong order.

use crate::SIZE;
use crate::pool::{Fixture, expect, session_of};
use perdura_c::*;

#[test]
fn transactions_out_of_order() {
    let c = Fixture::new(SIZE);
    let (s, no_tx) = (c.session, PERDURA_ERR_NO_TX);
    expect(perdura_commit(s), no_tx, "begin one first");
    expect(perdura_abort(s), no_tx, "begin one first");
    expect(c.word(64).0, no_tx, "begin one first");
    expect(c.write(64, b"bytes"), no_tx, "begin one first");
    expect(c.root(c"name").0, no_tx, "begin one first");
    expect(c.set_root(c"name", 0, 0), no_tx, "begin one first");
    expect(perdura_free(s, 64), no_tx, "begin one first");
    expect(perdura_begin(s, 2), PERDURA_ERR_INVALID, "pass PERDURA_READ or PERDURA_WRITE");

    // A transaction inside of another one fails, and takes that with it.
    c.begin(PERDURA_WRITE);
    let at = c.alloc(64);
    expect(perdura_begin(s, PERDURA_WRITE), PERDURA_ERR_TX_OPEN, "commit or abort it first");
    expect(perdura_commit(s), PERDURA_ERR_ROLLED_BACK, "begin again");
    expect(perdura_commit(s), no_tx, "");
    c.fails(|| perdura_free(s, at), PERDURA_ERR_OFFSET, "nothing is allocated");

    // So does one in another session of the same thread: it would wait for itself.
    let other = session_of(c.pool);
    for mode in [PERDURA_READ, PERDURA_WRITE] {
        c.begin(mode);
        expect(perdura_begin(other, PERDURA_WRITE), PERDURA_ERR_TX_OPEN, "this thread has");
        expect(perdura_pool_checkpoint(c.pool), PERDURA_ERR_TX_OPEN, "this thread has");
        c.commit();
    }
    expect(perdura_begin(other, PERDURA_WRITE), PERDURA_OK, "");
    expect(perdura_begin(s, PERDURA_WRITE), PERDURA_ERR_TX_OPEN, "this thread has");
    expect(perdura_session_close(other), PERDURA_OK, "");
    c.begin(PERDURA_WRITE);
    c.commit();
    expect(perdura_pool_checkpoint(c.pool), PERDURA_OK, "");
    c.close();
}

#[test]
fn failed_transactions_are_not_committed() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let at = c.alloc(64);
    expect(c.set_root(c"kept", at, 1000), PERDURA_OK, "");
    c.commit();
    c.begin(PERDURA_WRITE);
    expect(perdura_write_u64(c.session, at, 7), PERDURA_OK, "");
    expect(perdura_write_u64(c.session, at + 512, 7), PERDURA_ERR_OFFSET, "");
    // Whatever the program makes of that.
    expect(c.word(at).0, PERDURA_ERR_ROLLED_BACK, "abort it and begin again");
    expect(perdura_write_u64(c.session, at, 8), PERDURA_ERR_ROLLED_BACK, "");
    let mut ticket = 9;
    // SAFETY: a ticket.
    let code = unsafe { perdura_submit(c.session, &mut ticket) };
    expect(code, PERDURA_ERR_ROLLED_BACK, "nothing is allocated at offset");
    assert_eq!(ticket, 0);
    c.begin(PERDURA_READ);
    assert!([7, 8].iter().all(|&value| c.word(at).1 != value));
    c.commit();
    c.close();
}

#[test]
fn readers_do_not_write() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let at = c.alloc(64);
    expect(c.set_root(c"it", at, 1000), PERDURA_OK, "");
    c.commit();
    let mut new = 9;
    // SAFETY: an offset.
    let attempts: [&mut dyn FnMut() -> i32; 6] = [
        &mut || c.write(at, b"bytes"),
        &mut || c.write_fresh(at, b"bytes"),
        &mut || perdura_write_u64(c.session, at, 1),
        &mut || perdura_free(c.session, at),
        &mut || c.set_root(c"it", 0, 0),
        &mut || unsafe { perdura_alloc(c.session, 0, 8, &mut new) },
    ];
    for attempt in attempts {
        c.begin(PERDURA_READ);
        expect(attempt(), PERDURA_ERR_READ_ONLY, "begin it with PERDURA_WRITE");
        c.abort();
    }
    c.begin(PERDURA_READ);
    assert_eq!(c.root(c"it"), (PERDURA_OK, at, 1000));
    c.commit();
    c.close();
}
