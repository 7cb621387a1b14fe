//! The cost of operations in lines: the figures of docs/collections.md.

use perdura::Tx;
use perdura::collections::model::Rng;
use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Pair, Total, Vector};
use perdura::testing::TestHeap;

/// Discards an operation's result.
fn done<R>(_: R) {}

/// Means over many operations.
#[derive(Debug)]
struct Cost {
    read: f64,
    written: f64,
    fresh: f64,
    allocated: f64,
    freed: f64,
}

fn cost(heap: &mut TestHeap, count: u64, operation: &mut dyn FnMut(&mut TestHeap, u64)) -> Cost {
    let mut sum = Cost { read: 0.0, written: 0.0, fresh: 0.0, allocated: 0.0, freed: 0.0 };
    let each = 1.0 / count as f64;
    for index in 0..count {
        heap.reset_lines();
        operation(heap, index);
        heap.commit();
        let lines = heap.lines.take().expect("they are counted");
        sum.read += lines.read.len() as f64 * each;
        sum.written += lines.written.difference(&lines.fresh).count() as f64 * each;
        sum.fresh += lines.fresh.len() as f64 * each;
        sum.allocated += lines.allocated as f64 * each;
        sum.freed += lines.freed as f64 * each;
    }
    sum
}

fn show(what: &str, cost: &Cost) {
    println!(
        "{what:<44} read {:5.2}  written {:5.2}  fresh {:5.2}  allocated {:5.2}  freed {:5.2}",
        cost.read, cost.written, cost.fresh, cost.allocated, cost.freed
    );
}

const N: u64 = 50_000;
const OPS: u64 = 10_000;

/// An operation on a key, given by its number.
type Operation<'a> = &'a dyn Fn(&mut TestHeap, u64);

/// The lines for getting, updating, inserting and removing a key of a map; `set` is given a key and a value.
fn map_costs(
    name: &str,
    heap: &mut TestHeap,
    get: Operation<'_>,
    set: &dyn Fn(&mut TestHeap, u64, u8),
    remove: Operation<'_>,
) -> [Cost; 4] {
    for key in 0..N {
        set(heap, key, 1);
        heap.commit();
    }
    let all = [
        cost(heap, OPS, &mut |heap, key| get(heap, key)),
        cost(heap, OPS, &mut |heap, key| set(heap, key, 2)),
        cost(heap, OPS, &mut |heap, key| set(heap, N + key, 2)),
        cost(heap, OPS, &mut |heap, key| remove(heap, key)),
    ];
    for (what, cost) in ["get", "update", "insert", "remove"].iter().zip(&all) {
        show(&format!("{name} {what}"), cost);
    }
    all
}

/// Words used as keys.
fn words() -> impl Fn(u64) -> u64 {
    let mut rng = Rng(7);
    let keys: Vec<u64> = (0..N + OPS).map(|_| rng.next()).collect();
    move |index| keys[index as usize]
}

fn hash<const C: bool>(name: &str) -> [Cost; 4] {
    let (heap, key) = (&mut TestHeap::new(), words());
    let map = HashMap::<u64, u64, C>::create(heap).unwrap();
    map_costs(
        name,
        heap,
        &|tx, i| done(map.get(tx, key(i)).unwrap()),
        &|tx, i, value| done(map.set(tx, key(i), value.into()).unwrap()),
        &|tx, i| done(map.remove(tx, key(i)).unwrap()),
    )
}

fn strings() {
    let (heap, mut rng) = (&mut TestHeap::new(), Rng(7));
    let map = HashMap::<Bytes<3>, Bytes>::create(heap).unwrap();
    let keys: Vec<String> = (0..N + OPS).map(|_| format!("user{:019}", rng.next() >> 1)).collect();
    let key = |index: u64| keys[index as usize].as_bytes();
    map_costs(
        "HashMap<Bytes<3>, Bytes>, 23 -> 100 B",
        heap,
        &|tx, i| done(map.get(tx, key(i)).unwrap()),
        &|tx, i, value| done(map.set(tx, key(i), &[value; 100]).unwrap()),
        &|tx, i| done(map.remove(tx, key(i)).unwrap()),
    );
}

fn ordered<const C: bool>(name: &str) -> [Cost; 4] {
    let (heap, key) = (&mut TestHeap::new(), words());
    let map = OrderedMap::<u64, u64, C>::create(heap).unwrap();
    map_costs(
        name,
        heap,
        &|tx, i| done(map.get(tx, key(i)).unwrap()),
        &|tx, i, value| done(map.set(tx, key(i), value.into()).unwrap()),
        &|tx, i| done(map.remove(tx, key(i)).unwrap()),
    )
}

fn scores() {
    let (heap, mut rng) = (&mut TestHeap::new(), Rng(7));
    let map = OrderedMap::<Pair<Total, Bytes>, (), true>::create(heap).unwrap();
    let keys: Vec<(f64, String)> =
        (0..N + OPS).map(|i| (rng.below(1 << 40) as f64, format!("member{i}"))).collect();
    let key = |index: u64| (Total(keys[index as usize].0), keys[index as usize].1.as_bytes());
    for index in 0..N {
        map.set(heap, key(index), ()).unwrap();
        heap.commit();
    }
    let name = "OrderedMap<Pair<Total, Bytes>, (), true>";
    show(
        &format!("{name} rank"),
        &cost(heap, OPS, &mut |tx, i| done(map.rank(tx, key(i)).unwrap())),
    );
    show(
        &format!("{name} insert"),
        &cost(heap, OPS, &mut |tx, i| done(map.set(tx, key(N + i), ()).unwrap())),
    );
    show(
        &format!("{name} remove"),
        &cost(heap, OPS, &mut |tx, i| done(map.remove(tx, key(i)).unwrap())),
    );
}

fn vectors() {
    let heap = &mut TestHeap::new();
    let vector = Vector::<u64>::create(heap).unwrap();
    show("Vector<u64> push", &cost(heap, N, &mut |tx, i| vector.push(tx, i).unwrap()));
    show("Vector<u64> get", &cost(heap, OPS, &mut |tx, i| done(vector.get(tx, i).unwrap())));
    show("Vector<u64> pop", &cost(heap, OPS, &mut |tx, _| done(vector.pop(tx).unwrap())));
    let blob = Blob::create(heap as &mut dyn Tx, perdura::Purpose::Value, &[1; 100]).unwrap();
    show(
        "Blob set, 100 B",
        &cost(heap, OPS, &mut |tx, i| done(blob.set(tx, &[i as u8; 100]).unwrap())),
    );
    let mut bytes = [7; 600];
    let blob = blob.set(heap, &bytes).unwrap();
    heap.commit();
    let same = cost(heap, 10, &mut |tx, _| done(blob.set(tx, &bytes).unwrap()));
    show("Blob set, 600 B, the same", &same);
    assert!(same.written == 0.0, "what is there already is not written");
    let place = cost(heap, 600, &mut |tx, i| {
        bytes[i as usize] = 8;
        done(blob.set(tx, &bytes).unwrap());
    });
    show("Blob set, 600 B, one of them new", &place);
    assert!((place.written - 1.0).abs() < 1e-9, "lines that stay as they are are not written");
}

#[test]
fn operations_touch_few_lines() {
    let counted = hash::<true>("HashMap<u64, u64>");
    let uncounted = hash::<false>("HashMap<u64, u64, false>");
    strings();
    let tree = ordered::<false>("OrderedMap<u64, u64>");
    ordered::<true>("OrderedMap<u64, u64, true>");
    scores();
    vectors();
    assert!(counted[1].written < 1.01, "an update writes one line");
    assert!(counted[2].written < 4.0 && uncounted[2].written < 3.0, "few lines by insertion");
    assert!(tree[2].written < 2.6, "few lines by insertion");
}
