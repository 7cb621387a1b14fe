//! A transaction's reads: ownership records, with the words that were in them.

use crate::sync::stm::RecordWord;
use perdura_memory::{Memory, Object, Traced};

/// The most entries that have distinct addresses in a simulator, and whose memory is kept.
const KEPT: usize = 1 << 12;
const ENTRY: u64 = size_of::<(u32, RecordWord)>() as u64;

/// The records that were read, each with its word.
pub(super) struct ReadSet {
    entries: Vec<(u32, RecordWord)>,
    own: Object,
}

impl ReadSet {
    pub(super) fn new<M: Memory>(memory: &M) -> Self {
        ReadSet { entries: Vec::with_capacity(64), own: memory.object(KEPT as u64 * ENTRY) }
    }

    fn at(index: usize) -> u64 {
        (index % KEPT) as u64 * ENTRY
    }

    /// Adds a record, unless it is the one that was added last.
    #[inline(always)]
    pub(super) fn add<M: Memory>(&mut self, memory: &M, place: u32, word: RecordWord) {
        if self.entries.last() != Some(&(place, word)) {
            self.entries.push((place, word));
            Traced::new(memory, self.own).wrote(Self::at(self.entries.len() - 1), ENTRY);
        }
    }

    /// All of them, to iterate over.
    #[inline]
    pub(super) fn read<M: Memory>(&self, memory: &M) -> &[(u32, RecordWord)] {
        let bytes = self.entries.len().min(KEPT) as u64 * ENTRY;
        if bytes > 0 {
            Traced::new(memory, self.own).read(0, bytes);
        }
        &self.entries
    }

    /// How many there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        if self.entries.capacity() > KEPT {
            self.entries.shrink_to(KEPT);
        }
    }
}
