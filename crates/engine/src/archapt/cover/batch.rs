//! A batch: lines that left the queue together, with a tag for each and the sums of all of them.
//!
//! It is written once, in one piece, and never changed. Which of its lines still are what they
//! were then is not in it: see [`images`](super::images).

use super::place::{ALONG, At, Layout, Parts, WORDS, tag};
use crate::archapt::checksum::{Block, LANES, Summer};
use perdura_memory::{LINE, Memory, WORD};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Lines from this one on have no place in a batch: their numbers have more than 32 bits.
pub(super) const BEYOND: u64 = LINE << 32;
/// Words of the header in use.
const HEADER: usize = 3;

/// A batch as it is found.
pub(super) struct Batch {
    /// The last group whose words the lines had.
    pub(super) ticket: u64,
    pub(super) lines: Vec<u64>,
    /// With the check and the sums.
    words: Vec<u64>,
    pub(super) parts: Parts,
}

impl Batch {
    /// The batch in a slot, if there is a whole one.
    pub(super) fn read<M: Memory>(memory: &M, layout: &Layout, slot: u32) -> Option<Self> {
        let at = layout.slot(slot);
        let [check, ticket, count] =
            std::array::from_fn::<_, HEADER, _>(|word| memory.load(at + word as u64 * WORD));
        if check == 0 || count == 0 || count > layout.capacity() as u64 {
            return None;
        }
        let parts = Parts::of(count as usize);
        let mut words = vec![0; parts.words];
        memory.copy_out(at, bytemuck::cast_slice_mut(&mut words));
        if check != check_of(layout, at, &words) {
            return None;
        }
        let lines = lines_of(&words[WORDS..], count as usize).collect();
        Some(Batch { ticket, lines, words, parts })
    }

    /// The tag of the line at a position.
    pub(super) fn tag(&self, position: usize) -> u16 {
        (self.words[self.parts.tags + position / 4] >> (position % 4 * 16)) as u16
    }

    /// A sum.
    pub(super) fn sum(&self, index: usize) -> &Block {
        let at = self.parts.sums + index * WORDS;
        (&self.words[at..at + WORDS]).try_into().expect("a line")
    }
}

/// The lines of a batch that is known to be whole.
pub(super) fn lines_in<M: Memory>(memory: &M, layout: &Layout, slot: u32) -> Vec<u64> {
    let at = layout.slot(slot);
    let count = memory.load(at + 2 * WORD) as usize;
    let mut numbers = vec![0; count.div_ceil(2)];
    memory.copy_out(at + LINE, bytemuck::cast_slice_mut(&mut numbers));
    lines_of(&numbers, count).collect()
}

/// Writes a batch of `lines` as they are now, for a slot, into `words`. Neighbours among the
/// lines come far apart in the matrix, since they are lost together.
pub(super) fn write<M: Memory>(
    memory: &M,
    layout: &Layout,
    (slot, ticket): (u32, u64),
    lines: &[u64],
    words: &mut Vec<u64>,
) {
    let (parts, step) = (Parts::of(lines.len()), step_of(lines.len()));
    words.clear();
    words.resize(parts.words, 0);
    (words[1], words[2]) = (ticket, lines.len() as u64);
    let (before, sums) = words.split_at_mut(parts.sums);
    let mut position = 0;
    for &line in lines {
        let number = line / LINE;
        before[WORDS + position / 2] |= number << (position % 2 * 32);
        let tag = add(&parts, parts.matrix.at(position), &block_at(memory, line), sums);
        before[parts.tags + position / 4] |= u64::from(tag) << (position % 4 * 16);
        position = (position + step) % lines.len();
    }
    words[0] = check_of(layout, layout.slot(slot), words);
}

/// What a line holds.
pub(super) fn block_at<M: Memory>(memory: &M, line: u64) -> Block {
    let mut block = [0; LANES];
    memory.copy_out(line, bytemuck::cast_slice_mut(&mut block));
    block
}

/// Adds a line to its sums. Its tag.
fn add(parts: &Parts, at: At, block: &Block, sums: &mut [u64]) -> u16 {
    let summer = Summer::best();
    let terms = ALONG.map(|along| summer.term(along, at, block));
    for (term, index) in terms.iter().zip(parts.matrix.sums_of(at)) {
        let sum = &mut sums[index * WORDS..][..WORDS];
        sum.iter_mut().zip(term).for_each(|(sum, term)| *sum = sum.wrapping_add(*term));
    }
    tag(&terms[0])
}

/// A step through `count` positions that meets them all, about the golden section of them.
fn step_of(count: usize) -> usize {
    let coprime = |step: &usize| gcd(*step, count) == 1;
    (count * 144 / 233..=count).find(coprime).unwrap_or(1)
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}

fn lines_of(numbers: &[u64], count: usize) -> impl Iterator<Item = u64> + use<'_> {
    let number = |position: usize| numbers[position / 2] >> (position % 2 * 32) & 0xFFFF_FFFF;
    (0..count).map(move |position| number(position) * LINE)
}

/// Never 0, so that zeroing the header's line makes a batch void.
fn check_of(layout: &Layout, at: u64, words: &[u64]) -> u64 {
    xxh3_64_with_seed(bytemuck::cast_slice(&words[1..]), layout.salt() ^ at) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_meet_every_position() {
        for count in (1..300).chain([4095, 4096]) {
            let (mut met, mut position) = (vec![false; count], 0);
            for _ in 0..count {
                met[position] = true;
                position = (position + step_of(count)) % count;
            }
            assert!(met.into_iter().all(|met| met), "{count}");
        }
    }
}
