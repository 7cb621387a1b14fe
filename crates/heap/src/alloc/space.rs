//! The free space that all sessions share: derived from the page table when the pool is opened, never durable itself.
//!
//! Invariant: a slot or page is in exactly one state: taken (by its durable bit or word, or by an unfinished
//! transaction), cached by the session that owns its page, in a session's stock, free here, or in limbo. *Limbo* holds
//! memory that a committed transaction has freed while the engine's log may still refer to it: here, or in the stock of
//! the session that freed it. A free page may be without space in the file: it is *released*, and gets space again
//! before it is taken (see `release`).
//!
//! All sessions share one lock, so they come here seldom: for several pages at a time, and with batches of frees (see
//! `stock`). Transactions of different sessions may commit at the same time, so frees arrive in any order of tickets;
//! limbo is a queue all the same, in which an entry may have to wait for those before it.

use super::births::Births;
use super::layout::{Class, ENTRY, Layout, Use, taken};
use super::runs::Runs;
use super::sparse::Emptying;
use super::stock::{Freed, Retired, Stock, StockContents, Stocks};
use crate::tx::Purpose;
use perdura_engine::planted::{self, Bug};
use perdura_engine::{Error, Pins, Result, Seen, Ticket};
use perdura_memory::lock::Apart;
use perdura_memory::{LINE, Memory, PAGE};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pages from which on a pool is large, unless [tuned](Space::tune_batches): 16 MiB.
const LARGE: u64 = 1 << 12;
/// Free pages that a session takes at once in a large pool, if at least `PLENTY` are free in one place.
const RUN: u64 = 8;
const PLENTY: u64 = 64;
/// Entries in a line of the page table: if possible, those of a session's pages have lines of their own.
const LINE_ENTRIES: u64 = LINE / ENTRY;
/// Bytes held back for running transactions in a large pool from which on allocations are noted, so that less is.
const NOTED_BYTES: u64 = 256 << 10;
/// Free slots up to which a session of a large pool takes partly used pages at once.
const SLOTS: u32 = 16;

/// The volatile state of a page of slots.
#[derive(Clone, Copy)]
pub(super) struct PageState {
    /// Slots that are neither taken nor cached by a session.
    pub(super) free: u128,
    pub(super) class: Class,
    pub(super) purpose: Purpose,
    /// Whether a session owns the page, and may cache slots of it.
    pub(super) owned: bool,
    /// Whether the page is in the list of pages with free slots.
    listed: bool,
    /// Whether the page is being emptied, so that no slot is taken from it.
    pub(super) sparse: bool,
    /// If an emptying has left objects here, the number of slots that were free then, and one; else 0.
    pub(super) left: u8,
}

impl PageState {
    /// Bytes of the free slots.
    fn free_bytes(&self) -> u64 {
        u64::from(self.free.count_ones()) * self.class.slot_bytes()
    }
}

#[derive(Default)]
pub(super) struct FreeSpace {
    /// Pages of the memory at its present size.
    pub(super) pages: u64,
    pub(super) states: Vec<Option<PageState>>,
    /// Free pages that have space in the file.
    pub(super) runs: Runs,
    /// Free pages that may have no space in the file.
    pub(super) released: Runs,
    /// Number of free pages that are being released.
    pub(super) releasing: u64,
    /// Whether pages have been secured since the last release.
    pub(super) secured: bool,
    partial: BTreeMap<(u8, usize), Vec<u64>>,
    pub(super) limbo: VecDeque<Retired>,
    /// Memory that the log no longer refers to, but running transactions may reach.
    held: Vec<Retired>,
    held_bytes: u64,
    /// The states that these transactions see, as of when that memory was sorted.
    seen: Vec<Seen>,
    /// Bytes of both.
    pub(super) limbo_bytes: u64,
    /// Bytes of all free slots in `states`.
    pub(super) free_slots: u64,
    /// Pages that are being emptied.
    pub(super) emptying: Emptying,
    /// Why the memory could not grow at the last attempt, though its limit was not reached.
    pub(super) refusal: Option<(io::ErrorKind, String)>,
}

/// The memory in limbo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limbo {
    /// Bytes of all of it.
    pub bytes: u64,
    /// Bytes that the log no longer refers to, held back for running transactions alone.
    pub pinned_bytes: u64,
}

/// The free space of a pool.
pub struct Space {
    pub(super) layout: Layout,
    pub(super) stocks: Stocks,
    births: Births,
    /// Apart from the fields that every access reads and that are hardly ever written.
    state: Apart<Mutex<FreeSpace>>,
    /// See [`is_large`](Space::is_large).
    large: AtomicBool,
    /// Pages from which on it is large.
    large_from: AtomicU64,
    /// See [`moves`](Space::moves).
    pub(super) moves: AtomicU64,
}

/// How full a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Bytes of whole free pages, in the file as it is now.
    pub free_page_bytes: u64,
    /// Bytes of free slots in partly used pages.
    pub free_slot_bytes: u64,
    /// Bytes freed to which the log may still refer, or that running transactions may still reach.
    pub limbo_bytes: u64,
    /// Bytes in the largest run of free pages.
    pub largest_free_run: u64,
    /// Bytes of free pages that were given back to the file system, at least.
    pub released_bytes: u64,
}

impl Space {
    /// Derives the free space from the page table.
    ///
    /// # Errors
    /// `Corrupt` if the table is inconsistent.
    pub fn scan<M: Memory + ?Sized>(memory: &M, layout: Layout) -> Result<Self> {
        let pages = layout.pages_in(memory.len());
        let mut state = FreeSpace { pages, ..FreeSpace::default() };
        let mut page = 0;
        while page < pages {
            let at = layout.entry(page);
            let used = Use::from_word(memory.load(at));
            match used.ok_or_else(|| Error::corrupt("page-table entry that cannot be", at))? {
                Use::Free => state.runs.add(page, 1),
                Use::Slots(class, purpose) => {
                    let taken = read_taken(memory, &layout, page, class)?;
                    if taken == 0 {
                        state.runs.add(page, 1);
                    } else {
                        state.adopt(page, class, purpose, class.all_slots() & !taken, false);
                    }
                }
                Use::Run(run) => {
                    if run > pages - page {
                        return Err(Error::corrupt("object beyond the end of the pool", at));
                    }
                    page += run - 1;
                }
            }
            page += 1;
        }
        let (stocks, births) = (Stocks::default(), Births::default());
        let large = AtomicBool::new(pages >= LARGE);
        let large_from = AtomicU64::new(LARGE);
        let (state, moves) = (Apart(Mutex::new(state)), AtomicU64::new(0));
        Ok(Space { layout, stocks, births, state, large, large_from, moves })
    }

    /// Where pages are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// When memory was allocated.
    #[inline(always)]
    pub(super) fn births(&self) -> &Births {
        &self.births
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FreeSpace> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether sessions work by the batch, whatever the pool's size; `None` for the default.
    pub fn tune_batches(&self, batches: Option<bool>) {
        let from = batches.map_or(LARGE, |batches| if batches { 0 } else { u64::MAX });
        self.large_from.store(from, Ordering::Relaxed);
        let pages = self.state().pages;
        self.large.store(pages >= from, Ordering::Relaxed);
    }

    /// Whether the pool is so large that sessions take several pages at a time, free ones and partly used ones, and
    /// keep more of the memory that they free.
    pub fn is_large(&self) -> bool {
        self.large.load(Ordering::Relaxed)
    }

    /// A stock for a session.
    pub fn stock(&self) -> Arc<Stock> {
        self.stocks.add()
    }

    /// Ends a session's stock: its contents go to the shared space.
    pub fn end_stock(&self, stock: &Arc<Stock>) {
        let StockContents { limbo, pages, mut used_up, .. } = self.stocks.remove(stock);
        self.disown_all(&mut used_up);
        let mut state = self.state();
        state.bury(&limbo);
        state.add_pages(pages);
    }

    /// Moves all sessions' limbo to the shared one, before reclaiming.
    pub(super) fn collect_limbo(&self) {
        let limbo = self.stocks.take_limbo();
        if !limbo.is_empty() {
            self.state().bury(&limbo);
        }
    }

    /// Takes back the free pages in all stocks, and the slots that came back to used-up pages: when no other space is
    /// left.
    pub fn collect_pages(&self) {
        let (pages, mut used_up) = self.stocks.take_pages();
        self.disown_all(&mut used_up);
        let mut state = self.state();
        pages.into_iter().for_each(|pages| state.add_pages(pages));
    }

    /// Bytes in limbo and bytes of free pages in the stocks.
    pub(super) fn stocked(&self) -> (u64, u64) {
        let (pages, limbo) = self.stocks.sums();
        (limbo, pages * PAGE)
    }

    /// Takes a free page, growing the memory if it must and can; in a large pool also some pages after it.
    pub fn take_pages(&self, memory: &dyn Memory) -> Option<Range<u64>> {
        if self.is_large() {
            let mut state = self.state();
            if state.runs.longest() >= PLENTY
                && let Some(first) = state.runs.take(RUN)
            {
                // So that the next pages' entries begin with a line.
                let (last, all) = ((first + RUN) / LINE_ENTRIES * LINE_ENTRIES, first + RUN);
                state.add_pages(last..all);
                return Some(first..last);
            }
        }
        self.take_run(memory, 1).map(|page| page..page + 1)
    }

    /// Takes `pages` adjacent free pages, growing the memory if it must and can.
    pub fn take_run(&self, memory: &dyn Memory, pages: u64) -> Option<u64> {
        let mut turn = 0;
        loop {
            let mut state = self.state();
            if let Some(page) = state.runs.take(pages) {
                return Some(page);
            }
            state.refusal = None;
            self.secure(&mut state, memory, pages);
            if state.runs.longest() < pages {
                self.grow(&mut state, memory, pages);
            }
            if let Some(page) = state.runs.take(pages) {
                return Some(page);
            }
            if state.releasing == 0 {
                return None;
            }
            // Pages that another thread is releasing will be available in a moment.
            drop(state);
            memory.pause(turn);
            turn += 1;
        }
    }

    /// Takes the largest run of free pages, limited to `most` pages.
    pub fn take_largest(&self, memory: &dyn Memory, most: u64) -> Option<(u64, u64)> {
        let mut state = self.state();
        let pages = state.runs.longest().max(state.released.longest()).min(most);
        if pages > state.runs.longest() {
            self.secure(&mut state, memory, pages);
        }
        let run = state.runs.take_longest(1, most)?;
        Some((run.start, run.end - run.start))
    }

    fn grow(&self, state: &mut FreeSpace, memory: &dyn Memory, pages: u64) {
        let most = self.layout.pages_in(memory.limit());
        // The free pages at the memory's end count, too.
        let needed = pages.saturating_sub(state.runs.before(state.pages));
        if needed > most.saturating_sub(state.pages) {
            return;
        }
        let step = step(state.pages - state.released.pages()).max(needed);
        for wanted in [step.min(most - state.pages), needed] {
            let pages = state.pages + wanted;
            let grown = self
                .secure_table(memory, state.pages..pages)
                .and_then(|()| memory.grow(self.layout.page(pages)));
            match grown {
                Ok(()) => {
                    state.add_run(state.pages, wanted);
                    state.pages += wanted;
                    let from = self.large_from.load(Ordering::Relaxed);
                    self.large.store(state.pages >= from, Ordering::Relaxed);
                    state.refusal = None;
                    return;
                }
                Err(error) => state.refuse(&error),
            }
        }
    }

    /// Why the memory could not grow at the last attempt: tells a full disk from a full pool.
    pub fn refusal(&self) -> Option<io::Error> {
        self.state().refusal.clone().map(|(kind, text)| io::Error::new(kind, text))
    }

    /// Takes free slots of this class and purpose into `found`, which is empty: those that came back to the page that
    /// the session `owns`, or pages with free slots, which it owns from then on. Before that, ends its ownership of
    /// all `disowned` pages, of which it has no slots left.
    pub fn take_slots(
        &self,
        (class, purpose): (Class, Purpose),
        owns: Option<u64>,
        disowned: &mut Vec<u64>,
        found: &mut Vec<(u64, u128)>,
    ) {
        let mut state = self.state();
        disowned.drain(..).for_each(|page| state.disown(page, 0));
        if let Some(page) = owns {
            let free = state.take_slots(page);
            if free != 0 {
                return found.push((page, free));
            }
        }
        let wanted = if self.is_large() { SLOTS } else { 1 };
        let mut slots = 0;
        while slots < wanted
            && let Some((page, free)) = state.take_partial(class, purpose)
        {
            slots += free.count_ones();
            found.push((page, free));
        }
    }

    /// Records that a session has made a page of slots out of a free page, and owns it.
    pub fn own(&self, page: u64, class: Class, purpose: Purpose) {
        self.state().adopt(page, class, purpose, 0, true);
    }

    /// Ends a session's ownership of a page; `free` are the slots that the session had left.
    pub fn disown(&self, page: u64, free: u128) {
        self.state().disown(page, free);
    }

    /// Ends a session's ownership of pages of which it has no slots left.
    pub fn disown_all(&self, pages: &mut Vec<u64>) {
        if pages.is_empty() {
            return;
        }
        let mut state = self.state();
        pages.drain(..).for_each(|page| state.disown(page, 0));
    }

    /// Gives back an allocation of an unfinished transaction, to which no log refers.
    pub fn give_back(&self, freed: Freed) {
        self.state().give_back(freed);
    }

    /// Turns an owned page back into a free one when its transaction has not committed.
    pub fn unmake(&self, page: u64) {
        let mut state = self.state();
        state.take_slots(page);
        if let Some(found @ Some(_)) = state.states.get_mut(page as usize) {
            *found = None;
            state.add_run(page, 1);
        }
    }

    /// Keeps memory that committed transactions have freed until its ticket is reclaimable, and frees all that is.
    /// Returns the bytes still in limbo here.
    pub fn retire(&self, retired: &mut Vec<Retired>, reclaimable: Ticket) -> u64 {
        let mut state = self.state();
        for retired in retired.drain(..) {
            if retired.ticket <= reclaimable {
                state.give_back(retired.freed);
            } else {
                state.bury(&[retired]);
            }
        }
        state.reclaim(reclaimable);
        state.limbo_bytes
    }

    /// Reclaims all reusable memory, of all sessions. Returns the memory still in limbo.
    pub fn reclaim(&self, pins: Pins) -> Limbo {
        self.collect_limbo();
        let (mut state, large) = (self.state(), self.is_large());
        state.sort_out(pins);
        let least = if large { state.held_bytes >= NOTED_BYTES } else { state.held_bytes > 0 };
        self.births.note_all(least);
        Limbo { bytes: state.limbo_bytes, pinned_bytes: state.held_bytes }
    }

    /// Whether anything is in limbo here; the sessions' stocks do not count.
    pub fn has_limbo(&self) -> bool {
        let state = self.state();
        !(state.limbo.is_empty() && state.held.is_empty())
    }

    /// How full the pool is.
    pub fn usage(&self) -> Usage {
        let (stocked_limbo, stocked_pages) = self.stocked();
        let state = self.state();
        debug_assert_eq!(
            state.free_slots,
            state.states.iter().flatten().map(PageState::free_bytes).sum::<u64>()
        );
        let free = state.runs.pages()
            + state.released.pages()
            + state.releasing
            + state.emptying.kept_pages();
        Usage {
            free_page_bytes: free * PAGE + stocked_pages,
            free_slot_bytes: state.free_slots,
            limbo_bytes: state.limbo_bytes + stocked_limbo,
            largest_free_run: state.runs.longest().max(state.released.longest()) * PAGE,
            released_bytes: state.released.pages() * PAGE,
        }
    }
}

/// Reads which slots of a page are taken.
///
/// # Errors
/// `Corrupt` if the page has no such slots.
pub fn read_taken<M: Memory + ?Sized>(
    memory: &M,
    layout: &Layout,
    page: u64,
    class: Class,
) -> Result<u128> {
    let at = layout.entry(page);
    let taken = taken([memory.load(at), memory.load(at + 8)]);
    if taken & !class.all_slots() != 0 {
        return Err(Error::corrupt("slots taken that the page does not have", at));
    }
    Ok(taken)
}

impl FreeSpace {
    /// Takes the free slots of a page of this class and purpose; returns both.
    fn take_partial(&mut self, class: Class, purpose: Purpose) -> Option<(u64, u128)> {
        loop {
            let page = self.partial.get_mut(&(purpose as u8, class.number()))?.pop()?;
            let Some(Some(found)) = self.states.get_mut(page as usize) else { continue };
            if (found.class, found.purpose) != (class, purpose) || found.owned {
                continue;
            }
            found.listed = false;
            if found.sparse {
                continue;
            }
            if found.free != 0 {
                found.owned = true;
                return Some((page, self.take_slots(page)));
            }
        }
    }

    fn disown(&mut self, page: u64, free: u128) {
        if let Some(Some(found)) = self.states.get_mut(page as usize) {
            found.owned = false;
        }
        self.free_slots(page, free);
        self.settle(page);
    }

    /// Adds pages to the free ones.
    pub(super) fn add_pages(&mut self, pages: Range<u64>) {
        if !pages.is_empty() {
            self.add_run(pages.start, pages.end - pages.start);
        }
    }

    /// Adds to limbo.
    pub(super) fn bury(&mut self, retired: &[Retired]) {
        self.limbo_bytes += retired.iter().map(|retired| retired.freed.bytes()).sum::<u64>();
        self.limbo.extend(retired);
    }

    fn adopt(&mut self, page: u64, class: Class, purpose: Purpose, free: u128, owned: bool) {
        let index = page as usize;
        if self.states.len() <= index {
            self.states.resize(index + 1, None);
        }
        self.states[index] = Some(PageState {
            free: 0,
            class,
            purpose,
            owned,
            listed: false,
            sparse: false,
            left: 0,
        });
        self.free_slots(page, free);
        self.settle(page);
    }

    /// Marks slots of a page as free.
    fn free_slots(&mut self, page: u64, slots: u128) {
        if let Some(Some(found)) = self.states.get_mut(page as usize) {
            let before = found.free_bytes();
            found.free |= slots;
            self.free_slots += found.free_bytes() - before;
        }
    }

    /// Takes the free slots of a page.
    fn take_slots(&mut self, page: u64) -> u128 {
        let Some(Some(found)) = self.states.get_mut(page as usize) else { return 0 };
        self.free_slots -= found.free_bytes();
        std::mem::take(&mut found.free)
    }

    /// Puts an unowned page into the list of pages with free slots or, if it is empty, among the free pages.
    pub(super) fn settle(&mut self, page: u64) {
        let Some(Some(found)) = self.states.get_mut(page as usize) else { return };
        if found.owned || found.free == 0 {
            return;
        }
        if found.free == found.class.all_slots() {
            self.take_slots(page);
            self.states[page as usize] = None;
            self.add_run(page, 1);
        } else if !found.listed && !found.sparse {
            found.listed = true;
            let key = (found.purpose as u8, found.class.number());
            self.partial.entry(key).or_default().push(page);
        }
    }

    fn give_back(&mut self, freed: Freed) {
        match freed {
            Freed::Slot { page, slot, .. } => {
                self.free_slots(page, 1 << slot);
                self.settle(page);
            }
            Freed::Run { page, pages } => self.add_run(page, pages),
        }
    }

    fn reclaim(&mut self, reclaimable: Ticket) {
        while let Some(&Retired { ticket, freed, .. }) = self.limbo.front()
            && ticket <= reclaimable
        {
            self.limbo.pop_front();
            self.limbo_bytes -= freed.bytes();
            self.give_back(freed);
        }
    }

    /// Frees all that can be reused.
    fn sort_out(&mut self, pins: Pins) {
        let unknown_is_late = planted::has(Bug::UnknownBirthsLate);
        let is_held = |retired: &Retired| match retired.born {
            Ticket(0) if unknown_is_late => pins.hold(Ticket(u64::MAX), retired.ticket),
            born => pins.hold(born, retired.ticket),
        };
        let again = self.seen != pins.seen;
        let held = if again { std::mem::take(&mut self.held) } else { Vec::new() };
        self.held_bytes -= held.iter().map(|retired| retired.freed.bytes()).sum::<u64>();
        for retired in held.into_iter().chain(std::mem::take(&mut self.limbo)) {
            let bytes = retired.freed.bytes();
            if retired.ticket > pins.left {
                self.limbo.push_back(retired);
            } else if is_held(&retired) {
                self.held_bytes += bytes;
                self.held.push(retired);
            } else {
                self.limbo_bytes -= bytes;
                self.give_back(retired.freed);
            }
        }
        self.seen = pins.seen;
    }

    /// Remembers why the memory could not grow.
    pub(super) fn refuse(&mut self, error: &io::Error) {
        self.refusal = Some((error.kind(), error.to_string()));
    }
}

/// Pages by which a memory of `pages` pages grows: unused ones take space all the same. A sixteenth, so that it
/// doubles in eleven steps.
pub(super) fn step(pages: u64) -> u64 {
    (pages / 16).clamp(256, 65_536)
}
