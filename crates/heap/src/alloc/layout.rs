//! Pages: the contents of their entries in the page table, and where a page's slots are.
//!
//! ```text
//! an entry   word 0   kind (8 bits), class (4), purpose (4);
//!                     pages of a run, or slots 64 and up taken (48)
//!            word 1   slots 0 to 63 taken
//! ```
//! Slots are whole lines (or halves of one) and follow one another, so that an object never touches more lines than it
//! must. Larger objects are runs of whole pages. Only the table says which memory is taken: fresh memory is stored to
//! before its transaction commits, and must not hold anything that recovery reads.

use crate::tx::Purpose;
use perdura_engine::{Error, Result};
use perdura_memory::{LINE, PAGE};

/// Bytes of an entry of the page table.
pub const ENTRY: u64 = 16;
/// The first slot whose bit is in the entry's first word.
const LOW_SLOTS: u32 = 64;
/// The position of that slot's bit in the word.
const SHIFT: u32 = 16;
/// Slots that an entry has bits for.
const MOST_SLOTS: u32 = LOW_SLOTS + u64::BITS - SHIFT;

/// Half lines in a slot of each class. From 1024 bytes on, the classes are the largest slots of which 4, 3, 2 and 1
/// fit into a page.
const HALF_LINES: [u16; 15] = [1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 42, 64, 128];
/// Number of slot classes.
pub const CLASSES: usize = HALF_LINES.len();

/// A class of slots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// The smallest class with slots of at least `len` bytes; `None` if `len` is more than a page.
    #[inline]
    pub fn of(len: u64) -> Option<Self> {
        let index = HALF_LINES.iter().position(|&half| u64::from(half) * (LINE / 2) >= len)?;
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
        HALF_LINES[self.0 as usize] as u64 * (LINE / 2)
    }

    /// Slots in a page.
    pub const fn slots(self) -> u32 {
        let fit = (PAGE / self.slot_bytes()) as u32;
        if fit < MOST_SLOTS { fit } else { MOST_SLOTS }
    }

    /// The bitmap in which every slot is taken.
    pub const fn all_slots(self) -> u128 {
        (1 << self.slots()) - 1
    }
}

/// The use of a page, according to its entry in the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nothing, or the inside of a run.
    Free,
    /// Slots of a class, for a purpose.
    Slots(Class, Purpose),
    /// The first page of a run of this many, which is one object.
    Run(u64),
}

impl Use {
    /// The entry's first word when no slot is taken.
    pub const fn word(self) -> u64 {
        match self {
            Use::Free => 0,
            Use::Slots(class, purpose) => 1 | (class.0 as u64) << 8 | (purpose as u64) << 12,
            Use::Run(pages) => 2 | pages << SHIFT,
        }
    }

    /// Decodes an entry's first word; `None` if it is not valid.
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        match word & 0xFF {
            0 if word == 0 => Some(Use::Free),
            1 => {
                let class = Class::from_number(word >> 8 & 0xF)?;
                let purpose = *Purpose::ALL.get((word >> 12 & 0xF) as usize)?;
                let taken = u128::from(word >> SHIFT) << LOW_SLOTS;
                (taken & !class.all_slots() == 0).then_some(Use::Slots(class, purpose))
            }
            2 if word & 0xFF00 == 0 && word >> SHIFT > 0 => Some(Use::Run(word >> SHIFT)),
            _ => None,
        }
    }
}

/// The bitmap of the slots taken, from the two words of an entry.
pub const fn taken(words: [u64; 2]) -> u128 {
    ((words[0] >> SHIFT) as u128) << LOW_SLOTS | words[1] as u128
}

/// The bit of a slot: the offset of its word in the entry, and its mask.
#[inline]
pub const fn slot_bit(slot: u32) -> (u64, u64) {
    if slot < LOW_SLOTS { (8, 1 << slot) } else { (0, 1 << (slot - LOW_SLOTS + SHIFT)) }
}

/// Where the page table and the pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the page table.
    pub table: u64,
    /// Pages that the table has entries for.
    pub capacity: u64,
    /// Offset of page 0.
    pub pages: u64,
}

impl Layout {
    /// Offset of a page's entry in the page table.
    #[inline]
    pub const fn entry(&self, page: u64) -> u64 {
        self.table + page * ENTRY
    }

    /// Offset of a page.
    #[inline]
    pub const fn page(&self, page: u64) -> u64 {
        self.pages + page * PAGE
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
            return Err(Error::misuse("no page of the pool is", at));
        }
        Ok((page, at % PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_fit_their_pages() {
        assert_eq!(Class::of(1).unwrap().slot_bytes(), 32);
        assert_eq!(Class::of(33).unwrap().slot_bytes(), 64);
        assert_eq!(Class::of(100).unwrap().slot_bytes(), 128, "two lines, never three");
        assert_eq!(Class::of(1088).unwrap().slots(), 3, "records of 1 KB");
        assert_eq!(Class::of(4096).unwrap().slots(), 1);
        assert!(Class::of(4097).is_none());
        for number in 0..CLASSES as u64 {
            let class = Class::from_number(number).unwrap();
            assert!(u64::from(class.slots()) * class.slot_bytes() <= PAGE);
            assert!(class.slots() <= MOST_SLOTS);
            for purpose in Purpose::ALL {
                let used = Use::Slots(class, purpose);
                assert_eq!(Use::from_word(used.word()), Some(used));
            }
        }
        for bad in [2, 7, 1 | 15 << 8, 1 | 5 << 12, 1 | 1 << 8 | 1 << 60, 1 << 16] {
            assert_eq!(Use::from_word(bad), None, "{bad:#x}");
        }
        for slot in 0..MOST_SLOTS {
            let (at, bit) = slot_bit(slot);
            let words = if at == 0 { [1 | bit, 0] } else { [1, bit] };
            assert_eq!(taken(words), 1 << slot);
        }
    }
}
