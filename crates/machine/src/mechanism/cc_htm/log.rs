//! A core's redo log in home memory: a line with the tail, then entries.
//!
//! An entry is a word's offset and its new contents; entries are written a line at a time, as write-combining buffers
//! do. What always holds: the tail is 0, or the number of entries of a transaction all of which are durable; a
//! transaction's entries begin at the first place.

use super::mutants::{ENTRY, ORDER, RESET_FIRST};
use crate::Ps;
use crate::hardware::Hardware;
use crate::mechanism::{Home, Mutant};
use perdura_memory::image::LineWords;

/// A log's tail, and room for entries.
pub(super) const LEAST_LINES: u64 = 2;

/// Entries of a line, each of two words.
const OF_A_LINE: u64 = 4;

const LINE_BYTES: u64 = 64;

/// The entries that a log of this many lines has room for.
const fn capacity(lines: u64) -> u64 {
    (lines - 1) * OF_A_LINE
}

/// A core's log in a running machine.
pub(super) struct CoreLog {
    /// The line of the tail.
    first: u64,
    lines: u64,
    /// Entries of the running transaction.
    count: u64,
    /// The line that is being filled.
    filling: LineWords,
}

impl CoreLog {
    /// The log of `lines` lines from `first` on.
    pub(super) fn new(first: u64, lines: u64) -> Self {
        CoreLog { first, lines, count: 0, filling: [0; 8] }
    }

    /// A transaction begins: what an aborted one has written is void.
    pub(super) fn begin(&mut self) {
        (self.count, self.filling) = (0, [0; 8]);
    }

    /// Entries of the running transaction.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is room for this many more entries.
    pub(super) fn has_room(&self, entries: u64) -> bool {
        self.count + entries <= capacity(self.lines)
    }

    /// Appends an entry. Returns whether it has filled a line, which is on its way then. There must be
    /// [room](Self::has_room).
    pub(super) fn append(&mut self, hardware: &mut Hardware, (at, value): (u64, u64)) -> bool {
        let place = (self.count % OF_A_LINE) as usize * 2;
        (self.filling[place], self.filling[place + 1]) = (at, value);
        self.count += 1;
        self.count.is_multiple_of(OF_A_LINE) && self.write_entries(hardware)
    }

    /// Writes the entries that have not filled a line. Returns whether there are any.
    pub(super) fn flush(&mut self, hardware: &mut Hardware) -> bool {
        !self.count.is_multiple_of(OF_A_LINE) && self.write_entries(hardware)
    }

    fn write_entries(&mut self, hardware: &mut Hardware) -> bool {
        // Modulo: only a mutant has more entries than there is room for.
        let line = (self.count - 1) / OF_A_LINE % (self.lines - 1);
        hardware.stream_home("log entries", self.first + 1 + line, self.filling);
        if self.count.is_multiple_of(OF_A_LINE) {
            self.filling = [0; 8];
        }
        true
    }

    /// Writes the tail behind the entries. Returns when it is durable.
    pub(super) fn commit(&self, hardware: &mut Hardware) -> Ps {
        self.write_tail(hardware, "log tail", self.count)
    }

    /// Resets the tail.
    pub(super) fn reset(&self, hardware: &mut Hardware) {
        self.write_tail(hardware, "log reset", 0);
    }

    fn write_tail(&self, hardware: &mut Hardware, name: &'static str, tail: u64) -> Ps {
        let durable = hardware.stream_home(name, self.first, tail_line(tail));
        hardware.charge_issue();
        durable
    }
}

fn tail_line(tail: u64) -> LineWords {
    [tail, 0, 0, 0, 0, 0, 0, 0]
}

/// Redoes the committed transaction of each log, of `lines` lines each, and resets its tail. The power may be cut after
/// any store: as long as the tail is there, all entries are redone again.
pub(super) fn recover(home: &mut Home<'_>, lines: u64, left_out: Option<Mutant>) {
    for first in home.own().step_by(lines as usize) {
        let mut entries = committed(home, first, lines);
        if entries.is_empty() {
            continue;
        }
        match left_out {
            Some(RESET_FIRST) => home.put(first, &tail_line(0)),
            Some(ENTRY) => _ = entries.pop(),
            Some(ORDER) => entries.reverse(),
            _ => {}
        }
        entries.into_iter().for_each(|entry| redo(home, entry));
        home.put(first, &tail_line(0));
    }
}

/// The entries before the tail.
fn committed(home: &Home<'_>, first: u64, lines: u64) -> Vec<(u64, u64)> {
    let [tail, ..] = home.line(first);
    let count = tail.min(capacity(lines));
    let entry = |number: u64| {
        let words = home.line(first + 1 + number / OF_A_LINE);
        let place = (number % OF_A_LINE) as usize * 2;
        (words[place], words[place + 1])
    };
    (0..count).map(entry).collect()
}

fn redo(home: &mut Home<'_>, (at, value): (u64, u64)) {
    let line = at / LINE_BYTES;
    // Only a mutant's entries are not words of the program's memory.
    if line < home.own().start {
        let mut words = home.line(line);
        words[(at % LINE_BYTES / 8) as usize] = value;
        home.put(line, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memory of two lines, and two logs of three lines with these tails, the second of which is 3.
    fn device(first: u64) -> Vec<u64> {
        let mut words = vec![7; 8 * 8];
        words[2 * 8..].fill(0);
        let entries = [(8, 1), (64, 2), (8, 3), (16, 4), (24, 5)];
        for (log, tail) in [(2, first), (5, 3)] {
            words[log * 8] = tail;
            for (number, (at, value)) in entries.into_iter().enumerate() {
                let place = (log + 1) * 8 + 2 * number;
                (words[place], words[place + 1]) = (at + 32 * (log as u64 / 5), value);
            }
        }
        words
    }

    fn recovered(mut words: Vec<u64>, stores: u64) -> Vec<u64> {
        recover(&mut Home::new(&mut words, 2..8, stores), 3, None);
        words
    }

    #[test]
    fn entries_before_the_tail_are_redone_in_order() {
        let left = recovered(device(5), u64::MAX);
        assert_eq!(left[..8], [7, 3, 4, 5, 7, 3, 7, 7]);
        assert_eq!(left[8..16], [2, 7, 7, 7, 2, 7, 7, 7]);
        assert_eq!((left[2 * 8], left[5 * 8]), (0, 0));
        assert_eq!(recovered(left.clone(), u64::MAX), left, "nothing is left to do");
        let one = recovered(device(0), u64::MAX);
        assert_eq!(
            (&one[..8], &one[8..16]),
            (
                &[7, 7, 7, 7, 7, 3, 7, 7][..],
                &left[8..16][..4].iter().map(|_| 7).chain([2, 7, 7, 7]).collect::<Vec<_>>()[..]
            )
        );
    }

    #[test]
    fn recovery_may_be_cut_anywhere() {
        let whole = recovered(device(5), u64::MAX);
        for stores in 0..12 {
            assert_eq!(recovered(recovered(device(5), stores), u64::MAX), whole, "{stores}");
        }
    }
}
