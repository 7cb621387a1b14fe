//! Fragmentation: values of all sizes, a half deleted, and others of other sizes in their place. No write is
//! refused while 15 % of the pool is free, on any engine.

use crate::common::{Client, Frame, Random, Running, encode, show};
use perdura::{Domain, EngineKind};
use perdura_testing::{seeds, times};
use std::collections::BTreeMap;

/// How much of the space that was free at the beginning is filled, in percent: 10 % are left free at first, and 15 %
/// later.
const FILLED: u64 = 90;
const REFILLED: u64 = 85;
/// Bytes that a key and its value's blocks may take beside the value, and the largest segment of a map.
const BESIDE: u64 = 64 << 10;
const SEGMENT: u64 = 1 << 20;
/// Bytes of the map for each key, at most.
const SLOT: u64 = 48;

/// Bytes of the pool.
fn size() -> u64 {
    times(12) << 20
}

/// Sizes of values.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// From 16 bytes to this, each order of magnitude as often as another.
    Spread(u64),
    /// All of them.
    One(u64),
    /// From the one to the other.
    Between(u64, u64),
}

impl Sizes {
    fn draw(self, random: &mut Random) -> usize {
        match self {
            Sizes::One(len) => len as usize,
            Sizes::Between(least, most) => (least + random.next() % (most - least)) as usize,
            Sizes::Spread(most) => {
                let bits = 4 + random.below(most.ilog2() as usize - 3);
                ((1u64 << bits) + random.next() % (1 << bits)).min(most) as usize
            }
        }
    }
}

/// The value of a key: its number, again and again.
fn value(key: u64, len: usize) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn name(key: u64) -> Vec<u8> {
    // Every fourth does not fit into its entry.
    if key.is_multiple_of(4) {
        format!("a rather long name of a key:{key}")
    } else {
        format!("key:{key}")
    }
    .into_bytes()
}

/// A pool that is filled, and its expected contents.
struct Filled {
    running: Running,
    client: Client,
    random: Random,
    /// Lengths, by the keys' numbers.
    keys: BTreeMap<u64, usize>,
    next: u64,
    room: u64,
}

impl Filled {
    fn free(&self) -> u64 {
        let info = self.running.pool.info();
        info.free_bytes + info.usage.limbo_bytes
    }

    /// Sets new keys until so many percent are used.
    fn fill(&mut self, sizes: Sizes, percent: u64) {
        let least = self.room * (100 - percent) / 100;
        loop {
            // The map grows by a segment as large as all that it has.
            let segment = (self.keys.len() as u64 * SLOT).min(SEGMENT);
            let left = self.free().saturating_sub(least + BESIDE + segment);
            let mut batch = Vec::new();
            let (mut bytes, mut lens) = (0, Vec::new());
            // No more at once than surely has room.
            while lens.len() < 200 && bytes * 2 < left {
                let len = sizes.draw(&mut self.random);
                bytes += len as u64 + 300;
                if bytes > left {
                    break;
                }
                let key = self.next + lens.len() as u64;
                batch.extend(encode(&[b"SET", &name(key), &value(key, len)]));
                lens.push(len);
            }
            if lens.is_empty() {
                return;
            }
            self.client.send(&batch);
            for len in lens {
                let answer = show(&self.client.receive().expect("an answer"));
                if answer != "OK" {
                    let (free, usage) = (self.free(), self.running.pool.info().usage);
                    panic!(
                        "{len} bytes, of {sizes:?}: {answer}: {free} of {} are free, {usage:?}",
                        self.room
                    );
                }
                self.keys.insert(self.next, len);
                self.next += 1;
            }
        }
    }

    /// Deletes every second key, a random half, or the first half.
    fn halve(&mut self) {
        let keys: Vec<u64> = self.keys.keys().copied().collect();
        let way = self.random.below(3);
        let gone: Vec<u64> = match way {
            0 => keys.iter().copied().step_by(2).collect(),
            1 => keys.iter().copied().filter(|_| self.random.below(2) == 0).collect(),
            _ => keys[..keys.len() / 2].to_vec(),
        };
        for some in gone.chunks(100) {
            let names: Vec<Vec<u8>> = some.iter().map(|key| name(*key)).collect();
            let mut args: Vec<&[u8]> = vec![b"DEL"];
            args.extend(names.iter().map(Vec::as_slice));
            assert_eq!(self.client.call(&args), Frame::Integer(some.len() as i64));
        }
        self.keys.retain(|key, _| gone.binary_search(key).is_err());
    }

    /// Everything is there.
    fn compare(&mut self) {
        let keys: Vec<(u64, usize)> = self.keys.iter().map(|(key, len)| (*key, *len)).collect();
        for some in keys.chunks(100) {
            let batch: Vec<u8> =
                some.iter().flat_map(|(key, _)| encode(&[b"GET", &name(*key)])).collect();
            self.client.send(&batch);
            for (key, len) in some {
                let answer = self.client.receive().expect("an answer");
                assert!(answer == Frame::Text(value(*key, *len)), "key {key} of {len} bytes");
            }
        }
        assert_eq!(self.running.check().keys, self.keys.len() as u64);
    }
}

fn filled(engine: EngineKind, bytes: u64, seed: u64) -> Filled {
    let folder = tempfile::tempdir().unwrap();
    let pool = perdura::Options::new().size(bytes).engine(engine).domain(Some(Domain::Process));
    let pool = pool.create(folder.path().join("pool")).unwrap();
    let mut running = Running::on(pool, |options| options.threads(1));
    running.adopt(Some(folder));
    let client = running.client();
    let room = running.pool.info().free_bytes;
    Filled { running, client, random: Random::new(seed), keys: BTreeMap::new(), next: 0, room }
}

const MIXES: [Sizes; 6] = [
    Sizes::Spread(1 << 20),
    Sizes::One(1_000),
    Sizes::Between(4_500, 20_000),
    Sizes::Between(16, 400),
    Sizes::Spread(1 << 20),
    Sizes::One(100),
];

fn churn(engine: EngineKind, bytes: u64, seed: u64, rounds: u64) {
    println!("engine {engine}, seed {seed}");
    let mut filled = filled(engine, bytes, seed);
    let mut mix = filled.random.below(MIXES.len());
    filled.fill(MIXES[mix], FILLED);
    for _ in 0..rounds {
        filled.halve();
        mix = (mix + 1 + filled.random.below(MIXES.len() - 1)) % MIXES.len();
        filled.fill(MIXES[mix], REFILLED);
    }
    filled.compare();
}

#[test]
fn no_write_is_refused_while_there_is_room() {
    let seed = seeds(1, 1).start;
    let engines = EngineKind::ALL.into_iter().filter(|engine| engine.rolls_back());
    for (index, engine) in engines.enumerate() {
        churn(engine, size(), seed + index as u64, 2);
    }
}

/// Of values of 1 KB, each page has some left: without moving them, none of 5 KB has a place.
#[test]
fn small_values_make_room_for_large_ones_and_large_ones_for_small() {
    for (first, second) in [(1_000, 5_000), (5_000, 100), (100, 1_000)] {
        let mut filled = filled(EngineKind::Redo, size(), 7);
        filled.fill(Sizes::One(first), FILLED);
        filled.halve();
        filled.fill(Sizes::One(second), REFILLED);
        filled.compare();
    }
}
