//! Bugs inside the engines that no wrapper around one reaches: each is ordered from the engine
//! (`perdura_engine::planted`), and must be found; and the same cases without it must pass.
//!
//!     PERDURA_TEST_BUDGET=10 cargo test --release -p perdura-crashtest --test all unseen:: -- --nocapture

use perdura::{Purpose, Result, Root, Tx, TxExt};
use perdura_crashtest::case::usual_operations;
use perdura_crashtest::runner::find;
use perdura_crashtest::subjects::{SUBJECTS, Sps};
use perdura_crashtest::{
    Budget, Case, CcStm, Eager, Failure, On, Points, Runner, Subject, Watcher,
};
use perdura_engine::planted::{self, Bug};
use perdura_machine::cache::Policy;
use perdura_memory::Domain;
use perdura_memory::random::SplitMix64;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Where to look for a bug: seed after seed.
#[derive(Clone, Copy)]
struct Hunt {
    engine: &'static str,
    subject: &'static str,
    cores: usize,
    domain: Domain,
    /// Operations of each core; `None` for the command's default.
    operations: Option<usize>,
    /// Drawn by the seed if not given.
    answers: Option<&'static str>,
    points: u64,
    /// The first seed: later than 1 only to shorten the test.
    first: u64,
}

const HUNT: Hunt = Hunt {
    engine: "redo",
    subject: "sps",
    cores: 3,
    domain: Domain::Transient,
    operations: None,
    answers: None,
    points: 40,
    first: 1,
};

impl Hunt {
    fn runner(&self) -> Box<dyn Runner> {
        match self.subject {
            SMALL => Box::new(On::new::<CcStm>(Sps { entries: 8 })),
            TOGGLE => Box::new(On::new::<Eager>(Toggle)),
            named => find(self.engine, named).unwrap(),
        }
    }

    /// The seeds to look for a failure in: this many, or more if the tests' budget is larger.
    fn seeds(&self, usual: u64) -> Range<u64> {
        perdura_testing::seeds(self.first, usual)
    }

    /// Goes through these seeds: returns the first failure, and its seed; and the number of images.
    fn explore(&self, seeds: Range<u64>) -> (u64, Option<(u64, Box<Failure>)>) {
        let (runner, watcher) = (self.runner(), Watcher::default());
        let images = || watcher.images.load(Ordering::Relaxed);
        for seed in seeds {
            let policy = Policy::NAMED[seed as usize % Policy::NAMED.len()].policy;
            let operations = self.operations.unwrap_or(usual_operations(seed, runner.skips()));
            let operations = operations.min(runner.most_operations());
            let Hunt { cores, domain, points, .. } = *self;
            let points = Points::Random(points);
            let answers = self.answers.map(|answers| answers.parse().unwrap());
            let case = Case {
                policy,
                cores,
                domain,
                operations,
                seed,
                points,
                answers,
                ..Case::default()
            };
            if let Err(failure) = runner.explore(&case, Budget::default(), &watcher) {
                return (images(), Some((seed, failure)));
            }
        }
        (images(), None)
    }

    /// None of these seeds fails. Returns the number of images.
    fn passes(&self, seeds: Range<u64>) -> u64 {
        let (images, failure) = self.explore(seeds);
        assert!(failure.is_none(), "without a bug: {}", failure.expect("one").1);
        images
    }

    /// The bug is found, with one of these messages; and the same cases pass without it.
    fn finds(self, bug: Bug, says: &[&str]) {
        let begun = Instant::now();
        let seeds = self.seeds(60);
        let (images, found) = planted::with(bug, || self.explore(seeds.clone()));
        let seconds = begun.elapsed().as_secs_f64();
        let Hunt { engine, subject, .. } = self;
        let (seed, failure) = found.unwrap_or_else(|| {
            panic!(
                "{bug:?} in {engine} with {subject}: not found in {images} images, {seconds:.1} s"
            )
        });
        println!("{bug:?} in {engine}: seed {seed}, {images} images, {seconds:.1} s: {failure}\n");
        assert!(says.iter().any(|what| failure.what.contains(what)), "{failure}");
        self.passes(seeds.start..seed + 1);
    }
}

const PREFIX: &str = "no committed prefix";
const LOST: &str = "acknowledged transactions are lost";
const READ: &str = "a transaction that read everything";
const REFUSED: &str = "the pool is refused for lost lines";

#[test]
fn durable_before_the_fence() {
    Hunt { engine: "archapt-redo", ..HUNT }.finds(Bug::DurableBeforeFence, &[LOST]);
    Hunt { engine: "archapt-undo", ..HUNT }.finds(Bug::DurableBeforeFence, &[LOST]);
}

#[test]
fn joined_and_left_out_of_the_record() {
    for engine in ["redo", "undo"] {
        Hunt { engine, ..HUNT }.finds(Bug::JoinedLeftOut, &[PREFIX, LOST, READ]);
    }
}

/// A checkpoint after every second operation, while the other cores go on.
const CHECKPOINTS: Option<&str> = Some("3/4,checkpoints=2");

#[test]
fn committed_before_the_words_are_stored() {
    let hunt = Hunt { subject: "bytes", answers: CHECKPOINTS, first: 11, ..HUNT };
    hunt.finds(Bug::CommittedBeforeStored, &[PREFIX, LOST, "damaged"]);
}

#[test]
fn dirty_before_the_words_are_stored() {
    let hunt = Hunt { subject: "bytes", answers: CHECKPOINTS, ..HUNT };
    hunt.finds(Bug::DirtyBeforeStored, &[PREFIX, LOST, "not durable"]);
}

/// The message about unordered commits.
const SET: &str = "the contents are not those of";

#[test]
fn unlocked_before_it_is_durable() {
    let hunt = Hunt { engine: "ccstm", ..HUNT };
    hunt.finds(Bug::UnlockedBeforeDurable, &[SET, READ, "damaged"]);
}

#[test]
fn a_checkpoint_that_overlooks_commits() {
    let hunt = Hunt { engine: "ccstm", subject: "bytes", answers: CHECKPOINTS, ..HUNT };
    hunt.finds(Bug::CommitsOverlooked, &[SET, "not durable", "damaged"]);
}

/// Over an undo log: words that others have seen are taken back; stores in place are not.
#[test]
fn undone_after_others_have_seen_it() {
    let hunt = Hunt { engine: "ccstm-undo", ..HUNT };
    hunt.finds(Bug::UnlockedBeforeDurable, &[SET, READ, "damaged"]);
}

#[test]
fn a_checkpoint_that_overlooks_undoable_commits() {
    let hunt = Hunt { engine: "ccstm-undo", answers: CHECKPOINTS, ..HUNT };
    hunt.finds(Bug::CommitsOverlooked, &[SET, READ, "damaged"]);
}

#[test]
fn records_behind_void_ones_are_not_read() {
    Hunt { engine: "ccstm-undo", ..HUNT }.finds(Bug::BehindVoidUnread, &[SET, "damaged"]);
}

#[test]
fn numbered_out_of_turn() {
    let hunt = Hunt { engine: "ccstm", domain: Domain::Media, ..HUNT };
    hunt.finds(Bug::NumberedOutOfTurn, &[SET, LOST, "damaged"]);
}

#[test]
fn captured_before_its_record_is_durable() {
    let hunt = Hunt { engine: "ccstm", domain: Domain::Media, answers: CHECKPOINTS, ..HUNT };
    hunt.finds(Bug::CapturedTooEarly, &[SET, READ, "damaged"]);
}

/// One line of an array: reading all of it is done before a commit goes on.
const SMALL: &str = "small sps";

/// A reading transaction's ticket does not cover the commits that it has seen.
#[test]
fn unlocked_before_it_counts_as_committed() {
    let (subject, answers) = (SMALL, Some("3/4,reads=2"));
    let (domain, points, operations, first) = (Domain::Media, 100, Some(10), 38);
    let hunt =
        Hunt { engine: "ccstm", subject, domain, answers, points, operations, first, ..HUNT };
    hunt.finds(Bug::UnlockedBeforeCommitted, &[SET, LOST]);
}

/// On a file, with copies of pages given back and cores preempted.
#[test]
fn nothing_is_lost_on_a_file() {
    let mut all = 0;
    for subject in SUBJECTS {
        for (engine, cores) in [("ccstm", 3), ("redo", 3), ("ccstm", 1), ("redo", 1)] {
            let hunt = Hunt { engine, subject, cores, domain: Domain::Media, points: 10, ..HUNT };
            let images = hunt.passes(hunt.seeds(1));
            println!("{engine} {subject} on {cores}: {images} images");
            all += images;
        }
    }
    println!("{all} images");
}

/// A record that fits into a segment only without the sums for which room was reserved: the log has no other segment.
#[test]
fn reserved_room_is_used() {
    let (domain, points) = (Domain::Media, 10);
    let hunt = Hunt { engine: "ccstm", subject: "churn", domain, points, first: 2, ..HUNT };
    hunt.passes(hunt.seeds(1));
}

#[test]
fn own_bytes_hidden() {
    for engine in ["archapt-redo", "archapt-undo"] {
        Hunt { engine, subject: "bytes", ..HUNT }.finds(Bug::OwnBytesHidden, &[PREFIX, READ]);
    }
}

/// A transaction that is too large leaves nothing behind, and its parts are done instead.
#[test]
fn too_large_and_then_in_parts() {
    for engine in ["archapt-undo-sum", "archapt-redo-sum"] {
        let (subject, operations) = ("large", Some(60));
        let hunt = Hunt { engine, subject, operations, answers: Some("1/8,skip=always"), ..HUNT };
        println!("{engine}: {} images", hunt.passes(hunt.seeds(2)));
    }
}

#[test]
fn old_words_believed_after_the_log_was_cut() {
    let hunt = Hunt { engine: "archapt-undo-sum", subject: "sps", operations: Some(60), ..HUNT };
    hunt.finds(Bug::OldWordsBelieved, &[PREFIX, LOST]);
}

#[test]
fn a_writer_that_does_not_wait_for_readers() {
    for engine in ["redo", "undo", "undo-each", "atlas", "s-wal", "archapt-redo"] {
        Hunt { engine, ..HUNT }.finds(Bug::NotAlone, &[READ]);
    }
}

#[test]
fn a_word_is_stored_before_its_entry_is_durable() {
    Hunt { engine: "undo-each", cores: 1, ..HUNT }
        .finds(Bug::StoredBeforeEntry, &[PREFIX, LOST, "damaged"]);
}

#[test]
fn entries_left_behind_are_taken_back() {
    Hunt { engine: "undo-each", subject: "churn", cores: 1, ..HUNT }
        .finds(Bug::RemnantsTakenBack, &[PREFIX, LOST, "damaged"]);
}

/// Windows: bugs in keeping, taking along, hiding or forgetting their words.
const EAGER: Hunt = Hunt { engine: "eager", cores: 1, ..HUNT };

#[test]
fn aborted_words_stay_in_the_window() {
    Hunt { subject: "churn", ..EAGER }
        .finds(Bug::AbortedWordsStay, &[PREFIX, LOST, READ, "damaged"]);
}

#[test]
fn a_window_is_overlooked() {
    Hunt { cores: 3, ..EAGER }.finds(Bug::WindowOverlooked, &[READ]);
}

#[test]
fn a_windows_fresh_memory_is_forgotten() {
    Hunt { subject: "churn", ..EAGER }
        .finds(Bug::WindowsFreshForgotten, &[PREFIX, LOST, "damaged", "not durable"]);
}

/// One block, allocated and freed by turns: every second commit of a window has the page table as it was.
struct Toggle;

const TOGGLE: &str = "toggle";

impl Subject for Toggle {
    type Op = u8;
    type Model = Option<u8>;

    fn name(&self) -> &str {
        TOGGLE
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let at = tx.new_bytes(Purpose::General, &[0; 8])?;
        tx.set_root(TOGGLE, Root { at, kind: 1_999 })
    }

    fn prepared(&self) -> Option<u8> {
        None
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> u8 {
        random.next() as u8
    }

    fn apply(&self, tx: &mut dyn Tx, byte: &u8) -> Result<()> {
        let place = tx.root(TOGGLE)?.expect("it was prepared").at;
        match tx.read_word(place)? {
            0 => {
                let new = tx.new_bytes(Purpose::Value, &[*byte; 9_000])?;
                tx.write_word(place, new)
            }
            old => {
                tx.free(old)?;
                tx.write_word(place, 0)
            }
        }
    }

    fn step(&self, model: &mut Option<u8>, byte: &u8) -> bool {
        *model = if model.is_none() { Some(*byte) } else { None };
        true
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Option<u8>>> {
        let Some(root) = tx.root(TOGGLE)? else { return Ok(None) };
        let mut first = [0];
        let block = tx.read_word(root.at)?;
        if block != 0 {
            tx.read_bytes(block, &mut first)?;
        }
        Ok(Some((block != 0).then_some(first[0])))
    }
}

#[test]
fn a_sum_is_kept_though_its_words_are_back() {
    let (subject, answers) = (TOGGLE, Some("0/1,window=64"));
    Hunt { subject, operations: Some(10), answers, ..EAGER }
        .finds(Bug::SumKept, &[PREFIX, LOST, "damaged", "checksum"]);
}

#[test]
fn lines_restored_from_columns_only() {
    for engine in ["archapt-redo-sum", "archapt-undo-sum"] {
        let hunt = Hunt { engine, subject: "hash-map", operations: Some(60), ..HUNT };
        hunt.finds(Bug::OnlyColumns, &[REFUSED]);
    }
}

/// The freeing commit is not durable: a power cut takes it back, and the memory is lost.
#[test]
fn space_that_goes_back_while_the_log_refers_to_it() {
    for engine in ["archapt-redo", "archapt-undo"] {
        let answers = Some("1/8,checkpoints=2");
        let hunt = Hunt { engine, subject: "churn", operations: Some(20), answers, ..HUNT };
        hunt.finds(Bug::ReleasedInLimbo, &[PREFIX, LOST, "damaged"]);
    }
}

/// Bugs in how a session hands its log segment over to the next one: the case does so after each transaction.
const HANDED_OVER: Option<&str> = Some("3/4,checkpoints=4,kept=0");

#[test]
fn a_segment_handed_over_before_its_record_is_fenced() {
    let hunt = Hunt { engine: "ccstm", answers: HANDED_OVER, first: 11, ..HUNT };
    hunt.finds(Bug::HandedOverUnfenced, &[SET, LOST, READ, "damaged", "that was durable"]);
}

#[test]
fn a_segment_handed_over_from_its_start() {
    for engine in ["redo", "ccstm", "eager"] {
        let hunt = Hunt { engine, answers: HANDED_OVER, ..HUNT };
        hunt.finds(Bug::HandedOverFromStart, &[PREFIX, SET, LOST, READ, "damaged"]);
    }
}

#[test]
fn a_segment_handed_over_and_freed_too_early() {
    let hunt = Hunt { engine: "redo", answers: HANDED_OVER, operations: Some(60), ..HUNT };
    hunt.finds(Bug::HandedOverFreed, &[PREFIX, LOST, "damaged"]);
}
