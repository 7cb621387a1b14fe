use super::super::place::Parts;
use super::*;
use perdura_memory::random::SplitMix64;
use std::collections::BTreeSet;

/// A batch: its lines' intended contents, and the checksums.
struct Batch {
    random: SplitMix64,
    matrix: Matrix,
    lines: Vec<FoundLine>,
    sums: Vec<Block>,
}

impl Batch {
    fn of(seed: u64, lines: usize) -> Self {
        let mut random = SplitMix64::new(seed);
        let matrix = Parts::of(lines).matrix;
        let mut sums: Vec<Block> = vec![[0; LANES]; matrix.sums()];
        let line = |position| {
            let at = matrix.at(position);
            let block: Block = std::array::from_fn(|_| random.next() >> (random.below(2) * 50));
            for (along, index) in ALONG.into_iter().zip(matrix.sums_of(at)) {
                let (term, sum) = (Summer::best().term(along, at, &block), &mut sums[index]);
                (0..LANES).for_each(|lane| sum[lane] = sum[lane].wrapping_add(term[lane]));
            }
            FoundLine { at, block, tag: tag_of(at, &block) }
        };
        let lines = (0..lines).map(line).collect();
        Batch { random, matrix, lines, sums }
    }

    fn full(seed: u64) -> Self {
        Self::of(seed, 4096)
    }

    /// The outcome if these lines hold something older, and the expected contents.
    fn after_losing(&mut self, lost: &BTreeSet<usize>) -> (RestoreOutcome, Vec<(usize, Block)>) {
        self.after_losing_as(lost, |_, old, new| tag_of(new.at, &old) != new.tag)
    }

    /// The same, with the older contents given.
    fn after_losing_as(
        &mut self,
        lost: &BTreeSet<usize>,
        mut like: impl FnMut(usize, Block, &FoundLine) -> bool,
    ) -> (RestoreOutcome, Vec<(usize, Block)>) {
        let mut truth = Vec::new();
        for (number, &position) in lost.iter().enumerate() {
            let line = &mut self.lines[position];
            truth.push((position, line.block));
            let mut old = line.block;
            while old == line.block || !like(number, old, line) {
                old[self.random.below(8) as usize] = self.random.next();
            }
            line.block = old;
        }
        let mut outcome = restore(Summer::best(), &self.matrix, &self.lines, &self.sums);
        outcome.restored.sort_unstable();
        outcome.hopeless.sort_unstable();
        for &(position, block) in &truth {
            self.lines[position].block = block;
        }
        (outcome, truth)
    }

    fn some(&mut self, count: usize, of: usize) -> BTreeSet<usize> {
        let mut some = BTreeSet::new();
        while some.len() < count {
            some.insert(self.random.below(of as u64) as usize);
        }
        some
    }
}

fn tag_of(at: At, block: &Block) -> u16 {
    tag(&Summer::best().term(Along::Column, at, block))
}

/// Six lines of a full batch, by row and column, two in each of their sums.
const SIX: [At; 6] = [(0, 0), (1, 0), (15, 3), (31, 3), (25, 58), (42, 58)];

#[test]
fn nothing_is_found_where_nothing_is_lost() {
    let outcome = Batch::full(1).after_losing(&BTreeSet::new()).0;
    assert_eq!(outcome, RestoreOutcome::default());
}

#[test]
fn up_to_five_lost_lines_are_restored_wherever_they_are() {
    let mut batch = Batch::of(2, 36);
    for turn in 0..5000 {
        let lost = batch.some(1 + turn % 5, 36);
        let (outcome, truth) = batch.after_losing(&lost);
        assert_eq!(outcome, RestoreOutcome { restored: truth, hopeless: Vec::new() }, "{lost:?}");
    }
}

#[test]
fn a_hundred_lost_lines_of_a_batch_are_restored() {
    let mut batch = Batch::full(3);
    for turn in 0..40 {
        // Anywhere, or in a quarter of the columns.
        let lost = if turn % 2 == 0 { batch.some(110, 4096) } else { batch.some(60, 1024) };
        let (outcome, truth) = batch.after_losing(&lost);
        assert_eq!(
            outcome,
            RestoreOutcome { restored: truth, hopeless: Vec::new() },
            "turn {turn}"
        );
    }
}

#[test]
fn lines_in_no_sum_alone_are_reported_and_the_rest_restored() {
    let mut batch = Batch::full(4);
    let six = SIX.map(|(row, column)| column * 64 + row);
    let mut lost = batch.some(3, 4096);
    lost.extend(&six);
    let (outcome, mut truth) = batch.after_losing(&lost);
    truth.retain(|(position, _)| !six.contains(position));
    assert_eq!(outcome, RestoreOutcome { restored: truth, hopeless: six.to_vec() });
}

#[test]
fn a_line_that_keeps_its_tag_is_found_by_its_sums() {
    let mut batch = Batch::full(5);
    for turn in 0..6 {
        let lost = batch.some(1 + turn * 10, 4096);
        let unnoticed = turn * 3;
        let (outcome, truth) = batch.after_losing_as(&lost, |number, old, line| {
            (tag_of(line.at, &old) == line.tag) == (number == unnoticed)
        });
        assert_eq!(
            outcome,
            RestoreOutcome { restored: truth, hopeless: Vec::new() },
            "turn {turn}"
        );
    }
}

#[test]
fn two_lines_that_keep_their_tags_are_reported() {
    let mut batch = Batch::full(6);
    let lost = BTreeSet::from([259, 579]);
    let keep = |_, old, line: &FoundLine| tag_of(line.at, &old) == line.tag;
    let outcome = batch.after_losing_as(&lost, keep).0;
    assert!(outcome.restored.is_empty());
    assert!(lost.iter().all(|position| outcome.hopeless.contains(position)), "{outcome:?}");
}
