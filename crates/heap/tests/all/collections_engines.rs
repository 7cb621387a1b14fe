//! The collections against std's, on every engine; on those that log, with power cuts and
//! reopenings between the transactions.

use crate::family::Family;
use perdura::collections::model::{self, Body, Rng, Run};
use perdura::collections::{Bytes, Total};
use perdura::{AnyHeap, Format, Result};
use perdura_memory::reference::Cut;
use perdura_memory::{AnyMemory, Domain, Reference};
use std::sync::Arc;

const LIMIT: u64 = 4 << 20;
/// One transaction in this many is followed by a power cut.
const CUTS: u64 = 16;

fn format() -> Format {
    Format { limit: LIMIT, log: Some(256 << 10), id: 1, requires: None, checksums: false }
}

/// Every model check, with transactions run by `run`. Each begins and ends with an empty heap.
fn every_check(run: &mut Run<'_>, seed: u64) -> Result<()> {
    let small = |rng: &mut Rng| rng.below(200);
    let string = |rng: &mut Rng| rng.bytes(60);
    model::check_hash_map::<u64, u64, true>(run, seed, 120, small, Rng::next)?;
    model::check_hash_map::<Bytes, Bytes<3>, false>(run, seed, 120, string, |rng| rng.bytes(2000))?;
    model::check_ordered_map::<u64, u64>(run, seed, 120, small, Rng::next)?;
    model::check_pair_map::<Total, Bytes, ()>(
        run,
        seed,
        120,
        |rng| (Total(rng.below(8) as f64), rng.bytes(40)),
        |_| (),
    )?;
    model::check_vector::<u64>(run, seed, 150, Rng::next)?;
    model::check_blob(run, seed, 80)
}

/// On plain memory; at the end all of it is free again.
fn in_plain_memory(engine: Family, seed: u64) {
    let heap = engine.in_ram(format());
    let free = |heap: &dyn AnyHeap| {
        heap.checkpoint().expect("plain memory");
        heap.space().usage().free_page_bytes + heap.space().usage().free_slot_bytes
    };
    let before = free(&*heap);
    let mut session = heap.session().expect("a session");
    let result = every_check(&mut |body| session.transaction(body), seed);
    result.unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", engine.name));
    drop(session);
    assert_eq!(free(&*heap), before, "{}, seed {seed}: something is left", engine.name);
}

/// A heap whose power is sometimes cut between transactions.
struct Unreliable {
    engine: Family,
    memory: Arc<Reference>,
    heap: Option<Box<dyn AnyHeap>>,
    rng: Rng,
}

impl Unreliable {
    fn new(engine: Family, domain: Domain, seed: u64) -> Self {
        let memory = Arc::new(Reference::new(LIMIT, domain));
        let heap = engine.create(&AnyMemory::new(memory.clone()), format()).expect("a heap");
        Unreliable { engine, memory, heap: Some(heap), rng: Rng(seed) }
    }

    fn run(&mut self, body: &mut Body<'_>) -> Result<()> {
        if self.rng.below(CUTS) == 0 {
            self.cut();
        }
        let heap = self.heap.as_ref().expect("a heap");
        heap.session()?.transaction(|tx| body(tx))
    }

    /// Afterwards exactly the acknowledged transactions must be there.
    fn cut(&mut self) {
        let cut = match self.rng.below(3) {
            0 => Cut::None,
            1 => Cut::All,
            _ => Cut::Seed(self.rng.next()),
        };
        let after = Arc::new(self.memory.after_power_cut(cut));
        // The end of the heap itself is not cut.
        drop(self.heap.take());
        self.memory = after;
        let opened = self.engine.open(&AnyMemory::new(self.memory.clone()));
        self.heap = Some(opened.expect("it recovers"));
    }
}

fn with_power_cuts(engine: Family, domain: Domain, seed: u64) {
    let mut heap = Unreliable::new(engine, domain, seed);
    let result = every_check(&mut |body| heap.run(body), seed);
    result.unwrap_or_else(|error| panic!("{} on {domain}, seed {seed}: {error}", engine.name));
}

#[test]
fn collections_are_right_on_every_engine() {
    for seed in 0..6 {
        for engine in Family::rolling_back() {
            in_plain_memory(engine, seed);
        }
    }
}

#[test]
fn collections_outlive_power_cuts() {
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media] {
        for seed in 0..2 {
            for engine in Family::crash_consistent() {
                with_power_cuts(engine, domain, seed);
            }
        }
    }
}
