//! Tests the tester: engines with a planted bug, which it must find; and the same cases without the bug, which must
//! pass.

mod early;
mod engines;
mod late;

use engines::*;
use late::OnLate;
use perdura::Engine;
use perdura_crashtest::subjects::{Churn, Hash, Sps, Wide};
use perdura_crashtest::{
    ArchaptRedo, ArchaptUndo, Budget, Case, Failure, Family, On, Points, Redo, Runner, SWal, Start,
    Subject, Undo, Watcher,
};
use std::sync::atomic::Ordering;

/// Where to look for a bug: seed after seed.
#[derive(Clone, Copy)]
struct Search {
    /// The first seed: later than 0 only to shorten the test.
    first: u64,
    seeds: u64,
    cores: usize,
    points: u64,
    operations: usize,
    /// One in this many images is lived on, and how often in a row.
    again: (u64, usize),
    start: Start,
    /// Drawn by the seed if not given.
    answers: Option<&'static str>,
}

const SEARCH: Search = Search {
    first: 0,
    seeds: 40,
    cores: 1,
    points: 60,
    operations: 10,
    again: (40, 2),
    start: Start::Closed,
    answers: None,
};

const PREFIX: &str = "no committed prefix";
const LOST: &str = "acknowledged transactions are lost";
const DAMAGED: &str = "the pool is damaged";

impl Search {
    fn case(&self, seed: u64) -> Case {
        let Search { cores, points, operations, start, .. } = *self;
        let points = Points::Random(points);
        let answers = self.answers.map(|answers| answers.parse().expect("answers"));
        Case { cores, points, operations, start, seed, answers, ..Case::default() }
    }

    /// The first failure, with its seed, and the number of images.
    fn first_failure(&self, runner: &dyn Runner) -> (u64, u64, Option<Box<Failure>>) {
        let (again_every, depth) = self.again;
        let budget = Budget { again_every, depth, ..Budget::default() };
        let watcher = Watcher::default();
        let images = || watcher.images.load(Ordering::Relaxed);
        for seed in self.first..self.first + self.seeds {
            if let Err(failure) = runner.explore(&self.case(seed), budget, &watcher) {
                return (seed, images(), Some(failure));
            }
        }
        (self.seeds, images(), None)
    }

    /// The bug is found, with one of these messages; and not where it is not, in the wrapped engine without the bug.
    /// (`engines.rs` tests the engine itself.)
    fn finds<F: Family, S: Subject + Send>(self, bug: u8, subject: S, says: &[&str]) {
        let runner = On::new::<Planted<F>>(subject);
        let (seed, images, found) = with(bug, || self.first_failure(&runner));
        let failure = found.unwrap_or_else(|| panic!("not found in {images} images"));
        println!("{} {bug}: seed {seed}, {images} images: {failure}\n", F::Engine::NAME);
        assert!(says.iter().any(|what| failure.what.contains(what)), "{failure}");
        let passed = Search { seeds: seed + 1 - self.first, ..self };
        let (_, _, failure) = passed.first_failure(&runner);
        assert!(failure.is_none(), "without a bug: {}", failure.expect("one"));
    }

    /// The bug does no harm here, if transactions do not share a record: a checkpoint logs a shared one in a lane of
    /// its own, and undo's old words are then a group's.
    fn harmless<F: Family, S: Subject + Send>(self, bug: u8, subject: S) {
        let alone = Search { answers: Some("3/4,share=false"), ..self };
        let runner = On::new::<Planted<F>>(subject);
        let (_, images, found) = with(bug, || alone.first_failure(&runner));
        assert!(found.is_none(), "{}", found.expect("a failure"));
        println!("harmless in {}: {images} images", F::Engine::NAME);
    }
}

#[test]
fn a_record_applied_twice() {
    SEARCH.finds::<Redo, _>(TWICE, Sps { entries: 16 }, &[PREFIX]);
    // An undo log never holds two valid records: applying one twice changes nothing.
    Search { seeds: 2, ..SEARCH }.harmless::<Undo, _>(TWICE, Sps { entries: 16 });
    SEARCH.finds::<ArchaptRedo, _>(TWICE, Sps { entries: 16 }, &[PREFIX]);
    // The oldest record is the last that recovery undoes: applying it once more changes nothing here either.
    Search { seeds: 2, ..SEARCH }.harmless::<ArchaptUndo, _>(TWICE, Sps { entries: 16 });
}

#[test]
fn recovery_that_cannot_be_cut_short() {
    SEARCH.finds::<Redo, _>(FORGETS_FIRST, Sps::default(), &[PREFIX]);
    SEARCH.finds::<Undo, _>(FORGETS_FIRST, Sps::default(), &[PREFIX]);
    SEARCH.finds::<ArchaptRedo, _>(FORGETS_FIRST, Sps::default(), &[PREFIX, LOST]);
    SEARCH.finds::<ArchaptUndo, _>(FORGETS_FIRST, Sps::default(), &[PREFIX]);
}

#[test]
fn a_lane_forgotten() {
    let cores = Search { cores: 3, ..SEARCH };
    cores.finds::<Redo, _>(LANE_FORGOTTEN, Sps::default(), &[PREFIX, LOST]);
    cores.finds::<Undo, _>(LANE_FORGOTTEN, Sps::default(), &[PREFIX, LOST]);
    // With one session, that lane is empty.
    Search { seeds: 2, ..SEARCH }.harmless::<Redo, _>(LANE_FORGOTTEN, Sps::default());
    Search { seeds: 2, ..SEARCH }.harmless::<Undo, _>(LANE_FORGOTTEN, Sps::default());
}

#[test]
fn a_page_table_changed_too_early() {
    SEARCH.finds::<Redo, _>(TOO_EARLY, Churn, &[DAMAGED]);
    SEARCH.finds::<Undo, _>(TOO_EARLY, Churn, &[DAMAGED]);
    SEARCH.finds::<SWal, _>(TOO_EARLY, Churn, &[DAMAGED]);
    SEARCH.finds::<Redo, _>(TOO_EARLY, Hash, &[DAMAGED]);
    SEARCH.finds::<ArchaptRedo, _>(TOO_EARLY, Churn, &[DAMAGED]);
    SEARCH.finds::<ArchaptUndo, _>(TOO_EARLY, Churn, &[DAMAGED]);
}

#[test]
fn freed_memory_used_at_once() {
    Search { first: 2, ..SEARCH }.finds::<Redo, _>(NO_LIMBO, Churn, &[PREFIX, DAMAGED]);
    // Here it does: a rollback goes back to before the memory was freed.
    SEARCH.finds::<ArchaptUndo, _>(NO_LIMBO, Churn, &[PREFIX, DAMAGED]);
    // An undo log protects nothing that has committed.
    Search { seeds: 2, ..SEARCH }.harmless::<Undo, _>(NO_LIMBO, Churn);
}

#[test]
fn a_salt_kept() {
    // Records are discarded if a transaction has several, and the power was cut between them.
    let cut_in_two = Search { operations: 3, again: (10, 1), points: 30, ..SEARCH };
    cut_in_two.finds::<Redo, _>(
        SAME_SALT,
        Wide,
        &[PREFIX, LOST, "recovery left records that count"],
    );
    cut_in_two.finds::<Undo, _>(
        SAME_SALT,
        Wide,
        &[PREFIX, LOST, "recovery left records that count"],
    );
}

#[test]
fn an_answer_before_it_is_durable() {
    SEARCH.finds::<ArchaptRedo, _>(ANSWERS_FIRST, Sps::default(), &[LOST]);
    SEARCH.finds::<ArchaptUndo, _>(ANSWERS_FIRST, Sps::default(), &[LOST]);
}

/// The words of a group are in place before its record is durable.
#[test]
fn a_fence_behind_the_words() {
    fn finds<F: Family>() {
        let (seed, images, found) =
            with(LATE_FENCE, || SEARCH.first_failure(&On::new::<OnLate<F>>(Hash)));
        let failure = found.unwrap_or_else(|| panic!("not found in {images} images"));
        println!("{}: seed {seed}, {images} images: {failure}\n", F::Engine::NAME);
        let passed = Search { seeds: seed + 1, ..SEARCH };
        let (_, _, failure) = passed.first_failure(&On::new::<OnLate<F>>(Hash));
        assert!(failure.is_none(), "without a bug: {}", failure.expect("one"));
    }
    finds::<Redo>();
    finds::<ArchaptRedo>();
    finds::<ArchaptUndo>();
}

/// The log's previous contents count again once as many transactions have committed: if the engine comes back, its own
/// old records are there.
#[test]
fn a_constant_salt_of_new_logs() {
    let back = Search { start: Start::SwitchedBack, ..SEARCH };
    let says = [PREFIX, LOST, DAMAGED, "the pool cannot be opened", "recovery left records"];
    back.finds::<Redo, _>(CONSTANT_SALT, Sps::default(), &says);
    back.finds::<SWal, _>(CONSTANT_SALT, Sps::default(), &says);
    back.finds::<ArchaptRedo, _>(CONSTANT_SALT, Sps::default(), &says);
    // There is nothing to take up if the pool was never this engine's before.
    let once = Search { start: Start::Switched, seeds: 2, ..SEARCH };
    once.harmless::<Redo, _>(CONSTANT_SALT, Sps::default());
}

#[test]
fn a_header_that_does_not_say_formatting() {
    let switched = Search { start: Start::Switched, ..SEARCH };
    let says = ["the pool cannot be opened"];
    switched.finds::<Redo, _>(NO_FORMATTING, Sps::default(), &says);
    switched.finds::<Undo, _>(NO_FORMATTING, Sps::default(), &says);
    switched.finds::<SWal, _>(NO_FORMATTING, Sps::default(), &says);
    switched.finds::<ArchaptRedo, _>(NO_FORMATTING, Sps::default(), &says);
    // If the engine is not switched, no log is formatted anew.
    Search { seeds: 2, ..SEARCH }.harmless::<Redo, _>(NO_FORMATTING, Sps::default());
}
