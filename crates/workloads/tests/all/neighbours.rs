//! Trees over points on a heap: planted errors, which the check notices, and how many of the nearest points are found.

use crate::heap;
use perdura::{AnySession, EngineKind};
use perdura_workloads::neighbours::{Forest, Kind, Neighbours};
use perdura_workloads::{Progress, Store, Workload};

#[test]
fn the_check_notices_planted_errors() {
    type Plant = fn(&mut AnySession, &Forest, u64);
    fn change(session: &mut AnySession, at: u64, new: impl Fn(u64) -> u64) {
        let changed = session.transaction(|tx| {
            let old = tx.read_word(at)?;
            assert_ne!(old, new(old));
            tx.write_word(at, new(old))
        });
        changed.expect("a change");
    }
    let plants: [(&str, Plant); 5] = [
        ("a coordinate", |session, forest, _| {
            change(session, forest.point(17) + 64 + 8 * 20, |old| old ^ 1 << 10);
        }),
        ("a point that no thread has put there", |session, forest, _| {
            let replaced = session.transaction(|tx| {
                let old = forest.coordinates(tx, 5)?;
                forest.replace(tx, 5, |_| old.clone())
            });
            replaced.expect("room");
        }),
        ("a point that was not replaced", |session, forest, _| {
            let version = forest.point(3);
            change(session, version, |old| old - 1);
        }),
        ("a point that was replaced, though not in its trees", |session, forest, _| {
            change(session, forest.point(9) + 8, |old| old + 64);
        }),
        ("a plane", |session, _, root| change(session, root + 24, |old| old ^ 1 << 31)),
    ];
    for kind in [Kind::Tree, Kind::Forest] {
        for (what, plant) in plants {
            let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
            let workload = Neighbours::new(kind, 200, 2, 20, 5).expect("valid parameters");
            perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
            perdura_workloads::measure(&workload, &*heap, &heap::plan(2, 400), &progress)
                .expect("it runs");
            let mut session = Store::session(&*heap).expect("a session");
            workload.check(&mut session).expect("what was done");
            let (forest, root) = session
                .read(|tx| {
                    let forest = Forest::find(tx, workload.root(), workload.shape())?;
                    let root = tx.root(workload.root())?.expect("the root").at;
                    Ok((forest.expect("a forest"), tx.read_word(root + 40)?))
                })
                .expect("a read");
            plant(&mut session, &forest, root);
            let verdict = workload.check(&mut session);
            println!("{what}: {verdict:?}");
            assert!(verdict.is_err(), "{kind:?}: {what}");
        }
    }
}

/// A pool is made for as many bytes as there are at most; docs/workloads.md has those of a point, and how many
/// of the nearest points queries find.
#[test]
fn bytes_of_a_point_and_points_found() {
    for kind in [Kind::Tree, Kind::Forest] {
        let points = 10_000;
        let heap = heap::of_bytes(EngineKind::Volatile, 64 << 20);
        let workload = Neighbours::new(kind, points, 1, 0, 5).expect("valid parameters");
        let progress = Progress::default();
        perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
        let loaded = heap::allocated(&*heap);
        perdura_workloads::measure(&workload, &*heap, &heap::plan(1, 4 * points), &progress)
            .expect("it runs");
        workload.check(&mut Store::session(&*heap).expect("a session")).expect("what was done");
        let recall = workload.recall(&mut Store::session(&*heap).expect("a session"));
        println!("{kind:?}: {:.3} of the nearest points", recall.expect("sound points"));
        let later = heap::allocated(&*heap);
        println!("{kind:?}: {} bytes a point, later {}", loaded / points, later / points);
        assert!(later <= workload.bytes(), "{later} {}", workload.bytes());
    }
}
