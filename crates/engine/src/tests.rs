//! Pairs that are not in the list of engines: the fair lock, and a synchronisation that cannot fence.

use crate::area::SMALLEST;
use crate::consistency::redo::Redo;
use crate::consistency::undo::Undo;
use crate::engine::Named;
use crate::groups::{Archapt, ArchaptRedo};
use crate::logged::Logged;
use crate::sync::{Fair, Synchronisation};
use crate::{Access, Engine, Error, Mode, Session};
use perdura_memory::lock::Order;
use perdura_memory::{Domain, Ram, Reference};
use std::sync::Arc;

const DATA: u64 = 2 * SMALLEST;

/// Like a hardware transaction: a fence would end it.
#[derive(Default)]
struct CannotFence;

impl Order for CannotFence {
    type Place = ();
    fn join(&self) {}
    fn is_next(&self, (): &()) -> bool {
        true
    }
    fn leave(&self) {}
}

impl Synchronisation for CannotFence {
    const FENCES: bool = false;
}

macro_rules! pairs {
    ($($pair:ty = $name:literal;)*) => {$(
        impl Named for $pair {
            const NAME: &'static str = $name;
        }
    )*};
}
pairs! {
    (Redo, CannotFence) = "redo, cannot fence";
    (Undo, Fair) = "undo, fair";
    (Redo, Fair) = "redo, fair";
    (Archapt<ArchaptRedo>, Fair) = "archapt-redo, fair";
}

/// A pair that is not crash-sync-safe on a domain is refused there, with a reason, and nowhere else.
#[test]
fn unsafe_pairs() {
    type Pair = Logged<Reference, Redo, CannotFence>;
    type Locked = Logged<Reference, Redo, Fair>;
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process] {
        let memory = Arc::new(Reference::new(DATA + 4096, domain));
        let safe = matches!(domain, Domain::Persistent | Domain::Process);
        Pair::format(&memory, 0..DATA);
        let before = memory.events();
        match Pair::start(memory.clone(), 0..DATA) {
            Ok(_) => assert!(safe, "{domain}"),
            Err(error) => {
                assert!(!safe && matches!(error, Error::NotSafe { .. }), "{domain}: {error}");
                let text = error.to_string();
                assert!(text.contains("redo, cannot fence") && text.contains("cannot fence:"));
                assert_eq!(memory.events(), before, "nothing is written to what is refused");
            }
        }
        assert_eq!(Pair::refusal(domain).is_none(), safe);
        assert_eq!(Locked::refusal(domain), None);
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
