//! Correction: the paper's figures, small damage exhaustively, large damage at random.

use perdura_matrices::{
    Block, Correction, Coverage, Known, Matrix, Outcome, Shape, Summer, Sums, correct,
};
use perdura_memory::random::SplitMix64;
use proptest::prelude::*;

/// A matrix as it should be, and its sums.
struct Case {
    matrix: Matrix,
    coverage: Coverage,
    sums: Sums,
}

impl Case {
    fn new(coverage: Coverage, random: &mut SplitMix64) -> Self {
        let mut matrix = Matrix::new(coverage.shape());
        let small = random.below(2) == 0;
        for word in matrix.blocks_mut().as_flattened_mut() {
            *word = if small { random.below(10) } else { random.next() };
        }
        let sums = Sums::build(Summer::best(), &matrix, &coverage);
        Case { matrix, coverage, sums }
    }

    fn of(shape: Shape, seed: u64) -> Self {
        Self::new(Coverage::all(shape), &mut SplitMix64::new(seed))
    }

    fn with_lost(&self, cells: &[usize], mut lose: impl FnMut(&mut Block)) -> Matrix {
        let mut found = self.matrix.clone();
        cells.iter().for_each(|cell| lose(&mut found.blocks_mut()[*cell]));
        found
    }

    fn outcome(&self, found: &Matrix, known: &Known) -> Outcome {
        correct(Summer::best(), found, [&self.coverage; 2], &self.sums, known)
    }

    fn expected(&self, cells: &[usize]) -> Outcome {
        let mut cells = cells.to_vec();
        cells.sort_unstable();
        let correction = |cell| Correction { cell, block: self.matrix.blocks()[cell] };
        Outcome::Corrected(cells.into_iter().map(correction).collect())
    }
}

fn invert(block: &mut Block) {
    block.iter_mut().for_each(|word| *word = !*word);
}

fn nothing(shape: Shape) -> Known {
    Known::nothing(shape)
}

/// Whether rows, columns and lost blocks have a cycle.
fn has_cycle(shape: Shape, cells: &[usize]) -> bool {
    let mut cells = cells.to_vec();
    loop {
        let row = |cell: &usize| shape.place(*cell).0;
        let column = |cell: &usize| shape.place(*cell).1;
        let before = cells.len();
        let rest: Vec<usize> = cells
            .iter()
            .copied()
            .filter(|cell| {
                let alone = |of: &dyn Fn(&usize) -> usize| {
                    cells.iter().filter(|other| of(other) == of(cell)).count() == 1
                };
                !alone(&row) && !alone(&column)
            })
            .collect();
        if rest.len() == before {
            return before > 0;
        }
        cells = rest;
    }
}

/// Figure 5: four objects of four, four, three and four blocks, each a column.
fn figure() -> (Case, impl Fn(usize, usize) -> usize) {
    let shape = Shape::new(4, 4);
    let at = move |row: usize, column: usize| shape.cell(row - 1, column - 1);
    let mut coverage = Coverage::all(shape);
    coverage.remove(at(4, 3));
    (Case::new(coverage, &mut SplitMix64::new(55)), at)
}

#[test]
fn figure_5a_one_block_is_corrected() {
    let (case, at) = figure();
    let lost = [at(3, 2)];
    let found = case.with_lost(&lost, invert);
    assert_eq!(case.outcome(&found, &nothing(found.shape())), case.expected(&lost));
}

#[test]
fn figure_5b_two_blocks_of_a_row_are_corrected() {
    let (case, at) = figure();
    let lost = [at(1, 2), at(1, 4)];
    let found = case.with_lost(&lost, invert);
    assert_eq!(case.outcome(&found, &nothing(found.shape())), case.expected(&lost));
}

/// Figure 5.c as the text describes it: blocks 12, 14, 42 and 24. They make no cycle (row 4 has lost
/// block 42 only, row 2 block 24), and our sums show which they are.
#[test]
fn figure_5c_as_its_text_has_it_is_corrected() {
    let (case, at) = figure();
    let lost = [at(1, 2), at(1, 4), at(4, 2), at(2, 4)];
    let found = case.with_lost(&lost, invert);
    assert_eq!(case.outcome(&found, &nothing(found.shape())), case.expected(&lost));
}

/// The point of Figure 5.c: two columns that have lost blocks in the same two rows.
#[test]
fn figure_5c_with_its_cycle_is_detected_and_left_alone() {
    let (case, at) = figure();
    let lost = [at(1, 2), at(1, 4), at(4, 2), at(4, 4)];
    let found = case.with_lost(&lost, invert);
    let candidates = vec![at(1, 2), at(4, 2), at(1, 4), at(4, 4)];
    let uncorrectable = Outcome::Uncorrectable { candidates };
    assert_eq!(case.outcome(&found, &nothing(found.shape())), uncorrectable);
    // Nor does it help to know which.
    let known = Known { erased: Coverage::of(found.shape(), lost), ..nothing(found.shape()) };
    assert_eq!(case.outcome(&found, &known), uncorrectable);
}

/// Where each of the four has lost another word, each lane is a problem with one lost block.
#[test]
fn a_cycle_of_blocks_that_lost_different_words_is_corrected() {
    let (case, at) = figure();
    let lost = [at(1, 2), at(1, 4), at(4, 2), at(4, 4)];
    let mut lane = 0;
    let found = case.with_lost(&lost, |block| {
        block[lane] ^= 1;
        lane += 2;
    });
    assert_eq!(case.outcome(&found, &nothing(found.shape())), case.expected(&lost));
}

#[test]
fn up_to_three_lost_blocks_are_always_corrected() {
    let case = Case::of(Shape::PAGE, 3);
    let known = nothing(Shape::PAGE);
    let check = |lost: &[usize]| {
        let found = case.with_lost(lost, invert);
        assert_eq!(case.outcome(&found, &known), case.expected(lost), "{lost:?}");
    };
    for first in 0..49 {
        check(&[first]);
        for second in first + 1..49 {
            check(&[first, second]);
            for third in (second + 1..49).filter(|third| (first + second + third) % 5 == 0) {
                check(&[first, second, third]);
            }
        }
    }
}

#[test]
fn a_damaged_sum_is_no_lost_block() {
    let mut case = Case::of(Shape::PAGE, 4);
    let found = case.matrix.clone();
    case.sums.correlation[3][5] ^= 1;
    let row = (0..7).map(|column| Shape::PAGE.cell(3, column));
    let expected = Outcome::Uncorrectable { candidates: row.collect() };
    assert_eq!(case.outcome(&found, &nothing(Shape::PAGE)), expected);
}

#[test]
fn corrects_known_losses_of_any_size() {
    // A path through all rows and columns: 13 blocks, more than the search tries.
    let shape = Shape::PAGE;
    let case = Case::of(shape, 5);
    let lost: Vec<usize> = (0..13).map(|step| shape.cell(step / 2, step.div_ceil(2))).collect();
    let found = case.with_lost(&lost, invert);
    let erased = Coverage::of(shape, lost.iter().copied());
    let known = Known { erased, ..nothing(shape) };
    assert_eq!(case.outcome(&found, &known), case.expected(&lost));
    // A block wrongly known to be lost, or lost without being known, does no harm.
    let lost = [shape.cell(2, 2), shape.cell(4, 4)];
    let found = case.with_lost(&lost, invert);
    let erased = Coverage::of(shape, [shape.cell(0, 0), shape.cell(4, 4)]);
    let known = Known { erased, ..nothing(shape) };
    assert_eq!(case.outcome(&found, &known), case.expected(&lost));
}

/// A logged block has been stored to after it was summed.
#[test]
fn sums_of_what_a_logged_block_held_are_no_damage() {
    let shape = Shape::PAGE;
    let case = Case::of(shape, 6);
    let logged = shape.cell(2, 3);
    let known = Known { logged: Coverage::of(shape, [logged]), ..nothing(shape) };
    let found = case.with_lost(&[logged], invert);
    assert_eq!(case.outcome(&found, &known), Outcome::Consistent);
    for cell in (0..49).filter(|cell| *cell != logged) {
        let found = case.with_lost(&[logged, cell], invert);
        assert_eq!(case.outcome(&found, &known), case.expected(&[cell]), "{cell}");
    }
    // Two of them leave the two blocks at their crossings without a row or column that shows them right.
    let both = [logged, shape.cell(5, 6)];
    let known = Known { logged: Coverage::of(shape, both), ..nothing(shape) };
    let found = case.with_lost(&both, invert);
    let candidates = vec![shape.cell(5, 3), shape.cell(2, 6)];
    assert_eq!(case.outcome(&found, &known), Outcome::Uncorrectable { candidates });
}

/// Sums whose lanes each cover one side or the other.
#[test]
fn lanes_of_two_coverages_verify_and_correct() {
    let shape = Shape::PAGE;
    let mut random = SplitMix64::new(77);
    for turn in 0..300 {
        let case = Case::of(shape, turn);
        let sides: [Coverage; 2] =
            std::array::from_fn(|_| Coverage::of(shape, (0..49).filter(|_| random.below(3) > 0)));
        let [before, now] =
            sides.each_ref().map(|side| Sums::build(Summer::best(), &case.matrix, side));
        let mut sums = now.clone();
        for (sum, old) in [
            (&mut sums.consistency, &before.consistency),
            (&mut sums.correlation, &before.correlation),
        ] {
            for (sum, old) in sum.as_flattened_mut().iter_mut().zip(old.as_flattened()) {
                *sum = if random.below(2) == 0 { *sum } else { *old };
            }
        }
        let new = sides[1].cells().filter(|cell| {
            let (row, column) = shape.place(*cell);
            !sides[0].contains(row, column)
        });
        let known = Known { logged: Coverage::of(shape, new), ..nothing(shape) };
        let outcome =
            |found: &Matrix| correct(Summer::best(), found, [&sides[0], &sides[1]], &sums, &known);
        assert_eq!(outcome(&case.matrix), Outcome::Consistent, "turn {turn}");
        let old: Vec<usize> = sides[1]
            .cells()
            .filter(|cell| {
                let (row, column) = shape.place(*cell);
                sides[0].contains(row, column)
            })
            .collect();
        let lost = [old[random.below(old.len() as u64) as usize]];
        let found = case.with_lost(&lost, invert);
        assert_eq!(outcome(&found), case.expected(&lost), "turn {turn}");
    }
}

/// The lost part of a block.
fn lose(random: &mut SplitMix64, kind: u64, block: &mut Block) {
    match kind {
        0 => block.iter_mut().for_each(|word| *word = word.wrapping_sub(1 + random.below(3))),
        1 => {
            let lane = random.below(8) as usize;
            block[lane] = block[lane].wrapping_sub(1);
        }
        2 => *block = [0; 8],
        _ => block.iter_mut().for_each(|word| *word ^= random.next()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn damage_is_undone_or_reported_and_never_made_worse(
        seed: u64, rows in 1_usize..=12, columns in 1_usize..=12, count in 1_usize..=8,
        kind in 0_u64..4, holes in 0_u64..4,
    ) {
        let shape = Shape::new(rows, columns);
        let mut random = SplitMix64::new(seed);
        let covered = (0..shape.cells()).filter(|_| random.below(8) >= holes);
        let coverage = Coverage::of(shape, covered.collect::<Vec<_>>());
        let mut cells: Vec<usize> = coverage.cells().collect();
        let case = Case::new(coverage, &mut random);
        random.shuffle(&mut cells);
        cells.truncate(count);
        let found = case.with_lost(&cells, |block| lose(&mut random, kind, block));
        let outcome = case.outcome(&found, &nothing(shape));
        let lost: Vec<usize> = (0..shape.cells())
            .filter(|cell| found.blocks()[*cell] != case.matrix.blocks()[*cell])
            .collect();
        match outcome {
            Outcome::Uncorrectable { candidates } => {
                prop_assert!(lost.iter().all(|cell| candidates.contains(cell)));
                prop_assert!(has_cycle(shape, &lost), "{:?} can be corrected", lost);
            }
            Outcome::Consistent => prop_assert!(lost.is_empty()),
            corrected => prop_assert_eq!(corrected, case.expected(&lost)),
        }
    }
}

#[test]
fn many_lost_blocks_of_a_large_matrix_are_corrected() {
    let shape = Shape::new(64, 64);
    let case = Case::of(shape, 12);
    let mut random = SplitMix64::new(13);
    let mut cells: Vec<usize> = (0..shape.cells()).collect();
    random.shuffle(&mut cells);
    let lost = &cells[..12];
    assert!(!has_cycle(shape, lost));
    let found = case.with_lost(lost, invert);
    assert_eq!(case.outcome(&found, &nothing(shape)), case.expected(lost));
}

/// One block is found as a tree of one, then two by elimination; the remaining two share no row and no
/// column, so that each is then a tree of one: nothing else is lost in its row.
#[test]
fn corrections_let_smaller_trees_fit() {
    let shape = Shape::new(4, 10);
    let holes = [0, 7, 12, 13, 17, 18, 19, 24, 26, 34, 35, 36, 37];
    let covered = (0..shape.cells()).filter(|cell| !holes.contains(cell));
    let coverage = Coverage::of(shape, covered.collect::<Vec<_>>());
    let case = Case::new(coverage, &mut SplitMix64::new(21));
    let lost = [6, 9, 25, 31, 38];
    let found = case.with_lost(&lost, invert);
    assert_eq!(case.outcome(&found, &nothing(shape)), case.expected(&lost));
}
