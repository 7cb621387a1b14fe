//! Software transactional memory on a block device: commits return before they are durable, and share syncs.

use perdura_engine::area::SMALLEST;
use perdura_engine::{Access, CcStmEngine, Engine, Mode, Session, Ticket};
use perdura_memory::image::Cut;
use perdura_memory::{Domain, Memory, Reference};
use std::ops::Range;
use std::sync::Arc;

type CcStm = CcStmEngine<Reference>;

const LOG: Range<u64> = 0..4 * SMALLEST;
const DATA: u64 = LOG.end;

fn started(memory: Reference) -> (Arc<Reference>, Arc<CcStm>) {
    let memory = Arc::new(memory);
    let engine = CcStm::start(memory.clone(), LOG).expect("an empty log");
    (memory, engine)
}

fn made(domain: Domain) -> (Arc<Reference>, Arc<CcStm>) {
    let memory = Reference::new(DATA + (1 << 20), domain);
    CcStm::format(&memory, LOG);
    started(memory)
}

fn commit<S: Session>(session: &mut S, at: u64, value: u64) -> Ticket {
    session.begin(Mode::Write);
    let before = session.read_word(at).expect("a read");
    session.write_word(at, before + value).expect("a write");
    session.commit().expect("a commit")
}

/// These words after a power cut that loses everything it may.
fn after_cut(memory: &Reference, words: [u64; 3]) -> [u64; 3] {
    let after = memory.after_power_cut(Cut::None);
    CcStm::recover(&after, LOG).expect("a log");
    words.map(|word| after.load(DATA + word * 640))
}

#[test]
fn one_sync_serves_all_that_have_committed() {
    let (memory, engine) = made(Domain::Media);
    let mut sessions = [0; 3].map(|_| engine.session().expect("a session"));
    let fences = |sessions: &[_; 3]| -> u64 {
        sessions
            .iter()
            .map(|session: &<CcStm as Engine<_>>::Session| session.counters().fences)
            .sum()
    };
    let mut last = Ticket(0);
    for round in 0..5 {
        for (index, session) in sessions.iter_mut().enumerate() {
            // A word of its own, and one computed from the others'.
            let own = commit(session, DATA + index as u64 % 2 * 640, 1);
            last = commit(session, DATA + 2 * 640, 1);
            assert!(own < last && !session.is_durable(own), "round {round}");
        }
    }
    assert_eq!(fences(&sessions), 0, "no commit has waited");
    assert_eq!(after_cut(&memory, [0, 1, 2]), [0, 0, 0]);
    // A reading transaction has seen words that are not durable.
    sessions[0].begin(Mode::Read);
    assert_eq!(sessions[0].read_word(DATA + 2 * 640).expect("a read"), 15);
    let seen = sessions[0].commit().expect("a commit");
    assert!(!sessions[0].is_durable(seen));
    sessions[1].wait_durable(seen).expect("a sync");
    assert_eq!(fences(&sessions), 1);
    assert!(sessions.iter().all(|session| session.is_durable(last)));
    assert_eq!(after_cut(&memory, [0, 1, 2]), [10, 5, 15]);
}

/// A pool's file may be moved from one kind of memory to another: each life, alternating between them, finds everything
/// acknowledged before, and the next one finds what it adds.
#[test]
fn a_pool_moves_between_kinds_of_memory() {
    let (mut memory, mut engine) = made(Domain::Media);
    let mut expected = [0; 3];
    for life in 0..6 {
        let what = format!("life {life} on {}", memory.domain());
        let mut session = engine.session().expect("a session");
        for round in 0..40 {
            let index = (round + life) % 3;
            let ticket = commit(&mut session, DATA + index as u64 * 640, 1);
            session.wait_durable(ticket).expect("a fence");
            expected[index] += 1;
            if round == 20 && life % 2 == 0 {
                session.checkpoint().expect("a checkpoint");
            }
            assert_eq!(after_cut(&memory, [0, 1, 2]), expected, "{what}, commit {round}");
        }
        drop(session);
        let domain = if life % 3 == 1 { Domain::Transient } else { Domain::Media };
        let moved = Reference::from_image(&memory.power_cut(Cut::None), domain);
        let recovered = CcStm::recover(&moved, LOG).expect("a log");
        assert!(recovered.replayed > 0, "{what}");
        (memory, engine) = started(moved);
        let reclaimable = engine.reclaimable();
        assert!(engine.checkpoint().is_ok() && engine.reclaimable() >= reclaimable, "{what}");
    }
}
