//! A trace of the operations on a pool's file, in order: from it crash tests rebuild what a power cut may leave on the
//! device.
//!
//! What always holds in a trace:
//! - A write, and the beginning of a sync, are recorded before they are done; the end of a sync, a new length and the
//!   opening afterwards. A process that dies leaves at most one write, the last one recorded, of which it is unknown
//!   how much was done; and possibly part of a record after it.
//! - Writes and syncs come one after the other (`media` ensures that), so that a sync covers the writes recorded before
//!   its beginning and no others.
//! - The trace is never synced: it need only outlive the process.

use super::file;
use super::media::Device;
use super::place::Place;
use rustix::process::{Signal, getpid, kill_process};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a write's record before its data.
const HEADER: usize = 24;
/// More than any write has: a longer record is invalid.
const MOST_BYTES: u64 = 1 << 30;

/// One step in the life of a pool's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A process opened or created the file, which has this many bytes.
    Opened(u64),
    /// Bytes written at an offset.
    Write(u64, &'a [u8]),
    /// A sync begins: of everything before this.
    Sync,
    /// It has ended, and this is whether it succeeded.
    Synced(bool),
    /// The file has grown to this many bytes.
    Length(u64),
}

impl<'a> Record<'a> {
    /// The record as it is in a trace.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, number, bytes): (u64, u64, &[u8]) = match *self {
            Record::Opened(len) => (1, len, &[]),
            Record::Write(at, bytes) => (2, at, bytes),
            Record::Sync => (3, 0, &[]),
            Record::Synced(done) => (4, u64::from(done), &[]),
            Record::Length(len) => (5, len, &[]),
        };
        let words = [kind, number, bytes.len() as u64];
        let mut record = Vec::with_capacity(HEADER + bytes.len());
        record.extend(words.into_iter().flat_map(u64::to_le_bytes));
        record.extend(bytes);
        record
    }

    /// The first record of `trace`, with its length in bytes; `None` if it is not there whole.
    pub fn decode(trace: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let (header, rest) = trace.split_first_chunk::<HEADER>()?;
        let word = |index: usize| {
            let bytes: [u8; 8] = std::array::from_fn(|byte| header[index * 8 + byte]);
            u64::from_le_bytes(bytes)
        };
        let (number, len) = (word(1), word(2));
        if len > MOST_BYTES || (len > 0 && word(0) != 2) {
            return None;
        }
        let bytes = rest.get(..len as usize)?;
        let record = match word(0) {
            1 => Record::Opened(number),
            2 => Record::Write(number, bytes),
            3 => Record::Sync,
            4 => Record::Synced(number != 0),
            5 => Record::Length(number),
            _ => return None,
        };
        Some((record, HEADER + bytes.len()))
    }
}

/// Faults to inject, counted from 1 in the life of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The process kills itself as soon as this record is in the trace.
    pub stop_after: Option<u64>,
    /// This sync is not done, and fails.
    pub fail_sync: Option<u64>,
}

/// Appends to a trace, and injects faults.
#[derive(Debug)]
pub struct Recorder {
    trace: File,
    faults: Faults,
    records: AtomicU64,
    syncs: AtomicU64,
}

impl Recorder {
    /// Appends to the trace at `path`, which is created if missing.
    ///
    /// # Errors
    /// When the file cannot be opened or created.
    pub fn append_to(path: impl AsRef<Path>, faults: Faults) -> io::Result<Arc<Self>> {
        let trace = OpenOptions::new().append(true).create(true).open(path)?;
        let (records, syncs) = Default::default();
        Ok(Arc::new(Recorder { trace, faults, records, syncs }))
    }

    pub(super) fn add(&self, record: Record<'_>) -> io::Result<()> {
        (&self.trace).write_all(&record.encode())?;
        let number = self.records.fetch_add(1, Ordering::Relaxed) + 1;
        if self.faults.stop_after == Some(number) {
            kill_process(getpid(), Signal::KILL)?;
        }
        Ok(())
    }

    /// Runs `sync` between its two records, unless it is the one that is to fail.
    pub(super) fn around(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.add(Record::Sync)?;
        let number = self.syncs.fetch_add(1, Ordering::Relaxed) + 1;
        let done = if self.faults.fail_sync == Some(number) {
            Err(io::Error::other("this sync was to fail, for a test"))
        } else {
            sync()
        };
        self.add(Record::Synced(done.is_ok()))?;
        done
    }
}

/// A pool's file on a block device, with an optional recorder.
pub(super) struct PoolFile {
    pub(super) file: File,
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) place: Arc<Place>,
}

impl PoolFile {
    /// Notes that the file has `len` bytes now.
    pub(super) fn grown(&self, len: u64) -> io::Result<()> {
        self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.add(Record::Length(len)))
    }
}

impl Device for PoolFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(recorder) = &self.recorder {
            recorder.add(Record::Write(at, bytes))?;
        }
        self.file.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        match &self.recorder {
            Some(recorder) => recorder.around(|| file::sync(&self.file))?,
            None => file::sync(&self.file)?,
        }
        // Nothing is durable in a file that is deleted, or cut short.
        self.place.damage(&self.file).map_or(Ok(()), |what| Err(io::Error::other(what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Record<'static>; 6] = [
        Record::Opened(4096),
        Record::Write(64, b"some bytes"),
        Record::Sync,
        Record::Synced(true),
        Record::Synced(false),
        Record::Length(8192),
    ];

    #[test]
    fn a_trace_is_read_as_it_was_written_and_a_part_of_a_record_is_none() {
        let mut trace: Vec<u8> = ALL.iter().flat_map(Record::encode).collect();
        let whole = trace.len();
        trace.extend(&Record::Write(0, &[7; 100]).encode()[..90]);
        let (mut at, mut found) = (0, Vec::new());
        while let Some((record, len)) = Record::decode(&trace[at..]) {
            found.push(record);
            at += len;
        }
        assert_eq!(found, ALL);
        assert_eq!(at, whole);
        for len in 0..HEADER {
            assert_eq!(Record::decode(&trace[..len]), None);
        }
        let mut strange = Record::Write(0, &[]).encode();
        strange[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Record::decode(&strange), None, "a length that nothing has");
        assert_eq!(Record::decode(&[9; HEADER]), None, "an unknown kind");
    }
}
