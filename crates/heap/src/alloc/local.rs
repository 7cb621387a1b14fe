//! One session's part of the allocator: the pages it owns, and its transaction's allocations and frees.
//!
//! A session owns a page for each class and purpose that it uses (in a large pool a few), and takes slots from them
//! without synchronisation. The slots and runs that it frees wait in its stock, and then return to the page that it
//! owns or, in batches, to the shared free space. Invariant: a page that a transaction has turned into a page of slots
//! stays owned by its session until the transaction ends, so that no other session uses slots of a page that may be
//! rolled back.

use super::layout::{CLASSES, Class, Use, slot_bit};
use super::space::Space;
use super::stock::{Freed, Retired, Stock};
use crate::fresh::Fresh;
use crate::savepoint::{Progress, Savepoint, Savepoints};
use crate::tx::Purpose;
use perdura_engine::{Access, Error, Mark, Result, Ticket};
use perdura_memory::{Memory, PAGE};
use std::array;
use std::sync::Arc;

/// The free slots of a page that a session owns.
#[derive(Default)]
struct Cache {
    page: Option<u64>,
    free: u128,
    /// Further pages that the session owns, with free slots.
    more: Vec<(u64, u128)>,
}

/// An allocation of the running transaction.
#[derive(Clone, Copy)]
enum Taken {
    Slot { page: u64, slot: u32, class: Class, purpose: Purpose },
    Page { page: u64, class: Class, purpose: Purpose },
    Run { page: u64, pages: u64 },
}

/// A session's caches and its transaction's allocations.
pub struct Local {
    caches: [[Cache; CLASSES]; 4],
    stock: Arc<Stock>,
    /// Freed slots and runs, while they are handed over; empty otherwise.
    due: Vec<Retired>,
    taken: Vec<Taken>,
    freed: Vec<Freed>,
    /// Pages whose last slot this transaction has taken.
    exhausted: Vec<u64>,
    pub(crate) savepoints: Savepoints,
    /// Whether the session owns a page for logs.
    has_log_page: bool,
    /// Whether the transaction may have done more than write words: then all of this is looked at when it ends.
    is_busy: bool,
    /// Bytes of the last allocation for which there was no room; 0 if there was none since the last commit.
    lacking: u64,
}

impl Local {
    /// The part of a new session, which must call [`end`](Self::end).
    pub fn new(space: &Space) -> Self {
        Local {
            caches: array::from_fn(|_| array::from_fn(|_| Cache::default())),
            stock: space.stock(),
            due: Vec::new(),
            taken: Vec::new(),
            freed: Vec::new(),
            exhausted: Vec::new(),
            savepoints: Savepoints::new(),
            has_log_page: false,
            is_busy: false,
            lacking: 0,
        }
    }

    /// Takes note that there was no room for `len` bytes.
    #[cold]
    pub fn lacks(&mut self, len: u64) {
        self.is_busy = true;
        self.lacking = len;
    }

    /// Whether the last transaction has failed and lacked room.
    #[inline]
    pub fn is_lacking(&self) -> bool {
        self.lacking > 0
    }

    /// The bytes for which there was no room in the last transaction, which has failed; 0 if it did not lack any.
    pub fn take_lacking(&mut self) -> u64 {
        std::mem::take(&mut self.lacking)
    }

    /// Gives back every owned page, between transactions, so that other sessions can use or empty them.
    pub fn give_up_pages(&mut self, space: &Space) {
        self.caches.iter_mut().for_each(|caches| disown(space, caches));
    }

    /// A new savepoint; the caller has made that of the accesses.
    pub(crate) fn point(&mut self, access: Mark) -> Savepoint {
        self.is_busy = true;
        let done = Progress { access, taken: self.taken.len(), freed: self.freed.len() };
        self.savepoints.add(done)
    }

    /// Whether the running transaction has allocated this memory, and has not undone that.
    #[inline]
    pub(crate) fn is_fresh(&self, space: &Space, fresh: &Fresh) -> bool {
        let layout = space.layout();
        let at = match self.taken.get(fresh.place) {
            Some(Taken::Slot { page, slot, class, .. }) => {
                layout.page(*page) + u64::from(*slot) * class.slot_bytes()
            }
            Some(Taken::Run { page, .. }) => layout.page(*page),
            Some(Taken::Page { .. }) | None => return false,
        };
        fresh.transaction == self.savepoints.transaction() && fresh.at == at
    }

    fn fresh(&self, at: u64, len: u64) -> Fresh {
        let transaction = self.savepoints.transaction();
        Fresh { at, len, transaction, place: self.taken.len() - 1 }
    }

    /// Allocates `len` bytes. Unless it must be `whole`, the result may be shorter: as many whole pages as are free in
    /// one place. Returns `None` when no room is left.
    ///
    /// # Errors
    /// As the accesses', and `Corrupt` if a slot or page that should be free is not.
    pub fn allocate<A: Access>(
        &mut self,
        access: &mut A,
        space: &Space,
        memory: &dyn Memory,
        purpose: Purpose,
        len: u64,
        whole: bool,
    ) -> Result<Option<Fresh>> {
        self.is_busy = true;
        let Some(class) = Class::of(len) else {
            let pages = len.div_ceil(PAGE);
            let mut taken = space.take_run(memory, pages).map(|page| (page, pages));
            if taken.is_none() && !whole {
                taken = space.take_largest(memory, pages);
            }
            let Some((page, pages)) = taken else { return Ok(None) };
            return self.make_run(access, space, page, pages).map(Some);
        };
        self.take_slot(access, space, memory, class, purpose)
    }

    fn take_slot<A: Access>(
        &mut self,
        access: &mut A,
        space: &Space,
        memory: &dyn Memory,
        class: Class,
        purpose: Purpose,
    ) -> Result<Option<Fresh>> {
        if self.caches[purpose as usize][class.number()].free == 0
            && !self.refill(access, space, memory, class, purpose)?
        {
            return Ok(None);
        }
        let cache = &mut self.caches[purpose as usize][class.number()];
        let page = cache.page.expect("a cache with slots has a page");
        let slot = cache.free.trailing_zeros();
        cache.free &= cache.free - 1;
        self.taken.push(Taken::Slot { page, slot, class, purpose });
        let layout = space.layout();
        let (word, bit) = slot_bit(slot);
        let at = layout.entry(page) + word;
        let taken = access.read_word(at)?;
        if taken & bit != 0 {
            return Err(Error::corrupt("free slot that is taken", at));
        }
        access.write_word(at, taken | bit)?;
        let at = layout.page(page) + u64::from(slot) * class.slot_bytes();
        Ok(Some(self.fresh(at, class.slot_bytes())))
    }

    /// Refills an empty cache: with slots that came back to its page, or from another page with free slots, or from a
    /// new page.
    fn refill(
        &mut self,
        access: &mut dyn Access,
        space: &Space,
        memory: &dyn Memory,
        class: Class,
        purpose: Purpose,
    ) -> Result<bool> {
        self.has_log_page |= purpose == Purpose::Log;
        let cache = &mut self.caches[purpose as usize][class.number()];
        let owned = cache.page;
        if cache.more.is_empty() {
            let mut used_up = self.stock.take_used_up();
            space.take_slots((class, purpose), owned, &mut used_up, &mut cache.more);
        }
        let next = cache.more.pop();
        self.exhausted.extend(owned.filter(|&owned| next.is_none_or(|(page, _)| page != owned)));
        (cache.page, cache.free) = next.map_or((None, 0), |(page, free)| (Some(page), free));
        if next.is_some() {
            return Ok(true);
        }
        let Some(page) = self.take_page(space, memory) else { return Ok(false) };
        let cache = &mut self.caches[purpose as usize][class.number()];
        (cache.page, cache.free) = (Some(page), class.all_slots());
        space.own(page, class, purpose);
        self.taken.push(Taken::Page { page, class, purpose });
        let layout = space.layout();
        access.write_word(layout.entry(page), Use::Slots(class, purpose).word())?;
        access.write_word(layout.entry(page) + 8, 0)?;
        Ok(true)
    }

    fn take_page(&self, space: &Space, memory: &dyn Memory) -> Option<u64> {
        if let Some(page) = self.stock.take_page() {
            return Some(page);
        }
        let pages = space.take_pages(memory)?;
        if pages.end > pages.start + 1 {
            self.stock.put_pages(pages.start + 1..pages.end);
        }
        Some(pages.start)
    }

    fn make_run(
        &mut self,
        access: &mut dyn Access,
        space: &Space,
        page: u64,
        pages: u64,
    ) -> Result<Fresh> {
        self.taken.push(Taken::Run { page, pages });
        let layout = space.layout();
        access.write_word(layout.entry(page), Use::Run(pages).word())?;
        // Stale entries inside the run would become visible when the run is freed.
        for inside in page + 1..page + pages {
            if access.read_word(layout.entry(inside))? != 0 {
                access.write_word(layout.entry(inside), 0)?;
            }
        }
        Ok(self.fresh(layout.page(page), pages * PAGE))
    }

    /// Frees the allocation at `at`.
    ///
    /// # Errors
    /// `Misuse` if nothing is allocated there.
    pub fn free<A: Access + ?Sized>(
        &mut self,
        access: &mut A,
        space: &Space,
        at: u64,
    ) -> Result<()> {
        self.is_busy = true;
        let layout = space.layout();
        match allocation(access, space, at)? {
            Allocation::Slot { page, slot, class, purpose } => {
                let (word, bit) = slot_bit(slot);
                let at = layout.entry(page) + word;
                let taken = access.read_word(at)?;
                access.write_word(at, taken & !bit)?;
                self.freed.push(Freed::Slot { page, slot, class, purpose });
            }
            Allocation::Run { page, pages } => {
                access.write_word(layout.entry(page), 0)?;
                self.freed.push(Freed::Run { page, pages });
            }
        }
        Ok(())
    }

    /// Undoes all allocations but the first `taken`, and all frees but the first `freed`. The caller rolls the
    /// accesses back.
    pub(crate) fn undo_to(&mut self, space: &Space, taken: usize, freed: usize) {
        self.freed.truncate(freed);
        while self.taken.len() > taken {
            match self.taken.pop().expect("longer than that") {
                Taken::Slot { page, slot, class, purpose } => {
                    let cache = &mut self.caches[purpose as usize][class.number()];
                    if cache.page == Some(page) {
                        cache.free |= 1 << slot;
                    } else {
                        space.give_back(Freed::Slot { page, slot, class, purpose });
                    }
                }
                Taken::Page { page, class, purpose } => {
                    let cache = &mut self.caches[purpose as usize][class.number()];
                    if cache.page == Some(page) {
                        (cache.page, cache.free) = (None, 0);
                    }
                    self.exhausted.retain(|&exhausted| exhausted != page);
                    space.unmake(page);
                }
                Taken::Run { page, pages } => space.give_back(Freed::Run { page, pages }),
            }
        }
    }

    /// To be called when the transaction has committed: whether it has done no more than write words. Otherwise
    /// [`committed`](Self::committed) is to be called too.
    #[inline(always)]
    pub fn committed_plain(&mut self) -> bool {
        if !self.is_busy {
            self.savepoints.end_plain();
        }
        !self.is_busy
    }

    /// An operation of the transaction has ended half done, perhaps after changes.
    #[cold]
    pub(crate) fn failed(&mut self) {
        self.is_busy = true;
        self.savepoints.failed();
    }

    /// The rest of [`committed_plain`](Self::committed_plain). If the session hands its freed space over now, returns the
    /// bytes still in limbo, of all sessions that have handed theirs over; otherwise 0.
    pub fn committed(
        &mut self,
        space: &Space,
        ticket: Ticket,
        born: impl FnOnce() -> Ticket,
        reclaimable: impl FnOnce() -> Ticket,
    ) -> u64 {
        self.is_busy = false;
        self.savepoints.end();
        // Tested first, as in what is called here: a store costs more, behind the fence of a commit.
        if self.lacking != 0 {
            self.lacking = 0;
        }
        if space.births().are_noted() {
            self.note_births(space, born());
        }
        if !self.taken.is_empty() {
            self.taken.clear();
        }
        self.leave_exhausted(space);
        self.disown_logs(space);
        if self.freed.is_empty() {
            return 0;
        }
        let retired = self.freed.drain(..).map(|freed| {
            let born = match freed {
                Freed::Slot { page, slot, .. } => space.births().take(page, slot),
                Freed::Run { page, .. } => space.births().take(page, 0),
            };
            Retired { ticket, born, freed }
        });
        self.stock.retire(space.is_large(), retired, &mut self.due);
        if self.due.is_empty() { 0 } else { self.hand_over(space, reclaimable()) }
    }

    /// Bytes that the transaction has allocated.
    #[cold]
    pub(crate) fn taken_bytes(&self) -> u64 {
        let bytes = |taken: &Taken| match *taken {
            Taken::Slot { class, .. } => class.slot_bytes(),
            Taken::Run { pages, .. } => pages * PAGE,
            // Its slots are counted one by one.
            Taken::Page { .. } => 0,
        };
        self.taken.iter().map(bytes).sum()
    }

    #[cold]
    fn note_births(&self, space: &Space, born: Ticket) {
        for taken in &self.taken {
            match *taken {
                Taken::Slot { page, slot, .. } => space.births().note(page, slot, born),
                Taken::Run { page, .. } => space.births().note(page, 0, born),
                Taken::Page { .. } => {}
            }
        }
    }

    /// Hands over the batches that are due; reclaimable slots of the pages that the session owns return to its own
    /// caches.
    fn hand_over(&mut self, space: &Space, reclaimable: Ticket) -> u64 {
        let caches = &mut self.caches;
        self.due.retain(|&Retired { ticket, freed, .. }| match freed {
            Freed::Slot { page, slot, class, purpose } if ticket <= reclaimable => {
                let cache = &mut caches[purpose as usize][class.number()];
                let owned = cache.page == Some(page);
                cache.free |= u128::from(owned) << slot;
                !owned
            }
            Freed::Slot { .. } | Freed::Run { .. } => true,
        });
        space.retire(&mut self.due, reclaimable)
    }

    /// To be called when the transaction has been rolled back.
    pub fn aborted(&mut self, space: &Space) {
        // What it lacked is still to be looked at.
        self.is_busy = self.lacking != 0;
        self.savepoints.end();
        self.undo_to(space, 0, 0);
        self.leave_exhausted(space);
        self.disown_logs(space);
    }

    /// Gives up the pages that the transaction has used up, at once or by way of the stock.
    fn leave_exhausted(&mut self, space: &Space) {
        if self.exhausted.is_empty() {
            return;
        }
        // Pages of logs are given back with each transaction.
        if !self.has_log_page {
            self.stock.leave(space.is_large(), &mut self.exhausted);
        }
        space.disown_all(&mut self.exhausted);
    }

    /// Gives pages of logs back with each transaction: programs allocate from them seldom, and their free slots must
    /// be available to all sessions, since they are a reserve for a full pool.
    fn disown_logs(&mut self, space: &Space) {
        if self.has_log_page {
            self.has_log_page = false;
            disown(space, &mut self.caches[Purpose::Log as usize]);
        }
    }

    /// Gives back every owned page and the whole stock, when the session ends.
    pub fn end(&mut self, space: &Space) {
        self.aborted(space);
        self.caches.iter_mut().for_each(|caches| disown(space, caches));
        space.end_stock(&self.stock);
    }
}

fn disown(space: &Space, caches: &mut [Cache]) {
    for cache in caches {
        if let Some(page) = cache.page.take() {
            space.disown(page, std::mem::take(&mut cache.free));
        }
        for (page, free) in cache.more.drain(..) {
            space.disown(page, free);
        }
    }
}

/// The allocation at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// A slot.
    Slot {
        /// Its page.
        page: u64,
        /// The slot's number in its page.
        slot: u32,
        /// Its class.
        class: Class,
        /// Its page's purpose.
        purpose: Purpose,
    },
    /// A run of pages.
    Run {
        /// The first page.
        page: u64,
        /// Number of pages.
        pages: u64,
    },
}

impl Allocation {
    /// Usable bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Allocation::Slot { class, .. } => class.slot_bytes(),
            Allocation::Run { pages, .. } => pages * PAGE,
        }
    }
}

/// The allocation that begins at `at`.
///
/// # Errors
/// `Misuse` if none does.
pub fn allocation<A: Access + ?Sized>(
    access: &mut A,
    space: &Space,
    at: u64,
) -> Result<Allocation> {
    let layout = space.layout();
    let nothing = |what| Error::misuse(what, at);
    let (page, in_page) = layout.locate(at)?;
    let entry = layout.entry(page);
    match Use::from_word(access.read_word(entry)?) {
        Some(Use::Slots(class, purpose)) => {
            let slot = (in_page / class.slot_bytes()) as u32;
            if !in_page.is_multiple_of(class.slot_bytes()) || slot >= class.slots() {
                return Err(nothing("no object begins"));
            }
            let (word, bit) = slot_bit(slot);
            if access.read_word(entry + word)? & bit == 0 {
                return Err(nothing("nothing is allocated"));
            }
            Ok(Allocation::Slot { page, slot, class, purpose })
        }
        Some(Use::Run(pages)) if in_page == 0 => Ok(Allocation::Run { page, pages }),
        Some(Use::Run(_)) => Err(nothing("no object begins")),
        Some(Use::Free) => Err(nothing("nothing is allocated")),
        None => Err(Error::corrupt("page-table entry that cannot be", entry)),
    }
}
