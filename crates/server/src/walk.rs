//! The keyspace as it was at one moment, read while clients go on.
//!
//! A walk goes through the keys, some in each transaction, in the order of their places in the hash maps, which they keep
//! when these grow and shrink. A command that is about to write a key which the walk has not reached adds the key to what
//! is read first, as it is before the write, or notes that it is not there; the walk leaves out noted keys.
//!
//! SWAPDB may give a database another number meanwhile. So the walk knows databases by where their hash maps are, which
//! stays the same until they are flushed: a transaction that is not committed, or that reads what was before it, finds the
//! right one by what it sees itself.
//!
//! Invariants: the moment is a write transaction, so that no other write transaction is under way: each later one finds
//! the walk begun. The walk's lock is taken inside of transactions, which wait for nothing while they hold it.

use crate::command::Failure;
use crate::keyspace::{DATABASES, Database, Entry, Keys, now};
use crate::rdb::file::FileEncoder;
use crate::rdb::{form, values};
use crate::store::Session;
use crate::transfer::read;
use crate::transfer::record::Change;
use crate::transfer::resp::Encoder;
use perdura::{Error, Result, Tx};
use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys, at least, of one transaction of the walk, unless fewer are left.
const KEYS: u64 = 32;

/// Why a walk came to no end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WalkError {
    #[error(transparent)]
    Pool(#[from] Error),
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("FLUSHALL or FLUSHDB deleted what was still to be written")]
    Flushed,
    #[error("it was given up")]
    GivenUp,
}

/// A walk, if one is under way, which writers must look at.
#[derive(Default)]
pub(crate) struct Walking {
    on: AtomicBool,
    walk: Mutex<Option<Walk>>,
}

impl Walking {
    fn walk(&self) -> MutexGuard<'_, Option<Walk>> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A walk begins, in the write transaction under way.
    ///
    /// # Errors
    /// As reads.
    pub(crate) fn begin(&self, tx: &mut dyn Tx, header: u64, form: Form) -> Result<()> {
        *self.walk() = Some(Walk::new(tx, header, form)?);
        self.on.store(true, Ordering::Release);
        Ok(())
    }

    /// It is over, or given up.
    pub(crate) fn end(&self) {
        self.on.store(false, Ordering::Release);
        *self.walk() = None;
    }

    /// Reads all of it into a file, some keys in each transaction, as long as `going` returns true. Returns the ticket of the
    /// last transaction.
    ///
    /// # Errors
    /// When the pool or the file fails, a flush comes in between, or it is given up.
    pub(crate) fn run<S: Session>(
        &self,
        session: &mut S,
        header: u64,
        file: &mut File,
        going: &mut dyn FnMut() -> bool,
    ) -> std::result::Result<S::Ticket, WalkError> {
        let mut bytes = Vec::new();
        loop {
            if !going() {
                return Err(WalkError::GivenUp);
            }
            let mut more = false;
            let last = session.read(&mut |tx| {
                more = self.step(tx, header)?;
                Ok(())
            })?;
            self.take(!more, &mut bytes)?;
            file.write_all(&bytes)?;
            if !more {
                return Ok(last);
            }
            bytes.clear();
        }
    }

    /// Reads some keys more. Whether there are others.
    ///
    /// # Errors
    /// As reads of them.
    pub(crate) fn step(&self, tx: &mut dyn Tx, header: u64) -> Result<bool> {
        self.walk().as_mut().map_or(Ok(false), |walk| walk.step(tx, header))
    }

    /// Appends what was read; if it was the last of it, the end as well.
    ///
    /// # Errors
    /// When something was not read.
    pub(crate) fn take(
        &self,
        is_last: bool,
        to: &mut Vec<u8>,
    ) -> std::result::Result<(), WalkError> {
        let mut walk = self.walk();
        let walk = walk.as_mut().ok_or(WalkError::GivenUp)?;
        if let Some(failed) = walk.failed.take() {
            return Err(failed);
        }
        walk.text.take(is_last, to);
        Ok(())
    }

    /// A key of `db` is about to be written, in the transaction under way: as it is now, it belongs to the moment.
    #[inline]
    pub(crate) fn keep(&self, tx: &mut dyn Tx, db: Database, key: &[u8]) {
        if self.on.load(Ordering::Acquire)
            && let Some(walk) = self.walk().as_mut()
        {
            walk.keep(tx, db, key);
        }
    }

    /// All keys of a database are about to be deleted.
    pub(crate) fn flush(&self) {
        if self.on.load(Ordering::Acquire)
            && let Some(walk) = self.walk().as_mut()
        {
            walk.failed.get_or_insert(WalkError::Flushed);
        }
    }
}

/// Reads all of it in the transaction under way, which sees one moment; `each` gets the bytes, piece by piece, as long as it
/// returns true.
///
/// # Errors
/// As reads of it.
pub(crate) fn whole(
    tx: &mut dyn Tx,
    header: u64,
    form: Form,
    each: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<()> {
    let (mut walk, mut bytes) = (Walk::new(tx, header, form)?, Vec::new());
    loop {
        let more = walk.step(tx, header)?;
        walk.text.take(!more, &mut bytes);
        if !each(&bytes) || !more {
            return Ok(());
        }
        bytes.clear();
    }
}

/// What was read, up to the walk's place, and of keys that were about to be written.
struct Walk {
    /// Keys that have expired by then are left out.
    moment: u64,
    /// Whether the libraries of functions were read: as they are at its first step.
    has_libraries: bool,
    /// Where the keys of each database are, by the numbers that these had at the moment; 0 for one that had none.
    maps: [u64; DATABASES as usize],
    /// The place: a database, and a cursor in its keys.
    db: u8,
    cursor: u64,
    /// Keys beyond the place that were read, or were not there at the moment, with the numbers of then.
    kept: HashSet<(u8, Vec<u8>)>,
    text: Text,
    failed: Option<WalkError>,
}

/// How it is written.
pub(crate) enum Form {
    /// As an export.
    Commands(Encoder),
    /// As Redis's snapshots.
    Snapshot(FileEncoder, Contents),
}

/// What a snapshot has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Contents {
    #[default]
    All,
    /// The libraries of functions, and no keys.
    Functions,
    /// Neither.
    Nothing,
}

impl Form {
    pub(crate) fn commands() -> Self {
        Form::Commands(Encoder::default())
    }

    /// For a replica, in whose stream this database is chosen.
    pub(crate) fn snapshot(stream_db: u8, contents: Contents) -> Self {
        Form::Snapshot(FileEncoder::for_stream(stream_db), contents)
    }

    fn contents(&self) -> Contents {
        match self {
            Form::Commands(_) => Contents::All,
            Form::Snapshot(_, contents) => *contents,
        }
    }
}

/// The bytes to be written.
struct Text {
    form: Form,
    bytes: Vec<u8>,
    keys: u64,
}

impl Text {
    fn new(mut form: Form) -> Self {
        let mut bytes = Vec::new();
        match &mut form {
            Form::Commands(encoder) => encoder.begin(&mut bytes),
            Form::Snapshot(file, _) => file.begin(&mut bytes),
        }
        Text { form, bytes, keys: 0 }
    }

    /// Adds one key.
    fn add(&mut self, tx: &mut dyn Tx, db: u8, key: &[u8], entry: Entry) -> Result<()> {
        let Text { form, bytes, keys } = self;
        match form {
            Form::Commands(encoder) => read::one(tx, db, key, entry, &mut |record| {
                encoder.record(&record, bytes);
                Ok(())
            })?,
            Form::Snapshot(file, _) => {
                let mut value = Vec::new();
                values::write(tx, entry, form::STREAM, &mut value, &mut |_| true).map_err(
                    |failure| match failure {
                        Failure::Pool(error) => error,
                        _ => Error::Invalid("a value that cannot be written"),
                    },
                )?;
                file.key(db, key, entry.expires(), &value, bytes);
            }
        }
        *keys += 1;
        Ok(())
    }

    fn add_libraries(&mut self, tx: &mut dyn Tx, header: u64) -> Result<()> {
        let Text { form, bytes, .. } = self;
        read::libraries(tx, header, &mut |record| {
            match (&mut *form, &record.change) {
                (Form::Commands(encoder), _) => encoder.record(&record, bytes),
                (Form::Snapshot(file, _), Change::Library(code)) => file.library(code, bytes),
                (Form::Snapshot(..), _) => {}
            }
            Ok(())
        })
    }

    fn take(&mut self, is_last: bool, to: &mut Vec<u8>) {
        let Text { form, bytes, keys } = self;
        match form {
            Form::Commands(encoder) if is_last => encoder.end(*keys, bytes),
            Form::Commands(_) => {}
            Form::Snapshot(file, _) => {
                file.sent(bytes);
                if is_last {
                    file.end(bytes);
                }
            }
        }
        to.append(bytes);
    }
}

impl Walk {
    fn new(tx: &mut dyn Tx, header: u64, form: Form) -> Result<Self> {
        let mut maps = [0; DATABASES as usize];
        for (index, at) in (0..).zip(&mut maps) {
            *at = Database::new(header, index).keys(tx)?.map_or(0, Keys::at);
        }
        Ok(Walk {
            moment: now(),
            has_libraries: false,
            maps,
            db: 0,
            cursor: 0,
            kept: HashSet::new(),
            text: Text::new(form),
            failed: None,
        })
    }

    /// The number that a database had at the moment, and its keys; `None` if it had none then.
    fn known(&self, tx: &mut dyn Tx, db: Database) -> Result<Option<(u8, Keys)>> {
        let Some(keys) = db.keys(tx)? else { return Ok(None) };
        let known = (0..).zip(self.maps).find(|(_, at)| *at == keys.at());
        Ok(known.map(|(number, _)| (number, keys)))
    }

    /// Whether a key is as good as gone. Not to replicas, which are told when it is.
    fn leaves_out(&self, entry: Entry) -> bool {
        matches!(self.text.form, Form::Commands(_)) && entry.expired(self.moment)
    }

    fn keep(&mut self, tx: &mut dyn Tx, db: Database, key: &[u8]) {
        if self.failed.is_some() || self.text.form.contents() != Contents::All {
            return;
        }
        if let Err(error) = self.try_keep(tx, db, key) {
            // The client's command may well succeed.
            self.failed = Some(error.into());
        }
    }

    fn try_keep(&mut self, tx: &mut dyn Tx, db: Database, key: &[u8]) -> Result<()> {
        let Some((number, keys)) = self.known(tx, db)? else { return Ok(()) };
        let known = (number, key.to_vec());
        let is_past = match number.cmp(&self.db) {
            Less => true,
            Equal => keys.is_before(tx, key, self.cursor)?,
            Greater => false,
        };
        if is_past || self.kept.contains(&known) {
            return Ok(());
        }
        if let Some(found) = db.find(tx, key)?
            && !self.leaves_out(found.entry)
        {
            self.text.add(tx, number, key, found.entry)?;
        }
        self.kept.insert(known);
        Ok(())
    }

    /// Some keys more. Whether there are others.
    fn step(&mut self, tx: &mut dyn Tx, header: u64) -> Result<bool> {
        if self.failed.is_some() {
            // Where keys have been there may be something else.
            return Ok(false);
        }
        let contents = self.text.form.contents();
        if !self.has_libraries && contents != Contents::Nothing {
            self.has_libraries = true;
            self.text.add_libraries(tx, header)?;
        }
        if contents != Contents::All {
            return Ok(false);
        }
        let mut next = 0;
        let at = self.maps.get(usize::from(self.db)).copied().unwrap_or(0);
        if at != 0 {
            let keys = Keys::new(at);
            let found;
            (next, found) = keys.scan(tx, self.cursor, KEYS)?;
            for (key, entry) in found {
                let entry = entry.checked(keys.at())?;
                let known = (self.db, key);
                if keys.is_before(tx, &known.1, self.cursor)?
                    || self.leaves_out(entry)
                    || self.kept.contains(&known)
                {
                    continue;
                }
                self.text.add(tx, known.0, &known.1, entry)?;
            }
        }
        self.cursor = next;
        if next == 0 {
            self.db += 1;
        }
        Ok(self.db < DATABASES)
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
