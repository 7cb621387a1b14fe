//! Which cores have which lines in their own caches.
//!
//! Exact: there is an entry for each line that a core has, and no other. So it is never larger
//! than those caches together, and never grows.

use super::set_cache::{EMPTY, Line};

/// A table with linear probing, at most half full.
pub(super) struct Directory {
    lines: Vec<Line>,
    /// A bit for each core.
    cores: Vec<u64>,
    shift: u32,
    /// Entries, and the most that there can be.
    used: usize,
    most: usize,
}

impl Directory {
    /// For at most `most` lines at a time.
    pub(super) fn new(most: usize) -> Self {
        let size = (2 * most).next_power_of_two().max(2);
        let shift = Line::BITS - size.trailing_zeros();
        Directory { lines: vec![EMPTY; size], cores: vec![0; size], shift, used: 0, most }
    }

    /// The cores that have the line, a bit each.
    #[inline(always)]
    pub(super) fn cores_with(&self, line: Line) -> u64 {
        let at = self.place_of(line);
        if self.lines[at] == line { self.cores[at] } else { 0 }
    }

    pub(super) fn add(&mut self, line: Line, core: usize) {
        let at = self.place_of(line);
        if self.lines[at] != line {
            debug_assert!(self.used < self.most, "entries of lines that no cache has");
            (self.lines[at], self.cores[at]) = (line, 0);
            self.used += 1;
        }
        self.cores[at] |= 1 << core;
    }

    /// Records that these cores no longer have the line.
    pub(super) fn remove(&mut self, line: Line, cores: u64) {
        let at = self.place_of(line);
        if self.lines[at] == line {
            self.cores[at] &= !cores;
            if self.cores[at] == 0 {
                self.empty(at);
            }
        }
    }

    /// Empties an entry, and moves displaced entries after it closer to their home places.
    fn empty(&mut self, mut hole: usize) {
        self.used -= 1;
        let last = self.lines.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & last;
            let line = self.lines[at];
            if line == EMPTY {
                self.lines[hole] = EMPTY;
                return;
            }
            // It may move if the hole is between its home and where it is.
            let from_home = at.wrapping_sub(self.home_of(line)) & last;
            if from_home >= at.wrapping_sub(hole) & last {
                (self.lines[hole], self.cores[hole]) = (line, self.cores[at]);
                hole = at;
            }
        }
    }

    #[inline(always)]
    fn home_of(&self, line: Line) -> usize {
        (line.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// Where the line is, or would be.
    #[inline(always)]
    fn place_of(&self, line: Line) -> usize {
        let last = self.lines.len() - 1;
        let mut at = self.home_of(line);
        while self.lines[at] != line && self.lines[at] != EMPTY {
            at = (at + 1) & last;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::reference::SplitMix64;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        for most in [1, 2, 3, 16, 100] {
            let mut random = SplitMix64::new(most as u64);
            let (mut directory, mut map) = (Directory::new(most), BTreeMap::<Line, u64>::new());
            for _ in 0..20_000 {
                let line = random.below(2 * most as u64) as Line * 12_345;
                let cores = random.next() & random.next();
                if random.below(2) == 0 {
                    directory.remove(line, cores);
                    map.entry(line).and_modify(|with| *with &= !cores);
                    map.retain(|_, with| *with != 0);
                } else if map.len() < most || map.contains_key(&line) {
                    let core = random.below(64) as usize;
                    directory.add(line, core);
                    *map.entry(line).or_default() |= 1 << core;
                }
                assert_eq!(directory.used, map.len());
                let other = random.below(2 * most as u64) as Line * 12_345;
                assert_eq!(directory.cores_with(other), map.get(&other).copied().unwrap_or(0));
            }
        }
    }
}
