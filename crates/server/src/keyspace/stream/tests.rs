//! Streams beside a plain list of their entries, and groups beside a plain map, on a heap in plain memory.

use super::super::entry::Entry as KeyEntry;
use super::super::{Database, garbage, header};
use super::{Excess, Group, Id, Stream, Trim};
use perdura::testing::TestHeap;
use perdura::{Access, Error};
use perdura_testing::seeds;
use std::collections::{BTreeMap, BTreeSet};

/// A small generator: the tests print the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

const ALL: (Id, Id) = (Id::MIN, Id::MAX);
const CONSUMERS: [&[u8]; 3] = [b"one", b"", b"a consumer whose name is longer than 23 bytes"];

struct Bench {
    heap: TestHeap,
    db: Database,
    entry: KeyEntry,
    entries: BTreeMap<Id, Vec<Vec<u8>>>,
    last: Id,
    /// Of the group: who has an entry, and how often it was delivered.
    pending: BTreeMap<Id, (usize, u64)>,
}

impl Bench {
    fn new() -> Self {
        let mut heap = TestHeap::new();
        let at = header::open(&mut heap, 1).unwrap().unwrap();
        let mut stream = Stream::create(&mut heap).unwrap();
        stream.create_group(&mut heap, b"group", Id::MIN, None).unwrap();
        let entry = stream.save(&mut heap).unwrap();
        heap.commit();
        let (entries, pending) = (BTreeMap::new(), BTreeMap::new());
        Bench { heap, db: Database::new(at, 0), entry, entries, last: Id::MIN, pending }
    }

    fn stream(&mut self) -> Stream {
        Stream::load(&mut self.heap, self.entry).unwrap()
    }

    fn group(&mut self) -> Group {
        let stream = self.stream();
        stream.group(&mut self.heap, b"group").unwrap().expect("a group")
    }

    /// An ID near the present ones.
    fn id(&self, random: &mut Random) -> Id {
        Id { ms: random.below(self.last.ms + 3), seq: random.below(4) }
    }

    fn step(&mut self, random: &mut Random, most: u64) {
        match random.below(20) {
            0..=8 => self.append(random, most),
            9 | 10 => {
                let id = self.id(random);
                let mut stream = self.stream();
                let was_there = stream.remove(&mut self.heap, id).unwrap();
                assert_eq!(was_there, self.entries.remove(&id).is_some());
                stream.save(&mut self.heap).unwrap();
            }
            11 => self.trim(random),
            12..=16 => {
                let (group, id, who) = (self.group(), self.id(random), random.below(3) as usize);
                let consumer = match group.consumer(&mut self.heap, CONSUMERS[who]).unwrap() {
                    Some(consumer) => consumer,
                    None => group.create_consumer(&mut self.heap, CONSUMERS[who], 5).unwrap(),
                };
                let count = random.below(9);
                group.assign(&mut self.heap, id, consumer, (7, count)).unwrap();
                self.pending.insert(id, (who, count));
            }
            17 | 18 => {
                let id = self.id(random);
                let acknowledged = self.group().acknowledge(&mut self.heap, id).unwrap();
                assert_eq!(acknowledged, self.pending.remove(&id).is_some());
            }
            _ if random.below(4) == 0 => {
                let (group, who) = (self.group(), random.below(3) as usize);
                let (heap, db) = (&mut self.heap, self.db);
                let removed = group.remove_consumer(heap, db, CONSUMERS[who]).unwrap();
                let before = self.pending.len();
                self.pending.retain(|_, (owner, _)| *owner != who);
                assert_eq!(removed.unwrap_or(0), (before - self.pending.len()) as u64);
            }
            _ => {}
        }
        self.heap.commit();
    }

    fn append(&mut self, random: &mut Random, most: u64) {
        let last = self.last;
        let id = match random.below(3) {
            0 => Id { ms: last.ms + 1 + random.below(2), seq: random.below(3) },
            _ => Id { seq: last.seq + 1, ..last },
        };
        let texts: Vec<Vec<u8>> = (0..2 * (1 + random.below(3)))
            .map(|_| match random.below(30) {
                0 => vec![b'l'; 900 + random.below(4000) as usize],
                _ => vec![b's'; random.below(60) as usize],
            })
            .collect();
        let mut stream = self.stream();
        let given = texts.iter().map(Vec::as_slice);
        stream.append(&mut self.heap, id, given, most).unwrap();
        stream.save(&mut self.heap).unwrap();
        self.entries.insert(id, texts);
        self.last = id;
    }

    fn trim(&mut self, random: &mut Random) {
        let excess = match random.below(2) {
            0 => Excess::Beyond(random.below(self.entries.len() as u64 + 9)),
            _ => Excess::Before(self.id(random)),
        };
        let approximate = random.below(2) == 0;
        let limit = if approximate { random.below(200) } else { 0 };
        let mut stream = self.stream();
        let trim = Trim { excess, approximate, limit };
        let removed = stream.trim(&mut self.heap, self.db, trim).unwrap();
        let wanted = match excess {
            Excess::Beyond(most) => (self.entries.len() as u64).saturating_sub(most),
            Excess::Before(id) => self.entries.range(..id).count() as u64,
        };
        assert!(removed == wanted || approximate && removed < wanted, "{removed} of {wanted}");
        assert!(limit == 0 || removed <= limit);
        for _ in 0..removed {
            self.entries.pop_first();
        }
        stream.save(&mut self.heap).unwrap();
    }

    fn check(&mut self, random: &mut Random) {
        let stream = self.stream();
        assert_eq!(stream.len(), self.entries.len() as u64);
        let some = {
            let (from, to) = (self.id(random), self.id(random));
            (from.min(to), from.max(to))
        };
        for (range, backwards) in [(ALL, false), (ALL, true), (some, false), (some, true)] {
            let mut found = Vec::new();
            stream
                .walk(&mut self.heap, range, backwards, &mut |_, entry| {
                    let texts: Vec<Vec<u8>> = entry.texts.iter().map(<[u8]>::to_vec).collect();
                    found.push((entry.id, texts));
                    Ok::<bool, Error>(true)
                })
                .unwrap();
            if backwards {
                found.reverse();
            }
            let expected = self.entries.range(range.0..=range.1);
            assert!(found.iter().map(|(id, texts)| (id, texts)).eq(expected), "{range:?}");
        }
        let first = self.entries.first_key_value().map_or(Id::MIN, |(id, _)| *id);
        let top = self.entries.last_key_value().map_or(Id::MIN, |(id, _)| *id);
        assert_eq!(stream.first_id(&mut self.heap).unwrap(), first);
        assert_eq!(stream.top_id(&mut self.heap).unwrap(), top);
        let group = self.group();
        let mut pending = Vec::new();
        group
            .walk(&mut self.heap, ALL, None, &mut |tx, id, one| {
                let name = one.consumer().name(tx)?;
                let who = CONSUMERS.iter().position(|consumer| *consumer == name).unwrap();
                pending.push((id, (who, one.count)));
                Ok::<bool, Error>(true)
            })
            .unwrap();
        assert!(pending.into_iter().eq(self.pending.iter().map(|(id, one)| (*id, *one))));
        let mut blocks = BTreeSet::new();
        let mut visit = |at| {
            assert!(blocks.insert(at), "{at:#x} twice");
            Ok(())
        };
        stream.check(&mut self.heap, &mut visit).unwrap();
        while garbage::sweep(&mut self.heap, self.db.header(), 7).unwrap() {
            self.heap.commit();
        }
        self.heap.commit();
        // The keyspace's header, and the last block of its garbage list.
        assert_eq!(self.heap.live(), blocks.len() + 2);
    }
}

#[test]
fn random_changes() {
    for seed in seeds(0, 20) {
        println!("PERDURA_TEST_SEED={seed}");
        let (mut bench, mut random) = (Bench::new(), Random(seed));
        let most = [3, 100, 20][seed as usize % 3];
        for step in 0..1500 {
            bench.step(&mut random, most);
            if step % 50 == 0 {
                bench.check(&mut random);
            }
        }
        bench.check(&mut random);
        // It is freed bit by bit, and is whole in between.
        garbage::discard(&mut bench.heap, bench.db.header(), bench.entry).unwrap();
        bench.heap.commit();
        let mut goes_on = true;
        while goes_on {
            super::super::check(&mut bench.heap, &mut |_| Ok(())).unwrap().unwrap();
            goes_on = garbage::sweep(&mut bench.heap, bench.db.header(), 5).unwrap();
            bench.heap.commit();
        }
        assert_eq!(bench.heap.live(), 2);
    }
}

/// Whatever words a stream has: an error at worst.
#[test]
fn damage_is_an_error_at_worst() {
    for seed in seeds(0, 30) {
        println!("PERDURA_TEST_SEED={seed}");
        let (mut bench, mut random) = (Bench::new(), Random(seed));
        for _ in 0..300 {
            bench.step(&mut random, 20);
        }
        let mut blocks = Vec::new();
        let stream = bench.stream();
        stream
            .check(&mut bench.heap, &mut |at| {
                blocks.push(at);
                Ok(())
            })
            .unwrap();
        for _ in 0..200 {
            let at = match random.below(3) {
                0 => bench.entry.at(),
                _ => blocks[random.below(blocks.len() as u64) as usize],
            };
            let at = at + 8 * random.below(11);
            let Ok(word) = bench.heap.read_word(at) else { continue };
            let bits = 1 << random.below(64) | 1 << random.below(64);
            bench.heap.write_word(at, word ^ bits).unwrap();
            if let Ok(mut stream) = Stream::load(&mut bench.heap, bench.entry) {
                let (heap, db) = (&mut bench.heap, bench.db);
                let _ = stream.check(heap, &mut |_| Ok(()));
                let _ = stream.copy(heap, 100);
                let _ = stream.get(heap, Id { ms: 5, seq: 1 });
                let _ = stream.remove(heap, Id { ms: 9, seq: 1 });
                let _ = stream.extent(heap);
                if let Ok(Some(group)) = stream.group(heap, b"group") {
                    let _ = group.acknowledge(heap, Id { ms: 3, seq: 1 });
                    let _ = group.remove_consumer(heap, db, CONSUMERS[2]);
                    if let Ok(Some(consumer)) = group.consumer(heap, CONSUMERS[0]) {
                        let _ = group.assign(heap, Id { ms: 4, seq: 0 }, consumer, (1, 1));
                    }
                }
                for excess in [Excess::Before(Id { ms: 30, seq: 0 }), Excess::Beyond(10)] {
                    let trim = Trim { excess, approximate: false, limit: 0 };
                    let _ = stream.trim(heap, db, trim);
                }
                let id = Id { ms: u64::MAX, seq: 0 };
                let _ = stream.append(heap, id, [b"a".as_slice(), b"b"].into_iter(), 100);
                let _ = stream.remove_group(heap, db, b"group");
            }
            bench.heap.abort();
        }
    }
}
