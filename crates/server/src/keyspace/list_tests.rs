//! Lists against a deque of the standard library, on a heap in plain memory.

use super::chunk::{Chunk, End};
use super::entry::Form;
use super::list::List;
use super::{Database, Entry, garbage, header};
use perdura::Result;
use perdura::testing::TestHeap;
use perdura_testing::seeds;
use std::collections::VecDeque;

/// A small generator: the tests print the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

/// Elements, some of which are equal, of any length: also of more than a chunk has room for.
fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(20) {
        0 => 900 + random.below(300),
        1 => 4000 + random.below(3000),
        2 => random.below(400),
        3 => 120 + random.below(16),
        _ => random.below(12),
    };
    vec![b'a' + random.below(3) as u8; len]
}

struct Bench {
    heap: TestHeap,
    db: Database,
    entry: Option<Entry>,
    model: VecDeque<Vec<u8>>,
}

impl Bench {
    fn new() -> Self {
        let mut heap = TestHeap::new();
        let at = header::open(&mut heap, 1).unwrap().unwrap();
        heap.commit();
        Bench { heap, db: Database::new(at, 0), entry: None, model: VecDeque::new() }
    }

    fn change<R>(
        &mut self,
        change: impl FnOnce(&mut TestHeap, Database, &mut List) -> Result<R>,
    ) -> R {
        let mut list = List::load(&mut self.heap, self.entry).unwrap();
        let result = change(&mut self.heap, self.db, &mut list).unwrap();
        let len = list.len();
        if self.entry.is_some() || len > 0 {
            let entry = list.save(&mut self.heap).unwrap();
            self.entry = Some(entry);
            if len == 0 {
                self.discard();
            }
        }
        result
    }

    fn discard(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.db.discard(&mut self.heap, entry).unwrap();
        }
    }

    fn step(&mut self, random: &mut Random) {
        let len = self.model.len();
        let end = if random.below(2) == 0 { End::Left } else { End::Right };
        let at = random.below(len.max(1));
        match random.below(16) {
            0..6 => {
                let value = value(random);
                self.change(|heap, _, list| list.push(heap, end, &value));
                match end {
                    End::Left => self.model.push_front(value),
                    End::Right => self.model.push_back(value),
                }
            }
            6..9 => {
                let popped = self.change(|heap, _, list| list.pop(heap, end));
                let expected = match end {
                    End::Left => self.model.pop_front(),
                    End::Right => self.model.pop_back(),
                };
                assert!(popped == expected, "popped another element");
            }
            9 => {
                let value = value(random);
                let there = self.change(|heap, _, list| list.set(heap, at as u64, &value));
                assert_eq!(there, len > 0);
                if there {
                    self.model[at] = value;
                }
            }
            10 | 11 => {
                let (value, after) = (value(random), random.below(2) == 1);
                let Some(pivot) = self.model.get(at).cloned() else { return };
                assert!(self.change(|heap, _, list| list.insert(heap, &pivot, after, &value)));
                let place = self.model.iter().position(|one| *one == pivot).unwrap();
                self.model.insert(place + usize::from(after), value);
            }
            12 => {
                let Some(gone) = self.model.get(at).cloned() else { return };
                let most = 1 + random.below(5);
                let removed =
                    self.change(|heap, _, list| list.remove(heap, &gone, end, most as u64));
                let mut expected = 0;
                while expected < most as u64 {
                    let mut places = self.model.iter();
                    let place = match end {
                        End::Left => places.position(|one| *one == gone),
                        End::Right => places.rposition(|one| *one == gone),
                    };
                    let Some(place) = place else { break };
                    self.model.remove(place);
                    expected += 1;
                }
                assert_eq!(removed, expected);
            }
            13 if random.below(8) == 0 && len > 1 => {
                let count = 1 + random.below(len - 1);
                self.change(|heap, db, list| list.cut(heap, db, end, count as u64));
                match end {
                    End::Left => drop(self.model.drain(..count)),
                    End::Right => self.model.truncate(len - count),
                }
            }
            14 if random.below(100) == 0 => {
                self.discard();
                self.model.clear();
            }
            _ => {
                let mut list = List::load(&mut self.heap, self.entry).unwrap();
                let got = list.get(&mut self.heap, at as u64).unwrap();
                assert!(got.as_ref() == self.model.get(at), "another element at {at}");
                assert!(list.pop(&mut self.heap, end).is_ok());
                self.heap.abort();
                return;
            }
        }
        self.heap.commit();
    }

    fn check(&mut self) {
        let list = List::load(&mut self.heap, self.entry).unwrap();
        assert_eq!(list.len(), self.model.len() as u64);
        for backwards in [false, true] {
            let from = if backwards { list.len().saturating_sub(1) } else { 0 };
            let mut all = Vec::new();
            list.walk(&mut self.heap, from, backwards, &mut |tx, item| {
                all.push(item.read(tx)?);
                Ok::<bool, perdura::Error>(true)
            })
            .unwrap();
            if backwards {
                all.reverse();
            }
            assert!(all.iter().eq(&self.model), "backwards: {backwards}");
        }
        let mut blocks = std::collections::BTreeSet::new();
        if self.entry.is_some() {
            let mut visit = |at| {
                assert!(blocks.insert(at), "{at:#x} twice");
                Ok(())
            };
            list.check(&mut self.heap, &mut visit).unwrap();
        }
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
        for step in 0..1500 {
            bench.step(&mut random);
            if step % 50 == 0 {
                bench.check();
            }
        }
        bench.check();
    }
}

/// A queue, whose elements go in at one end and out at the other: it takes no more blocks with time, and a push
/// writes few words.
#[test]
fn a_queue_stays_small() {
    let mut bench = Bench::new();
    for (first, second) in [(End::Right, End::Left), (End::Left, End::Right)] {
        for number in 0..20_000_u32 {
            bench.change(|heap, _, list| list.push(heap, first, &number.to_le_bytes()));
            if number >= 500 {
                let popped = bench.change(|heap, _, list| list.pop(heap, second)).unwrap();
                assert_eq!(popped, (number - 500).to_le_bytes());
            }
            bench.heap.commit();
        }
        assert!(bench.heap.live() < 10, "{} blocks", bench.heap.live());
        bench.discard();
        bench.heap.commit();
    }
}

/// A list that says it is empty is damaged: it would be no key.
#[test]
fn a_list_with_a_count_of_zero_is_damaged() {
    use perdura::Access;
    let mut bench = Bench::new();
    for number in 0..2000_u32 {
        bench.change(|heap, _, list| list.push(heap, End::Right, &number.to_le_bytes()));
        bench.heap.commit();
        if ![0, 1999].contains(&number) {
            continue;
        }
        let entry = bench.entry.expect("a list");
        let head = bench.heap.read_word(entry.at()).unwrap();
        match entry.form() {
            // No elements, and no bytes.
            Form::Chunk => {
                let start = head & 0xF_FFFF;
                let empty = head >> 56 << 56 | start << 20 | start;
                bench.heap.write_word(entry.at(), empty).unwrap();
            }
            _ => bench.heap.write_word(entry.at() + 8, 0).unwrap(),
        }
        assert!(List::load(&mut bench.heap, Some(entry)).is_err());
        bench.heap.abort();
        assert!(List::load(&mut bench.heap, Some(entry)).is_ok());
    }
}

/// Whatever words a chunk has: an error at worst.
#[test]
fn damaged_chunks_are_noticed() {
    use perdura::Access;
    for seed in seeds(0, 30) {
        println!("PERDURA_TEST_SEED={seed}");
        let (mut bench, mut random) = (Bench::new(), Random(seed));
        for _ in 0..400 {
            bench.step(&mut random);
        }
        let Some(entry) = bench.entry else { continue };
        for _ in 0..50 {
            let list = List::load(&mut bench.heap, Some(entry)).unwrap();
            let at = if random.below(2) == 0 { entry.at() } else { list.first };
            let bits = 1 << random.below(64) | 1 << random.below(64);
            let at = at + 8 * random.below(6) as u64;
            let Ok(word) = bench.heap.read_word(at) else { continue };
            bench.heap.write_word(at, word ^ bits).unwrap();
            if let Ok(mut list) = List::load(&mut bench.heap, Some(entry)) {
                let _ = list.check(&mut bench.heap, &mut |_| Ok(()));
                let _ = list.get(&mut bench.heap, list.len() / 3);
                let _ = list.remove(&mut bench.heap, b"a", End::Right, 9);
                let _ = list.insert(&mut bench.heap, b"bb", true, b"c");
                let _ = list.set(&mut bench.heap, list.len() / 2, b"c");
                let _ = list.pop(&mut bench.heap, End::Left);
                let _ = list.push(&mut bench.heap, End::Right, b"x");
                let _ = list.push(&mut bench.heap, End::Left, b"y");
                let _ = Chunk::load(&mut bench.heap, list.last);
            }
            bench.heap.abort();
        }
    }
}
