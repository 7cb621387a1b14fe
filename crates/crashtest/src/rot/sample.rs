//! A pool in a file with known contents: how it is made, and how it is read.

use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Vector, kind};
use perdura::superblock::Superblock;
use perdura::{EngineKind, Error, Handle, OpenError, Options, Purpose, Result, Root, Tx};
use perdura_memory::Mapped;
use perdura_memory::random::SplitMix64;
use std::collections::BTreeMap;
use std::path::Path;

/// The size to which a pool may grow; and the size of its log, which is small enough to be reused several times.
const SIZE: u64 = 4 << 20;
const LOG: u64 = 256 << 10;
/// Transactions before the older version is copied, and after.
const BEFORE: u64 = 150;
const AFTER: u64 = 60;

/// The contents of the collections.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Contents {
    map: BTreeMap<u64, Vec<u8>>,
    ordered: BTreeMap<u64, u64>,
    vector: Vec<u64>,
    blob: Vec<u8>,
}

/// A pool, as bytes.
pub(super) struct Sample {
    pub(super) engine: EngineKind,
    pub(super) closed: bool,
    pub(super) bytes: Vec<u8>,
    /// The file's contents of some transactions ago.
    pub(super) older: Vec<u8>,
    pub(super) superblock: Superblock,
    pub(super) contents: Contents,
}

impl Sample {
    /// Makes one: fills it, opens it again, copies the older version, continues, and then closes it or takes the file's
    /// contents while it is open.
    pub(super) fn make(
        engine: EngineKind,
        closed: bool,
        options: &Options,
        seed: u64,
        folder: &Path,
    ) -> Result<Self, OpenError> {
        let path = folder.join("sample.pool");
        let _ = std::fs::remove_file(&path);
        let io = |error: std::io::Error| OpenError::from(Error::from(error));
        let (mut random, mut contents) = (SplitMix64::new(seed), Contents::default());
        let options = options.clone().size(SIZE).log(LOG);
        let pool = options.create(&path)?;
        let mut session = pool.session()?;
        session.transaction(|tx| contents.create(tx))?;
        contents.change_often(&mut session, &mut random, BEFORE)?;
        // The older version is from the same run as the damaged one, or from the previous one.
        let (same_run, mut older) = (random.below(2) == 0, Vec::new());
        if !same_run {
            older = std::fs::read(&path).map_err(io)?;
        }
        drop(session);
        pool.close()?;
        let pool = options.open(&path)?;
        let mut session = pool.session()?;
        contents.change_often(&mut session, &mut random, AFTER)?;
        if same_run {
            older = std::fs::read(&path).map_err(io)?;
        }
        contents.change_often(&mut session, &mut random, AFTER)?;
        if closed {
            drop(session);
            pool.close()?;
        }
        let bytes = std::fs::read(&path).map_err(io)?;
        let superblock = Superblock::read(&Mapped::open_read_only(&path)?)?;
        Ok(Sample { engine, closed, bytes, older, superblock, contents })
    }
}

/// The collections' names, kinds and places.
fn root(tx: &mut dyn Tx, name: &str, kind: u32) -> Result<Option<u64>> {
    Ok(tx.root(name)?.filter(|root| root.kind == kind).map(|root| root.at))
}

fn handle(tx: &mut dyn Tx, name: &str, kind: u32) -> Result<u64> {
    root(tx, name, kind)?.ok_or(Error::Invalid("a root of the sample is not there"))
}

impl Contents {
    fn create(&self, tx: &mut dyn Tx) -> Result<()> {
        let roots = [
            ("map", kind::HASH_MAP, HashMap::<u64, Bytes>::create_seeded(tx, 1)?.at()),
            ("ordered", kind::ORDERED_MAP, OrderedMap::<u64, u64>::create(tx)?.at()),
            ("vector", kind::VECTOR, Vector::<u64>::create(tx)?.at()),
            ("blob", kind::BLOB, Blob::create(tx, Purpose::Value, b"")?.at()),
        ];
        roots.into_iter().try_for_each(|(name, kind, at)| tx.set_root(name, Root { at, kind }))
    }

    fn change_often(
        &mut self,
        session: &mut Handle,
        random: &mut SplitMix64,
        transactions: u64,
    ) -> Result<()> {
        for _ in 0..transactions {
            let (seed, mut changed) = (random.next(), self.clone());
            session.transaction(|tx| {
                changed = self.clone();
                let mut random = SplitMix64::new(seed);
                (0..1 + random.below(4)).try_for_each(|_| changed.change(tx, &mut random))
            })?;
            *self = changed;
        }
        Ok(())
    }

    /// One change of the pool and of these contents.
    fn change(&mut self, tx: &mut dyn Tx, random: &mut SplitMix64) -> Result<()> {
        let map = HashMap::<u64, Bytes>::new(handle(tx, "map", kind::HASH_MAP)?);
        let ordered = OrderedMap::<u64, u64>::new(handle(tx, "ordered", kind::ORDERED_MAP)?);
        let vector = Vector::<u64>::new(handle(tx, "vector", kind::VECTOR)?);
        let key = random.below(400);
        match random.below(10) {
            0..4 => {
                let len = if random.below(12) == 0 { 6000 } else { random.below(200) };
                let value: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
                map.insert(tx, key, &value)?;
                self.map.insert(key, value);
            }
            4 => {
                map.remove(tx, key)?;
                self.map.remove(&key);
            }
            5 | 6 => {
                let value = random.next();
                ordered.insert(tx, key, value)?;
                self.ordered.insert(key, value);
            }
            7 => {
                ordered.remove(tx, key)?;
                self.ordered.remove(&key);
            }
            8 => {
                let value = random.next();
                vector.push(tx, value)?;
                self.vector.push(value);
            }
            _ => {
                let len = random.below(1500);
                let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
                let blob = Blob::new(handle(tx, "blob", kind::BLOB)?).set(tx, &bytes)?;
                tx.set_root("blob", Root { at: blob.at(), kind: kind::BLOB })?;
                self.blob = bytes;
            }
        }
        Ok(())
    }

    /// Reads everything in a pool, by walking and by looking up the keys of `wanted`. A walk that does not end is
    /// damage that was noticed.
    pub(super) fn read(tx: &mut dyn Tx, wanted: &Contents) -> Result<Self> {
        let mut read = Contents::default();
        let ends = |len: usize| match len {
            0..100_000 => Ok(()),
            _ => Err(Error::corrupt("a collection without an end", 0)),
        };
        if let Some(at) = root(tx, "map", kind::HASH_MAP)? {
            let map = HashMap::<u64, Bytes>::new(at);
            map.for_each(tx, &mut |key, value| {
                read.map.insert(key, value);
                ends(read.map.len())
            })?;
            for (key, value) in &wanted.map {
                if map.get(tx, *key)?.as_ref() != Some(value) {
                    read.map.remove(key);
                }
            }
        }
        if let Some(at) = root(tx, "ordered", kind::ORDERED_MAP)? {
            let (map, mut steps) = (OrderedMap::<u64, u64>::new(at), 0);
            map.for_each(tx, &mut |key, value| {
                read.ordered.insert(key, value);
                steps += 1;
                ends(steps)
            })?;
            for (key, value) in &wanted.ordered {
                if map.get(tx, *key)? != Some(*value) {
                    read.ordered.remove(key);
                }
            }
        }
        if let Some(at) = root(tx, "vector", kind::VECTOR)? {
            Vector::<u64>::new(at).for_each(tx, &mut |value| {
                read.vector.push(value);
                ends(read.vector.len())
            })?;
        }
        if let Some(at) = root(tx, "blob", kind::BLOB)? {
            read.blob = Blob::new(at).read(tx)?;
        }
        Ok(read)
    }

    /// The difference between these contents and those that were read, if there is one.
    pub(super) fn differs_from(&self, read: &Contents) -> Option<String> {
        let parts = [
            ("map", self.map == read.map),
            ("ordered map", self.ordered == read.ordered),
            ("vector", self.vector == read.vector),
            ("blob", self.blob == read.blob),
        ];
        let wrong: Vec<&str> =
            parts.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect();
        (!wrong.is_empty()).then(|| format!("wrong contents of: {}", wrong.join(", ")))
    }
}
