//! Power cuts at every event in the life of a page: no durable block is called lost, no block is
//! corrected wrongly, no lost block goes unnoticed.
//!
//! [`Life`] plays the engine of the protocol: its log is a map that is durable at once, from which
//! blocks are removed when the protocol says so.

use perdura_matrices::page::{
    ALL, Marks, announce, covered, discard, renew, repair, settle, settle_by_difference, verify,
};
use perdura_matrices::{Block, Outcome};
use perdura_memory::random::SplitMix64;
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, LINE, Memory, PAGE, Reference};
use std::collections::BTreeMap;

const SALT: u64 = 0x5a17;
/// The page under test, not the first.
const AT: u64 = PAGE;

fn at(cell: usize) -> u64 {
    AT + cell as u64 * LINE
}

fn load(memory: &Reference, cell: usize) -> Block {
    let mut block = [0; 8];
    memory.copy_out(at(cell), bytemuck::cast_slice_mut(&mut block));
    block
}

fn cells(set: u64) -> impl Iterator<Item = usize> {
    (0..49).filter(move |cell| set >> cell & 1 != 0)
}

/// The true state at a moment, which recovery should find.
#[derive(Clone, Default)]
struct Truth {
    /// Whole blocks that the log holds.
    log: BTreeMap<usize, Block>,
    /// Blocks that only the checksums protect.
    relies: u64,
    /// The contents of these blocks.
    blocks: BTreeMap<usize, Block>,
    /// Whether a covered block was changed, but not yet its sums.
    updating: bool,
}

struct Life {
    memory: Reference,
    random: SplitMix64,
    truth: Truth,
    /// The truth from each event number on.
    history: Vec<(u64, Truth)>,
}

impl Life {
    /// Lives until the power is cut after this many events, or to the end.
    fn lived(seed: u64, cut_after: Option<u64>) -> Self {
        let memory = Reference::new(3 * PAGE, Domain::Transient);
        let mut random = SplitMix64::new(seed);
        // A page that was something else before.
        for word in 0..PAGE / 8 {
            memory.store(AT + word * 8, random.next());
        }
        memory.write_back(AT, PAGE);
        memory.fence();
        if let Some(events) = cut_after {
            memory.cut_after(events.saturating_sub(memory.events()));
        }
        let mut life = Life { memory, random, truth: Truth::default(), history: Vec::new() };
        life.record();
        for _ in 0..5 {
            life.cover();
            life.evict();
            match life.random.below(3) {
                0 => life.update(),
                1 => life.uncover(),
                _ => {}
            }
        }
        if life.random.below(2) == 0 {
            life.put_to_another_use();
        }
        life
    }

    fn record(&mut self) {
        self.history.push((self.memory.events(), self.truth.clone()));
    }

    fn truth_at(&self, events: u64) -> &Truth {
        let known = self.history.iter().rfind(|(from, _)| *from <= events);
        &known.expect("the beginning is recorded").1
    }

    /// Random blocks, sparse or dense.
    fn choose(&mut self, among: u64) -> u64 {
        let thin = self.random.next() & self.random.next();
        among & if self.random.below(2) == 0 { thin & self.random.next() } else { thin }
    }

    /// A transaction whose log is durable stores to blocks in place.
    fn store(&mut self, set: u64) {
        for cell in cells(set) {
            let mut block = load(&self.memory, cell);
            for word in &mut block {
                if self.random.below(2) == 0 {
                    *word = self.random.next();
                }
            }
            self.truth.log.insert(cell, block);
        }
        self.truth.relies &= !set;
        self.record();
        for (cell, block) in self.truth.log.clone() {
            self.memory.copy_in(at(cell), bytemuck::cast_slice(&block));
        }
    }

    /// The log gives up all its blocks: the checksums protect them now.
    fn release(&mut self, to_checksums: u64) {
        for (cell, block) in std::mem::take(&mut self.truth.log) {
            if to_checksums >> cell & 1 != 0 {
                self.truth.relies |= 1 << cell;
                self.truth.blocks.insert(cell, block);
            }
        }
        self.truth.updating = false;
        self.record();
    }

    fn now(&self) -> u64 {
        covered(&self.memory, SALT, AT).map_or(0, |covered| covered.now)
    }

    fn cover(&mut self) {
        let new = self.choose(ALL & !self.now());
        self.store(new);
        let announced = announce(&self.memory, SALT, AT, self.now() | new, 0);
        self.memory.fence();
        match self.random.below(2) {
            0 => settle(&self.memory, &announced),
            _ => settle_by_difference(&self.memory, &announced, &[]),
        }
        self.memory.fence();
        self.release(new);
    }

    /// Some covered blocks are evicted from the caches, eventually most of them.
    fn evict(&mut self) {
        let kept = self.random.below(3);
        for cell in cells(self.truth.relies) {
            if self.random.below(8) >= kept {
                self.memory.write_back(at(cell), LINE);
            }
        }
        self.memory.fence();
    }

    fn update(&mut self) {
        let set = self.choose(self.truth.relies);
        let old: Vec<(usize, Block)> =
            cells(set).map(|cell| (cell, load(&self.memory, cell))).collect();
        self.truth.updating = set != 0;
        self.store(set);
        let announced = announce(&self.memory, SALT, AT, self.now(), set);
        assert_eq!(announced.lines().0, 0, "the coverage is the same");
        settle_by_difference(&self.memory, &announced, &old);
        self.memory.fence();
        self.release(set);
    }

    fn uncover(&mut self) {
        let set = self.choose(self.truth.relies);
        for cell in cells(set) {
            self.memory.write_back(at(cell), LINE);
        }
        self.memory.fence();
        self.truth.relies &= !set;
        self.record();
        let announced = announce(&self.memory, SALT, AT, self.now() & !set, 0);
        self.memory.fence();
        settle(&self.memory, &announced);
        self.memory.fence();
        for cell in cells(set) {
            self.memory.store(at(cell), self.random.next());
        }
    }

    fn put_to_another_use(&mut self) {
        self.memory.write_back(AT, PAGE);
        self.memory.fence();
        self.truth.relies = 0;
        self.record();
        discard(&self.memory, SALT, AT);
        self.memory.fence();
        self.memory.copy_in(AT, &[7; PAGE as usize]);
    }
}

/// How often each outcome was found.
#[derive(Debug, Default)]
struct Counts {
    images: u64,
    consistent: u64,
    corrected: u64,
    uncorrectable: u64,
}

/// Recovers what a crash point has left, and compares it with the truth.
fn check(image: &[u8], truth: &Truth, count: &mut Counts, what: &str) {
    let memory = Reference::from_image(image, Domain::Transient);
    let logged = truth.log.keys().fold(0, |set, cell| set | 1 << cell);
    for (cell, block) in &truth.log {
        memory.copy_in(at(*cell), bytemuck::cast_slice(block));
    }
    let now = covered(&memory, SALT, AT).map_or(0, |covered| covered.now);
    assert_eq!(truth.relies & !now, 0, "{what}: relies on checksums that there are not");
    let is_lost = |cell: &usize| load(&memory, *cell) != truth.blocks[cell];
    let lost: Vec<usize> = cells(truth.relies).filter(is_lost).collect();
    let outcome = verify(&memory, SALT, AT, Marks { erased: 0, logged });
    count.images += 1;
    match outcome.unwrap_or(Outcome::Consistent) {
        Outcome::Consistent => {
            assert_eq!(lost, [], "{what}: lost and not noticed");
            count.consistent += 1;
        }
        Outcome::Corrected(corrections) => {
            let cells: Vec<usize> = corrections.iter().map(|correction| correction.cell).collect();
            assert_eq!(cells, lost, "{what}: corrected what was not lost");
            repair(&memory, AT, &corrections);
            assert!(!lost.iter().any(is_lost), "{what}: corrected wrongly");
            count.corrected += 1;
        }
        Outcome::Uncorrectable { candidates } => {
            assert!(lost.iter().all(|cell| candidates.contains(cell)), "{what}: not a candidate");
            let hopeless = lost.len() > 3 || truth.updating;
            assert!(hopeless, "{what}: {lost:?} should be corrected");
            count.uncorrectable += 1;
            return;
        }
    }
    // Again without the log, once the sums are renewed.
    if let Some(renewed) = renew(&memory, SALT, AT) {
        settle(&memory, &renewed);
        memory.fence();
        let outcome = verify(&memory, SALT, AT, Marks::default());
        assert_eq!(outcome, Some(Outcome::Consistent), "{what}: after recovery");
    }
}

#[test]
fn power_cuts_at_every_event() {
    let mut count = Counts::default();
    for seed in 0..3 {
        let whole = Life::lived(seed, None);
        let first = whole.history[0].0;
        for events in first..=whole.memory.events() {
            let life = Life::lived(seed, Some(events));
            let truth = whole.truth_at(events);
            let seeds = (0..8).map(|cut| Cut::Seed(events * 100 + cut));
            for cut in [Cut::None, Cut::All].into_iter().chain(seeds) {
                let what = format!("seed {seed}, {events} events, {cut:?}");
                check(&life.memory.power_cut(cut), truth, &mut count, &what);
            }
        }
    }
    println!("{count:?}");
    // The test is effective: each of the three outcomes is frequent.
    assert!(count.consistent > 1000 && count.corrected > 1000 && count.uncorrectable > 10);
}

/// The words of the lines that a settled change of few blocks stores, in every state in which a cut
/// can leave them, with and without a lost block of an older coverage.
#[test]
fn every_state_of_torn_sums() {
    let memory = Reference::new(2 * PAGE, Domain::Transient);
    let mut random = SplitMix64::new(4);
    let old = [8, 9, 15, 30];
    let new = 16;
    let mut truth = Truth::default();
    for cell in old.into_iter().chain([new]) {
        let block: Block = std::array::from_fn(|_| random.next());
        memory.copy_in(at(cell), bytemuck::cast_slice(&block));
        truth.blocks.insert(cell, block);
    }
    let set = old.iter().fold(0, |set, cell| set | 1 << cell);
    let announced = announce(&memory, SALT, AT, set, 0);
    memory.fence();
    settle(&memory, &announced);
    memory.write_back(0, 2 * PAGE);
    memory.fence();
    truth.relies = set;
    truth.log.insert(new, truth.blocks[&new]);

    let announced = announce(&memory, SALT, AT, set | 1 << new, 0);
    let header: Vec<u64> = (0..8).map(|word| AT + 4032 + word * 8).collect();
    let mut count = Counts::default();
    // Row 2 and column 2 are touched.
    let (consistency, correlation) = (AT + 3136 + 2 * 64, AT + 3584 + 2 * 64);
    let sums: Vec<u64> = [consistency, correlation]
        .into_iter()
        .flat_map(|line| (0..8).map(move |word| line + word * 8))
        .collect();
    let every = |words: &[u64], relies: &[usize], count: &mut Counts| {
        let image = memory.power_cut(Cut::None);
        for outcome in memory.outcomes(words) {
            let mut image = perdura_memory::image::words_of(&image);
            for (at, value) in words.iter().zip(&outcome) {
                image[(at / 8) as usize] = *value;
            }
            for lost in relies {
                image[(at(*lost) / 8) as usize] ^= 1;
            }
            check(bytemuck::cast_slice(&image), &truth, count, &format!("{outcome:x?}"));
        }
    };
    for lost in [&[][..], &[9], &[15], &[30]] {
        every(&header, lost, &mut count);
    }
    assert_eq!(count.images, 4 * 5, "prefixes of four stores");
    memory.fence();
    settle(&memory, &announced);
    every(&sums, &[], &mut count);
    every(&sums, &[9], &mut count);
    assert_eq!(count.images, 20 + 2 * (1 << 16), "all subsets of the words of two lines");
    assert_eq!(count.uncorrectable, 0);
}

#[test]
fn settling_by_difference_leads_where_settling_does() {
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let pages: [Reference; 2] =
            std::array::from_fn(|_| Reference::new(2 * PAGE, Domain::Transient));
        for _ in 0..6 {
            let now = random.next() & random.next() & ALL;
            let changed = random.next() & random.next() & ALL;
            let mut old = Vec::new();
            for cell in cells(changed) {
                old.push((cell, load(&pages[0], cell)));
                let block: Block = std::array::from_fn(|_| random.next());
                for page in &pages {
                    page.copy_in(at(cell), bytemuck::cast_slice(&block));
                }
            }
            let announced = pages.each_ref().map(|page| announce(page, SALT, AT, now, changed));
            settle(&pages[0], &announced[0]);
            settle_by_difference(&pages[1], &announced[1], &old);
            let bytes = pages.each_ref().map(|page| {
                let mut bytes = vec![0; PAGE as usize];
                page.copy_out(AT, &mut bytes);
                bytes
            });
            assert_eq!(bytes[0], bytes[1], "seed {seed}");
        }
    }
}
