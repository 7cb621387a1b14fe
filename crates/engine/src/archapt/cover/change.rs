//! A change of a region's coverage, with the sums and tags that follow from it.

use super::place::{
    ALONG, SIDE, SLANTED, TAG_WORDS, View, WORD_TAGS, bitmap_at, line_at, place, sum_at,
    sums_in_use, sums_of, tag, tag_at,
};
use crate::archapt::checksum::sum::Along;
use crate::archapt::checksum::{Block, LANES, Summer};
use crate::writes::WriteSet;
use perdura_memory::{Memory, WORD};

/// Of each kind of sums some, as bitmaps.
type Some3 = [u128; ALONG.len()];

/// What a region has before a change.
pub(super) struct Before {
    region: u64,
    checksums: u64,
    salt: u64,
    /// The region counts already: its salt is right.
    counts: bool,
    covered: [u64; SIDE],
    /// The sums that are of anything.
    sums: Some3,
}

impl Before {
    /// The region whose checksums are at `checksums`.
    pub(super) fn load<M: Memory>(view: &View<'_, M>, checksums: u64) -> Self {
        let counts = view.counts(checksums);
        let bitmap = |column| if counts { view.word(bitmap_at(checksums, column)) } else { 0 };
        let covered = std::array::from_fn(bitmap);
        let (region, salt) = (view.matrices.region(checksums), view.matrices.salt());
        Before { region, checksums, salt, counts, covered, sums: sums_in_use(&covered) }
    }
}

/// The change, and the region as it will be.
pub(super) struct Change {
    before: Before,
    covered: [u64; SIDE],
    /// Sums that change; and those of them that are loaded.
    touched: Some3,
    loaded: Some3,
    sums: Box<[[Block; SLANTED]; ALONG.len()]>,
    /// Of each column the words of tags that change, as a bitmap, and what they will be.
    tag_words: [u16; SIDE],
    tags: Box<[[u64; TAG_WORDS]; SIDE]>,
}

impl Default for Change {
    fn default() -> Self {
        let (covered, sums) = ([0; SIDE], [0; ALONG.len()]);
        Change {
            before: Before { region: 0, checksums: 0, salt: 0, counts: false, covered, sums },
            covered,
            touched: sums,
            loaded: sums,
            sums: Box::new([[[0; LANES]; SLANTED]; ALONG.len()]),
            tag_words: [0; SIDE],
            tags: Box::new([[0; TAG_WORDS]; SIDE]),
        }
    }
}

impl Change {
    pub(super) fn begin(&mut self, before: Before) {
        self.covered = before.covered;
        self.before = before;
        (self.touched, self.loaded) = ([0; ALONG.len()], [0; ALONG.len()]);
        self.tag_words = [0; SIDE];
    }

    /// Notes that a line will begin to take part, for [`sum_lines`](Self::sum_lines).
    pub(super) fn mark(&mut self, line: u64) {
        let (row, column) = place(line);
        self.touch((row, column));
        self.tag_words[column] |= 1 << (row / WORD_TAGS);
    }

    fn touch(&mut self, at: (usize, usize)) {
        for (touched, sum) in self.touched.iter_mut().zip(sums_of(at)) {
            *touched |= 1 << sum;
        }
    }

    /// A line that was [marked](Self::mark) begins to take part.
    pub(super) fn include<M: Memory>(&mut self, view: &View<'_, M>, line: u64) {
        let (row, column) = place(line);
        let tag = self.add(view, line, u64::wrapping_add);
        self.covered[column] |= 1 << row;
        let shift = row % WORD_TAGS * 16;
        let word = &mut self.tags[column][row / WORD_TAGS];
        *word = *word & !(0xFFFF << shift) | u64::from(tag) << shift;
    }

    /// Loads the tags that will change.
    pub(super) fn load_tags<M: Memory>(&mut self, view: &View<'_, M>) {
        for (column, words) in self.tag_words.iter().enumerate() {
            for word in (0..TAG_WORDS).filter(|word| words >> word & 1 != 0) {
                let at = tag_at(self.before.checksums, (word * WORD_TAGS, column));
                self.tags[column][word] = view.word(at);
            }
        }
    }

    /// A line takes part no longer. What it holds in place is what it was summed with.
    pub(super) fn exclude<M: Memory>(&mut self, view: &View<'_, M>, line: u64) {
        let (row, column) = place(line);
        self.touch((row, column));
        self.add(view, line, u64::wrapping_sub);
        self.covered[column] &= !(1 << row);
    }

    /// Changes a line's sums. Its tag.
    fn add<M: Memory>(&mut self, view: &View<'_, M>, line: u64, with: fn(u64, u64) -> u64) -> u16 {
        let at = place(line);
        let mut block: Block = [0; LANES];
        view.memory.copy_out(line, bytemuck::cast_slice_mut(&mut block));
        let (summer, sums) = (Summer::best(), sums_of(at));
        let terms = ALONG.map(|along| summer.term(along, at, &block));
        for (kind, term) in terms.iter().enumerate() {
            let sum = self.load(view, kind, sums[kind]);
            (0..LANES).for_each(|lane| sum[lane] = with(sum[lane], term[lane]));
        }
        tag(&terms[Along::Column as usize])
    }

    /// A sum, loaded if it is not: one of nothing is 0.
    fn load<M: Memory>(&mut self, view: &View<'_, M>, kind: usize, index: usize) -> &mut Block {
        let sum = &mut self.sums[kind][index];
        if self.loaded[kind] >> index & 1 == 0 {
            self.loaded[kind] |= 1 << index;
            *sum = match self.before.sums[kind] >> index & 1 {
                0 => [0; LANES],
                _ => view.block(sum_at(self.before.checksums, ALONG[kind], index)),
            };
        }
        sum
    }

    /// Lines of checksums that change, with those of the bitmaps and of the tags.
    pub(super) fn sum_lines(&self) -> usize {
        let columns = self.touched[Along::Column as usize];
        let bitmaps = (0..SIDE / 8).filter(|line| columns >> (line * 8) & 0xFF != 0).count();
        let sums: u32 = self.touched.iter().map(|touched| touched.count_ones()).sum();
        let halves = |words: &u16| usize::from(words & 0xFF != 0) + usize::from(words >> 8 != 0);
        bitmaps + sums as usize + self.tag_words.iter().map(halves).sum::<usize>()
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
            let words = (0..TAG_WORDS).filter(|word| self.tag_words[column] >> word & 1 != 0);
            for word in words {
                let at = tag_at(*checksums, (0, column)) + word as u64 * WORD;
                writes.put(at, self.tags[column][word]);
            }
        }
        let now = sums_in_use(&self.covered);
        for (kind, along) in ALONG.into_iter().enumerate() {
            let sums = self.touched[kind] & now[kind];
            for index in (0..SLANTED).filter(|index| sums >> index & 1 != 0) {
                writes.put_line(sum_at(*checksums, along, index), &self.sums[kind][index]);
            }
        }
    }
}

/// The lines that are covered in a region, ascending.
pub(super) fn lines_of(region: u64, covered: [u64; SIDE]) -> impl Iterator<Item = u64> + use<> {
    (0..SIDE).flat_map(move |column| {
        (0..SIDE)
            .filter(move |row| covered[column] >> row & 1 != 0)
            .map(move |row| line_at(region, row, column))
    })
}
