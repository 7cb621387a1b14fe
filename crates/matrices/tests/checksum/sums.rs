//! Four ways to sum a column, and ways in which a column goes wrong. Shared by the test
//! `detecting` and the example `detection`.

use perdura_matrices::{Block, Summer};
use perdura_memory::random::SplitMix64;

/// Rows of the columns.
const ROWS: usize = 7;

pub(crate) type Column = [Block; ROWS];

/// A way to sum: a block of a column.
pub(crate) type Sum = fn(&Column) -> Block;

/// All compared sums; ours is the last. Each has 64 bits for a lane.
pub(crate) const SUMS: [(&str, Sum); 4] =
    [("plain sum", plain), ("xor", xor), ("Fletcher-64", fletcher), ("keyed", keyed)];

fn plain(column: &Column) -> Block {
    let of_lane = |lane: usize| column.iter().map(move |block| block[lane]);
    std::array::from_fn(|lane| of_lane(lane).fold(0, u64::wrapping_add))
}

fn xor(column: &Column) -> Block {
    std::array::from_fn(|lane| column.iter().fold(0, |sum, block| sum ^ block[lane]))
}

/// Fletcher-64 of each lane: sums, and sums of sums, of 32-bit halves mod 2^32 - 1.
fn fletcher(column: &Column) -> Block {
    const MODULUS: u64 = (1 << 32) - 1;
    std::array::from_fn(|lane| {
        let (mut first, mut second) = (0, 0);
        for word in column.iter().map(|block| block[lane]) {
            for half in [word & MODULUS, word >> 32] {
                first = (first + half) % MODULUS;
                second = (second + first) % MODULUS;
            }
        }
        second << 32 | first
    })
}

fn keyed(column: &Column) -> Block {
    let (mut sum, mut rows) = ([0; 8], [[0; 8]; ROWS]);
    Summer::best().add_column(0, column, ((1 << ROWS) - 1, 0), &mut sum, &mut rows);
    sum
}

/// Fills a column.
pub(crate) type Fill = fn(&mut SplitMix64) -> Column;

/// Realistic contents.
pub(crate) const FILLS: [(&str, Fill); 4] =
    [("counters", counters), ("text", text), ("mostly zero", sparse), ("random", random)];

fn words(random: &mut SplitMix64, word: impl Fn(&mut SplitMix64) -> u64) -> Column {
    std::array::from_fn(|_| std::array::from_fn(|_| word(random)))
}

fn counters(random: &mut SplitMix64) -> Column {
    words(random, |random| random.below(1000))
}

fn text(random: &mut SplitMix64) -> Column {
    words(random, |random| u64::from_le_bytes(std::array::from_fn(|_| letter(random))))
}

fn letter(random: &mut SplitMix64) -> u8 {
    b"eeee taoinshr "[random.below(14) as usize]
}

fn sparse(random: &mut SplitMix64) -> Column {
    words(random, |random| if random.below(8) == 0 { random.below(1 << 20) } else { 0 })
}

fn random(random: &mut SplitMix64) -> Column {
    words(random, SplitMix64::next)
}

/// Damages a column.
pub(crate) type Damage = fn(&mut SplitMix64, &mut Column);

/// All kinds of damage.
pub(crate) const DAMAGES: [(&str, Damage); 8] = [
    ("two blocks change places", swap_blocks),
    ("two words change places", swap_words),
    ("two signs flip in a lane", flip_signs),
    ("one bit flips", flip_bit),
    ("lost: a counter's step", lose_step),
    ("lost: a block's first contents", lose_first),
    ("lost: both ends of a transfer (+d, -d)", lose_transfer),
    ("lost: both ends of a swap of words", lose_swap),
];

fn two_rows(random: &mut SplitMix64) -> (usize, usize) {
    let first = random.below(ROWS as u64) as usize;
    let second = random.below(ROWS as u64 - 1) as usize;
    (first, if second < first { second } else { second + 1 })
}

fn lane(random: &mut SplitMix64) -> usize {
    random.below(8) as usize
}

fn swap_blocks(random: &mut SplitMix64, column: &mut Column) {
    let (first, second) = two_rows(random);
    column.swap(first, second);
}

fn swap_words(random: &mut SplitMix64, column: &mut Column) {
    let words = column.as_flattened_mut();
    let (first, second) = (random.below(56) as usize, random.below(56) as usize);
    words.swap(first, second);
}

fn flip_signs(random: &mut SplitMix64, column: &mut Column) {
    let (first, second) = two_rows(random);
    let lane = lane(random);
    column[first][lane] ^= 1 << 63;
    column[second][lane] ^= 1 << 63;
}

fn flip_bit(random: &mut SplitMix64, column: &mut Column) {
    let row = random.below(ROWS as u64) as usize;
    column[row][lane(random)] ^= 1 << random.below(64);
}

fn lose_step(random: &mut SplitMix64, column: &mut Column) {
    let row = random.below(ROWS as u64) as usize;
    let word = &mut column[row][lane(random)];
    *word = word.wrapping_sub(1);
}

fn lose_first(random: &mut SplitMix64, column: &mut Column) {
    column[random.below(ROWS as u64) as usize] = [0; 8];
}

/// Money was transferred from one block to another, and both have lost the change. Accounts of one
/// kind are in the same field of records, and so in one lane.
fn lose_transfer(random: &mut SplitMix64, column: &mut Column) {
    let (first, second) = two_rows(random);
    let (lane, by) = (lane(random), 1 + random.below(100));
    column[first][lane] = column[first][lane].wrapping_add(by);
    column[second][lane] = column[second][lane].wrapping_sub(by);
}

/// Two records exchanged a field, and both have lost the change.
fn lose_swap(random: &mut SplitMix64, column: &mut Column) {
    let (first, second) = two_rows(random);
    let lane = lane(random);
    (column[first][lane], column[second][lane]) = (column[second][lane], column[first][lane]);
}

/// How many cases of one kind of damage each sum missed, and how many cases changed something.
pub(crate) fn missed(
    seed: u64,
    fill: Fill,
    damage: Damage,
    trials: u64,
) -> ([u64; SUMS.len()], u64) {
    let mut random = SplitMix64::new(seed);
    let (mut missed, mut changed) = ([0; SUMS.len()], 0);
    for _ in 0..trials {
        let before = fill(&mut random);
        let mut after = before;
        damage(&mut random, &mut after);
        if after == before {
            continue;
        }
        changed += 1;
        for (missed, (_, sum)) in missed.iter_mut().zip(SUMS) {
            *missed += u64::from(sum(&before) == sum(&after));
        }
    }
    (missed, changed)
}
