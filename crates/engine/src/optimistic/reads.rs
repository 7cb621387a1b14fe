//! A transaction's reads: ownership records, with the words that were in them.

use crate::sync::stm::RecordWord;
use perdura_memory::{Memory, Object, Traced};

/// The first reads are in an array of this many entries, without the checks of a vector.
const FEW: usize = 256;
/// The most further entries that have distinct addresses in a simulator, and whose memory is kept.
const KEPT: usize = 1 << 12;
const ENTRY: u64 = size_of::<Read>() as u64;

/// A record that was read, and its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) place: u32,
    pub(super) word: RecordWord,
}

/// Of no record.
const NOTHING: Read = Read { place: u32::MAX, word: RecordWord::NONE };

/// The records that were read, each with its word.
pub(super) struct ReadSet {
    /// How many there are, one more than reads: the first one is of no record.
    used: usize,
    /// From this many on they are in `more`, or the set is full.
    room: usize,
    /// The most reads, from which on the set is full.
    most: usize,
    few: Box<[Read; FEW]>,
    more: Vec<Read>,
    own: Object,
}

impl ReadSet {
    pub(super) fn new<M: Memory>(memory: &M) -> Self {
        ReadSet {
            used: 1,
            room: FEW,
            most: usize::MAX,
            few: Box::new([NOTHING; FEW]),
            more: Vec::new(),
            own: memory.object((FEW + KEPT) as u64 * ENTRY),
        }
    }

    fn at(index: usize) -> u64 {
        if index < FEW + KEPT { index as u64 * ENTRY } else { (FEW + index % KEPT) as u64 * ENTRY }
    }

    /// Sets the number of reads from which on the set is full; it has none yet.
    #[inline(always)]
    pub(super) fn set_most(&mut self, most: usize) {
        if self.most != most {
            self.most = most;
            self.room = FEW.min(most.max(1));
        }
    }

    /// Whether it has as many reads as it may.
    pub(super) fn is_full(&self) -> bool {
        self.used + self.more.len() > self.most
    }

    /// Adds a record, unless it is the one that was added last. Not if there are many reads, or more than the set may
    /// have: returns whether it was.
    #[inline(always)]
    pub(super) fn add_at_once<M: Memory>(
        &mut self,
        memory: &M,
        place: u32,
        word: RecordWord,
    ) -> bool {
        let read = Read { place, word };
        let used = self.used;
        if used >= self.room {
            return false;
        }
        if self.few[(used - 1) % FEW] != read {
            self.few[used % FEW] = read;
            self.used = used + 1;
            Traced::new(memory, self.own).wrote(Self::at(used), ENTRY);
        }
        true
    }

    /// Adds a record, however many there are.
    #[inline(never)]
    pub(super) fn add<M: Memory>(&mut self, memory: &M, place: u32, word: RecordWord) {
        if self.add_at_once(memory, place, word) {
            return;
        }
        let read = Read { place, word };
        if *self.more.last().unwrap_or(&self.few[self.used - 1]) == read {
            return;
        }
        if self.used < FEW {
            self.few[self.used] = read;
            self.used += 1;
        } else {
            self.more.push(read);
        }
        let count = self.used + self.more.len();
        Traced::new(memory, self.own).wrote(Self::at(count - 1), ENTRY);
    }

    /// Whether `holds` is true of all of them.
    #[inline(always)]
    pub(super) fn all<M: Memory>(&self, memory: &M, mut holds: impl FnMut(&Read) -> bool) -> bool {
        let own = Traced::new(memory, self.own);
        own.read(ENTRY, (self.used - 1) as u64 * ENTRY);
        let few = &self.few[1..self.used.min(FEW)];
        few.iter().all(&mut holds) && (self.more.is_empty() || self.all_of_more(own, holds))
    }

    #[inline(never)]
    fn all_of_more<M: Memory>(&self, own: Traced<'_, M>, holds: impl FnMut(&Read) -> bool) -> bool {
        own.read(Self::at(FEW), self.more.len().min(KEPT) as u64 * ENTRY);
        self.more.iter().all(holds)
    }

    /// Forgets all.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.used = 1;
        if !self.more.is_empty() {
            self.clear_more();
        }
    }

    #[inline(never)]
    fn clear_more(&mut self) {
        self.more.clear();
        self.more.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    /// All reads are there, but for those that repeat the one before, however many may be added at once.
    #[test]
    fn keeps_reads_in_their_order() {
        let ram = Ram::new(64);
        for (most, count) in [(usize::MAX, 1000), (3, 10), (300, 400), (1, 2), (0, 1)] {
            let mut reads = ReadSet::new(&ram);
            for _ in 0..2 {
                reads.set_most(most);
                for place in 0..count {
                    for _ in 0..2 {
                        if !reads.add_at_once(&ram, place, RecordWord::NONE) {
                            reads.add(&ram, place, RecordWord::NONE);
                        }
                    }
                    assert_eq!(reads.is_full(), place as usize + 1 >= most);
                }
                let mut next = 0;
                let is_next = |read: &Read| {
                    next += 1;
                    read.place == next - 1
                };
                assert!(reads.all(&ram, is_next));
                assert_eq!(next, count);
                reads.clear();
                assert!(reads.all(&ram, |_| false) && (most == 0 || !reads.is_full()));
            }
        }
    }
}
