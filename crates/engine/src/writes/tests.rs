//! The write set compared with a model, and its leftovers.

use super::*;
use crate::log::record::{self, Part};
use perdura_memory::Ram;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A memory that traces nothing.
static RAM: LazyLock<Ram> = LazyLock::new(|| Ram::new(64));

#[derive(Clone, Debug)]
enum Step {
    Put(u64, u64),
    PutLine(u64, u64),
    Mark,
    Rollback,
    Seal,
    Undo,
    CopySealed,
}

/// What the set should hold: words, and lines in the order of their first write.
#[derive(Default)]
struct Model {
    words: HashMap<u64, u64>,
    lines: Vec<u64>,
    marks: Vec<(Mark, HashMap<u64, u64>)>,
    /// The words and the lines of the transactions before the running one.
    sealed: (HashMap<u64, u64>, usize),
}

impl Model {
    fn touch(&mut self, line: u64) {
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    fn step(&mut self, set: &mut WriteSet, step: &Step) {
        let memory = &*RAM;
        match *step {
            Step::Put(at, value) => {
                if set.begins_short {
                    set.put_word(memory, at, value);
                } else {
                    set.put(memory, at, value);
                }
                self.touch(line_of(at));
                self.words.insert(at, value);
            }
            Step::PutLine(line, value) => {
                let words: [u64; 8] = std::array::from_fn(|word| value.wrapping_add(word as u64));
                match set.begins_short {
                    true => set.put_run(memory, line, &words),
                    false => set.put_run_by_line(memory, line, &words),
                }
                self.touch(line);
                self.words.extend((0..8).map(|word| (line + word * 8, words[word as usize])));
            }
            Step::Mark => self.marks.push((set.mark(memory), self.words.clone())),
            Step::Rollback => {
                let Some((mark, words)) = self.marks.pop() else { return };
                set.rollback_to(memory, mark);
                self.words = words;
            }
            Step::Seal => {
                set.seal();
                self.marks.clear();
                self.sealed = (self.words.clone(), self.lines.len());
            }
            Step::Undo => {
                set.undo(memory);
                self.marks.clear();
                self.words = self.sealed.0.clone();
                self.lines.truncate(self.sealed.1);
            }
            Step::CopySealed => {
                let mut before = WriteSet::new(memory);
                set.copy_sealed(memory, &mut before);
                let words = |set: &WriteSet| {
                    let words = set.entries().iter().flat_map(|entry| {
                        let there = (0..8).filter(|word| entry.mask & 1 << word != 0);
                        there.map(|word| (entry.line + word * 8, entry.words[word as usize]))
                    });
                    words.collect::<HashMap<u64, u64>>()
                };
                assert_eq!(words(&before), self.sealed.0);
                assert_eq!(before.words(), self.sealed.0.len());
            }
        }
    }

    /// The words that are kept in the form of a record are those of the record, each once.
    fn compare_record(&self, set: &mut WriteSet) {
        let mut all = Vec::new();
        set.for_each(&*RAM, |at, value| all.push((at, value)));
        assert_eq!((all.len(), set.words()), (self.words.len(), self.words.len()));
        assert!(set.stored_lines() >= self.lines.len() && set.stored_lines() <= all.len());
        assert_eq!(all.iter().copied().collect::<HashMap<_, _>>(), self.words);
        assert_eq!(set.is_empty(), all.is_empty());
        assert_eq!(words_of_record(set), all);
    }

    fn compare(&self, set: &mut WriteSet, universe: u64) {
        let memory = &*RAM;
        for line in (0..universe).map(|line| line * LINE) {
            let at = |word: u64| line + word * 8;
            let wanted: [_; 8] = std::array::from_fn(|word| self.words.get(&at(word as u64)));
            let got: [_; 8] = std::array::from_fn(|word| set.get(memory, at(word as u64)));
            assert_eq!(got, wanted.map(|word| word.copied()), "line {line}");
            assert_eq!(set.line(memory, line).is_some(), self.lines.contains(&line));
        }
        if set.record_words().is_some() {
            return self.compare_record(set);
        }
        let lines: Vec<u64> = set.entries().iter().map(|entry| entry.line).collect();
        assert_eq!((lines, set.is_empty()), (self.lines.clone(), self.words.is_empty()));
        let stored = set.entries().iter().filter(|entry| entry.mask != 0).count();
        assert_eq!((set.words(), set.stored_lines()), (self.words.len(), stored));
        let (part, mut encoded) = (Part { ticket: 1, part: 0, parts: 1, behind: 1 }, Vec::new());
        let word_of = |entry: &LineWrite, word: usize| entry.words[word];
        let encoded = record::encode(&mut encoded, 0, 0, part, set.entries(), word_of);
        let zeros = self.words.values().filter(|value| **value == 0).count();
        let words = set.words() - zeros;
        assert_eq!(encoded.len(), record::words_for(set.stored_lines(), words));
    }
}

/// The words of the record that a short set keeps them in.
fn words_of_record(set: &mut WriteSet) -> Vec<(u64, u64)> {
    let (ram, part) = (Ram::new(4096), Part { ticket: 9, part: 0, parts: 1, behind: 2 });
    let most = set.record_words().map(|words| words as u64 * WORD);
    let (record, used) = set.pad(&*RAM);
    record::fill_header(record, used, (5, 64), part);
    assert_eq!(Some(record.len() as u64 * WORD), most);
    record.iter().zip((64..).step_by(8)).for_each(|(word, at)| ram.store(at, *word));
    let (found, end) = record::read(&ram, 5, 64, 4096).expect("a whole record");
    assert_eq!((found.part, end), (part, 64 + record.len() as u64 * WORD));
    let mut words = Vec::new();
    let note = |at, value| {
        words.push((at, value));
        Ok(())
    };
    found.for_each_word(note).expect("whole entries");
    words
}

fn steps(lines: u64, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..lines * 8, any::<u64>()).prop_map(|(word, value)| Step::Put(word * 8, value)),
        2 => (0..lines, any::<u64>()).prop_map(|(line, value)| Step::PutLine(line * LINE, value)),
        1 => Just(Step::Mark),
        1 => Just(Step::Rollback),
        1 => Just(Step::Seal),
        1 => Just(Step::Undo),
        1 => Just(Step::CopySealed),
    ];
    vec(step, 0..most)
}

/// Transactions on one set, whose generations soon wrap around while the table still holds entries of the first one.
fn behaves_as_the_model(transactions: &[Vec<Step>], universe: u64, every_step: bool) {
    behaves_as(WriteSet::new(&*RAM), transactions, universe, every_step);
}

fn behaves_as(mut set: WriteSet, transactions: &[Vec<Step>], universe: u64, every_step: bool) {
    for (index, steps) in transactions.iter().enumerate() {
        if index == 1 {
            set.index.near_the_last_generation();
            set.many.near_the_last_generation();
        }
        let mut model = Model::default();
        for step in steps {
            model.step(&mut set, step);
            if every_step {
                model.compare(&mut set, universe);
            }
        }
        model.compare(&mut set, universe);
        set.clear(&*RAM);
        assert!(set.is_empty());
        Model::default().compare(&mut set, universe);
    }
}

proptest! {
    /// Lines that fit in the fixed arrays.
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

/// Steps of transactions on a short set: few of them keep their words by line.
fn short_steps(lines: u64, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        100 => (0..lines * 8, any::<u64>()).prop_map(|(word, value)| Step::Put(word * 8, value)),
        2 => (0..lines * 8).prop_map(|word| Step::Put(word * 8, 0)),
        1 => (0..lines, any::<u64>()).prop_map(|(line, value)| Step::PutLine(line * LINE, value)),
        1 => Just(Step::Mark),
        1 => Just(Step::Rollback),
    ];
    vec(step, 0..most)
}

proptest! {
    #[test]
    fn short_sets_are_as_the_model(
        transactions in (1u64..100).prop_flat_map(|lines| vec(short_steps(lines, 90), 1..10))
    ) {
        behaves_as(WriteSet::short(&*RAM), &transactions, 100, true);
    }
}

/// Words of a line that follow one another share an entry, in whichever order they come.
#[test]
fn the_last_entry_grows() {
    let (memory, mut set) = (&*RAM, WriteSet::short(&*RAM));
    for word in [3, 7, 0, 5] {
        set.put_word(memory, 640 + word * 8, word);
    }
    assert_eq!((set.words(), set.stored_lines(), set.record_words()), (4, 1, Some(8)));
    set.put_word(memory, 64, 9);
    set.put_word(memory, 640 + 8, 1);
    assert_eq!((set.words(), set.stored_lines(), set.record_words()), (6, 3, Some(16)));
    let words = [(640, 0), (664, 3), (680, 5), (696, 7), (64, 9), (648, 1)];
    assert_eq!(words_of_record(&mut set), words);
    let line = set.line(memory, 640).expect("it has words");
    assert_eq!((line.mask, line.words), (0b1010_1011, [0, 1, 0, 3, 0, 5, 0, 7]));
    set.to_lines(memory);
    assert_eq!((set.words(), set.stored_lines(), set.record_words()), (6, 2, None));
}

/// A transaction continues when its predecessors' words have left: what it wrote stays, and can be undone.
#[test]
fn forgets_sealed_words() {
    for lines in [3, 2 * few::ROOM as u64] {
        let (memory, mut set) = (&*RAM, WriteSet::new(&*RAM));
        (0..lines).for_each(|line| set.put(memory, line * LINE, 1));
        set.seal();
        set.put(memory, 0, 2);
        let mark = set.mark(memory);
        set.put(memory, LINE + 8, 3);
        set.put(memory, lines * LINE, 4);
        set.forget_sealed(memory);
        let there = |set: &WriteSet| {
            [0, LINE, LINE + 8, 2 * LINE, lines * LINE].map(|at| set.get(memory, at))
        };
        assert_eq!(there(&set), [Some(2), None, Some(3), None, Some(4)]);
        assert_eq!((set.words(), set.stored_lines()), (3, 3));
        set.put(memory, 2 * LINE, 5);
        set.rollback_to(memory, mark);
        assert_eq!(there(&set), [Some(2), None, None, None, None]);
        assert_eq!((set.words(), set.stored_lines(), set.is_unchanged()), (1, 1, false));
        set.put(memory, LINE, 6);
        set.seal();
        assert!(set.is_unchanged());
        assert_eq!(there(&set), [Some(2), Some(6), None, None, None]);
    }
}

#[test]
fn a_large_transaction_leaves_no_memory_behind() {
    let mut set = WriteSet::new(&*RAM);
    set.mark(&*RAM);
    (0..20 * KEPT as u64).for_each(|value| set.put(&*RAM, 0, value));
    set.clear(&*RAM);
    assert!(set.journal.capacity() <= KEPT);
    (0..=KEPT as u64).for_each(|line| set.put(&*RAM, line * LINE, 1));
    assert_eq!((set.get(&*RAM, KEPT as u64 * LINE), set.get(&*RAM, 8)), (Some(1), None));
    set.clear(&*RAM);
    assert!(!set.many.has_room() && set.is_empty() && set.get(&*RAM, 0).is_none());
    // Nor does a transaction that is undone after another one.
    (0..100).for_each(|line| set.put(&*RAM, line * LINE, 1));
    set.seal();
    (0..4 * KEPT as u64).for_each(|line| set.put(&*RAM, line * LINE, 2));
    set.undo(&*RAM);
    assert!(set.many.room() <= KEPT && set.journal.capacity() <= KEPT);
    assert_eq!((set.get(&*RAM, 99 * LINE), set.get(&*RAM, 100 * LINE)), (Some(1), None));
}
