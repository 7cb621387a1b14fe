//! What a thread's transaction does to the keyspace, as commands for replicas.
//!
//! A command notes its effect when it has succeeded; what is undone takes its notes along. A transaction with effects gets
//! the next number: it adds one to a word of the keyspace's header that every other such transaction reads and writes, too,
//! so that numbers have the order of commits under every engine, without gaps. They go on their way when they are durable.

use super::feed::{Feed, Sealed};
use crate::keyspace;
use crate::transfer::record::Record;
use crate::transfer::resp::{self, Encoder};
use perdura::{Result, Tx};
use std::cell::{Cell, RefCell};

/// Room that is kept from one transaction to the next.
const KEEP: usize = 64 << 10;

/// One command for replicas.
#[derive(Clone, Copy)]
struct Part {
    /// Its database; `None` if that does not matter.
    db: Option<u8>,
    /// Where its bytes end.
    end: usize,
}

/// The effects of one thread's transaction under way, and of those that are not durable yet.
#[derive(Default)]
pub(crate) struct Effects {
    /// Whether anybody wants to know, in this transaction.
    on: Cell<bool>,
    /// Whether replicas are to hear nothing of what reads meet.
    paused: Cell<bool>,
    bytes: RefCell<Vec<u8>>,
    parts: RefCell<Vec<Part>>,
    /// How many units are open, one in the other.
    depth: Cell<u32>,
    sealed: RefCell<Option<Sealed>>,
    /// The number of the last transaction that had effects.
    last: Cell<Option<u64>>,
    ready: RefCell<Vec<Sealed>>,
}

impl Effects {
    /// A transaction that writes begins.
    ///
    /// # Errors
    /// As a read.
    pub(crate) fn begin(&self, tx: &mut dyn Tx, keyspace: u64, feed: &Feed) -> Result<()> {
        // In this order: the feed begins with a transaction that changes the word. Either the word is read before, and
        // this transaction is in conflict, or the feed is seen to be on.
        keyspace::turns(tx, keyspace)?;
        self.on.set(feed.is_on());
        Ok(())
    }

    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.on.get()
    }

    /// What follows only reads, since writes are paused: it removes no expired key. Or it may write, also if a pause begins
    /// meanwhile.
    #[inline]
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.set(paused);
    }

    /// Whether a key that is found to have expired is removed, so that replicas hear of it.
    #[inline]
    pub(crate) fn tell_of_expired(&self) -> bool {
        self.on.get() && !self.paused.get()
    }

    /// Notes a command.
    pub(crate) fn note<'a>(&self, db: Option<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        if !self.on.get() {
            return;
        }
        let bytes = &mut *self.bytes.borrow_mut();
        resp::command_of(bytes, args);
        self.parts.borrow_mut().push(Part { db, end: bytes.len() });
    }

    /// Notes a part of the keyspace.
    pub(crate) fn note_record(&self, record: &Record) {
        if !self.on.get() {
            return;
        }
        let bytes = &mut *self.bytes.borrow_mut();
        Encoder::of(record.db).record(record, bytes);
        self.parts.borrow_mut().push(Part { db: Some(record.db), end: bytes.len() });
    }

    /// Notes that a key is gone.
    pub(crate) fn note_removal(&self, db: u8, key: &[u8]) {
        self.note(Some(db), [b"DEL", key].into_iter());
    }

    pub(crate) fn mark(&self) -> usize {
        self.parts.borrow().len()
    }

    /// Takes back all since `mark`.
    pub(crate) fn back_to(&self, mark: usize) {
        let mut parts = self.parts.borrow_mut();
        if mark < parts.len() {
            parts.truncate(mark);
            let end = parts.last().map_or(0, |part| part.end);
            self.bytes.borrow_mut().truncate(end);
        }
    }

    /// What follows belongs together, until [`close`](Self::close).
    pub(crate) fn open(&self) {
        let depth = self.depth.get();
        if depth == 0 {
            self.note(None, [&b"MULTI"[..]].into_iter());
        }
        self.depth.set(depth + 1);
    }

    /// What was noted since [`open`](Self::open), when the mark was `mark`, is a unit, or was taken back.
    pub(crate) fn close(&self, mark: usize) {
        let depth = self.depth.get().saturating_sub(1);
        self.depth.set(depth);
        if depth > 0 {
            return;
        }
        match self.mark().saturating_sub(mark) {
            0 => {}
            // Nothing has come of it.
            1 => self.back_to(mark),
            _ => self.note(None, [&b"EXEC"[..]].into_iter()),
        }
    }

    /// The transaction is about to be committed: it gets its number, if it has effects.
    ///
    /// # Errors
    /// As a write.
    pub(crate) fn seal(&self, tx: &mut dyn Tx, keyspace: u64) -> Result<()> {
        if self.parts.borrow().is_empty() {
            return Ok(());
        }
        let number = keyspace::turn(tx, keyspace)?;
        let bytes = chosen(&self.bytes.borrow(), &self.parts.borrow());
        *self.sealed.borrow_mut() = Some(Sealed { number, bytes });
        Ok(())
    }

    /// The transaction is run again, or was not committed.
    pub(crate) fn retract(&self) {
        self.back_to(0);
        self.bytes.borrow_mut().shrink_to(KEEP);
        self.depth.set(0);
        self.on.set(false);
        self.paused.set(false);
        self.sealed.take();
    }

    /// The transaction was committed.
    pub(crate) fn settle(&self) {
        if let Some(sealed) = self.sealed.take() {
            self.last.set(Some(sealed.number));
            self.ready.borrow_mut().push(sealed);
        }
        self.retract();
    }

    /// The number of the last transaction of this thread that had effects.
    pub(crate) fn last_number(&self) -> Option<u64> {
        self.last.get()
    }

    /// Whether effects wait for durability.
    pub(crate) fn are_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Takes the effects that can go when all that was committed is durable.
    pub(crate) fn take_ready(&self) -> Vec<Sealed> {
        self.ready.take()
    }
}

/// Commands with their databases chosen: before and after them it is the first one.
fn chosen(bytes: &[u8], parts: &[Part]) -> Vec<u8> {
    let mut to = Vec::with_capacity(bytes.len() + 64);
    let (mut at, mut db) = (0, 0);
    for part in parts {
        if let Some(own) = part.db.filter(|own| *own != db) {
            db = own;
            select(&mut to, db);
        }
        to.extend_from_slice(&bytes[at..part.end]);
        at = part.end;
    }
    if db != 0 {
        select(&mut to, 0);
    }
    to
}

fn select(to: &mut Vec<u8>, db: u8) {
    resp::command(to, &[b"SELECT", db.to_string().as_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noting() -> Effects {
        let effects = Effects::default();
        effects.on.set(true);
        effects
    }

    fn text(effects: &Effects) -> String {
        let bytes = chosen(&effects.bytes.borrow(), &effects.parts.borrow());
        String::from_utf8(bytes).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn units_are_whole_or_nothing() {
        let effects = noting();
        let mark = effects.mark();
        effects.open();
        effects.close(mark);
        assert_eq!(text(&effects), "");
        effects.open();
        effects.note_removal(0, b"a");
        let inner = effects.mark();
        effects.open();
        effects.note_removal(0, b"b");
        effects.close(inner);
        effects.close(mark);
        assert_eq!(text(&effects), "*1 $5 MULTI *2 $3 DEL $1 a *2 $3 DEL $1 b *1 $4 EXEC ");
        effects.back_to(mark);
        assert_eq!(text(&effects), "");
    }

    #[test]
    fn databases_are_chosen_and_left() {
        let effects = noting();
        for (db, key) in [(0, b"a"), (3, b"b"), (3, b"c")] {
            effects.note_removal(db, key);
        }
        let wanted =
            "*2 $3 DEL $1 a *2 $6 SELECT $1 3 *2 $3 DEL $1 b *2 $3 DEL $1 c *2 $6 SELECT $1 0 ";
        assert_eq!(text(&effects), wanted);
    }

    #[test]
    fn nothing_is_noted_for_nobody() {
        let effects = Effects::default();
        effects.open();
        effects.note_removal(0, b"a");
        effects.close(0);
        assert_eq!((effects.mark(), effects.are_ready()), (0, false));
    }
}
