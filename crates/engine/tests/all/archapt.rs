//! Groups: the durability of transactions that are not waited for, and when it comes.

use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Engine, Mode, Session, Ticket, Tuning,
};
use perdura_memory::{Domain, Memory, Reference};
use std::sync::Arc;

const LEN: u64 = 1 << 20;
const LOG: std::ops::Range<u64> = 4096..4096 + 18 * 4096;
const DATA: u64 = 512 << 10;
const DOMAINS: [Domain; 4] =
    [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process];

fn started<E: Engine<Reference>>(domain: Domain) -> (Arc<Reference>, Arc<E>) {
    let memory = Arc::new(Reference::new(LEN, domain));
    E::format(&memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    (memory, engine)
}

fn add<S: Session>(session: &mut S, words: u64) -> Ticket {
    session.begin(Mode::Write);
    for word in 0..words {
        let at = DATA + word * 8;
        let value = session.read_word(at).unwrap();
        session.write_word(at, value + 1).unwrap();
    }
    session.commit().unwrap()
}

fn stays<E: Engine<Reference>>(domain: Domain) {
    let (memory, engine) = started::<E>(domain);
    let mut session = engine.session().unwrap();
    for count in 1..=1000 {
        add(&mut session, 1 + count % 40);
        if count % 7 == 0 {
            engine.checkpoint().unwrap();
            assert_eq!(memory.load(DATA), count, "{} on {domain}", E::NAME);
        }
    }
}

#[test]
fn a_checkpoint_puts_everything_in_place() {
    for domain in DOMAINS {
        stays::<ArchaptUndoEngine<Reference>>(domain);
        stays::<ArchaptRedoEngine<Reference>>(domain);
    }
}

fn is_seen<E: Engine<Reference>>(domain: Domain) {
    let (_, engine) = started::<E>(domain);
    let mut writer = engine.session().unwrap();
    let mut reader = engine.session().unwrap();
    let ticket = add(&mut writer, 3);
    assert!(!writer.is_durable(ticket), "nobody has waited for it");
    reader.begin(Mode::Read);
    assert_eq!(reader.read_word(DATA + 16).unwrap(), 1);
    let mut bytes = [0; 16];
    reader.read_bytes(DATA + 12, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let seen = reader.commit().unwrap();
    assert!(seen >= ticket, "what it has read depends on the writer");
    reader.wait_durable(seen).unwrap();
    assert!(writer.is_durable(ticket));
}

#[test]
fn a_logical_commit_is_visible_and_not_durable() {
    for domain in DOMAINS {
        is_seen::<ArchaptUndoEngine<Reference>>(domain);
        is_seen::<ArchaptRedoEngine<Reference>>(domain);
    }
}

fn shares_a_fence<E: Engine<Reference>>(most: u64) {
    let (_, engine) = started::<E>(Domain::Transient);
    engine.tune(&Tuning { answer_within_ns: Some(u64::MAX), ..Tuning::default() });
    let mut session = engine.session().unwrap();
    let tickets: Vec<_> = (0..100).map(|_| add(&mut session, 1)).collect();
    assert!(tickets.is_sorted_by(|a, b| a < b), "tickets are the order of commits");
    session.wait_durable(tickets[99]).unwrap();
    assert!(session.is_durable(tickets[0]));
    let counters = *session.counters();
    assert_eq!((counters.commits, counters.fences), (100, most), "{}", E::NAME);
    assert!(counters.write_backs() <= 3, "{}: {counters:?}", E::NAME);
}

#[test]
fn a_group_shares_its_fences_and_its_lines() {
    shares_a_fence::<ArchaptRedoEngine<Reference>>(1);
    shares_a_fence::<ArchaptUndoEngine<Reference>>(3);
}

/// Memory that a transaction has allocated, stored to and freed can be reallocated at once: what the new owner stores
/// in place must not be overwritten by words of the first that the group still holds.
fn fresh_memory_is_the_last_ones<E: Engine<Reference>>(domain: Domain) {
    let (memory, engine) = started::<E>(domain);
    let mut session = engine.session().unwrap();
    session.begin(Mode::Write);
    session.write_word(DATA + 8, 1).unwrap();
    session.write_word(DATA, 1).unwrap();
    session.commit().unwrap();
    session.begin(Mode::Write);
    session.write_fresh(DATA, &[2; 512]).unwrap();
    assert_eq!(session.read_word(DATA + 8).unwrap(), 0x0202_0202_0202_0202);
    session.commit().unwrap();
    engine.checkpoint().unwrap();
    assert_eq!(memory.load(DATA + 8), 0x0202_0202_0202_0202, "{} on {domain}", E::NAME);
}

#[test]
fn fresh_memory_hides_what_was_there() {
    for domain in DOMAINS {
        fresh_memory_is_the_last_ones::<ArchaptUndoEngine<Reference>>(domain);
        fresh_memory_is_the_last_ones::<ArchaptRedoEngine<Reference>>(domain);
    }
}
