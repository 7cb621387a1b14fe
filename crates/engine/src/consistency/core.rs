//! The state that the sessions of a logging engine share, except for its lock: the memory, the log, what is durable.

use super::number::SharedNumber;
use super::snapshots::{Snapshot, Snapshots};
use super::touched::TouchedPages;
use crate::error::Boxed;
use crate::log::area::{Checkpoint, Geometry};
use crate::log::segments::Segments;
use crate::planted::{self, Bug};
use crate::sections::Sections;
use crate::sync::in_place::Still;
use crate::writes::overlay::MayOverlay;
use crate::{Counters, Error, Result, Sums, Ticket};
use perdura_memory::lock::{Moves, SharedRight, Turn};
use perdura_memory::{DirtyLines, LINE, Memory, Object, Traced, WORD};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Releases the exclusive right to checkpoint when dropped.
struct ExclusivePart<'a, M: Memory>(&'a Core<M>);

impl<M: Memory> Drop for ExclusivePart<'_, M> {
    fn drop(&mut self) {
        self.0.checkpointing.store(false, Ordering::Release);
        self.0.traced().wrote(CHECKPOINTING, 1);
    }
}

/// Offsets of its fields in a core's object: the checkpoint flag, and the others.
const CHECKPOINTING: u64 = 0;
const FIELDS: u64 = LINE;

/// Records a failure unless it is finished.
pub(crate) struct Attempt<'a> {
    pub(crate) failed: &'a AtomicBool,
    pub(crate) finished: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// The shared state.
pub struct Core<M: Memory> {
    pub(crate) memory: Arc<M>,
    own: Object,
    /// Handles for the bits and the flags of the set of dirty lines.
    dirty_own: [Object; 2],
    pub(crate) geometry: Geometry,
    pub(crate) segments: Segments,
    /// Lines stored in place and not written back yet.
    dirty: DirtyLines,
    /// Ticket of the last logical commit; stored by the writer.
    last_commit: SharedNumber,
    /// Everything up to this ticket is durable.
    durable: SharedNumber,
    /// Everything up to this ticket has left the log.
    checkpointed: AtomicU64,
    /// Sequence number of the last checkpoint.
    sequence: AtomicU64,
    /// Seed of all records' checks.
    pub(crate) salt: u64,
    checkpointing: AtomicBool,
    /// Checksums of data at rest, if the memory has any.
    pub(crate) sums: Option<Sums>,
    /// A checkpoint has panicked, or failed.
    checkpoint_failed: AtomicBool,
    /// A commit has panicked.
    broken: AtomicBool,
    pub(crate) touched: TouchedPages,
    pub(crate) snapshots: Snapshots,
    /// What sections share, in engines that have them.
    sections: Option<Box<Sections>>,
    /// Low bits of a ticket that tell the transactions of a group apart.
    ticket_bits: u32,
    /// The last number possible for a commit or a group of commits.
    pub(crate) last_number: u64,
    /// Work that belongs to no session, in engines whose transactions share records. The mutex is held during no access
    /// to the memory.
    counters: Mutex<Counters>,
}

impl<M: Memory> Core<M> {
    /// Starts on an empty log. The low `bits` of each ticket tell the transactions of a group apart.
    ///
    /// # Errors
    /// `Corrupt` where its checkpoint names an impossible commit.
    pub(crate) fn new(
        memory: Arc<M>,
        (geometry, checkpoint): (Geometry, Checkpoint),
        bits: u32,
        sums: Option<Sums>,
    ) -> Result<Self> {
        let Checkpoint { sequence, ticket, salt } = checkpoint;
        if ticket > last_number(bits) {
            return Err(Error::corrupt("checkpoint of a commit that cannot be", geometry.start));
        }
        if sums.as_ref().is_some_and(Sums::has_all) {
            // Overwrites what a previous log had acknowledged.
            geometry.acknowledge(&*memory, salt, 0);
        }
        let (dirty_bits, dirty_flags) = DirtyLines::places(memory.limit());
        Ok(Core {
            segments: Segments::new(&geometry),
            dirty: DirtyLines::new(memory.limit()),
            own: memory.object(2 * LINE),
            dirty_own: [dirty_bits, dirty_flags].map(|end| memory.object(end + WORD)),
            last_commit: SharedNumber::new(&*memory, ticket),
            durable: SharedNumber::new(&*memory, ticket),
            checkpointed: AtomicU64::new(ticket),
            sequence: AtomicU64::new(sequence),
            salt,
            checkpointing: AtomicBool::new(false),
            checkpoint_failed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            touched: TouchedPages::new(memory.domain()),
            snapshots: Snapshots::new(&*memory),
            sums,
            sections: None,
            ticket_bits: bits,
            last_number: last_number(bits),
            counters: Mutex::default(),
            geometry,
            memory,
        })
    }

    /// The same, for an engine with sections.
    pub(crate) fn with_sections(mut self) -> Self {
        let dead = self.checkpointed.load(Ordering::Relaxed);
        self.sections = Some(Box::new(Sections::new(&*self.memory, dead)));
        self
    }

    /// What sections share.
    pub(crate) fn sections(&self) -> &Sections {
        self.sections.as_deref().expect("an engine with sections")
    }

    /// Counts of work that belongs to no session.
    pub(crate) fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes in the log what has been acknowledged, so that its loss by damage is detected. Where nothing becomes
    /// durable without a fence the next record says the same.
    #[inline]
    pub(crate) fn acknowledge(&self) {
        if self.memory.domain().evicts() {
            let durable = self.durable();
            self.geometry.acknowledge(&*self.memory, self.salt, durable);
        }
    }

    /// No reader is inside from here on, until the writing transaction is over: those that stay for long are moved to
    /// snapshots.
    #[inline(always)]
    pub(crate) fn be_alone<S: MayOverlay>(&self, shared: &mut SharedRight<'_, S>) {
        if !planted::has(Bug::NotAlone) {
            shared.be_alone(&*self.memory, self);
        }
    }

    /// Whether a panic has cut a commit short: its words may be partly in place, and its record may or may not be in
    /// the log. Nothing is committed any more until the pool has been recovered.
    #[inline(always)]
    pub(crate) fn is_broken(&self) -> bool {
        self.traced().read(FIELDS, 1);
        self.broken.load(Ordering::Relaxed)
    }

    /// A commit was cut short by a panic. The lock is held.
    #[cold]
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Checks that the memory is this process's, and its file not lost. A failed medium shows at the next fence.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if self.memory.is_usable() { Ok(()) } else { Ok(self.memory.check_fence()?) }
    }

    /// Runs `body`; if it panics, nothing is committed any more. The lock is held.
    fn unless_cut_short<R>(&self, body: impl FnOnce() -> R) -> R {
        let mut attempt = Attempt { failed: &self.broken, finished: false };
        let result = body();
        attempt.finished = true;
        result
    }

    /// Closes a group with `body`, unless the medium has failed or nothing is committed any more. The lock is held.
    pub(crate) fn ending(&self, body: impl FnOnce() -> Result<()>) -> Result<()> {
        self.memory.check_fence()?;
        if self.is_broken() {
            return Err(cut_short());
        }
        self.unless_cut_short(body)
    }

    /// The number of the last commit, or group of commits.
    #[inline]
    pub(crate) fn last_commit(&self) -> u64 {
        self.last_commit.get(&*self.memory)
    }

    /// Sets the number of the last commit, or group of commits.
    #[inline]
    pub(crate) fn set_last_commit(&self, number: u64) {
        self.last_commit.set(&*self.memory, number);
    }

    /// The number of the commit, or group, up to which everything is durable.
    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        self.durable.get(&*self.memory)
    }

    /// A lower bound of [`durable`](Self::durable).
    #[inline]
    pub(crate) fn durable_at_least(&self) -> u64 {
        self.durable.get_alone(&*self.memory)
    }

    /// Sets [`durable`](Self::durable); for the writer.
    #[inline]
    pub(crate) fn set_durable(&self, number: u64) {
        self.durable.set(&*self.memory, number);
    }

    /// Raises [`durable`](Self::durable) to `number`; for concurrent callers.
    #[inline]
    pub(crate) fn raise_durable(&self, number: u64) {
        self.durable.raise(&*self.memory, number);
    }

    /// The number of the commit, or group, up to which everything has left the log.
    pub(crate) fn checkpointed(&self) -> u64 {
        self.traced().read(FIELDS, WORD);
        self.checkpointed.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn traced(&self) -> Traced<'_, M> {
        Traced::new(&*self.memory, self.own)
    }

    /// Reports that a log segment is taken or handed over.
    #[inline]
    pub(crate) fn touch_segments(&self) {
        self.traced().exchange(FIELDS, WORD);
    }

    /// Marks a line that was stored to and must be written back. For the writer.
    pub(crate) fn mark_dirty(&self, line: u64) {
        self.dirty_marker()(line);
    }

    /// [`mark_dirty`](Self::mark_dirty) for several lines.
    #[inline(always)]
    pub(crate) fn dirty_marker(&self) -> impl Fn(u64) {
        marker(&self.dirty, self.dirty_traced())
    }

    /// Takes all marked lines, and calls `run` with each run of adjacent ones.
    pub(crate) fn take_dirty(&self, mut run: impl FnMut(Range<u64>)) {
        let [bits, flags] = self.dirty_traced();
        flags.read(0, DirtyLines::places(self.memory.len()).1 + 1);
        self.dirty.drain(|lines| {
            let (first, last) =
                (DirtyLines::places(lines.start).0, DirtyLines::places(lines.end - 1).0);
            bits.exchange(first, last + WORD - first);
            run(lines);
        });
    }

    #[inline(always)]
    fn dirty_traced(&self) -> [Traced<'_, M>; 2] {
        self.dirty_own.map(|own| Traced::new(&*self.memory, own))
    }

    /// The number of the next commit, or group of commits.
    ///
    /// # Errors
    /// `Invalid` when the numbers run out.
    #[inline(always)]
    pub(crate) fn next_number(&self) -> Boxed<u64> {
        let next = self.last_commit.get_alone(&*self.memory) + 1;
        if next > self.last_number { Err(numbers_ran_out()) } else { Ok(next) }
    }

    /// Runs `body` as an exclusive [part](Self::part) of a checkpoint.
    pub(crate) fn alone<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let mut turn = 0;
        while self.begin_alone() {
            while self.is_checkpointing() {
                self.memory.pause(turn);
                turn += 1;
            }
        }
        let _alone = ExclusivePart(self);
        self.part(body)
    }

    /// Lets the memory give back copies of some pages; returns whether there are more. Checkpoints, which store outside
    /// the rights of transactions, are excluded here.
    pub(crate) fn give_back(&self, _still: &mut impl Still) -> Result<bool> {
        self.alone(|| Ok(self.memory.give_back()))
    }

    /// Tries to start an exclusive part; returns whether another thread runs one.
    fn begin_alone(&self) -> bool {
        self.traced().exchange(CHECKPOINTING, 1);
        self.checkpointing.swap(true, Ordering::Acquire)
    }

    /// Whether a thread runs an exclusive part of a checkpoint.
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.traced().read(CHECKPOINTING, 1);
        self.checkpointing.load(Ordering::Relaxed)
    }

    /// Runs a part of a checkpoint. If it panics or fails, lines that it has taken from the set of dirty lines may not
    /// be durable: there are no checkpoints any more.
    pub(crate) fn part<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.checkpoint_failed.load(Ordering::Relaxed) || self.is_broken() {
            self.memory.check_fence()?;
            return Err(cut_short());
        }
        let mut attempt = Attempt { failed: &self.checkpoint_failed, finished: false };
        let result = body();
        attempt.finished = result.is_ok();
        result
    }

    /// Durably moves the checkpoint to `ticket` and frees the segments behind it; no other thread does so meanwhile.
    pub(crate) fn move_checkpoint(&self, ticket: u64, counters: &mut Counters) -> Result<()> {
        // No locked instruction: it would wait for write-backs.
        let sequence = self.sequence.load(Ordering::Relaxed) + 1;
        self.sequence.store(sequence, Ordering::Relaxed);
        let checkpoint = Checkpoint { sequence, ticket, salt: self.salt };
        self.geometry.set_checkpoint(&*self.memory, checkpoint);
        counters.fences += 1;
        if self.memory.domain().needs_write_back() {
            counters.write_backs_metadata += 1;
        }
        self.memory.check_fence()?;
        self.checkpointed.store(ticket, Ordering::Release);
        self.traced().wrote(FIELDS, WORD);
        self.segments.release(ticket);
        counters.checkpoints += 1;
        Ok(())
    }
}

impl<M: Memory, S: MayOverlay> Moves<S> for Core<M> {
    fn patience_ns(&self) -> Option<u64> {
        Some(self.snapshots.patience_ns())
    }

    /// The reader has noted how many transactions had joined the overlay when it began; if it has not looked yet, it
    /// sees all that have joined by now.
    fn give_state(&self, reader: Turn, noted: Option<u64>, shared: &S) {
        let (memory, number) = (&*self.memory, self.last_commit());
        let mut snapshot = Snapshot { number, joined: HashMap::new(), seen: Ticket(0) };
        let overlay = shared.overlay().map(|overlay| (overlay, overlay.joined(memory)));
        let sees = overlay.map_or(0, |(_, joined)| noted.map_or(joined, |noted| noted.min(joined)));
        if let Some((overlay, _)) =
            overlay.filter(|_| sees > 0 && !planted::has(Bug::MovedWithoutJoined))
        {
            let lines = overlay.found_lines(memory, sees);
            snapshot.joined.extend(lines.map(|found| (found.line, found)));
        }
        snapshot.seen = ticket(self.ticket_bits, number, sees);
        self.snapshots.begin(memory, reader, snapshot);
    }
}

/// The last number that a commit, or a group of commits, can have, where tickets use `bits` bits for the transactions
/// of a group; some numbers are left for groups that are open then. Numbers restart after a recovery long before: with
/// a new salt, no old record can be mistaken for a new one.
pub(crate) const fn last_number(bits: u32) -> u64 {
    (u64::MAX >> (bits + 1)) - 8
}

/// Marks lines in a set that this thread alone marks lines in, and reports it to the memory.
#[inline(always)]
pub(crate) fn marker<M: Memory>(
    lines: &DirtyLines,
    [bits, flags]: [Traced<'_, M>; 2],
) -> impl Fn(u64) {
    let marker = lines.marker();
    move |line| {
        let (bit, flag) = DirtyLines::places(line);
        bits.read(bit, WORD);
        marker.mark_alone(line);
        bits.wrote(bit, WORD);
        flags.wrote(flag, 1);
    }
}

#[cold]
pub(crate) fn numbers_ran_out() -> Box<Error> {
    Box::new(Error::Invalid(
        "the pool has numbered as many commits as it can since it was opened; close it and open it again",
    ))
}

/// The error after a commit or a checkpoint was cut short.
#[cold]
pub(crate) fn cut_short() -> Error {
    let text = "a commit or a checkpoint was cut short; open the pool again";
    std::io::Error::other(text).into()
}

/// The ticket of the transaction that joined the open group as number `joined`, from 1; if that is 0, the ticket of the
/// last transaction of group `last_commit`.
#[inline]
pub(crate) const fn ticket(bits: u32, last_commit: u64, joined: u64) -> Ticket {
    match joined {
        0 => Ticket(((last_commit + 1) << bits) - 1),
        joined => Ticket((last_commit + 1) << bits | (joined - 1)),
    }
}
