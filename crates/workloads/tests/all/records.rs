//! Records on the heap's own collections behave as the standard library's maps do.

use crate::heap;
use perdura::alloc::walk::walk;
use perdura::testing::TestHeap;
use perdura::{AnyHeap, EngineKind, Tx, roots};
use perdura_workloads::records::{Plain, Records, Rooted, conformance};

#[test]
fn plain_records_conform_and_leave_nothing() {
    for seed in 0..6 {
        let heap = heap::in_ram(EngineKind::Redo);
        let mut session = heap.session().expect("a session");
        let records = session.transaction(|tx| Plain::create(tx)).expect("records");
        let empty = blocks(&*heap);
        conformance::compare(&records, &mut session, seed, 3_000);
        let sound = session.read(|tx| {
            let root = roots::all(tx)?[0].root;
            perdura_workloads::check_root(tx, root, &mut |_| Ok(()))
        });
        assert!(sound.expect("whole records"));
        // The map of keys may have grown, by less than it had keys; their values are freed.
        assert!(blocks(&*heap) <= empty + 8, "seed {seed}: {} of {empty}", blocks(&*heap));
    }
}

/// Everything that was set is reported, once, and nothing that was removed.
#[test]
fn all_contents_of_plain_records_are_reported() {
    let mut heap = TestHeap::new();
    let contents = |heap: &mut TestHeap, records: &Plain| {
        let (mut fields, mut members) = (Vec::new(), Vec::new());
        let told = records.for_each(
            heap,
            &mut |key, name, value| fields.push([key, name, value].map(<[u8]>::to_vec)),
            &mut |key, score, member| members.push((key.to_vec(), score, member.to_vec())),
        );
        told.expect("sound records");
        fields.sort();
        (fields, members)
    };
    let records = Plain::create(&mut heap).expect("an empty heap");
    assert_eq!(contents(&mut heap, &records), Default::default());
    let tx: &mut dyn Tx = &mut heap;
    let set = |tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]| {
        records.set_fields(tx, key, fields).expect("a hash");
    };
    set(tx, b"row", &[(b"a", b"one"), (b"b", b"two")]);
    set(tx, b"row", &[(b"c", &[b'.'; 700]), (b"a", b"1")]);
    set(tx, b"other", &[(b"a", b"")]);
    set(tx, b"gone", &[(b"a", b"x")]);
    assert!(records.remove(tx, b"gone").expect("a removal"));
    for (score, member) in [(2.0, b"x"), (-1.0, b"y"), (3.0, b"x"), (0.0, b"z")] {
        records.add(tx, b"set", score, member).expect("a sorted set");
    }
    assert!(records.take(tx, b"set", b"y").expect("a member"));
    let (fields, members) = contents(&mut heap, &records);
    let row = |key: &[u8], name: &[u8], value: &[u8]| [key, name, value].map(<[u8]>::to_vec);
    let expected = [
        row(b"other", b"a", b""),
        row(b"row", b"a", b"1"),
        row(b"row", b"b", b"two"),
        row(b"row", b"c", &[b'.'; 700]),
    ];
    assert_eq!(fields, expected);
    let set = b"set".to_vec();
    assert_eq!(members, [(set.clone(), 0.0, b"z".to_vec()), (set, 3.0, b"x".to_vec())]);
}

fn blocks(heap: &dyn AnyHeap) -> usize {
    let (blocks, problems) = walk(heap.memory(), heap.space().layout());
    assert!(problems.is_empty());
    blocks.len()
}
