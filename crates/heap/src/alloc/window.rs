//! Chooses a window: adjacent pages in which little is taken, to be emptied for an object of many pages.
//!
//! The choice goes by the page table as it is in memory, which running transactions may change meanwhile: then the
//! window is perhaps not emptied, and nothing worse.

use super::layout::Use;
use super::space::{FreeSpace, Space};
use perdura_memory::{Memory, PAGE};
use std::collections::BTreeSet;
use std::ops::Range;

/// The cost of emptying a page.
#[derive(Clone, Copy)]
enum Cost {
    /// So many bytes are moved.
    Bytes(u64),
    /// It cannot be emptied.
    Never,
}

/// Pages, and the bytes and the pages that cannot be emptied up to each.
struct Costs {
    bytes: Vec<u64>,
    never: Vec<u64>,
    /// For pages inside a run of one object, its first page and its end; for others, the page itself.
    objects: Vec<(u64, u64)>,
}

impl Costs {
    fn new() -> Self {
        Costs { bytes: vec![0], never: vec![0], objects: Vec::new() }
    }

    fn add(&mut self, cost: Cost, object: (u64, u64)) {
        let (bytes, never) = match cost {
            Cost::Bytes(bytes) => (bytes, 0),
            Cost::Never => (0, 1),
        };
        let last = self.objects.len();
        self.bytes.push(self.bytes[last] + bytes);
        self.never.push(self.never[last] + never);
        self.objects.push(object);
    }

    /// Whether a range begins or ends beside a page that cannot be emptied, or at an end.
    fn is_flush(&self, range: &Range<u64>) -> bool {
        let never = |page: u64| self.never[page as usize + 1] > self.never[page as usize];
        range.start.checked_sub(1).is_none_or(never)
            || range.end == self.objects.len() as u64
            || never(range.end)
    }

    /// The cheapest `pages` adjacent pages, widened so that no object is cut, and their cost. If possible, they leave
    /// no gap that is soon too small for others, on one side.
    fn cheapest(&self, pages: u64) -> Option<(u64, Range<u64>)> {
        let all = self.objects.len() as u64;
        let mut best: Option<(bool, u64, Range<u64>)> = None;
        for first in 0..(all + 1).saturating_sub(pages) {
            let start = self.objects[first as usize].0;
            let end = self.objects[(first + pages - 1) as usize].1;
            let (from, to) = (start as usize, end as usize);
            if self.never[to] > self.never[from] {
                continue;
            }
            let (range, bytes) = (start..end, self.bytes[to] - self.bytes[from]);
            let gaps = !self.is_flush(&range);
            if best.as_ref().is_none_or(|(gap, least, _)| (gaps, bytes) < (*gap, *least)) {
                best = Some((gaps, bytes, range));
            }
        }
        best.map(|(_, bytes, range)| (bytes, range))
    }
}

impl Space {
    /// Begins to empty a window of at least `pages` pages, none of which is in `unmoved`; false if there is none, or
    /// no room for its objects.
    pub fn empty_window(&self, memory: &dyn Memory, pages: u64, unmoved: &BTreeSet<u64>) -> bool {
        // Before the lock is taken: no access to the memory is made with it.
        let grown = self.layout.pages_in(memory.len());
        let table: Vec<u64> = (0..grown).map(|page| memory.load(self.layout.entry(page))).collect();
        let mut state = self.state();
        let costs = Self::costs(&state, &table, self.layout.pages_in(memory.limit()), unmoved);
        let Some((bytes, window)) = costs.cheapest(pages) else { return false };
        let most = self.layout.pages_in(memory.limit());
        let all = state.runs.pages() + state.released.pages() + most - state.pages.min(most);
        let inside =
            window.end - window.start - bytes.div_ceil(PAGE).min(window.end - window.start);
        if all < inside || (all - inside) * PAGE < bytes {
            return false;
        }
        self.start_window(&mut state, window)
    }

    /// The costs of all pages up to `most`, the first of which have these entries in the page table.
    fn costs(state: &FreeSpace, table: &[u64], most: u64, unmoved: &BTreeSet<u64>) -> Costs {
        let (mut costs, mut page) = (Costs::new(), 0);
        while page < most {
            let known = state.states.get(page as usize).copied().flatten();
            let is_unmoved = unmoved.contains(&page);
            let used =
                table.get(page as usize).map_or(Some(Use::Free), |word| Use::from_word(*word));
            let mut pages = 1;
            let cost = match (known, used) {
                _ if is_unmoved && known.is_some() => Cost::Never,
                (Some(known), _) if known.owned || known.left > 0 => Cost::Never,
                (Some(known), _) => {
                    let taken = u64::from(known.class.slots() - known.free.count_ones());
                    Cost::Bytes(taken * known.class.slot_bytes())
                }
                (None, Some(Use::Run(run))) => {
                    pages = run.min(most - page);
                    if is_unmoved { Cost::Never } else { Cost::Bytes(PAGE) }
                }
                (None, Some(_)) => Cost::Bytes(0),
                (None, None) => Cost::Never,
            };
            for inside in page..page + pages {
                let object = if pages > 1 { (page, page + pages) } else { (inside, inside + 1) };
                costs.add(cost, object);
            }
            page += pages;
        }
        costs
    }

    /// Whether there may be a window of `pages` pages: enough are free, and more than when none was found.
    pub fn may_have_window(&self, memory: &dyn Memory, pages: u64) -> bool {
        let (free, _) = self.free_pages(memory);
        let state = self.state();
        let growth = self.layout.pages_in(memory.limit()).saturating_sub(state.pages);
        let (least, before) = state.emptying.no_window;
        free + growth >= pages && (least == 0 || pages < least || free > before + pages / 8)
    }

    /// Takes note that there is no window of `pages` pages.
    pub fn has_no_window(&self, memory: &dyn Memory, pages: u64) {
        let (free, _) = self.free_pages(memory);
        self.state().emptying.no_window = (pages, free);
    }

    /// Number of free pages, and of those in one place that an allocation finds, also by growing the memory.
    pub fn free_pages(&self, memory: &dyn Memory) -> (u64, u64) {
        let state = self.state();
        let most = self.layout.pages_in(memory.limit());
        let growth = state.runs.before(state.pages) + most.saturating_sub(state.pages);
        let longest = state.runs.longest().max(growth).max(state.released.longest());
        (state.runs.pages() + state.released.pages(), longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_pages_cut_no_object() {
        let mut costs = Costs::new();
        let pages = [(9, (0, 1)), (1, (1, 2)), (2, (2, 4)), (2, (2, 4)), (0, (4, 5)), (0, (5, 6))];
        pages.into_iter().for_each(|(bytes, object)| costs.add(Cost::Bytes(bytes), object));
        assert_eq!(costs.cheapest(2), Some((0, 4..6)));
        assert_eq!(costs.cheapest(3), Some((4, 2..6)), "all of the object of two pages");
        assert_eq!(costs.cheapest(5), Some((5, 1..6)));
        assert_eq!(costs.cheapest(7), None);
        costs.add(Cost::Never, (6, 7));
        costs.add(Cost::Bytes(0), (7, 8));
        assert_eq!(costs.cheapest(1), Some((0, 5..6)), "beside it");
        assert_eq!(costs.cheapest(7), None, "one of them cannot be emptied");
    }
}
