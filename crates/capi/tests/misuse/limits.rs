//! Limits: sessions, handles, room.

use crate::SIZE;
use crate::pool::{Fixture, expect, session_of};
use perdura_c::*;

#[test]
fn a_pool_that_is_full() {
    let c = Fixture::new(1 << 20);
    let mut kept = Vec::new();
    loop {
        c.begin(PERDURA_WRITE);
        let mut at = 0;
        // SAFETY: an offset.
        let code = unsafe { perdura_alloc(c.session, PERDURA_VALUE, 10_000, &mut at) };
        if code != PERDURA_OK {
            expect(code, PERDURA_ERR_FULL, "free something, or reopen it with a larger limit");
            expect(perdura_commit(c.session), PERDURA_ERR_ROLLED_BACK, "the pool is full");
            break;
        }
        expect(c.set_root(c"last", at, 1000), PERDURA_OK, "");
        c.commit();
        kept.push(at);
    }
    c.begin(PERDURA_WRITE);
    for at in kept {
        expect(perdura_free(c.session, at), PERDURA_OK, "");
    }
    expect(c.set_root(c"last", 0, 0), PERDURA_OK, "");
    c.commit();
    c.begin(PERDURA_WRITE);
    c.alloc(10_000);
    c.abort();
    c.close();
}

#[test]
fn a_transaction_that_is_too_large() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let at = c.alloc(3 << 20);
    expect(c.set_root(c"it", at, 1000), PERDURA_OK, "");
    c.commit();
    c.begin(PERDURA_WRITE);
    let bytes = vec![1u8; 3 << 20];
    expect(c.write(at, &bytes), PERDURA_OK, "");
    expect(perdura_commit(c.session), PERDURA_ERR_TOO_LARGE, "split it, or create the pool");
    expect(perdura_commit(c.session), PERDURA_ERR_NO_TX, "");
    c.close();
}

#[test]
fn sessions_run_out() {
    let c = Fixture::new(SIZE);
    let mut sessions = Vec::new();
    let mut session = perdura_session::default();
    loop {
        // SAFETY: a session.
        match unsafe { perdura_session_open(c.pool, &mut session) } {
            PERDURA_OK => sessions.push(session),
            code => break expect(code, PERDURA_ERR_TOO_MANY, "sessions are in use; drop one"),
        }
    }
    assert_eq!(session.id, 0);
    for session in sessions {
        expect(perdura_session_close(session), PERDURA_OK, "");
    }
    expect(perdura_session_close(session_of(c.pool)), PERDURA_OK, "");
    c.close();
}
