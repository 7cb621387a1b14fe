//! A recorded trace, in memory; and how its end is repaired after a process was killed.
//!
//! What always holds after [`settle`]: replaying the trace gives exactly what the page cache holds of the file.

use crate::{Outcome, Trouble};
use perdura_memory::mapped::record::Record;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A whole trace.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<usize>,
}

impl Trace {
    /// From the contents of a trace file; a partial record at its end is left out.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        let (mut ends, mut at) = (Vec::new(), 0);
        while let Some((_, len)) = Record::decode(&bytes[at..]) {
            at += len;
            ends.push(at);
        }
        bytes.truncate(at);
        Trace { bytes, ends }
    }

    /// Reads a trace file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path) -> Outcome<Self> {
        Ok(Trace::new(std::fs::read(path).map_err(Trouble::at(path))?))
    }

    /// Records in it.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The record with this number, counted from 0.
    ///
    /// # Panics
    /// When there is no such record.
    pub fn record(&self, number: usize) -> Record<'_> {
        let (record, _) = Record::decode(&self.bytes[self.start(number)..]).expect("a record");
        record
    }

    /// Bytes of the trace's first `records` records: a position to compare acknowledgements with.
    pub fn position(&self, records: usize) -> u64 {
        self.start(records) as u64
    }

    /// How many records end at or before `position`.
    pub fn records_until(&self, position: u64) -> usize {
        self.ends.partition_point(|end| *end as u64 <= position)
    }

    /// The bytes at `range`, as given by [`data`](Self::data).
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The place in the trace of the bytes of the write with this number.
    pub fn data(&self, number: usize) -> Range<usize> {
        let end = self.ends[number];
        match self.record(number) {
            Record::Write(_, bytes) => end - bytes.len()..end,
            _ => end..end,
        }
    }

    fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// The contents of the page cache after all records.
    pub fn visible(&self) -> Vec<u8> {
        let mut visible = Vec::new();
        for number in 0..self.len() {
            match self.record(number) {
                Record::Opened(len) | Record::Length(len) => {
                    let len = visible.len().max(len as usize);
                    visible.resize(len, 0);
                }
                Record::Write(at, bytes) => {
                    let end = at as usize + bytes.len();
                    let len = visible.len().max(end);
                    visible.resize(len, 0);
                    visible[at as usize..end].copy_from_slice(bytes);
                }
                Record::Sync | Record::Synced(_) => {}
            }
        }
        visible
    }
}

/// Makes the trace at `path` agree with the file of the pool, whose process is gone: removes a partial record from its
/// end, and records how much of the last write was done.
///
/// # Errors
/// When the files cannot be used; when they differ elsewhere, which would be a bug of the recorder.
pub fn settle(path: &Path, pool: &Path) -> Outcome {
    let trouble = Trouble::at(path);
    let trace = Trace::read(path)?;
    let file = OpenOptions::new().write(true).open(path).map_err(&trouble)?;
    file.set_len(trace.position(trace.len())).map_err(&trouble)?;
    let visible = trace.visible();
    let found = std::fs::read(pool).map_err(Trouble::at(pool))?;
    if found.len() < visible.len() {
        return Err(differs(found.len()));
    }
    let open = (0..trace.len()).rev().find_map(|number| match trace.record(number) {
        Record::Write(at, bytes) => Some((number, at as usize, bytes.len())),
        _ => None,
    });
    let (number, at, len) = open.unwrap_or((0, 0, 0));
    let ambiguous = at..at + len;
    let differing = |from: usize, to: usize| {
        let pairs = visible[from..to].iter().zip(&found[from..to]);
        pairs.enumerate().find(|(_, (left, right))| left != right).map(|(index, _)| from + index)
    };
    if visible != found[..visible.len()] {
        let outside = differing(0, ambiguous.start).or(differing(ambiguous.end, visible.len()));
        if let Some(at) = outside {
            return Err(differs(at));
        }
        let data = trace.data(number).start as u64;
        file.write_all_at(&found[ambiguous], data).map_err(&trouble)?;
    }
    if found.len() > visible.len() {
        append(&file, &trace, Record::Length(found.len() as u64)).map_err(&trouble)?;
    }
    Ok(())
}

fn append(file: &File, trace: &Trace, record: Record<'_>) -> std::io::Result<()> {
    file.write_all_at(&record.encode(), trace.position(trace.len()))
}

fn differs(at: usize) -> Trouble {
    Trouble::new(format!(
        "the trace and the pool's file differ at offset {at:#x}: this is a fault of the recorder; please report it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(records: &[Record<'_>], tail: &[u8], pool: &[u8]) -> (tempfile::TempDir, Trace) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        bytes.extend(tail);
        std::fs::write(folder.path().join("trace"), bytes).expect("a trace");
        std::fs::write(folder.path().join("pool"), pool).expect("a pool");
        settle(&folder.path().join("trace"), &folder.path().join("pool")).expect("to settle");
        let trace = Trace::read(&folder.path().join("trace")).expect("a trace");
        (folder, trace)
    }

    #[test]
    fn the_last_write_is_as_far_done_as_the_file_says() {
        let records = [Record::Opened(8), Record::Write(0, &[1; 4]), Record::Write(2, &[2; 4])];
        let part = &Record::Sync.encode()[..10];
        let (_folder, trace) = files(&records, part, &[1, 1, 2, 1, 0, 0, 0, 0]);
        assert_eq!(trace.len(), 3, "the part of a record is gone");
        assert_eq!(trace.record(2), Record::Write(2, &[2, 1, 0, 0]));
        assert_eq!(trace.visible(), [1, 1, 2, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_growth_that_was_not_recorded_is_added() {
        let (_folder, trace) = files(&[Record::Opened(8)], &[], &[0; 16]);
        assert_eq!(trace.record(1), Record::Length(16));
        assert_eq!(trace.records_until(trace.position(1)), 1);
    }

    #[test]
    fn unexplained_bytes_are_a_fault() {
        let folder = tempfile::tempdir().expect("a folder");
        let (trace, pool) = (folder.path().join("trace"), folder.path().join("pool"));
        let records = [Record::Opened(8), Record::Write(0, &[1; 4])];
        let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        std::fs::write(&trace, bytes).expect("a trace");
        for pool_bytes in [&[1, 1, 1, 1, 1, 0, 0, 0][..], &[1, 1, 1, 1]] {
            std::fs::write(&pool, pool_bytes).expect("a pool");
            assert!(settle(&trace, &pool).is_err(), "{pool_bytes:?}");
        }
    }
}
