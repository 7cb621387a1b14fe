//! BGSAVE: the keyspace as it was at one moment, written next to the pool while clients go on.
//!
//! With engines whose readers have snapshots it is read in one transaction, with the others by a [walk](crate::walk). The
//! file gets its name when it is whole and durable, and everything that was read for it is durable.

use crate::keyspace::now;
use crate::protocol::{Protocol, Reply};
use crate::store::{Session, Store};
use crate::transfer::{TransferError, export};
use crate::waiting::{Address, Delivery};
use crate::walk::{Form, WalkError, Walking};
use perdura::draft::{Draft, DraftError};
use perdura::{Error, Result};
use std::fs::File;
use std::io::{self, Seek};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, info};

/// Why an export was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Draft(#[from] DraftError),
    #[error("{}: cannot write it ({source}); free space on its file system if that is full, then save again", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{0}; save again")]
    Walk(WalkError),
}

impl From<WalkError> for SaveError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Pool(error) => error.into(),
            WalkError::File(error) => error.into(),
            WalkError::GivenUp => TransferError::Stopped.into(),
            error => SaveError::Walk(error),
        }
    }
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
    pub(crate) walking: Walking,
    stopping: AtomicBool,
    state: Mutex<SaveState>,
    start: Option<Box<Starter>>,
    /// The function that sends a reply to the client that waits for the end.
    pub(crate) deliver: OnceLock<Box<dyn Fn(Delivery) + Send + Sync>>,
}

/// A client that has sent SAVE.
pub(crate) struct Saver {
    pub(crate) to: Address,
    pub(crate) protocol: Protocol,
}

impl Saver {
    fn answer(&self, done: &Result<(), SaveError>) -> Delivery {
        let mut reply = Vec::new();
        let mut out = Reply::new(&mut reply, self.protocol);
        match done {
            Ok(()) => out.ok(),
            Err(error) => out.error(&format!("ERR the export failed: {error}")),
        }
        Delivery { to: self.to, reply }
    }
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
    /// The client that waits for the end.
    saver: Option<Saver>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Save {
    /// Without a pool: it can save nothing.
    pub(crate) fn none() -> Self {
        let status = SaveStatus { last: now() / 1000, failed: None, took: None, since: None };
        Save {
            walking: Walking::default(),
            stopping: AtomicBool::new(false),
            state: Mutex::new(SaveState { status, thread: None, saver: None }),
            start: None,
            deliver: OnceLock::new(),
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

    /// Begins an export in the background. False if one is under way. `saver` gets an answer at its end.
    ///
    /// # Errors
    /// When there can be no thread, or no file.
    pub(crate) fn begin(self: &Arc<Self>, saver: Option<Saver>) -> io::Result<bool> {
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
        state.saver = saver;
        Ok(true)
    }

    fn end(&self, done: Result<(), SaveError>) {
        self.walking.end();
        let mut state = lock(&self.state);
        state.status.took = state.status.since.take().map(|since| since.elapsed());
        state.status.failed = done.as_ref().err().map(ToString::to_string);
        let answer = state.saver.take().map(|saver| saver.answer(&done));
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
        drop(state);
        if let (Some(answer), Some(deliver)) = (answer, self.deliver.get()) {
            deliver(answer);
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
    session.write(&mut |tx| save.walking.begin(tx, header, Form::commands()))?;
    Ok(save.walking.run(session, header, file, &mut || save.check().is_ok())?)
}

#[cfg(test)]
#[path = "save_tests.rs"]
mod tests;
