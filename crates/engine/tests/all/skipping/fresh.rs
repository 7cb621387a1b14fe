//! Fresh memory, which is stored in place without a log, in lines that are or were deferred.

use super::*;

/// Fresh memory is stored in place before its transaction commits, and a line of it may leave the queue meanwhile: then
/// it is deferred, and waits.
#[test]
fn fresh_memory_may_be_deferred_before_its_transaction_commits() {
    fn run<E: Engine<Reference>>() {
        let (memory, engine) = started::<E>(1);
        let mut session = engine.session().unwrap();
        let (mut random, line) = (SplitMix64::new(1), DATA);
        let mut ticket = Ticket::default();
        for turn in 0..40 {
            session.begin(Mode::Write);
            match turn % 8 {
                0 => session.write_word(line, turn).unwrap(),
                2 => session.write_fresh(line + 32, &[turn as u8; 32]).unwrap(),
                _ => (),
            }
            for _ in 0..30 {
                let at = DATA + (1 + random.below(500)) * PAGE / 8;
                session.write_word(at, random.next()).unwrap();
            }
            ticket = session.commit().unwrap();
            let found = examined::<E>(&memory);
            assert!(found.hopeless.is_empty() && found.corrected.is_empty(), "{}", E::NAME);
        }
        session.wait_durable(ticket).unwrap();
        let after = memory.after_power_cut(Cut::All);
        assert_eq!(E::recover(&after, LOG).unwrap().corrected, 0);
        assert_eq!(after.load(line + 56), 0x2222_2222_2222_2222);
    }
    run::<SkippingUndoEngine<Reference>>();
    run::<SkippingRedoEngine<Reference>>();
}

/// Fresh words in the same line as logged ones: a rollback undoes the latter, and not the former.
#[test]
fn fresh_words_next_to_undone_ones_are_not_lost() {
    type E = SkippingUndoEngine<Reference>;
    let (memory, engine) = tuned::<E>(64, 4096, Skip::Always);
    let mut session = engine.session().unwrap();
    let mut store = |line: u64, value: u64| {
        session.begin(Mode::Write);
        session.write_word(line, value).unwrap();
        session.commit().unwrap()
    };
    let tickets: Vec<Ticket> = (0..400).map(|number| store(DATA + number * LINE, number)).collect();
    engine.session().unwrap().wait_durable(*tickets.last().unwrap()).unwrap();
    let deferred = examined::<E>(&memory).deferred;
    assert!(deferred.len() > 100);
    engine.tune(&Tuning { queue_lines: Some(1 << 20), ..Tuning::default() });
    deferred.iter().for_each(|line| _ = store(*line, 7));
    // Too large to share a group: it closes the open one.
    session.begin(Mode::Write);
    (1000..1080).for_each(|line| session.write_bytes(DATA + line * LINE, &[1; 64]).unwrap());
    session.commit().unwrap();
    for line in &deferred {
        session.begin(Mode::Write);
        session.write_fresh(line + 32, &[9; 32]).unwrap();
        session.commit().unwrap();
    }
    for cut in [Cut::All, Cut::Seed(1)] {
        let after = memory.after_power_cut(cut);
        E::recover(&after, LOG).unwrap();
        for line in &deferred {
            assert_eq!(after.load(*line), (line - DATA) / LINE, "{cut:?}");
        }
    }
}

/// A line whose words are all in the log must not overwrite fresh ones.
#[test]
fn fresh_words_in_a_line_that_is_logged_whole_are_kept() {
    type E = SkippingRedoEngine<Reference>;
    let (memory, engine) = tuned::<E>(4, 300, Skip::Always);
    let mut session = engine.session().unwrap();
    let mut ticket = Ticket::default();
    for number in 0..160 {
        session.begin(Mode::Write);
        session.write_word(DATA + number * LINE, number).unwrap();
        ticket = session.commit().unwrap();
    }
    session.wait_durable(ticket).unwrap();
    let line = *examined::<E>(&memory).deferred.last().unwrap();
    session.begin(Mode::Write);
    session.write_word(line, 7).unwrap();
    ticket = session.commit().unwrap();
    session.wait_durable(ticket).unwrap();
    session.begin(Mode::Write);
    session.write_fresh(line + 32, &[9; 600]).unwrap();
    ticket = session.commit().unwrap();
    session.wait_durable(ticket).unwrap();
    let after = memory.after_power_cut(Cut::All);
    E::recover(&after, LOG).unwrap();
    assert_eq!(after.load(line), 7);
    assert!((32..632).step_by(8).all(|at| after.load(line + at) == 0x0909_0909_0909_0909));
}
