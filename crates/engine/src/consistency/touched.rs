//! Counts the pages that were stored to in place, where each takes ordinary memory from then on until the memory can
//! give it back.

use crate::writes::LineWrite;
use perdura_memory::{Domain, PAGE, PageSet, SPARE_PAGES};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The pages since many were last reported.
pub(crate) struct TouchedPages {
    /// `None` where stores take no memory.
    pages: Option<Mutex<PageSet>>,
    many: AtomicBool,
}

impl TouchedPages {
    pub(crate) fn new(domain: Domain) -> Self {
        let pages = (domain == Domain::Media).then(Mutex::default);
        TouchedPages { pages, many: AtomicBool::new(false) }
    }

    /// Records the lines that a transaction stored.
    #[inline(always)]
    pub(crate) fn note(&self, entries: &[LineWrite]) {
        if let Some(pages) = &self.pages {
            self.note_pages(pages, entries);
        }
    }

    /// The same for words, which `each` gives the offsets of.
    #[inline(always)]
    pub(crate) fn note_words(&self, each: impl FnOnce(&mut dyn FnMut(u64))) {
        if let Some(pages) = &self.pages {
            self.note_words_of(pages, each);
        }
    }

    fn note_words_of(&self, pages: &Mutex<PageSet>, each: impl FnOnce(&mut dyn FnMut(u64))) {
        let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        each(&mut |at| pages.insert(at / PAGE));
        self.look(&mut pages);
    }

    fn note_pages(&self, pages: &Mutex<PageSet>, entries: &[LineWrite]) {
        let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().for_each(|entry| pages.insert(entry.line / PAGE));
        self.look(&mut pages);
    }

    fn look(&self, pages: &mut PageSet) {
        if pages.count() >= SPARE_PAGES {
            pages.clear();
            self.many.store(true, Ordering::Release);
        }
    }

    /// Whether there are many. Reports it once.
    pub(crate) fn take_many(&self) -> bool {
        self.many.load(Ordering::Relaxed) && self.many.swap(false, Ordering::AcqRel)
    }
}
