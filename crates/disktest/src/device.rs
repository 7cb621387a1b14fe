//! What a block device may hold of a file after a power cut.
//!
//! The page cache may write a block back at any time, as the block is then. A successful sync has made every block
//! durable as it was when the sync began, or later, unless the block was *clean*: that includes the blocks that a
//! failed sync covered, whose error the kernel reports once and which it does not write again until they are written to
//! again.
//!
//! What always holds of a [`DeviceState`]: of each block the device holds `base`, possibly with the first few of its
//! pending pieces applied. Blocks are independent of one another.

use crate::trace::Trace;
use perdura_memory::mapped::record::Record;
use std::collections::BTreeMap;
use std::ops::Range;

/// The part of a write that lies in one block.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The write's record.
    pub record: usize,
    /// Its offset in the file.
    at: usize,
    /// Its bytes' place in the trace.
    data: Range<usize>,
    /// Whether a sync that was to cover it has failed.
    orphan: bool,
}

/// The states that a device may be in.
#[derive(Clone, Debug)]
pub struct DeviceState {
    /// Bytes that the device writes whole or not at all.
    unit: usize,
    base: Vec<u8>,
    pending: BTreeMap<usize, Vec<Piece>>,
    /// The file's durable length, and its later lengths with their records.
    length: u64,
    lengths: Vec<(usize, u64)>,
    /// Where the unfinished sync began, if there is one.
    sync: Option<usize>,
    /// Records seen.
    records: usize,
}

impl DeviceState {
    /// For a device that writes `unit` bytes at a time, before any record.
    pub fn new(unit: usize) -> Self {
        DeviceState {
            unit,
            base: Vec::new(),
            pending: BTreeMap::new(),
            length: 0,
            lengths: Vec::new(),
            sync: None,
            records: 0,
        }
    }

    /// Processes records until `records` have been seen.
    pub fn advance(&mut self, trace: &Trace, records: usize) {
        while self.records < records {
            let number = self.records;
            match trace.record(number) {
                Record::Opened(len) => self.opened(number, len),
                Record::Write(at, bytes) => self.write(trace, number, at as usize, bytes.len()),
                Record::Sync => self.sync = Some(number),
                Record::Synced(true) => self.synced(trace),
                Record::Synced(false) => self.sync_failed(),
                Record::Length(len) => self.grown(number, len),
            }
            self.records += 1;
        }
    }

    /// Bytes that the device writes whole or not at all.
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Blocks that may have several contents, with the pieces written to them since.
    pub fn pending(&self) -> &BTreeMap<usize, Vec<Piece>> {
        &self.pending
    }

    /// Lengths that the file may have, the durable one first.
    pub fn lengths(&self) -> Vec<u64> {
        let later = self.lengths.iter().map(|(_, len)| *len);
        std::iter::once(self.length).chain(later).collect()
    }

    /// The file with `length` bytes, with as many of each block's first pieces as `pieces` says.
    pub fn image(&self, trace: &Trace, length: u64, pieces: &BTreeMap<usize, usize>) -> Vec<u8> {
        let mut image = self.base.clone();
        for (block, pending) in &self.pending {
            let kept = pieces.get(block).copied().unwrap_or(0);
            pending[..kept].iter().for_each(|piece| piece.apply(trace, &mut image));
        }
        image.resize(length as usize, 0);
        image
    }

    /// A process opened the file: a sync that the previous one began never ends. A new file is durable, as the pool
    /// makes it so before use.
    fn opened(&mut self, number: usize, len: u64) {
        self.sync = None;
        if number == 0 {
            self.length = len;
        }
        self.reach(len as usize);
    }

    fn grown(&mut self, number: usize, len: u64) {
        self.lengths.push((number, len));
        self.reach(len as usize);
    }

    fn reach(&mut self, len: usize) {
        let len = self.base.len().max(len);
        self.base.resize(len, 0);
    }

    fn write(&mut self, trace: &Trace, record: usize, at: usize, len: usize) {
        self.reach(at + len);
        let data = trace.data(record);
        let (mut from, end) = (at, at + len);
        while from < end {
            let block = from / self.unit;
            let to = end.min((block + 1) * self.unit);
            let data = data.start + from - at..data.start + to - at;
            let piece = Piece { record, at: from, data, orphan: false };
            self.pending.entry(block).or_default().push(piece);
            from = to;
        }
    }

    fn synced(&mut self, trace: &Trace) {
        let Some(begun) = self.sync.take() else { return };
        let base = &mut self.base;
        self.pending.retain(|_, pieces| {
            let covered = |piece: &Piece| piece.record < begun && !piece.orphan;
            // With the last covered piece, the block's contents then are durable, including earlier orphans.
            let count = pieces.iter().rposition(covered).map_or(0, |last| last + 1);
            pieces.drain(..count).for_each(|piece| piece.apply(trace, base));
            !pieces.is_empty()
        });
        let covered = self.lengths.iter().take_while(|(record, _)| *record < begun).count();
        if let Some((_, length)) = self.lengths.drain(..covered).next_back() {
            self.length = length;
        }
    }

    fn sync_failed(&mut self) {
        let Some(begun) = self.sync.take() else { return };
        let pieces = self.pending.values_mut().flatten();
        pieces.filter(|piece| piece.record < begun).for_each(|piece| piece.orphan = true);
    }
}

impl Piece {
    fn apply(&self, trace: &Trace, image: &mut [u8]) {
        let bytes = trace.bytes(self.data.clone());
        image[self.at..self.at + bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn trace(records: &[Record<'_>]) -> Trace {
        Trace::new(records.iter().flat_map(Record::encode).collect())
    }

    /// All images of two blocks of 64 bytes, by the first byte of each.
    fn images(records: &[Record<'_>]) -> BTreeSet<[u8; 2]> {
        let trace = trace(records);
        let mut state = DeviceState::new(64);
        state.advance(&trace, trace.len());
        let count = |block| state.pending().get(&block).map_or(0, Vec::len);
        let mut images = BTreeSet::new();
        for first in 0..=count(0) {
            for second in 0..=count(1) {
                let pieces = BTreeMap::from([(0, first), (1, second)]);
                let image = state.image(&trace, 128, &pieces);
                images.insert([image[0], image[64]]);
            }
        }
        images
    }

    const OPENED: Record<'static> = Record::Opened(128);
    const LEFT: Record<'static> = Record::Write(0, &[1]);
    const RIGHT: Record<'static> = Record::Write(64, &[1]);

    #[test]
    fn unsynced_writes_may_be_lost() {
        assert_eq!(images(&[OPENED, LEFT]), BTreeSet::from([[0, 0], [1, 0]]));
        let both = [OPENED, LEFT, Record::Sync, RIGHT];
        assert_eq!(images(&both), BTreeSet::from([[0, 0], [0, 1], [1, 0], [1, 1]]));
        let again = [OPENED, LEFT, Record::Write(0, &[2])];
        assert_eq!(images(&again), BTreeSet::from([[0, 0], [1, 0], [2, 0]]));
    }

    #[test]
    fn a_sync_covers_what_was_written_before_it_began() {
        let synced = [OPENED, LEFT, Record::Sync, RIGHT, Record::Synced(true)];
        assert_eq!(images(&synced), BTreeSet::from([[1, 0], [1, 1]]));
        // The process died in the sync: the next process's sync covers everything that it finds.
        let died = [OPENED, LEFT, Record::Sync, OPENED, RIGHT, Record::Sync];
        assert_eq!(images(&died).len(), 4);
        let died = [&died[..], &[Record::Synced(true)]].concat();
        assert_eq!(images(&died), BTreeSet::from([[1, 1]]));
    }

    #[test]
    fn later_syncs_do_not_repair_failed_ones() {
        let failed = [OPENED, LEFT, Record::Sync, Record::Synced(false)];
        let later = [RIGHT, Record::Sync, Record::Synced(true)];
        let found = images(&[&failed[..], &later].concat());
        assert_eq!(found, BTreeSet::from([[0, 1], [1, 1]]), "a later sync does not help");
        let again = [Record::Write(1, &[5]), Record::Sync, Record::Synced(true)];
        let found = images(&[&failed[..], &again].concat());
        assert_eq!(found, BTreeSet::from([[1, 0]]), "the block as a whole is written");
    }

    #[test]
    fn the_length_is_the_synced_one_or_a_later_one() {
        let records = [OPENED, Record::Length(256), Record::Sync, Record::Length(512)];
        let mut all = records.to_vec();
        all.push(Record::Synced(true));
        let trace = trace(&all);
        let mut state = DeviceState::new(512);
        state.advance(&trace, records.len());
        assert_eq!(state.lengths(), [128, 256, 512]);
        state.advance(&trace, all.len());
        assert_eq!(state.lengths(), [256, 512]);
    }
}
