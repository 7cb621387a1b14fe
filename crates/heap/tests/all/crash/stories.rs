//! What is cut: a pool in use, being made, changing its engine, being closed.

use crate::crash::explore::{Bench, Story, verify};
use crate::crash::program::{Refusal, Trace, make_root, transactions};
use crate::crash::{BYTES, Cuttable};
use perdura::superblock::{State, Superblock};
use perdura::{Domain, Engine, Format, Heap, Opening};
use perdura_memory::reference::Cut;
use std::sync::Arc;

fn format(checksums: bool) -> Format {
    Format { limit: BYTES, log: Some(0), id: 7, requires: None, checksums }
}

/// A pool with the root array and some blocks: closed, or left by a crash.
fn prepared<M: Cuttable, E: Engine<M>>(
    bench: &Bench<'_, M>,
    domain: Domain,
    crashed: Option<Cut>,
    checksums: bool,
) -> Vec<u8> {
    let memory = bench.memory(&vec![0; BYTES as usize], domain);
    let heap = Heap::<M, E>::create(memory.clone(), format(checksums)).expect("a heap");
    heap.session().unwrap().transaction(|tx| make_root(tx)).unwrap();
    if let Some(cut) = crashed {
        transactions(&heap, 5, 4, &mut Trace::default());
        return memory.inner().power_cut(cut);
    }
    heap.close().unwrap();
    memory.inner().power_cut(Cut::All)
}

/// A pool in use, closed at the end; with checksums of all its pages or not.
pub(crate) fn running<'a, M: Cuttable, E: Engine<M>>(
    bench: &Bench<'_, M>,
    domain: Domain,
    seed: u64,
    checksums: bool,
) -> Story<'a, M> {
    running_long::<M, E>(bench, domain, seed, checksums, 10)
}

/// The same with so many transactions.
pub(crate) fn running_long<'a, M: Cuttable, E: Engine<M>>(
    bench: &Bench<'_, M>,
    domain: Domain,
    seed: u64,
    checksums: bool,
    transactions: usize,
) -> Story<'a, M> {
    let play = move |memory: &Arc<M>, trace: &mut Trace| {
        trace.refusal = Refusal::in_use::<M, E>();
        use_and_close::<M, E>(memory, seed, transactions, trace);
    };
    Story {
        name: format!("{} on {domain}, seed {seed}, checksums {checksums}", E::NAME),
        domain,
        start: prepared::<M, E>(bench, domain, None, checksums),
        play: Box::new(play),
        verify: vec![Box::new(verify::<M, E>)],
    }
}

/// A pool being made, in a memory that must grow for it.
pub(crate) fn creating<'a, M: Cuttable, E: Engine<M>>(domain: Domain) -> Story<'a, M> {
    let play = |memory: &Arc<M>, trace: &mut Trace| {
        trace.refusal = Refusal::Unfinished;
        let heap = Heap::<M, E>::create(memory.clone(), format(false)).expect("a heap");
        trace.may_refuse(&**memory, Refusal::in_use::<M, E>());
        let mut session = heap.session().unwrap();
        trace.state(&mut session);
        trace.begin(&**memory);
        session.transaction(|tx| make_root(tx)).unwrap();
        trace.durable(&**memory);
        trace.state(&mut session);
        drop(session);
        transactions(&heap, 3, 2, trace);
        close(heap, memory, trace);
    };
    Story {
        name: format!("creating for {} on {domain}", E::NAME),
        domain,
        start: vec![0; 4 * 4096],
        play: Box::new(play),
        verify: vec![Box::new(verify::<M, E>)],
    }
}

/// A pool of the engine `E`, closed or `crashed`, opened and used with `F`.
pub(crate) fn switching<'a, M: Cuttable, E: Engine<M>, F: Engine<M>>(
    bench: &Bench<'_, M>,
    domain: Domain,
    crashed: Option<Cut>,
) -> Story<'a, M> {
    let play = |memory: &Arc<M>, trace: &mut Trace| {
        trace.refusal = Refusal::in_use::<M, F>();
        use_and_close::<M, F>(memory, 11, 4, trace);
    };
    Story {
        name: format!("{} to {} on {domain}, crashed {crashed:?}", E::NAME, F::NAME),
        domain,
        start: prepared::<M, E>(bench, domain, crashed, false),
        play: Box::new(play),
        verify: vec![Box::new(verify::<M, F>), Box::new(verify::<M, E>)],
    }
}

fn use_and_close<M: Cuttable, E: Engine<M>>(
    memory: &Arc<M>,
    seed: u64,
    count: usize,
    trace: &mut Trace,
) {
    let heap = Heap::<M, E>::open(memory.clone(), Opening::default()).expect("a whole pool");
    trace.state(&mut heap.session().unwrap());
    transactions(&heap, seed, count, trace);
    close(heap, memory, trace);
}

fn close<M: Cuttable, E: Engine<M>>(heap: Heap<M, E>, memory: &Arc<M>, trace: &mut Trace) {
    heap.close().unwrap();
    trace.durable(&**memory);
    trace.may_refuse(&**memory, Refusal::Never);
    let image = memory.inner().after_power_cut(Cut::None);
    let closed = Superblock::read(&image).is_ok_and(|header| header.state == State::Clean);
    if !closed && trace.cut_at.is_none() {
        trace.problem = Some("closing has returned, and is not durable".to_owned());
    }
}
