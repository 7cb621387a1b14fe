//! The numbers of commits near their end, as after very many commits or in a file that was made so: no acknowledged
//! commit is lost, nothing panics, and opening the pool again makes room.

use perdura_engine::area::{Checkpoint, Geometry, SMALLEST};
use perdura_engine::{
    Access, Engine, Error, Mode, RedoEngine, Result, Session, Tuning, on_each_engine,
};
use perdura_memory::image::Cut;
use perdura_memory::{Domain, Memory, Reference};
use std::ops::Range;
use std::sync::Arc;

const LOG: Range<u64> = 0..4 * SMALLEST;
const DATA: u64 = LOG.end;

/// Commits `values` one after the other, and cuts the power after each that is acknowledged.
fn commits<E: Engine<Reference>>(
    memory: &Arc<Reference>,
    values: Range<u64>,
    share: bool,
) -> Result<()> {
    let engine = E::start(memory.clone(), LOG)?;
    engine.tune(&Tuning { answer_within_ns: Some(u64::MAX), ..Tuning::default() });
    let mut session = engine.session()?;
    for value in values {
        let mut ticket = None;
        for part in 0..1 + u64::from(share) {
            session.begin(Mode::Write);
            session.write_word(DATA, value)?;
            session.write_word(DATA + 640 * (1 + part), value)?;
            let committed = session.commit()?;
            assert!(ticket < Some(committed), "{}: {ticket:?}, then {committed:?}", E::NAME);
            ticket = Some(committed);
        }
        session.wait_durable(ticket.expect("one part at least"))?;
        let after = memory.after_power_cut(Cut::None);
        E::recover(&after, LOG)?;
        assert_eq!(after.load(DATA), value, "{}: an acknowledged commit is lost", E::NAME);
    }
    Ok(())
}

fn near_the_end<E: Engine<Reference>>(ticket: u64, share: bool) {
    let what = format!("{}, a checkpoint of {ticket:#x}", E::NAME);
    let memory = Arc::new(Reference::new(LOG.end + (1 << 20), Domain::Transient));
    E::format(&memory, LOG);
    let geometry = Geometry::read(&*memory, LOG, E::NAME).unwrap();
    let salt = geometry.checkpoint(&*memory).unwrap().salt;
    geometry.set_checkpoint(&*memory, Checkpoint { sequence: 2, ticket, salt });
    let ended = commits::<E>(&memory, 1..30, share);
    let allowed = matches!(ended, Ok(()) | Err(Error::Invalid(_) | Error::Corrupt { .. }));
    assert!(allowed, "{what}: {ended:?}");
    let refused = E::inspect(&memory, LOG).err();
    match E::recover(&memory, LOG) {
        Ok(_) => {
            assert!(refused.is_none(), "{what}: {refused:?}");
            commits::<E>(&memory, 30..60, true).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        Err(Error::Corrupt { .. }) => assert!(refused.is_some() && ticket > u64::MAX / 2, "{what}"),
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Tickets of groups have 44 bits for these, others 64: the edges of both, and of half as many.
fn everywhere<E: Engine<Reference>>() {
    for edge in [1 << 42, 1 << 43, 1 << 44, 1 << 62, 1 << 63] {
        for before in [0, 1, 2, 9, 10, 11, 20] {
            near_the_end::<E>(edge - before, before % 2 == 0);
        }
    }
    [0, 1, 9].into_iter().for_each(|before| near_the_end::<E>(u64::MAX - before, true));
}

#[test]
fn commits_are_numbered_to_the_end_and_no_further() {
    on_each_engine!(crash_consistent everywhere::<Reference>());
}

/// Counts that would overflow at the next checkpoint.
#[test]
fn a_checkpoint_that_counts_too_far_is_damage() {
    let memory = Reference::new(LOG.end, Domain::Transient);
    RedoEngine::format(&memory, LOG);
    let geometry = Geometry::read(&memory, LOG, RedoEngine::<Reference>::NAME).unwrap();
    let salt = geometry.checkpoint(&memory).unwrap().salt;
    geometry.set_checkpoint(&memory, Checkpoint { sequence: u64::MAX, ticket: 1, salt });
    assert!(matches!(RedoEngine::recover(&memory, LOG), Err(Error::Corrupt { .. })));
    assert!(matches!(RedoEngine::inspect(&memory, LOG), Err(Error::Corrupt { .. })));
}
