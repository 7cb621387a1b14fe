//! A change of a region's coverage, with the sums that follow from it.

use super::place::{SIDE, View, bitmap_at, consistency_at, correlation_at, line_at, place};
use crate::archapt::checksum::sum::Along;
use crate::archapt::checksum::{Block, LANES, Summer};
use crate::writes::WriteSet;
use perdura_memory::Memory;

/// What a region has before a change.
pub(super) struct Before {
    region: u64,
    checksums: u64,
    salt: u64,
    /// The region counts already: its salt is right.
    counts: bool,
    covered: [u64; SIDE],
}

impl Before {
    /// The region whose checksums are at `checksums`.
    pub(super) fn load<M: Memory>(view: &View<'_, M>, checksums: u64) -> Self {
        let counts = view.counts(checksums);
        let covered =
            std::array::from_fn(
                |column| {
                    if counts { view.word(bitmap_at(checksums, column)) } else { 0 }
                },
            );
        let (region, salt) = (view.matrices.region(checksums), view.matrices.salt());
        Before { region, checksums, salt, counts, covered }
    }
}

/// The change, and the region as it will be.
pub(super) struct Change {
    before: Before,
    covered: [u64; SIDE],
    /// Columns and rows whose sums change, as bitmaps; and those of them that are loaded.
    columns: u64,
    rows: u64,
    loaded: (u64, u64),
    consistency: Box<[Block; SIDE]>,
    correlation: Box<[Block; SIDE]>,
}

impl Default for Change {
    fn default() -> Self {
        let covered = [0; SIDE];
        Change {
            before: Before { region: 0, checksums: 0, salt: 0, counts: false, covered },
            covered,
            columns: 0,
            rows: 0,
            loaded: (0, 0),
            consistency: Box::new([[0; LANES]; SIDE]),
            correlation: Box::new([[0; LANES]; SIDE]),
        }
    }
}

impl Change {
    pub(super) fn begin(&mut self, before: Before) {
        self.covered = before.covered;
        self.before = before;
        (self.columns, self.rows, self.loaded) = (0, 0, (0, 0));
    }

    /// Notes that a line's sums will change, for [`sum_lines`](Self::sum_lines).
    pub(super) fn mark(&mut self, line: u64) {
        let (row, column) = place(line);
        self.columns |= 1 << column;
        self.rows |= 1 << row;
    }

    /// A line begins to take part.
    pub(super) fn include<M: Memory>(&mut self, view: &View<'_, M>, line: u64) {
        self.add(view, line, u64::wrapping_add);
        let (row, column) = place(line);
        self.covered[column] |= 1 << row;
    }

    /// A line takes part no longer. What it holds in place is what it was summed with.
    pub(super) fn exclude<M: Memory>(&mut self, view: &View<'_, M>, line: u64) {
        self.add(view, line, u64::wrapping_sub);
        let (row, column) = place(line);
        self.covered[column] &= !(1 << row);
    }

    fn add<M: Memory>(&mut self, view: &View<'_, M>, line: u64, with: fn(u64, u64) -> u64) {
        self.mark(line);
        let at = place(line);
        self.load(view, at);
        let mut block: Block = [0; LANES];
        view.memory.copy_out(line, bytemuck::cast_slice_mut(&mut block));
        let summer = Summer::best();
        let change = |sum: &mut Block, along| {
            let term = summer.term(along, at, &block);
            (0..LANES).for_each(|lane| sum[lane] = with(sum[lane], term[lane]));
        };
        change(&mut self.consistency[at.1], Along::Column);
        change(&mut self.correlation[at.0], Along::Row);
    }

    /// Loads the sums of a place, if they are not: those of nothing are 0.
    fn load<M: Memory>(&mut self, view: &View<'_, M>, (row, column): (usize, usize)) {
        let checksums = self.before.checksums;
        if self.loaded.0 >> column & 1 == 0 {
            self.loaded.0 |= 1 << column;
            self.consistency[column] = match self.before.covered[column] {
                0 => [0; LANES],
                _ => view.block(consistency_at(checksums, column)),
            };
        }
        if self.loaded.1 >> row & 1 == 0 {
            self.loaded.1 |= 1 << row;
            self.correlation[row] = match rows_of(&self.before.covered) >> row & 1 {
                0 => [0; LANES],
                _ => view.block(correlation_at(checksums, row)),
            };
        }
    }

    /// Lines of checksums that change, with those of the bitmaps.
    pub(super) fn sum_lines(&self) -> usize {
        let bitmaps = (0..SIDE / 8).filter(|line| self.columns >> (line * 8) & 0xFF != 0).count();
        bitmaps + (self.columns.count_ones() + self.rows.count_ones()) as usize
    }

    /// Lines that are covered.
    pub(super) fn covered_lines(&self) -> usize {
        self.covered.iter().map(|rows| rows.count_ones() as usize).sum()
    }

    /// Covers nothing any more. The lines that this leaves to be written back.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = u64> + use<> {
        let covered = std::mem::replace(&mut self.covered, [0; SIDE]);
        lines_of(self.before.region, covered)
    }

    /// Puts what changes into a group's words.
    pub(super) fn store(&self, writes: &mut WriteSet) {
        let Before { checksums, salt, counts, covered, .. } = &self.before;
        if !counts {
            writes.put(*checksums, *salt);
        }
        for (column, before) in covered.iter().enumerate() {
            let now = self.covered[column];
            if !counts || *before != now {
                writes.put(bitmap_at(*checksums, column), now);
            }
            if self.columns >> column & 1 != 0 && now != 0 {
                let at = consistency_at(*checksums, column);
                writes.put_line(at, &self.consistency[column]);
            }
        }
        let rows = self.rows & rows_of(&self.covered);
        for row in (0..SIDE).filter(|row| rows >> row & 1 != 0) {
            writes.put_line(correlation_at(*checksums, row), &self.correlation[row]);
        }
    }
}

/// The rows that have a line in any column, as a bitmap.
fn rows_of(covered: &[u64; SIDE]) -> u64 {
    covered.iter().fold(0, |rows, column| rows | column)
}

/// The lines that are covered in a region, ascending.
pub(super) fn lines_of(region: u64, covered: [u64; SIDE]) -> impl Iterator<Item = u64> + use<> {
    (0..SIDE).flat_map(move |column| {
        (0..SIDE)
            .filter(move |row| covered[column] >> row & 1 != 0)
            .map(move |row| line_at(region, row, column))
    })
}
