//! A power cut during a commit: the transaction is there whole or not at all. And an undo record that is being made
//! void then, whatever is left of the record's first line.

use perdura_engine::area::{Geometry, SMALLEST};
use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, Engine, Mode, SWalEngine, Session,
    UndoEachEngine, UndoEngine,
};
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, LINE, Memory, Reference};
use std::collections::BTreeSet;
use std::sync::Arc;

type Undo = UndoEngine<Reference>;

const LOG: std::ops::Range<u64> = 0..SMALLEST;
const LEN: u64 = SMALLEST + 1024 * LINE;
const DOMAINS: [Domain; 3] = [Domain::Transient, Domain::Persistent, Domain::Media];
/// Lines of a transaction: a record of a line, of several, and of several parts.
const LINES: [u64; 3] = [1, 9, 1000];

/// A memory where each word is 1, whose power is cut `events` events into the durable commit that makes them 2. Also
/// returns how many events the commit has.
fn cut_in_commit<E: Engine<Reference>>(
    domain: Domain,
    lines: u64,
    events: u64,
) -> (Arc<Reference>, u64) {
    let memory = Arc::new(Reference::new(LEN, domain));
    E::format(&*memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    let mut session = engine.session().unwrap();
    let mut write = |value| {
        session.begin(Mode::Write);
        for line in 0..lines {
            session.write_word(SMALLEST + line * LINE, value).unwrap();
        }
        let before = memory.events();
        if value == 2 {
            memory.cut_after(events);
        }
        let ticket = session.commit().unwrap();
        session.wait_durable(ticket).unwrap();
        memory.events() - before
    };
    write(1);
    let events = write(2);
    drop(session);
    (memory, events)
}

/// The value of all words after recovery.
fn recovered<E: Engine<Reference>>(memory: &Reference, lines: u64) -> u64 {
    E::recover(memory, LOG).unwrap();
    let values: BTreeSet<u64> =
        (0..lines).map(|line| memory.load(SMALLEST + line * LINE)).collect();
    assert_eq!(values.len(), 1, "half a transaction: {values:?}");
    values.into_iter().next().unwrap()
}

#[test]
fn any_part_of_the_void_line_rolls_back_whole_or_not_at_all() {
    for (domain, lines) in DOMAINS.into_iter().flat_map(|domain| LINES.map(|lines| (domain, lines)))
    {
        let (_, events) = cut_in_commit::<Undo>(domain, lines, u64::MAX);
        // The last two are the void record's line and its fence.
        let (memory, _) = cut_in_commit::<Undo>(domain, lines, events - 2);
        let image = memory.power_cut(Cut::None);
        let record = Geometry::read(&*memory, LOG, "undo").unwrap().segment(0).start as usize;
        assert_eq!(recovered::<Undo>(&Reference::from_image(&image, domain), lines), 1);
        for zeroed in 1u32..256 {
            let mut image = image.clone();
            let words = image[record..record + 64].chunks_exact_mut(8).enumerate();
            let mut changed = false;
            for (_, bytes) in words.filter(|(word, _)| zeroed & 1 << word != 0) {
                changed |= bytes.iter().any(|byte| *byte != 0);
                bytes.fill(0);
            }
            let value = recovered::<Undo>(&Reference::from_image(&image, domain), lines);
            assert_eq!(value, 1 + u64::from(changed), "{domain}, {lines} lines, words {zeroed:b}");
        }
    }
}

fn every_cut_leaves_a_whole_transaction<E: Engine<Reference>>() {
    for (domain, lines) in
        DOMAINS.into_iter().flat_map(|domain| [1, 9].map(|lines| (domain, lines)))
    {
        let (_, events) = cut_in_commit::<E>(domain, lines, u64::MAX);
        let mut seen = BTreeSet::new();
        for event in 0..=events {
            let (memory, _) = cut_in_commit::<E>(domain, lines, event);
            for cut in [Cut::None, Cut::All].into_iter().chain((0..30).map(Cut::Seed)) {
                let value = recovered::<E>(&memory.after_power_cut(cut), lines);
                assert!(value == 2 || event < events, "{domain}: an acknowledged commit is lost");
                seen.insert(value);
            }
        }
        assert_eq!(seen, BTreeSet::from([1, 2]));
    }
}

#[test]
fn every_cut_of_an_undo_commit_leaves_a_whole_transaction() {
    every_cut_leaves_a_whole_transaction::<Undo>();
}

#[test]
fn every_cut_of_a_commit_that_logs_each_store_leaves_a_whole_transaction() {
    every_cut_leaves_a_whole_transaction::<UndoEachEngine<Reference>>();
}

#[test]
fn every_cut_of_an_s_wal_commit_leaves_a_whole_transaction() {
    every_cut_leaves_a_whole_transaction::<SWalEngine<Reference>>();
}

#[test]
fn every_cut_of_a_group_of_one_leaves_a_whole_transaction() {
    every_cut_leaves_a_whole_transaction::<ArchaptUndoEngine<Reference>>();
    every_cut_leaves_a_whole_transaction::<ArchaptRedoEngine<Reference>>();
}
