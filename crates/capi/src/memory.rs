//! Operations inside a transaction: bytes, words, objects, named roots.

use crate::codes::*;
use crate::fail::{Fail, Result};
use crate::guard;
use crate::sessions::Session;
use crate::types::{PERDURA_FIRST_KIND, PERDURA_READ, PERDURA_WRITE};
use perdura::{Mode, Purpose, Root};

/// The rights of a transaction.
pub(crate) fn mode(mode: i32) -> Result<Mode> {
    match mode {
        PERDURA_READ => Ok(Mode::Read),
        PERDURA_WRITE => Ok(Mode::Write),
        _ => Err(invalid(format!("the mode {mode}: pass PERDURA_READ or PERDURA_WRITE"))),
    }
}

fn purpose(purpose: i32) -> Result<Purpose> {
    let known = usize::try_from(purpose).ok().and_then(|number| Purpose::ALL.get(number));
    known.copied().ok_or_else(|| {
        let known = "PERDURA_GENERAL, PERDURA_KEY, PERDURA_VALUE or PERDURA_LOG";
        invalid(format!("the purpose {purpose}: pass {known}"))
    })
}

pub(crate) fn invalid(message: impl Into<String>) -> Fail {
    Fail::new(PERDURA_ERR_INVALID, message)
}

pub(crate) fn check_writer(tx: &dyn perdura::Tx) -> Result<()> {
    match tx.mode() {
        Mode::Write => Ok(()),
        Mode::Read => Err(Fail::new(
            PERDURA_ERR_READ_ONLY,
            "the transaction only reads: begin it with PERDURA_WRITE to change anything",
        )),
    }
}

/// Fills `to`; the caller has checked that the bytes are in the pool.
pub(crate) fn read(session: &mut Session, at: u64, to: &mut [u8]) -> Result<()> {
    session.within(|tx, _, _, _| Ok(tx.read_bytes(at, to)?))
}

/// Reads a word.
pub(crate) fn read_word(session: &mut Session, at: u64) -> Result<u64> {
    session.check_inside(at, 8)?;
    guard::check_word(at)?;
    session.within(|tx, _, _, _| Ok(tx.read_word(at)?))
}

/// Writes bytes of an object.
pub(crate) fn write(session: &mut Session, at: u64, from: &[u8]) -> Result<()> {
    session.within(|tx, guard, catalogue, changes| {
        check_writer(tx)?;
        guard.check(tx, catalogue, changes, at, from.len() as u64)?;
        Ok(tx.write_bytes(at, from)?)
    })
}

/// Writes a word of an object.
pub(crate) fn write_word(session: &mut Session, at: u64, value: u64) -> Result<()> {
    session.check_inside(at, 8)?;
    guard::check_word(at)?;
    session.within(|tx, guard, catalogue, changes| {
        check_writer(tx)?;
        guard.check(tx, catalogue, changes, at, 8)?;
        Ok(tx.write_word(at, value)?)
    })
}

/// Writes bytes of an object that the transaction has allocated.
pub(crate) fn write_fresh(session: &mut Session, at: u64, from: &[u8]) -> Result<()> {
    guard::check_word(at)?;
    session.within(|tx, guard, _, _| {
        check_writer(tx)?;
        let fresh = guard.fresh(at, from.len() as u64)?;
        Ok(tx.write_fresh(fresh, at - fresh.at(), from)?)
    })
}

/// Allocates an object.
pub(crate) fn alloc(session: &mut Session, number: i32, len: u64) -> Result<u64> {
    let purpose = purpose(number)?;
    session.within(|tx, guard, _, _| {
        check_writer(tx)?;
        if len == 0 {
            return Err(invalid("an object of 0 bytes: ask for at least 1".to_owned()));
        }
        let fresh = tx.allocate(purpose, len)?;
        guard.allocated(tx, fresh)?;
        Ok(fresh.at())
    })
}

/// Frees the object at `at`. If a purpose is given, and the pool records the object's, they must
/// agree.
pub(crate) fn free(session: &mut Session, at: u64, number: Option<i32>) -> Result<()> {
    let expected = number.map(purpose).transpose()?;
    session.within(|tx, guard, catalogue, changes| {
        check_writer(tx)?;
        let extent = guard::own(tx, catalogue, changes, at)?;
        check_start(&extent, at)?;
        if let (Some(expected), Some(purpose)) = (expected, extent.purpose)
            && expected != purpose
        {
            return Err(invalid(format!(
                "the object at {at:#x} was allocated with type {}, not {}: pass that",
                purpose as u8, expected as u8
            )));
        }
        tx.free(at)?;
        guard.freed(at);
        Ok(())
    })
}

fn check_start(extent: &perdura::Extent, at: u64) -> Result<()> {
    if extent.at == at {
        return Ok(());
    }
    let start = extent.at;
    let text = format!(
        "the offset {at:#x} is inside of the object at {start:#x}: pass the offset that \
         perdura_alloc gave"
    );
    Err(Fail::new(PERDURA_ERR_OFFSET, text))
}

/// The bytes of the object at `at`.
pub(crate) fn usable(session: &mut Session, at: u64) -> Result<u64> {
    session.within(|tx, _, catalogue, changes| {
        let extent = guard::own(tx, catalogue, changes, at)?;
        check_start(&extent, at)?;
        Ok(extent.bytes)
    })
}

/// The named root.
pub(crate) fn root(session: &mut Session, name: &str) -> Result<Option<Root>> {
    session.within(|tx, _, _, _| Ok(tx.root(name)?))
}

/// Sets or removes the named root.
pub(crate) fn set_root(session: &mut Session, name: &str, at: u64, kind: u32) -> Result<()> {
    session.change_roots(|tx, catalogue, changes| {
        check_writer(tx)?;
        if at != 0 {
            check_kind(kind)?;
            guard::own(tx, catalogue, changes, at)?;
        }
        if tx.root(name)?.is_some_and(|root| root.kind < PERDURA_FIRST_KIND) {
            return Err(invalid(format!(
                "the root '{name}' is a collection: choose another name, or delete it first \
                 (a map with perdura_map_delete)"
            )));
        }
        Ok(tx.set_root(name, Root { at, kind })?)
    })
}

fn check_kind(kind: u32) -> Result<()> {
    if kind >= PERDURA_FIRST_KIND {
        return Ok(());
    }
    let text = format!(
        "the kind {kind} is one of the library's own collections: choose one from \
         {PERDURA_FIRST_KIND} on"
    );
    Err(invalid(text))
}
