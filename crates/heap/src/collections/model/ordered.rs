//! The ordered map against std's.

use super::{Blocks, Rng, Run, destroy, explore, same, victim};
use crate::collections::{Item, OrderedItem, OrderedMap, Pair};
use crate::{Result, Tx};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

/// Operations that only counted maps have, compared with the model; does nothing for others.
type Ranks<K, V, const COUNTED: bool> = fn(
    &mut dyn Tx,
    OrderedMap<K, V, COUNTED>,
    &BTreeMap<<K as Item>::Owned, <V as Item>::Owned>,
    &<K as Item>::Owned,
) -> Result<()>;

/// Changes the first item of a key to another key's, in a map of pairs and in the model; does nothing in others.
type Moves<K, V, const COUNTED: bool> = fn(
    &mut dyn Tx,
    OrderedMap<K, V, COUNTED>,
    &mut BTreeMap<<K as Item>::Owned, <V as Item>::Owned>,
    [&<K as Item>::Owned; 2],
) -> Result<()>;

/// Random operations on an ordered map that does not count, in `transactions` transactions.
///
/// # Errors
/// The first thing that differs from the model; the engine's errors.
pub fn check_ordered_map<K: OrderedItem, V: Item>(
    run: &mut Run<'_>,
    seed: u64,
    transactions: u64,
    key: fn(&mut Rng) -> K::Owned,
    value: fn(&mut Rng) -> V::Owned,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    check::<K, V, false>(
        run,
        seed,
        transactions,
        (key, value, |_, _, _, _| Ok(()), |_, _, _, _| Ok(())),
    )
}

/// The same for one that counts.
///
/// # Errors
/// The first thing that differs from the model; the engine's errors.
pub fn check_counted_map<K: OrderedItem, V: Item>(
    run: &mut Run<'_>,
    seed: u64,
    transactions: u64,
    key: fn(&mut Rng) -> K::Owned,
    value: fn(&mut Rng) -> V::Owned,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    check::<K, V, true>(run, seed, transactions, (key, value, ranks, |_, _, _, _| Ok(())))
}

/// The same for one of pairs, whose first items change.
///
/// # Errors
/// The first thing that differs from the model; the engine's errors.
pub fn check_pair_map<A: OrderedItem, B: OrderedItem, V: Item>(
    run: &mut Run<'_>,
    seed: u64,
    transactions: u64,
    key: fn(&mut Rng) -> (A::Owned, B::Owned),
    value: fn(&mut Rng) -> V::Owned,
) -> Result<()>
where
    A::Owned: Ord + Clone + Debug,
    B::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    check::<Pair<A, B>, V, true>(run, seed, transactions, (key, value, ranks, moves))
}

type Makers<K, V, const COUNTED: bool> = (
    fn(&mut Rng) -> <K as Item>::Owned,
    fn(&mut Rng) -> <V as Item>::Owned,
    Ranks<K, V, COUNTED>,
    Moves<K, V, COUNTED>,
);

fn check<K: OrderedItem, V: Item, const COUNTED: bool>(
    run: &mut Run<'_>,
    seed: u64,
    transactions: u64,
    makers: Makers<K, V, COUNTED>,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    let mut rng = Rng(seed);
    let mut map = OrderedMap::<K, V, COUNTED>::new(0);
    run(&mut |tx| {
        map = OrderedMap::create(tx)?;
        Ok(())
    })?;
    explore(
        run,
        &mut rng,
        transactions,
        BTreeMap::new(),
        &mut |tx, model, rng, growing| step(tx, map, model, rng, growing, makers),
        &mut |tx, model| compare(tx, map, model),
    )?;
    destroy(run, &mut rng, &mut |tx, budget| {
        map.check(tx, &mut |_| Ok(()))?;
        map.destroy_some(tx, budget)
    })
}

fn step<K: OrderedItem, V: Item, const COUNTED: bool>(
    tx: &mut dyn Tx,
    map: OrderedMap<K, V, COUNTED>,
    model: &mut BTreeMap<K::Owned, V::Owned>,
    rng: &mut Rng,
    growing: bool,
    (key, value, ranks, moves): Makers<K, V, COUNTED>,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    let (name, content) = (key(rng), value(rng));
    let (k, v) = (K::borrow(&name), V::borrow(&content));
    let inserts = if growing { 8 } else { 2 };
    match rng.below(16) {
        0 => same("get", map.get(tx, k)?.as_ref(), model.get(&name)),
        1 if rng.below(2) == 0 => ranks(tx, map, model, &name),
        1 => {
            let old = victim(rng, model, name.clone());
            moves(tx, map, model, [&old, &name])
        }
        2 => walk(tx, map, model, (&name, &key(rng)), rng),
        3 => {
            let ends = (map.first(tx)?, map.last(tx)?);
            let owned = |entry: (&K::Owned, &V::Owned)| (entry.0.clone(), entry.1.clone());
            let wanted = (model.first_key_value(), model.last_key_value());
            same("first, last", ends, (wanted.0.map(owned), wanted.1.map(owned)))
        }
        4 if rng.below(200) == 0 => {
            model.clear();
            map.clear(tx)
        }
        4 => {
            let new = model.insert(name.clone(), content.clone()).is_none();
            same("set", map.set(tx, k, v)?, new)
        }
        5 => {
            let new = !model.contains_key(&name);
            model.entry(name.clone()).or_insert_with(|| content.clone());
            same("insert_if_absent", map.insert_if_absent(tx, k, v)?, new)
        }
        op if op < 5 + inserts => {
            let old = map.insert(tx, k, v)?;
            same("insert", old, model.insert(name.clone(), content.clone()))
        }
        _ => {
            let name = victim(rng, model, name.clone());
            same("remove", map.remove(tx, K::borrow(&name))?, model.remove(&name))
        }
    }
}

/// A random walk, back and forth, through a random range.
fn walk<K: OrderedItem, V: Item, const COUNTED: bool>(
    tx: &mut dyn Tx,
    map: OrderedMap<K, V, COUNTED>,
    model: &BTreeMap<K::Owned, V::Owned>,
    (from, to): (&K::Owned, &K::Owned),
    rng: &mut Rng,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    let (low, high) = (bound(rng, from), bound(rng, to));
    let inside = |key: &K::Owned| {
        (match low {
            Bound::Included(low) => key >= low,
            Bound::Excluded(low) => key > low,
            Bound::Unbounded => true,
        }) && (match high {
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
            Bound::Unbounded => true,
        })
    };
    let wanted: Vec<_> = model.iter().filter(|entry| inside(entry.0)).collect();
    let mut cursor = map.cursor(tx, (low.map(K::borrow), high.map(K::borrow)))?;
    let mut place = 0;
    if rng.below(2) == 0 {
        (cursor, place) = (cursor.at_end(), wanted.len());
    }
    let forward = 1 + rng.below(9);
    for _ in 0..rng.below(40) {
        let (got, expected) = if rng.below(10) < forward {
            (cursor.next(tx)?, wanted.get(place))
        } else {
            (cursor.prev(tx)?, place.checked_sub(1).and_then(|before| wanted.get(before)))
        };
        let moved = expected.map(|(key, _)| wanted.partition_point(|entry| entry.0 < *key));
        same("a range's entry", got.as_ref().map(|(k, v)| (k, v)), expected.copied())?;
        place = match moved {
            Some(index) if index == place => place + 1,
            Some(index) => index,
            None => place,
        };
    }
    Ok(())
}

fn bound<'a, K>(rng: &mut Rng, key: &'a K) -> Bound<&'a K> {
    match rng.below(3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    }
}

fn ranks<K: OrderedItem, V: Item>(
    tx: &mut dyn Tx,
    map: OrderedMap<K, V, true>,
    model: &BTreeMap<K::Owned, V::Owned>,
    key: &K::Owned,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    let below = model.range(..key).count();
    let wanted = (below as u64, model.contains_key(key));
    same("rank", map.rank(tx, K::borrow(key))?, wanted)?;
    same("len", map.len(tx)?, model.len() as u64)?;
    for index in [below, model.len() - below] {
        let wanted = model.iter().nth(index).map(|(k, v)| (k.clone(), v.clone()));
        same("nth", map.nth(tx, index as u64)?, wanted)?;
    }
    Ok(())
}

fn moves<A: OrderedItem, B: OrderedItem, V: Item>(
    tx: &mut dyn Tx,
    map: OrderedMap<Pair<A, B>, V, true>,
    model: &mut BTreeMap<(A::Owned, B::Owned), V::Owned>,
    [old, new]: [&(A::Owned, B::Owned); 2],
) -> Result<()>
where
    A::Owned: Ord + Clone,
    B::Owned: Ord + Clone,
{
    let moved = map.set_first(tx, Pair::<A, B>::borrow(old), A::borrow(&new.0))?;
    let value = model.remove(old);
    same("set_first", moved, value.is_some())?;
    if let Some(value) = value {
        model.insert((new.0.clone(), old.1.clone()), value);
    }
    Ok(())
}

fn compare<K: OrderedItem, V: Item, const COUNTED: bool>(
    tx: &mut dyn Tx,
    map: OrderedMap<K, V, COUNTED>,
    model: &BTreeMap<K::Owned, V::Owned>,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    let mut blocks = Blocks::default();
    map.check(tx, &mut |at| blocks.visit(at))?;
    same("len", map.len(tx)?, model.len() as u64)?;
    same("is_empty", map.is_empty(tx)?, model.is_empty())?;
    let mut all = Vec::new();
    map.for_each(tx, &mut |key, value| {
        all.push((key, value));
        Ok(())
    })?;
    same("for_each", all, model.clone().into_iter().collect::<Vec<_>>())
}
