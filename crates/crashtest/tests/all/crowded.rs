//! The structure `crowded` fills its pool.

use perdura::{AnyHeap, EngineKind, Format};
use perdura_crashtest::Subject as _;
use perdura_crashtest::subjects::Crowded;
use perdura_memory::random::SplitMix64;
use perdura_memory::{AnyMemory, Ram};
use std::sync::Arc;

/// Transactions find no room, and others' objects are moved: in most runs of a few operations already.
#[test]
fn others_objects_are_moved() {
    let limit = Crowded.pool_bytes();
    let mut moved = 0;
    for seed in 0..20 {
        let memory = Arc::new(AnyMemory::new(Arc::new(Ram::new(limit))));
        let format = Format { limit, log: Some(0), id: 1, requires: None, checksums: false };
        let heap = <dyn AnyHeap>::create(EngineKind::Redo, memory, format).unwrap();
        let mut session = heap.session().unwrap();
        session.transaction(|tx| Crowded.prepare(tx)).unwrap();
        let (mut model, mut random) = (Crowded.prepared(), SplitMix64::new(seed));
        for _ in 0..60 {
            let op = Crowded.draw(&mut random, 0);
            match session.transaction(|tx| Crowded.apply(tx, &op)) {
                Ok(()) => assert!(Crowded.step(&mut model, &op)),
                Err(error) => {
                    assert!(error.is_full() || error.to_string().contains("log"), "{error}")
                }
            }
        }
        assert_eq!(session.read(|tx| Crowded.read(tx)).unwrap(), Some(model), "seed {seed}");
        println!("seed {seed}: pages were emptied {} times", heap.space().moves() / 2);
        moved += u64::from(heap.space().moves() > 0);
    }
    assert!(moved > 10, "only {moved} of 20 runs");
}
