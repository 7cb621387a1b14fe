//! What the mechanism adds to a machine's storage (LOC 4.2, Figure 6b), from the fields' widths.

use super::log::bits;
use crate::MachineConfig;

/// Entries of the transaction state table.
pub const TX_STATE_ENTRIES: u64 = 128;
/// The buffer of transaction dependency pairs, in bytes.
const PAIRS_BYTES: u64 = 32 << 10;

const STATE: u32 = 2;
const PHASE: u32 = 2;
/// `Wrts` counts as far as `TxCnt`.
const WRTS: u32 = bits::TX_CNT;
const TX_DIRTY: u32 = 1;

/// Additional bits of a block's tag in the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheTag {
    /// `TID` and `TxID`, and in the last level `CID` and `TxDirty`.
    pub bits: u32,
}

impl CacheTag {
    /// Of the last level, or of one nearer to a core.
    pub const fn new(last: bool) -> Self {
        let here = bits::TID + bits::TX_ID;
        CacheTag { bits: if last { here + bits::CID + TX_DIRTY } else { here } }
    }
}

/// All additional storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// Tags of all caches, in bits.
    pub tags_bits: u64,
    /// An entry of the transaction state table, in bits.
    pub entry_bits: u32,
    /// The transaction state table, in bytes.
    pub table_bytes: u64,
    /// The buffer of dependency pairs, in bytes.
    pub pairs_bytes: u64,
}

impl Overhead {
    /// Of a machine.
    pub fn of(config: &MachineConfig) -> Self {
        let levels = config.caches.len();
        let tags = config.caches.iter().enumerate().map(|(index, level)| {
            let caches = if level.shared { 1 } else { config.cores.count as u64 };
            level.bytes / 64 * caches * u64::from(CacheTag::new(index + 1 == levels).bits)
        });
        let entry_bits = bits::CID + bits::TID + bits::TX_ID + bits::TX_CNT + STATE + PHASE + WRTS;
        Overhead {
            tags_bits: tags.sum(),
            entry_bits,
            table_bytes: TX_STATE_ENTRIES * u64::from(entry_bits) / 8,
            pairs_bytes: PAIRS_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    /// Figure 6b and 4.2: 9 and 9 bits for a block, 48 for an entry, 768 bytes for the table. For a block of the last
    /// level the figure has 3, 1, 8 and 1 bits, and 12 as their sum.
    #[test]
    fn it_is_as_much_as_the_paper_has() {
        assert_eq!([false, false, true].map(|last| CacheTag::new(last).bits), [9, 9, 13]);
        let mut config = presets::load("loc").expect("a preset");
        config.cores.count = 1;
        let overhead = Overhead::of(&config);
        assert_eq!((overhead.entry_bits, overhead.table_bytes), (48, 768));
        let tags = (32 * 16 + 256 * 16) * 9 + 1024 * 16 * 13;
        assert_eq!((overhead.tags_bits, overhead.pairs_bytes), (tags, 32 << 10));
    }
}
