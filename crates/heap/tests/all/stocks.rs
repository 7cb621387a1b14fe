//! Free space in sessions' stocks: it is not reused too early, and not lost to other sessions.

use crate::family::Family;
use perdura::collections::model::Rng;
use perdura::{
    AnyHeap, AnySession, Engine, Format, Heap, Mode, Purpose, RedoEngine, Ticket, TxExt, Volatile,
};
use perdura_engine::on_each_engine;
use perdura_memory::{AnyMemory, Ram};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = 4096;

fn format(limit: u64) -> Format {
    Format { limit, log: Some(128 << 10), id: 1, requires: None, checksums: false }
}

fn free_bytes(heap: &dyn AnyHeap) -> u64 {
    heap.checkpoint().unwrap();
    let usage = heap.space().usage();
    assert_eq!(usage.limbo_bytes, 0, "a checkpoint leaves nothing in limbo");
    usage.free_page_bytes + usage.free_slot_bytes
}

/// The format of a large heap, with a few MiB to fill, and `left` bytes more.
fn large(left: u64) -> Format {
    format((21 << 20) + left)
}

/// Fills a large heap, except for these few MiB.
fn take_most(heap: &dyn AnyHeap) {
    let taken =
        heap.session().unwrap().transaction(|tx| Ok(tx.allocate(Purpose::Key, 17 << 20)?.at()));
    assert!(taken.is_ok() && heap.space().is_large());
}

fn create_large(engine: Family) -> Box<dyn AnyHeap> {
    let heap = engine.in_ram(large(0));
    take_most(&*heap);
    heap
}

fn fill(session: &mut AnySession, len: u64) -> Vec<u64> {
    let mut blocks = Vec::new();
    while let Ok(at) = session.transaction(|tx| Ok(tx.allocate(Purpose::Value, len)?.at())) {
        blocks.push(at);
    }
    blocks
}

/// In a full pool a session gets the space that an idle one has freed.
fn others_get_it(engine: Family) {
    let heap = create_large(engine);
    let (mut idle, mut busy) = (heap.session().unwrap(), heap.session().unwrap());
    for len in [320, 5000] {
        let mut blocks = fill(&mut idle, len);
        assert!(fill(&mut busy, len).is_empty(), "{}: it is full", engine.name);
        // Too little to be handed over, each time.
        for few in [1, 5, 20] {
            for at in blocks.split_off(blocks.len() - few) {
                idle.transaction(|tx| tx.free(at)).unwrap();
            }
            let got = fill(&mut busy, len);
            assert!(
                got.len() + 12 >= few,
                "{}: {} of {few} blocks of {len}",
                engine.name,
                got.len()
            );
            let held = len == 5000;
            assert!(!held || got.len() == few, "{}: {} of {few}", engine.name, got.len());
            got.into_iter().for_each(|at| busy.transaction(|tx| tx.free(at)).unwrap());
            blocks.extend(fill(&mut idle, len));
        }
        blocks.into_iter().for_each(|at| idle.transaction(|tx| tx.free(at)).unwrap());
    }
}

#[test]
fn another_session_gets_what_an_idle_one_has_freed() {
    for engine in Family::rolling_back() {
        others_get_it(engine);
    }
}

/// Several sessions allocate, free and roll back. Freed space is reused only when its ticket is reclaimable.
fn nothing_comes_too_early<E: Engine<AnyMemory>>() {
    let format = large(4 << 20);
    let memory = AnyMemory::new(Arc::new(Ram::new(format.limit)));
    let heap = Heap::<_, E>::create(Arc::new(memory), format).expect("a heap");
    comes_in_time(E::NAME, &heap, &|| heap.engine().reclaimable());
}

fn comes_in_time(engine: &str, heap: &dyn AnyHeap, reclaimable: &dyn Fn() -> Ticket) {
    take_most(heap);
    let before = free_bytes(heap);
    let mut rng = Rng(7);
    let mut sessions: Vec<_> = (0..3).map(|_| heap.session().unwrap()).collect();
    let (mut live, mut freed) = (Vec::<(u64, u64)>::new(), BTreeMap::<u64, (u64, Ticket)>::new());
    for round in 0..3000 {
        let which = rng.below(sessions.len() as u64) as usize;
        if rng.below(200) == 0 {
            sessions[which] = heap.session().unwrap();
        }
        let grows = live.len() < 400 && rng.below(5) > 0;
        let fails = rng.below(8) == 0;
        let chosen = (!live.is_empty()).then(|| rng.below(live.len() as u64) as usize);
        let len = [40, 300, 1300, 4096, 9000][rng.below(5) as usize];
        let done = sessions[which].run(Mode::Write, |tx| {
            let new = if grows { Some(tx.allocate(Purpose::Value, len)?) } else { None };
            if let Some(new) = new {
                let end = new.at() + new.bytes();
                let over = freed.range(..end).next_back();
                if let Some((&at, &(bytes, ticket))) =
                    over.filter(|(at, (len, _))| *at + len > new.at())
                {
                    assert!(ticket <= reclaimable(), "{}, round {round}: {at:#x}, {bytes}", engine);
                }
                tx.write_fresh(new, 0, &vec![round as u8; len as usize])?;
            }
            if let Some(chosen) = chosen.filter(|_| !grows) {
                tx.free(live[chosen].0)?;
            }
            if fails { tx.abort("as drawn") } else { Ok(new) }
        });
        let Ok((new, ticket)) = done else { continue };
        if let Some(new) = new {
            let end = new.at() + new.bytes();
            freed.retain(|&at, (len, _)| at >= end || at + *len <= new.at());
            live.push((new.at(), new.bytes()));
        } else if let Some(chosen) = chosen {
            let (at, len) = live.swap_remove(chosen);
            freed.insert(at, (len, ticket));
        }
    }
    for (at, _) in live {
        sessions[0].transaction(|tx| tx.free(at)).unwrap();
    }
    drop(sessions);
    assert_eq!(free_bytes(heap), before, "{}: sessions that end hand everything over", engine);
    let report = heap.check(&|_, _, _| Ok(false));
    assert_eq!(report.blocks, 1, "{}", engine);
    assert!(report.problems.len() == 1, "{}: {:?}", engine, report.problems);
}

#[test]
fn nothing_is_used_before_it_can_be_reclaimed() {
    on_each_engine!(rolling_back nothing_comes_too_early::<AnyMemory>());
}

/// In a large pool sessions take several pages at a time, which still count as free.
fn large_pools(engine: Family) {
    let heap = engine.in_ram(format(100 << 20));
    let (mut first, mut second) = (heap.session().unwrap(), heap.session().unwrap());
    let big = first.transaction(|tx| Ok(tx.allocate(Purpose::Value, 70 << 20)?.at())).unwrap();
    first.transaction(|tx| tx.allocate(Purpose::Value, 8 << 20).map(|_| ())).unwrap();
    first.transaction(|tx| tx.free(big)).unwrap();
    let before = free_bytes(&*heap);
    let page = |session: &mut AnySession| {
        session.transaction(|tx| Ok(tx.allocate(Purpose::Value, PAGE)?.at())).unwrap()
    };
    let (a, b, c) = (page(&mut first), page(&mut second), page(&mut first));
    assert_eq!(free_bytes(&*heap), before - 3 * PAGE, "{}: kept pages are free", engine.name);
    assert!(a / PAGE / 4 != b / PAGE / 4 && c / PAGE / 4 != b / PAGE / 4, "{}", engine.name);
    assert_eq!(c, a + PAGE, "{}", engine.name);
    // When nothing else is left, each session gets the pages that the other keeps.
    let mut blocks = fill(&mut second, PAGE);
    blocks.extend(fill(&mut first, PAGE));
    assert_eq!(heap.space().usage().free_page_bytes, 0, "{}", engine.name);
    blocks.extend([a, b, c]);
    blocks.into_iter().for_each(|at| second.transaction(|tx| tx.free(at)).unwrap());
    drop((first, second));
    let usage = (free_bytes(&*heap), heap.space().usage());
    assert!(
        usage.0 >= before && usage.1.largest_free_run >= 70 << 20,
        "{}: {usage:?}",
        engine.name
    );
}

#[test]
fn pages_that_sessions_keep_are_free() {
    large_pools(Family::of::<RedoEngine<_>>());
    large_pools(Family::of::<Volatile<_>>());
}

/// Slots that come back go to the sessions that need them, in a large pool too, whichever session freed them.
fn churn(engine: Family, large: bool) {
    let heap = engine.in_ram(format(100 << 20));
    let mut sessions: Vec<_> = (0..3).map(|_| heap.session().unwrap()).collect();
    if large {
        let big = sessions[0].transaction(|tx| Ok(tx.allocate(Purpose::Value, 70 << 20)?.at()));
        sessions[0].transaction(|tx| tx.free(*big.as_ref().unwrap())).unwrap();
    }
    let before = free_bytes(&*heap);
    let (mut rng, mut live) = (Rng(3), Vec::new());
    for _ in 0..20_000 {
        let which = rng.below(3) as usize;
        let fails = rng.below(10) == 0;
        let full = live.len() >= 3000;
        let chosen = if full { rng.below(3000) as usize } else { live.len() };
        let done = sessions[which].transaction(|tx| {
            if full {
                tx.free(live[chosen])?;
            }
            let new = tx.allocate(Purpose::Value, 64 << (chosen % 3))?.at();
            if fails { tx.abort("as drawn") } else { Ok(new) }
        });
        match done {
            Ok(at) if full => live[chosen] = at,
            Ok(at) => live.push(at),
            Err(_) => {}
        }
    }
    let used = before - free_bytes(&*heap);
    assert!(used < 3000 * 256 * 2, "{}: {used} bytes are used", engine.name);
    live.sort_unstable();
    live.dedup();
    assert_eq!(live.len(), 3000, "{}: a block has two owners", engine.name);
    for (index, at) in live.into_iter().enumerate() {
        sessions[index % 3].transaction(|tx| tx.free(at)).unwrap();
    }
    drop(sessions);
    assert_eq!(free_bytes(&*heap), before, "{}", engine.name);
}

#[test]
fn slots_are_used_again() {
    for large in [false, true] {
        churn(Family::of::<RedoEngine<_>>(), large);
        churn(Family::of::<Volatile<_>>(), large);
    }
}

/// Space that waits in a session's stock counts as in limbo, until a checkpoint frees it.
#[test]
fn a_checkpoint_is_for_what_all_sessions_freed() {
    let heap = create_large(Family::of::<RedoEngine<_>>());
    let (mut first, mut second) = (heap.session().unwrap(), heap.session().unwrap());
    let all = fill(&mut first, 2000);
    let few: Vec<u64> = all.iter().rev().take(3).copied().collect();
    few.iter().for_each(|&at| first.transaction(|tx| tx.free(at)).unwrap());
    assert!(heap.space().usage().limbo_bytes >= 3 * 2000);
    heap.checkpoint().unwrap();
    assert_eq!(heap.space().usage().limbo_bytes, 0);
    assert!(!fill(&mut second, 2000).is_empty());
}
