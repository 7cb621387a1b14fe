//! Transactions begun and ended by calls, and `extent`.

use perdura::{
    EngineKind, Error, Extent, Handle, Mode, Options, Pool, Purpose, Root, TxExt, check,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn on_every_engine(test: impl Fn(&Pool)) {
    let folder = tempfile::tempdir().unwrap();
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.rolls_back()) {
        let path = folder.path().join(format!("{engine}.pool"));
        let pool = Options::new().size(8 << 20).engine(engine).create(&path).unwrap();
        test(&pool);
        pool.close().unwrap();
        // The blocks that the tests' roots own are unknown: nothing is counted as leaked.
        let report = check::check(&path, &|_, _, _| Ok(false)).unwrap();
        assert!(report.is_whole(), "{engine}: {:?}", report.problems);
    }
}

fn put(handle: &mut Handle, value: u64) -> perdura::Result<()> {
    handle.within(|tx| {
        let at = tx.new_object(Purpose::Value, value)?.at();
        tx.set_root("value", Root { at, kind: 1000 })
    })
}

fn value(pool: &Pool) -> Option<u64> {
    pool.session()
        .unwrap()
        .read(|tx| tx.root("value")?.map(|root| tx.read_word(root.at)).transpose())
        .unwrap()
}

#[test]
fn commit_and_abort() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        assert_eq!(handle.open(), None);
        handle.begin(Mode::Write).unwrap();
        assert_eq!(handle.open(), Some(Mode::Write));
        put(&mut handle, 1).unwrap();
        let ticket = handle.commit().unwrap();
        handle.wait(ticket).unwrap();
        assert_eq!((handle.open(), value(pool)), (None, Some(1)));

        handle.begin(Mode::Write).unwrap();
        put(&mut handle, 2).unwrap();
        handle.abort();
        assert_eq!(value(pool), Some(1));

        handle.begin(Mode::Write).unwrap();
        put(&mut handle, 3).unwrap();
        drop(handle);
        assert_eq!(value(pool), Some(1), "dropped with its transaction open");
    });
}

#[test]
fn a_reader_does_not_write() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        handle.begin(Mode::Read).unwrap();
        assert_eq!(handle.open(), Some(Mode::Read));
        assert!(matches!(put(&mut handle, 1), Err(Error::ReadOnly)));
        handle.abort();
        handle.begin(Mode::Read).unwrap();
        assert_eq!(handle.within(|tx| tx.root("value")).unwrap(), None);
        handle.commit().unwrap();
    });
}

#[test]
fn after_a_failure_there_is_only_rollback() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        handle.begin(Mode::Write).unwrap();
        put(&mut handle, 1).unwrap();
        assert!(handle.within(|tx| tx.read_word(u64::MAX)).is_err());
        assert!(matches!(put(&mut handle, 2), Err(Error::Aborted(_))));
        assert!(matches!(handle.commit(), Err(Error::Aborted(_))));
        assert_eq!((handle.open(), value(pool)), (None, None));
        handle.begin(Mode::Write).unwrap();
        put(&mut handle, 3).unwrap();
        handle.commit().unwrap();
        assert_eq!(value(pool), Some(3));
    });
}

#[test]
fn a_panic_inside_rolls_back() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        handle.begin(Mode::Write).unwrap();
        put(&mut handle, 1).unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| {
            handle.within(|_| -> perdura::Result<()> { panic!("on purpose") })
        }));
        assert!(result.is_err());
        assert_eq!((handle.open(), value(pool)), (None, None));
        handle.transaction(|tx| tx.set_root("value", Root { at: 0, kind: 1000 })).unwrap();
    });
}

#[test]
fn transactions_of_a_handle_do_not_overlap() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        assert!(matches!(handle.within(|_| Ok(())), Err(Error::Invalid(_))));
        assert!(matches!(handle.commit(), Err(Error::Invalid(_))));
        handle.abort();
        handle.begin(Mode::Write).unwrap();
        assert!(matches!(handle.begin(Mode::Read), Err(Error::Invalid(_))));
        assert!(matches!(handle.transaction(|_| Ok(())), Err(Error::Invalid(_))));
        assert!(matches!(handle.read(|_| Ok(())), Err(Error::Invalid(_))));
        put(&mut handle, 7).unwrap();
        handle.commit().unwrap();
        assert_eq!(value(pool), Some(7));
    });
}

#[test]
fn an_offset_is_told_its_allocation() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let (small, run) = handle
            .transaction(|tx| {
                Ok((tx.allocate(Purpose::Key, 100)?.at(), tx.allocate(Purpose::Log, 40_000)?.at()))
            })
            .unwrap();
        let slot = Extent { at: small, bytes: 128, purpose: Some(Purpose::Key) };
        let pages = Extent { at: run, bytes: 40_960, purpose: None };
        handle
            .transaction(|tx| {
                for (at, expected) in [
                    (small, Some(slot)),
                    (small + 127, Some(slot)),
                    (small + 128, None),
                    (run, Some(pages)),
                    (run + 40_959, Some(pages)),
                    (run + 40_960, None),
                    (0, None),
                    (4096, None),
                    (u64::MAX, None),
                ] {
                    assert_eq!(tx.extent(at)?, expected, "{at:#x}");
                }
                tx.free(small)?;
                tx.free(run)?;
                assert_eq!((tx.extent(small)?, tx.extent(run + 5000)?), (None, None));
                Ok(())
            })
            .unwrap();
        assert!(slot.contains(small, 128) && !slot.contains(small, 129));
        assert!(!slot.contains(small + 1, u64::MAX) && !slot.contains(small - 1, 1));
    });
}
