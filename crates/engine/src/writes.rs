//! What a transaction wants to store: a set of words, kept by cache line.
//!
//! Keeping it by line means that one entry serves all words of a line, in the log and when the
//! line is written back. Lines are found by an open-addressed table, sparse so that the first
//! slot nearly always decides, whose slots carry a generation so that clearing costs nothing.

use crate::Mark;
use perdura_memory::{LINE, line_of};

/// The mask of a line that is stored whole.
pub const ALL: u8 = 0xFF;
/// Slots of a new table.
const SLOTS: usize = 256;
/// After a transaction of more lines than this its memory is given back.
const KEPT: usize = 1 << 16;
/// At least this many slots for each line.
const SPARSE: usize = 4;

/// Words to be stored in one line.
#[derive(Clone, Copy)]
pub struct LineWrite {
    /// Offset of the line.
    pub line: u64,
    /// Bit `i` is set where `words[i]` is to be stored.
    pub mask: u8,
    /// The words; those outside of the mask mean nothing.
    pub words: [u64; 8],
}

/// What a word was before a write since a mark.
struct Previous {
    entry: u32,
    word: u8,
    present: bool,
    value: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    line: u64,
    entry: u32,
    generation: u32,
}

/// The set.
pub struct WriteSet {
    entries: Vec<LineWrite>,
    table: Vec<Slot>,
    generation: u32,
    journal: Vec<Previous>,
    marked: bool,
}

impl Default for WriteSet {
    fn default() -> Self {
        WriteSet {
            entries: Vec::new(),
            table: vec![Slot::default(); SLOTS],
            generation: 1,
            journal: Vec::new(),
            marked: false,
        }
    }
}

impl WriteSet {
    /// The lines, in the order of their first write.
    pub fn entries(&self) -> &[LineWrite] {
        &self.entries
    }

    /// Whether nothing is to be stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        if self.entries.len() > KEPT {
            *self = WriteSet::default();
            return;
        }
        self.entries.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.table.fill(Slot::default());
            self.generation = 1;
        }
        self.journal.clear();
        self.marked = false;
    }

    /// The word at `at`, if it is to be stored.
    #[inline(always)]
    pub fn get(&self, at: u64) -> Option<u64> {
        let entry = &self.entries[self.find(line_of(at))?];
        let word = word_in_line(at);
        (entry.mask & 1 << word != 0).then(|| entry.words[word])
    }

    /// The writes to the line at `line`, if there are any.
    #[inline]
    pub fn line(&self, line: u64) -> Option<&LineWrite> {
        self.find(line).map(|entry| &self.entries[entry])
    }

    /// Notes that the word at `at` becomes `value`.
    #[inline]
    pub fn put(&mut self, at: u64, value: u64) {
        let line = line_of(at);
        let word = word_in_line(at);
        let index = self.find(line).unwrap_or_else(|| self.push(line));
        let entry = &mut self.entries[index];
        if self.marked {
            self.journal.push(Previous {
                entry: index as u32,
                word: word as u8,
                present: entry.mask & 1 << word != 0,
                value: entry.words[word],
            });
        }
        entry.mask |= 1 << word;
        entry.words[word] = value;
    }

    /// Notes that a whole line becomes `words`: as eight times [`put`](Self::put), for the price
    /// of one.
    #[inline]
    pub fn put_line(&mut self, line: u64, words: &[u64; 8]) {
        if self.marked {
            for (index, &word) in words.iter().enumerate() {
                self.put(line + index as u64 * 8, word);
            }
            return;
        }
        let index = self.find(line).unwrap_or_else(|| self.push(line));
        let entry = &mut self.entries[index];
        entry.mask = ALL;
        entry.words = *words;
    }

    /// A point to go back to; from now on every write is journalled.
    pub fn mark(&mut self) -> Mark {
        self.marked = true;
        Mark(self.journal.len())
    }

    /// Undoes the writes since `mark`. Lines that only they wrote stay, with an empty mask.
    pub fn rollback_to(&mut self, mark: Mark) {
        while self.journal.len() > mark.0 {
            let Some(previous) = self.journal.pop() else { return };
            let entry = &mut self.entries[previous.entry as usize];
            if previous.present {
                entry.words[previous.word as usize] = previous.value;
            } else {
                entry.mask &= !(1 << previous.word);
            }
        }
    }

    #[inline(always)]
    fn find(&self, line: u64) -> Option<usize> {
        let mask = self.table.len() - 1;
        let mut at = hash(line) as usize & mask;
        loop {
            let slot = self.table[at];
            if slot.generation != self.generation {
                return None;
            }
            if slot.line == line {
                return Some(slot.entry as usize);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn push(&mut self, line: u64) -> usize {
        let index = self.entries.len();
        self.entries.push(LineWrite { line, mask: 0, words: [0; 8] });
        if self.entries.len() * SPARSE > self.table.len() {
            self.widen();
        } else {
            self.insert_slot(line, index as u32);
        }
        index
    }

    #[cold]
    fn widen(&mut self) {
        self.table = vec![Slot::default(); self.table.len() * 4];
        self.generation = 1;
        for index in 0..self.entries.len() {
            self.insert_slot(self.entries[index].line, index as u32);
        }
    }

    #[inline]
    fn insert_slot(&mut self, line: u64, entry: u32) {
        let mask = self.table.len() - 1;
        let mut at = hash(line) as usize & mask;
        while self.table[at].generation == self.generation {
            at = (at + 1) & mask;
        }
        self.table[at] = Slot { line, entry, generation: self.generation };
    }
}

#[inline(always)]
fn word_in_line(at: u64) -> usize {
    (at % LINE / 8) as usize
}

#[inline(always)]
fn hash(line: u64) -> u64 {
    (line / LINE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_as_a_map_of_words(
            rounds in prop::collection::vec(
                prop::collection::vec((0u64..300, any::<u64>(), 0u8..20), 0..200), 1..4)
        ) {
            let mut set = WriteSet::default();
            for writes in rounds {
                let mut model: HashMap<u64, u64> = HashMap::new();
                let mut saved: Option<(Mark, HashMap<u64, u64>)> = None;
                for (word, value, action) in writes {
                    match action {
                        0 => saved = Some((set.mark(), model.clone())),
                        1 => if let Some((mark, old)) = saved.take() {
                            set.rollback_to(mark);
                            model = old;
                        },
                        2 => {
                            let line = word / 8 * 8;
                            set.put_line(line * 8, &[value; 8]);
                            model.extend((line..line + 8).map(|word| (word * 8, value)));
                        }
                        _ => {
                            set.put(word * 8, value);
                            model.insert(word * 8, value);
                        }
                    }
                }
                for word in 0..310 {
                    prop_assert_eq!(set.get(word * 8), model.get(&(word * 8)).copied());
                }
                set.clear();
                prop_assert!(set.is_empty() && set.get(8).is_none());
            }
        }
    }
}
