//! Maps with a name: calls on them inside a transaction.
//!
//! Invariants: a map is used only while a named root of its pool leads to it, and what is at
//! that offset has the tag of its kind and types; a handle that C has made up, kept too long or
//! taken from another pool reaches nothing. The collections are the heap's own, so that programs in
//! Rust open the same ones.

pub(crate) mod cursors;
mod kinds;

use self::kinds::Kind;
use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::memory::check_writer;
use crate::sessions::Session;
use crate::types::perdura_map;
pub(crate) use cursors::{Entry, Step};
use perdura::{Root, Tx};
use std::ops::Bound;

/// The map with this name, if there is one.
pub(crate) fn open(session: &mut Session, name: &str, number: i32) -> Result<Option<perdura_map>> {
    let kind = kinds::find(number)?;
    session.within(|tx, _, _, _| {
        let Some(at) = find(tx, name, kind)? else { return Ok(None) };
        Ok(Some(perdura_map { pool: tx.moment().pool, at, kind: number }))
    })
}

/// The map with this name; a new one if there is none.
pub(crate) fn open_or_create(
    session: &mut Session,
    name: &str,
    number: i32,
) -> Result<perdura_map> {
    if let Some(map) = open(session, name, number)? {
        return Ok(map);
    }
    let kind = kinds::find(number)?;
    session.change_roots(|tx, _, _| {
        check_writer(tx)?;
        let at = kind.create(tx)?;
        tx.set_root(name, Root { at, kind: kind.root() })?;
        Ok(perdura_map { pool: tx.moment().pool, at, kind: number })
    })
}

/// Where the map with this name is.
fn find(tx: &mut dyn Tx, name: &str, kind: &dyn Kind) -> Result<Option<u64>> {
    let Some(root) = tx.root(name)? else { return Ok(None) };
    if root.kind != kind.root() {
        let text = format!(
            "the root '{name}' is of the kind {}, not {}: choose another name, or open it as what \
             it is",
            root.kind,
            kind.root()
        );
        return Err(Fail::new(PERDURA_ERR_TYPE, text));
    }
    kind.open(tx, root.at)?;
    Ok(Some(root.at))
}

/// Frees about `budget` entries of the map with this name; whether it is gone.
pub(crate) fn delete_some(
    session: &mut Session,
    name: &str,
    number: i32,
    budget: u64,
) -> Result<bool> {
    let kind = kinds::find(number)?;
    session.change_roots(|tx, _, _| {
        check_writer(tx)?;
        let Some(at) = find(tx, name, kind)? else { return Ok(true) };
        while !kind.destroy_some(tx, at, budget)? {
            if budget < u64::MAX {
                return Ok(false);
            }
        }
        tx.set_root(name, Root { at: 0, kind: kind.root() })?;
        Ok(true)
    })
}

/// Runs `body` on a map, which it does not change.
fn on<R>(
    session: &mut Session,
    map: perdura_map,
    body: impl FnOnce(&dyn Kind, &mut dyn Tx) -> Result<R>,
) -> Result<R> {
    session.within(|tx, _, catalogue, changes| {
        let kind = known(map, tx)?;
        check_there(catalogue.has(tx, changes, map.at, kind.root())?)?;
        body(kind, tx)
    })
}

/// Runs `body` on a map, which it changes.
fn change<R>(
    session: &mut Session,
    map: perdura_map,
    body: impl FnOnce(&dyn Kind, &mut dyn Tx) -> Result<R>,
) -> Result<R> {
    session.within(|tx, guard, catalogue, changes| {
        let kind = known(map, tx)?;
        check_there(catalogue.has(tx, changes, map.at, kind.root())?)?;
        check_writer(tx)?;
        guard.forget();
        body(kind, tx)
    })
}

/// The map's kind, if it can be of this pool.
fn known(map: perdura_map, tx: &dyn Tx) -> Result<&'static dyn Kind> {
    let refused = |why| Err(Fail::new(PERDURA_ERR_HANDLE, format!("the map {why}")));
    if map.at == 0 {
        return refused("is none: open one first");
    }
    if map.pool != tx.moment().pool {
        return refused("is another pool's: open the one of this pool by its name");
    }
    kinds::find(map.kind)
}

fn check_there(is_there: bool) -> Result<()> {
    if is_there {
        return Ok(());
    }
    let text = "the map was deleted, never opened, or made by a transaction that was rolled back: \
                open it by its name";
    Err(Fail::new(PERDURA_ERR_HANDLE, text))
}

/// Calls `to` with the key's value; whether it is there.
pub(crate) fn get(
    session: &mut Session,
    map: perdura_map,
    key: &[u8],
    to: &mut dyn FnMut(&[u8]),
) -> Result<bool> {
    on(session, map, |kind, tx| kind.get(tx, map.at, key, to))
}

pub(crate) fn contains(session: &mut Session, map: perdura_map, key: &[u8]) -> Result<bool> {
    on(session, map, |kind, tx| kind.contains(tx, map.at, key))
}

/// Whether the key was there before.
pub(crate) fn put(
    session: &mut Session,
    map: perdura_map,
    key: &[u8],
    value: &[u8],
) -> Result<bool> {
    change(session, map, |kind, tx| kind.put(tx, map.at, key, value))
}

/// Whether the key was there.
pub(crate) fn remove(session: &mut Session, map: perdura_map, key: &[u8]) -> Result<bool> {
    change(session, map, |kind, tx| kind.remove(tx, map.at, key))
}

pub(crate) fn len(session: &mut Session, map: perdura_map) -> Result<u64> {
    on(session, map, |kind, tx| kind.len(tx, map.at))
}

pub(crate) fn clear(session: &mut Session, map: perdura_map) -> Result<()> {
    change(session, map, |kind, tx| kind.clear(tx, map.at))
}

/// Some entries of a hash map, and the cursor to go on with.
pub(crate) fn scan(
    session: &mut Session,
    map: perdura_map,
    from: u64,
    count: u64,
) -> Result<(u64, Vec<Entry>)> {
    on(session, map, |kind, tx| kind.scan(tx, map.at, from, count))
}

/// A cursor before the first entry of a range of an ordered map.
pub(crate) fn cursor(
    session: &mut Session,
    map: perdura_map,
    range: [Bound<&[u8]>; 2],
) -> Result<u64> {
    session.cursors()?.check_room()?;
    let walk = on(session, map, |kind, tx| kind.range(tx, map.at, range))?;
    Ok(session.cursors()?.add(map, walk))
}

/// Moves a cursor by an entry, and calls `to` with that; whether there is one.
pub(crate) fn step(
    session: &mut Session,
    id: u64,
    step: Step,
    to: &mut dyn FnMut(&Entry),
) -> Result<bool> {
    let mut cursor = session.cursors()?.take(id)?;
    let found = on(session, cursor.map, |_, tx| cursor.step(tx, step));
    if let Ok(true) = found {
        to(cursor.last());
    }
    // Its entry must stay where it is until the next step; moving the cursor does not move it.
    session.cursors()?.put(cursor);
    found
}

/// Moves a cursor behind the last entry of its range.
pub(crate) fn to_end(session: &mut Session, id: u64) -> Result<()> {
    let mut cursor = session.cursors()?.take(id)?;
    let moved = on(session, cursor.map, |_, _| {
        cursor.move_to_end();
        Ok(())
    });
    session.cursors()?.put(cursor);
    moved
}

pub(crate) fn close(session: &mut Session, id: u64) -> Result<()> {
    session.cursors()?.take(id).map(drop)
}
