//! A session's stock: the free space that it keeps in addition to the slots in its caches. That is what its
//! transactions have freed and is still in limbo, a few free pages, and pages that it has used up, to which slots may
//! come back. A session uses its stock without waiting for others; where space is short, other sessions take from it.
//!
//! Invariants: no session uses memory in a stock's limbo before its ticket is reclaimable. A thread
//! holds two locks of the allocator at a time only for the list of stocks and one stock, in this order.

use super::layout::Class;
use crate::tx::Purpose;
use perdura_engine::Ticket;
use perdura_memory::PAGE;
use perdura_memory::lock::Apart;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frees that a session gathers before it hands them over, in a small pool and in a large one. In a small one each is
/// handed over at once, so that memory is reused as soon as possible: crash tests run on small pools, and find memory
/// that is reused too soon.
const BATCH: [usize; 2] = [1, 64];
const BATCH_BYTES: u64 = 16 << 10;
/// Used-up pages that a session of a large pool keeps, so that it gives them back in batches.
const USED_UP: usize = 16;

/// A slot or run that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// A slot of a page.
    Slot {
        /// The page.
        page: u64,
        /// The slot's number.
        slot: u32,
        /// The page's class.
        class: Class,
        /// The page's purpose.
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

impl Freed {
    /// Its size in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Freed::Slot { class, .. } => class.slot_bytes(),
            Freed::Run { pages, .. } => pages * PAGE,
        }
    }
}

/// A slot or run that was freed.
#[derive(Clone, Copy, Debug)]
pub struct Retired {
    /// The ticket of the transaction that freed it.
    pub ticket: Ticket,
    /// The commit that had allocated it, or an earlier one: see [`Births`](super::births::Births).
    pub born: Ticket,
    /// The pages or the slots.
    pub freed: Freed,
}

/// A session's stock.
#[derive(Debug, Default)]
pub struct Stock(Apart<Mutex<StockContents>>);

#[derive(Debug, Default)]
pub(super) struct StockContents {
    pub(super) limbo: Vec<Retired>,
    limbo_bytes: u64,
    pub(super) pages: Range<u64>,
    pub(super) used_up: Vec<u64>,
}

impl Stock {
    fn lock(&self) -> MutexGuard<'_, StockContents> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds memory that a committed transaction has freed in a `large` or a small pool. If the batch is full, moves all
    /// of it to `due`, which is empty.
    pub fn retire(
        &self,
        large: bool,
        retired: impl Iterator<Item = Retired>,
        due: &mut Vec<Retired>,
    ) {
        let batch = BATCH[usize::from(large)];
        let mut contents = self.lock();
        for retired in retired {
            contents.limbo_bytes += retired.freed.bytes();
            contents.limbo.push(retired);
        }
        if contents.limbo.len() >= batch || contents.limbo_bytes >= BATCH_BYTES {
            contents.limbo_bytes = 0;
            std::mem::swap(&mut contents.limbo, due);
        }
    }

    /// Adds used-up pages of the session, whose transaction has ended. Returns in `pages` those to disown now: all of
    /// them, or none.
    pub fn leave(&self, large: bool, pages: &mut Vec<u64>) {
        let mut contents = self.lock();
        contents.used_up.append(pages);
        if contents.used_up.len() >= USED_UP || !large {
            std::mem::swap(&mut contents.used_up, pages);
        }
    }

    /// Takes the pages that have been used up.
    pub fn take_used_up(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock().used_up)
    }

    /// Takes a page.
    pub fn take_page(&self) -> Option<u64> {
        self.lock().pages.next()
    }

    /// Adds free pages to a stock that has none.
    pub fn put_pages(&self, pages: Range<u64>) {
        debug_assert!(self.lock().pages.is_empty());
        self.lock().pages = pages;
    }
}

/// The stocks of all sessions.
#[derive(Debug, Default)]
pub(super) struct Stocks(Apart<Mutex<Vec<Arc<Stock>>>>);

impl Stocks {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Stock>>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an empty stock.
    pub(super) fn add(&self) -> Arc<Stock> {
        let stock = Arc::<Stock>::default();
        self.all().push(stock.clone());
        stock
    }

    /// Removes a stock. Returns its contents.
    pub(super) fn remove(&self, stock: &Arc<Stock>) -> StockContents {
        self.all().retain(|other| !Arc::ptr_eq(other, stock));
        std::mem::take(&mut *stock.lock())
    }

    /// Free pages, and bytes in limbo.
    pub(super) fn sums(&self) -> (u64, u64) {
        let all = self.all();
        all.iter().fold((0, 0), |(pages, bytes), stock| {
            let contents = stock.lock();
            (pages + contents.pages.end - contents.pages.start, bytes + contents.limbo_bytes)
        })
    }

    pub(super) fn take_limbo(&self) -> Vec<Retired> {
        let mut limbo = Vec::new();
        for stock in &*self.all() {
            let mut contents = stock.lock();
            contents.limbo_bytes = 0;
            limbo.append(&mut contents.limbo);
        }
        limbo
    }

    pub(super) fn take_pages(&self) -> (Vec<Range<u64>>, Vec<u64>) {
        let (mut free, mut used_up) = (Vec::new(), Vec::new());
        for stock in &*self.all() {
            let mut contents = stock.lock();
            free.push(std::mem::take(&mut contents.pages));
            used_up.append(&mut contents.used_up);
        }
        (free, used_up)
    }
}
