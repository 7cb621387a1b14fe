//! Chooses pages to be emptied so that they become free pages: pages of slots that are mostly free, or a *window*,
//! adjacent pages in which little is taken.
//!
//! The owners of the objects in them move these; here the pages are only chosen. Invariants: no slot and no page is
//! taken from pages that are being emptied, and the objects in all chosen pages of slots of a class fit into the
//! class's other pages. One emptying is under way at a time.

use super::layout::{CLASSES, Class};
use super::runs::Runs;
use super::space::{FreeSpace, PageState, Space};
use crate::tx::Purpose;
use perdura_memory::PAGE;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The maximum number of slots in a page, and one.
const COUNTS: usize = 129;
/// Pages counted at a time while the lock is held.
const AT_ONCE: usize = 1 << 16;

/// The emptying that is under way.
#[derive(Default)]
pub(super) struct Emptying {
    /// Whether there is one.
    active: bool,
    /// Pages of slots that are being emptied.
    sparse: Vec<u64>,
    /// Adjacent pages that are being emptied.
    pub(super) window: Range<u64>,
    /// Free pages of the window, with and without space in the file.
    kept: Runs,
    kept_released: Runs,
    /// Bytes of free slots at the last attempt to find pages worth emptying that failed, or at the end of the last
    /// emptying.
    scattered: u64,
    /// Pages of the smallest window that was not found, and the free pages at that time; 0 if there was none.
    pub(super) no_window: (u64, u64),
}

impl Emptying {
    /// Number of free pages in the window.
    pub(super) fn kept_pages(&self) -> u64 {
        self.kept.pages() + self.kept_released.pages()
    }
}

/// The pages of one class and purpose, by the number of free slots in them.
#[derive(Clone)]
struct Counts {
    /// Pages that may be emptied.
    pages: [u32; COUNTS],
    /// Free slots in all pages.
    room: u64,
}

/// Which pages of a class and purpose are chosen: those with more than `free` free slots, and `more` of those with as
/// many.
#[derive(Clone, Copy, Default)]
struct Choice {
    free: u32,
    more: u64,
    pages: u64,
}

impl Counts {
    const NONE: Counts = Counts { pages: [0; COUNTS], room: 0 };

    fn add(&mut self, page: &PageState, again: bool) {
        let free = page.free.count_ones();
        self.room += u64::from(free);
        if page.may_be_emptied(again) {
            self.pages[free as usize] += 1;
        }
    }

    /// Chooses the emptiest first, since fewest objects are moved for each.
    fn choose(&self, class: Class) -> Choice {
        let (mut room, mut moved, mut pages) = (self.room, 0, 0);
        let slots = u64::from(class.slots());
        for free in (1..=class.slots()).rev() {
            let there = u64::from(self.pages[free as usize]);
            // Each page adds its objects, and takes its own free slots away.
            let chosen = there.min((room - moved) / slots);
            room -= chosen * u64::from(free);
            moved += chosen * (slots - u64::from(free));
            pages += chosen;
            if chosen < there {
                return Choice { free, more: chosen, pages };
            }
        }
        Choice { free: 0, more: 0, pages }
    }
}

/// Counts for each purpose and class.
struct Census(Vec<Counts>);

impl Census {
    fn new() -> Self {
        Census(vec![Counts::NONE; Purpose::ALL.len() * CLASSES])
    }

    fn index(page: &PageState) -> usize {
        page.purpose as usize * CLASSES + page.class.number()
    }

    fn add(&mut self, pages: &[Option<PageState>], again: bool) {
        for page in pages.iter().flatten().filter(|page| !page.owned && page.free != 0) {
            self.0[Self::index(page)].add(page, again);
        }
    }

    fn choices(&self) -> Vec<Choice> {
        let class = |index: usize| Class::from_number((index % CLASSES) as u64);
        let all = self.0.iter().enumerate();
        all.map(|(index, counts)| {
            class(index).map_or(Choice::default(), |class| counts.choose(class))
        })
        .collect()
    }
}

impl PageState {
    /// Whether it has no object that an earlier emptying has left, or something else was freed in it since, or it is
    /// tried `again`.
    fn may_be_emptied(&self, again: bool) -> bool {
        !self.owned && (again || self.free.count_ones() >= u32::from(self.left))
    }
}

impl Space {
    /// Chooses the pages of slots to be emptied, and returns how many: none if that is fewer than `least`, or if an
    /// emptying is under way ([ended](Self::stop_emptying) by a call). After an emptying, nothing is tried before
    /// `least` further pages' worth of slots is free.
    pub fn start_emptying(&self, least: u64) -> u64 {
        self.empty_pages(least, true)
    }

    /// As [`start_emptying`](Self::start_emptying); pages in which an earlier emptying has left objects that cannot be
    /// moved are chosen only with `again`.
    pub(crate) fn empty_pages(&self, least: u64, again: bool) -> u64 {
        let mut state = self.state();
        if !state.may_be_worth(least) {
            return 0;
        }
        let mut census = Census::new();
        census.add(&state.states, again);
        let mut choices = census.choices();
        let pages: u64 = choices.iter().map(|choice| choice.pages).sum();
        if pages < least.max(1) {
            state.emptying.scattered = state.free_slots;
            return 0;
        }
        let mut chosen = Vec::new();
        for (page, found) in state.states.iter_mut().enumerate() {
            let Some(found) = found.as_mut().filter(|found| found.free != 0) else { continue };
            let (free, choice) = (found.free.count_ones(), &mut choices[Census::index(found)]);
            let is_one_more = free == choice.free && choice.more > 0;
            if !found.may_be_emptied(again) || free <= choice.free && !is_one_more {
                continue;
            }
            choice.more -= u64::from(is_one_more);
            found.sparse = true;
            chosen.push(page as u64);
        }
        state.emptying.sparse = chosen;
        self.begin(&mut state);
        state.emptying.sparse.len() as u64
    }

    /// Whether it may be worth to look for pages to be emptied, `least` of them.
    pub fn may_be_worth(&self, least: u64) -> bool {
        self.state().may_be_worth(least)
    }

    fn begin(&self, state: &mut FreeSpace) {
        state.emptying.active = true;
        self.moves.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the pages of `window` those to be emptied, unless an emptying is under way. Returns whether they are.
    pub(super) fn start_window(&self, state: &mut FreeSpace, window: Range<u64>) -> bool {
        if state.emptying.active || window.is_empty() {
            return false;
        }
        let (free, released) =
            (state.runs.take_within(window.clone()), state.released.take_within(window.clone()));
        for (taken, kept) in
            [(free, &mut state.emptying.kept), (released, &mut state.emptying.kept_released)]
        {
            taken.into_iter().for_each(|run| kept.add(run.start, run.end - run.start));
        }
        let end = window.end.min(state.states.len() as u64);
        for page in window.start..end.max(window.start) {
            if let Some(found) = &mut state.states[page as usize] {
                found.sparse = true;
                state.emptying.sparse.push(page);
            }
        }
        state.emptying.window = window;
        self.begin(state);
        true
    }

    /// Ends the emptying: the pages' remaining objects stay, and their free slots are used again. Returns how many
    /// pages of slots are empty.
    pub fn stop_emptying(&self) -> u64 {
        self.end_emptying(false)
    }

    /// As [`stop_emptying`](Self::stop_emptying). If `all` movable objects were moved, the pages that still have
    /// objects are not chosen again before more is freed in them.
    pub(crate) fn end_emptying(&self, all: bool) -> u64 {
        let mut state = self.state();
        if !state.emptying.active {
            return 0;
        }
        let (pages, mut left) = (std::mem::take(&mut state.emptying.sparse), 0);
        let window = std::mem::take(&mut state.emptying.window);
        // Memory in limbo is no object any more.
        let all = all && state.limbo.is_empty();
        for &page in &pages {
            if let Some(Some(found)) = state.states.get_mut(page as usize)
                && found.sparse
            {
                left += 1;
                found.sparse = false;
                if all {
                    found.left = found.free.count_ones() as u8 + 1;
                }
                state.settle(page);
            }
        }
        let (kept, released) = (
            state.emptying.kept.take_within(window.clone()),
            state.emptying.kept_released.take_within(window),
        );
        kept.into_iter().for_each(|run| state.runs.add(run.start, run.end - run.start));
        released.into_iter().for_each(|run| state.released.add(run.start, run.end - run.start));
        state.emptying.active = false;
        state.emptying.scattered = state.free_slots;
        self.moves.fetch_add(1, Ordering::SeqCst);
        pages.len() as u64 - left
    }

    /// Whether the object at `at` is in a page that is being emptied.
    pub fn is_sparse(&self, at: u64) -> bool {
        let page = at.wrapping_sub(self.layout().pages) / PAGE;
        let state = self.state();
        state.emptying.active
            && (state.emptying.window.contains(&page)
                || state
                    .states
                    .get(page as usize)
                    .is_some_and(|found| found.is_some_and(|found| found.sparse)))
    }

    /// A number that is odd while objects may be moved, and another one after that.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    /// Number of pages that an emptying would make free.
    pub fn emptiable(&self) -> u64 {
        let (mut census, mut from) = (Census::new(), 0);
        loop {
            let state = self.state();
            let part = state.states.get(from..).unwrap_or_default();
            if part.is_empty() {
                break;
            }
            census.add(&part[..part.len().min(AT_ONCE)], false);
            from += AT_ONCE;
        }
        census.choices().iter().map(|choice| choice.pages).sum()
    }
}

impl FreeSpace {
    /// Whether enough slots are free, and were freed since the last emptying, for `least` pages.
    fn may_be_worth(&mut self, least: u64) -> bool {
        let scattered = self.emptying.scattered.min(self.free_slots);
        self.emptying.scattered = scattered;
        !self.emptying.active && self.free_slots - scattered >= least * PAGE
    }

    /// Puts pages among the free ones; those in the window are kept until it has been emptied.
    pub(super) fn add_run(&mut self, page: u64, pages: u64) {
        let window = self.emptying.window.clone();
        if window.is_empty() {
            return self.runs.add(page, pages);
        }
        let end = page + pages;
        let inside = page.max(window.start)..end.min(window.end);
        if inside.is_empty() {
            return self.runs.add(page, pages);
        }
        self.emptying.kept.add(inside.start, inside.end - inside.start);
        for rest in [page..inside.start, inside.end..end] {
            if !rest.is_empty() {
                self.runs.add(rest.start, rest.end - rest.start);
            }
        }
    }
}
