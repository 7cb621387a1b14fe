//! Counts of what an engine did: plain integers, one set per session, added up on demand.

use perdura_memory::{LINE, WORD, line_of};
use serde::Serialize;
use std::ops::{AddAssign, Sub};

/// Makes [`Counters`] of the counts that are single numbers, and of `dirtied`.
macro_rules! counters {
    ($($(#[$doc:meta])* $count:ident,)*) => {
        /// Counts since the session began.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counters {
            $($(#[$doc])* pub $count: u64,)*
            /// Data lines written back, by how many of their eight words had been stored to since they were clean: the
            /// first count is of one word. Under plain redo, which keeps only whether a line is dirty, only large fresh
            /// memory is counted.
            pub dirtied: [u64; 8],
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$count += other.$count;)*
                for (sum, count) in self.dirtied.iter_mut().zip(other.dirtied) {
                    *sum += count;
                }
            }
        }

        impl Sub for Counters {
            type Output = Self;

            /// What was counted since `earlier`.
            fn sub(self, earlier: Self) -> Self {
                let dirtied = |words| self.dirtied[words] - earlier.dirtied[words];
                Counters {
                    $($count: self.$count - earlier.$count,)*
                    dirtied: std::array::from_fn(dirtied),
                }
            }
        }
    };
}
counters! {
    /// Transactions committed that wrote something.
    commits,
    /// Transactions committed that wrote nothing.
    read_only,
    /// Transactions committed that joined others, to share a record with them.
    shared,
    /// Transactions rolled back by their body.
    aborts_user,
    /// Transactions rolled back because they did not fit in the log.
    aborts_capacity,
    /// Transactions rolled back and run again because of another one.
    aborts_conflict,
    /// Of the transactions committed under engines on hardware transactions, those that the hardware has committed.
    hardware_commits,
    /// The same, on the fallback path, under the lock.
    hardware_fallbacks,
    /// Transactions in hardware that were lost by a conflict.
    hardware_conflicts,
    /// The same, by lack of capacity.
    hardware_capacity,
    /// The same, by an interrupt.
    hardware_interrupts,
    /// The same, by other causes, among them what hardware cannot undo.
    hardware_others,
    /// Transactions in hardware that were given up since another one was on the fallback path.
    hardware_locked,
    /// Transactions in hardware that their body has rolled back.
    hardware_cancelled,
    /// Log lines written back, or stored past the caches.
    write_backs_log,
    /// Data lines written back.
    write_backs_data,
    /// Checksum lines written back.
    write_backs_checksum,
    /// Lines of the engine's own bookkeeping written back.
    write_backs_metadata,
    /// Data lines that were written again before their write-back: one served several
    /// transactions.
    write_backs_saved,
    /// Fences.
    fences,
    /// Bytes stored past the caches.
    streamed_bytes,
    /// Bytes of data stored by committed transactions (whole words).
    dirty_bytes,
    /// Bytes of log records, padding to whole lines included.
    log_bytes,
    /// Checkpoints taken.
    checkpoints,
}

impl Counters {
    /// All transactions that began in hardware, whatever became of them.
    pub const fn speculations(&self) -> u64 {
        self.hardware_commits
            + self.hardware_conflicts
            + self.hardware_capacity
            + self.hardware_interrupts
            + self.hardware_others
            + self.hardware_locked
            + self.hardware_cancelled
    }

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

    /// Counts the write-back of a line of which `words` words (1 to 8) were stored to.
    #[inline]
    pub(crate) fn dirtied(&mut self, words: u32) {
        self.dirtied[(words as usize).clamp(1, 8) - 1] += 1;
    }

    /// Counts the write-backs of the lines of `len` fresh bytes from `at` on.
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
    fn lines_are_counted_by_their_words() {
        let mut counters = Counters::default();
        counters.dirtied_fresh(56, 8 + 64 + 16);
        counters.dirtied(8);
        assert_eq!(counters.dirtied, [1, 1, 0, 0, 0, 0, 0, 2]);
        let mut twice = counters;
        twice += counters;
        assert_eq!((twice - counters).dirtied, counters.dirtied);
    }
}
