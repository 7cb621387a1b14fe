//! Private copies of pages, on [`Domain::Media`](crate::Domain::Media): a page that was stored to is the process's own
//! from then on. Given back, loads find the file's bytes instead, and a store that came between the comparison with the
//! file and the drop is lost.

use super::{Image, LineWords};
use crate::{LINE, PAGE, PageSet};
use std::ops::Range;

/// The pages that have copies.
#[derive(Default)]
pub struct PrivateCopies {
    pages: PageSet,
    /// How many there were when giving back was last due, or had ended.
    left: u64,
    /// Where the running pass continues.
    next: u64,
}

impl PrivateCopies {
    /// Something was stored at `at`.
    #[inline]
    pub fn stored(&mut self, at: u64) {
        self.pages.insert(at / PAGE);
    }

    /// Whether the page of `at` has a copy.
    pub fn has(&self, at: u64) -> bool {
        self.pages.contains(at / PAGE)
    }

    /// Whether there are `spare` more than when this was last true, or a pass has ended.
    pub fn is_due(&mut self, spare: u64) -> bool {
        let is_due = self.pages.count() >= self.left + spare;
        if is_due {
            self.left = self.pages.count();
        }
        is_due
    }

    /// The next run of adjacent pages to examine, of at most `most`; `None` at the end of the pass.
    pub fn next_run(&mut self, most: u64) -> Option<Range<u64>> {
        let run = self.pages.run(self.next, most);
        match &run {
            Some(run) => self.next = run.end,
            None => (self.next, self.left) = (0, self.pages.count()),
        }
        run
    }

    /// A page's copy is dropped.
    pub fn dropped(&mut self, page: u64) {
        self.pages.remove(page..page + 1);
    }
}

/// The offsets of a page's lines.
pub fn lines_of(page: u64) -> impl Iterator<Item = u64> + Clone {
    (page * PAGE..(page + 1) * PAGE).step_by(LINE as usize)
}

impl Image {
    /// A line as the file has it: what is durable, and what a dead process had written to it.
    pub fn in_file(&self, line: u64) -> LineWords {
        let mut words = self.line(line, 0);
        if let Some(pending) = self.pending.get(&line) {
            let left = pending.stores[..pending.left].iter();
            left.for_each(|store| super::patch_line(&mut words, &store.piece));
        }
        words
    }

    /// Whether a line of the page was written back and waits for a fence: its copy must not be dropped, since the file
    /// is about to change.
    pub fn keeps_aside(&self, page: u64) -> bool {
        self.pending.range(page * PAGE..(page + 1) * PAGE).any(|(_, line)| line.most_asked() > 0)
    }

    /// Lines that wait for a fence.
    pub fn kept_aside(&self) -> impl Iterator<Item = u64> {
        self.asked.iter().flatten().copied()
    }

    /// The page's copy is dropped, and with it all stores that were not written back.
    pub fn drop_copy(&mut self, page: u64) {
        let range = page * PAGE..(page + 1) * PAGE;
        let lines: Vec<u64> = self.pending.range(range).map(|(line, _)| *line).collect();
        for line in lines {
            let Some(pending) = self.pending.get_mut(&line) else { continue };
            pending.stores.truncate(pending.reached());
            if pending.stores.is_empty() {
                self.pending.remove(&line);
            }
        }
    }
}
