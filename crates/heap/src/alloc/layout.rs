//! Pages: what a page-table word says, and where slots and their bitmap are in a page.
//!
//! ```text
//! a page of slots    0    .. 3136   7 x 7 data blocks of 64 bytes, column by column
//!                    3136 .. 3584   7 consistency-checksum blocks, one a column   (Archapt III-C)
//!                    3584 .. 4032   7 correlation-checksum blocks, one a row
//!                    4032 .. 4096   header block: bitmap of slots (2 words), self-check
//! ```
//! Slots are whole blocks (or halves of one) and follow one another, so that an object never
//! touches more lines than it must. Larger objects are runs of whole pages.

use crate::tx::Purpose;
use perdura_engine::{Error, Result};
use perdura_memory::{LINE, PAGE};

/// Bytes of a page that hold slots.
pub const DATA_BYTES: u64 = 49 * LINE;
/// Where the header block begins in a page of slots.
pub const HEADER: u64 = PAGE - LINE;

/// Half blocks in a slot of each class.
const HALF_BLOCKS: [u16; 14] = [1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 98];
/// How many classes of slots there are.
pub const CLASSES: usize = HALF_BLOCKS.len();

/// A class of slots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// The smallest class with slots of at least `len` bytes; none beyond 3136.
    #[inline]
    pub fn of(len: u64) -> Option<Self> {
        let index = HALF_BLOCKS.iter().position(|&half| u64::from(half) * 32 >= len)?;
        Some(Class(index as u8))
    }

    /// The class with this number.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number < CLASSES as u64 { Some(Class(number as u8)) } else { None }
    }

    /// Its number, from 0.
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Bytes in a slot.
    #[inline]
    pub const fn slot_bytes(self) -> u64 {
        HALF_BLOCKS[self.0 as usize] as u64 * 32
    }

    /// Slots in a page.
    pub const fn slots(self) -> u32 {
        (DATA_BYTES / self.slot_bytes()) as u32
    }

    /// The bitmap in which every slot is taken.
    pub const fn all_slots(self) -> u128 {
        (1 << self.slots()) - 1
    }
}

/// What a page is used for, as its word in the page table tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nothing, or the inside of a run.
    Free,
    /// Slots of a class, for a purpose.
    Slots(Class, Purpose),
    /// The first of a run of this many pages, one object.
    Run(u64),
}

impl Use {
    /// The page-table word.
    pub const fn word(self) -> u64 {
        match self {
            Use::Free => 0,
            Use::Slots(class, purpose) => 1 | (class.0 as u64) << 8 | (purpose as u64) << 16,
            Use::Run(pages) => 2 | pages << 32,
        }
    }

    /// Reads a page-table word, if it is a possible one.
    pub fn from_word(word: u64) -> Option<Self> {
        let used = match word & 0xFF {
            0 => Use::Free,
            1 => Use::Slots(
                Class::from_number(word >> 8 & 0xFF)?,
                *Purpose::ALL.get((word >> 16 & 0xFF) as usize)?,
            ),
            2 if word >> 32 > 0 => Use::Run(word >> 32),
            _ => return None,
        };
        (used.word() == word).then_some(used)
    }
}

/// Where the page table and the pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the page table.
    pub table: u64,
    /// Pages that the table has words for.
    pub capacity: u64,
    /// Offset of page 0.
    pub pages: u64,
}

impl Layout {
    /// Offset of a page's word in the page table.
    #[inline]
    pub const fn entry(&self, page: u64) -> u64 {
        self.table + page * 8
    }

    /// Offset of a page.
    #[inline]
    pub const fn page(&self, page: u64) -> u64 {
        self.pages + page * PAGE
    }

    /// Offset of the bitmap of a page of slots.
    #[inline]
    pub const fn bitmap(&self, page: u64) -> u64 {
        self.page(page) + HEADER
    }

    /// The self-check word of a page of slots: a page in the wrong place is noticed.
    pub const fn page_check(&self, page: u64) -> u64 {
        0x5045_5244_5041_4745 ^ page.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Whole pages in a memory of `len` bytes.
    pub const fn pages_in(&self, len: u64) -> u64 {
        let pages = len.saturating_sub(self.pages) / PAGE;
        if pages < self.capacity { pages } else { self.capacity }
    }

    /// The page that holds `at`, and the offset in it.
    ///
    /// # Errors
    /// `Corrupt` for an offset outside of the pages.
    #[inline]
    pub fn locate(&self, at: u64) -> Result<(u64, u64)> {
        let page = at.wrapping_sub(self.pages) / PAGE;
        if at < self.pages || page >= self.capacity {
            return Err(Error::corrupt("pointer outside of the heap", at));
        }
        Ok((page, at % PAGE))
    }
}

/// Where the checksums of the block at `in_page` are: its column's consistency block and its
/// row's correlation block, as offsets in the page (Archapt, equations 2 and 3, counting columns
/// and rows from 0).
pub const fn checksum_blocks(in_page: u64) -> (u64, u64) {
    let block = in_page / LINE;
    (DATA_BYTES + block / 7 * LINE, DATA_BYTES + 7 * LINE + block % 7 * LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_fit_their_pages() {
        assert_eq!(Class::of(1).unwrap().slot_bytes(), 32);
        assert_eq!(Class::of(33).unwrap().slot_bytes(), 64);
        assert_eq!(Class::of(100).unwrap().slot_bytes(), 128, "two lines, never three");
        assert_eq!(Class::of(3136).unwrap().slots(), 1);
        assert!(Class::of(3137).is_none());
        for number in 0..CLASSES as u64 {
            let class = Class::from_number(number).unwrap();
            assert!(u64::from(class.slots()) * class.slot_bytes() <= DATA_BYTES);
            assert!(class.slots() <= 98);
            for purpose in Purpose::ALL {
                let used = Use::Slots(class, purpose);
                assert_eq!(Use::from_word(used.word()), Some(used));
            }
        }
        assert_eq!(Use::from_word(2), None);
        assert_eq!(Use::from_word(7), None);
    }

    #[test]
    fn checksum_blocks_stay_in_their_places() {
        assert_eq!(checksum_blocks(0), (3136, 3584));
        assert_eq!(checksum_blocks(6 * 64), (3136, 3584 + 6 * 64));
        assert_eq!(checksum_blocks(7 * 64), (3136 + 64, 3584));
        assert_eq!(checksum_blocks(48 * 64 + 63), (3584 - 64, 4032 - 64));
    }
}
