//! Tests that an engine that is not crash-sync-safe on a memory is refused before anything is written.

use super::{Format, Heap, Opening};
use crate::error::OpenError;
use perdura_engine::{Engine, Error, Recovery, RedoEngine, Result, Sums, Ticket};
use perdura_memory::{Domain, Memory, Reference};
use std::ops::Range;
use std::sync::Arc;

const FORMAT: Format =
    Format { limit: 4 << 20, log: None, id: 1, requires: None, checksums: false };

/// Redo logging on a memory that cannot fence. No method of it is ever called.
struct UnfencedEngine;

impl Engine<Reference> for UnfencedEngine {
    const NAME: &'static str = "unsafe";
    type Session = <RedoEngine<Reference> as Engine<Reference>>::Session;

    fn refusal(memory: &Reference) -> Option<&'static str> {
        memory.domain().needs_write_back().then_some("it cannot fence")
    }
    fn format(_memory: &Reference, _area: Range<u64>) {
        unreachable!()
    }
    fn inspect(_memory: &Reference, _area: Range<u64>) -> Result<Recovery> {
        unreachable!()
    }
    fn recover(_memory: &Reference, _area: Range<u64>) -> Result<Recovery> {
        unreachable!()
    }
    fn start_with_sums(
        _memory: Arc<Reference>,
        _area: Range<u64>,
        _sums: Option<Sums>,
    ) -> Result<Arc<Self>> {
        unreachable!()
    }
    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        unreachable!()
    }
    fn reclaimable(&self) -> Ticket {
        unreachable!()
    }
    fn checkpoint(&self) -> Result<()> {
        unreachable!()
    }
}

#[test]
fn an_unsafe_engine_is_refused_before_anything_is_written() {
    let memory = Arc::new(Reference::new(FORMAT.limit, Domain::Transient));
    let refused = |made: Result<Heap<Reference, UnfencedEngine>, OpenError>| match made {
        Err(OpenError::Contents { source: error @ Error::NotSafe { .. }, .. }) => {
            assert!(error.to_string().contains("it cannot fence"), "{error}");
        }
        other => panic!("{:?}", other.err()),
    };
    refused(Heap::create(memory.clone(), FORMAT));
    assert_eq!(memory.events(), 0);
    drop(Heap::<_, RedoEngine<_>>::create(memory.clone(), FORMAT).expect("room for a heap"));
    let before = memory.events();
    refused(Heap::open(memory.clone(), Opening::default()));
    assert_eq!(memory.events(), before);
}
