//! Cursors over ordered maps. They belong to the transaction that opened them, and end with it.

use crate::codes::*;
use crate::fail::{Fail, Result};
use perdura::Tx;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cursors that can be open in a transaction at once.
const MOST: usize = 1024;

/// An entry: copies of its key and value.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// The direction of a step.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Next,
    Prev,
}

/// A place in an ordered map of some kind.
pub(super) trait Walk: Send {
    /// The entry behind the place, or before it; the place is at its other side then.
    fn step(&mut self, tx: &mut dyn Tx, step: Step) -> Result<Option<Entry>>;
    /// Moves behind the range's last entry.
    fn to_end(self: Box<Self>) -> Box<dyn Walk>;
}

/// A cursor that is open.
pub(crate) struct OpenCursor {
    id: u64,
    pub(super) map: crate::types::perdura_map,
    walk: Option<Box<dyn Walk>>,
    /// The entry that the last step gave: C has pointers to it.
    last: Entry,
}

impl OpenCursor {
    pub(super) fn step(&mut self, tx: &mut dyn Tx, step: Step) -> Result<bool> {
        let walk = self.walk.as_mut().ok_or_else(closed)?;
        let found = walk.step(tx, step)?;
        let is_there = found.is_some();
        self.last = found.unwrap_or_default();
        Ok(is_there)
    }

    pub(super) fn move_to_end(&mut self) {
        self.walk = self.walk.take().map(Walk::to_end);
    }

    pub(super) fn last(&self) -> &Entry {
        &self.last
    }
}

/// The cursors of a transaction.
#[derive(Default)]
pub(crate) struct Cursors {
    open: Vec<OpenCursor>,
}

impl Cursors {
    pub(super) fn check_room(&self) -> Result<()> {
        if self.open.len() < MOST {
            return Ok(());
        }
        let text = format!("{MOST} cursors are open in the transaction: close one first");
        Err(Fail::new(PERDURA_ERR_TOO_MANY, text))
    }

    /// A number for a new one: no cursor has had it before.
    pub(super) fn add(&mut self, map: crate::types::perdura_map, walk: Box<dyn Walk>) -> u64 {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        self.open.push(OpenCursor { id, map, walk: Some(walk), last: Entry::default() });
        id
    }

    /// Takes one out, to use it or to close it.
    pub(super) fn take(&mut self, id: u64) -> Result<OpenCursor> {
        let found = self.open.iter().position(|cursor| cursor.id == id);
        found.map(|place| self.open.swap_remove(place)).ok_or_else(closed)
    }

    /// Puts one back.
    pub(super) fn put(&mut self, cursor: OpenCursor) {
        self.open.push(cursor);
    }
}

fn closed() -> Fail {
    let text = "the cursor is none, is closed, or was opened by another session or in an earlier \
                transaction, with which it ended: open one in this transaction";
    Fail::new(PERDURA_ERR_HANDLE, text)
}
