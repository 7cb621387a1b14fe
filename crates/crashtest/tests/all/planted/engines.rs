//! Engines with a bug planted: real ones, wrapped.

use crate::planted::early::Eager;
use perdura::superblock::{State, Superblock};
use perdura_crashtest::Family;
use perdura_crashtest::runner::ENGINES;
use perdura_engine::area::{self, Checkpoint, Geometry};
use perdura_engine::recovery;
use perdura_engine::{Counters, Engine, Recovery, Result, Sums, Ticket, Tuning};
use perdura_memory::{AnyMemory, Memory};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// No bug: for comparison.
pub(crate) const NONE: u8 = 0;
/// Recovery applies the oldest record once more after the newest.
pub(crate) const TWICE: u8 = 1;
/// Recovery moves the checkpoint before it applies the words.
pub(crate) const FORGETS_FIRST: u8 = 2;
/// Recovery ignores one session's log.
pub(crate) const LANE_FORGOTTEN: u8 = 3;
/// The page table is changed in place at once, before the commit.
pub(crate) const TOO_EARLY: u8 = 4;
/// Freed memory is reused at once, although the log still refers to it.
pub(crate) const NO_LIMBO: u8 = 5;
/// Recovery keeps the salt, so that discarded records can be taken up by later ones.
pub(crate) const SAME_SALT: u8 = 6;
/// The session reports every ticket as durable at once.
pub(crate) const ANSWERS_FIRST: u8 = 7;

/// Each new log begins with the same salt.
pub(crate) const CONSTANT_SALT: u8 = 8;
/// The header does not show that a log is being formatted, but keeps its previous contents.
pub(crate) const NO_FORMATTING: u8 = 9;
/// The fence behind a log record comes after the words are in place.
pub(crate) const LATE_FENCE: u8 = 10;

thread_local! {
    /// The bug of this thread's planted engines. With a type for each bug, each would be compiled separately.
    static BUG: Cell<u8> = const { Cell::new(NONE) };
}

/// The bug that this thread's planted engines have.
pub(crate) fn bug() -> u8 {
    BUG.get()
}

/// Runs `body` with this bug in this thread's planted engines.
pub(crate) fn with<R>(bug: u8, body: impl FnOnce() -> R) -> R {
    BUG.set(bug);
    let result = body();
    BUG.set(NONE);
    result
}

/// The log segment of the second session that commits.
const FORGOTTEN: u32 = 1;

/// The engines of `F` with the [`bug`].
pub(crate) struct Planted<F>(PhantomData<fn() -> F>);

impl<F: Family> Family for Planted<F> {
    type Engine = Wrapped<F::Engine, AnyMemory>;
}

/// An engine with a bug.
pub(crate) struct Wrapped<E, M> {
    inner: Arc<E>,
    memory: Arc<M>,
}

impl<M: Memory + 'static, E: Engine<M>> Engine<M> for Wrapped<E, M> {
    const NAME: &'static str = E::NAME;
    const NEEDS_FLUSHER: bool = E::NEEDS_FLUSHER;
    type Session = Eager<E::Session, M>;

    fn format(memory: &M, area: Range<u64>) {
        if bug() == NO_FORMATTING {
            say_what_was(memory, &area);
        }
        E::format(memory, area.clone());
        if bug() == CONSTANT_SALT {
            let geometry = Geometry::read(memory, area, E::NAME).expect("a new log");
            for sequence in 0..2 {
                geometry.set_checkpoint(memory, Checkpoint { sequence, ticket: 0, salt: 7 });
            }
        }
    }

    fn inspect(memory: &M, area: Range<u64>) -> Result<Recovery> {
        E::inspect(memory, area)
    }

    fn recover(memory: &M, area: Range<u64>) -> Result<Recovery> {
        match bug() {
            TOO_EARLY | NO_LIMBO | ANSWERS_FIRST | CONSTANT_SALT | NO_FORMATTING => {
                E::recover(memory, area)
            }
            _ if E::NAME == "s-wal" => E::recover(memory, area),
            bug => recover(memory, area, E::NAME, bug),
        }
    }

    fn start_with_sums(memory: Arc<M>, area: Range<u64>, sums: Option<Sums>) -> Result<Arc<Self>> {
        let inner = E::start_with_sums(memory.clone(), area, sums)?;
        Ok(Arc::new(Wrapped { inner, memory }))
    }

    fn session(self: &Arc<Self>) -> Result<Self::Session> {
        Ok(Eager::new(self.inner.session()?, self.memory.clone(), bug()))
    }

    fn reclaimable(&self) -> Ticket {
        if bug() == NO_LIMBO { Ticket(u64::MAX) } else { self.inner.reclaimable() }
    }

    fn flush_due(&self) -> Result<()> {
        self.inner.flush_due()
    }

    fn tune(&self, tuning: &Tuning) {
        self.inner.tune(tuning);
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()
    }
}

/// Restores the header's statement that the pool is whole, with the engine of the log that is still there, if there is
/// one.
fn say_what_was<M: Memory>(memory: &M, area: &Range<u64>) {
    let left = ENGINES.iter().find(|name| Geometry::read(memory, area.clone(), name).is_ok());
    if let (Ok(mut header), Some(name)) = (Superblock::read(memory), left) {
        header.engine = (*name).to_owned();
        header.state = State::Closed;
        header.write(memory);
    }
}

/// The recovery of undo and redo, and of the group layer on them, with a bug or without.
fn recover<M: Memory>(memory: &M, area: Range<u64>, name: &str, bug: u8) -> Result<Recovery> {
    let redo = name.ends_with("redo");
    let geometry = Geometry::read(memory, area, name)?;
    let old = geometry.checkpoint(memory)?;
    let mut records = geometry.records(memory, old.salt);
    if bug == LANE_FORGOTTEN {
        let lane = geometry.segment(FORGOTTEN);
        records.retain(|record| !lane.contains(&record.at));
    }
    let (mut whole, discarded) = recovery::transactions(records, old.ticket, redo, (0, 0))?;
    // As the engines do, makes the stores that a dead process may have left durable before relying on them.
    memory.write_back(geometry.start, 256);
    for record in whole.iter().flatten() {
        let range = record.range();
        memory.write_back(range.start, range.end - range.start);
    }
    memory.fence();
    let found = whole.len() as u64;
    let highest = whole.iter().flatten().map(|record| record.part.ticket).max();
    let salt = if bug == SAME_SALT { old.salt } else { area::new_salt(memory, old.salt) };
    let ticket = highest.unwrap_or(0).max(old.ticket);
    let checkpoint = Checkpoint { sequence: old.sequence + 1, ticket, salt };
    if bug == FORGETS_FIRST {
        geometry.set_checkpoint(memory, checkpoint);
    }
    if !redo {
        whole.reverse();
    }
    if bug == TWICE {
        whole.extend(whole.first().cloned());
    }
    for record in whole.iter().flatten() {
        record.for_each_word(|at, value| {
            memory.store(at, value);
            memory.write_back(at, 8);
            Ok(())
        })?;
    }
    memory.fence();
    if bug != FORGETS_FIRST {
        geometry.set_checkpoint(memory, checkpoint);
    }
    let (replayed, rolled_back) = if redo { (found, 0) } else { (0, found) };
    Ok(Recovery { replayed, rolled_back, discarded, ..Recovery::default() })
}
