//! Opening a manipulated pool: with every engine, then checking, reading and changing its contents.

use crate::sample::{BYTES, POOLS, use_collections};
use crate::{Target, repair};
use perdura::superblock::{CATALOGUE, Superblock};
use perdura::{AnyHeap, EngineKind, Memory, Opening};
use perdura_memory::{AnyMemory, PAGE, Ram};
use std::ops::Range;
use std::sync::Arc;

pub(crate) const POOL: Target = Target { name: "pool", run: open, seeds, words: &[] };

/// The bytes of an edit: a place, a kind, and a word.
const EDIT: usize = 12;

/// The first bytes choose the pool, the engine that opens it, and whether checksums are corrected; each edit after them
/// changes a word.
fn open(bytes: &[u8]) {
    let Some(([of, by, how, _], edits)) = bytes.split_first_chunk::<4>() else { return };
    let image = &POOLS[usize::from(*of) % POOLS.len()];
    let memory = Ram::new(BYTES);
    memory.copy_in(0, image);
    let superblock = Superblock::read(&memory).expect("the sample is a pool");
    let log = superblock.log.clone();
    let regions = [
        0..256,
        PAGE..PAGE + 256,
        CATALOGUE..CATALOGUE + 64,
        log.start..log.start + 256,
        log.start + PAGE..log.start + 2 * PAGE,
        log.clone(),
        superblock.layout.table..superblock.layout.table + 1024,
        superblock.layout.pages..BYTES,
    ];
    edits.chunks_exact(EDIT).take(64).for_each(|edit| apply(&memory, &regions, edit));
    if how & 1 != 0 {
        repair::log(&memory, log);
    }
    if how & 2 != 0 {
        repair::header(&memory);
    }
    let engine = EngineKind::ALL[usize::from(*by) % EngineKind::ALL.len()];
    let opening = Opening { accept_weaker: true, force: how & 4 != 0 };
    let memory = Arc::new(AnyMemory::new(Arc::new(memory)));
    match <dyn AnyHeap>::open(engine, memory, opening) {
        Ok(heap) => use_heap(&*heap),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn apply(memory: &Ram, regions: &[Range<u64>], edit: &[u8]) {
    let region = &regions[usize::from(edit[0]) % regions.len()];
    let place = u64::from(u16::from_le_bytes([edit[1], edit[2]]));
    let at = region.start + place * 8 % (region.end - region.start);
    let word = u64::from_le_bytes(edit[4..].try_into().expect("eight bytes"));
    let old = memory.load(at);
    let new = match edit[3] % 4 {
        0 => word,
        1 => old ^ word,
        2 => old.wrapping_add(word),
        // A pointer somewhere into the pool.
        _ => (word % BYTES) & !7,
    };
    memory.store(at, new);
}

fn use_heap(heap: &dyn AnyHeap) {
    let _ = heap.check(&|_, _, _| Ok(false));
    let mut session = heap.session().expect("the first session");
    for key in [7, 1 << 40, 50] {
        let _ = session.transaction(|tx| use_collections(tx, key));
    }
    drop(session);
    let _ = heap.checkpoint();
    let _ = heap.check(&|_, _, _| Ok(false));
}

/// Each engine's pool, opened by itself and by another one.
fn seeds() -> Vec<Vec<u8>> {
    let engines = EngineKind::ALL.len() as u8;
    let pairs = (0..engines).flat_map(|of| [(of, of), (of, (of + 3) % engines)]);
    pairs
        .enumerate()
        .map(|(index, (of, by))| {
            let mut bytes = vec![of, by, 7, 0];
            for edit in 0..4u8 {
                bytes.extend([edit * 3 + index as u8, edit * 5, 0, edit]);
                bytes.extend(u64::from(edit).to_le_bytes());
            }
            bytes
        })
        .collect()
}
