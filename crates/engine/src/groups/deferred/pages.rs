//! Statistics of pages: how often their deferred lines were stored to again.

use perdura_memory::{Memory, Object, PAGE, Traced};

/// What is known of each page.
pub(super) struct PageStats(Vec<PageCounts>, Object);

/// Counts, all halved when the first one is full.
#[derive(Clone, Copy, Default)]
struct PageCounts {
    /// Lines that were deferred.
    deferred: u8,
    /// Of these, those that were stored to again.
    again: u8,
    /// Lines that were kept from being deferred.
    kept: u8,
}

const COUNTS: u64 = size_of::<PageCounts>() as u64;

/// Deferred lines of a page before it is judged.
const FEW: u8 = 16;
/// A line that is deferred and stored to again takes a seventh of a line in its batch, one and a sixth for its image,
/// and its part of the rewriting that makes room for others, instead of one write-back: it is not worth it if more than
/// this share of lines are stored to again.
const MOST: (u32, u32) = (1, 2);
/// One in this many lines is deferred nevertheless: pages change.
const TRY: u8 = 32;

impl PageStats {
    pub(super) fn new<M: Memory>(memory: &M, bytes: u64) -> Self {
        let pages = bytes.div_ceil(PAGE);
        PageStats(vec![PageCounts::default(); pages as usize], memory.object(pages * COUNTS))
    }

    fn of<M: Memory>(&mut self, memory: &M, line: u64) -> &mut PageCounts {
        let own = Traced::new(memory, self.1);
        own.read(line / PAGE * COUNTS, COUNTS);
        own.wrote(line / PAGE * COUNTS, COUNTS);
        &mut self.0[(line / PAGE) as usize]
    }

    pub(super) fn deferred<M: Memory>(&mut self, memory: &M, line: u64) {
        let page = self.of(memory, line);
        page.deferred += 1;
        if page.deferred == u8::MAX {
            (page.deferred, page.again) = (page.deferred / 2, page.again / 2);
        }
    }

    pub(super) fn stored_to_again<M: Memory>(&mut self, memory: &M, line: u64) {
        let page = self.of(memory, line);
        page.again = page.again.saturating_add(1);
    }

    /// Whether a leaving line is to be deferred.
    pub(super) fn keep<M: Memory>(&mut self, memory: &M, line: u64) -> bool {
        let page = self.of(memory, line);
        let share = u32::from(page.again) * MOST.1 > u32::from(page.deferred) * MOST.0;
        if page.deferred < FEW || !share {
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
    fn pages_are_judged_by_their_deferred_lines() {
        let ram = Ram::new(64);
        let mut pages = PageStats::new(&ram, 3 * PAGE);
        let defer = |pages: &mut PageStats, line, again| {
            let deferred = (0..1000).filter(|_| pages.keep(&ram, line)).count();
            for turn in 0..deferred.min(100) {
                pages.deferred(&ram, line);
                if turn % again != 0 {
                    pages.stored_to_again(&ram, line);
                }
            }
            deferred
        };
        let (hot, cold) = (PAGE + LINE, 2 * PAGE);
        assert_eq!((defer(&mut pages, hot, 50), defer(&mut pages, cold, 2)), (1000, 1000));
        let tried = 1000 / usize::from(TRY);
        assert_eq!((defer(&mut pages, hot, 1), defer(&mut pages, cold, 2)), (tried, 1000));
        (0..20).for_each(|_| {
            defer(&mut pages, hot, 1);
        });
        assert_eq!(defer(&mut pages, hot, 1), 1000, "it is not so any more");
    }
}
