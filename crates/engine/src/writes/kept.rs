//! Which words every snapshot finds in the [version store](super::versions) already: one load tells so for most lines
//! that are stored to again while the same snapshots last.
//!
//! A note holds as long as no snapshot begins. That one ends changes nothing: the others still find the words that
//! they need. So a note has the number of snapshots that had begun, its *era*.

use super::hash;
use crate::planted::{self, Bug};
use perdura_memory::{LINE, Memory, Traced, WORD};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Notes, each for the lines of one hash: as many as a quarter of the memory's lines, within these bounds.
const LEAST: u64 = 1 << 10;
const MOST: u64 = 1 << 16;
/// What they take in ordinary memory at most.
pub(super) const BYTES: u64 = MOST * WORD;

/// The parts of a note: the line, by its number, from the first bit on; a bit for each word; the era.
const WORDS: u32 = 32;
const ERA: u32 = 40;
const ERAS: u64 = 1 << (64 - ERA);

/// The notes.
pub(super) struct Kept {
    era: AtomicU64,
    /// How many there are, once there are any.
    count: usize,
    notes: OnceLock<Box<[AtomicU64]>>,
}

/// The line of a note of this era without words; `None` if the pool is so large that it has no place in one.
fn note_of(line: u64, era: u64) -> Option<u64> {
    let number = line / LINE;
    (number < 1 << WORDS).then_some(number | era << ERA)
}

impl Kept {
    /// For a memory that grows to at most this many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let count = (bytes / LINE / 4).next_power_of_two().clamp(LEAST, MOST) as usize;
        Kept { era: AtomicU64::new(0), count, notes: OnceLock::new() }
    }

    /// Makes all notes void: a snapshot begins. No commit that [notes](Self::note) anything is in progress.
    pub(super) fn begin_era(&self) {
        if planted::has(Bug::NotesStay) {
            return;
        }
        let era = self.era.fetch_add(1, Ordering::SeqCst) + 1;
        if era.is_multiple_of(ERAS)
            && let Some(notes) = self.notes.get()
        {
            notes.iter().for_each(|note| note.store(0, Ordering::SeqCst));
        }
    }

    fn find(&self, line: u64) -> (u64, &AtomicU64) {
        let notes = self.notes.get_or_init(|| (0..self.count).map(|_| AtomicU64::new(0)).collect());
        let place = (hash(line) >> 12) as usize & (self.count - 1);
        (place as u64 * WORD, &notes[place])
    }

    /// The words of the line that all snapshots find. `own` is where the notes begin.
    pub(super) fn words<M: Memory>(&self, own: (Traced<'_, M>, u64), line: u64) -> u8 {
        let (at, note) = self.find(line);
        own.0.read(own.1 + at, WORD);
        let note = note.load(Ordering::Relaxed);
        let words = (note >> WORDS) as u8;
        let era = self.era.load(Ordering::Relaxed) % ERAS;
        match note_of(line, era) {
            Some(head) if note & !(0xFF << WORDS) == head => words,
            _ => 0,
        }
    }

    /// Notes that all snapshots find these words of the line, which the caller alone stores to.
    pub(super) fn note<M: Memory>(&self, own: (Traced<'_, M>, u64), line: u64, words: u8) {
        let era = self.era.load(Ordering::Relaxed) % ERAS;
        if let Some(head) = note_of(line, era) {
            let (at, note) = self.find(line);
            note.store(head | u64::from(words) << WORDS, Ordering::Relaxed);
            own.0.wrote(own.1 + at, WORD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_memory::Ram;

    #[test]
    fn notes_hold_for_an_era() {
        let (ram, kept) = (Ram::new(4096), Kept::new(4096));
        let object = ram.object(BYTES);
        let own = || (Traced::new(&ram, object), 0);
        assert_eq!(kept.words(own(), 0), 0);
        kept.note(own(), 64, 0b101);
        assert_eq!((kept.words(own(), 64), kept.words(own(), 128)), (0b101, 0));
        kept.begin_era();
        assert_eq!(kept.words(own(), 64), 0);
        let beyond = LINE << WORDS;
        kept.note(own(), beyond, 1);
        assert_eq!((kept.words(own(), beyond), kept.words(own(), 0)), (0, 0), "it has no place");
    }

    /// The number of an era comes again; its notes do not.
    #[test]
    fn eras_end_with_their_numbers() {
        let (ram, kept) = (Ram::new(4096), Kept::new(4096));
        let object = ram.object(BYTES);
        let own = || (Traced::new(&ram, object), 0);
        kept.era.store(ERAS - 1, Ordering::SeqCst);
        kept.note(own(), 64, 1);
        kept.begin_era();
        kept.era.store(2 * ERAS - 1, Ordering::SeqCst);
        assert_eq!(kept.words(own(), 64), 0);
    }
}
