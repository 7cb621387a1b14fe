//! Checksums in pages of a memory, changed so that a power cut at any moment leaves them usable.
//!
//! Blocks of a page are numbered 0 to 48 as they lie in it; a set of them is a bitmap, bit 0 for
//! block 0. The protocol, for any number of pages at once:
//!
//! 1. [`announce`] each: the header says which blocks the sums cover now, and which they will
//!    cover. The caller fences once.
//! 2. [`settle`] each: the sums of the rows and columns concerned are stored and written back. The
//!    caller fences once.
//!
//! The caller guarantees:
//! - A newly covered block is protected as a whole by a log until the second fence. From then on it
//!   need be neither logged nor written back.
//! - A block that will no longer be covered is durable (or logged) before step 1 begins. It may
//!   change after the second fence.
//! - A covered block that is changed is protected as a whole by a log from before the change until
//!   the second fence of an `announce` with it in `changed`.
//! - Step 1 of the next change of a page comes after the second fence of this one.
//! - When a page is put to another use, [`discard`] it, and fence.
//!
//! So at every moment each lane of each sum covers one of the two sets that the header names, or it
//! is a sum of no block. Such sums are never written (an announcement that covers nothing needs no
//! step 2 at all), and when one first becomes a sum of some blocks, these are all logged. Recovery
//! applies the log, then calls [`verify`] with the blocks that it has applied, then [`repair`]s.
//! Before it gives up the log, it either [`renew`]s the sums of the pages with logged blocks, or
//! writes back the blocks that they cover and [`discard`]s the sums.
//!
//! ```
//! use perdura_matrices::Outcome;
//! use perdura_matrices::page::{Marks, announce, repair, settle, verify};
//! use perdura_memory::{Memory, PAGE, Ram};
//!
//! let (memory, salt) = (Ram::new(PAGE), 7);
//! (0..49).for_each(|block| memory.store(block * 64, 1000 + block));
//!
//! // All of a page, which a log protects meanwhile.
//! let announced = announce(&memory, salt, 0, (1 << 49) - 1, 0);
//! memory.fence();
//! settle(&memory, &announced);
//! memory.fence();
//!
//! // Block 20 was never written back, and the power is cut.
//! memory.store(20 * 64, 0);
//! match verify(&memory, salt, 0, Marks::default()) {
//!     Some(Outcome::Corrected(lost)) => repair(&memory, 0, &lost),
//!     other => panic!("{other:?}"),
//! }
//! memory.fence();
//! assert_eq!(memory.load(20 * 64), 1020);
//! ```

use super::correct::{Correction, Known, Outcome, correct};
pub use super::header::ALL;
use super::header::Header;
use super::matrix::{Coverage, Matrix, Shape, Sums};
use super::{Block, LANES, Layout};
use perdura_memory::keyed::Summer;
use perdura_memory::{LINE, Memory};

/// Rows, and columns.
const SIDE: usize = 7;

/// A change of coverage that a page's header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "sums are to be settled after the fence"]
pub struct Announced {
    page: u64,
    before: u64,
    now: u64,
    changed: u64,
    header: bool,
}

/// Which blocks of a page are covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Blocks that the sums covered before their last change; some lanes may still do so.
    pub before: u64,
    /// Blocks that the sums cover after it.
    pub now: u64,
}

/// What recovery knows about the blocks of a page, besides their contents. See [`Known`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Blocks that are known to be lost.
    pub erased: u64,
    /// Blocks that a log has restored, whole.
    pub logged: u64,
}

/// The blocks covered in the page at offset `page`; `None` (nothing) without a valid header.
///
/// # Panics
/// If the page is out of bounds, here and everywhere below.
pub fn covered<M: Memory>(memory: &M, salt: u64, page: u64) -> Option<Covered> {
    let header = Header::read(memory, salt, page)?;
    Some(Covered { before: header.before, now: header.now })
}

/// Step 1: announces that the blocks in `now`, and no others, will be covered, and that those in
/// `changed` have new contents. If the coverage does not change, nothing is written, and this page
/// needs no fence before step 2.
///
/// # Panics
/// If a bitmap has a bit beyond block 48.
pub fn announce<M: Memory>(memory: &M, salt: u64, page: u64, now: u64, changed: u64) -> Announced {
    assert_eq!((now | changed) & !ALL, 0, "a page has 49 blocks");
    let current = Header::read(memory, salt, page);
    let before = current.map_or(0, |header| header.now);
    let header = now != before;
    if header {
        Header::announce(memory, salt, page, current, now);
    }
    Announced { page, before, now, changed: changed & before & now, header }
}

/// Step 2: stores the sums of the current contents, and writes them back. Reads every covered block
/// of the rows and columns that are written.
pub fn settle<M: Memory>(memory: &M, announced: &Announced) {
    let Announced { page, now, .. } = *announced;
    let (down, across) = (now & of_columns(announced.columns()), now & of_rows(announced.rows()));
    let mut sums = PageSums::default();
    sums.add((down, across), |cell, to| load_into(memory, block_at(page, cell), to));
    announced.store(memory, &sums);
}

/// Step 2, by difference: reads the blocks that begin or cease to be covered, and the sums
/// themselves. `old` has, in ascending order, the contents of the blocks in `changed` when they were
/// last summed, and of blocks that cease to be covered, if these have changed since. Leads to the
/// same sums as [`settle`], if the sums in memory are right.
///
/// # Panics
/// If `old` lacks a changed block.
pub fn settle_by_difference<M: Memory>(memory: &M, announced: &Announced, old: &[(usize, Block)]) {
    let Announced { page, before, now, changed, .. } = *announced;
    let old_of = |cell: usize| {
        let found = old.binary_search_by_key(&cell, |(of, _)| *of);
        found.ok().map(|index| old[index].1)
    };
    let current = |cell: usize, to: &mut Block| load_into(memory, block_at(page, cell), to);
    let mut sums = announced.load(memory);
    sums.add_both((now & !before) | changed, current);
    if (before & !now) | changed != 0 {
        let mut less = PageSums::default();
        less.add_both(before & !now, |cell, to| match old_of(cell) {
            Some(old) => *to = old,
            None => current(cell, to),
        });
        less.add_both(changed, |cell, to| {
            *to = old_of(cell).expect("the old contents of a changed block");
        });
        sums.subtract(&less);
    }
    announced.store(memory, &sums);
}

/// After a recovery, before the log is given up: the argument for [`settle`], so that every sum
/// covers the blocks covered now. `None` if no block is covered.
pub fn renew<M: Memory>(memory: &M, salt: u64, page: u64) -> Option<Announced> {
    let Covered { now, .. } = covered(memory, salt, page)?;
    Some(Announced { page, before: now, now, changed: now, header: false })
}

/// Makes a page cover nothing, whatever its coverage was, and writes that back.
pub fn discard<M: Memory>(memory: &M, salt: u64, page: u64) {
    Header::discard(memory, salt, page);
}

/// Finds lost blocks among those covered now. Reads only. `None` where there is no valid header,
/// so that nothing is covered.
pub fn verify<M: Memory>(memory: &M, salt: u64, page: u64, marks: Marks) -> Option<Outcome> {
    let Covered { before, now } = covered(memory, salt, page)?;
    let mut matrix = Matrix::new(Shape::PAGE);
    for cell in bits(before | now) {
        matrix.blocks_mut()[cell] = load(memory, block_at(page, cell));
    }
    let sums = Sums {
        consistency: (0..SIDE).map(|c| load(memory, page + Layout::PAGE.consistency(c))).collect(),
        correlation: (0..SIDE).map(|r| load(memory, page + Layout::PAGE.correlation(r))).collect(),
    };
    let sides = [&Coverage::of_page(before), &Coverage::of_page(now)];
    let known = Known {
        erased: Coverage::of_page(marks.erased & ALL),
        logged: Coverage::of_page(marks.logged & ALL),
    };
    Some(correct(Summer::best(), &matrix, sides, &sums, &known))
}

/// Stores the corrections found by [`verify`] and writes them back; the caller fences.
pub fn repair<M: Memory>(memory: &M, page: u64, corrections: &[Correction]) {
    for Correction { cell, block } in corrections {
        store(memory, block_at(page, *cell), block);
    }
}

impl Announced {
    /// The page's offset.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// Lines written back for this change: of the header, and of checksums.
    pub fn lines(&self) -> (u64, u64) {
        let sums = self.columns().count_ones() + self.rows().count_ones();
        (u64::from(self.header), u64::from(sums))
    }

    fn touched(&self) -> u64 {
        (self.before ^ self.now) | self.changed
    }

    /// The columns whose sums are written: those that change, and cover some block.
    fn columns(&self) -> u64 {
        columns_of(self.touched()) & columns_of(self.now)
    }

    /// The rows whose sums are written.
    fn rows(&self) -> u64 {
        rows_of(self.touched()) & rows_of(self.now)
    }

    /// The sums in memory, zero where they cover nothing.
    fn load<M: Memory>(&self, memory: &M) -> PageSums {
        let mut sums = PageSums::default();
        for column in bits(self.columns() & columns_of(self.before)) {
            let at = self.page + Layout::PAGE.consistency(column);
            load_into(memory, at, &mut sums.consistency[column]);
        }
        for row in bits(self.rows() & rows_of(self.before)) {
            let at = self.page + Layout::PAGE.correlation(row);
            load_into(memory, at, &mut sums.correlation[row]);
        }
        sums
    }

    /// Through the caches. Past the caches, creating took as long, and updating half as long again.
    fn store<M: Memory>(&self, memory: &M, sums: &PageSums) {
        for column in bits(self.columns()) {
            let at = self.page + Layout::PAGE.consistency(column);
            store(memory, at, &sums.consistency[column]);
        }
        for row in bits(self.rows()) {
            store(memory, self.page + Layout::PAGE.correlation(row), &sums.correlation[row]);
        }
    }
}

/// The sums of a page; sums that are not written may have any value.
#[derive(Default)]
struct PageSums {
    consistency: [Block; SIDE],
    correlation: [Block; SIDE],
}

impl PageSums {
    /// Adds cells to both of their sums.
    fn add_both(&mut self, cells: u64, fill: impl Fn(usize, &mut Block)) {
        self.add((cells, cells), fill);
    }

    /// Adds the cells in `down` to their column's sums, and those in `across` to their row's. All
    /// blocks are filled in before the first is used: a vector load right after word stores to the
    /// same place would have to wait for them.
    fn add(&mut self, (down, across): (u64, u64), fill: impl Fn(usize, &mut Block)) {
        let summer = Summer::best();
        let mut blocks = [[0; LANES]; SIDE * SIDE];
        bits(down | across).for_each(|cell| fill(cell, &mut blocks[cell]));
        for (column, blocks) in blocks.chunks(SIDE).enumerate() {
            let rows = (column_of(down, column), column_of(across, column));
            if rows != (0, 0) {
                let consistency = &mut self.consistency[column];
                summer.add_column(column, blocks, rows, consistency, &mut self.correlation);
            }
        }
    }

    fn subtract(&mut self, less: &Self) {
        let sums = self.consistency.iter_mut().chain(&mut self.correlation);
        let less = less.consistency.iter().chain(&less.correlation);
        for (sum, less) in sums.flatten().zip(less.flatten()) {
            *sum = sum.wrapping_sub(*less);
        }
    }
}

const fn block_at(page: u64, cell: usize) -> u64 {
    page + cell as u64 * LINE
}

const fn column_of(cells: u64, column: usize) -> u64 {
    cells >> (SIDE * column) & 0x7F
}

/// The columns that have any of these cells, as a bitmap.
fn columns_of(cells: u64) -> u64 {
    (0..SIDE).filter(|column| column_of(cells, *column) != 0).fold(0, |all, c| all | 1 << c)
}

/// The rows that have any of these cells, as a bitmap.
fn rows_of(cells: u64) -> u64 {
    (0..SIDE).fold(0, |rows, column| rows | column_of(cells, column))
}

/// All cells of these columns.
fn of_columns(columns: u64) -> u64 {
    bits(columns).fold(0, |cells, column| cells | 0x7F << (SIDE * column))
}

/// All cells of these rows.
fn of_rows(rows: u64) -> u64 {
    (0..SIDE).fold(0, |cells, column| cells | rows << (SIDE * column))
}

/// The numbers of the bits that are set, ascending.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        next
    })
}

#[inline]
fn load<M: Memory>(memory: &M, at: u64) -> Block {
    let mut block = [0; LANES];
    load_into(memory, at, &mut block);
    block
}

#[inline]
fn load_into<M: Memory>(memory: &M, at: u64, to: &mut Block) {
    memory.copy_out(at, bytemuck::cast_slice_mut(to));
}

#[inline]
fn store<M: Memory>(memory: &M, at: u64, block: &Block) {
    memory.copy_in(at, bytemuck::cast_slice(block));
    memory.write_back(at, LINE);
}
