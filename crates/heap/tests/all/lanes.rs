//! Lanes: what tells sessions apart that are open at the same time.

use perdura::{Engine, Format, Heap, HeapSession, Tx};
use perdura_engine::on_each_engine;
use perdura_memory::Ram;
use std::sync::Arc;

const LIMIT: u64 = 8 << 20;

fn create<E: Engine<Ram>>() -> Heap<Ram, E> {
    let format = Format { limit: LIMIT, log: None, id: 1, requires: None, checksums: false };
    Heap::create(Arc::new(Ram::new(LIMIT)), format).expect("a heap")
}

fn lane<E: Engine<Ram>>(session: &mut HeapSession<Ram, E>) -> u32 {
    session.transaction(|tx| Ok((tx as &mut dyn Tx).lane())).expect("a lane")
}

fn sessions_differ<E: Engine<Ram>>() {
    let heap = create::<E>();
    let (mut first, mut second) = (heap.session().unwrap(), heap.session().unwrap());
    let (a, b) = (lane(&mut first), lane(&mut second));
    assert_ne!(a, b, "{}", E::NAME);
    assert_eq!(a, lane(&mut first), "{}: a session stays in its lane", E::NAME);
    let mut erased = heap.session().unwrap().erased();
    let c = erased.transaction(|tx| Ok(tx.lane())).unwrap();
    assert!(c != a && c != b, "{}", E::NAME);
    drop(first);
    assert_eq!(lane(&mut heap.session().unwrap()), a, "{}: lanes are used again", E::NAME);
}

#[test]
fn sessions_that_are_open_together_have_lanes_of_their_own() {
    on_each_engine!(sessions_differ::<Ram>());
}
