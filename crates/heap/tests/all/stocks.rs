//! What sessions keep of the free space: it is not used too early, and not lost to others.

use perdura::check::check_heap;
use perdura::collections::model::Rng;
use perdura::{Engine, Format, Heap, HeapSession, Memory, Purpose, Ticket, Tx, TxExt};
use perdura_engine::on_each_engine;
use perdura_memory::Ram;
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = 4096;

fn create<E: Engine<Ram>>(limit: u64) -> Heap<Ram, E> {
    let log = Some(128 << 10);
    let format = Format { limit, log, id: 1, requires: None, checksums: false };
    Heap::create(Arc::new(Ram::new(limit)), format).expect("a heap")
}

fn free_bytes<M: Memory + 'static, E: Engine<M>>(heap: &Heap<M, E>) -> u64 {
    heap.checkpoint().unwrap();
    let usage = heap.space().usage();
    assert_eq!(usage.limbo_bytes, 0, "a checkpoint leaves nothing in limbo");
    usage.free_page_bytes + usage.free_slot_bytes
}

/// A large heap, with a few MiB to fill, and `left` more.
fn create_large<E: Engine<Ram>>(left: u64) -> Heap<Ram, E> {
    let heap = create::<E>((21 << 20) + left);
    let taken =
        heap.session().unwrap().transaction(|tx| Ok(tx.allocate(Purpose::Key, 17 << 20)?.at()));
    assert!(taken.is_ok() && heap.space().is_large());
    heap
}

fn fill<E: Engine<Ram>>(session: &mut HeapSession<Ram, E>, len: u64) -> Vec<u64> {
    let mut blocks = Vec::new();
    while let Ok(at) = session.transaction(|tx| Ok(tx.allocate(Purpose::Value, len)?.at())) {
        blocks.push(at);
    }
    blocks
}

/// What an idle session has freed is there for another one in a full pool.
fn others_get_it<E: Engine<Ram>>() {
    let heap = create_large::<E>(0);
    let (mut idle, mut busy) = (heap.session().unwrap(), heap.session().unwrap());
    for len in [320, 5000] {
        let mut blocks = fill(&mut idle, len);
        assert!(fill(&mut busy, len).is_empty(), "{}: it is full", E::NAME);
        // Too little to be handed over, each time.
        for few in [1, 5, 20] {
            for at in blocks.split_off(blocks.len() - few) {
                idle.transaction(|tx| tx.free(at)).unwrap();
            }
            let got = fill(&mut busy, len);
            assert!(got.len() + 12 >= few, "{}: {} of {few} blocks of {len}", E::NAME, got.len());
            let held = len == 5000;
            assert!(!held || got.len() == few, "{}: {} of {few}", E::NAME, got.len());
            got.into_iter().for_each(|at| busy.transaction(|tx| tx.free(at)).unwrap());
            blocks.extend(fill(&mut idle, len));
        }
        blocks.into_iter().for_each(|at| idle.transaction(|tx| tx.free(at)).unwrap());
    }
}

#[test]
fn another_session_gets_what_an_idle_one_has_freed() {
    on_each_engine!(rolling_back others_get_it::<Ram>());
}

/// Several sessions allocate, free and roll back. What a ticket has freed comes again only when that is
/// reclaimable.
fn nothing_comes_too_early<E: Engine<Ram>>() {
    let heap = create_large::<E>(4 << 20);
    let before = free_bytes(&heap);
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
        let done = sessions[which].submit(|tx| {
            let new = if grows { Some(tx.allocate(Purpose::Value, len)?) } else { None };
            if let Some(new) = new {
                let end = new.at() + new.bytes();
                let over = freed.range(..end).next_back();
                if let Some((&at, &(bytes, ticket))) =
                    over.filter(|(at, (len, _))| *at + len > new.at())
                {
                    let reclaimable = heap.engine().reclaimable();
                    assert!(ticket <= reclaimable, "{}, round {round}: {at:#x}, {bytes}", E::NAME);
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
    assert_eq!(free_bytes(&heap), before, "{}: sessions that end hand everything over", E::NAME);
    let report = check_heap(&heap, &|_, _, _| Ok(false));
    assert_eq!(report.blocks, 1, "{}", E::NAME);
    assert!(report.problems.len() == 1, "{}: {:?}", E::NAME, report.problems);
}

#[test]
fn nothing_is_used_before_it_can_be_reclaimed() {
    on_each_engine!(rolling_back nothing_comes_too_early::<Ram>());
}

/// In a large pool sessions take several pages at a time, which are free all the same.
fn large_pools<E: Engine<Ram>>() {
    let heap = create::<E>(100 << 20);
    let (mut first, mut second) = (heap.session().unwrap(), heap.session().unwrap());
    let big = first.transaction(|tx| Ok(tx.allocate(Purpose::Value, 70 << 20)?.at())).unwrap();
    first.transaction(|tx| tx.allocate(Purpose::Value, 8 << 20).map(|_| ())).unwrap();
    first.transaction(|tx| tx.free(big)).unwrap();
    let before = free_bytes(&heap);
    let page = |session: &mut HeapSession<Ram, E>| {
        session.transaction(|tx| Ok(tx.allocate(Purpose::Value, PAGE)?.at())).unwrap()
    };
    let (a, b, c) = (page(&mut first), page(&mut second), page(&mut first));
    assert_eq!(free_bytes(&heap), before - 3 * PAGE, "{}: kept pages are free", E::NAME);
    assert!(a / PAGE / 4 != b / PAGE / 4 && c / PAGE / 4 != b / PAGE / 4, "{}", E::NAME);
    assert_eq!(c, a + PAGE, "{}", E::NAME);
    // What the first keeps is there for the second, and the other way round, when there is nothing else.
    let mut blocks = fill(&mut second, PAGE);
    blocks.extend(fill(&mut first, PAGE));
    assert_eq!(heap.space().usage().free_page_bytes, 0, "{}", E::NAME);
    blocks.extend([a, b, c]);
    blocks.into_iter().for_each(|at| second.transaction(|tx| tx.free(at)).unwrap());
    drop((first, second));
    let usage = (free_bytes(&heap), heap.space().usage());
    assert!(usage.0 >= before && usage.1.largest_free_run >= 70 << 20, "{}: {usage:?}", E::NAME);
}

#[test]
fn pages_that_sessions_keep_are_free() {
    large_pools::<perdura::RedoEngine<Ram>>();
    large_pools::<perdura::Volatile<Ram>>();
}

/// Slots that come back go to those that need them, in a large pool too, whichever session freed them.
fn churn<E: Engine<Ram>>(large: bool) {
    let heap = create::<E>(100 << 20);
    let mut sessions: Vec<_> = (0..3).map(|_| heap.session().unwrap()).collect();
    if large {
        let big = sessions[0].transaction(|tx| Ok(tx.allocate(Purpose::Value, 70 << 20)?.at()));
        sessions[0].transaction(|tx| tx.free(*big.as_ref().unwrap())).unwrap();
    }
    let before = free_bytes(&heap);
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
    let used = before - free_bytes(&heap);
    assert!(used < 3000 * 256 * 2, "{}: {used} bytes are used", E::NAME);
    live.sort_unstable();
    live.dedup();
    assert_eq!(live.len(), 3000, "{}: a block has two owners", E::NAME);
    for (index, at) in live.into_iter().enumerate() {
        sessions[index % 3].transaction(|tx| tx.free(at)).unwrap();
    }
    drop(sessions);
    assert_eq!(free_bytes(&heap), before, "{}", E::NAME);
}

#[test]
fn slots_are_used_again() {
    for large in [false, true] {
        churn::<perdura::RedoEngine<Ram>>(large);
        churn::<perdura::Volatile<Ram>>(large);
    }
}

/// What waits in a session's stock counts as in limbo, until a checkpoint frees it.
#[test]
fn a_checkpoint_is_for_what_all_sessions_freed() {
    let heap = create_large::<perdura::RedoEngine<Ram>>(0);
    let (mut first, mut second) = (heap.session().unwrap(), heap.session().unwrap());
    let all = fill(&mut first, 2000);
    let few: Vec<u64> = all.iter().rev().take(3).copied().collect();
    few.iter().for_each(|&at| first.transaction(|tx| tx.free(at)).unwrap());
    assert!(heap.space().usage().limbo_bytes >= 3 * 2000);
    heap.checkpoint().unwrap();
    assert_eq!(heap.space().usage().limbo_bytes, 0);
    assert!(!fill(&mut second, 2000).is_empty());
}
