//! Echo on a heap: planted errors, which the check notices, and conflicts of several clients.

use crate::heap;
use perdura::{AnySession, EngineKind, Tx};
use perdura_workloads::echo::{Echo, Master};
use perdura_workloads::{Progress, Store, Workload};

const BYTES: usize = 64;

/// Few keys, and batches that are nearly all of them: a client often finds that another one was faster.
#[test]
fn conflicts_are_done_again() {
    let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
    let workload = Echo::new(4, BYTES, 4).expect("valid parameters");
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    let measured = perdura_workloads::measure(&workload, &*heap, &heap::plan(3, 3_000), &progress);
    println!("{:?}", measured.expect("it runs").counts);
    workload.check(&mut Store::session(&*heap).expect("a session")).expect("what was done");
}

#[test]
fn the_check_notices_planted_errors() {
    type Plant = fn(&mut AnySession, Master);
    let plants: [(&str, Plant); 4] = [
        ("a batch that no client has committed", |session, master| {
            let done = session.transaction(|tx| master.commit(tx, u64::MAX, &[3]));
            assert!(done.expect("room").is_some());
        }),
        ("a snapshot's number", |session, _| {
            let changed = session.transaction(|tx| {
                let at = tx.root("bench.echo")?.expect("the root").at;
                let number = tx.read_word(at)?;
                tx.write_word(at, number + 1)
            });
            changed.expect("a change");
        }),
        ("a byte of a version", |session, master| {
            let changed = session.transaction(|tx| {
                let at = newest(tx, 5)?;
                let word = tx.read_word(at + 40)?;
                tx.write_word(at + 40, word ^ 1 << 30)
            });
            changed.expect("a change");
            assert!(session.read(|tx| master.get(tx, 5, u64::MAX)).is_err());
        }),
        ("a version that came with another snapshot", |session, _| {
            let changed = session.transaction(|tx| {
                let at = newest(tx, 5)?;
                let snapshot = tx.read_word(at + 8)?;
                tx.write_word(at + 8, snapshot + 1)
            });
            changed.expect("a change");
        }),
    ];
    fn newest<T: Tx + ?Sized>(tx: &mut T, number: u64) -> perdura::Result<u64> {
        let root = tx.root("bench.echo")?.expect("the root").at;
        let keys = tx.read_word(root + 8)?;
        let keys = perdura::collections::HashMap::<[u8; 128], u64, false>::new(keys);
        Ok(keys.get(tx, perdura_workloads::echo::key_of(number))?.expect("a key"))
    }
    for (what, plant) in plants {
        let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
        let workload = Echo::new(100, BYTES, 8).expect("valid parameters");
        perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
        perdura_workloads::measure(&workload, &*heap, &heap::plan(2, 200), &progress)
            .expect("it runs");
        let mut session = Store::session(&*heap).expect("a session");
        workload.check(&mut session).expect("what was done");
        let master = session.read(|tx| Master::find(tx, BYTES)).expect("a read").expect("a store");
        plant(&mut session, master);
        let verdict = workload.check(&mut session);
        assert!(verdict.is_err(), "{what}: {verdict:?}");
    }
}

/// A pool is made for as many bytes as the store grows to; docs/workloads.md has those of a version.
#[test]
fn bytes_of_a_version() {
    let (keys, batches) = (5_000, 1_000);
    let heap = heap::of_bytes(EngineKind::Volatile, 64 << 20);
    let workload = Echo::new(keys, 1024, 8).expect("valid parameters");
    let progress = Progress::default();
    perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
    let loaded = heap::allocated(&*heap);
    let measured =
        perdura_workloads::measure(&workload, &*heap, &heap::plan(1, batches), &progress);
    let measured = measured.expect("it runs");
    let grown = heap::allocated(&*heap);
    let versions = measured.counts[0].1;
    println!("{} bytes a key, {} a version", loaded / keys, (grown - loaded) / versions);
    assert!(versions > 7_500 && grown <= workload.bytes(batches), "{grown} bytes");
}
