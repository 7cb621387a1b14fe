//! Initial pools: small, in plain memory, abandoned while in use, so that their logs hold records.

use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Vector, kind};
use perdura::{AnyHeap, EngineKind, Format, Memory, Purpose, Root, Tx};
use perdura_memory::{AnyMemory, Ram};
use std::sync::{Arc, LazyLock};

/// Bytes of a pool.
pub(crate) const BYTES: u64 = 640 << 10;
const LIMIT: u64 = 1 << 20;

/// For each engine, the contents of a pool's memory when it was abandoned.
pub(crate) static POOLS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| EngineKind::ALL.into_iter().map(pool).collect());

fn pool(engine: EngineKind) -> Vec<u8> {
    let memory = Arc::new(Ram::new(BYTES));
    let format = Format { limit: LIMIT, log: None, id: 1, requires: None, checksums: false };
    let any = Arc::new(AnyMemory::new(memory.clone()));
    let heap = <dyn AnyHeap>::create(engine, any, format).expect("room for a pool");
    let mut session = heap.session().expect("a session");
    session.transaction(fill).expect("room");
    for key in 100..110 {
        session.transaction(|tx| use_collections(tx, key)).expect("room");
    }
    let mut bytes = vec![0; BYTES as usize];
    memory.copy_out(0, &mut bytes);
    bytes
}

fn fill(tx: &mut dyn Tx) -> perdura::Result<()> {
    let map = HashMap::<u64, Bytes>::create(tx)?;
    let ordered = OrderedMap::<u64, u64>::create(tx)?;
    let vector = Vector::<u64>::create(tx)?;
    for key in 0..60u64 {
        map.insert(tx, key, &[b'v'; 40])?;
        ordered.insert(tx, key, key * 2)?;
        vector.push(tx, key)?;
    }
    let blob = Blob::create(tx, Purpose::Value, &[b'b'; 5000])?;
    let roots = [
        ("map", kind::HASH_MAP, map.at()),
        ("ordered", kind::ORDERED_MAP, ordered.at()),
        ("vector", kind::VECTOR, vector.at()),
        ("blob", kind::BLOB, blob.at()),
    ];
    roots.into_iter().try_for_each(|(name, kind, at)| tx.set_root(name, Root { at, kind }))
}

/// Reads and changes the collections of a pool, whatever they are by now; damage is an error.
pub(crate) fn use_collections(tx: &mut dyn Tx, key: u64) -> perdura::Result<()> {
    if let Some(root) = tx.root("map")? {
        let map = HashMap::<u64, Bytes>::new(root.at);
        map.insert(tx, key, &[b'w'; 30])?;
        map.remove(tx, key / 2)?;
    }
    if let Some(root) = tx.root("ordered")? {
        let ordered = OrderedMap::<u64, u64>::new(root.at);
        ordered.insert(tx, key, key)?;
        ordered.remove(tx, key / 2)?;
    }
    if let Some(root) = tx.root("vector")? {
        let vector = Vector::<u64>::new(root.at);
        vector.push(tx, key)?;
        vector.get(tx, key / 3)?;
    }
    if let Some(root) = tx.root("blob")? {
        let blob = Blob::new(root.at).append(tx, b"more")?;
        tx.set_root("blob", Root { at: blob.at(), kind: kind::BLOB })?;
    }
    Ok(())
}
