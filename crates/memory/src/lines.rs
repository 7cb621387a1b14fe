//! Cache lines: the unit of write-back, and a set of those that still need one.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes in a machine word: the unit of atomicity within a line.
pub const WORD: u64 = 8;
/// Bytes in a cache line: the unit of write-back.
pub const LINE: u64 = 64;
/// Bytes in a page.
pub const PAGE: u64 = 4096;

/// The offset of the line that holds byte `at`.
#[inline(always)]
pub const fn line_of(at: u64) -> u64 {
    at & !(LINE - 1)
}

/// The number of lines that `[at, at + len)` touches.
#[inline(always)]
pub const fn lines_in(at: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { (line_of(at + len - 1) - line_of(at)) / LINE + 1 }
}

/// A concurrent set of lines that were stored to and not yet written back: one bit per line, and a flag for every 256
/// KiB, so that the cost of collecting depends on the dirty lines and hardly on the memory's size.
pub struct DirtyLines {
    bits: Box<[AtomicU64]>,
    /// A flag for each [`BLOCK`] words of bits. A byte of its own, so that raising it is one store.
    blocks: Box<[AtomicBool]>,
}

/// Words of bits that share a flag.
const BLOCK: usize = 64;

impl DirtyLines {
    /// A set for lines of `[0, len)` bytes. It takes one bit for each 64 bytes, reserved zeroed, so that only touched
    /// parts are ever resident.
    pub fn new(len: u64) -> Self {
        let words = (len / LINE).div_ceil(64) as usize;
        DirtyLines {
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            blocks: (0..words.div_ceil(BLOCK)).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// The byte offsets of the bit, and of the flag, for the line of `at`. For the end of a set: how many bytes of bits
    /// and flags it has.
    #[inline(always)]
    pub const fn places(at: u64) -> (u64, u64) {
        let word = at / LINE / 64;
        (word * WORD, word / BLOCK as u64)
    }

    /// Adds the line that holds byte `at`. Lines beyond the set's length are ignored.
    #[inline]
    pub fn mark(&self, at: u64) {
        let line = at / LINE;
        let word = (line / 64) as usize;
        let Some(bits) = self.bits.get(word) else { return };
        let bit = 1 << (line % 64);
        if bits.load(Ordering::Relaxed) & bit == 0 {
            bits.fetch_or(bit, Ordering::Release);
        }
        // Even if the bit was set already: the thread that set it may not have raised the flag yet.
        self.blocks[word / BLOCK].store(true, Ordering::Release);
    }

    /// As [`mark`](Self::mark), for when no other thread marks at the same time: avoids a locked instruction, which
    /// would wait for outstanding write-backs. Other threads may drain meanwhile; a line just drained may then be
    /// reported once more.
    #[inline(always)]
    pub fn mark_alone(&self, at: u64) {
        self.marker().mark_alone(at);
    }

    /// The set's parts, to [mark](Self::mark_alone) several lines without looking for them each time.
    #[inline(always)]
    pub fn marker(&self) -> LineMarker<'_> {
        LineMarker { bits: &self.bits, blocks: &self.blocks }
    }

    /// Adds every line of `[at, at + len)`.
    #[inline]
    pub fn mark_range(&self, at: u64, len: u64) {
        let first = line_of(at);
        for index in 0..lines_in(at, len) {
            self.mark(first + index * LINE);
        }
    }

    /// Takes every line out of the set and calls `run` with each run of adjacent ones, in
    /// ascending order, as a range of bytes. A line marked meanwhile is either reported or
    /// stays in the set.
    pub fn drain(&self, mut run: impl FnMut(Range<u64>)) {
        let mut pending: Range<u64> = 0..0;
        let blocks = self.blocks.iter().zip(self.bits.chunks(BLOCK));
        for (index, (block, words)) in blocks.enumerate() {
            if !block.load(Ordering::Relaxed) || !block.swap(false, Ordering::AcqRel) {
                continue;
            }
            for (word, bits) in words.iter().enumerate() {
                if bits.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                let word = index * BLOCK + word;
                let mut bits = bits.swap(0, Ordering::AcqRel);
                while bits != 0 {
                    let first = bits.trailing_zeros();
                    let ones = (bits >> first).trailing_ones();
                    let start = (word as u64 * 64 + u64::from(first)) * LINE;
                    let end = start + u64::from(ones) * LINE;
                    if pending.end == start {
                        pending.end = end;
                    } else {
                        if !pending.is_empty() {
                            run(pending);
                        }
                        pending = start..end;
                    }
                    bits = if first + ones == 64 { 0 } else { bits & (!0 << (first + ones)) };
                }
            }
        }
        if !pending.is_empty() {
            run(pending);
        }
    }
}

/// The parts of a set of lines.
#[derive(Clone, Copy)]
pub struct LineMarker<'a> {
    bits: &'a [AtomicU64],
    /// As many as `bits` has blocks.
    blocks: &'a [AtomicBool],
}

impl LineMarker<'_> {
    /// As [`DirtyLines::mark_alone`].
    #[inline(always)]
    pub fn mark_alone(self, at: u64) {
        let line = at / LINE;
        let word = (line / 64) as usize;
        let Some(bits) = self.bits.get(word) else { return };
        // Unconditionally: whether the bit is there already is a coin toss for a branch predictor.
        bits.store(bits.load(Ordering::Relaxed) | 1 << (line % 64), Ordering::Release);
        // SAFETY: each word of bits is of a block.
        let block = unsafe { self.blocks.get_unchecked(word / BLOCK) };
        // Also without a test: a thread that drains the set may just have lowered a flag that was raised.
        block.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines() {
        assert_eq!(lines_in(0, 0), 0);
        assert_eq!(lines_in(63, 1), 1);
        assert_eq!(lines_in(63, 2), 2);
        assert_eq!(lines_in(64, 64), 1);
    }

    #[test]
    fn drains_runs_in_order_and_once() {
        let set = DirtyLines::new(1 << 20);
        for line in [5, 62, 63, 64, 65, 4096, 4097, 16383] {
            set.mark(line * LINE + 8);
        }
        set.mark_range(10 * LINE - 1, 2);
        let mut runs = Vec::new();
        set.drain(|run| runs.push((run.start / LINE, run.end / LINE)));
        assert_eq!(runs, [(5, 6), (9, 11), (62, 66), (4096, 4098), (16383, 16384)]);
        set.drain(|_| panic!("nothing is left"));
    }

    #[test]
    fn ignores_lines_beyond_its_length() {
        let set = DirtyLines::new(LINE * 64);
        set.mark(LINE * 64 * 100);
        set.drain(|_| panic!("nothing was marked"));
    }
}
