//! A batch: lines that left the queue together, with a tag for each and the sums of all of them.
//!
//! It is written once, in one piece, and never changed. Which of its lines still are as they were then is not recorded
//! in it: see [`images`](super::images).

use super::place::{ALONG, At, Layout, Parts, WORDS, tag};
use perdura_memory::keyed::{Block, LANES, Summer};
use perdura_memory::{LINE, Memory, Traced, WORD};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Lines from this one on cannot be in a batch: their numbers have more than 32 bits.
pub(super) const BEYOND: u64 = LINE << 32;
/// Words of the header in use.
const HEADER: usize = 4;

/// A batch as read from the memory.
pub(super) struct Batch {
    /// The last group whose words are in the lines.
    pub(super) ticket: u64,
    /// The lines, by position.
    pub(super) lines: Vec<u64>,
    /// All words, including the check and the sums.
    words: Vec<u64>,
    pub(super) parts: Parts,
}

impl Batch {
    /// The batch in a slot, if there is a complete one.
    pub(super) fn read<M: Memory>(memory: &M, layout: &Layout, slot: u32) -> Option<Self> {
        let at = layout.slot(slot);
        let [check, ticket, count, bytes] =
            std::array::from_fn::<_, HEADER, _>(|word| memory.load(at + word as u64 * WORD));
        let most = Parts::of(layout.capacity()).words;
        if check == 0 || count == 0 || count > layout.capacity() as u64 || bytes > count * 5 {
            return None;
        }
        let (count, parts) = (count as usize, Parts::with(count as usize, bytes as usize));
        let mut words = vec![0; parts.words.min(most)];
        memory.copy_out(at, bytemuck::cast_slice_mut(&mut words));
        if parts.words > most || check != check_of(layout, at, &words) {
            return None;
        }
        let numbers = &bytemuck::cast_slice(&words[WORDS..parts.tags])[..bytes as usize];
        let mut lines = vec![0; count];
        let positions = positions(count).zip(lines_of(numbers));
        positions.for_each(|(position, line)| lines[position] = line);
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

/// The lines of a batch that is known to be complete, ascending.
pub(super) fn lines_in<M: Memory>(memory: &M, layout: &Layout, slot: u32) -> Vec<u64> {
    let at = layout.slot(slot);
    let mut numbers = vec![0; memory.load(at + 3 * WORD) as usize];
    memory.copy_out(at + LINE, &mut numbers);
    lines_of(&numbers).collect()
}

/// Encodes a batch of `lines`, ascending, as they are now, for a slot, into `words`. Neighbouring lines are placed far
/// apart in the matrix, since they tend to be lost together.
pub(super) fn write<M: Memory>(
    memory: &M,
    layout: &Layout,
    (slot, ticket): (u32, u64),
    lines: &[u64],
    (words, own): (&mut Vec<u64>, Traced<'_, M>),
) {
    let numbers = numbers_of(lines);
    let parts = Parts::with(lines.len(), numbers.len());
    words.clear();
    words.resize(parts.words, 0);
    words[1..HEADER].copy_from_slice(&[ticket, lines.len() as u64, numbers.len() as u64]);
    let (before, sums) = words.split_at_mut(parts.sums);
    bytemuck::cast_slice_mut(&mut before[WORDS..])[..numbers.len()].copy_from_slice(&numbers);
    for (position, &line) in positions(lines.len()).zip(lines) {
        let at = parts.matrix.at(position);
        for index in parts.matrix.sums_of(at) {
            own.read((parts.sums + index * WORDS) as u64 * WORD, LINE);
            own.wrote((parts.sums + index * WORDS) as u64 * WORD, LINE);
        }
        let tag = add(&parts, at, &block_at(memory, line), sums);
        before[parts.tags + position / 4] |= u64::from(tag) << (position % 4 * 16);
    }
    own.read(0, parts.words as u64 * WORD);
    words[0] = check_of(layout, layout.slot(slot), words);
}

/// A line's contents.
pub(super) fn block_at<M: Memory>(memory: &M, line: u64) -> Block {
    let mut block = [0; LANES];
    memory.copy_out(line, bytemuck::cast_slice_mut(&mut block));
    block
}

/// Adds a line to its sums; returns its tag.
fn add(parts: &Parts, at: At, block: &Block, sums: &mut [u64]) -> u16 {
    let summer = Summer::best();
    let terms = ALONG.map(|along| summer.term(along, at, block));
    for (term, index) in terms.iter().zip(parts.matrix.sums_of(at)) {
        let sum = &mut sums[index * WORDS..][..WORDS];
        sum.iter_mut().zip(term).for_each(|(sum, term)| *sum = sum.wrapping_add(*term));
    }
    tag(&terms[0])
}

/// The positions of `count` lines, in the order of the lines: steps of about the golden section.
fn positions(count: usize) -> impl Iterator<Item = usize> {
    let coprime = |step: &usize| gcd(*step, count) == 1;
    let step = (count * 144 / 233..=count).find(coprime).unwrap_or(1);
    (0..count).scan(0, move |next, _| {
        let position = *next;
        *next = (position + step) % count;
        Some(position)
    })
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// The encoded numbers of lines, as described at [`Parts`].
fn numbers_of(lines: &[u64]) -> Vec<u8> {
    let (mut numbers, mut before) = (Vec::with_capacity(lines.len() * 2), 0);
    for line in lines {
        let mut rest = line / LINE - before;
        before = line / LINE;
        while rest >= 0x80 {
            numbers.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        numbers.push(rest as u8);
    }
    numbers
}

fn lines_of(numbers: &[u8]) -> impl Iterator<Item = u64> + use<'_> {
    let (mut line, mut more, mut shift) = (0u64, 0u64, 0);
    numbers.iter().filter_map(move |byte| {
        more |= u64::from(byte & 0x7F) << (shift & 63);
        shift += 7;
        if byte & 0x80 != 0 {
            return None;
        }
        line = line.wrapping_add(more);
        (more, shift) = (0, 0);
        Some(line.wrapping_mul(LINE))
    })
}

/// The batch's check; never 0, so that zeroing the header's line makes a batch void.
fn check_of(layout: &Layout, at: u64, words: &[u64]) -> u64 {
    xxh3_64_with_seed(bytemuck::cast_slice(&words[1..]), layout.salt() ^ at) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_each_there_once() {
        for count in (1..300).chain([4095, 4096]) {
            let mut all: Vec<usize> = positions(count).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let far = |count: u64| (0..count).map(move |number| number * (0xFFFF_FFFF / count) * LINE);
        for lines in [vec![0], vec![BEYOND - LINE], far(17).collect(), far(4096).collect()] {
            let numbers = numbers_of(&lines);
            assert_eq!(lines_of(&numbers).collect::<Vec<_>>(), lines);
            assert!(numbers.len() <= lines.len() * 4 + 16);
        }
    }
}
