//! Persistence management (Archapt III-C): lines whose write-back is skipped, and the checksums
//! that vouch for them.
//!
//! The lines of the pool are the cells of matrices of 64 by 64, a *region* each: a column is a
//! page, and a row has the lines at one place of 64 pages. Behind the log each region has
//!
//! ```text
//! line 0        word 0: the salt of the log when lines were first covered; with another nothing is
//! lines 1 .. 8  for each column the lines that are covered, a bit each
//! then          a consistency checksum for each column, a correlation checksum for each slanted
//!               row, a checksum for each diagonal
//! then          for each line a tag of 16 bits, which tells whether it is lost
//! ```
//!
//! The paper changes checksums beside the log. Here they are words of a group, as data are: that a
//! line begins or ceases to be covered is in the record of a group with the sums that follow
//! from it. So one power cut leaves all of that or nothing, and recovery, when it has gone through
//! the log, finds sums that are exactly those of the lines they say they are of. What differs is
//! what was lost.
//!
//! What always holds:
//! - a line that is covered does not wait in the history, and no open or later record has a word of
//!   it: a group that stores to it uncovers it in the same record (with all of its words, where
//!   the log has the new ones);
//! - sums of nothing are not written, and may be anything.

mod change;
mod examine;
mod place;
mod restore;

pub use examine::{Examination, examine};
pub use place::Matrices;

use crate::writes::WriteSet;
use change::{Before, Change};
use perdura_memory::{LINE, Memory, WORD, line_of};
use place::View;
use std::fmt;
use std::str::FromStr;

/// When write-backs are skipped, of engines that can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skip {
    /// Never.
    Never,
    /// Where the checksums of what leaves a region together take fewer lines than it has, and what
    /// was covered there has not been stored to again soon after.
    #[default]
    WhereFewer,
    /// Always.
    Always,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skip::Never => "never",
            Skip::WhereFewer => "where-fewer",
            Skip::Always => "always",
        })
    }
}

impl FromStr for Skip {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Skip::Never, Skip::WhereFewer, Skip::Always];
        let found = all.into_iter().find(|skip| skip.to_string() == name);
        found.ok_or_else(|| format!("'{name}' is none of never, where-fewer, always"))
    }
}

/// What the group works with.
pub struct Cover {
    pub(super) matrices: Matrices,
    pub(super) skip: Skip,
    /// The region that is being changed.
    change: Change,
    /// Lines at hand.
    lines: Vec<u64>,
    /// Lines that were covered, and are to be written back since they will not be.
    pub(super) given_up: Vec<u64>,
    /// By region, lines that were written because what was covered did not stay so; an eighth
    /// less each time that it keeps lines from being covered. Four bytes for each 256 KiB of a pool.
    regret: Vec<u32>,
}

impl Cover {
    pub(super) fn new(matrices: Matrices) -> Self {
        Cover {
            matrices,
            skip: Skip::default(),
            change: Change::default(),
            lines: Vec::new(),
            given_up: Vec::new(),
            regret: Vec::new(),
        }
    }

    /// Whether a line of `[at, at + len)` is covered, as of the last closed group.
    pub(super) fn any<M: Memory>(&self, memory: &M, at: u64, len: u64) -> bool {
        let view = View { memory, writes: None, matrices: self.matrices };
        (line_of(at)..at + len).step_by(LINE as usize).any(|line| view.covers(line))
    }

    /// Uncovers the lines that `writes` store to. With `whole`, stores all words of these. Where
    /// it takes fewer lines, a region is given up: its other lines are left in `given_up`, to be
    /// written back and fenced before `writes` are logged.
    pub(super) fn uncover<M: Memory>(&mut self, memory: &M, writes: &mut WriteSet, whole: bool) {
        self.given_up.clear();
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        let view = View { memory, writes: Some(writes), matrices: self.matrices };
        let stored = writes.entries().iter().filter(|entry| entry.mask != 0);
        lines.extend(stored.map(|entry| entry.line).filter(|line| view.covers(*line)));
        lines.sort_unstable();
        for lines in lines.chunk_by(Matrices::same_region) {
            self.uncover_in_region(memory, writes, lines, whole);
            if whole {
                lines.iter().for_each(|line| complete(memory, writes, *line));
            }
        }
        self.lines = lines;
    }

    /// The lines that are covered of a region whose checksums are at `region`.
    pub(super) fn lines_of<M: Memory>(&mut self, memory: &M, region: u64) -> Vec<u64> {
        let view = View { memory, writes: None, matrices: self.matrices };
        self.change.begin(Before::load(&view, region));
        self.change.give_up().collect()
    }

    /// Puts into `writes` that nothing of such a region is covered any more.
    pub(super) fn give_up<M: Memory>(&mut self, memory: &M, writes: &mut WriteSet, region: u64) {
        let view = View { memory, writes: None, matrices: self.matrices };
        self.change.begin(Before::load(&view, region));
        drop(self.change.give_up());
        self.change.store(writes);
    }

    fn uncover_in_region<M: Memory>(
        &mut self,
        memory: &M,
        writes: &mut WriteSet,
        lines: &[u64],
        whole: bool,
    ) {
        let view = View { memory, writes: Some(writes), matrices: self.matrices };
        let Some(region) = self.matrices.of_line(lines[0]) else { return };
        self.change.begin(Before::load(&view, region));
        lines.iter().for_each(|line| self.change.exclude(&view, *line));
        // Each of them is logged, and written back later.
        let (sums, covered) = (2 * self.change.sum_lines(), self.change.covered_lines());
        if sums > covered {
            self.given_up.extend(self.change.give_up());
        }
        self.change.store(writes);
        let whole = if whole { lines.len() } else { 0 };
        let regret = self.regret_of(region);
        *regret = regret.saturating_add((sums.min(covered) + whole) as u32);
    }

    fn regret_of(&mut self, checksums: u64) -> &mut u32 {
        let region = self.matrices.region(checksums) as usize;
        if region >= self.regret.len() {
            self.regret.resize(region + 1, 0);
        }
        &mut self.regret[region]
    }

    /// Whether to cover so many lines at the cost of so many for sums. Where they tend to be stored
    /// to again it is not, until that has been so for a while.
    fn is_worth_it(&mut self, checksums: u64, sums: usize, lines: usize) -> bool {
        let regret = self.regret_of(checksums);
        let worth_it = sums + (*regret as usize) < lines;
        if sums < lines && !worth_it {
            *regret -= regret.div_ceil(8);
        }
        worth_it
    }

    /// Adds to `writes` what covers those of `lines`, all of one region, that are not written
    /// there: if that is worth it. Whether they are covered then.
    pub(super) fn cover<M: Memory>(
        &mut self,
        memory: &M,
        writes: &mut WriteSet,
        lines: &[u64],
    ) -> bool {
        if self.skip == Skip::Never {
            return false;
        }
        let view = View { memory, writes: Some(writes), matrices: self.matrices };
        let Some(region) = self.matrices.of_line(lines[0]) else { return false };
        self.change.begin(Before::load(&view, region));
        lines.iter().for_each(|line| self.change.mark(*line));
        let sums = 2 * self.change.sum_lines();
        if self.skip == Skip::WhereFewer && !self.is_worth_it(region, sums, lines.len()) {
            return false;
        }
        self.change.load_tags(&view);
        lines.iter().for_each(|line| self.change.include(&view, *line));
        self.change.store(writes);
        true
    }
}

/// Adds the words of a line that `writes` do not store, as they are.
fn complete<M: Memory>(memory: &M, writes: &mut WriteSet, line: u64) {
    let stored = writes.line(line).map_or(0, |entry| entry.mask);
    for word in (0..8).filter(|word| stored & 1 << word == 0) {
        let at = line + word * WORD;
        writes.put(at, memory.load(at));
    }
}
