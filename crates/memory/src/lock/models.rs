//! A model of slots for loom (see `.ci/loom`); those of transactions are in `engine/src/models.rs`.

use super::tests_order::AnyOrder;
use super::{Lock, Seat};
use crate::atomics::UnsafeCell;
use loom::sync::Arc as LoomArc;
use loom::thread;
use std::sync::Arc;

/// A value that the holder of a slot keeps.
struct Kept(UnsafeCell<u64>);

// SAFETY: only the session that holds the single slot accesses it.
unsafe impl Sync for Kept {}
// SAFETY: as above.
unsafe impl Send for Kept {}

impl Kept {
    fn add(&self) {
        // SAFETY: one session at a time holds the only slot; loom fails if that does not order the accesses.
        self.0.with_mut(|kept| unsafe { *kept += 1 });
    }
}

/// A slot is used by one session after the other, on different threads.
#[test]
fn models_slots_are_handed_over() {
    loom::model(|| {
        let lock: Arc<Lock<AnyOrder, (), ()>> =
            Arc::new(Lock::new(&crate::Ram::new(64), 1, (), ()));
        let mine = LoomArc::new(Kept(UnsafeCell::new(0)));
        let (other, theirs) = (lock.clone(), mine.clone());
        let session = thread::spawn(move || {
            if let Some(_seat) = Seat::new(&other) {
                theirs.add();
            }
        });
        if let Some(_seat) = Seat::new(&lock) {
            mine.add();
        }
        session.join().expect("no panic");
    });
}
