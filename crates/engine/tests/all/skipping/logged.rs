//! With undo logging, old words are recorded once: in the log, or in a before-image.

use super::*;

/// Stores to a word of every line, a transaction for each.
fn round<S: Session>(session: &mut S, value: u64) -> Ticket {
    let mut ticket = Ticket::default();
    for number in 0..LINES {
        session.begin(Mode::Write);
        session.write_word(apart(number), value + number).unwrap();
        ticket = session.commit().unwrap();
    }
    ticket
}

/// The contents after power cuts that lose all, nothing, or something.
fn after_cuts<E: Engine<Reference>>(memory: &Reference, random: &mut SplitMix64) -> Vec<u64> {
    let cuts = [Cut::None, Cut::All, Cut::Seed(random.next()), Cut::Seed(random.next())];
    let first = cuts.into_iter().filter_map(|cut| {
        let after = memory.after_power_cut(cut);
        // More may be lost than can be restored; then recovery reports it.
        E::recover(&after, LOG).ok().map(|_| contents(&after, apart).concat())
    });
    let mut states: Vec<Vec<u64>> = first.collect();
    states.dedup();
    assert_eq!(states.len(), 1, "every cut that is survived leaves the same");
    states.remove(0)
}

#[test]
fn logged_once() {
    type E = SkippingUndoEngine<Reference>;
    let (memory, engine) = started::<E>(4);
    let (mut session, mut random) = (engine.session().unwrap(), SplitMix64::new(9));
    round(&mut session, 100);
    round(&mut session, 200);
    let logged = session.counters().log_bytes;
    assert!(logged >= LINES * 16, "each line's first old word: {logged}");
    round(&mut session, 300);
    let deferred = examined::<E>(&memory).deferred.len();
    assert!(deferred > 0, "lines have left");
    assert_eq!(session.counters().log_bytes, logged, "though {deferred} lines have left");
    assert_eq!(
        after_cuts::<E>(&memory, &mut random),
        [0; 8 * LINES as usize],
        "nothing is answered"
    );

    let ticket = round(&mut session, 400);
    session.wait_durable(ticket).unwrap();
    let answered = contents(&*memory, apart).concat();
    assert_eq!(after_cuts::<E>(&memory, &mut random), answered);
    let (logged, deferred) =
        (session.counters().log_bytes, examined::<E>(&memory).deferred.len() as u64);
    assert!(deferred > LINES / 4, "{deferred} lines are deferred, and durable");
    round(&mut session, 500);
    round(&mut session, 600);
    let more = session.counters().log_bytes - logged;
    // Two words for each line that was not deferred, and the padding of each group's record.
    assert!(more < (LINES - deferred) * (16 + LINE), "{more} bytes for what was not deferred");
    assert_eq!(after_cuts::<E>(&memory, &mut random), answered);
}
