//! N-Store on a heap: planted errors, which the check notices in each storage.

use crate::heap;
use perdura::EngineKind;
use perdura_workloads::nstore::{Layout, NStore, Storage, Table};
use perdura_workloads::{Failure, Plan, Progress, Store, Workload};

const TUPLES: u64 = 100;

fn layout(storage: Storage) -> Layout {
    Layout { storage, tuples: TUPLES, fields: 2, field_bytes: 100, fanout: 8 }
}

#[test]
fn the_check_notices_planted_errors() {
    let plan = Plan {
        threads: 2,
        operations: 500,
        warm_up: 0,
        seed: 8,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window: 1,
    };
    for storage in Storage::ALL {
        let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
        let workload = NStore::new(layout(storage), 50, 2).expect("valid parameters");
        perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
        perdura_workloads::measure(&workload, &*heap, &plan, &progress).expect("it runs");
        let mut session = Store::session(&*heap).expect("a session");
        workload.check(&mut session).expect("what was done");
        let table = session.read(|tx| Table::find(tx, storage)).expect("a read").expect("a table");
        // An update that no thread has committed.
        session.transaction(|tx| table.update(tx, 50)).expect("an update");
        let verdict = workload.check(&mut session);
        assert!(matches!(verdict, Err(Failure::Wrong(_))), "{storage:?}: {verdict:?}");
        // A root with other sizes.
        let resized = session.transaction(|tx| {
            let name = format!("bench.n-store.{}", storage.name());
            let at = tx.root(&name)?.expect("the root").at;
            tx.write_word(at + 8, TUPLES - 1)
        });
        resized.expect("a write");
        let verdict = workload.check(&mut session);
        assert!(matches!(verdict, Err(Failure::Wrong(_))), "{storage:?}: {verdict:?}");
    }
}

/// A field with another version than the tuple's others.
#[test]
fn the_check_notices_half_an_update() {
    let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
    let workload = NStore::new(layout(Storage::InPlace), 50, 1).expect("valid parameters");
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    let mut session = Store::session(&*heap).expect("a session");
    let root = session.read(|tx| tx.root("bench.n-store.in-place")).expect("a read");
    let index = session.read(|tx| tx.read_word(root.expect("the root").at + 40)).expect("a read");
    let index = perdura::collections::OrderedMap::<u64, u64>::new(index);
    let tuple = session.read(|tx| index.get(tx, 7)).expect("a read").expect("a tuple");
    let halved = session.transaction(|tx| {
        let field = tx.read_word(tuple + 16)?;
        let mut bytes = [0; 100];
        perdura_workloads::payload::fill(7 << 10 | 1, 1, &mut bytes);
        tx.write_bytes(field, &bytes)
    });
    halved.expect("a write");
    assert!(workload.check(&mut session).is_err());
}

/// As docs/workloads.md says: bytes of a tuple, with those that updates leave.
#[test]
fn bytes_of_a_tuple() {
    for storage in Storage::ALL {
        let tuples = 8_000;
        let layout = Layout { storage, tuples, fields: 5, field_bytes: 100, fanout: 512 };
        let workload = NStore::new(layout, 100, 1).expect("valid parameters");
        let heap = heap::of_bytes(EngineKind::Volatile, 64 << 20);
        let progress = Progress::default();
        perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
        let loaded = heap::allocated(&*heap) / tuples;
        let plan = Plan {
            threads: 1,
            operations: 20_000,
            warm_up: 0,
            seed: 8,
            sample_every: 0,
            per_second: None,
            pinned: false,
            window: 1,
        };
        perdura_workloads::measure(&workload, &*heap, &plan, &progress).expect("it runs");
        let updated = heap::allocated(&*heap) / tuples;
        println!("{}: {loaded} bytes, {updated} after updates", storage.name());
        assert!(loaded > 500 && updated <= workload.bytes() / tuples, "{storage:?}: {updated}");
    }
}
