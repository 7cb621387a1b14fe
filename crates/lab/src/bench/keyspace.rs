//! The server's store as the workloads see it: the same structures, without sockets.

use perdura::{Result, Tx};
use perdura_server::Keyspace;
use perdura_workloads::Records;
use perdura_workloads::records::{EachPair, Rooted};

/// The seed of the keyspace's hash maps: runs must be repeatable, and no client is an attacker.
const SEED: u64 = 0x5EED_0F7E_57ED_0DD5;

/// The server's keyspace, database 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served(Keyspace);

impl Records for Served {
    fn set_fields(&self, tx: &mut dyn Tx, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<()> {
        self.0.set_fields(tx, key, fields)
    }

    fn field(&self, tx: &mut dyn Tx, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.field(tx, key, field)
    }

    fn fields(&self, tx: &mut dyn Tx, key: &[u8], each: &mut EachPair<'_>) -> Result<bool> {
        self.0.fields(tx, key, each)
    }

    fn remove(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<bool> {
        self.0.remove(tx, key)
    }

    fn add(&self, tx: &mut dyn Tx, key: &[u8], score: f64, member: &[u8]) -> Result<bool> {
        self.0.add(tx, key, score, member)
    }

    fn take(&self, tx: &mut dyn Tx, key: &[u8], member: &[u8]) -> Result<bool> {
        self.0.take(tx, key, member)
    }

    fn range(
        &self,
        tx: &mut dyn Tx,
        key: &[u8],
        from: f64,
        each: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<()> {
        self.0.range(tx, key, from, each)
    }

    fn members(&self, tx: &mut dyn Tx, key: &[u8]) -> Result<u64> {
        self.0.members(tx, key)
    }
}

impl Rooted for Served {
    fn create(tx: &mut dyn Tx) -> Result<Self> {
        Keyspace::open_seeded(tx, SEED).map(Served)
    }

    fn find(tx: &mut dyn Tx) -> Result<Option<Self>> {
        Ok(Keyspace::find(tx)?.map(Served))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::alloc::walk::walk;
    use perdura::{Format, Heap, RedoEngine};
    use perdura_memory::{Memory, Ram};
    use perdura_workloads::records::conformance;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn the_keyspace_conforms_and_loses_no_block() {
        for seed in 0..6 {
            let memory = Arc::new(Ram::new(64 << 20));
            let format = Format {
                limit: memory.limit(),
                log: None,
                id: 1,
                requires: None,
                checksums: false,
            };
            let heap = Heap::<_, RedoEngine<_>>::create(memory, format).expect("an empty heap");
            let mut session = heap.session().expect("a session");
            let served = session.transaction(|tx| Served::create(tx)).expect("a keyspace");
            conformance::compare(&served, &mut session, seed, 3_000);
            while session.transaction(|tx| served.0.sweep(tx)).expect("a sweep") {}
            let mut reached = BTreeSet::new();
            let found = session.read(|tx| {
                perdura_server::check(tx, &mut |at| {
                    reached.insert(at);
                    Ok(())
                })
            });
            let found = found.expect("a whole keyspace").expect("a keyspace");
            assert_eq!((found.keys, found.garbage), (0, 0));
            let (blocks, problems) = walk(&**heap.memory(), heap.space().layout());
            assert!(problems.is_empty());
            // The root's own entry belongs to the heap.
            let others = blocks.iter().filter(|block| !reached.contains(&block.at)).count();
            assert_eq!(others, 1, "seed {seed}: a leak");
        }
    }
}
