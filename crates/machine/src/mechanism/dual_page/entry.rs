//! Entries of the derivative page table, as they are stored (Table 2 of the paper), and what they take.

use perdura_memory::image::LineWords;

/// Lines of a page: the bits of a vector.
pub(super) const PAGE_LINES: u64 = 64;

/// Bits of an entry's base page index.
pub(super) const INDEX_BITS: u32 = 36;

/// Bits of an entry in the controller: index and valid flag.
pub const CONTROLLER_BITS: u32 = INDEX_BITS + 1;

/// Bits of an entry in DRAM: both vectors.
pub const DRAM_BITS: u32 = 2 * PAGE_LINES as u32;

/// Bits of an entry in the home device: index, checkpoint positions and valid flag. It needs no dirty vector.
pub const HOME_BITS: u32 = CONTROLLER_BITS + PAGE_LINES as u32;

/// Bits of an entry with all its fields, wherever they are.
pub const ENTRY_BITS: u32 = CONTROLLER_BITS + DRAM_BITS;

/// Entries that fit into a line of the home device.
pub(super) const ENTRIES_OF_LINE: u64 = 512 / HOME_BITS as u64;

/// An entry as a context has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredEntry {
    /// The base page, if the entry is valid.
    pub(super) page: Option<u64>,
    /// The lines whose checkpoint is in the derivative page.
    pub(super) checkpoint: u64,
}

/// Puts an entry into a line at `index`: the vectors are its first five words, and the other fields, of 37 bits, the
/// other three.
pub(super) fn put_entry(words: &mut LineWords, index: usize, entry: StoredEntry) {
    words[index] = entry.checkpoint;
    let fields = entry.page.map_or(0, |page| page << 1 | 1);
    let mask = (1_u64 << CONTROLLER_BITS) - 1;
    let (word, shift) = field_place(index);
    let pair = u128::from(words[word]) | u128::from(high(words, word)) << 64;
    let pair = pair & !(u128::from(mask) << shift) | u128::from(fields & mask) << shift;
    words[word] = pair as u64;
    if word < 7 {
        words[word + 1] = (pair >> 64) as u64;
    }
}

/// The entry at `index` of a line.
pub(super) fn entry_in(words: &LineWords, index: usize) -> StoredEntry {
    let (word, shift) = field_place(index);
    let pair = u128::from(words[word]) | u128::from(high(words, word)) << 64;
    let fields = (pair >> shift) as u64 & ((1 << CONTROLLER_BITS) - 1);
    let page = (fields & 1 == 1).then_some(fields >> 1);
    StoredEntry { page, checkpoint: words[index] }
}

fn high(words: &LineWords, word: usize) -> u64 {
    if word < 7 { words[word + 1] } else { 0 }
}

/// The word in which an entry's fields begin, and the bit.
fn field_place(index: usize) -> (usize, u32) {
    let bit = index as u32 * CONTROLLER_BITS;
    (ENTRIES_OF_LINE as usize + (bit / 64) as usize, bit % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables 2 and 3, and 5.5.1: bits of an entry, and bytes of 76,800 entries (300 MB of derivative pages).
    #[test]
    fn sizes_are_the_papers() {
        assert_eq!((CONTROLLER_BITS, DRAM_BITS, HOME_BITS), (37, 128, 101));
        assert_eq!(ENTRY_BITS, 165);
        let entries = 300_f64 * 1024.0 / 4.0;
        assert!((entries - 76_800.0).abs() < 1e-9);
        let kib = |bits: u32| entries * f64::from(bits) / 8.0 / 1024.0;
        let near = |is: f64, paper: f64, digit: f64| (is - paper).abs() <= digit / 2.0;
        assert!(near(kib(CONTROLLER_BITS), 347.0, 1.0), "{}", kib(CONTROLLER_BITS));
        assert!(near(kib(DRAM_BITS) / 1024.0, 1.17, 0.01), "{}", kib(DRAM_BITS) / 1024.0);
        assert!(near(kib(HOME_BITS), 947.0, 1.0), "{}", kib(HOME_BITS));
        assert!(near(kib(ENTRY_BITS) / 1024.0, 1.51, 0.01), "{}", kib(ENTRY_BITS) / 1024.0);
        // Figure 12's caches. The paper has 202 KB for 10,000, and 504 KB for that many vectors beside all indexes.
        let cached = |entries: f64, bits: u32| entries * f64::from(bits) / 8.0 / 1024.0;
        assert!(
            near(cached(40e3, ENTRY_BITS), 806.0, 1.0)
                && near(cached(20e3, ENTRY_BITS), 403.0, 1.0)
        );
        assert!(near(cached(10e3, ENTRY_BITS), 202.0, 2.0));
        assert!(near(kib(CONTROLLER_BITS) + cached(10e3, DRAM_BITS), 504.0, 2.0));
        let saved = 1.0 - f64::from(CONTROLLER_BITS) / f64::from(ENTRY_BITS);
        assert!(near(saved * 100.0, 77.6, 0.1), "{saved}");
    }

    #[test]
    fn five_entries_share_a_line() {
        assert_eq!(ENTRIES_OF_LINE, 5);
        let mut words = [0; 8];
        let entry = |index: u64| StoredEntry {
            page: (index != 2).then_some((1 << INDEX_BITS) - 1 - index),
            checkpoint: u64::MAX - index,
        };
        for round in 0..2 {
            for index in [4, 0, 2, 1, 3] {
                put_entry(&mut words, index as usize, entry(index + round));
            }
            for index in 0..5 {
                assert_eq!(entry_in(&words, index as usize), entry(index + round), "{index}");
            }
        }
        put_entry(&mut words, 3, StoredEntry::default());
        assert_eq!(entry_in(&words, 3), StoredEntry::default());
        assert_eq!((entry_in(&words, 2), entry_in(&words, 4)), (entry(3), entry(5)));
    }
}
