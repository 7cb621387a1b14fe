//! Collections in a damaged pool: errors, no panics, no endless walks.

use perdura::collections::model::Rng;
use perdura::collections::{
    Bytes, HashMap, OrderedMap, Pair, Total, Vector, check_root, destroy_root_some, kind,
};
use perdura::testing::TestHeap;
use perdura::tx::Root;
use perdura::{Result, Tx};

struct All {
    hash: HashMap<Bytes, Bytes>,
    words: HashMap<u64, u64, false>,
    ordered: OrderedMap<Pair<Total, Bytes>, (), true>,
    plain: OrderedMap<u64, u64>,
    vector: Vector<u64>,
}

impl All {
    fn fill(tx: &mut dyn Tx, rng: &mut Rng) -> Result<All> {
        let all = All {
            hash: HashMap::create(tx)?,
            words: HashMap::create(tx)?,
            ordered: OrderedMap::create(tx)?,
            plain: OrderedMap::create(tx)?,
            vector: Vector::create(tx)?,
        };
        for _ in 0..300 {
            all.change(tx, rng)?;
        }
        if rng.below(2) == 0 {
            all.hash.use_lanes(tx)?;
        }
        Ok(all)
    }

    /// Every operation once.
    fn change(&self, tx: &mut dyn Tx, rng: &mut Rng) -> Result<()> {
        let (key, value, word) = (rng.bytes(40), rng.bytes(40), rng.below(1000));
        self.hash.insert(tx, &key, &value)?;
        self.words.insert(tx, word, word)?;
        self.ordered.insert(tx, (Total(word as f64), &key), ())?;
        self.plain.insert(tx, word, word)?;
        self.vector.push(tx, word)
    }

    fn read(&self, tx: &mut dyn Tx, rng: &mut Rng) -> Result<()> {
        let (key, word) = (rng.bytes(40), rng.below(1000));
        self.hash.get(tx, &key)?;
        self.hash.random(tx, word)?;
        self.hash.scan(tx, rng.next(), 5)?;
        self.words.len(tx)?;
        self.ordered.rank(tx, (Total(word as f64), &key))?;
        self.ordered.nth(tx, word)?;
        let mut cursor = self.plain.cursor(tx, word..)?;
        while cursor.next(tx)?.is_some() {}
        while cursor.prev(tx)?.is_some() {}
        self.vector.get(tx, word)?;
        Ok(())
    }

    fn remove(&self, tx: &mut dyn Tx, rng: &mut Rng) -> Result<()> {
        let (key, word) = (rng.bytes(40), rng.below(1000));
        self.hash.remove(tx, &key)?;
        self.words.remove(tx, word)?;
        self.ordered.remove(tx, (Total(word as f64), &key))?;
        self.plain.remove(tx, word)?;
        self.vector.pop(tx)?;
        Ok(())
    }

    fn roots(&self) -> [Root; 5] {
        let hash = |at| Root { at, kind: kind::HASH_MAP };
        let ordered = |at| Root { at, kind: kind::ORDERED_MAP };
        [
            hash(self.hash.at()),
            hash(self.words.at()),
            ordered(self.ordered.at()),
            ordered(self.plain.at()),
            Root { at: self.vector.at(), kind: kind::VECTOR },
        ]
    }
}

/// Damage: a few words become random, or copies of other words.
fn damage(heap: &mut TestHeap, rng: &mut Rng) {
    let blocks = heap.live_blocks();
    let any = |rng: &mut Rng| {
        let block = blocks[rng.below(blocks.len() as u64) as usize];
        let words = [4, 32][rng.below(2) as usize];
        block + 8 * rng.below(words)
    };
    for _ in 0..1 + rng.below(4) {
        let at = any(rng);
        let end = heap.end();
        if at + 8 > end {
            continue;
        }
        let value = match rng.below(5) {
            0 => rng.next(),
            1 => heap.peek(any(rng).min(end - 8)),
            2 => heap.peek(at) ^ 1 << rng.below(64),
            3 => blocks[rng.below(blocks.len() as u64) as usize],
            _ => 0,
        };
        heap.damage(at, value);
    }
}

#[test]
fn damage_is_an_error() {
    for seed in 0..150 {
        let (mut heap, mut rng) = (TestHeap::new(), Rng(seed));
        let all = All::fill(&mut heap, &mut rng).expect("an undamaged heap");
        heap.commit();
        damage(&mut heap, &mut rng);
        for root in all.roots() {
            let _ = heap.run(&mut |tx| check_root(tx, root, &mut |_| Ok(())).map(drop));
        }
        for _ in 0..60 {
            let plan = rng.next();
            let _ = heap.run(&mut |tx| all.read(tx, &mut Rng(plan)));
            let _ = heap.run(&mut |tx| all.change(tx, &mut Rng(plan)));
            let _ = heap.run(&mut |tx| all.remove(tx, &mut Rng(plan)));
        }
        let _ = heap.run(&mut |tx| all.ordered.check(tx, &mut |_| Ok(())));
        for root in all.roots() {
            let _ = heap.run(&mut |tx| destroy_root_some(tx, root, u64::MAX).map(drop));
        }
    }
}

#[test]
fn roots_are_checked_and_destroyed_by_their_kind() {
    let (mut heap, mut rng) = (TestHeap::new(), Rng(1));
    let all = All::fill(&mut heap, &mut rng).expect("an undamaged heap");
    let mut blocks = Vec::new();
    let visit = &mut |at| {
        blocks.push(at);
        Ok(())
    };
    for root in all.roots() {
        assert!(check_root(&mut heap, root, visit).expect("an undamaged heap"));
    }
    blocks.sort_unstable();
    assert_eq!(blocks, heap.live_blocks(), "each block has one owner");
    for root in all.roots() {
        while !destroy_root_some(&mut heap, root, 10).expect("an undamaged heap") {}
    }
    assert_eq!(heap.live(), 0);
}

#[test]
fn a_handle_of_the_wrong_type_is_an_error() {
    let mut heap = TestHeap::new();
    let map = HashMap::<u64, u64>::create(&mut heap).expect("room");
    assert!(HashMap::<u64, u64, false>::new(map.at()).get(&mut heap, 1).is_err());
    assert!(HashMap::<Bytes, u64>::new(map.at()).get(&mut heap, b"1").is_err());
    assert!(OrderedMap::<u64, u64>::new(map.at()).get(&mut heap, 1).is_err());
    assert!(Vector::<u64>::new(map.at()).push(&mut heap, 1).is_err());
    let root = Root { at: map.at(), kind: kind::ORDERED_MAP };
    assert!(check_root(&mut heap, root, &mut |_| Ok(())).is_err());
}
