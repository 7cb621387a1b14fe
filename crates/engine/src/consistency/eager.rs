//! Redo logging with a window of transactions: a software version of Loose-Ordering Consistency (Lu et al., section
//! III), which is a hardware design.
//!
//! Its two ideas appear here as follows. *Eager commit*: there is no commit record, a record proves itself complete
//! ([`record`](crate::log::record)). *Speculation*: consecutive transactions persist together, become durable in order,
//! and a word that several of them store is written once; each can be undone without those before it.
//!
//! The window is the write set. A transaction whose durability is not waited for commits by
//! [sealing](crate::writes::WriteSet::seal) its writes; the next one continues in the same set, and finds the writes of
//! earlier ones as it finds its own. So a window costs nothing but a larger set. When it is full, or one of its
//! transactions is waited for, all of it becomes durable as one record and is stored in place, as one transaction of
//! [`redo`]. The set passes from session to session with the lock.
//!
//! Only the writer can look into its write set. So a session that reads closes the window first, after waiting for the
//! transaction that is running in it, and then no window is opened for a number of commits, which grows each time this
//! happens again soon. The session that last worked in the window reads as a writer, and the window stays open.
//!
//! What always holds: writes in the window are in no record and not in the memory; a transaction that has seen them is
//! not durable before they are.

use super::choice::SharingChoice;
use super::core::{Core, ticket};
use super::protocol::{Consistency, Groups, LockOf, Right};
use super::redo::{self, Redo};
use super::shared::{OneRecord, TICKET_BITS};
use super::writer::Writer;
use crate::error::Boxed;
use crate::log::area::Geometry;
use crate::log::record::FoundRecord;
use crate::planted::{self, Bug};
use crate::tuning::Tuning;
use crate::writes::WriteSet;
use crate::writes::overlay::MayOverlay;
use crate::{Counters, Error, Recovery, Result, Ticket};
use perdura_memory::atomics::{AtomicBool, Ordering};
use perdura_memory::lock::{Apart, Order, Writing};
use perdura_memory::{Domain, LINE, Memory, Object, Traced};
use std::ops::Range;

/// Redo logging with a window.
pub struct Eager;

/// The most transactions of a window by default: the paper's degree of speculation.
const WINDOW: u64 = 16;
/// The upper limit of any setting: tickets tell no more transactions apart.
const MOST: u64 = 1 << (TICKET_BITS - 1);
/// Commits without a window after a reader has closed one: at first, and at most.
const REST: (u64, u64) = (16, 4096);
/// Consecutive windows not closed by a reader after which the rest is halved.
const UNDISTURBED: u64 = 16;
/// The age in nanoseconds at which a window is closed that no thread waits for.
const WITHIN_NS: u64 = 10_000_000;

/// The windows.
pub struct Windows;

/// The part of the window that other sessions see.
pub struct OpenWindow {
    own: Object,
    is_open: Apart<AtomicBool>,
}

/// The window; the writer's own state.
pub struct Window {
    own: Object,
    /// Between transactions, the stores of the window; while a session has these, the session's own set.
    writes: Box<WriteSet>,
    /// Whether a transaction has `writes`.
    is_taken: bool,
    /// Fresh memory of its transactions.
    fresh: Vec<Range<u64>>,
    /// The number of its transactions.
    joined: u64,
    most: u64,
    choice: SharingChoice,
    /// Commits until the next window, and until the one after if a reader closes that.
    rest: u64,
    next_rest: u64,
    /// Windows since then that were not closed by a reader.
    undisturbed: u64,
    /// When it was first seen open by [`Groups::flush_due`]; 0 if not yet.
    seen: u64,
    within_ns: u64,
    /// The log writer for windows closed by the background flusher.
    flush_writer: Option<Box<Writer>>,
}

impl OpenWindow {
    fn set<M: Memory>(&self, memory: &M, is_open: bool) {
        // Readers look at it all the time, so avoid needless stores.
        if self.is_open.0.load(Ordering::Relaxed) != is_open {
            self.is_open.0.store(is_open, Ordering::Release);
            Traced::new(memory, self.own).wrote(0, 1);
        }
    }
}

impl MayOverlay for OpenWindow {}

impl Window {
    /// Reports a change; all changed fields share one report.
    #[inline(always)]
    fn touch<M: Memory>(&self, memory: &M) {
        Traced::new(memory, self.own).wrote(0, LINE);
    }
}

impl Groups for Windows {
    const ANY: bool = true;
    const NEEDS_FLUSHER: bool = true;
    const WINDOWS: bool = true;
    const AT_CHECKPOINT: bool = false;
    const TICKET_BITS: u32 = TICKET_BITS;

    type Open = OpenWindow;
    type Own = Window;

    fn new<M: Memory>(memory: &M, _geometry: &Geometry, _salt: u64) -> (OpenWindow, Window) {
        let window = Window {
            own: memory.object(LINE),
            writes: Box::new(WriteSet::new(memory)),
            is_taken: false,
            fresh: Vec::new(),
            joined: 0,
            most: WINDOW,
            choice: SharingChoice::new(memory.domain()),
            rest: 0,
            next_rest: REST.0,
            undisturbed: 0,
            seen: 0,
            within_ns: WITHIN_NS,
            flush_writer: None,
        };
        (OpenWindow { own: memory.object(LINE), is_open: Apart::default() }, window)
    }

    #[inline(always)]
    fn joined<M: Memory>(memory: &M, right: &Writing<'_, OpenWindow, Window>) -> u64 {
        Traced::new(memory, right.own.own).read(0, LINE);
        right.own.joined
    }

    #[inline(always)]
    fn has_window<M: Memory>(memory: &M, open: &OpenWindow) -> bool {
        Traced::new(memory, open.own).read(0, 1);
        open.is_open.0.load(Ordering::Acquire) && !planted::has(Bug::WindowOverlooked)
    }

    #[inline(always)]
    fn enter<M: Memory>(memory: &M, right: Writing<'_, OpenWindow, Window>, writer: &mut Writer) {
        if Self::joined(memory, &right) > 0 {
            std::mem::swap(&mut right.own.writes, &mut writer.writes);
            right.own.is_taken = true;
            right.own.touch(memory);
        }
    }

    fn copy_window<M: Memory>(
        memory: &M,
        right: Writing<'_, OpenWindow, Window>,
        writer: &mut Writer,
    ) {
        if Self::joined(memory, &right) > 0 {
            right.own.writes.copy_to(memory, &mut writer.writes);
        }
    }

    #[inline(always)]
    fn leave<M: Memory>(memory: &M, right: Writing<'_, OpenWindow, Window>, writer: &mut Writer) {
        if right.own.joined == 0 {
            right.own.is_taken = false;
            return writer.forget(memory);
        }
        if !writer.writes.is_sealed() && !planted::has(Bug::AbortedWordsStay) {
            writer.writes.undo(memory);
        }
        writer.fresh.clear();
        // The session that began the window leaves its set here.
        std::mem::swap(&mut right.own.writes, &mut writer.writes);
        right.own.is_taken = false;
        right.own.touch(memory);
    }

    fn close<M: Memory>(
        core: &Core<M>,
        mut right: Writing<'_, OpenWindow, Window>,
        writer: &mut Writer,
        _number: u64,
    ) -> Result<()> {
        core.ending(|| end(core, &mut right, writer))
    }

    fn close_to_read<M: Memory>(
        core: &Core<M>,
        mut right: Writing<'_, OpenWindow, Window>,
        writer: &mut Writer,
    ) -> Result<()> {
        if right.own.joined == 0 {
            return Ok(());
        }
        let Window { rest, next_rest, undisturbed, .. } = &mut *right.own;
        (*rest, *undisturbed) = (*next_rest, 0);
        *next_rest = (2 * *next_rest).min(REST.1);
        Self::close(core, right.again(), writer, u64::MAX)
    }

    fn flush_due<M: Memory>(
        core: &Core<M>,
        mut right: Writing<'_, OpenWindow, Window>,
    ) -> Result<()> {
        if Self::joined(&*core.memory, &right) == 0 {
            return Ok(());
        }
        let now = core.memory.now().max(1);
        if right.own.seen == 0 {
            right.own.seen = now;
        }
        if now.saturating_sub(right.own.seen) < right.own.within_ns {
            return Ok(());
        }
        let new = || Box::new(Writer::new_passing(&*core.memory, core.geometry.segment_bytes));
        let mut writer = right.own.flush_writer.take().unwrap_or_else(new);
        let ended = Self::close(core, right.again(), &mut writer, u64::MAX);
        *core.counters() += std::mem::take(&mut *writer.counters);
        right.own.flush_writer = Some(writer);
        ended
    }

    fn tune(window: &mut Window, tuning: &Tuning) {
        window.most = tuning.window.unwrap_or(window.most).clamp(1, MOST);
        window.within_ns = tuning.answer_within_ns.unwrap_or(window.within_ns);
        window.choice.tune(tuning.share);
    }
}

impl Consistency for Eager {
    const NO_GAPS: bool = true;

    type Groups = Windows;

    #[inline]
    fn logs_fresh(domain: Domain, len: u64) -> bool {
        Redo::logs_fresh(domain, len)
    }

    #[inline]
    fn commit<M: Memory>(
        core: &Core<M>,
        mut right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        if right.own.joined + 1 < right.own.most && may_stay(core, &mut right, writer) {
            return Ok(stay(core, &mut right, writer)?);
        }
        Ok(log_window(core, &mut right, writer)?)
    }

    /// Stays in the window if another writing transaction waits to enter, and if that is the faster way: as in [group
    /// commit](super::shared).
    #[inline]
    fn commit_awaited<M: Memory>(
        core: &Core<M>,
        mut right: Right<'_, Self>,
        writer: &mut Writer,
    ) -> Boxed<Ticket> {
        let wanted = right.shared.is_wanted(&*core.memory);
        let pays = (wanted || right.own.joined > 0)
            && Redo::gains_from_sharing(core.memory.domain())
            && right.own.choice.shares(&*core.memory);
        if pays && wanted && right.own.joined < MOST && may_stay(core, &mut right, writer) {
            return Ok(stay(core, &mut right, writer)?);
        }
        Ok(log_window(core, &mut right, writer)?)
    }

    #[inline]
    fn after_commit<M: Memory, O: Order>(
        core: &Core<M>,
        lock: &LockOf<O, Self>,
        writer: &mut Writer,
    ) {
        redo::after_commit::<M, Self, O>(core, lock, writer);
    }

    fn checkpoint_within<M: Memory>(
        core: &Core<M>,
        _right: Right<'_, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        redo::empty(core, counters)
    }

    fn checkpoint<M: Memory, O: Order>(
        core: &Core<M>,
        lock: &LockOf<O, Self>,
        counters: &mut Counters,
    ) -> Result<()> {
        redo::empty_alongside_writers::<M, Self, O>(core, lock, counters)
    }

    fn apply<M: Memory>(memory: &M, whole: &[Vec<FoundRecord>]) -> Result<Recovery> {
        Redo::apply(memory, whole)
    }
}

/// Whether the window may stay open with the writer's transaction: fences are saved, readers close few windows, and
/// there is room for the next transaction.
#[inline]
fn may_stay<M: Memory>(core: &Core<M>, right: &mut Right<'_, Eager>, writer: &Writer) -> bool {
    let rests = right.own.rest > 0;
    right.own.rest -= u64::from(rests);
    !rests
        && Redo::gains_from_sharing(core.memory.domain())
        && writer.writes.has_room_for_another()
        && writer.record_bytes() <= core.geometry.segment_bytes
}

/// Commits the transaction, which becomes durable with the window.
#[inline]
fn stay<M: Memory>(
    core: &Core<M>,
    right: &mut Right<'_, Eager>,
    writer: &mut Writer,
) -> Result<Ticket> {
    core.memory.check_fence()?;
    core.next_number()?;
    let window = &mut *right.own;
    window.touch(&*core.memory);
    writer.writes.seal();
    if !planted::has(Bug::WindowsFreshForgotten) {
        window.fresh.append(&mut writer.fresh);
    }
    window.joined += 1;
    right.shared.get().set(&*core.memory, true);
    writer.counters.commits += 1;
    writer.counters.shared += 1;
    Ok(ticket(TICKET_BITS, core.last_commit(), window.joined))
}

/// Makes the writer's transaction durable, with the window before it.
#[inline]
fn log_window<M: Memory>(
    core: &Core<M>,
    right: &mut Right<'_, Eager>,
    writer: &mut Writer,
) -> Result<Ticket> {
    let mut last = ticket(TICKET_BITS, core.last_commit(), right.own.joined + 1);
    if right.own.joined == 0 {
        redo::log_transaction(core, &mut right.shared, writer)?;
    } else if let Err(error) = log_with_window(core, right, writer) {
        let Error::TooLarge { .. } = error else { return Err(error) };
        // The window alone is small, and so may be the transaction without it.
        writer.counters.aborts_capacity -= 1;
        end(core, right, writer)?;
        last = ticket(TICKET_BITS, core.last_commit(), 1);
        redo::log_transaction(core, &mut right.shared, writer)?;
    }
    writer.counters.commits += 1;
    Ok(last)
}

/// As [`log_window`], for a write set that holds both.
fn log_with_window<M: Memory>(
    core: &Core<M>,
    right: &mut Right<'_, Eager>,
    writer: &mut Writer,
) -> Result<()> {
    let own = writer.fresh.len();
    right.own.fresh.iter().for_each(|range| writer.add_fresh(&*core.memory, range.clone()));
    let written = redo::log_transaction(core, &mut right.shared, writer);
    writer.fresh.truncate(own);
    written?;
    ended(core, right);
    Ok(())
}

/// Closes the window, independently of the writer's own transaction: its transactions become durable and are stored in
/// place.
#[cold]
fn end<M: Memory>(core: &Core<M>, right: &mut Right<'_, Eager>, writer: &mut Writer) -> Result<()> {
    if right.own.joined == 0 {
        return Ok(());
    }
    let memory = &*core.memory;
    let fresh = std::mem::replace(&mut writer.fresh, right.own.fresh.clone());
    let is_taken = right.own.is_taken;
    if is_taken {
        // If a transaction is running in the window's set, `old` has its view of earlier writes.
        writer.old.clear(memory);
        writer.writes.copy_sealed(memory, &mut writer.old);
        std::mem::swap(&mut writer.writes, &mut writer.old);
    } else {
        std::mem::swap(&mut writer.writes, &mut right.own.writes);
    }
    let written = redo::log_transaction(core, &mut right.shared, writer);
    if is_taken {
        writer.writes.clear(memory);
        std::mem::swap(&mut writer.writes, &mut writer.old);
    } else {
        if written.is_ok() {
            writer.writes.clear(memory);
        }
        std::mem::swap(&mut writer.writes, &mut right.own.writes);
    }
    writer.fresh = fresh;
    written?;
    if is_taken {
        writer.writes.forget_sealed(memory);
    }
    ended(core, right);
    // The running transaction may take long, and stores nothing yet.
    right.shared.let_readers_in(memory);
    Ok(())
}

/// Empties the window once its writes are in the memory.
fn ended<M: Memory>(core: &Core<M>, right: &mut Right<'_, Eager>) {
    let window = &mut *right.own;
    window.touch(&*core.memory);
    window.fresh.clear();
    (window.joined, window.seen) = (0, 0);
    window.undisturbed += 1;
    if window.undisturbed > UNDISTURBED {
        window.undisturbed = 0;
        window.next_rest = (window.next_rest / 2).max(REST.0);
    }
    right.shared.get().set(&*core.memory, false);
}
