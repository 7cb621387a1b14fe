//! Transactions of any shape, from a part of a line to many records: everything acknowledged survives a power cut, so
//! that records fitted into the room reserved for them.

use perdura_engine::area::SMALLEST;
use perdura_engine::{Access, Engine, Mode, Session, on_each_engine};
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, LINE, Memory, Reference};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// Undo of each store writes a line a word: four times the smallest holds every transaction below.
const LOG: std::ops::Range<u64> = 0..4 * SMALLEST;
/// Enough that whole lines need several segments of 4 KiB.
const LINES: usize = 250;

/// Runs transactions, each a list of masks: the words that it stores in each line.
fn outlive_power<E: Engine<Reference>>(domain: Domain, transactions: &[Vec<u8>]) {
    let memory = Arc::new(Reference::new(LOG.end + LINES as u64 * LINE, domain));
    E::format(&memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    let mut session = engine.session().unwrap();
    let mut model = [[0; 8]; LINES];
    for (masks, value) in transactions.iter().zip(1..) {
        session.begin(Mode::Write);
        for (line, mask) in masks.iter().enumerate() {
            let at = LOG.end + line as u64 * LINE;
            for word in (0..8).filter(|word| mask & 1 << word != 0) {
                session.write_word(at + word as u64 * 8, value).unwrap();
                model[line][word] = value;
            }
            // A line that stays in the write set with nothing to be stored.
            let mark = session.mark();
            session.write_word(at, !0).unwrap();
            session.rollback_to(mark);
        }
        let ticket = session.commit().unwrap();
        session.wait_durable(ticket).unwrap();
    }
    let after = memory.after_power_cut(Cut::None);
    E::recover(&after, LOG).unwrap();
    for (line, words) in model.iter().enumerate() {
        for (word, value) in words.iter().enumerate() {
            let found = after.load(LOG.end + line as u64 * LINE + word as u64 * 8);
            assert_eq!(found, *value, "{} on {domain}, line {line}, word {word}", E::NAME);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn transactions_of_any_shape_outlive_power(
        transactions in vec(
            prop_oneof![
                vec(any::<u8>(), 1..4),
                vec(any::<u8>(), 50..LINES),
                vec(prop_oneof![Just(0x10), Just(0xFF)], 50..LINES),
            ],
            1..5,
        )
    ) {
        for domain in [Domain::Transient, Domain::Media] {
            on_each_engine!(crash_consistent outlive_power::<Reference>(domain, &transactions));
        }
    }
}

#[test]
fn a_transaction_that_takes_all_back_writes_no_log() {
    fn run<E: Engine<Reference>>() {
        let memory = Arc::new(Reference::new(LOG.end + LINE, Domain::Transient));
        E::format(&memory, LOG);
        let mut session = E::start(memory.clone(), LOG).unwrap().session().unwrap();
        let before = memory.events();
        session.begin(Mode::Write);
        let mark = session.mark();
        session.write_word(LOG.end, 1).unwrap();
        session.rollback_to(mark);
        session.commit().unwrap();
        assert_eq!((memory.events() - before, session.counters().read_only), (0, 1), "{}", E::NAME);
    }
    on_each_engine!(crash_consistent run::<Reference>());
}
