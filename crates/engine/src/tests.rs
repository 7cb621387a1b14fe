//! Pairs that are not in the list of engines, with the fair lock; and pairs that are refused.

use crate::area::SMALLEST;
use crate::consistency::redo::Redo;
use crate::consistency::undo::Undo;
use crate::engine::Named;
use crate::groups::{Archapt, ArchaptRedo};
use crate::logged::Logged;
use crate::sync::{Fair, Htm, refusal};
use crate::{Access, Engine, Mode, Session};
use perdura_memory::lock::Order;
use perdura_memory::{Domain, Ram, Speculation};
use std::sync::Arc;

const DATA: u64 = 2 * SMALLEST;

macro_rules! pairs {
    ($($pair:ty = $name:literal;)*) => {$(
        impl Named for $pair {
            const NAME: &'static str = $name;
        }
    )*};
}
pairs! {
    (Undo, Fair) = "undo, fair";
    (Redo, Fair) = "redo, fair";
    (Archapt<ArchaptRedo>, Fair) = "archapt-redo, fair";
}

/// A log and hardware transactions, which are in no log, are refused where caches are transient; nothing else is.
#[test]
fn unsafe_pairs() {
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process] {
        for hardware in [Speculation::Absent, Speculation::Isolated] {
            let unsafe_here = hardware == Speculation::Isolated
                && matches!(domain, Domain::Transient | Domain::Media);
            let refused = |why: Option<&str>| why.is_some();
            assert_eq!(refused(refusal::<Htm>(true, domain, hardware)), unsafe_here);
            assert!(!refused(refusal::<Htm>(false, domain, hardware)), "it has no log");
            assert!(!refused(refusal::<Fair>(true, domain, hardware)), "it has a lock");
        }
    }
}

/// Threads that add to two words, on engines with the fair lock: each addition counts, and readers see both words
/// equal.
#[test]
fn the_fair_lock_keeps_transactions_apart() {
    fn run<E: Engine<Ram>>() {
        const ROUNDS: u64 = 3000;
        let memory = Arc::new(Ram::new(DATA + 8192));
        E::format(&memory, 0..DATA);
        let engine = E::start(memory, 0..DATA).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let engine = &engine;
                scope.spawn(move || {
                    let mut session = engine.session().unwrap();
                    for round in 0..ROUNDS {
                        let writes = (round + thread) % 3 != 0;
                        session.begin(if writes { Mode::Write } else { Mode::Read });
                        let (one, other) =
                            [DATA, DATA + 4096].map(|at| session.read_word(at).unwrap()).into();
                        assert_eq!(one, other, "{}", E::NAME);
                        if writes {
                            session.write_word(DATA, one + 1).unwrap();
                            session.write_word(DATA + 4096, one + 1).unwrap();
                        }
                        session.commit().unwrap();
                    }
                });
            }
        });
        let mut session = engine.session().unwrap();
        session.begin(Mode::Read);
        assert_eq!(session.read_word(DATA).unwrap(), 2 * ROUNDS, "{}", E::NAME);
    }
    run::<Logged<Ram, Undo, Fair>>();
    run::<Logged<Ram, Redo, Fair>>();
    run::<Logged<Ram, Archapt<ArchaptRedo>, Fair>>();
}

/// Of two waiting writers, the one that came first is next.
#[test]
fn the_fair_lock_is_fair() {
    let fair = Fair::default();
    let places: Vec<u64> = (0..3).map(|_| fair.join()).collect();
    for place in 0..3 {
        assert!(places.iter().all(|other| fair.is_next(other) == (*other == place)));
        fair.leave();
    }
}
