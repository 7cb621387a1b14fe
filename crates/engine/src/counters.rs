//! What an engine did: plain integers, one set a session, added up when asked for.

use perdura_memory::{LINE, WORD, line_of};
use serde::Serialize;
use std::ops::{AddAssign, Sub};

/// Counts since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Transactions committed that wrote something.
    pub commits: u64,
    /// Transactions committed that wrote nothing.
    pub read_only: u64,
    /// Transactions rolled back by their body.
    pub aborts_user: u64,
    /// Transactions rolled back because they did not fit in the log.
    pub aborts_capacity: u64,
    /// Transactions rolled back and run again because of another one.
    pub aborts_conflict: u64,
    /// Log lines written back, or stored past the caches.
    pub write_backs_log: u64,
    /// Data lines written back.
    pub write_backs_data: u64,
    /// Checksum lines written back.
    pub write_backs_checksum: u64,
    /// Lines of the engine's own bookkeeping written back.
    pub write_backs_metadata: u64,
    /// Data lines that were written again before their write-back: one served several
    /// transactions.
    pub write_backs_saved: u64,
    /// Fences.
    pub fences: u64,
    /// Bytes stored past the caches.
    pub streamed_bytes: u64,
    /// Bytes of data stored by committed transactions (whole words).
    pub dirty_bytes: u64,
    /// Bytes of log records, padding to whole lines included.
    pub log_bytes: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Data lines written back, by how many of their eight words had been stored to since they
    /// were clean: the first count is of one word. Under plain redo, which keeps of a line only
    /// that it is dirty, large fresh memory alone is counted.
    pub dirtied: [u64; 8],
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.commits += other.commits;
        self.read_only += other.read_only;
        self.aborts_user += other.aborts_user;
        self.aborts_capacity += other.aborts_capacity;
        self.aborts_conflict += other.aborts_conflict;
        self.write_backs_log += other.write_backs_log;
        self.write_backs_data += other.write_backs_data;
        self.write_backs_checksum += other.write_backs_checksum;
        self.write_backs_metadata += other.write_backs_metadata;
        self.write_backs_saved += other.write_backs_saved;
        self.fences += other.fences;
        self.streamed_bytes += other.streamed_bytes;
        self.dirty_bytes += other.dirty_bytes;
        self.log_bytes += other.log_bytes;
        self.checkpoints += other.checkpoints;
        for (sum, count) in self.dirtied.iter_mut().zip(other.dirtied) {
            *sum += count;
        }
    }
}

impl Sub for Counters {
    type Output = Self;

    /// What was counted since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Counters {
            commits: self.commits - earlier.commits,
            read_only: self.read_only - earlier.read_only,
            aborts_user: self.aborts_user - earlier.aborts_user,
            aborts_capacity: self.aborts_capacity - earlier.aborts_capacity,
            aborts_conflict: self.aborts_conflict - earlier.aborts_conflict,
            write_backs_log: self.write_backs_log - earlier.write_backs_log,
            write_backs_data: self.write_backs_data - earlier.write_backs_data,
            write_backs_checksum: self.write_backs_checksum - earlier.write_backs_checksum,
            write_backs_metadata: self.write_backs_metadata - earlier.write_backs_metadata,
            write_backs_saved: self.write_backs_saved - earlier.write_backs_saved,
            fences: self.fences - earlier.fences,
            streamed_bytes: self.streamed_bytes - earlier.streamed_bytes,
            dirty_bytes: self.dirty_bytes - earlier.dirty_bytes,
            log_bytes: self.log_bytes - earlier.log_bytes,
            checkpoints: self.checkpoints - earlier.checkpoints,
            dirtied: std::array::from_fn(|words| self.dirtied[words] - earlier.dirtied[words]),
        }
    }
}

impl Counters {
    /// All write-backs together.
    pub const fn write_backs(&self) -> u64 {
        self.write_backs_log
            + self.write_backs_data
            + self.write_backs_checksum
            + self.write_backs_metadata
    }

    /// Bytes of data stored for each data line written back: 64 is perfect, more means that a
    /// line served several transactions.
    pub fn dirty_bytes_per_line(&self) -> f64 {
        self.dirty_bytes as f64 / self.write_backs_data.max(1) as f64
    }

    /// Notes that a line is written back of which `words` words (1 to 8) were stored to.
    #[inline]
    pub(crate) fn dirtied(&mut self, words: u32) {
        self.dirtied[(words as usize).clamp(1, 8) - 1] += 1;
    }

    /// Notes that the lines of `len` fresh bytes from `at` on are written back.
    pub(crate) fn dirtied_fresh(&mut self, at: u64, len: u64) {
        for line in (line_of(at)..at + len).step_by(LINE as usize) {
            let bytes = (at + len).min(line + LINE) - at.max(line);
            self.dirtied(bytes.div_ceil(WORD) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_by_their_words() {
        let mut counters = Counters::default();
        counters.dirtied_fresh(56, 8 + 64 + 16);
        counters.dirtied(8);
        assert_eq!(counters.dirtied, [1, 1, 0, 0, 0, 0, 0, 2]);
        let mut twice = counters;
        twice += counters;
        assert_eq!((twice - counters).dirtied, counters.dirtied);
    }
}
