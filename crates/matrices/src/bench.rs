//! The benchmark of [`cost`](crate::cost): objects are written back, or covered by checksums, and timed.

use crate::cost::{BLOCKS, Cost, Costs, Demand, Failure, Watch, When};
use crate::page::{Announced, Marks, announce, covered, discard, settle_by_difference, verify};
use crate::{Block, LANES, Outcome, Shape};
use perdura_memory::random::SplitMix64;
use perdura_memory::{LINE, Memory, PAGE, WORD};
use std::collections::BTreeMap;

const _: () = assert!(BLOCKS == Shape::PAGE.cells() as u64);

const SALT: u64 = 0x636f_7374;
/// Pages whose sums are checked afterwards.
const CHECKED: u32 = 1000;

/// Objects of one size in a memory of the caller's.
pub struct Bench<'a, M> {
    memory: &'a M,
    demand: Demand,
    /// All objects, in the order in which they are accessed.
    order: Vec<u64>,
    watch: &'a Watch<'a>,
}

/// Time and lines, as they add up.
#[derive(Default)]
struct CostSum {
    /// For each batch, the time per object.
    nanoseconds: Vec<f64>,
    lines: u64,
    objects: usize,
}

impl CostSum {
    fn add(&mut self, nanoseconds: u64, lines: u64, objects: usize) {
        self.nanoseconds.push(nanoseconds as f64 / objects as f64);
        self.lines += lines;
        self.objects += objects;
    }

    fn cost(mut self) -> Cost {
        self.nanoseconds.sort_by(f64::total_cmp);
        let nanoseconds = self.nanoseconds[self.nanoseconds.len() / 2];
        Cost { nanoseconds, lines: self.lines as f64 / self.objects as f64 }
    }
}

impl<'a, M: Memory> Bench<'a, M> {
    /// Fills `memory`, which must have [`Demand::bytes`], with objects.
    ///
    /// # Errors
    /// `Demand`, `Stopped`.
    pub fn new(memory: &'a M, demand: Demand, watch: &'a Watch<'a>) -> Result<Self, Failure> {
        demand.validate()?;
        if memory.len() < demand.bytes() {
            return Err(Failure::Demand("the memory is too small for so many objects"));
        }
        let mut random = SplitMix64::new(demand.seed);
        for page in (0..demand.bytes()).step_by(PAGE as usize) {
            if !watch(0) {
                return Err(Failure::Stopped);
            }
            for at in (page..page + PAGE).step_by(WORD as usize) {
                memory.store(at, random.next());
            }
        }
        let mut order: Vec<u64> = (0..demand.objects).collect();
        random.shuffle(&mut order);
        Ok(Bench { memory, demand, order, watch })
    }

    /// Measures, checks the checksums that were made, and removes them.
    ///
    /// # Errors
    /// `Wrong`, `Stopped`.
    pub fn measure(&self, when: When) -> Result<Costs, Failure> {
        let flush = self.timed(&self.order, when, |objects| self.flush(objects))?;
        let create = self.timed(&self.order, when, |objects| self.create(objects))?;
        self.check()?;
        let update = match when {
            When::JustStored => Some(self.update()?),
            When::LongAfter => None,
        };
        self.check()?;
        self.uncover();
        let packed = self.timed(&self.packed(), when, |objects| self.create(objects))?;
        self.check()?;
        self.uncover();
        Ok(Costs { flush, create, packed, update })
    }

    /// All objects, page by page in random order.
    fn packed(&self) -> Vec<u64> {
        let firsts = self.order.iter().filter(|object| **object % self.demand.each() == 0);
        firsts.flat_map(|first| self.of_page(*first)).collect()
    }

    /// The objects of the page whose first one this is.
    fn of_page(&self, first: u64) -> std::ops::Range<u64> {
        first..(first + self.demand.each()).min(self.demand.objects)
    }

    /// Stores to objects and does `work` on them, batch by batch. Counts the time of the work, and
    /// the lines that it returns.
    fn timed(
        &self,
        order: &[u64],
        when: When,
        work: impl Fn(&[u64]) -> u64,
    ) -> Result<Cost, Failure> {
        if when == When::LongAfter {
            order.iter().for_each(|object| self.modify(*object));
        }
        let mut sum = CostSum::default();
        for objects in order.chunks(self.demand.batch) {
            self.begin(objects)?;
            if when == When::JustStored {
                objects.iter().for_each(|object| self.modify(*object));
            }
            let start = self.memory.now();
            let lines = work(objects);
            sum.add(self.memory.now() - start, lines, objects.len());
        }
        Ok(sum.cost())
    }

    fn begin(&self, objects: &[u64]) -> Result<(), Failure> {
        if (self.watch)(objects.len()) { Ok(()) } else { Err(Failure::Stopped) }
    }

    fn page(&self, object: u64) -> u64 {
        object / self.demand.each() * PAGE
    }

    fn at(&self, object: u64) -> u64 {
        self.page(object) + object % self.demand.each() * self.demand.size
    }

    /// The blocks of an object in its page.
    fn cells(&self, object: u64) -> u64 {
        let blocks = self.demand.size / LINE;
        ((1 << blocks) - 1) << (object % self.demand.each() * blocks)
    }

    fn modify(&self, object: u64) {
        let at = self.at(object);
        for line in (at..at + self.demand.size).step_by(LINE as usize) {
            let word = line + object % LANES as u64 * WORD;
            self.memory.store(word, self.memory.load(word).wrapping_mul(5) + 1);
        }
    }

    fn flush(&self, objects: &[u64]) -> u64 {
        for object in objects {
            self.memory.write_back(self.at(*object), self.demand.size);
            self.memory.fence();
        }
        objects.len() as u64 * self.demand.size / LINE
    }

    fn create(&self, objects: &[u64]) -> u64 {
        let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
        for object in objects {
            *pages.entry(self.page(*object)).or_default() |= self.cells(*object);
        }
        let announce_one = |(page, new): (u64, u64)| {
            announce(self.memory, SALT, page, self.covered(page) | new, 0)
        };
        let announced: Vec<Announced> = pages.into_iter().map(announce_one).collect();
        self.memory.fence();
        announced.iter().for_each(|one| settle_by_difference(self.memory, one, &[]));
        self.memory.fence();
        announced.iter().map(lines).sum()
    }

    /// The blocks of a page that have checksums.
    fn covered(&self, page: u64) -> u64 {
        covered(self.memory, SALT, page).map_or(0, |covered| covered.now)
    }

    /// Changes every object, and then updates its sums.
    fn update(&self) -> Result<Cost, Failure> {
        let mut sum = CostSum::default();
        let mut old: Vec<Vec<(usize, Block)>> = vec![Vec::new(); self.demand.batch];
        for objects in self.order.chunks(self.demand.batch) {
            self.begin(objects)?;
            for (object, old) in objects.iter().zip(&mut old) {
                self.remember(*object, old);
                self.modify(*object);
            }
            let start = self.memory.now();
            let mut written = 0;
            for (object, old) in objects.iter().zip(&old) {
                let (page, cells) = (self.page(*object), self.cells(*object));
                let announced = announce(self.memory, SALT, page, self.covered(page), cells);
                settle_by_difference(self.memory, &announced, old);
                written += lines(&announced);
            }
            self.memory.fence();
            sum.add(self.memory.now() - start, written, objects.len());
        }
        Ok(sum.cost())
    }

    /// Saves the contents of an object.
    fn remember(&self, object: u64, old: &mut Vec<(usize, Block)>) {
        old.clear();
        let first = self.cells(object).trailing_zeros() as usize;
        for index in 0..(self.demand.size / LINE) as usize {
            let mut block = [0; LANES];
            let at = self.at(object) + index as u64 * LINE;
            self.memory.copy_out(at, bytemuck::cast_slice_mut(&mut block));
            old.push((first + index, block));
        }
    }

    fn uncover(&self) {
        (0..self.demand.bytes()).step_by(PAGE as usize).for_each(|page| {
            discard(self.memory, SALT, page);
        });
        self.memory.fence();
    }

    /// A benchmark checks its answer: every object of some pages is covered, and adds up.
    fn check(&self) -> Result<(), Failure> {
        let mut random = SplitMix64::new(self.demand.seed);
        for _ in 0..CHECKED {
            let each = self.demand.each();
            let first = random.below(self.demand.objects) / each * each;
            let all = self.of_page(first).fold(0, |set, object| set | self.cells(object));
            let page = self.page(first);
            let outcome = verify(self.memory, SALT, page, Marks::default());
            if self.covered(page) != all || outcome != Some(Outcome::Consistent) {
                return Err(Failure::Wrong(page));
            }
        }
        Ok(())
    }
}

fn lines(announced: &Announced) -> u64 {
    let (first, second) = announced.lines();
    first + second
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    fn measure(size: u64, watch: &Watch<'_>) -> Result<Costs, Failure> {
        let demand = Demand { size, objects: 200, batch: 64, seed: 1 };
        let memory = Ram::new(demand.bytes());
        Bench::new(&memory, demand, watch)?.measure(When::JustStored)
    }

    #[test]
    fn lines_are_those_of_the_protocol() {
        let costs = measure(2048, &|_| true).expect("figures");
        assert_eq!(costs.flush.lines, 32.0);
        // Five of seven rows, all columns, and a header, which an update does not need.
        assert_eq!((costs.create.lines, costs.packed.lines), (13.0, 13.0));
        assert_eq!(costs.update.map(|cost| cost.lines), Some(12.0));
        let small = measure(128, &|_| true).expect("figures");
        assert!(small.packed.lines < 1.5 && small.packed.lines < small.create.lines, "{small:?}");
    }

    #[test]
    fn refuses_impossible_shapes() {
        for size in [0, 63, 100, 50 * 64, u64::MAX] {
            let demand = Demand { size, objects: 1, batch: 1, seed: 1 };
            assert!(matches!(demand.validate(), Err(Failure::Demand(_))), "{size}");
        }
        assert!(matches!(measure(128, &|_| false), Err(Failure::Stopped)));
        assert!(matches!(measure(128, &|objects| objects == 0), Err(Failure::Stopped)));
    }
}
