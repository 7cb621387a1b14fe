//! The hash map against a map of std's, scans included.

use super::{Blocks, Rng, Run, destroy, explore, same, victim};
use crate::collections::hash_map::Hint;
use crate::collections::{HashMap, Item};
use crate::{Error, Result, Tx};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

#[derive(Clone)]
struct Model<K, V> {
    entries: BTreeMap<K, V>,
    /// The scan's cursor, and the keys that it must still return.
    cursor: u64,
    due: BTreeSet<K>,
    /// Where some keys were once, perhaps in another transaction, or one that was not committed.
    hints: Vec<Hint>,
}

/// Functions that make keys and values.
type Makers<K, V> = (fn(&mut Rng) -> <K as Item>::Owned, fn(&mut Rng) -> <V as Item>::Owned);

/// Random operations on a hash map, in `transactions` transactions.
///
/// # Errors
/// The first thing that differs from the model; the engine's errors.
pub fn check_hash_map<K: Item, V: Item, const COUNTED: bool>(
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
    let mut rng = Rng(seed);
    let mut map = HashMap::<K, V, COUNTED>::new(0);
    run(&mut |tx| {
        map = HashMap::create_seeded(tx, seed)?;
        Ok(())
    })?;
    let model =
        Model { entries: BTreeMap::new(), cursor: 0, due: BTreeSet::new(), hints: Vec::new() };
    explore(
        run,
        &mut rng,
        transactions,
        model,
        &mut |tx, model, rng, growing| step(tx, map, model, rng, growing, (key, value)),
        &mut |tx, model| compare(tx, map, &model.entries),
    )?;
    destroy(run, &mut rng, &mut |tx, budget| {
        map.check(tx, &mut |_| Ok(()))?;
        map.destroy_some(tx, budget)
    })
}

fn step<K: Item, V: Item, const COUNTED: bool>(
    tx: &mut dyn Tx,
    map: HashMap<K, V, COUNTED>,
    model: &mut Model<K::Owned, V::Owned>,
    rng: &mut Rng,
    growing: bool,
    (key, value): Makers<K, V>,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    let (name, content) = (key(rng), value(rng));
    let (k, v) = (K::borrow(&name), V::borrow(&content));
    let inserts = if growing { 8 } else { 2 };
    if COUNTED && rng.below(16) == 0 {
        map.use_lanes(tx)?;
    }
    match rng.below(16) {
        0 => {
            let found = map.slot_and_hint(tx, k)?;
            model.hints.extend(found.map(|(_, hint)| hint));
            let slot = map.slot(tx, k)?.map(|slot| slot.at());
            same("a slot with its hint", found.map(|(slot, _)| slot.at()), slot)?;
            for hint in &model.hints {
                same(
                    "a slot near a hint",
                    map.slot_near(tx, k, *hint)?.map(|slot| slot.at()),
                    slot,
                )?;
            }
            model.hints.truncate(8);
            same("get", map.get(tx, k)?.as_ref(), model.entries.get(&name))
        }
        1 => same("contains", map.contains(tx, k)?, model.entries.contains_key(&name)),
        2 => scan(tx, map, model, 1 + rng.below(20)),
        3 => match map.random(tx, rng.next())? {
            Some((k, v)) => same("random", model.entries.get(&k), Some(&v)),
            None => same("random", model.entries.is_empty(), true),
        },
        4 if rng.below(200) == 0 => {
            model.entries.clear();
            model.due.clear();
            map.clear(tx)
        }
        4 => {
            let new = model.entries.insert(name.clone(), content.clone()).is_none();
            let hint = model.hints.pop().unwrap_or_default();
            same("set", map.set_near(tx, k, v, hint)?, new)
        }
        5 => {
            let new = !model.entries.contains_key(&name);
            model.entries.entry(name.clone()).or_insert_with(|| content.clone());
            same("insert_if_absent", map.insert_if_absent(tx, k, v)?, new)
        }
        op if op < 5 + inserts => {
            let old = map.insert(tx, k, v)?;
            same("insert", old, model.entries.insert(name.clone(), content.clone()))
        }
        _ => {
            let name = victim(rng, &model.entries, name.clone());
            model.due.remove(&name);
            same("remove", map.remove(tx, K::borrow(&name))?, model.entries.remove(&name))
        }
    }
}

/// A step of the scan: entries that are there all the time must be returned before it ends.
fn scan<K: Item, V: Item, const COUNTED: bool>(
    tx: &mut dyn Tx,
    map: HashMap<K, V, COUNTED>,
    model: &mut Model<K::Owned, V::Owned>,
    count: u64,
) -> Result<()>
where
    K::Owned: Ord + Clone + Debug,
    V::Owned: PartialEq + Clone + Debug,
{
    if model.cursor == 0 {
        model.due = model.entries.keys().cloned().collect();
    }
    let (cursor, found) = map.scan(tx, model.cursor, count)?;
    for (key, value) in found {
        same("scan", model.entries.get(&key), Some(&value))?;
        model.due.remove(&key);
    }
    model.cursor = cursor;
    if cursor == 0 && !model.due.is_empty() {
        return Err(Error::Aborted(format!("a scan missed {:?}", model.due)));
    }
    Ok(())
}

fn compare<K: Item, V: Item, const COUNTED: bool>(
    tx: &mut dyn Tx,
    map: HashMap<K, V, COUNTED>,
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
    let mut all = BTreeMap::new();
    map.for_each(tx, &mut |key, value| {
        all.insert(key, value);
        Ok(())
    })?;
    same("for_each", &all, model)
}
