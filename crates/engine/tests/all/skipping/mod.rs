//! Skipped write-backs: what checksums find and restore after a power cut.

mod fresh;
mod large;
mod lives;
mod logged;

use perdura_engine::area::Geometry;
use perdura_engine::groups::deferred::{Examination, Layout, examine};
use perdura_engine::{
    Access, Engine, Error, Mode, Session, Skip, SkippingRedoEngine, SkippingUndoEngine, Ticket,
    Tuning,
};
use perdura_memory::image::Cut;
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory, PAGE, Reference};
use std::sync::Arc;

const LEN: u64 = 1 << 20;
const LOG: std::ops::Range<u64> = 4096..4096 + 60 * 4096;
const DATA: u64 = 256 << 10;
/// Lines that are stored to.
const LINES: u64 = 24;

/// Where the lines are.
type Place = fn(u64) -> u64;

/// Each in a row and a column of its own, in two regions.
fn apart(number: u64) -> u64 {
    DATA + 250 * 1024 + number * 65 * LINE
}

/// At the crossings of a few rows and columns.
fn close(number: u64) -> u64 {
    DATA + number % 4 * PAGE + number / 4 * LINE
}

/// A memory and an engine on it that defers every line that leaves the queue.
fn started<E: Engine<Reference>>(queue_lines: u64) -> (Arc<Reference>, Arc<E>) {
    tuned(queue_lines, 300, Skip::Always)
}

fn tuned<E: Engine<Reference>>(queue: u64, group: u64, skip: Skip) -> (Arc<Reference>, Arc<E>) {
    let memory = Arc::new(Reference::new(LEN, Domain::Transient));
    E::format(&memory, LOG);
    let engine = E::start(memory.clone(), LOG).unwrap();
    engine.tune(&Tuning {
        queue_lines: Some(queue),
        group_bytes: Some(group),
        answer_within_ns: Some(u64::MAX),
        skip: Some(skip),
        share: None,
        window: None,
        snapshot_after: None,
        bias_after: None,
        kept_segments: None,
        batches: None,
        wait_for_readers_ns: None,
        fallback_percent: None,
        attempts: None,
        conflict_delay: None,
    });
    (memory, engine)
}

/// The checksums' verdict on a memory whose log has been applied.
fn examined<E: Engine<Reference>>(memory: &Reference) -> Examination {
    let geometry = Geometry::read(memory, LOG, E::NAME).unwrap();
    let salt = geometry.checkpoint(memory).unwrap().salt;
    examine(memory, Layout::of(&geometry, salt), u64::MAX).unwrap()
}

/// A transaction that stores a few words of a few lines.
fn store<S: Session>(
    session: &mut S,
    place: Place,
    random: &mut SplitMix64,
    values: &mut [[u64; 8]],
) -> Ticket {
    session.begin(Mode::Write);
    for _ in 0..1 + random.below(3) {
        let number = random.below(LINES);
        for _ in 0..1 + random.below(8) {
            let (word, value) = (random.below(8), random.next());
            session.write_word(place(number) + word * 8, value).unwrap();
            values[number as usize][word as usize] = value;
        }
    }
    session.commit().unwrap()
}

fn contents<M: Memory>(memory: &M, place: Place) -> Vec<[u64; 8]> {
    let words = |number| std::array::from_fn(|word| memory.load(place(number) + word as u64 * 8));
    (0..LINES).map(words).collect()
}

/// While nothing is lost, every sum is that of the memory's contents.
fn sums_are_right<E: Engine<Reference>>(place: Place) {
    for queue in [1, 2, 5, 7] {
        let (memory, engine) = started::<E>(queue);
        let mut session = engine.session().unwrap();
        let mut random = SplitMix64::new(queue);
        let mut values = vec![[0; 8]; LINES as usize];
        let mut deferred = 0;
        for turn in 0..3000 {
            let ticket = store(&mut session, place, &mut random, &mut values);
            if turn % 50 == 0 {
                session.wait_durable(ticket).unwrap();
                let found = examined::<E>(&memory);
                assert!(found.corrected.is_empty() && found.hopeless.is_empty(), "{found:?}");
                deferred += found.deferred.len();
                assert_eq!(contents(&*memory, place), values, "{}", E::NAME);
            }
        }
        assert!(deferred > 20, "{} defers lines: {deferred}", E::NAME);
        drop(session);
        engine.checkpoint().unwrap();
        assert!(
            examined::<E>(&memory).deferred.is_empty(),
            "a checkpoint leaves nothing to chance"
        );
        assert_eq!(contents(&memory.after_power_cut(Cut::None), place), values);
    }
}

#[test]
fn sums_follow_what_is_stored() {
    for place in [apart, close] {
        sums_are_right::<SkippingUndoEngine<Reference>>(place);
        sums_are_right::<SkippingRedoEngine<Reference>>(place);
    }
}

/// Power cuts: transactions that had been waited for are there, or the pool reports a loss. Returns how many lines were
/// restored, and how many power cuts were refused and survived.
fn lost_lines_are_found<E: Engine<Reference>>(place: Place, lives: u64) -> [u64; 3] {
    let mut random = SplitMix64::new(3);
    let (mut corrected, mut refused, mut whole) = (0, 0, 0);
    for life in 0..lives {
        let (memory, engine) = started::<E>(1 + life % 9);
        let mut session = engine.session().unwrap();
        let mut values = vec![[0; 8]; LINES as usize];
        let mut ticket = Ticket::default();
        for _ in 0..20 + random.below(60) {
            ticket = store(&mut session, place, &mut random, &mut values);
        }
        session.wait_durable(ticket).unwrap();
        for cut in [Cut::None, Cut::All, Cut::Seed(random.next()), Cut::Seed(random.next())] {
            let after = memory.after_power_cut(cut);
            match E::recover(&after, LOG) {
                Ok(recovery) => {
                    assert_eq!(
                        contents(&after, place),
                        values,
                        "{} in life {life}, {cut:?}",
                        E::NAME
                    );
                    corrected += recovery.corrected;
                    whole += 1;
                    let again = after.after_power_cut(Cut::None);
                    assert_eq!(contents(&again, place), values, "recovery makes it durable");
                    assert!(examined::<E>(&again).deferred.is_empty());
                }
                Err(Error::Lost { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    [corrected, refused, whole]
}

#[test]
fn power_cut() {
    fn run<E: Engine<Reference>>() {
        let [corrected, refused, whole] = lost_lines_are_found::<E>(apart, 20);
        assert!(corrected > 100 && whole == 80 && refused == 0, "{}: {corrected}", E::NAME);
        let [corrected, refused, whole] = lost_lines_are_found::<E>(close, 20);
        assert!(corrected > 100 && whole == 80 && refused == 0, "{}: {corrected}", E::NAME);
    }
    run::<SkippingUndoEngine<Reference>>();
    run::<SkippingRedoEngine<Reference>>();
}

#[test]
fn unrestorable() {
    fn run<E: Engine<Reference>>() {
        let (memory, engine) = started::<E>(LINES / 2);
        let mut session = engine.session().unwrap();
        let mut ticket = Ticket::default();
        for number in 0..2 * LINES {
            session.begin(Mode::Write);
            session.write_word(apart(number), number + 1).unwrap();
            ticket = session.commit().unwrap();
        }
        session.wait_durable(ticket).unwrap();
        let deferred = examined::<E>(&memory).deferred;
        let after = memory.after_power_cut(Cut::None);
        match E::recover(&after, LOG) {
            Err(Error::Lost { lines, at }) => {
                assert!(lines >= 6 && deferred.contains(&at), "{}: {lines}", E::NAME)
            }
            other => panic!("{}: {other:?}", E::NAME),
        }
    }
    run::<SkippingUndoEngine<Reference>>();
    run::<SkippingRedoEngine<Reference>>();
}

/// Batches of a line or two, until there is no room for more of them; and before-images.
#[test]
fn batches_and_images_find_their_place() {
    fn run<E: Engine<Reference>>() {
        let (memory, engine) = started::<E>(1);
        let mut session = engine.session().unwrap();
        let mut random = SplitMix64::new(5);
        let mut values = vec![0; 2000];
        for turn in 0..8000 {
            session.begin(Mode::Write);
            for _ in 0..2 {
                let most = random.below(2000) + 1;
                let number = random.below(most);
                session.write_word(DATA + number * LINE, turn).unwrap();
                values[number as usize] = turn;
            }
            let ticket = session.commit().unwrap();
            if turn % 100 == 0 {
                session.wait_durable(ticket).unwrap();
                let found = examined::<E>(&memory);
                assert!(found.hopeless.is_empty() && found.corrected.is_empty(), "{}", E::NAME);
            }
        }
        session.begin(Mode::Read);
        for (number, value) in values.into_iter().enumerate() {
            assert_eq!(session.read_word(DATA + number as u64 * LINE).unwrap(), value);
        }
        session.commit().unwrap();
    }
    run::<SkippingUndoEngine<Reference>>();
    run::<SkippingRedoEngine<Reference>>();
}
