//! The paper's names: their effects, and their errors when called in a wrong order. One test,
//! since the pool is the process's.

use crate::pool::{self, Fixture, c_path, expect, options};
use perdura_c::*;
use std::ptr::{null, null_mut};

fn start() -> i32 {
    Archapt_Tx_Start()
}

fn commit_logically() -> u64 {
    let mut ticket = 0;
    // SAFETY: a ticket.
    expect(unsafe { Archapt_Tx_LCommit(&mut ticket) }, PERDURA_OK, "");
    ticket
}

fn init(path: &std::path::Path, options: *const perdura_options) -> i32 {
    // SAFETY: a text, and options.
    unsafe { Archapt_Init(c_path(path).as_ptr(), options) }
}

#[test]
fn the_papers_names() {
    let (handle, no_tx) = (PERDURA_ERR_HANDLE, PERDURA_ERR_NO_TX);
    // Before it all.
    expect(start(), handle, "call Archapt_Init first");
    expect(Archapt_Tx_End(), handle, "call Archapt_Init first");
    expect(Archapt_Exit(), handle, "call Archapt_Init first");
    assert_eq!((Archapt_Malloc(ARCHAPT_KEY, 8), perdura_last_code()), (0, handle));
    assert_eq!((Archapt_Session().id, Archapt_Pool().id), (0, 0));
    // SAFETY: the test passes null, which the library refuses.
    expect(unsafe { Archapt_Init(null(), null()) }, PERDURA_ERR_NULL, "path is null");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.pool");
    let mut wanted = options(8 << 20);
    wanted.engine = c"undo".as_ptr();
    expect(init(&path, &wanted), PERDURA_OK, "");
    expect(init(&path, &wanted), PERDURA_ERR_IN_USE, "call Archapt_Exit first");

    // Out of order.
    expect(Archapt_Tx_End(), no_tx, "begin one first");
    expect(Archapt_Tx_Abort(), no_tx, "begin one first");
    // SAFETY: no ticket is wanted.
    expect(unsafe { Archapt_Tx_LCommit(null_mut()) }, no_tx, "begin one first");
    assert_eq!((Archapt_Malloc(ARCHAPT_KEY, 8), perdura_last_code()), (0, no_tx));

    // Start, LCommit, End; many of the first two to one of the last; End alone.
    expect(start(), PERDURA_OK, "");
    let key = Archapt_Malloc(ARCHAPT_KEY, 40);
    let large = Archapt_Malloc(ARCHAPT_LOG, 10_000);
    let session = Archapt_Session();
    expect(perdura_write_u64(session, key, 5), PERDURA_OK, "");
    let first = commit_logically();
    expect(start(), PERDURA_OK, "");
    expect(perdura_write_u64(session, key, 6), PERDURA_OK, "");
    let second = commit_logically();
    assert!(second > first);
    expect(Archapt_Tx_End(), PERDURA_OK, "");
    for ticket in [first, second] {
        let mut durable = 0;
        // SAFETY: an int.
        expect(unsafe { perdura_is_durable(session, ticket, &mut durable) }, PERDURA_OK, "");
        assert_eq!(durable, 1);
    }
    expect(Archapt_Tx_End(), no_tx, "");
    expect(start(), PERDURA_OK, "");
    expect(perdura_write_u64(session, key, 7), PERDURA_OK, "");
    expect(start(), PERDURA_ERR_TX_OPEN, "commit or abort it first");
    expect(Archapt_Tx_End(), PERDURA_ERR_ROLLED_BACK, "begin again");

    // Types.
    expect(start(), PERDURA_OK, "");
    expect(Archapt_Free(ARCHAPT_LOG, large), PERDURA_OK, "");
    expect(Archapt_Free(ARCHAPT_FIELD_VALUE, key), PERDURA_ERR_INVALID, "with type 1, not 2");
    expect(Archapt_Tx_Abort(), PERDURA_OK, "");
    expect(start(), PERDURA_OK, "");
    expect(Archapt_Free(9, key), PERDURA_ERR_INVALID, "the purpose 9");
    expect(Archapt_Tx_Abort(), PERDURA_OK, "");

    // Each thread has its own session, which ends with it: its transaction is rolled back.
    std::thread::spawn(move || {
        expect(start(), PERDURA_OK, "");
        assert_ne!(Archapt_Session(), session);
        expect(perdura_write_u64(Archapt_Session(), key, 8), PERDURA_OK, "");
    })
    .join()
    .unwrap();
    // One that was closed by its number is made anew.
    expect(perdura_session_close(session), PERDURA_OK, "");
    expect(start(), PERDURA_OK, "");
    let session = Archapt_Session();
    let c = Fixture { pool: Archapt_Pool(), session, folder: folder.into() };
    assert_eq!(c.word(key), (PERDURA_OK, 6));
    expect(Archapt_Free(ARCHAPT_KEY, key), PERDURA_OK, "");
    expect(Archapt_Free(ARCHAPT_LOG, large), PERDURA_OK, "");
    expect(Archapt_Tx_End(), PERDURA_OK, "");

    // A pool with other users is not closed, and one that is closed opens with the default.
    let other = pool::session_of(c.pool);
    expect(Archapt_Exit(), PERDURA_ERR_BUSY, "1 sessions are open");
    expect(perdura_session_close(other), PERDURA_OK, "");
    expect(start(), PERDURA_OK, "");
    expect(Archapt_Exit(), PERDURA_OK, "");
    assert_eq!(Archapt_Pool().id, 0);
    expect(init(&path, null()), PERDURA_OK, "");
    expect(Archapt_Exit(), PERDURA_OK, "");
    let engine = perdura::Options::new().open(&path).unwrap().engine();
    assert!(["redo", "archapt-redo"].contains(&engine.name()));
    let report = perdura::check::check(&path, &|_, _, _| Ok(false)).unwrap();
    assert!(report.is_whole() && report.blocks == 0, "{report:?}");
}
