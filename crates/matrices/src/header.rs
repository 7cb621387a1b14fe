//! The header block of a page: which blocks its checksums cover, before and after their last
//! change.
//!
//! ```text
//! words 0 to 3   a slot: check, before, now, sequence
//! words 4 to 7   another
//! ```
//! The slots are written in turn. The check reveals a torn slot, and then the other slot still has
//! the state before, which still holds: the checksums are not changed until the new slot is durable.
//! With a single slot, a torn header would uncover blocks that nothing else protects. The check is
//! seeded with a salt and the page's offset.

use perdura_memory::{LINE, Memory, PAGE, WORD};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Every block of a page.
pub const ALL: u64 = (1 << 49) - 1;
/// Where it is in a page.
const AT: u64 = PAGE - LINE;
const SLOT: u64 = LINE / 2;

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Cells that the sums covered before their last change.
    pub(super) before: u64,
    /// Cells that they cover after it.
    pub(super) now: u64,
    sequence: u64,
    slot: u64,
}

impl Header {
    /// The header of the page at `page`, if it has one.
    pub(super) fn read<M: Memory>(memory: &M, salt: u64, page: u64) -> Option<Self> {
        let slots = (0..2).filter_map(|slot| Self::read_slot(memory, salt, page, slot));
        slots.max_by_key(|header| header.sequence)
    }

    fn read_slot<M: Memory>(memory: &M, salt: u64, page: u64, slot: u64) -> Option<Self> {
        let at = page + AT + slot * SLOT;
        let [check, before, now, sequence] =
            std::array::from_fn(|word| memory.load(at + word as u64 * WORD));
        let whole =
            check == seal(salt, page, [before, now, sequence]) && (before | now) & !ALL == 0;
        whole.then_some(Header { before, now, sequence, slot })
    }

    /// Announces a change, in the slot that does not hold `current`, and writes it back.
    pub(super) fn announce<M: Memory>(
        memory: &M,
        salt: u64,
        page: u64,
        current: Option<Self>,
        now: u64,
    ) {
        let (before, sequence, slot) = match current {
            Some(header) => (header.now, header.sequence + 1, 1 - header.slot),
            None => (0, 1, 0),
        };
        let at = page + AT + slot * SLOT;
        let words = [before, now, sequence];
        memory.store(at, seal(salt, page, words));
        for (index, word) in words.into_iter().enumerate() {
            memory.store(at + (index as u64 + 1) * WORD, word);
        }
        memory.write_back(page + AT, LINE);
    }

    /// Makes both slots of a page invalid, the older first: it must not be the last valid one.
    pub(super) fn discard<M: Memory>(memory: &M, salt: u64, page: u64) {
        let newer = Self::read(memory, salt, page).map_or(0, |header| header.slot);
        for slot in [1 - newer, newer] {
            memory.store(page + AT + slot * SLOT, 0);
        }
        memory.write_back(page + AT, LINE);
    }
}

fn seal(salt: u64, page: u64, words: [u64; 3]) -> u64 {
    // Never 0, so that zero always invalidates.
    xxh3_64_with_seed(bytemuck::cast_slice(&words), salt ^ page) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::{Domain, Reference};

    #[test]
    fn a_torn_slot_leaves_the_other() {
        let memory = Reference::new(PAGE, Domain::Transient);
        assert_eq!(Header::read(&memory, 1, 0), None);
        let mut told = Vec::new();
        for now in [5, 7, 2, 0, 1 << 48] {
            let current = Header::read(&memory, 1, 0);
            Header::announce(&memory, 1, 0, current, now);
            told.push(Header::read(&memory, 1, 0).map(|header| (header.before, header.now)));
            memory.fence();
        }
        let expected = [(0, 5), (5, 7), (7, 2), (2, 0), (0, 1 << 48)].map(Some);
        assert_eq!(told, expected);
        let whole = std::array::from_fn::<u64, 8, _>(|word| memory.load(AT + word as u64 * 8));
        for torn in 0..8 {
            let at = AT + torn * 8;
            memory.store(at, whole[torn as usize] ^ 1 << 40);
            let header = Header::read(&memory, 1, 0).unwrap();
            let known = [(2, 0), (0, 1 << 48)].contains(&(header.before, header.now));
            assert!(known, "word {torn}");
            memory.store(at, whole[torn as usize]);
        }
        assert_eq!(Header::read(&memory, 2, 0), None, "another salt");
        Header::discard(&memory, 1, 0);
        assert_eq!(Header::read(&memory, 1, 0), None);
    }
}
