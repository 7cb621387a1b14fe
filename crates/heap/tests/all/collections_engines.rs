//! The collections against std's, on every engine; on those that log, with power cuts and
//! reopenings between the transactions.

use perdura::collections::model::{self, Body, Rng, Run};
use perdura::collections::{Bytes, Pair, Total};
use perdura::{Engine, Format, Heap, Opening, Result};
use perdura_engine::on_each_engine;
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, Ram, Reference};
use std::sync::Arc;

const LIMIT: u64 = 4 << 20;
/// A power cut comes after one transaction in this many.
const CUTS: u64 = 16;

fn format() -> Format {
    Format { limit: LIMIT, log: Some(256 << 10), id: 1, requires: None, checksums: false }
}

/// Every model check, on transactions that `run` runs. Each begins and ends with an empty heap.
fn every_check(run: &mut Run<'_>, seed: u64) -> Result<()> {
    let small = |rng: &mut Rng| rng.below(200);
    let string = |rng: &mut Rng| rng.bytes(60);
    model::check_hash_map::<u64, u64, true>(run, seed, 120, small, Rng::next)?;
    model::check_hash_map::<Bytes, Bytes<3>, false>(run, seed, 120, string, |rng| rng.bytes(2000))?;
    model::check_ordered_map::<u64, u64>(run, seed, 120, small, Rng::next)?;
    model::check_counted_map::<Pair<Total, Bytes>, ()>(
        run,
        seed,
        120,
        |rng| (Total(rng.below(8) as f64), rng.bytes(40)),
        |_| (),
    )?;
    model::check_vector::<u64>(run, seed, 150, Rng::next)?;
    model::check_blob(run, seed, 80)
}

/// On plain memory, with all of it free again at the end.
fn in_plain_memory<E: Engine<Ram>>(seed: u64) {
    let heap = Heap::<Ram, E>::create(Arc::new(Ram::new(LIMIT)), format()).expect("a heap");
    let free = |heap: &Heap<Ram, E>| {
        heap.checkpoint().expect("plain memory");
        heap.space().usage().free_page_bytes + heap.space().usage().free_slot_bytes
    };
    let before = free(&heap);
    let mut session = heap.session().expect("a session");
    let result = every_check(&mut |body| session.transaction(|tx| body(tx)), seed);
    result.unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", E::NAME));
    drop(session);
    assert_eq!(free(&heap), before, "{}, seed {seed}: something is left", E::NAME);
}

/// A heap whose power is cut now and then, between transactions.
struct Unreliable<E: Engine<Reference>> {
    heap: Option<Heap<Reference, E>>,
    rng: Rng,
}

impl<E: Engine<Reference>> Unreliable<E> {
    fn new(domain: Domain, seed: u64) -> Self {
        let memory = Arc::new(Reference::new(LIMIT, domain));
        let heap = Heap::create(memory, format()).expect("a heap");
        Unreliable { heap: Some(heap), rng: Rng(seed) }
    }

    fn run(&mut self, body: &mut Body<'_>) -> Result<()> {
        if self.rng.below(CUTS) == 0 {
            self.cut();
        }
        let heap = self.heap.as_ref().expect("a heap");
        heap.session()?.transaction(|tx| body(tx))
    }

    /// What was acknowledged must be there afterwards, and nothing else.
    fn cut(&mut self) {
        let cut = match self.rng.below(3) {
            0 => Cut::None,
            1 => Cut::All,
            _ => Cut::Seed(self.rng.next()),
        };
        let heap = self.heap.take().expect("a heap");
        let after = Arc::new(heap.memory().after_power_cut(cut));
        self.heap = Some(Heap::open(after, Opening::default()).expect("it recovers"));
    }
}

fn with_power_cuts<E: Engine<Reference>>(domain: Domain, seed: u64) {
    let mut heap = Unreliable::<E>::new(domain, seed);
    let result = every_check(&mut |body| heap.run(body), seed);
    result.unwrap_or_else(|error| panic!("{} on {domain}, seed {seed}: {error}", E::NAME));
}

#[test]
fn collections_are_right_on_every_engine() {
    for seed in 0..6 {
        on_each_engine!(rolling_back in_plain_memory::<Ram>(seed));
    }
}

#[test]
fn collections_outlive_power_cuts() {
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media] {
        for seed in 0..2 {
            on_each_engine!(crash_consistent with_power_cuts::<Reference>(domain, seed));
        }
    }
}
