//! Mechanisms in hardware under the tester: a small part of the cases of `perdura-lab crash --mechanism`.

use perdura_crashtest::mechanisms::{
    CheckMechanism, Maker, Settings, budget, check_mechanism, find, mutants, replay,
};
use perdura_crashtest::{Budget, Case, Points, Report, Size, Start, Watcher};
use perdura_machine::mechanism::{
    Design, Flush, Home, Leaving, Mechanism, Moments, Promise, Verdict, list,
};
use perdura_machine::{Hardware, Ps};
use std::ops::Range;

/// The mechanisms that promise something.
fn promising() -> impl Iterator<Item = &'static str> {
    list::KINDS.iter().filter(|kind| kind.promises() != Promise::Nothing).map(|kind| kind.name)
}

/// They pass, on both machines, one core and several, with lives that follow lives.
#[test]
fn promises_are_kept() {
    for name in promising() {
        let settings = Settings::default();
        let mut all = Report::default();
        for (number, subject) in ["sps", "hash-map", "churn", "large"].into_iter().enumerate() {
            let runner = find(Maker::named(name).unwrap(), None, subject).unwrap();
            assert_eq!((runner.mechanism(), runner.subject()), (Some(name), subject));
            let points = Points::Random(25);
            let case = Case { cores: 1 + number, seed: number as u64, points, ..Case::default() };
            let case = settings.set(number * 7, &case);
            let budget = Budget { again_every: 25, again: (6, 3), ..budget() };
            let explored = runner.explore(&case, budget, &Watcher::default());
            all.add(&explored.unwrap_or_else(|failure| panic!("{failure}")));
        }
        println!("{name}: {all}; {} at arrivals, {} moved on", all.at_arrivals, all.moved_on);
        assert!(all.images > 100 && all.again > 10 && all.at_arrivals > 10, "{all}");
        assert!(all.moved_on * 4 > all.images, "{all}");
        assert_eq!(all.in_recovery > 0, name != "in-order", "{all}");
    }
}

/// Structures whose pools a crash-consistent engine opens again in the next life.
#[test]
fn pools_are_opened_again() {
    let both = |name| [(name, Start::Closed), (name, Start::New)];
    for (name, start) in promising().flat_map(both) {
        let runner = find(Maker::named(name).unwrap(), Some("undo"), "hash-map").unwrap();
        assert_eq!(runner.engine(), "undo");
        let (points, epoch) = (Points::Random(20), Some(Ps(3_000_000)));
        let case = Case { points, epoch, start, cores: 2, operations: 3, ..Case::default() };
        // A pool whose creation was cut short is no pool, not even in later lives.
        let budget = Budget { again_every: 5, again: (5, 2), ..budget() };
        let report = runner.explore(&case, budget, &Watcher::default());
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.lives > 2 && report.again > 5, "{name}: {report}");
    }
}

/// The first mutant that a mechanism lists is found, and the printed command reproduces it. (The machine's own tests
/// find every one of them, and so does `perdura-lab crash --mechanism NAME --mutants`.)
#[test]
fn their_mutants_are_found() {
    let settings = Settings::default();
    for name in promising() {
        let maker = Maker::named(name).unwrap();
        assert!(mutants::of(&maker).len() >= 3);
        let runners = ["sps", "hash-map"].map(|it| find(maker.clone(), None, it).unwrap());
        for mutant in mutants::of(&maker).iter().take(1) {
            let cases = (0..40).map(|seed: u64| {
                let (points, cores) = (Points::Random(60), 1 + seed as usize % 3);
                let case = Case { cores, seed, points, ..Case::default() };
                (&*runners[seed as usize % 2], settings.set(seed as usize, &case))
            });
            let tried = mutants::find(mutant, cases, budget(), u64::MAX, &Watcher::default());
            let tried = tried.unwrap_or_else(|failure| panic!("with nothing left out: {failure}"));
            let what = format!("{name} {}: {}", mutant.name, mutant.what);
            let failure = tried.found.unwrap_or_else(|| panic!("not found: {what}"));
            println!("{what}: {} images, seed {}", tried.images, failure.case.seed);
            assert!(failure.place.is_some(), "{failure}");
            assert!(
                failure.replay().starts_with(&format!("perdura-lab crash --mechanism {name} "))
            );
            assert!(failure.options().contains(&format!("--mutant {} ", mutant.name)));
        }
    }
}

/// Copies lines to storage of its own when they leave the caches, and copies them back: for memory to be as it was at
/// the end of an epoch, it would have to copy all of them before the first goes home.
#[derive(Clone, Copy)]
struct Copies {
    broken: bool,
    promises: Promise,
}

/// Its line 0 counts epochs; the others have the old contents of each of the program's lines, and the epoch in which
/// they were saved.
struct Copying {
    broken: bool,
    own: Range<u64>,
    lines: u64,
    epoch: u64,
}

impl Design for Copies {
    fn name(&self) -> &'static str {
        "copies"
    }

    fn reserves(&self, lines: u64) -> u64 {
        1 + 2 * lines
    }

    fn promises(&self) -> Promise {
        self.promises
    }

    fn build(&self, hardware: &mut Hardware, own: Range<u64>) -> Box<dyn Mechanism> {
        let (lines, epoch) = ((own.end - own.start) / 2, hardware.home_line(own.start)[0]);
        Box::new(Copying { broken: self.broken, own, lines, epoch: epoch + 1 })
    }

    fn recover(&self, home: &mut Home<'_>) {
        let own = home.own();
        let (lines, epoch) = ((own.end - own.start) / 2, home.line(own.start)[0] + 1);
        for line in 0..lines {
            let (copy, saved) = (own.start + 1 + line, own.start + 1 + lines + line);
            if home.line(saved)[0] == epoch {
                let words = home.line(copy);
                home.put(line, &words);
            }
        }
    }
}

impl Mechanism for Copying {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let (copy, saved) =
            (self.own.start + 1 + leaving.line, self.own.start + 1 + self.lines + leaving.line);
        if hardware.home_line(saved)[0] == self.epoch {
            return Verdict::Allow;
        }
        let old = hardware.home_line(leaving.line);
        let copied = hardware.write_home("copy", copy, old, leaving.from);
        let known = hardware.write_home("saved", saved, [self.epoch; 8], copied);
        if self.broken { Verdict::Allow } else { Verdict::After(copied.max(known)) }
    }

    fn end_epoch(&mut self, _: &mut Hardware) -> Flush {
        Flush::Everything
    }

    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        let done = hardware.write_home("epoch", self.own.start, [self.epoch; 8], home);
        hardware.promise(done);
        hardware.all_wait_until(done.max(home));
        self.epoch += 1;
    }
}

fn copies(broken: bool) -> impl Fn() -> Box<dyn Design> + Send + Sync + 'static {
    move || Box::new(Copies { broken, promises: Promise::Epoch })
}

/// A custom mechanism: without a bug it passes; with one it is found, shrunk, and reproduced by the printed command.
#[test]
fn a_mechanism_of_ones_own() {
    let check = CheckMechanism { turns: 1, cores: vec![2], ..CheckMechanism::default() };
    let report =
        check.run(&Maker::own(copies(false))).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 100 && report.in_recovery > 10, "{report}");

    let failure = check.run(&Maker::own(copies(true))).expect_err("it is broken");
    assert!(failure.what.contains("is not as copies promises"), "{failure}");
    assert!(Size::of(&failure).operations <= 3, "{failure}");
    let again = replay(copies(true), &failure.options()).expect_err("the same");
    assert_eq!(
        (&again.what, again.place, &again.cut),
        (&failure.what, failure.place, &failure.cut)
    );
    assert!(failure.to_string().contains("perdura_crashtest::mechanisms::replay(/* copies */"));
    assert!(replay(copies(false), &failure.options()).is_ok());
}

/// A mechanism that promises nothing cannot fail, and so is not tested.
#[test]
fn nothing_promised_is_refused() {
    let refused =
        "the mechanism 'plain' promises nothing for a power cut: there is nothing to test";
    assert_eq!(Maker::named("plain").err().as_deref(), Some(refused));
    assert!(Maker::named("x").err().is_some_and(|error| error.contains("undo-log, in-order")));
    let nothing = || Box::new(Copies { broken: false, promises: Promise::Nothing }) as _;
    let failure = check_mechanism(nothing).expect_err("it promises nothing");
    assert!(failure.what.contains("'copies' promises nothing"), "{failure}");
}
