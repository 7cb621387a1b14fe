//! A round: threads on an open pool, until its time is over or something is wrong.

use super::layout::Layout;
use super::{Round, Witness, reader, upkeep, writer};
use perdura::{Error, Handle, Pool, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The threads' view of a round.
pub(super) struct Life<'a> {
    pub(super) pool: &'a Pool,
    pub(super) layout: Layout,
    pub(super) witness: &'a dyn Witness,
    pub(super) seed: u64,
    pub(super) reads: AtomicU64,
    ends: Instant,
    stopped: AtomicBool,
}

/// A violation that a thread has met.
#[derive(Debug)]
pub(super) enum Wrong {
    /// An error of the pool.
    Error(Error),
    /// A state that was never committed.
    Seen(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Wrong::Error(error)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Error(error) => error.fmt(f),
            Wrong::Seen(what) => f.write_str(what),
        }
    }
}

/// Whether an error may happen to anybody: memory and sessions are limited.
pub(super) fn benign(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::NoSpace { .. } | Error::Sessions { .. })
}

impl Life<'_> {
    pub(super) fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || Instant::now() >= self.ends
    }

    /// A session; if others have all of them, after a while.
    pub(super) fn session(&self) -> Result<Handle> {
        loop {
            match self.pool.session() {
                Err(Error::Sessions { .. }) if !self.is_over() => {
                    thread::sleep(Duration::from_millis(1));
                }
                session => return session,
            }
        }
    }
}

/// Opens the round's pool, uses it until its time is over, and closes it.
///
/// # Errors
/// The failure.
pub fn live(round: &Round, witness: &dyn Witness) -> Result<(), String> {
    let opened = round.options()?.open_or_create(&round.pool);
    let pool = opened.map_err(|error| format!("the pool cannot be opened: {error}"))?;
    let made =
        pool.session().and_then(|mut handle| handle.transaction(|tx| Layout::open_or_create(tx)));
    let layout = made.map_err(|error| format!("the first transaction: {error}"))?;
    let life = Life {
        pool: &pool,
        layout,
        witness,
        seed: round.seed,
        reads: AtomicU64::new(0),
        ends: Instant::now() + Duration::from_millis(round.millis),
        stopped: AtomicBool::new(false),
    };
    let first = Mutex::new(None);
    let (life_of, first_of) = (&life, &first);
    let ended = |name: String, result: Result<(), Wrong>| {
        if let Err(wrong) = result {
            life_of.stopped.store(true, Ordering::Relaxed);
            let mut first = first_of.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(format!("{name}: {wrong}"));
        }
    };
    thread::scope(|scope| {
        for number in 0..round.writers() {
            let ended = &ended;
            scope.spawn(move || {
                ended(format!("writer {number}"), writer::write(life_of, number));
            });
        }
        for number in 0..round.readers() {
            let ended = &ended;
            scope.spawn(move || {
                ended(format!("reader {number}"), reader::read(life_of, number));
            });
        }
        scope.spawn(|| ended("upkeep".to_owned(), upkeep::look_after(life_of)));
    });
    witness.reads(life.reads.load(Ordering::Relaxed));
    if let Some(wrong) = first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(wrong);
    }
    pool.close().map_err(|error| format!("closing: {error}"))
}
