//! Transactions that fit in no log, and store to deferred lines: they fail, and leave nothing behind.

use super::*;

/// Lines that are given a value each, and become deferred.
const STORED: u64 = 400;
/// An area in which no line is deferred.
const FAR: u64 = DATA + (1 << 17);

/// A transaction that stores to `lines`, and to more lines than the log has room for.
fn too_large<S: Session>(session: &mut S, lines: &[u64]) {
    session.begin(Mode::Write);
    for line in lines.iter().copied().chain((0..2000).map(|number| FAR + number * LINE)) {
        session.write_word(line + 8, 99).unwrap();
        (2..8).for_each(|word| session.write_word(line + word * 8, 98).unwrap());
    }
    let error = session.commit_awaited().unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

fn put<S: Session>(session: &mut S, lines: &[u64], value: u64) -> Ticket {
    session.begin(Mode::Write);
    lines.iter().for_each(|line| session.write_word(*line, value).unwrap());
    session.commit().unwrap()
}

/// A refused transaction stored to more deferred lines than one record of before-images holds; then it is split, as the
/// error suggests. The images of the first part take as much room as the refused one's first record.
fn split_is_whole<E: Engine<Reference>>(first: usize, all: usize, after: u64) {
    let (memory, engine) = tuned::<E>(64, 4096, Skip::Always);
    let mut session = engine.session().unwrap();
    let stored = (0..STORED).map(|number| put(&mut session, &[DATA + number * LINE], number + 1));
    let last = stored.last().unwrap();
    session.wait_durable(last).unwrap();
    let deferred = examined::<E>(&memory).deferred;
    assert!(deferred.len() > 100, "{}: {} lines", E::NAME, deferred.len());
    too_large(&mut session, &deferred[..all]);
    let ticket = put(&mut session, &deferred[..first], 1000);
    session.wait_durable(ticket).unwrap();
    let others: Vec<u64> = (0..after).map(|number| FAR + (1 << 17) + number * LINE).collect();
    for line in &others {
        let ticket = put(&mut session, &[*line], 2000);
        session.wait_durable(ticket).unwrap();
    }

    let expected = |line: u64| match deferred.iter().position(|deferred| *deferred == line) {
        Some(number) if number < first => 1000,
        _ if line >= FAR => 2000,
        _ => (line - DATA) / LINE + 1,
    };
    let check = |image: &[u8], what: &str| {
        let left = Reference::from_image(image, Domain::Transient);
        let recovered = E::recover(&left, LOG);
        let what = format!("{}, {first} of {all} lines, {after} after that, {what}", E::NAME);
        assert!(recovered.is_ok(), "{what}: {recovered:?}");
        let lines = (0..STORED).map(|number| DATA + number * LINE);
        let wrong: Vec<u64> =
            lines.chain(others.iter().copied()).filter(|l| left.load(*l) != expected(*l)).collect();
        assert!(wrong.is_empty(), "{what}: {} of {} words are wrong", wrong.len(), STORED + after);
        assert_eq!(left.load(deferred[0] + 8), 0);
    };
    let [every, none] = [Cut::All, Cut::None].map(|cut| memory.power_cut(cut));
    check(&every, "nothing is lost");
    let copy = |to: &mut Vec<u8>, from: &[u8], line: u64| {
        to[line as usize..][..64].copy_from_slice(&from[line as usize..][..64]);
    };
    let mut image = none.clone();
    examined::<E>(&memory).deferred.iter().for_each(|line| copy(&mut image, &every, *line));
    check(&image, "what is not deferred is lost");
    for line in deferred.iter().step_by(11) {
        let mut image = every.clone();
        copy(&mut image, &none, *line);
        check(&image, &format!("the line {line:#x} is lost"));
    }
}

/// The first record of images takes 33 lines at most, the second one the rest of its chunk. After few commits the log
/// still has it.
const CASES: [(usize, usize, u64); 4] = [(33, 34, 3), (33, 80, 100), (1, 34, 3), (20, 100, 100)];

#[test]
fn a_refused_transaction_of_redo_leaves_no_before_images() {
    for (first, all, after) in CASES {
        split_is_whole::<SkippingRedoEngine<Reference>>(first, all, after);
    }
}

#[test]
fn a_refused_transaction_of_undo_leaves_no_before_images() {
    for (first, all, after) in CASES {
        split_is_whole::<SkippingUndoEngine<Reference>>(first, all, after);
    }
}
