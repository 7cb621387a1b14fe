//! Power cuts at the events of small stories, on the executable persistency model.
//!
//! A story is a pool in use (random transactions: words, blocks, frees, aborts, one that needs
//! several log segments, on two sessions), being made, changing its engine, or being closed. It is
//! cut after many of its events in turn; of some images the recovery is cut after every one of
//! its events too. The pool must then hold the state after some number of transactions, not fewer
//! than were acknowledged, with no block leaked or lost, and go on from there.
//!
//! `PERDURA_CRASH_RUNS`, `PERDURA_CRASH_CUTS` and `PERDURA_CRASH_NESTED` turn the numbers up.
//! Everything is deterministic: a failure names the story and the event, and comes again.

mod explore;
mod omit;
mod planted;
mod program;
mod stories;

use explore::{Bench, Story};
use omit::{Omitting, Site, Sites};
use perdura::{
    ArchaptRedoEngine, ArchaptUndoEngine, Domain, Engine, HeapTx, Memory, RedoEngine, SWalEngine,
    UndoEngine, Volatile,
};
use perdura_memory::Reference;
use perdura_memory::reference::Cut;
use planted::{NO_LIMBO, Planted, SAME_SALT};
use std::collections::BTreeSet;

/// Bytes of the pool.
const BYTES: u64 = 176 << 10;

const DOMAINS: [Domain; 4] =
    [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process];

type Redo = RedoEngine<Reference>;
type Undo = UndoEngine<Reference>;
type SWal = SWalEngine<Reference>;
type ArchaptUndo = ArchaptUndoEngine<Reference>;
type ArchaptRedo = ArchaptRedoEngine<Reference>;
type Session<'a, M, E> = HeapTx<'a, <E as Engine<M>>::Session>;

/// A memory whose events can be counted and cut.
pub(crate) trait Cuttable: Memory + Sized + 'static {
    fn inner(&self) -> &Reference;

    /// Events after which a cut is likely to show a bug that was planted.
    fn suspects(&self) -> Vec<u64> {
        Vec::new()
    }
}

impl Cuttable for Reference {
    fn inner(&self) -> &Reference {
        self
    }
}

/// What came of a story.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// That many images were whole.
    Whole(u64),
    /// One was not.
    Broken(String),
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn bench<'a, M>(wrap: &'a dyn Fn(Reference) -> M) -> Bench<'a, M> {
    let cuts = number("PERDURA_CRASH_CUTS", 16);
    Bench { wrap, cuts, nested: number("PERDURA_CRASH_NESTED", 40) }
}

fn runs() -> u64 {
    number("PERDURA_CRASH_RUNS", 2)
}

/// Explores the story, which must hold.
fn holds<M: Cuttable>(bench: &Bench<'_, M>, story: &Story<'_, M>) {
    match bench.explore(story) {
        Outcome::Whole(images) => println!("{}: {images} images", story.name),
        Outcome::Broken(why) => panic!("{why}"),
    }
}

fn plain() -> Bench<'static, Reference> {
    bench(&|reference| reference)
}

fn survives<E: Engine<Reference>>() {
    let bench = plain();
    for domain in DOMAINS {
        for seed in 0..runs() {
            holds(&bench, &stories::running::<_, E>(&bench, domain, seed, false));
            holds(&bench, &stories::running::<_, E>(&bench, domain, seed, true));
        }
    }
}

#[test]
fn redo_survives_every_cut() {
    survives::<Redo>();
}

#[test]
fn undo_survives_every_cut() {
    survives::<Undo>();
}

#[test]
fn s_wal_survives_every_cut() {
    survives::<SWal>();
}

#[test]
fn archapt_undo_survives_every_cut() {
    survives::<ArchaptUndo>();
}

#[test]
fn archapt_redo_survives_every_cut() {
    survives::<ArchaptRedo>();
}

/// Without a log: whole when it was closed, refused when it was not.
#[test]
fn volatile_survives_when_closed() {
    survives::<Volatile<Reference>>();
}

#[test]
fn a_pool_cut_while_it_is_made_is_refused_or_empty() {
    let bench = plain();
    for domain in DOMAINS {
        holds(&bench, &stories::creating::<_, Redo>(domain));
        holds(&bench, &stories::creating::<_, Undo>(domain));
        holds(&bench, &stories::creating::<_, SWal>(domain));
        holds(&bench, &stories::creating::<_, ArchaptUndo>(domain));
        holds(&bench, &stories::creating::<_, ArchaptRedo>(domain));
        holds(&bench, &stories::creating::<_, Volatile<_>>(domain));
    }
}

/// What the first engine's life ends with is another thing in each domain; more of them with `PERDURA_SWITCH_ENDS`.
#[test]
fn changing_the_engine_survives_every_cut() {
    let bench = plain();
    let ends = [None, Some(Cut::None), Some(Cut::Seed(3))];
    let some = number("PERDURA_SWITCH_ENDS", 1) as usize;
    for (turn, domain) in DOMAINS.into_iter().enumerate() {
        for crashed in ends.into_iter().cycle().skip(turn % 3).take(some) {
            holds(&bench, &stories::switching::<_, Undo, Redo>(&bench, domain, crashed));
            holds(&bench, &stories::switching::<_, Redo, Undo>(&bench, domain, crashed));
            holds(&bench, &stories::switching::<_, Redo, Volatile<_>>(&bench, domain, crashed));
            holds(&bench, &stories::switching::<_, SWal, Redo>(&bench, domain, crashed));
            holds(&bench, &stories::switching::<_, Undo, SWal>(&bench, domain, crashed));
            holds(&bench, &stories::switching::<_, ArchaptUndo, Redo>(&bench, domain, crashed));
            holds(
                &bench,
                &stories::switching::<_, ArchaptRedo, ArchaptUndo>(&bench, domain, crashed),
            );
            holds(&bench, &stories::switching::<_, Undo, ArchaptRedo>(&bench, domain, crashed));
        }
        holds(&bench, &stories::switching::<_, Volatile<_>, Redo>(&bench, domain, None));
        holds(&bench, &stories::switching::<_, Volatile<_>, Undo>(&bench, domain, None));
        holds(&bench, &stories::switching::<_, Volatile<_>, SWal>(&bench, domain, None));
    }
}

/// Whether some story of an engine with a planted bug breaks: the one that is known to, or, when
/// an engine has changed, one of many. Then the known one should become what this prints.
fn breaks<E: Engine<Reference>>(known: (Domain, u64)) -> bool {
    breaks_within::<E>(known, 10)
}

/// The same in stories of so many transactions.
fn breaks_within<E: Engine<Reference>>(known: (Domain, u64), transactions: usize) -> bool {
    let bench = Bench { nested: 0, cuts: 20, ..plain() };
    let seeds = number("PERDURA_PLANT_SEEDS", 100);
    let all = DOMAINS.into_iter().flat_map(|domain| (0..seeds).map(move |seed| (domain, seed)));
    std::iter::once(known).chain(all).any(|(domain, seed)| {
        let story = stories::running_long::<_, E>(&bench, domain, seed, false, transactions);
        match bench.explore(&story) {
            Outcome::Whole(_) => false,
            Outcome::Broken(why) => {
                println!("found: {why}");
                true
            }
        }
    })
}

#[test]
fn planted_bugs_are_found() {
    // What is freed is looked at when some has come together.
    let reused = breaks_within::<Planted<Redo, Reference, NO_LIMBO>>((Domain::Transient, 2), 60);
    assert!(reused, "freed memory used again at once");
    let redo = breaks::<Planted<Redo, Reference, SAME_SALT>>((Domain::Transient, 22));
    assert!(redo, "redo recovery keeps the salt");
    let undo = breaks::<Planted<Undo, Reference, SAME_SALT>>((Domain::Media, 21));
    assert!(undo, "undo recovery keeps the salt");
    let s_wal = breaks::<Planted<SWal, Reference, SAME_SALT>>((Domain::Transient, 1));
    assert!(s_wal, "S-WAL recovery keeps the salt");
}

type Wrap<'a> = &'a dyn Fn(Reference) -> Omitting;

/// The stories that each omission is tried on.
fn omission_stories<'a>(bench: &Bench<'_, Omitting>) -> Vec<Story<'a, Omitting>> {
    type Redo = RedoEngine<Omitting>;
    type Undo = UndoEngine<Omitting>;
    type SWal = SWalEngine<Omitting>;
    type ArchaptUndo = ArchaptUndoEngine<Omitting>;
    type ArchaptRedo = ArchaptRedoEngine<Omitting>;
    type None = Volatile<Omitting>;
    let mut told = vec![stories::running::<_, None>(bench, Domain::Transient, 0, false)];
    for domain in [Domain::Transient, Domain::Media] {
        for seed in 0..2 {
            told.push(stories::running::<_, Redo>(bench, domain, seed, false));
            told.push(stories::running::<_, Undo>(bench, domain, seed, false));
            told.push(stories::running::<_, SWal>(bench, domain, seed, false));
            told.push(stories::running::<_, ArchaptUndo>(bench, domain, seed, false));
            told.push(stories::running::<_, ArchaptRedo>(bench, domain, seed, false));
        }
        told.push(stories::creating::<_, Redo>(domain));
        told.push(stories::creating::<_, Undo>(domain));
        told.push(stories::creating::<_, SWal>(domain));
        told.push(stories::creating::<_, ArchaptUndo>(domain));
        told.push(stories::creating::<_, ArchaptRedo>(domain));
        told.push(stories::creating::<_, None>(domain));
        told.push(stories::switching::<_, Undo, Redo>(bench, domain, Option::None));
        told.push(stories::switching::<_, Redo, Undo>(bench, domain, Option::None));
        told.push(stories::switching::<_, SWal, Undo>(bench, domain, Option::None));
        told.push(stories::switching::<_, Redo, SWal>(bench, domain, Option::None));
        told.push(stories::switching::<_, ArchaptUndo, ArchaptRedo>(bench, domain, Option::None));
        told.push(stories::switching::<_, ArchaptRedo, ArchaptUndo>(bench, domain, Option::None));
    }
    told
}

/// The first story that breaks without `site`, of those that meet it.
fn caught(site: Site, met: &[BTreeSet<Site>]) -> Option<String> {
    let none = Sites::default();
    let wrap: Wrap<'_> = &|inner| Omitting::new(inner, Some(site), &none);
    let bench = bench(wrap);
    let told = omission_stories(&bench);
    let stories = told.iter().zip(met).filter(|(_, met)| met.contains(&site));
    stories.map(|(story, _)| bench.explore(story)).find_map(|outcome| match outcome {
        Outcome::Broken(why) => Some(why),
        Outcome::Whole(_) => None,
    })
}

/// Leaves out each write-back and each fence of the engines and the heap in turn: every one
/// must be caught, by a cut or because something was not durable when it was promised to be. The
/// promise alone shows two places, since another fence follows before anything depends on them:
/// the checkpoint's fence at the end of recovery (which matters if another thread commits first),
/// and the header that a dropped heap leaves as clean (which recovery does not rely on). What is done
/// in case a process has died before shows where processes die: `crates/crashtest/tests/all/deaths.rs`.
#[test]
fn every_omission_is_caught() {
    let sites = Sites::default();
    let wrap: Wrap<'_> = &|inner| Omitting::new(inner, None, &sites);
    let bench = bench(wrap);
    let told = omission_stories(&bench);
    let mut met: Vec<BTreeSet<Site>> = Vec::new();
    for story in &told {
        sites.lock().unwrap().clear();
        holds(&bench, story);
        met.push(std::mem::take(&mut *sites.lock().unwrap()));
    }
    let all: BTreeSet<Site> = met.iter().flatten().copied().collect();
    let all: Vec<Site> = all.into_iter().filter(|site| !site.is_for_the_dead()).collect();
    assert!(all.len() >= 20, "only {all:?}");
    let missed = std::thread::scope(|scope| {
        let (all, met) = (&all, &met);
        let halves = [0, 1].map(|first| {
            let missed = move |site: &&Site| {
                let why = caught(**site, met);
                let short: String =
                    why.as_deref().unwrap_or("not caught").chars().take(150).collect();
                println!("without {site}: {short}");
                why.is_none()
            };
            scope
                .spawn(move || all.iter().skip(first).step_by(2).filter(missed).collect::<Vec<_>>())
        });
        halves.into_iter().flat_map(|half| half.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(missed.is_empty(), "left out and not caught: {missed:#?}");
}
