//! BGSAVE: the keyspace as it was at one moment, written next to the pool while clients go on.
//!
//! With engines whose readers have snapshots it is read in one transaction. With the others a walk goes through the
//! keys, some in each transaction, in the order of their places in the hash maps, which they keep when these grow and
//! shrink. A command that is about to write a key which the walk has not reached adds the key to the export first, as it
//! is before the write, or notes that it is not there; the walk leaves out noted keys.
//!
//! Invariants: the export's moment is a write transaction, so that no other write transaction is under way: each
//! later one finds the walk begun. The walk's lock is taken inside of transactions, which wait for nothing while they
//! hold it. The file gets its name when it is whole and durable, and everything that was read for it is durable.

use crate::keyspace::{DATABASES, Database, now};
use crate::store::{Session, Store};
use crate::transfer::resp::Encoder;
use crate::transfer::{TransferError, export, read};
use perdura::draft::{Draft, DraftError};
use perdura::{Error, Result, Tx};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, info};

/// Keys, at least, of one transaction of the walk, unless fewer are left.
const KEYS: u64 = 32;

/// Why an export was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Draft(#[from] DraftError),
    #[error("{}: cannot write it ({source}); free space on its file system if that is full, then save again", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("FLUSHALL or FLUSHDB deleted what was still to be written; save again")]
    Flushed,
}

impl From<Error> for SaveError {
    fn from(error: Error) -> Self {
        SaveError::Transfer(error.into())
    }
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        SaveError::Transfer(error.into())
    }
}

type Starter = dyn Fn(Arc<Save>) -> io::Result<JoinHandle<()>> + Send + Sync;

/// Exports, one at a time.
pub(crate) struct Save {
    /// A walk is under way, which writers must look at.
    walking: AtomicBool,
    walk: Mutex<Option<Walk>>,
    stopping: AtomicBool,
    state: Mutex<SaveState>,
    ended: Condvar,
    start: Option<Box<Starter>>,
}

/// The facts of INFO about exports.
#[derive(Clone, Debug)]
pub(crate) struct SaveStatus {
    /// Seconds since 1970 of the last success, or of the server's start.
    pub(crate) last: u64,
    /// Why the last one failed, if it did.
    pub(crate) failed: Option<String>,
    /// How long the last one took.
    pub(crate) took: Option<Duration>,
    /// When the one under way began.
    pub(crate) since: Option<Instant>,
}

struct SaveState {
    status: SaveStatus,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Save {
    /// Without a pool: it can save nothing.
    pub(crate) fn none() -> Self {
        let status = SaveStatus { last: now() / 1000, failed: None, took: None, since: None };
        Save {
            walking: AtomicBool::new(false),
            walk: Mutex::default(),
            stopping: AtomicBool::new(false),
            state: Mutex::new(SaveState { status, thread: None }),
            ended: Condvar::new(),
            start: None,
        }
    }

    /// Of the keyspace at `header` in a pool.
    pub(crate) fn of<S: Store + Sync>(store: S, header: u64) -> Self {
        let start = move |save: Arc<Save>| {
            let store = store.clone();
            thread::Builder::new().name("save".to_owned()).spawn(move || {
                let done = run(&save, &store, header);
                save.end(done);
            })
        };
        Save { start: Some(Box::new(start)), ..Save::none() }
    }

    /// Begins an export in the background. False if one is under way.
    ///
    /// # Errors
    /// When there can be no thread, or no file.
    pub(crate) fn begin(self: &Arc<Self>) -> io::Result<bool> {
        let mut state = lock(&self.state);
        if state.status.since.is_some() || self.stopping.load(Ordering::Acquire) {
            return Ok(false);
        }
        let start = self.start.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        // The thread needs the state's lock to end: it cannot before its beginning was noted.
        let thread = start(Arc::clone(self))?;
        info!("export begun");
        state.status.since = Some(Instant::now());
        state.thread = Some(thread);
        Ok(true)
    }

    fn end(&self, done: Result<(), SaveError>) {
        self.walking.store(false, Ordering::Release);
        *lock(&self.walk) = None;
        let mut state = lock(&self.state);
        state.status.took = state.status.since.take().map(|since| since.elapsed());
        state.status.failed = done.as_ref().err().map(ToString::to_string);
        self.ended.notify_all();
        match done {
            Ok(()) => {
                state.status.last = now() / 1000;
                info!(
                    seconds = state.status.took.unwrap_or_default().as_secs_f64(),
                    "export written"
                );
            }
            Err(SaveError::Transfer(TransferError::Stopped)) => {
                info!("export given up: the server ends")
            }
            Err(error) => error!("the export failed: {error}"),
        }
    }

    /// Waits for the end of the export that is under way, if there is one, but no longer than `most`: how it ended.
    pub(crate) fn wait(&self, most: Duration) -> Option<std::result::Result<(), String>> {
        let state = lock(&self.state);
        let is_under_way = |state: &mut SaveState| state.status.since.is_some();
        let waited = self.ended.wait_timeout_while(state, most, is_under_way);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        match timeout.timed_out() && state.status.since.is_some() {
            true => None,
            false => Some(state.status.failed.clone().map_or(Ok(()), Err)),
        }
    }

    pub(crate) fn status(&self) -> SaveStatus {
        lock(&self.state).status.clone()
    }

    /// Ends the export that is under way, without a file, and begins no other one.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let thread = lock(&self.state).thread.take();
        if let Some(thread) = thread {
            // The error is in the log.
            let _ = thread.join();
        }
    }

    fn check(&self) -> Result<(), SaveError> {
        match self.stopping.load(Ordering::Acquire) {
            true => Err(TransferError::Stopped.into()),
            false => Ok(()),
        }
    }

    /// A key of `db` is about to be written, in the transaction under way: as it is now, it belongs to the export.
    pub(crate) fn keep(&self, tx: &mut dyn Tx, db: Database, key: &[u8]) {
        if self.walking.load(Ordering::Acquire)
            && let Some(walk) = lock(&self.walk).as_mut()
        {
            walk.keep(tx, db, key);
        }
    }

    /// All keys of a database are about to be deleted.
    pub(crate) fn flush(&self) {
        if self.walking.load(Ordering::Acquire)
            && let Some(walk) = lock(&self.walk).as_mut()
        {
            walk.failed.get_or_insert(SaveError::Flushed);
        }
    }
}

/// The export, up to the walk's place, and of keys that were about to be written.
struct Walk {
    /// Keys that have expired by then are left out.
    moment: u64,
    /// Whether the libraries of functions are in the export: as they are at its first step.
    has_libraries: bool,
    /// The place: a database, and a cursor in its keys.
    db: u8,
    cursor: u64,
    /// Keys beyond the place that are in the export, or were not there at the moment.
    kept: HashSet<(u8, Vec<u8>)>,
    text: Text,
    failed: Option<SaveError>,
}

/// The bytes to be written to the file.
#[derive(Default)]
struct Text {
    encoder: Encoder,
    bytes: Vec<u8>,
    keys: u64,
}

impl Walk {
    fn new() -> Self {
        Walk {
            moment: now(),
            has_libraries: false,
            db: 0,
            cursor: 0,
            kept: HashSet::new(),
            text: Text::default(),
            failed: None,
        }
    }

    /// Whether the walk has come past a key.
    fn is_past(&self, tx: &mut dyn Tx, db: Database, key: &[u8]) -> Result<bool> {
        if db.index() != self.db {
            return Ok(db.index() < self.db);
        }
        match db.keys(tx)? {
            Some(keys) => keys.is_before(tx, key, self.cursor),
            None => Ok(false),
        }
    }

    fn keep(&mut self, tx: &mut dyn Tx, db: Database, key: &[u8]) {
        let known = (db.index(), key.to_vec());
        if self.failed.is_some() || self.kept.contains(&known) {
            return;
        }
        let kept = self.is_past(tx, db, key).and_then(|is_past| {
            if is_past {
                return Ok(());
            }
            if let Some(found) = db.find(tx, key)?
                && !found.entry.expired(self.moment)
            {
                let (index, entry) = (db.index(), found.entry);
                self.text.add(|each| read::one(tx, index, key, entry, each))?;
            }
            self.kept.insert(known);
            Ok(())
        });
        if let Err(error) = kept {
            // The client's command may well succeed.
            self.failed = Some(error.into());
        }
    }

    /// Some keys more. Whether there are others.
    fn step(&mut self, tx: &mut dyn Tx, header: u64) -> Result<bool> {
        if !self.has_libraries {
            self.has_libraries = true;
            let Text { encoder, bytes, .. } = &mut self.text;
            read::libraries(tx, header, &mut |record| {
                encoder.record(&record, bytes);
                Ok(())
            })?;
        }
        let db = Database::new(header, self.db);
        let mut next = 0;
        if let Some(keys) = db.keys(tx)? {
            let found;
            (next, found) = keys.scan(tx, self.cursor, KEYS)?;
            for (key, entry) in found {
                let entry = entry.checked(keys.at())?;
                let known = (self.db, key);
                if keys.is_before(tx, &known.1, self.cursor)?
                    || entry.expired(self.moment)
                    || self.kept.contains(&known)
                {
                    continue;
                }
                self.text.add(|each| read::one(tx, known.0, &known.1, entry, each))?;
            }
        }
        self.cursor = next;
        if next == 0 {
            self.db += 1;
        }
        Ok(self.db < DATABASES)
    }
}

impl Text {
    /// Adds one key's records.
    fn add(&mut self, one: impl FnOnce(&mut read::Each<'_>) -> Result<()>) -> Result<()> {
        let Text { encoder, bytes, keys } = self;
        one(&mut |record| {
            encoder.record(&record, bytes);
            Ok(())
        })?;
        *keys += 1;
        Ok(())
    }
}

fn run<S: Store>(save: &Save, store: &S, header: u64) -> Result<(), SaveError> {
    let path: PathBuf = store.export_path().ok_or(io::Error::from(io::ErrorKind::Unsupported))?;
    let mut draft = Draft::start(&path, true)?;
    if let Some(mode) = store.mode() {
        draft = draft.of_mode(mode);
    }
    let mut file = draft.create()?;
    let mut session = store.session()?;
    let last = match store.has_snapshots() {
        true => snapshot(save, &mut session, &mut file),
        false => walk(save, &mut session, header, &mut file),
    };
    let last = last.map_err(|error| match error {
        SaveError::Transfer(TransferError::File(source)) => SaveError::Write { path, source },
        other => other,
    })?;
    session.wait(last)?;
    save.check()?;
    Ok(draft.publish(Some(file))?)
}

/// All of it in one transaction, which may be run again.
fn snapshot<S: Session>(
    save: &Save,
    session: &mut S,
    file: &mut File,
) -> Result<S::Ticket, SaveError> {
    let mut written = Ok(());
    let ticket = session.read(&mut |tx| {
        written = (|| {
            file.set_len(0)?;
            file.rewind()?;
            export(tx, file, &mut |_| save.check().is_ok())?;
            Ok(())
        })();
        match &mut written {
            // The transaction itself is to see its errors: it may have met another one.
            Err(TransferError::Pool(_)) => {
                let Err(TransferError::Pool(error)) = std::mem::replace(&mut written, Ok(()))
                else {
                    return Ok(());
                };
                Err(error)
            }
            _ => Ok(()),
        }
    })?;
    written?;
    Ok(ticket)
}

/// Some keys in each transaction.
fn walk<S: Session>(
    save: &Save,
    session: &mut S,
    header: u64,
    file: &mut File,
) -> Result<S::Ticket, SaveError> {
    session.write(&mut |_| {
        *lock(&save.walk) = Some(Walk::new());
        save.walking.store(true, Ordering::Release);
        Ok(())
    })?;
    let mut bytes = Vec::new();
    Encoder::default().begin(&mut bytes);
    loop {
        save.check()?;
        let mut more = false;
        let last = session.read(&mut |tx| {
            if let Some(walk) = lock(&save.walk).as_mut() {
                more = walk.step(tx, header)?;
            }
            Ok(())
        })?;
        let keys = {
            let mut walk = lock(&save.walk);
            let walk = walk.as_mut().ok_or(TransferError::Stopped)?;
            if let Some(failed) = walk.failed.take() {
                return Err(failed);
            }
            bytes.append(&mut walk.text.bytes);
            walk.text.keys
        };
        if !more {
            // From here on everything is behind the walk.
            Encoder::default().end(keys, &mut bytes);
            file.write_all(&bytes)?;
            return Ok(last);
        }
        file.write_all(&bytes)?;
        bytes.clear();
    }
}

#[cfg(test)]
#[path = "save_tests.rs"]
mod tests;
