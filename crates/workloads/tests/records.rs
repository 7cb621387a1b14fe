//! Records on the heap's own collections do as the standard library's maps do.

use perdura::alloc::walk::walk;
use perdura::{Format, Heap, RedoEngine, roots};
use perdura_memory::Ram;
use perdura_workloads::records::{Plain, Rooted, conformance};
use std::sync::Arc;

#[test]
fn plain_records_conform_and_leave_nothing() {
    for seed in 0..6 {
        let format = Format { limit: 64 << 20, log: None, id: 1, requires: None };
        let memory = Arc::new(Ram::new(format.limit));
        let heap = Heap::<_, RedoEngine<_>>::create(memory, format).expect("an empty heap");
        let mut session = heap.session().expect("a session");
        let records = session.transaction(|tx| Plain::create(tx)).expect("records");
        let empty = blocks(&heap);
        conformance::compare(&records, &mut session, seed, 3_000);
        let sound = session.read(|tx| {
            let root = roots::all(tx)?[0].root;
            perdura_workloads::check_root(tx, root, &mut |_| Ok(()))
        });
        assert!(sound.expect("whole records"));
        // The map of keys may have grown, by less than it had keys; what they held is freed.
        assert!(blocks(&heap) <= empty + 8, "seed {seed}: {} of {empty}", blocks(&heap));
    }
}

fn blocks(heap: &Heap<Ram, RedoEngine<Ram>>) -> usize {
    let (blocks, problems) = walk(&**heap.memory(), heap.space().layout());
    assert!(problems.is_empty());
    blocks.len()
}
