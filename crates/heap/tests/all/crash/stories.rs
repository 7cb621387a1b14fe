//! The stories: a pool in use, being created, changing its engine, being closed.

use crate::crash::explore::{Bench, Story};
use crate::crash::program::{Refusal, Trace, make_root, transactions};
use crate::crash::{BYTES, Cuttable};
use crate::family::Family;
use perdura::superblock::{State, Superblock};
use perdura::{AnyHeap, Domain, Format};
use perdura_memory::reference::Cut;

fn format(checksums: bool) -> Format {
    Format { limit: BYTES, log: Some(0), id: 7, requires: None, checksums }
}

/// A pool with the root array and some blocks: closed, or left by a crash.
fn prepared(
    bench: &Bench<'_>,
    engine: Family,
    domain: Domain,
    crashed: Option<Cut>,
    checksums: bool,
) -> Vec<u8> {
    let memory = bench.memory(&vec![0; BYTES as usize], domain);
    let heap = engine.create(&memory.memory, format(checksums)).expect("a heap");
    heap.session().unwrap().transaction(make_root).unwrap();
    if let Some(cut) = crashed {
        transactions(&*heap, &memory, 5, 4, &mut Trace::default());
        return memory.inner.power_cut(cut);
    }
    heap.close().unwrap();
    memory.inner.power_cut(Cut::All)
}

/// A pool in use, closed at the end; with checksums of all its pages or not.
pub(crate) fn running<'a>(
    bench: &Bench<'_>,
    engine: Family,
    domain: Domain,
    seed: u64,
    checksums: bool,
) -> Story<'a> {
    running_long(bench, engine, domain, seed, checksums, 10)
}

/// The same with `transactions` transactions.
pub(crate) fn running_long<'a>(
    bench: &Bench<'_>,
    engine: Family,
    domain: Domain,
    seed: u64,
    checksums: bool,
    transactions: usize,
) -> Story<'a> {
    let play = move |memory: &Cuttable, trace: &mut Trace| {
        trace.refusal = Refusal::in_use(engine);
        use_and_close(engine, memory, seed, transactions, trace);
    };
    Story {
        name: format!("{} on {domain}, seed {seed}, checksums {checksums}", engine.name),
        domain,
        start: prepared(bench, engine, domain, None, checksums),
        play: Box::new(play),
        verify: vec![engine],
    }
}

/// A pool being created, in a memory that must grow for it.
pub(crate) fn creating<'a>(engine: Family, domain: Domain) -> Story<'a> {
    let play = move |memory: &Cuttable, trace: &mut Trace| {
        trace.refusal = Refusal::Unfinished;
        let heap = engine.create(&memory.memory, format(false)).expect("a heap");
        trace.may_refuse(memory, Refusal::in_use(engine));
        let mut session = heap.session().unwrap();
        trace.state(&mut session);
        trace.begin(memory);
        session.transaction(make_root).unwrap();
        trace.durable(memory);
        trace.state(&mut session);
        drop(session);
        transactions(&*heap, memory, 3, 2, trace);
        close(heap, memory, trace);
    };
    Story {
        name: format!("creating for {} on {domain}", engine.name),
        domain,
        start: vec![0; 4 * 4096],
        play: Box::new(play),
        verify: vec![engine],
    }
}

/// A pool of the first engine, closed or `crashed`, opened and used with the second.
pub(crate) fn switching<'a>(
    bench: &Bench<'_>,
    first: Family,
    second: Family,
    domain: Domain,
    crashed: Option<Cut>,
) -> Story<'a> {
    let play = move |memory: &Cuttable, trace: &mut Trace| {
        trace.refusal = Refusal::in_use(second);
        use_and_close(second, memory, 11, 4, trace);
    };
    Story {
        name: format!("{} to {} on {domain}, crashed {crashed:?}", first.name, second.name),
        domain,
        start: prepared(bench, first, domain, crashed, false),
        play: Box::new(play),
        verify: vec![second, first],
    }
}

fn use_and_close(engine: Family, memory: &Cuttable, seed: u64, count: usize, trace: &mut Trace) {
    let heap = engine.open(&memory.memory).expect("a whole pool");
    trace.state(&mut heap.session().unwrap());
    transactions(&*heap, memory, seed, count, trace);
    close(heap, memory, trace);
}

fn close(heap: Box<dyn AnyHeap>, memory: &Cuttable, trace: &mut Trace) {
    heap.close().unwrap();
    trace.durable(memory);
    trace.may_refuse(memory, Refusal::Never);
    let image = memory.inner.after_power_cut(Cut::None);
    let closed = Superblock::read(&image).is_ok_and(|header| header.state == State::Closed);
    if !closed && trace.cut_at.is_none() {
        trace.problem = Some("closing has returned, and is not durable".to_owned());
    }
}
