//! How often what was covered of a page did not stay so.

use perdura_memory::{Memory, Object, PAGE, Traced};

/// What is known of each page.
pub(super) struct Pages(Vec<Page>, Object);

/// Counts, halved when the first one is full.
#[derive(Clone, Copy, Default)]
struct Page {
    /// Lines that were covered.
    covered: u8,
    /// Of these, those that were stored to again.
    again: u8,
    /// Lines that were kept from being covered.
    kept: u8,
}

const COUNTS: u64 = size_of::<Page>() as u64;

/// Lines of a page to be covered before it is judged.
const FEW: u8 = 16;
/// A line that is covered and stored to again takes a seventh of a line in its batch, one and a
/// sixth for its image, and its part in what is written anew to have room for others, where its
/// write-back had taken one: it is not worth it where more than this share do.
const MOST: (u32, u32) = (1, 2);
/// One line in so many is covered nevertheless: pages change.
const TRY: u8 = 32;

impl Pages {
    pub(super) fn new<M: Memory>(memory: &M, bytes: u64) -> Self {
        let pages = bytes.div_ceil(PAGE);
        Pages(vec![Page::default(); pages as usize], memory.object(pages * COUNTS))
    }

    fn of<M: Memory>(&mut self, memory: &M, line: u64) -> &mut Page {
        let own = Traced::new(memory, self.1);
        own.read(line / PAGE * COUNTS, COUNTS);
        own.wrote(line / PAGE * COUNTS, COUNTS);
        &mut self.0[(line / PAGE) as usize]
    }

    pub(super) fn covered<M: Memory>(&mut self, memory: &M, line: u64) {
        let page = self.of(memory, line);
        page.covered += 1;
        if page.covered == u8::MAX {
            (page.covered, page.again) = (page.covered / 2, page.again / 2);
        }
    }

    pub(super) fn stored_to_again<M: Memory>(&mut self, memory: &M, line: u64) {
        let page = self.of(memory, line);
        page.again = page.again.saturating_add(1);
    }

    /// Whether a line that leaves is to be covered.
    pub(super) fn keep<M: Memory>(&mut self, memory: &M, line: u64) -> bool {
        let page = self.of(memory, line);
        let share = u32::from(page.again) * MOST.1 > u32::from(page.covered) * MOST.0;
        if page.covered < FEW || !share {
            return true;
        }
        page.kept = (page.kept + 1) % TRY;
        page.kept == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::{LINE, Ram};

    #[test]
    fn pages_are_judged_by_what_was_covered() {
        let ram = Ram::new(64);
        let mut pages = Pages::new(&ram, 3 * PAGE);
        let cover = |pages: &mut Pages, line, again| {
            let covered = (0..1000).filter(|_| pages.keep(&ram, line)).count();
            for turn in 0..covered.min(100) {
                pages.covered(&ram, line);
                if turn % again != 0 {
                    pages.stored_to_again(&ram, line);
                }
            }
            covered
        };
        let (hot, cold) = (PAGE + LINE, 2 * PAGE);
        assert_eq!((cover(&mut pages, hot, 50), cover(&mut pages, cold, 2)), (1000, 1000));
        let tried = 1000 / usize::from(TRY);
        assert_eq!((cover(&mut pages, hot, 1), cover(&mut pages, cold, 2)), (tried, 1000));
        (0..20).for_each(|_| {
            cover(&mut pages, hot, 1);
        });
        assert_eq!(cover(&mut pages, hot, 1), 1000, "it is not so any more");
    }
}
