//! Which words every snapshot finds in the [version store](super::versions) already: one load tells so for most lines
//! that are stored to again.
//!
//! A note has words of a line and the number of a commit: for each of these words there was a version of that commit or
//! a later one. A snapshot that began before that commit finds the word, as long as it lasts. A later snapshot does not
//! count the note as its own, since its number is no smaller; once it is over, the note counts again.

use crate::planted::{self, Bug};
use perdura_memory::{LINE, Memory, Traced, WORD};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Notes, each for the lines of one place: as many as a quarter of the memory's lines, within these bounds.
const LEAST: u32 = 10;
const MOST: u32 = 16;
/// What they take in ordinary memory at most.
pub(super) const BYTES: u64 = WORD << MOST;
/// Lines have numbers of at most this many bits, and those of larger memories no notes.
const LINES: u32 = 32;
/// An odd number: multiplying by it only changes the order of numbers of so many bits.
const SPREAD: u64 = 0x9E37_79B1;

/// The parts of a note from its first bit on: which line of the place, a bit for each word, the commit's last bits.
const WORDS: u32 = 16;
const NUMBER: u32 = 24;
/// Commits after which numbers look the same.
const ROUND: u64 = 1 << (64 - NUMBER);

/// Words of a line, and the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) words: u8,
    pub(super) number: u64,
}

/// The notes.
pub(super) struct Kept {
    /// Bits of a line's number, and of a place.
    line_bits: u32,
    place_bits: u32,
    /// Half rounds after which they have been cleared.
    halves: AtomicU64,
    notes: OnceLock<Box<[AtomicU64]>>,
}

impl Kept {
    /// For a memory that grows to at most this many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let lines = (bytes / LINE).max(1);
        let place_bits = lines.ilog2().saturating_sub(2).clamp(LEAST, MOST);
        let line_bits = (lines.next_power_of_two().ilog2()).clamp(place_bits, LINES);
        Kept { line_bits, place_bits, halves: AtomicU64::new(0), notes: OnceLock::new() }
    }

    /// A snapshot begins after the commit `number`. No commit that [notes](Self::note) anything is in progress.
    pub(super) fn begin(&self, number: u64) {
        let half = number / (ROUND / 2);
        if self.halves.swap(half, Ordering::Relaxed) != half
            && let Some(notes) = self.notes.get()
        {
            // So a note is less than a round older than whoever reads it.
            notes.iter().for_each(|note| note.store(0, Ordering::SeqCst));
        }
    }

    /// The place of the line's note, and which of the lines there it is; `None` if there is none.
    fn find(&self, line: u64) -> Option<(usize, u64)> {
        let number = line / LINE;
        (number >> self.line_bits == 0).then(|| {
            let spread = number.wrapping_mul(SPREAD) & ((1 << self.line_bits) - 1);
            let rest = self.line_bits - self.place_bits;
            ((spread >> rest) as usize, spread & ((1 << rest) - 1))
        })
    }

    fn notes(&self) -> &[AtomicU64] {
        self.notes.get_or_init(|| (0..1 << self.place_bits).map(|_| AtomicU64::new(0)).collect())
    }

    /// The line's note, for the commit `number`; one without words if there is none. `own` is where the notes begin.
    pub(super) fn get<M: Memory>(
        &self,
        (own, begin): (Traced<'_, M>, u64),
        line: u64,
        number: u64,
    ) -> Note {
        let nothing = Note { words: 0, number: 0 };
        let Some((place, which)) = self.find(line) else { return nothing };
        own.read(begin + place as u64 * WORD, WORD);
        let note = self.notes()[place].load(Ordering::Relaxed);
        if note & ((1 << WORDS) - 1) != which {
            return nothing;
        }
        // The last number that ends like that.
        let back = number.wrapping_sub(note >> NUMBER) % ROUND;
        let stays = planted::has(Bug::NotesStay);
        let number = if stays { u64::MAX } else { number.saturating_sub(back) };
        Note { words: (note >> WORDS) as u8, number }
    }

    /// Sets the note of the line, which the caller alone stores to.
    pub(super) fn set<M: Memory>(&self, (own, begin): (Traced<'_, M>, u64), line: u64, note: Note) {
        if let Some((place, which)) = self.find(line) {
            let note = note.number << NUMBER | u64::from(note.words) << WORDS | which;
            self.notes()[place].store(note, Ordering::Relaxed);
            own.wrote(begin + place as u64 * WORD, WORD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;
    use std::collections::HashSet;

    #[test]
    fn each_line_has_its_note() {
        for bytes in [4096, 1 << 20, 1 << 24] {
            let (ram, kept) = (Ram::new(4096), Kept::new(bytes));
            let object = ram.object(BYTES);
            let own = || (Traced::new(&ram, object), 0);
            let lines = || (0..bytes / LINE).map(|number| number * LINE);
            let places: HashSet<_> = lines().map(|line| kept.find(line)).collect();
            assert_eq!(places.len() as u64, bytes / LINE, "no two are taken for each other");
            assert!(lines().all(|line| kept.get(own(), line, 9).words == 0));
            let note = Note { words: 0b101, number: 7 };
            kept.set(own(), 128, note);
            assert_eq!(kept.get(own(), 128, 7), note);
            assert_eq!(kept.get(own(), 128, 90), note);
            assert!(lines().all(|line| line == 128 || kept.get(own(), line, 9).words == 0));
        }
        assert_eq!(Kept::new(1 << 50).find(LINE << LINES), None);
        assert!(Kept::new(1 << 50).find((LINE << LINES) - LINE).is_some());
    }

    /// After a round numbers look the same: notes are cleared before.
    #[test]
    fn old_notes_do_not_look_new() {
        let (ram, kept) = (Ram::new(4096), Kept::new(1 << 20));
        let object = ram.object(BYTES);
        let own = || (Traced::new(&ram, object), 0);
        kept.begin(ROUND - 10);
        let note = Note { words: 1, number: ROUND - 5 };
        kept.set(own(), 64, note);
        assert_eq!(kept.get(own(), 64, ROUND - 5), note);
        assert_eq!(kept.get(own(), 64, ROUND + 5), note, "across the end of a round");
        kept.begin(ROUND - 3);
        assert_eq!(kept.get(own(), 64, ROUND - 2), note);
        kept.begin(2 * ROUND - 5);
        assert_eq!(kept.get(own(), 64, 2 * ROUND - 4).words, 0);
    }
}
