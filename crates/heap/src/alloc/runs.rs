//! Runs of adjacent pages, found by their first page and by their length.
//!
//! Invariants: runs neither overlap nor touch, and both orders hold the same runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A set of pages, as runs.
#[derive(Default)]
pub(super) struct Runs {
    by_page: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    pages: u64,
}

impl Runs {
    /// Number of pages in the set.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Number of pages of the longest run.
    pub(super) fn longest(&self) -> u64 {
        self.by_len.last().map_or(0, |&(len, _)| len)
    }

    /// Number of pages of the run that ends before `end`.
    pub(super) fn before(&self, end: u64) -> u64 {
        match self.by_page.range(..end).next_back() {
            Some((&page, &len)) if page + len == end => len,
            _ => 0,
        }
    }

    /// Adds pages, none of which is in the set.
    pub(super) fn add(&mut self, mut page: u64, mut len: u64) {
        self.pages += len;
        let before = self.before(page);
        if before > 0 {
            self.remove(page - before, before);
            (page, len) = (page - before, len + before);
        }
        if let Some(&behind) = self.by_page.get(&(page + len)) {
            self.remove(page + len, behind);
            len += behind;
        }
        self.insert(page, len);
    }

    /// Takes the first `pages` pages of the shortest run that is long enough.
    pub(super) fn take(&mut self, pages: u64) -> Option<u64> {
        let &(len, page) = self.by_len.range((pages, 0)..).next()?;
        self.cut(page, len, page..page + pages);
        Some(page)
    }

    /// Takes out the longest run, limited to its first `most` pages, if it has at least `least`.
    pub(super) fn take_longest(&mut self, least: u64, most: u64) -> Option<Range<u64>> {
        let &(len, page) = self.by_len.last().filter(|&&(len, _)| len >= least)?;
        let taken = page..page + len.min(most);
        self.cut(page, len, taken.clone());
        Some(taken)
    }

    /// Takes out the pages that are in `range`.
    pub(super) fn take_within(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let first = self.by_page.range(..range.start).next_back();
        let others = self.by_page.range(range.start..range.end.max(range.start));
        let touched: Vec<_> =
            first.into_iter().chain(others).map(|(&page, &len)| (page, len)).collect();
        let mut taken = Vec::new();
        for (page, len) in touched {
            let part = page.max(range.start)..(page + len).min(range.end);
            if part.start < part.end {
                self.cut(page, len, part.clone());
                taken.push(part);
            }
        }
        taken
    }

    /// Takes a part of a run out of the set.
    fn cut(&mut self, page: u64, len: u64, part: Range<u64>) {
        self.remove(page, len);
        self.pages -= part.end - part.start;
        for rest in [page..part.start, part.end..page + len] {
            if rest.start < rest.end {
                self.insert(rest.start, rest.end - rest.start);
            }
        }
    }

    fn insert(&mut self, page: u64, len: u64) {
        self.by_page.insert(page, len);
        self.by_len.insert((len, page));
    }

    fn remove(&mut self, page: u64, len: u64) {
        self.by_page.remove(&page);
        self.by_len.remove(&(len, page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_merge_are_taken_and_are_cut() {
        let mut runs = Runs::default();
        [(10, 5), (20, 2), (15, 5), (30, 1)]
            .into_iter()
            .for_each(|(page, len)| runs.add(page, len));
        assert_eq!((runs.pages(), runs.longest(), runs.before(22)), (13, 12, 12));
        assert_eq!((runs.before(31), runs.before(21)), (1, 0));
        assert_eq!(runs.take(1), Some(30), "the shortest that is long enough");
        assert_eq!(runs.take(13), None);
        let pages = |taken: Vec<Range<u64>>| taken.into_iter().flatten().collect::<Vec<u64>>();
        assert_eq!(pages(runs.take_within(0..12)), [10, 11]);
        assert_eq!(pages(runs.take_within(14..16)), [14, 15]);
        assert_eq!(runs.take_within(0..10), []);
        assert_eq!(runs.take_longest(7, 100), None);
        assert_eq!(runs.take_longest(6, 4), Some(16..20));
        assert_eq!(runs.take_within(0..100), [12..14, 20..22]);
        assert_eq!((runs.pages(), runs.longest()), (0, 0));
    }
}
