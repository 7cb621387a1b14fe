//! Files, pools and sessions that are not there.

use crate::SIZE;
use crate::pool::{Fixture, expect, open, options, session_of};
use perdura_c::*;

#[test]
fn files_that_cannot_be_opened() {
    let c = Fixture::new(SIZE);
    let default = options(0);
    let at = |name: &str| c.folder.path().join(name);
    let fails = |path: &std::path::Path, code, says: &str| {
        expect(open(perdura_pool_open, path, &default).unwrap_err(), code, says);
    };
    fails(&at("missing"), PERDURA_ERR_NOT_FOUND, "create the pool first");
    fails(&at("no/such/folder"), PERDURA_ERR_NOT_FOUND, "check the path");
    fails(c.folder.path(), PERDURA_ERR_NOT_A_POOL, "not a regular file");
    std::fs::write(at("text"), "a text").unwrap();
    fails(&at("text"), PERDURA_ERR_NOT_A_POOL, "is it the right file");
    std::fs::write(at("zeros"), vec![0; 1 << 20]).unwrap();
    fails(&at("zeros"), PERDURA_ERR_NOT_A_POOL, "to create a pool there");
    fails(&c.path(), PERDURA_ERR_IN_USE, "close it where it is open");
    let exists = open(perdura_pool_create, &c.path(), &default).unwrap_err();
    expect(exists, PERDURA_ERR_EXISTS, "open it, or remove it");
    c.close();
}

#[test]
fn handles_that_are_closed_or_never_were() {
    let c = Fixture::new(SIZE);
    let handle = PERDURA_ERR_HANDLE;
    for id in [0, 1, 77, u64::MAX, c.pool.id + 1, c.pool.id, c.session.id ^ 1 << 20] {
        let session = perdura_session { id };
        expect(perdura_begin(session, PERDURA_WRITE), handle, "the session ");
        expect(perdura_session_close(session), handle, "the session ");
    }
    for id in [0, 1, 77, u64::MAX, c.session.id, c.pool.id ^ 1 << 20] {
        expect(perdura_pool_close(perdura_pool { id }), handle, "the pool ");
        expect(perdura_pool_checkpoint(perdura_pool { id }), handle, "open");
    }
    let mut other = session_of(c.pool);
    expect(perdura_session_close(other), PERDURA_OK, "");
    expect(perdura_session_close(other), handle, "the session is closed: open it again");
    // The one that takes its place is not mistaken for it.
    let next = session_of(c.pool);
    expect(perdura_begin(other, PERDURA_READ), handle, "closed");
    expect(perdura_pool_close(c.pool), PERDURA_ERR_BUSY, "2 sessions are open: close them");
    expect(perdura_session_close(next), PERDURA_OK, "");
    let pool = c.pool;
    c.close();
    // SAFETY: a session.
    expect(unsafe { perdura_session_open(pool, &mut other) }, handle, "the pool is closed");
    assert_eq!(other.id, 0);
}

#[test]
fn threads_keep_to_their_sessions() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let at = c.alloc(64);
    let (session, pool) = (c.session, c.pool);
    let in_a_thread = |body: &(dyn Fn() + Sync)| std::thread::scope(|s| s.spawn(body).join());
    // The transaction is another thread's.
    in_a_thread(&|| {
        let thread = PERDURA_ERR_THREAD;
        expect(perdura_write_u64(session, at, 1), thread, "begun by another thread");
        expect(perdura_commit(session), thread, "which must end it");
        expect(perdura_abort(session), thread, "which must end it");
    })
    .unwrap();
    // None of that was a failure of this one.
    expect(perdura_write_u64(session, at, 7), PERDURA_OK, "");
    expect(c.set_root(c"it", at, 1000), PERDURA_OK, "");
    c.commit();
    // Between transactions a session may change hands.
    in_a_thread(&|| {
        expect(perdura_begin(session, PERDURA_READ), PERDURA_OK, "");
        expect(perdura_commit(session), PERDURA_OK, "");
    })
    .unwrap();
    // A thread may close the session of another one, which may then begin anew.
    c.begin(PERDURA_WRITE);
    in_a_thread(&|| expect(perdura_session_close(session), PERDURA_OK, "")).unwrap();
    expect(perdura_commit(session), PERDURA_ERR_HANDLE, "the session is closed");
    let c = Fixture { session: session_of(pool), ..c };
    c.begin(PERDURA_WRITE);
    c.commit();
    c.close();
}

#[test]
fn sessions_that_come_and_go_are_in_nobodys_way() {
    let c = Fixture::new(SIZE);
    let pool = c.pool;
    std::thread::scope(|s| {
        let others = s.spawn(|| {
            for _ in 0..20_000 {
                expect(perdura_session_close(session_of(pool)), PERDURA_OK, "");
            }
        });
        while !others.is_finished() {
            c.begin(PERDURA_READ);
            c.commit();
        }
    });
    c.close();
}
