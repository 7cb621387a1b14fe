use super::super::place::SIDE;
use super::*;
use perdura_memory::random::SplitMix64;
use std::collections::BTreeSet;

/// A region of covered lines: what they should hold, and the checksums.
struct Region {
    random: SplitMix64,
    lines: Vec<Line>,
    sums: Box<Sums>,
}

impl Region {
    fn of(seed: u64, places: impl IntoIterator<Item = At>) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut sums = Box::new([[[0; LANES]; SLANTED]; ALONG.len()]);
        let line = |at| {
            let block: Block = std::array::from_fn(|_| random.next() >> (random.below(2) * 50));
            for (kind, index) in sums_of(at).into_iter().enumerate() {
                let term = Summer::best().term(ALONG[kind], at, &block);
                let sum: &mut Block = &mut sums[kind][index];
                (0..LANES).for_each(|lane| sum[lane] = sum[lane].wrapping_add(term[lane]));
            }
            Line { at, block, tag: tag_of(at, &block) }
        };
        let lines = places.into_iter().map(line).collect();
        Region { random, lines, sums }
    }

    fn full(seed: u64) -> Self {
        Self::of(seed, (0..SIDE * SIDE).map(|cell| (cell % SIDE, cell / SIDE)))
    }

    /// What is found once these lines hold something older.
    fn after_losing(&mut self, lost: &BTreeSet<At>) -> (Outcome, Vec<(At, Block)>) {
        self.after_losing_as(lost, |_, old, new| tag_of(new.at, &old) != new.tag)
    }

    /// As that, where what they hold is to be like this.
    fn after_losing_as(
        &mut self,
        lost: &BTreeSet<At>,
        mut like: impl FnMut(usize, Block, &Line) -> bool,
    ) -> (Outcome, Vec<(At, Block)>) {
        let mut truth = Vec::new();
        for (number, line) in
            self.lines.iter_mut().filter(|line| lost.contains(&line.at)).enumerate()
        {
            truth.push((line.at, line.block));
            let mut old = line.block;
            while old == line.block || !like(number, old, line) {
                old[self.random.below(8) as usize] = self.random.next();
            }
            line.block = old;
        }
        let mut outcome = restore(Summer::best(), &self.lines, &self.sums);
        outcome.restored.sort_unstable();
        outcome.hopeless.sort_unstable();
        truth.sort_unstable();
        for line in &mut self.lines {
            if let Ok(found) = truth.binary_search_by_key(&line.at, |(at, _)| *at) {
                line.block = truth[found].1;
            }
        }
        (outcome, truth)
    }

    fn some(&mut self, count: usize, rows: u64, columns: u64) -> BTreeSet<At> {
        let mut some = BTreeSet::new();
        while some.len() < count {
            some.insert((self.random.below(rows) as usize, self.random.below(columns) as usize));
        }
        some
    }
}

fn tag_of(at: At, block: &Block) -> u16 {
    tag(&Summer::best().term(Along::Column, at, block))
}

/// Six lines, two in each sum that they are in.
const SIX: [At; 6] = [(0, 0), (1, 0), (5, 30), (7, 30), (11, 60), (12, 60)];

#[test]
fn nothing_is_found_where_nothing_is_lost() {
    let outcome = Region::full(1).after_losing(&BTreeSet::new()).0;
    assert_eq!(outcome, Outcome::default());
}

#[test]
fn up_to_five_lost_lines_are_restored_wherever_they_are() {
    let mut region = Region::of(2, (0..36).map(|cell| (cell % 6, cell / 6)));
    for turn in 0..5000 {
        let lost = region.some(1 + turn % 5, 6, 6);
        let (outcome, truth) = region.after_losing(&lost);
        assert_eq!(outcome, Outcome { restored: truth, hopeless: Vec::new() }, "{lost:?}");
    }
}

#[test]
fn a_hundred_lost_lines_of_a_region_are_restored() {
    let mut region = Region::full(3);
    for turn in 0..40 {
        // Anywhere, or in a quarter of each page.
        let lost = region.some(if turn % 2 == 0 { 110 } else { 60 }, 64 >> (turn % 2 * 2), 64);
        let (outcome, truth) = region.after_losing(&lost);
        assert_eq!(outcome, Outcome { restored: truth, hopeless: Vec::new() }, "turn {turn}");
    }
}

#[test]
fn what_is_in_no_sum_alone_is_told_and_the_rest_restored() {
    let mut region = Region::full(4);
    let beside = BTreeSet::from([(9, 9), (40, 7), (0, 50)]);
    let (outcome, mut truth) = region.after_losing(&beside.iter().copied().chain(SIX).collect());
    truth.retain(|(at, _)| beside.contains(at));
    assert_eq!(outcome, Outcome { restored: truth, hopeless: SIX.to_vec() });
}

#[test]
fn a_line_that_keeps_its_tag_is_found_by_its_sums() {
    let mut region = Region::full(5);
    for turn in 0..6 {
        let lost = region.some(1 + turn * 10, 64, 64);
        let unnoticed = turn * 3;
        let (outcome, truth) = region.after_losing_as(&lost, |number, old, line| {
            (tag_of(line.at, &old) == line.tag) == (number == unnoticed)
        });
        assert_eq!(outcome, Outcome { restored: truth, hopeless: Vec::new() }, "turn {turn}");
    }
}

#[test]
fn two_lines_that_keep_their_tags_are_told() {
    let mut region = Region::full(6);
    let lost = BTreeSet::from([(3, 4), (3, 9)]);
    let keep = |_, old, line: &Line| tag_of(line.at, &old) == line.tag;
    let outcome = region.after_losing_as(&lost, keep).0;
    assert!(outcome.restored.is_empty());
    assert!(lost.iter().all(|at| outcome.hopeless.contains(at)), "{outcome:?}");
}
