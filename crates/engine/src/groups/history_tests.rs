use super::*;
use perdura_memory::Ram;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A memory that traces nothing.
static RAM: LazyLock<Ram> = LazyLock::new(|| Ram::new(64));

fn all(history: &mut History) -> Vec<u64> {
    std::iter::from_fn(|| history.leave(&*RAM)).map(|(line, _)| line).collect()
}

#[test]
fn many_lines_leave_in_the_order_of_addresses() {
    let lines = 4 * LISTED as u64;
    let mut history = History::new(&*RAM, lines * LINE, usize::MAX, true);
    for step in 0..lines {
        history.note(&*RAM, step * 5 % lines * LINE, 1);
    }
    history.turn();
    let expected: Vec<u64> = (0..lines).map(|line| line * LINE).collect();
    assert_eq!(all(&mut history), expected);
    history.note(&*RAM, 0, 1);
    history.turn();
    assert_eq!(all(&mut history), [0], "few again");
}

#[test]
fn lines_leave_a_generation_after_their_last_whole_write() {
    let mut history = History::new(&*RAM, 1024, 8, true);
    assert!(!history.note(&*RAM, 128, 1));
    assert!(!history.note(&*RAM, 64, 1));
    history.turn();
    assert!(history.note(&*RAM, 64, 3), "a later record has all that it waited with: young again");
    assert_eq!(all(&mut history), [128]);
    history.turn();
    assert_eq!(all(&mut history), [64]);
    assert_eq!(history.stored(&*RAM, 64), 0);
}

#[test]
fn a_line_stays_old_while_an_old_word_waits() {
    let mut history = History::new(&*RAM, 1024, 8, true);
    history.note(&*RAM, 64, 1);
    history.turn();
    history.note(&*RAM, 64, 2);
    assert_eq!(history.stored(&*RAM, 64), 3);
    assert_eq!(all(&mut history), [64], "word 0 is in an old record alone");
    history.turn();
    assert_eq!(all(&mut history), []);
}

#[test]
fn where_records_do_not_go_a_line_is_young_when_it_is_stored_to() {
    let mut history = History::new(&*RAM, 1024, 8, false);
    history.note(&*RAM, 64, 1);
    history.note(&*RAM, 128, 1);
    history.turn();
    history.note(&*RAM, 64, 2);
    assert_eq!(history.stored(&*RAM, 64), 3);
    assert_eq!(all(&mut history), [128]);
    history.turn();
    assert_eq!(history.leave(&*RAM), Some((64, 3)));
}

#[test]
fn where_records_stay_a_line_that_has_left_keeps_its_mask() {
    let mut history = History::new(&*RAM, 1024, 8, false);
    history.note(&*RAM, 64, 0b11);
    history.note(&*RAM, 128, 0b1);
    history.turn();
    let left = std::iter::from_fn(|| history.leave_before_records(&*RAM));
    assert_eq!(left.map(|leaving| leaving.line).collect::<Vec<_>>(), [128, 64]);
    assert_eq!((history.stored(&*RAM, 64), history.stored(&*RAM, 128)), (0b11, 0b1));
    assert!(!history.note(&*RAM, 64, 0b100), "it did not wait");
    assert_eq!(history.stored(&*RAM, 64), 0b111);
    history.log_is_cut(&*RAM);
    assert_eq!(
        (history.stored(&*RAM, 64), history.stored(&*RAM, 128)),
        (0b111, 0),
        "one waits again"
    );
    history.turn();
    assert_eq!(history.leave(&*RAM), Some((64, 0b111)));
    assert!(history.is_empty() && history.stored(&*RAM, 64) == 0);
}

#[test]
fn a_line_tells_whether_it_was_stored_to_since_it_was_old() {
    let mut history = History::new(&*RAM, 1024, 8, true);
    history.note(&*RAM, 64, 1);
    history.note(&*RAM, 128, 1);
    history.turn();
    history.note(&*RAM, 128, 2);
    let left: Vec<Leaving> = std::iter::from_fn(|| history.leave_before_records(&*RAM)).collect();
    let said = left.iter().map(|leaving| (leaving.line, leaving.mask, leaving.recent));
    assert_eq!(said.collect::<Vec<_>>(), [(128, 3, true), (64, 1, false)]);
    history.note(&*RAM, 192, 4);
    history.turn();
    history.keep(&*RAM, &left[0]);
    assert_eq!((history.stored(&*RAM, 128), history.stored(&*RAM, 64)), (3, 0));
    let again: Vec<_> = std::iter::from_fn(|| history.leave_before_records(&*RAM)).collect();
    assert!(again.len() == 2 && again.iter().all(|leaving| !leaving.recent));
}

#[test]
fn more_than_may_wait_are_noticed() {
    let mut history = History::new(&*RAM, 1024, 2, true);
    (1..=2).for_each(|line| {
        history.note(&*RAM, line * 64, 1);
    });
    assert!(!history.is_full());
    history.note(&*RAM, 192, 1);
    assert!(history.is_full() && history.old_lines() == 0);
}

proptest! {
    /// Against each word's last write: by the end of a turn, every word has left whose last write was before the
    /// previous turn.
    #[test]
    fn nothing_is_kept_beyond_its_log(
        steps in proptest::collection::vec((0u64..12, 1u8..=255, 0u8..6), 1..300)
    ) {
        let mut history = History::new(&*RAM, 12 * 64, 1000, true);
        let mut words: HashMap<(u64, u32), usize> = HashMap::new();
        let mut generation = 0;
        for &(line, mask, then) in &steps {
            let again = words.keys().any(|word| word.0 == line);
            prop_assert_eq!(history.note(&*RAM, line * 64, mask), again);
            (0..8).filter(|word| mask & 1 << word != 0).for_each(|word| {
                words.insert((line, word), generation);
            });
            if then <= 2 {
                let left: Vec<u64> = match then {
                    0 => all(&mut history),
                    _ => history.leave(&*RAM).into_iter().map(|(line, _)| line).collect(),
                };
                for line in left {
                    prop_assert!(words.keys().any(|word| word.0 == line / 64));
                    words.retain(|word, _| word.0 != line / 64);
                }
            }
            if then == 0 {
                history.turn();
                generation += 1;
                for (word, &last) in &words {
                    prop_assert!(last + 1 >= generation, "{word:?} waits without a log");
                }
            }
            for line in 0..12 {
                let mask = (0..8).filter(|&word| words.contains_key(&(line, word)));
                let mask = mask.fold(0, |mask, word| mask | 1 << word);
                prop_assert_eq!(history.stored(&*RAM, line * 64), mask);
            }
        }
    }
}
