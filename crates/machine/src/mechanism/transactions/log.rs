//! The memory log area (LOC 3.2, 4.2): block groups of seven data blocks and one metadata block, in a ring, and the
//! log head.
//!
//! What always holds:
//! - A group's metadata is durable no earlier than its data: a group with metadata is whole.
//! - Groups are numbered (`SID`) without gaps, and a number determines the place: groups go round the area, so that its
//!   blocks wear evenly. Heads go round [`HEADS`] lines, which wear faster.
//! - Groups before the head's `SID` are dead. Their places are reused only once that head is durable.
//! - All that a head says is true from the time on at which its write may begin, and later heads begin no earlier: so
//!   whichever of them a power cut leaves says nothing that is not so.

use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::Home;
use perdura_memory::image::LineWords;
use std::collections::VecDeque;
use std::ops::Range;

/// Data blocks of a group.
pub(super) const DATA: u64 = 7;
const GROUP: u64 = DATA + 1;
/// The word of a metadata block that has the group's `SID`.
const SID: usize = 7;
/// Lines that heads go round.
const HEADS: u64 = 8;

/// Bits of the fields (Figure 6b; `ADDR`: 3.2).
pub(super) mod bits {
    pub(in crate::mechanism) const CID: u32 = 3;
    pub(in crate::mechanism) const TID: u32 = 1;
    pub(in crate::mechanism) const TX_ID: u32 = 8;
    pub(in crate::mechanism) const TX_CNT: u32 = 16;
    pub(in crate::mechanism) const ADDR: u32 = 32;
}

/// A block's entry in the metadata (BLK-TAG); for a block of pairs (LOC 3.3) it says only that it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockTag {
    /// The core's number in `CID` bits: nothing depends on it.
    pub(super) core: u64,
    /// `TxID`.
    pub(super) id: u8,
    /// `TxCnt`, or 0.
    pub(super) count: u16,
    /// `ADDR`: the home line.
    pub(super) line: u32,
    /// Whether the block has dependency pairs.
    pub(super) pairs: bool,
}

/// Bits that the fields leave free: the entry is used; the block has pairs.
const IS: u64 = 1 << 63;
const PAIRS: u64 = 1 << 62;

impl BlockTag {
    pub(super) fn word(self) -> u64 {
        let core = self.core % (1 << bits::CID);
        // One thread for each core: `TID` is 0.
        let fields = (core << bits::TID) << bits::TX_ID | u64::from(self.id);
        let fields = (fields << bits::TX_CNT | u64::from(self.count)) << bits::ADDR;
        fields | u64::from(self.line) | IS | if self.pairs { PAIRS } else { 0 }
    }

    pub(super) fn of(word: u64) -> Option<Self> {
        let above = word >> bits::ADDR;
        (word & IS != 0).then_some(BlockTag {
            line: word as u32,
            count: above as u16,
            id: (above >> bits::TX_CNT) as u8,
            core: above >> (bits::TX_CNT + bits::TX_ID + bits::TID) & ((1 << bits::CID) - 1),
            pairs: word & PAIRS != 0,
        })
    }
}

/// A transaction dependency pair `<Ta, Tb, n>` (LOC 3.3), as it is logged. It also has Ta's `TxCnt`, since no block in
/// the log has that if all blocks of Ta are overlapped, a case that the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DependencyPair {
    pub(super) earlier: u8,
    pub(super) later: u8,
    pub(super) n: u16,
    pub(super) count: u16,
}

/// Pairs of a block.
pub(super) const PAIRS_OF_A_BLOCK: usize = 8;

impl DependencyPair {
    pub(super) fn word(self) -> u64 {
        let ids = u64::from(self.earlier) << 8 | u64::from(self.later);
        IS | (ids << 16 | u64::from(self.n)) << 16 | u64::from(self.count)
    }

    pub(super) fn of(word: u64) -> Option<Self> {
        (word & IS != 0).then_some(DependencyPair {
            earlier: (word >> 40) as u8,
            later: (word >> 32) as u8,
            n: (word >> 16) as u16,
            count: word as u16,
        })
    }
}

/// The log head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogHead {
    /// Number of heads before this one.
    pub(super) sequence: u64,
    /// The first group that counts.
    pub(super) start: u64,
    /// The number of the first transaction that counts.
    pub(super) first: u64,
    /// Transactions below this number have a commit record, in mechanisms that use them.
    pub(super) recorded: u64,
    /// Blocks in a non-volatile cache of transactions below this number are dead.
    pub(super) kept: u64,
}

impl LogHead {
    fn words(self) -> LineWords {
        [self.sequence, self.start, self.first, self.recorded, self.kept, 0, 0, 0]
    }

    fn of(words: &LineWords) -> Self {
        let [sequence, start, first, recorded, kept, ..] = *words;
        LogHead { sequence, start, first, recorded, kept }
    }
}

/// Layout of the log.
#[derive(Clone, Debug)]
pub(in crate::mechanism) struct LogArea {
    heads: u64,
    groups: u64,
}

impl LogArea {
    /// Lines for a log of `bytes` bytes.
    pub(in crate::mechanism) fn lines(bytes: u64) -> u64 {
        HEADS + bytes / 64 / GROUP * GROUP
    }

    pub(super) fn new(own: &Range<u64>) -> Self {
        LogArea { heads: own.start, groups: (own.end - own.start - HEADS) / GROUP }
    }

    /// The first data block of a group.
    fn group(&self, sid: u64) -> u64 {
        self.heads + HEADS + sid % self.groups * GROUP
    }

    fn head(&self, sequence: u64) -> u64 {
        self.heads + sequence % HEADS
    }

    /// The newest head.
    pub(super) fn newest(&self, line: impl Fn(u64) -> LineWords) -> LogHead {
        let heads = (0..HEADS).map(|place| LogHead::of(&line(self.heads + place)));
        let newest = heads.max_by_key(|head| head.sequence).unwrap_or_default();
        // In a new machine the head, and the metadata of every group, are zero.
        LogHead { start: newest.start.max(1), ..newest }
    }
}

/// What a mutant leaves out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    /// Metadata does not wait for its data.
    pub(super) order: bool,
}

/// A truncation: groups before `start`, and transactions before `first`, are dead from `durable` on.
#[derive(Clone, Copy, Debug)]
struct LogMove {
    durable: Ps,
    start: u64,
    first: u64,
}

/// The log of a running machine.
#[derive(Debug)]
pub(super) struct TransactionLog {
    area: LogArea,
    left_out: LeftOut,
    head: LogHead,
    /// When the head of the last truncation is durable.
    moved: Ps,
    /// No head is written before this time: what the last one says may not be so.
    heads_from: Ps,
    /// Heads of truncations whose places may still be waited for, in their order.
    moves: VecDeque<LogMove>,
    /// The next group; the tags of its blocks so far, and when these blocks are durable.
    sid: u64,
    tags: Vec<BlockTag>,
    data: Ps,
    /// When everything written since the last head is durable.
    durable: Ps,
    pub(super) blocks: u64,
    pub(super) metadata: u64,
}

impl TransactionLog {
    pub(super) fn new(area: LogArea, hardware: &Hardware, left_out: LeftOut) -> Self {
        let head = area.newest(|line| hardware.home_line(line));
        TransactionLog {
            area,
            left_out,
            head,
            moved: Ps::default(),
            heads_from: Ps::default(),
            moves: VecDeque::from([LogMove {
                durable: Ps::default(),
                start: head.start,
                first: head.first,
            }]),
            sid: head.start,
            tags: Vec::with_capacity(DATA as usize),
            data: Ps::default(),
            durable: Ps::default(),
            blocks: 0,
            metadata: 0,
        }
    }

    pub(super) fn head(&self) -> LogHead {
        self.head
    }

    /// Number of blocks that still fit.
    pub(super) fn room(&self) -> u64 {
        let groups = (self.head.start + self.area.groups).saturating_sub(self.sid + 1);
        groups * DATA
    }

    /// Whether less than half of it is free.
    pub(super) fn is_filling(&self) -> bool {
        self.sid - self.head.start > self.area.groups / 2
    }

    /// Writes a block, not before `from`. Returns its line. There must be [`room`](Self::room).
    pub(super) fn append(
        &mut self,
        hardware: &mut Hardware,
        tag: BlockTag,
        words: LineWords,
        from: Ps,
    ) -> u64 {
        debug_assert!(self.sid < self.head.start + self.area.groups, "the log has room");
        let line = self.area.group(self.sid) + self.tags.len() as u64;
        let from = self.free_from(from);
        let durable = hardware.write_home("log block", line, words, from);
        self.data = self.data.max(durable);
        self.tags.push(tag);
        self.blocks += 1;
        if self.tags.len() as u64 == DATA {
            self.seal(hardware, from);
        }
        line
    }

    /// Writes the metadata of a group that is not full.
    pub(super) fn seal(&mut self, hardware: &mut Hardware, from: Ps) {
        if self.tags.is_empty() {
            return;
        }
        let mut words = [0; 8];
        for (word, tag) in words.iter_mut().zip(self.tags.drain(..)) {
            *word = tag.word();
        }
        words[SID] = self.sid;
        let (from, line) = (self.free_from(from), self.area.group(self.sid) + DATA);
        let durable = if self.left_out.order {
            hardware.write_home("log metadata", line, words, from)
        } else {
            hardware.write_home_behind("log metadata", line, words, (from, self.data))
        };
        self.durable = self.durable.max(durable).max(self.data);
        (self.data, self.sid) = (Ps::default(), self.sid + 1);
        self.metadata += 1;
    }

    /// When everything sealed so far is durable.
    pub(super) fn durable(&self, now: Ps) -> Ps {
        self.durable.max(now)
    }

    /// The number of the next group.
    pub(super) fn end(&self) -> u64 {
        self.sid
    }

    /// When the next group's place can be used: the head behind the group that had it before is durable.
    fn free_from(&mut self, from: Ps) -> Ps {
        let Some(before) = self.sid.checked_sub(self.area.groups) else { return from };
        // Later groups wait for later heads.
        while self.moves.len() > 1 && self.moves[0].start <= before {
            self.moves.pop_front();
        }
        from.max(self.moves[0].durable)
    }

    /// Transactions below this number are durably dead at `now`; and when those below a later number are, if that is
    /// known.
    pub(super) fn dead(&self, now: Ps) -> (u64, Option<Ps>) {
        let later = self.moves.partition_point(|one| one.durable <= now);
        let first = later.checked_sub(1).map_or(0, |last| self.moves[last].first);
        (first, self.moves.get(later).map(|one| one.durable))
    }

    /// Records, not before `from`, that all transactions below `recorded` are committed. Returns when that is durable.
    pub(super) fn record(&mut self, hardware: &mut Hardware, recorded: u64, from: Ps) -> Ps {
        let head = LogHead { sequence: self.head.sequence + 1, recorded, ..self.head };
        self.write_head(hardware, "commit record", head, from)
    }

    /// As [`record`](Self::record), in non-volatile storage, durable at `durable`. If the log is empty, the next
    /// transaction is the first one that counts in it.
    pub(super) fn record_kept(&mut self, hardware: &mut Hardware, recorded: u64, durable: Ps) {
        let first = if self.is_empty() { recorded } else { self.head.first };
        self.head = LogHead { sequence: self.head.sequence + 1, recorded, first, ..self.head };
        let line = self.area.head(self.head.sequence);
        hardware.keep("commit bit", line, self.head.words(), durable);
    }

    /// When the head of the last truncation is durable.
    pub(super) fn moved(&self) -> Ps {
        self.moved
    }

    /// Whether nothing is logged.
    pub(super) fn is_empty(&self) -> bool {
        self.sid == self.head.start && self.tags.is_empty()
    }

    /// Makes everything logged so far dead, not before `from`; the next transaction has the number `first`. Returns
    /// when that is durable.
    pub(super) fn truncate(&mut self, hardware: &mut Hardware, first: u64, from: Ps) -> Ps {
        self.durable = Ps::default();
        self.truncate_before(hardware, (self.sid, first), from)
    }

    /// Makes the groups before `start`, which are those of transactions before `first`, dead, not before `from`. Returns
    /// when that is durable.
    pub(super) fn truncate_before(
        &mut self,
        hardware: &mut Hardware,
        (start, first): (u64, u64),
        from: Ps,
    ) -> Ps {
        // A head overtaken by the next one would free groups too early.
        let from = from.max(self.moved);
        let head = LogHead { sequence: self.head.sequence + 1, start, first, ..self.head };
        self.moved = self.write_head(hardware, "log head", head, from);
        self.moves.push_back(LogMove { durable: self.moved, start, first });
        self.moved
    }

    fn write_head(
        &mut self,
        hardware: &mut Hardware,
        name: &'static str,
        head: LogHead,
        from: Ps,
    ) -> Ps {
        self.head = head;
        self.heads_from = self.heads_from.max(from);
        let line = self.area.head(head.sequence);
        hardware.write_home(name, line, head.words(), self.heads_from)
    }
}

/// A log as a power cut has left it.
pub(super) struct LogAfterCut {
    area: LogArea,
    pub(super) head: LogHead,
    /// Blocks, each with its line, in the order of appending.
    pub(super) blocks: Vec<(BlockTag, u64)>,
    /// The first number that no group has.
    next: u64,
}

impl LogAfterCut {
    /// Reads it.
    pub(super) fn new(home: &Home<'_>, own: &Range<u64>) -> Self {
        let area = LogArea::new(own);
        let head = area.newest(|line| home.line(line));
        let (mut next, mut groups) = (head.start, Vec::new());
        for place in 0..area.groups {
            let first = area.group(place);
            let metadata = home.line(first + DATA);
            let sid = metadata[SID];
            // From an older lap.
            if sid < head.start || sid % area.groups != place {
                continue;
            }
            next = next.max(sid + 1);
            groups.push((sid, first, metadata));
        }
        groups.sort_unstable_by_key(|(sid, ..)| *sid);
        let tagged = groups.iter().flat_map(|(_, first, metadata)| {
            let tags = metadata[..SID].iter().map(|word| BlockTag::of(*word));
            tags.zip(*first..).filter_map(|(tag, line)| Some((tag?, line)))
        });
        LogAfterCut { blocks: tagged.collect(), area, head, next }
    }

    /// Makes all of it dead; the next transaction has the number `first`.
    pub(super) fn truncate(&self, home: &mut Home<'_>, first: u64) {
        let sequence = self.head.sequence + 1;
        let head = LogHead { sequence, start: self.next, first, recorded: first, kept: first };
        home.put(self.area.head(sequence), &head.words());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_as_wide_as_the_paper_has_it() {
        let width = bits::CID + bits::TID + bits::TX_ID + bits::TX_CNT + bits::ADDR;
        assert_eq!(width, 60);
        let tag = BlockTag { core: 7, id: 255, count: 40_000, line: u32::MAX, pairs: true };
        assert_eq!(BlockTag::of(tag.word()), Some(tag));
        assert_eq!(BlockTag::of(BlockTag::default().word()), Some(BlockTag::default()));
        assert_eq!((BlockTag::of(0), DependencyPair::of(0)), (None, None));
        let pair = DependencyPair { earlier: 200, later: 3, n: 65_535, count: 1 };
        assert_eq!(DependencyPair::of(pair.word()), Some(pair));
    }
}
