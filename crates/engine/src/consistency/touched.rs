//! How many pages were stored to in place, where each of them takes ordinary memory from then on
//! until the memory can give it back.

use crate::writes::LineWrite;
use perdura_memory::{Domain, PAGE, PageSet, SPARE_PAGES};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The pages since it was last told that there are many.
pub(crate) struct Touched {
    /// `None` where stores take no memory.
    pages: Option<Mutex<PageSet>>,
    many: AtomicBool,
}

impl Touched {
    pub(crate) fn new(domain: Domain) -> Self {
        let pages = (domain == Domain::Media).then(Mutex::default);
        Touched { pages, many: AtomicBool::new(false) }
    }

    /// The lines of a transaction were stored.
    #[inline(always)]
    pub(crate) fn note(&self, entries: &[LineWrite]) {
        if let Some(pages) = &self.pages {
            self.note_pages(pages, entries);
        }
    }

    fn note_pages(&self, pages: &Mutex<PageSet>, entries: &[LineWrite]) {
        let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().for_each(|entry| pages.insert(entry.line / PAGE));
        if pages.count() >= SPARE_PAGES {
            pages.clear();
            self.many.store(true, Ordering::Release);
        }
    }

    /// Whether there were many. Says so once.
    pub(crate) fn take_many(&self) -> bool {
        self.many.load(Ordering::Relaxed) && self.many.swap(false, Ordering::AcqRel)
    }
}
