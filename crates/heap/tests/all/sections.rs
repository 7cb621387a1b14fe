//! Sections on heaps and pools: with allocation, collections, threads, power cuts, and their mistakes.

use perdura::check::check;
use perdura::collections::OrderedMap;
use perdura::{
    Access, AnyHeap, AtlasEngine, Domain, Engine, EngineKind, Error, Format, Handle, Heap, Opening,
    Options, Purpose, Root, Ticket, Tx, TxExt,
};
use perdura_memory::image::Cut;
use perdura_memory::{AnyMemory, Reference};
use perdura_testing::times;
use std::sync::Arc;

type Map = OrderedMap<u64, u64>;
type AtlasHeap = Heap<AnyMemory, AtlasEngine<AnyMemory>>;

const FORMAT: Format =
    Format { limit: 4 << 20, log: None, id: 1, requires: None, checksums: false };

fn options() -> Options {
    Options::new().engine(EngineKind::Atlas).domain(Some(Domain::Process)).size(16 << 20)
}

/// Runs a section until it meets no deadlock.
fn until_done(
    session: &mut Handle,
    mut body: impl FnMut(&mut perdura::PoolTx<'_>) -> perdura::Result<()>,
) -> Ticket {
    loop {
        match session.submit_section(&mut body) {
            Ok(((), ticket)) => return ticket,
            Err(Error::Deadlock { is_own: false, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Threads move money between accounts, each with a lock, in any order of locks; other threads' sections add to maps, which
/// takes memory; and transactions change a map of their own.
#[test]
fn threads_keep_what_must_hold() {
    const ACCOUNTS: u64 = 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = options().create(&path).unwrap();
    let rounds = times(150);
    let mut session = pool.session().unwrap();
    let first = session
        .transaction(|tx| {
            let at = tx.allocate(Purpose::General, ACCOUNTS * 64)?.at();
            (0..ACCOUNTS).try_for_each(|account| tx.write_word(at + account * 64, 100))?;
            tx.set_root("accounts", Root { at, kind: 1000 })?;
            for name in ["one", "two", "own"] {
                tx.open_or_create::<Map>(name)?;
            }
            Ok(at)
        })
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let pool = &pool;
            scope.spawn(move || {
                let mut session = pool.session().unwrap();
                for round in 0..rounds {
                    let from = (thread + round) % ACCOUNTS;
                    let to = (from + 1 + round % (ACCOUNTS - 1)) % ACCOUNTS;
                    let ticket = until_done(&mut session, |tx| {
                        let one = tx.lock(from)?;
                        let left = tx.read_word(first + from * 64)?;
                        tx.write_word(first + from * 64, left.wrapping_sub(7))?;
                        let _other = tx.lock(to)?;
                        if round % 3 == 0 {
                            // The other one is still held.
                            tx.unlock(one)?;
                        }
                        let there = tx.read_word(first + to * 64)?;
                        tx.write_word(first + to * 64, there.wrapping_add(7))
                    });
                    if round % 16 == 0 {
                        session.wait(ticket).unwrap();
                    }
                }
            });
            scope.spawn(move || {
                let mut session = pool.session().unwrap();
                let names = ["one", "two"];
                let maps = names.map(|name| session.read(|tx| tx.open::<Map>(name)).unwrap());
                for round in 0..rounds {
                    let map = round % 2;
                    until_done(&mut session, |tx| {
                        tx.lock(100 + map)?;
                        let key = thread * rounds + round;
                        maps[map as usize].expect("it is there").set(tx, key, key)?;
                        Ok(())
                    });
                    session
                        .submit(|tx| {
                            let own = tx.open_or_create::<Map>("own")?;
                            own.set(tx, round, thread)?;
                            Ok(())
                        })
                        .unwrap();
                }
            });
        }
    });
    let sum = |session: &mut Handle| {
        session
            .read(|tx| {
                (0..ACCOUNTS).try_fold(0_u64, |sum, account| {
                    Ok(sum.wrapping_add(tx.read_word(first + account * 64)?))
                })
            })
            .unwrap()
    };
    assert_eq!(sum(&mut session), 100 * ACCOUNTS);
    drop(session);
    pool.close().unwrap();
    let report = check(&path, &|_, root, visit| {
        if root.kind == 1000 {
            visit(root.at)?;
        }
        Ok(root.kind == 1000)
    })
    .unwrap();
    assert!(report.is_whole(), "{report:?}");
    let pool = options().open(&path).unwrap();
    let mut session = pool.session().unwrap();
    assert_eq!(sum(&mut session), 100 * ACCOUNTS);
    let lens = session
        .read(|tx| {
            let len = |tx: &mut perdura::PoolTx<'_>, name| {
                tx.open::<Map>(name)?.expect("it is there").len(tx)
            };
            Ok([len(tx, "one")?, len(tx, "two")?, len(tx, "own")?])
        })
        .unwrap();
    assert_eq!(lens, [3 * rounds.div_ceil(2), 3 * (rounds / 2), rounds]);
}

fn heap() -> (Arc<Reference>, AtlasHeap) {
    let memory = Arc::new(Reference::new(FORMAT.limit, Domain::Transient));
    let heap = AtlasHeap::create(Arc::new(AnyMemory::new(memory.clone())), FORMAT).unwrap();
    (memory, heap)
}

/// Memory that a section has freed is not used again while the section may still be undone.
#[test]
fn freed_memory_waits_for_the_cut() {
    let (memory, heap) = heap();
    let [mut first, mut second, mut third] = [(); 3].map(|()| heap.session().unwrap());
    let (word, block) = first
        .transaction(|tx| {
            let word = tx.allocate(Purpose::General, 8)?.at();
            let block = tx.new_bytes(Purpose::Value, &[7; 64])?;
            let map = tx.open_or_create::<Map>("blocks")?;
            map.set(tx, 0, block)?;
            map.set(tx, 1, word)?;
            Ok((word, block))
        })
        .unwrap();
    let reuses = |session: &mut perdura::HeapSession<_, _>, blocks| {
        (0..blocks).any(|_| {
            let new = session.submit(|tx| tx.new_bytes(Purpose::Value, &[9; 64]));
            new.unwrap().0 == block
        })
    };
    let freed = first
        .section(|tx| {
            let lock = tx.lock(1)?;
            tx.lock(2)?;
            tx.write_word(word, 1)?;
            tx.unlock(lock)?;
            // It follows the running section, which has not ended.
            let freed = second.submit_section(|tx| {
                tx.lock(1)?;
                tx.write_word(block, 1)?;
                tx.free(block)
            });
            heap.flush_due()?;
            assert!(!reuses(&mut third, 300), "the block may come back");
            for cut in [Cut::None, Cut::All, Cut::Seed(1), Cut::Seed(2)] {
                let after = AnyMemory::new(Arc::new(memory.after_power_cut(cut)));
                let heap = AtlasHeap::open(Arc::new(after), Opening::default()).unwrap();
                let mut session = heap.session().unwrap();
                let mut bytes = [0; 64];
                session
                    .read(|tx| {
                        assert!(tx.usable(block)? >= 64);
                        tx.read_bytes(block, &mut bytes)
                    })
                    .unwrap();
                assert_eq!(bytes, [7; 64], "{cut:?}");
            }
            Ok(freed?.1)
        })
        .unwrap();
    second.wait(freed).unwrap();
    heap.checkpoint().unwrap();
    let mut sessions = [first, second, third];
    let is_free = sessions.iter_mut().any(|session| reuses(session, 5000));
    assert!(is_free, "reclaimable: {:?} of {freed:?}", heap.engine().reclaimable());
}

/// A section that fails has allocated nothing, freed nothing, and stored nothing.
#[test]
fn a_failed_section_changes_nothing() {
    let (memory, heap) = heap();
    let mut session = heap.session().unwrap();
    let (map, block) = session
        .transaction(|tx| {
            let map = tx.open_or_create::<Map>("map")?;
            (0..20).try_for_each(|key| map.set(tx, key, key).map(drop))?;
            let block = tx.new_bytes(Purpose::Value, &[7; 100])?;
            tx.set_root("block", Root { at: block, kind: 1000 })?;
            Ok((map, block))
        })
        .unwrap();
    for round in 0..20 {
        let failed = session.section(|tx| {
            tx.lock(1)?;
            (0..100).try_for_each(|key| map.set(tx, key * 3, key + round).map(drop))?;
            let point = tx.point();
            tx.free(block)?;
            tx.undo_to(point)?;
            tx.write_bytes(block, &[8; 100])?;
            Err::<(), _>(Error::Aborted("on purpose".to_owned()))
        });
        assert!(matches!(failed, Err(Error::Aborted(_))));
    }
    let holds = |heap: &AtlasHeap| {
        let mut session = heap.session().unwrap();
        session
            .read(|tx| {
                assert_eq!(map.len(tx)?, 20);
                let mut bytes = [0; 100];
                tx.read_bytes(block, &mut bytes)?;
                assert_eq!(bytes, [7; 100]);
                map.check(tx, &mut |_| Ok(()))
            })
            .unwrap();
        let report = AnyHeap::check(heap, &|_, root, visit| {
            visit(root.at)?;
            Ok(true)
        });
        assert!(report.is_whole(), "{report:?}");
    };
    holds(&heap);
    for seed in 0..times(5) {
        let after = AnyMemory::new(Arc::new(memory.after_power_cut(Cut::Seed(seed))));
        holds(&AtlasHeap::open(Arc::new(after), Opening::default()).unwrap());
    }
}

#[test]
fn mistakes_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let pool = options().create(folder.path().join("a.pool")).unwrap();
    let (mut session, mut other) = (pool.session().unwrap(), pool.session().unwrap());
    let at = session.transaction(|tx| Ok(tx.allocate(Purpose::General, 8)?.at())).unwrap();
    // Locks are for sections, which do not nest in anything.
    assert!(session.transaction(|tx| tx.lock(1).map(drop)).is_err());
    let nested = session.section(|_| other.section(|_| Ok(())));
    assert!(matches!(nested, Err(Error::Nested)));
    let nested = session.section(|_| other.transaction(|_| Ok(())));
    assert!(matches!(nested, Err(Error::Nested)));
    let nested = session.read(|_| other.section(|_| Ok(())));
    assert!(matches!(nested, Err(Error::Nested)));
    let twice = session.section(|tx| {
        tx.lock(1)?;
        tx.lock(1)
    });
    assert!(matches!(twice, Err(Error::Deadlock { lock: Some(1), is_own: true })));
    assert!(session.section(|tx| tx.write_word(at, 1)).is_err(), "no lock is held");
    let named = session.section(|tx| tx.set_root("root", Root { at, kind: 1000 }));
    assert!(matches!(named, Err(Error::Invalid(_))));
    // Nothing of that is in the way of what follows.
    session
        .section(|tx| {
            tx.lock(1)?;
            tx.write_word(at, 2)
        })
        .unwrap();
    assert_eq!(other.read(|tx| tx.read_word(at)).unwrap(), 2);

    let redo = Options::new().size(8 << 20).create(folder.path().join("b.pool")).unwrap();
    let error = redo.session().unwrap().section(|_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::NoSections { engine: "redo" }));
    assert!(error.to_string().contains("redo") && error.to_string().contains("atlas"), "{error}");
    let summed = options().checksums(true).create(folder.path().join("c.pool")).unwrap();
    assert!(matches!(summed.session().unwrap().section(|_| Ok(())), Err(Error::Invalid(_))));
}
