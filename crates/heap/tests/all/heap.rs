//! The heap on plain memory: allocation accounting, rollback, roots, reopening.

use crate::family::Family;
use perdura::{
    AnyHeap, ArchaptRedoEngine, ArchaptUndoEngine, Error, Format, Heap, Memory, Opening, Purpose,
    RedoEngine, Root, SWalEngine, Tx, TxExt, UndoEngine, Volatile,
};
use perdura_memory::{AnyMemory, Ram};
use std::sync::Arc;

const LIMIT: u64 = 4 << 20;

fn format() -> Format {
    Format { limit: LIMIT, log: None, id: 1, requires: None, checksums: false }
}

fn on_every_engine(test: impl Fn(&dyn Fn() -> Box<dyn Subject>)) {
    for engine in Family::rolling_back() {
        test(&|| Box::new(engine.in_ram(format())));
    }
}

/// A heap, whatever its engine.
trait Subject {
    fn run(&self, body: &mut dyn FnMut(&mut dyn Tx) -> perdura::Result<()>) -> perdura::Result<()>;
    fn free_bytes(&self) -> u64;
}

impl Subject for Box<dyn AnyHeap> {
    fn run(&self, body: &mut dyn FnMut(&mut dyn Tx) -> perdura::Result<()>) -> perdura::Result<()> {
        self.session()?.transaction(body)
    }

    fn free_bytes(&self) -> u64 {
        self.checkpoint().unwrap();
        self.space().usage().free_page_bytes + self.space().usage().free_slot_bytes
    }
}

const SIZES: [u64; 10] = [1, 32, 33, 100, 640, 1000, 3000, 4096, 4097, 40_000];

#[test]
fn freed_and_rolled_back_memory_is_free() {
    on_every_engine(|make| {
        let heap = make();
        let before = heap.free_bytes();
        let mut kept = Vec::new();
        heap.run(&mut |tx| {
            kept = SIZES
                .iter()
                .map(|&len| tx.new_bytes(Purpose::Value, &vec![7; len as usize]))
                .collect::<perdura::Result<Vec<_>>>()?;
            Ok(())
        })
        .unwrap();
        assert!(heap.free_bytes() < before);
        let held = heap.free_bytes();
        let failed = heap.run(&mut |tx| {
            for &at in &kept {
                tx.free(at)?;
            }
            for len in SIZES {
                tx.allocate(Purpose::Key, len)?;
            }
            tx.abort("on purpose")
        });
        assert!(matches!(failed, Err(Error::Aborted(_))));
        assert_eq!(heap.free_bytes(), held, "an aborted transaction changed what is free");
        heap.run(&mut |tx| {
            for (&at, len) in kept.iter().zip(SIZES) {
                let mut bytes = vec![0; len as usize];
                tx.read_bytes(at, &mut bytes)?;
                assert_eq!(bytes, vec![7; len as usize]);
                assert!(tx.usable(at)? >= len);
                tx.free(at)?;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(heap.free_bytes(), before, "something leaked");
    });
}

#[test]
fn a_part_can_be_undone() {
    on_every_engine(|make| {
        let heap = make();
        let before = heap.free_bytes();
        heap.run(&mut |tx| {
            let kept = tx.new_bytes(Purpose::General, b"kept....")?;
            let point = tx.point();
            let gone = tx.new_bytes(Purpose::General, b"gone....")?;
            tx.write_bytes(kept, b"KEPT....")?;
            tx.free(kept)?;
            tx.undo_to(point)?;
            let again = tx.new_bytes(Purpose::General, b"again...")?;
            assert_eq!(again, gone, "the undone allocation is free");
            let mut bytes = [0; 8];
            tx.read_bytes(kept, &mut bytes)?;
            assert_eq!(&bytes, b"kept....");
            tx.free(again)?;
            tx.free(kept)
        })
        .unwrap();
        assert_eq!(heap.free_bytes(), before);
    });
}

#[test]
fn bad_pointers_are_errors() {
    on_every_engine(|make| {
        let heap = make();
        let mut at = 0;
        heap.run(&mut |tx| {
            at = tx.allocate(Purpose::General, 64)?.at();
            Ok(())
        })
        .unwrap();
        for bad in [0, 8, at + 8, at + 64, at + (1 << 19), u64::MAX, u64::MAX - 7] {
            let result = heap.run(&mut |tx| tx.free(bad));
            assert!(matches!(result, Err(Error::Misuse { .. })), "{bad:#x}: {result:?}");
        }
        let twice = heap.run(&mut |tx| tx.free(at).and_then(|()| tx.free(at)));
        assert!(matches!(twice, Err(Error::Misuse { .. })));
        for bad in [LIMIT, LIMIT - 4, 3, u64::MAX - 7] {
            assert!(heap.run(&mut |tx| tx.read_word(bad).map(drop)).is_err(), "{bad:#x}");
            assert!(heap.run(&mut |tx| tx.write_word(bad, 1)).is_err(), "{bad:#x}");
            assert!(heap.run(&mut |tx| tx.write_bytes(bad, &[0; 100])).is_err() || bad == 3);
        }
    });
}

#[test]
fn a_full_pool_says_so_and_loses_nothing() {
    on_every_engine(|make| {
        let heap = make();
        let mut kept = Vec::new();
        let full = loop {
            let mut at = 0;
            let result = heap.run(&mut |tx| {
                at = tx.new_bytes(Purpose::Value, &[3; 1000])?;
                Ok(())
            });
            match result {
                Ok(()) => kept.push(at),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::Full { .. }), "{full}");
        heap.run(&mut |tx| kept.iter().try_for_each(|&at| tx.free(at))).unwrap();
        heap.run(&mut |tx| tx.new_bytes(Purpose::Value, &[3; 1 << 20]).map(drop)).unwrap();
    });
}

#[test]
fn transactions_too_large_for_the_log_are_refused_whole() {
    too_large_is_refused_whole(Family::of::<RedoEngine<_>>());
    too_large_is_refused_whole(Family::of::<SWalEngine<_>>());
    too_large_is_refused_whole(Family::of::<ArchaptUndoEngine<_>>());
    too_large_is_refused_whole(Family::of::<ArchaptRedoEngine<_>>());
}

fn too_large_is_refused_whole(engine: Family) {
    let heap = engine.in_ram(format());
    let mut at = 0;
    let mut session = heap.session().unwrap();
    session
        .transaction(|tx| {
            at = tx.allocate(Purpose::Value, 1 << 20)?.at();
            Ok(())
        })
        .unwrap();
    // Several segments, but not the whole log.
    session.transaction(|tx| tx.write_bytes(at, &vec![5; 200_000])).unwrap();
    let result = session.transaction(|tx| tx.write_bytes(at, &vec![6; 1 << 20]));
    assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
    let mut bytes = vec![0; 200_000];
    session.transaction(|tx| tx.read_bytes(at, &mut bytes)).unwrap();
    assert_eq!(bytes, vec![5; 200_000]);
}

#[test]
fn roots_are_set_replaced_and_removed() {
    on_every_engine(|make| {
        let heap = make();
        let root = |at| Root { at, kind: 1000 };
        heap.run(&mut |tx| tx.set_root("one", root(8))).unwrap();
        heap.run(&mut |tx| tx.set_root("two", root(16))).unwrap();
        heap.run(&mut |tx| tx.set_root("one", root(24))).unwrap();
        heap.run(&mut |tx| {
            assert_eq!(tx.root("one")?, Some(root(24)));
            assert_eq!(tx.root("two")?, Some(root(16)));
            tx.set_root("two", root(0))?;
            assert_eq!(tx.root("two")?, None);
            assert!(tx.set_root("", root(8)).is_err());
            assert!(tx.set_root(&"x".repeat(256), root(8)).is_err());
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_pool_reopens_under_any_engine() {
    let memory = Arc::new(AnyMemory::new(Arc::new(Ram::new(LIMIT))));
    let heap = Heap::<_, RedoEngine<_>>::create(memory.clone(), format()).unwrap();
    let set = |tx: &mut dyn Tx, value: u64| {
        let at = tx.new_bytes(Purpose::General, &value.to_ne_bytes())?;
        tx.set_root("value", Root { at, kind: 1000 })
    };
    let get = |tx: &mut dyn Tx| {
        let root = tx.root("value")?.expect("set before");
        tx.read_word(root.at)
    };
    heap.session().unwrap().transaction(|tx| set(tx, 1)).unwrap();
    heap.close().unwrap();
    let heap = Heap::<_, UndoEngine<_>>::open(memory.clone(), Opening::default()).unwrap();
    assert_eq!(heap.session().unwrap().read(|tx| get(tx)).unwrap(), 1);
    heap.session().unwrap().transaction(|tx| set(tx, 2)).unwrap();
    heap.close().unwrap();
    let heap = Heap::<_, SWalEngine<_>>::open(memory.clone(), Opening::default()).unwrap();
    assert_eq!(heap.session().unwrap().read(|tx| get(tx)).unwrap(), 2);
    heap.session().unwrap().transaction(|tx| set(tx, 3)).unwrap();
    heap.close().unwrap();
    let heap = Heap::<_, Volatile<_>>::open(memory.clone(), Opening::default()).unwrap();
    assert_eq!(heap.session().unwrap().read(|tx| get(tx)).unwrap(), 3);
    let mut session = heap.session().unwrap();
    assert!(matches!(session.read(|tx| set(tx, 4)), Err(Error::ReadOnly)));
    drop(heap);
    // The session outlives its heap: it was not closed.
    drop(session);
    let refused = Heap::<_, RedoEngine<_>>::open(memory.clone(), Opening::default());
    assert!(matches!(refused, Err(perdura::OpenError::NotConsistent { .. })));
    let forced = Opening { force: true, ..Opening::default() };
    let heap = Heap::<_, RedoEngine<_>>::open(memory.clone(), forced).unwrap();
    assert_eq!(heap.session().unwrap().read(|tx| get(tx)).unwrap(), 3);
    assert_eq!(memory.len(), LIMIT);
}
