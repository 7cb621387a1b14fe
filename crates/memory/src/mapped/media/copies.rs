//! Private copies of pages: a page that was stored to takes ordinary memory from then on, until the pool is closed.
//! Once the file has everything that was stored to it, the copy can be dropped: loads read the page from the page
//! cache, and the next store makes a copy again.
//!
//! What always holds of a page whose copy is dropped:
//! - The file has the same bytes, and is synced: so loads see what they saw before, and would even if the kernel
//!   dropped the page from its cache and read it from the device, after a later sync that failed.
//! - None of its lines is kept for a fence: that older state, written to the file, would become visible in the page.
//! - Nothing is stored to it between the comparison and the drop, by the caller's contract.

use super::super::file;
use super::{Device, Media, SHARDS, lock};
use crate::{PAGE, PageSet, SPARE_PAGES, copy};
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages examined in one go, while other threads wait for the locks.
const SLICE: u64 = 256;

/// The pages that may have copies: those written to in the file since their copies were last dropped.
#[derive(Default)]
pub(super) struct Copies {
    pages: PageSet,
    /// How many pages there were when a pass was last asked for, or how many the last pass had to leave.
    left: u64,
    /// Where the running pass continues.
    next: u64,
    buffer: Vec<u8>,
}

impl Copies {
    pub(super) fn note(&mut self, page: u64) {
        self.pages.insert(page);
    }

    pub(super) fn is_due(&self) -> bool {
        self.pages.count() >= self.left + SPARE_PAGES
    }

    /// The next run of adjacent pages, of at most `most`; `None` at the end of the pass.
    fn next_run(&mut self, most: u64) -> Option<Range<u64>> {
        let run = self.pages.run(self.next, most);
        match &run {
            Some(run) => self.next = run.end,
            None => (self.next, self.left) = (0, self.pages.count()),
        }
        run
    }
}

impl<D: Device> Media<D> {
    /// Whether many pages may have copies. Reports it once.
    pub(in crate::mapped) fn give_back_due(&self) -> bool {
        if !self.copies_due.load(Ordering::Relaxed) {
            return false;
        }
        let mut writer = lock(&self.writer);
        // Pages written from here on count for the next time.
        writer.copies.left = writer.copies.pages.count();
        self.copies_due.swap(false, Ordering::AcqRel)
    }

    /// Examines some pages, and drops their copies where possible. Returns whether there are more to examine. Nothing
    /// may be stored meanwhile: it could be lost.
    ///
    /// # Safety
    /// The first `len` bytes of `file`, which is the device's, are mapped privately from `base` on, and only ever
    /// accessed atomically.
    pub(in crate::mapped) unsafe fn give_back(&self, base: *mut u8, len: u64, file: &File) -> bool {
        let mut writer = lock(&self.writer);
        if self.failure.get().is_some() || writer.unsynced {
            // Later writes make it due again.
            writer.copies.left = 0;
            return false;
        }
        let copies = &mut writer.copies;
        let mut budget = SLICE;
        while budget > 0 {
            let Some(run) = copies.next_run(budget) else { return false };
            budget -= run.end - run.start;
            // The last page may not be whole.
            let run = run.start..run.end.min(len / PAGE).max(run.start);
            let mut bytes = std::mem::take(&mut copies.buffer);
            bytes.resize(((run.end - run.start) * PAGE) as usize, 0);
            if file.read_exact_at(&mut bytes, run.start * PAGE).is_ok() {
                let same = |page: u64| {
                    let found = &bytes[((page - run.start) * PAGE) as usize..][..PAGE as usize];
                    // SAFETY: one of the mapped pages, by the caller's contract.
                    !self.keeps_aside(page)
                        && unsafe { equal(base.add((page * PAGE) as usize), found) }
                };
                for pages in runs_of(run.clone(), same) {
                    // SAFETY: within the mapping; the pages read the same afterwards.
                    if unsafe { drop_copies(base, pages.clone()) } {
                        copies.pages.remove(pages);
                    }
                }
            }
            copies.buffer = bytes;
        }
        true
    }

    /// Makes pages a hole of the file, drops their copies, and syncs. False if the file system keeps the space.
    ///
    /// # Safety
    /// The pages are of `file`, which is the device's, mapped privately from `base` on, and only ever accessed
    /// atomically.
    pub(in crate::mapped) unsafe fn release(
        &self,
        base: *mut u8,
        range: Range<u64>,
        file: &File,
    ) -> io::Result<bool> {
        let mut writer = lock(&self.writer);
        self.check()?;
        if !file::punch(file, range.clone())? {
            return Ok(false);
        }
        let pages = range.start / PAGE..range.end / PAGE;
        // SAFETY: the pages are mapped, by the caller's contract.
        if unsafe { drop_copies(base, pages.clone()) } {
            writer.copies.pages.remove(pages);
        } else {
            for page in pages {
                // SAFETY: as above.
                unsafe { copy::copy_in(base.add((page * PAGE) as usize), &[0; PAGE as usize]) };
            }
        }
        // From here on the zeros are relied on.
        self.sync(&mut writer)?;
        Ok(true)
    }

    fn keeps_aside(&self, page: u64) -> bool {
        lock(&self.shards[page as usize % SHARDS]).contains_key(&page)
    }
}

/// The runs of adjacent pages for which `is` holds.
fn runs_of(pages: Range<u64>, is: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for page in pages.filter(|&page| is(page)) {
        match runs.last_mut() {
            Some(last) if last.end == page => last.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

/// Whether memory holds these bytes.
///
/// # Safety
/// As many bytes are mapped at `at`, which is aligned to a page, and only ever accessed atomically.
unsafe fn equal(at: *const u8, bytes: &[u8]) -> bool {
    bytes.chunks_exact(8).enumerate().all(|(index, word)| {
        // SAFETY: in bounds and aligned by the caller's contract.
        #[allow(clippy::cast_ptr_alignment)]
        let found = unsafe { &*at.cast::<AtomicU64>().add(index) }.load(Ordering::Acquire);
        found.to_ne_bytes() == word
    })
}

/// Drops the private copies of pages. False if the system refuses (locked memory).
///
/// # Safety
/// The pages are mapped privately from `base` on.
unsafe fn drop_copies(base: *mut u8, pages: Range<u64>) -> bool {
    let bytes = ((pages.end - pages.start) * PAGE) as usize;
    // SAFETY: the pages stay mapped, from the file.
    unsafe {
        madvise(base.add((pages.start * PAGE) as usize).cast(), bytes, Advice::LinuxDontNeed)
            .is_ok()
    }
}
