//! Checksums of pages: every engine maintains them, whatever its transactions do; and damage to each part of a pool is
//! detected.

use crate::family::Family;
use perdura::collections::Bytes;
use perdura::collections::model::{Body, Rng, check_hash_map, check_ordered_map};
use perdura::superblock::{CATALOGUE, State, Superblock};
use perdura::{
    AnyHeap, Error, Format, Memory, OpenError, Purpose, RedoEngine, Result, Root, TxExt,
};
use perdura_memory::{AnyMemory, PAGE, Ram};
use std::sync::Arc;

const LIMIT: u64 = 8 << 20;
const REDO: Family = Family::of::<RedoEngine<AnyMemory>>();

fn format(checksums: bool) -> Format {
    Format { limit: LIMIT, log: Some(256 << 10), id: 1, requires: None, checksums }
}

fn copy(memory: &Ram) -> Arc<Ram> {
    let (ram, mut bytes) = (Ram::new(memory.len()), vec![0; memory.len() as usize]);
    memory.copy_out(0, &mut bytes);
    ram.copy_in(0, &bytes);
    Arc::new(ram)
}

fn flip(memory: &Ram, at: u64) {
    memory.store(at, memory.load(at) ^ 1 << 21);
}

fn open(engine: Family, memory: &Arc<Ram>) -> Result<Box<dyn AnyHeap>, OpenError> {
    engine.open(&AnyMemory::new(memory.clone()))
}

/// Maps that grow and shrink, with aborts and partial undo, and objects of many pages: after each transaction, in
/// place, and when the heap is opened again, each page has its sum.
fn sums_are_kept(engine: Family, checksums: bool) {
    if checksums && !engine.keeps_checksums {
        return; // This engine keeps no sums of all pages.
    }
    let memory = Arc::new(Ram::new(LIMIT));
    let heap = engine.create(&AnyMemory::new(memory.clone()), format(checksums)).unwrap();
    let wrong = |heap: &dyn AnyHeap| heap.superblock().wrong_pages(&*memory);
    let mut session = heap.session().unwrap();
    let mut run = |body: &mut Body<'_>| {
        let result = session.transaction(body);
        assert_eq!(wrong(&*heap), [0; 0], "{}", engine.name);
        result
    };
    check_hash_map::<u64, Bytes, true>(&mut run, 1, 60, |rng| rng.below(90), |rng| rng.bytes(900))
        .unwrap();
    check_ordered_map::<u64, u64>(&mut run, 2, 60, |rng| rng.below(900), Rng::next).unwrap();
    let large = vec![7; 30_000];
    run(&mut |tx| tx.new_bytes(Purpose::Value, &large).map(|_| ())).unwrap();
    assert!(
        run(&mut |tx| tx.new_bytes(Purpose::Value, &large).and_then(|_| tx.abort("no"))).is_err()
    );
    let at = session
        .transaction(|tx| {
            let at = tx.new_bytes(Purpose::Value, &large)?;
            tx.set_root("large", Root { at, kind: 1000 })?;
            tx.write_bytes(at + 4000, b"over the border of two pages")?;
            Ok(at)
        })
        .unwrap();
    drop(session);
    heap.close().unwrap();
    let heap = open(engine, &memory).unwrap();
    assert_eq!(wrong(&*heap), [0; 0]);
    let mut bytes = vec![0; 28];
    heap.session().unwrap().read(|tx| tx.read_bytes(at + 4000, &mut bytes)).unwrap();
    assert_eq!(bytes, b"over the border of two pages");
}

#[test]
fn every_engine_keeps_the_sums_of_all_pages() {
    for engine in Family::rolling_back() {
        sums_are_kept(engine, true);
    }
}

#[test]
fn every_engine_keeps_the_sums_of_the_page_table() {
    for engine in Family::rolling_back() {
        sums_are_kept(engine, false);
    }
}

/// A heap with a few objects, and their offsets; closed, or left by a killed process.
fn sample(engine: Family, closed: bool) -> (Arc<Ram>, [u64; 3]) {
    let memory = Arc::new(Ram::new(LIMIT));
    engine.create(&AnyMemory::new(memory.clone()), format(true)).unwrap().close().unwrap();
    let heap = open(engine, &memory).unwrap();
    let mut session = heap.session().unwrap();
    let mut objects = [0; 3];
    for (index, object) in objects.iter_mut().enumerate() {
        *object = session
            .transaction(|tx| {
                let at = tx.new_bytes(Purpose::Value, &[index as u8 + 1; 3000])?;
                tx.set_root(&format!("object {index}"), Root { at, kind: 1000 })?;
                Ok(at)
            })
            .unwrap();
    }
    if !closed {
        return (copy(&memory), objects);
    }
    drop(session);
    heap.close().unwrap();
    (memory, objects)
}

/// Reads all data that the sample's roots lead to.
fn contents(heap: &dyn AnyHeap) -> Result<Vec<Vec<u8>>> {
    heap.session()?.read(|tx| {
        (0..3)
            .map(|index| {
                let root = tx.root(&format!("object {index}"))?.ok_or(Error::Invalid("no root"))?;
                let mut bytes = vec![0; 3000];
                tx.read_bytes(root.at, &mut bytes)?;
                Ok(bytes)
            })
            .collect()
    })
}

/// Damaged objects are detected by reads and by writes, with the page's offset; the others are served.
fn damage_is_noticed_when_read(engine: Family) {
    if !engine.keeps_checksums {
        return; // This engine keeps no sums of all pages.
    }
    let (memory, [first, second, third]) = sample(engine, true);
    flip(&memory, second + 800);
    let heap = open(engine, &memory).unwrap();
    let mut session = heap.session().unwrap();
    let page = second - second % PAGE;
    let is_detected = |result: Result<()>| {
        assert!(matches!(result, Err(Error::Corrupt { at, .. }) if at == page), "{}", engine.name);
    };
    for at in [first, third] {
        let mut bytes = [0; 8];
        session.read(|tx| tx.read_bytes(at, &mut bytes)).unwrap();
        assert_eq!(bytes, [1 + u8::from(at == third) * 2; 8]);
    }
    is_detected(session.read(|tx| tx.read_word(second).map(|_| ())));
    is_detected(session.read(|tx| tx.read_bytes(second + 16, &mut [0; 3])));
    is_detected(session.transaction(|tx| tx.write_word(second + 2400, 1)));
    is_detected(session.transaction(|tx| tx.write_bytes(second + 2400, &[3; 100])));
    // Damage to the sum itself.
    let (memory, [first, ..]) = sample(engine, true);
    let superblock = Superblock::read(&*memory).unwrap();
    flip(&memory, superblock.places().of(first).unwrap());
    let heap = open(engine, &memory).unwrap();
    assert!(heap.session().unwrap().read(|tx| tx.read_word(first)).is_err());
}

#[test]
fn damaged_objects_are_noticed_when_they_are_read() {
    for engine in Family::all() {
        damage_is_noticed_when_read(engine);
    }
}

/// Damages one word of each part that always has a checksum: the heap is refused, or its contents are right.
fn damage_of_the_rest(engine: Family, closed: bool) {
    if !engine.keeps_checksums {
        return; // This engine keeps no sums of all pages.
    }
    let (memory, _) = sample(engine, closed);
    let wanted: Vec<Vec<u8>> = (1..4).map(|value| vec![value; 3000]).collect();
    let superblock = Superblock::read(&*memory).unwrap();
    let (log, layout) = (superblock.log.clone(), superblock.layout);
    let header = (0..2).flat_map(|copy| (0..32).map(move |word| copy * PAGE + word * 8));
    let roots = (CATALOGUE..CATALOGUE + 64).step_by(8);
    let table = (layout.table..layout.table + 256).step_by(8);
    let used = |at: &u64| memory.load(*at) != 0;
    let in_log = (log.start + PAGE..log.end).step_by(8).filter(used).step_by(7).take(100);
    let log = (log.start..log.start + 320).step_by(8);
    let mut detected = 0;
    for at in header.chain(roots).chain(table).chain(log).filter(used).chain(in_log) {
        let damaged = copy(&memory);
        flip(&damaged, at);
        let read = open(engine, &damaged)
            .map_err(|error| error.to_string())
            .and_then(|heap| contents(&*heap).map_err(|error| error.to_string()));
        match read {
            Err(_) => detected += 1,
            Ok(found) => assert_eq!(found, wanted, "{} closed {closed}, {at:#x}", engine.name),
        }
    }
    assert!(detected > 10, "{}: only {detected} were detected", engine.name);
}

#[test]
fn header_log_page_table_and_roots_are_always_covered() {
    for engine in Family::all() {
        damage_of_the_rest(engine, true);
    }
    for engine in Family::crash_consistent() {
        damage_of_the_rest(engine, false);
    }
}

/// A pool in use loses the newer copy of its header: the older says that it was closed.
#[test]
fn an_older_header_loses_nothing() {
    let (memory, _) = sample(REDO, false);
    let newest = Superblock::read(&*memory).unwrap().sequence % 2 * PAGE;
    memory.store(newest + 248, 0);
    assert_eq!(Superblock::read(&*memory).unwrap().state, State::Open);
    let heap = open(REDO, &memory).unwrap();
    assert_eq!(heap.recovery().replayed, 3);
    assert_eq!(contents(&*heap).unwrap()[2], vec![3; 3000]);
    // An intact older copy: a write that was lost.
    let (memory, _) = sample(REDO, false);
    let superblock = Superblock::read(&*memory).unwrap();
    let earlier = Superblock { sequence: superblock.sequence - 3, ..superblock };
    Superblock { state: State::Closed, ..earlier }.write(&*memory);
    assert_eq!(Superblock::read(&*memory).unwrap().sequence, superblock_sequence(&memory));
    let heap = open(REDO, &memory).unwrap();
    assert_eq!(heap.recovery().replayed, 3, "what a header says of its log is not believed");
    assert_eq!(contents(&*heap).unwrap()[2], vec![3; 3000]);
}

fn superblock_sequence(memory: &Ram) -> u64 {
    [0, PAGE].map(|at| memory.load(at + 16)).into_iter().max().unwrap()
}

/// The newest checkpoint of the log is lost, after the pool was closed or while it is in use.
#[test]
fn an_older_checkpoint_is_noticed() {
    let (memory, _) = sample(REDO, true);
    let log = Superblock::read(&*memory).unwrap().log.start;
    let newest = [64, 128].into_iter().max_by_key(|slot| memory.load(log + slot)).unwrap();
    flip(&memory, log + newest);
    let refused = open(REDO, &memory);
    assert!(matches!(refused, Err(OpenError::Damaged { at, .. }) if at == log));
}

#[test]
fn a_truncated_pool_is_refused() {
    let (memory, objects) = sample(REDO, true);
    let len = objects[2] - objects[2] % PAGE;
    let mut bytes = vec![0; len as usize];
    memory.copy_out(0, &mut bytes);
    let short = Ram::new(len);
    short.copy_in(0, &bytes);
    let refused = open(REDO, &Arc::new(short));
    assert!(matches!(refused, Err(OpenError::Truncated { needed, .. }) if needed > len));
}
