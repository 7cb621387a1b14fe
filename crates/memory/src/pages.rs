//! Sets of pages that know how many they hold. Each takes a bit for every page up to the highest.

use crate::PAGE;
use std::ops::Range;

/// A set of pages.
#[derive(Default)]
pub struct PageSet {
    bits: Vec<u64>,
    count: u64,
}

impl PageSet {
    /// Adds a page, by its number.
    #[inline]
    pub fn insert(&mut self, page: u64) {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.count += u64::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }

    /// Removes pages.
    pub fn remove(&mut self, pages: Range<u64>) {
        for page in pages.filter(|&page| self.contains(page)).collect::<Vec<_>>() {
            self.bits[(page / 64) as usize] &= !(1 << (page % 64));
            self.count -= 1;
        }
    }

    /// Removes all pages.
    pub fn clear(&mut self) {
        self.bits.fill(0);
        self.count = 0;
    }

    /// Whether a page is in it.
    pub fn contains(&self, page: u64) -> bool {
        self.bits.get((page / 64) as usize).is_some_and(|word| word & 1 << (page % 64) != 0)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first run of adjacent pages at or after `from`, cut to at most `most`.
    pub fn run(&self, from: u64, most: u64) -> Option<Range<u64>> {
        let mut word = (from / 64) as usize;
        let mut left = self.bits.get(word)? & (!0 << (from % 64));
        while left == 0 {
            word += 1;
            left = *self.bits.get(word)?;
        }
        let start = word as u64 * 64 + u64::from(left.trailing_zeros());
        let end = (start..start + most).find(|&page| !self.contains(page));
        Some(start..end.unwrap_or(start + most))
    }
}

/// The number of pages that may be ordinary memory instead of the page cache's before some are worth giving back: 32
/// MiB.
pub const SPARE_PAGES: u64 = (32 << 20) / PAGE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_counted_and_taken_out() {
        let mut set = PageSet::default();
        [3, 62, 63, 64, 65, 200, 64].into_iter().for_each(|page| set.insert(page));
        assert_eq!(set.count(), 6);
        let runs = |set: &PageSet, most| {
            let mut from = 0;
            std::iter::from_fn(|| {
                let run = set.run(from, most)?;
                from = run.end;
                Some(run)
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(runs(&set, 100), [3..4, 62..66, 200..201]);
        assert_eq!(runs(&set, 3), [3..4, 62..65, 65..66, 200..201]);
        set.remove(0..64);
        assert_eq!((set.count(), runs(&set, 100)), (3, vec![64..66, 200..201]));
        set.clear();
        assert_eq!((set.count(), set.run(0, 1)), (0, None));
    }
}
