//! The engine `plain` in the simulated machine: its accesses to the pool's memory are those of the transaction.

use perdura_engine::area::SMALLEST;
use perdura_engine::{Access, Engine, Mode, PlainEngine, Session};
use perdura_machine::{Machine, Options, presets};
use perdura_memory::{Domain, LINE, Memory};
use std::sync::Arc;

const LOG: u64 = SMALLEST;
const WORDS: u64 = 100;

#[test]
fn each_store_is_one_store_and_there_is_nothing_else() {
    for name in presets::names() {
        let config = presets::load(name).expect("a preset");
        let image = vec![0; (LOG + 2 * WORDS * LINE) as usize];
        let machine = Arc::new(Machine::new(
            config,
            &image,
            Options { cores: Some(1), ..Options::default() },
        ));
        PlainEngine::<Machine>::format(&machine, 0..LOG);
        let engine = PlainEngine::start(machine.clone(), 0..LOG).expect("an area");
        let mut session = engine.session().expect("a session");
        machine.start_measuring();
        let events = machine.events();
        session.begin(Mode::Write);
        for word in 0..WORDS {
            // To a word that is in no cache, and that no transaction has read.
            session.write_word(LOG + word * LINE, word).expect("a word");
        }
        let read = (0..WORDS / 2).map(|word| session.read_word(LOG + word * LINE).expect("a word"));
        assert_eq!(read.sum::<u64>(), (0..WORDS / 2).sum());
        session.write_bytes(LOG + WORDS * LINE + 3, &[1; 100]).expect("bytes");
        let ticket = session.commit_awaited().expect("a commit");
        session.wait_durable(ticket).expect("nothing to wait for");
        let core = machine.statistics().cores[0];
        // The bytes lie in two lines; where stores are durable in order, each piece of them is a store.
        let pieces = if machine.domain() == Domain::Persistent { 5 + 11 + 7 } else { 2 };
        assert_eq!((core.stores, core.loads), (WORDS + pieces, WORDS / 2), "{name}");
        assert_eq!(core.stored_bytes, WORDS * 8 + 100, "{name}");
        assert_eq!((core.write_backs, core.streams, core.fences), (0, 0, 0), "{name}");
        assert!(machine.events() >= events + WORDS + 2, "{name}");
        assert!(core.own_accesses > 0, "{name}: the lock");
    }
}
