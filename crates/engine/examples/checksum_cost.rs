//! What it costs to write back an object, to create checksums for it, and to update them: the
//! micro-benchmark of Archapt's Figure 6, on real memory.
//!
//! ```console
//! $ cargo run --release -p perdura-engine --example checksum_cost -- \
//!       [OBJECTS] [BATCH] [DIRECTORY] [SEED] [BYTES...]
//! ```
//! Objects of one size lie in pages as the heap's slots do, and are accessed in random order. Of
//! each object one word in every line is stored to, so that all of it is dirty. What is timed:
//!
//! - *write back*: all lines of each object, and a fence, as undo and redo logging do.
//! - *create*: batches of objects, as they come, begin to be covered: announced, a fence, settled
//!   by difference, a fence.
//! - *create, packed*: the same, but what comes is whole pages, all objects of each at once.
//! - *update*: objects that are covered have changed, and their sums follow by difference; what was
//!   there before is at hand, as it is for who has just stored over it.
//!
//! *Just stored* is right after the stores, with the object in the nearest cache: where undo and
//! redo logging write back. *Long after* is a whole round of stores to all objects later: where
//! Archapt creates checksums, once it takes an object to have left the cache. Small sets may be in
//! the last cache still. The time of the stores themselves is never counted. Times are those of the
//! median batch.

use perdura_engine::archapt::checksum::page::{
    Announced, Marks, announce, covered, discard, settle_by_difference, verify,
};
use perdura_engine::archapt::checksum::{Block, Coverage, Matrix, Outcome, Shape, Summer, Sums};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, MapOptions, Mapped, Memory, PAGE, WORD};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

const SIZES: [u64; 5] = [128, 256, 512, 1024, 2048];
const SALT: u64 = 0x636f_7374;
const BLOCKS: u64 = 49;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (objects, batch) = (number(1_300_000), number(64));
    let mut arguments = std::env::args().skip(3);
    let directory = arguments.next().unwrap_or_else(|| "/dev/shm".to_owned());
    let seed = arguments.next().map_or(1, |text| text.parse().expect("a number"));
    let sizes: Vec<u64> = arguments.map(|text| text.parse().expect("a size in bytes")).collect();
    for summer in Summer::all() {
        println!("{}: {:.1} ns to sum a block that is at hand", summer.name(), sum_time(summer));
    }
    println!("{objects} objects, batches of {batch}, {}, seed {seed}.", Summer::best().name());
    println!("Nanoseconds for an object, lines written back for it, and time beside that of the");
    println!("first column of the same block (less than 100 %: cheaper).\n");
    println!("| bytes | when | write back | create | create, packed | update |");
    println!("|---:|---|---:|---:|---:|---:|");
    for &size in if sizes.is_empty() { &SIZES[..] } else { &sizes } {
        let path = format!("{directory}/perdura-checksum-cost-{}", std::process::id());
        let bench = Bench::new(&path, objects, size, batch as usize, seed);
        // Mapped, so that nothing is left behind whatever happens.
        std::fs::remove_file(&path).expect("the file that was made");
        bench.run();
    }
}

/// Nanoseconds for a block's part in both of its sums: of a whole page, from the nearest cache.
fn sum_time(summer: Summer) -> f64 {
    const TURNS: u32 = 2000;
    let (matrix, all) = (Matrix::new(Shape::PAGE), Coverage::all(Shape::PAGE));
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..TURNS {
            black_box(Sums::build(summer, black_box(&matrix), &all));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(TURNS) / BLOCKS as f64);
    }
    best
}

/// Objects of one size.
struct Bench {
    memory: Mapped,
    size: u64,
    /// Objects in a page.
    each: u64,
    /// All objects, in the order in which they are accessed.
    order: Vec<u64>,
    batch: usize,
}

/// Time and lines.
#[derive(Default)]
struct Cost {
    /// Of each batch, for one object.
    nanoseconds: Vec<f64>,
    /// Of all.
    lines: u64,
}

impl Cost {
    fn add(&mut self, nanoseconds: u64, objects: usize) {
        self.nanoseconds.push(nanoseconds as f64 / objects as f64);
    }

    /// The median batch: others use this machine too, and take whole time slices from some.
    fn median(&self) -> f64 {
        let mut sorted = self.nanoseconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

impl Bench {
    fn new(path: &str, objects: u64, size: u64, batch: usize, seed: u64) -> Self {
        let each = BLOCKS / (size / LINE);
        let len = objects.div_ceil(each) * PAGE;
        let options = MapOptions { domain: Some(Domain::Transient), limit: len };
        let memory = Mapped::create(path, len, options).expect("a file for the objects");
        let mut random = SplitMix64::new(seed);
        for at in (0..len).step_by(WORD as usize) {
            memory.store(at, random.next());
        }
        let mut order: Vec<u64> = (0..objects).collect();
        random.shuffle(&mut order);
        Bench { memory, size, each, order, batch }
    }

    fn run(&self) {
        let packed: Vec<u64> = self.packed();
        for (when, stored_before) in [("just stored", false), ("long after", true)] {
            let flush = self.timed(&self.order, stored_before, |objects| self.flush(objects));
            let create = self.timed(&self.order, stored_before, |objects| self.create(objects));
            self.check();
            let update = (!stored_before).then(|| self.update());
            self.check();
            self.uncover();
            let pack = self.timed(&packed, stored_before, |objects| self.create(objects));
            self.check();
            self.uncover();
            let show = |cost: &Cost| {
                format!(
                    "{:.0} ns, {:.1} lines, {:.0} %",
                    cost.median(),
                    cost.lines as f64 / self.order.len() as f64,
                    100.0 * cost.median() / flush.median()
                )
            };
            let update = update.as_ref().map_or("".to_owned(), show);
            println!(
                "| {} | {when} | {} | {} | {} | {update} |",
                self.size,
                show(&flush),
                show(&create),
                show(&pack)
            );
        }
    }

    /// All objects, page by page in random order.
    fn packed(&self) -> Vec<u64> {
        let of_page = |first: u64| first..(first + self.each).min(self.order.len() as u64);
        let firsts = self.order.iter().filter(|object| **object % self.each == 0);
        firsts.flat_map(|first| of_page(*first)).collect()
    }

    /// Stores to objects and does `work` to them, batch by batch. Counts the time of the work.
    fn timed(&self, order: &[u64], stored_before: bool, work: impl Fn(&[u64]) -> u64) -> Cost {
        if stored_before {
            order.iter().for_each(|object| self.modify(*object));
        }
        let mut cost = Cost::default();
        for objects in order.chunks(self.batch) {
            if !stored_before {
                objects.iter().for_each(|object| self.modify(*object));
            }
            let start = self.memory.now();
            cost.lines += work(objects);
            cost.add(self.memory.now() - start, objects.len());
        }
        cost
    }

    fn page(&self, object: u64) -> u64 {
        object / self.each * PAGE
    }

    fn at(&self, object: u64) -> u64 {
        self.page(object) + object % self.each * self.size
    }

    /// The blocks of an object in its page.
    fn cells(&self, object: u64) -> u64 {
        let blocks = self.size / LINE;
        ((1 << blocks) - 1) << (object % self.each * blocks)
    }

    fn modify(&self, object: u64) {
        let at = self.at(object);
        for line in (at..at + self.size).step_by(LINE as usize) {
            let word = line + object % 8 * WORD;
            self.memory.store(word, self.memory.load(word).wrapping_mul(5) + 1);
        }
    }

    fn flush(&self, objects: &[u64]) -> u64 {
        for object in objects {
            self.memory.write_back(self.at(*object), self.size);
            self.memory.fence();
        }
        objects.len() as u64 * self.size / LINE
    }

    fn create(&self, objects: &[u64]) -> u64 {
        let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
        for object in objects {
            *pages.entry(self.page(*object)).or_default() |= self.cells(*object);
        }
        let announce_one = |(page, new): (u64, u64)| {
            let now = covered(&self.memory, SALT, page).map_or(0, |covered| covered.now);
            announce(&self.memory, SALT, page, now | new, 0)
        };
        let announced: Vec<Announced> = pages.into_iter().map(announce_one).collect();
        self.memory.fence();
        announced.iter().for_each(|one| settle_by_difference(&self.memory, one, &[]));
        self.memory.fence();
        lines(&announced)
    }

    /// All objects, each changed and its sums after it.
    fn update(&self) -> Cost {
        let mut cost = Cost::default();
        let mut old: Vec<Vec<(usize, Block)>> = vec![Vec::new(); self.batch];
        for objects in self.order.chunks(self.batch) {
            for (object, old) in objects.iter().zip(&mut old) {
                self.remember(*object, old);
                self.modify(*object);
            }
            let start = self.memory.now();
            for (object, old) in objects.iter().zip(&old) {
                let page = self.page(*object);
                let now = covered(&self.memory, SALT, page).expect("it is covered").now;
                let announced = announce(&self.memory, SALT, page, now, self.cells(*object));
                settle_by_difference(&self.memory, &announced, old);
                cost.lines += lines(&[announced]);
            }
            self.memory.fence();
            cost.add(self.memory.now() - start, objects.len());
        }
        cost
    }

    /// Takes down what an object holds.
    fn remember(&self, object: u64, old: &mut Vec<(usize, Block)>) {
        old.clear();
        let first = self.cells(object).trailing_zeros() as usize;
        for index in 0..(self.size / LINE) as usize {
            let mut block = [0; 8];
            let at = self.at(object) + index as u64 * LINE;
            self.memory.copy_out(at, bytemuck::cast_slice_mut(&mut block));
            old.push((first + index, block));
        }
    }

    fn uncover(&self) {
        (0..self.memory.len()).step_by(PAGE as usize).for_each(|page| {
            discard(&self.memory, SALT, page);
        });
        self.memory.fence();
    }

    /// A benchmark checks its answer: every object of some pages is covered, and adds up.
    fn check(&self) {
        let mut random = SplitMix64::new(3);
        for _ in 0..1000 {
            let first = random.below(self.order.len() as u64) / self.each * self.each;
            let objects = first..(first + self.each).min(self.order.len() as u64);
            let all = objects.fold(0, |set, object| set | self.cells(object));
            let page = self.page(first);
            let now = covered(&self.memory, SALT, page).expect("a covered page").now;
            assert_eq!(now, all, "what is covered in the page at {page:#x}");
            let outcome = verify(&self.memory, SALT, page, Marks::default());
            assert_eq!(outcome, Some(Outcome::Consistent), "the page at {page:#x}");
        }
    }
}

fn lines(announced: &[Announced]) -> u64 {
    announced.iter().map(|one| one.lines().0 + one.lines().1).sum()
}
