//! What a transaction wants to store: a set of words, kept by cache line.
//!
//! Keeping it by line means that one entry serves all words of a line, in the log and when the
//! line is written back. A filter says at once of most lines that they are not there. A few lines
//! are looked through; more are found by an open-addressed table, sparse so that the first slot
//! nearly always decides, whose slots carry a generation so that clearing costs nothing.

mod filter;
pub(crate) mod overlay;

use crate::Mark;
use filter::Filter;
use perdura_memory::{LINE, line_of};

/// The mask of a line that is stored whole.
pub const ALL: u8 = 0xFF;
/// Lines that are found by looking through them all; more have a table.
const FEW: usize = 8;
/// After a transaction of more lines than this, or more journalled words, memory is given back.
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
    /// Those from `used` on are left from earlier transactions: room that is initialised.
    lines: Vec<LineWrite>,
    used: usize,
    filter: Filter,
    /// Lines by hash, once there are more than a few.
    table: Vec<Slot>,
    generation: u32,
    /// Words to be stored.
    words: usize,
    /// Lines with words to be stored.
    stored: usize,
    journal: Vec<Previous>,
    marked: bool,
}

impl Default for WriteSet {
    fn default() -> Self {
        WriteSet {
            lines: vec![LineWrite { line: 0, mask: 0, words: [0; 8] }; FEW],
            used: 0,
            filter: Filter::default(),
            table: vec![Slot::default(); 2 * SPARSE * FEW],
            generation: 1,
            words: 0,
            stored: 0,
            journal: Vec::new(),
            marked: false,
        }
    }
}

impl WriteSet {
    /// The lines, in the order of their first write.
    #[inline]
    pub fn entries(&self) -> &[LineWrite] {
        &self.lines[..self.used]
    }

    /// Whether nothing is to be stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Words to be stored.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Lines in which words are to be stored.
    #[inline]
    pub fn stored_lines(&self) -> usize {
        self.stored
    }

    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        if self.used > FEW {
            self.clear_table();
        }
        self.used = 0;
        self.filter.clear();
        self.words = 0;
        self.stored = 0;
        if self.marked {
            self.journal.clear();
            self.journal.shrink_to(KEPT);
            self.marked = false;
        }
    }

    #[cold]
    fn clear_table(&mut self) {
        if self.used > KEPT {
            *self = WriteSet::default();
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.table.fill(Slot::default());
            self.generation = 1;
        }
    }

    /// Whether anything may be to be stored in the line of `at`; that is soon said, and seldom wrong.
    #[inline(always)]
    pub fn may_have(&self, at: u64) -> bool {
        self.filter.may_have(hash(at))
    }

    /// The word at `at`, if it is to be stored.
    #[inline(always)]
    pub fn get(&self, at: u64) -> Option<u64> {
        let entry = self.line(line_of(at))?;
        let word = word_in_line(at);
        (entry.mask & 1 << word != 0).then(|| entry.words[word])
    }

    /// The writes to the line at `line`, if there are any.
    #[inline(always)]
    pub fn line(&self, line: u64) -> Option<&LineWrite> {
        let hash = hash(line);
        if !self.filter.may_have(hash) {
            return None;
        }
        self.find(line, hash).map(|entry| &self.lines[entry])
    }

    /// Notes that the word at `at` becomes `value`.
    #[inline(always)]
    pub fn put(&mut self, at: u64, value: u64) {
        let word = word_in_line(at);
        let index = self.entry_for(line_of(at));
        let entry = &mut self.lines[index];
        let (bit, old) = (1 << word, entry.mask);
        if self.marked {
            let present = old & bit != 0;
            let value = entry.words[word];
            let previous = Previous { entry: index as u32, word: word as u8, present, value };
            self.journal.push(previous);
        }
        entry.mask = old | bit;
        entry.words[word] = value;
        self.words += usize::from(old & bit == 0);
        self.stored += usize::from(old == 0);
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
        let index = self.entry_for(line);
        let entry = &mut self.lines[index];
        self.words += 8 - entry.mask.count_ones() as usize;
        self.stored += usize::from(entry.mask == 0);
        entry.mask = ALL;
        entry.words = *words;
    }

    /// Adds words of a line, of which there are some, and none that are there already: for sets that
    /// are gone through by [`entries`](Self::entries), since they are not looked up.
    #[inline]
    pub fn push(&mut self, entry: &LineWrite) {
        debug_assert_ne!(entry.mask, 0);
        self.words += entry.mask.count_ones() as usize;
        self.stored += 1;
        match self.lines.get_mut(self.used) {
            Some(place) => *place = *entry,
            None => self.lines.push(*entry),
        }
        self.used += 1;
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
            let entry = &mut self.lines[previous.entry as usize];
            if previous.present {
                entry.words[previous.word as usize] = previous.value;
            } else {
                entry.mask &= !(1 << previous.word);
                self.words -= 1;
                self.stored -= usize::from(entry.mask == 0);
            }
        }
    }

    /// The place of a line that is there already, or is now.
    #[inline(always)]
    fn entry_for(&mut self, line: u64) -> usize {
        let hash = hash(line);
        if self.filter.may_have(hash)
            && let Some(index) = self.find(line, hash)
        {
            return index;
        }
        let index = self.used;
        self.used += 1;
        match self.lines.get_mut(index) {
            Some(entry) => (entry.line, entry.mask) = (line, 0),
            None => self.lines.push(LineWrite { line, mask: 0, words: [0; 8] }),
        }
        if index > FEW && self.used * SPARSE <= self.table.len() {
            self.insert_slot(line, hash, index);
        } else if index >= FEW {
            self.fill_table();
        }
        if self.filter.is_narrow(self.used) {
            let lines = &self.lines[..self.used];
            self.filter.fill(self.used, lines.iter().map(|entry| self::hash(entry.line)));
        } else {
            self.filter.add(hash);
        }
        index
    }

    #[inline]
    fn find(&self, line: u64, hash: u64) -> Option<usize> {
        if self.used <= FEW {
            return self.entries().iter().rposition(|entry| entry.line == line);
        }
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
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

    #[inline(always)]
    fn insert_slot(&mut self, line: u64, hash: u64, index: usize) {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while self.table[at].generation == self.generation {
            at = (at + 1) & mask;
        }
        self.table[at] = Slot { line, entry: index as u32, generation: self.generation };
    }

    /// Enters all lines into the table, a larger one if they need it.
    #[inline(never)]
    fn fill_table(&mut self) {
        if self.used * SPARSE > self.table.len() {
            self.table = vec![Slot::default(); self.table.len() * 4];
            self.generation = 1;
        }
        for index in 0..self.used {
            let line = self.lines[index].line;
            self.insert_slot(line, hash(line), index);
        }
    }
}

/// Which word of its line the one at `at` is.
#[inline(always)]
pub(crate) fn word_in_line(at: u64) -> usize {
    (at % LINE / 8) as usize
}

/// Of the line that `at` is in.
#[inline(always)]
pub(crate) fn hash(at: u64) -> u64 {
    (at / LINE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{self, Part};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u64, u64),
        PutLine(u64, u64),
        Mark,
        Rollback,
    }

    /// What the set should hold: words, and lines in the order of their first write.
    #[derive(Default)]
    struct Model {
        words: HashMap<u64, u64>,
        lines: Vec<u64>,
        marks: Vec<(Mark, HashMap<u64, u64>)>,
    }

    impl Model {
        fn touch(&mut self, line: u64) {
            if !self.lines.contains(&line) {
                self.lines.push(line);
            }
        }

        fn step(&mut self, set: &mut WriteSet, step: &Step) {
            match *step {
                Step::Put(at, value) => {
                    set.put(at, value);
                    self.touch(line_of(at));
                    self.words.insert(at, value);
                }
                Step::PutLine(line, value) => {
                    let words = std::array::from_fn(|word| value.wrapping_add(word as u64));
                    set.put_line(line, &words);
                    self.touch(line);
                    self.words.extend((0..8).map(|word| (line + word * 8, words[word as usize])));
                }
                Step::Mark => self.marks.push((set.mark(), self.words.clone())),
                Step::Rollback => {
                    let Some((mark, words)) = self.marks.pop() else { return };
                    set.rollback_to(mark);
                    self.words = words;
                }
            }
        }

        fn compare(&self, set: &WriteSet, universe: u64) {
            for line in (0..universe).map(|line| line * LINE) {
                let at = |word: u64| line + word * 8;
                let wanted: [_; 8] = std::array::from_fn(|word| self.words.get(&at(word as u64)));
                let got: [_; 8] = std::array::from_fn(|word| set.get(at(word as u64)));
                assert_eq!(got, wanted.map(|word| word.copied()), "line {line}");
                assert_eq!(set.line(line).is_some(), self.lines.contains(&line));
            }
            let lines: Vec<u64> = set.entries().iter().map(|entry| entry.line).collect();
            assert_eq!((lines, set.is_empty()), (self.lines.clone(), self.words.is_empty()));
            let stored = set.entries().iter().filter(|entry| entry.mask != 0).count();
            assert_eq!((set.words(), set.stored_lines()), (self.words.len(), stored));
            let (part, mut encoded) =
                (Part { ticket: 1, part: 0, parts: 1, behind: 1 }, Vec::new());
            let word_of = |entry: &LineWrite, word: usize| entry.words[word];
            record::encode(&mut encoded, 0, 0, part, set.entries(), word_of);
            let zeros = self.words.values().filter(|value| **value == 0).count();
            let words = set.words() - zeros;
            assert_eq!(encoded.len(), record::words_for(set.stored_lines(), words));
        }
    }

    fn steps(lines: u64, most: usize) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            12 => (0..lines * 8, any::<u64>()).prop_map(|(word, value)| Step::Put(word * 8, value)),
            2 => (0..lines, any::<u64>()).prop_map(|(line, value)| Step::PutLine(line * LINE, value)),
            1 => Just(Step::Mark),
            1 => Just(Step::Rollback),
        ];
        vec(step, 0..most)
    }

    /// Transactions on one set, whose generations soon begin anew while the table still holds
    /// what the first one left.
    fn behaves_as_the_model(transactions: &[Vec<Step>], universe: u64, every_step: bool) {
        let mut set = WriteSet::default();
        for (index, steps) in transactions.iter().enumerate() {
            if index == 1 {
                set.generation = u32::MAX;
            }
            let mut model = Model::default();
            for step in steps {
                model.step(&mut set, step);
                if every_step {
                    model.compare(&set, universe);
                }
            }
            model.compare(&set, universe);
            set.clear();
            Model::default().compare(&set, universe);
        }
    }

    proptest! {
        /// About as many lines as are looked through: the table comes and goes.
        #[test]
        fn few_lines_are_as_the_model(
            transactions in (5u64..14).prop_flat_map(|lines| vec(steps(lines, 40), 1..10))
        ) {
            behaves_as_the_model(&transactions, 14, true);
        }

        /// More, so that the table grows.
        #[test]
        fn many_lines_are_as_the_model(
            transactions in (1u64..200).prop_flat_map(|lines| vec(steps(lines, 300), 1..6))
        ) {
            behaves_as_the_model(&transactions, 200, false);
        }
    }

    #[test]
    fn a_large_transaction_leaves_no_memory_behind() {
        let mut set = WriteSet::default();
        set.mark();
        (0..20 * KEPT as u64).for_each(|value| set.put(0, value));
        set.clear();
        assert!(set.journal.capacity() <= KEPT);
        (0..=KEPT as u64).for_each(|line| set.put(line * LINE, 1));
        assert_eq!((set.get(KEPT as u64 * LINE), set.get(8)), (Some(1), None));
        set.clear();
        assert!(set.lines.capacity() <= FEW && set.is_empty() && set.get(0).is_none());
    }
}
