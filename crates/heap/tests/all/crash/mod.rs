//! Power cuts at the events of small stories, on the executable persistency model.
//!
//! A story is a pool in use (random transactions: words, blocks, frees, aborts, one that needs several log segments,
//! on two sessions), being created, changing its engine, or being closed. The power is cut after many of its events in
//! turn; for some images also after every event of the recovery. The pool must then hold the state after some number
//! of transactions, at least those that were acknowledged, with no block leaked or lost, and must be usable.
//!
//! Everything is deterministic: a failure names the story and the event, and is repeatable.

mod explore;
mod omit;
mod planted;
mod program;
mod stories;

use crate::family::Family;
use explore::{Bench, Story};
use omit::{Omitting, Site, Sites};
use perdura::{
    ArchaptRedoEngine, ArchaptUndoEngine, AtlasEngine, CcStmUndoEngine, Domain, Engine,
    HtmRedoEngine, HtmUndoEngine, RedoEngine, SWalEngine, UndoEachEngine, UndoEngine, Volatile,
};
use perdura_memory::reference::Cut;
use perdura_memory::{AnyMemory, Reference};
use perdura_testing::{seeds, times};
use planted::{NO_LIMBO, Planted, SAME_SALT};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of the pool.
const BYTES: u64 = 176 << 10;

const DOMAINS: [Domain; 4] =
    [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process];

const REDO: Family = Family::of::<RedoEngine<AnyMemory>>();
const UNDO: Family = Family::of::<UndoEngine<AnyMemory>>();
const S_WAL: Family = Family::of::<SWalEngine<AnyMemory>>();
const UNDO_EACH: Family = Family::of::<UndoEachEngine<AnyMemory>>();
const ATLAS: Family = Family::of::<AtlasEngine<AnyMemory>>();
const HTM_UNDO: Family = Family::of::<HtmUndoEngine<AnyMemory>>();
const HTM_REDO: Family = Family::of::<HtmRedoEngine<AnyMemory>>();
const CCSTM_UNDO: Family = Family::of::<CcStmUndoEngine<AnyMemory>>();
const ARCHAPT_UNDO: Family = Family::of::<ArchaptUndoEngine<AnyMemory>>();
const ARCHAPT_REDO: Family = Family::of::<ArchaptRedoEngine<AnyMemory>>();
const VOLATILE: Family = Family::of::<Volatile<AnyMemory>>();

/// A memory whose events can be counted and whose power can be cut.
pub(crate) struct Cuttable {
    memory: AnyMemory,
    inner: Arc<Reference>,
    omitting: Option<Arc<Omitting>>,
}

impl Cuttable {
    fn new(memory: Reference) -> Self {
        let inner = Arc::new(memory);
        Cuttable { memory: AnyMemory::new(inner.clone()), inner, omitting: None }
    }

    /// A memory that leaves out the operations that `omitted` asks for, and records all sites in `met`.
    fn without(memory: Reference, omitted: Option<Site>, met: &Sites) -> Self {
        let inner = Arc::new(memory);
        let omitting = Arc::new(Omitting::new(&inner, omitted, met));
        let memory = AnyMemory::watched(inner.clone(), omitting.clone());
        Cuttable { memory, inner, omitting: Some(omitting) }
    }

    /// Crash points that are likely to show a planted bug.
    fn suspects(&self) -> Vec<u64> {
        self.omitting.as_ref().map_or(Vec::new(), |omitting| omitting.left_out())
    }
}

/// The outcome of a story.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// This many images were intact.
    Whole(u64),
    /// An image was not.
    Broken(String),
}

fn bench(wrap: Wrap<'_>) -> Bench<'_> {
    Bench { wrap, cuts: 16, nested: 24 }
}

/// Explores the story, and asserts that all images are intact.
fn holds(bench: &Bench<'_>, story: &Story<'_>) {
    match bench.explore(story) {
        Outcome::Whole(images) => println!("{}: {images} images", story.name),
        Outcome::Broken(why) => panic!("{why}"),
    }
}

fn plain() -> Bench<'static> {
    bench(&Cuttable::new)
}

fn survives(engine: Family) {
    let bench = plain();
    for domain in DOMAINS {
        for seed in seeds(0, 1) {
            holds(&bench, &stories::running(&bench, engine, domain, seed, false));
            if engine.keeps_checksums {
                holds(&bench, &stories::running(&bench, engine, domain, seed, true));
            }
        }
    }
}

#[test]
fn redo_survives_every_cut() {
    survives(REDO);
}

#[test]
fn undo_survives_every_cut() {
    survives(UNDO);
}

#[test]
fn s_wal_survives_every_cut() {
    survives(S_WAL);
}

#[test]
fn undo_each_survives_every_cut() {
    survives(UNDO_EACH);
}

#[test]
fn atlas_survives_every_cut() {
    survives(ATLAS);
}

#[test]
fn ccstm_undo_survives_every_cut() {
    survives(CCSTM_UNDO);
}

/// Without hardware: on the fallback path. With it: the crash tester's `elided.rs`.
#[test]
fn htm_undo_and_htm_redo_survive_every_cut() {
    survives(HTM_UNDO);
    survives(HTM_REDO);
}

#[test]
fn archapt_undo_survives_every_cut() {
    survives(ARCHAPT_UNDO);
}

#[test]
fn archapt_redo_survives_every_cut() {
    survives(ARCHAPT_REDO);
}

/// Without a log: intact if it was closed, refused if not.
#[test]
fn volatile_survives_when_closed() {
    survives(VOLATILE);
}

#[test]
fn a_pool_cut_while_it_is_made_is_refused_or_empty() {
    let bench = plain();
    for domain in DOMAINS {
        holds(&bench, &stories::creating(REDO, domain));
        holds(&bench, &stories::creating(UNDO, domain));
        holds(&bench, &stories::creating(S_WAL, domain));
        holds(&bench, &stories::creating(UNDO_EACH, domain));
        holds(&bench, &stories::creating(ATLAS, domain));
        holds(&bench, &stories::creating(ARCHAPT_UNDO, domain));
        holds(&bench, &stories::creating(ARCHAPT_REDO, domain));
        holds(&bench, &stories::creating(VOLATILE, domain));
    }
}

/// The first engine's life ends differently in each domain, and in all of these ways with a budget of three.
#[test]
fn changing_the_engine_survives_every_cut() {
    let bench = plain();
    let ends = [None, Some(Cut::None), Some(Cut::Seed(3))];
    let some = times(1).min(ends.len() as u64) as usize;
    for (turn, domain) in DOMAINS.into_iter().enumerate() {
        for crashed in ends.into_iter().cycle().skip(turn % 3).take(some) {
            holds(&bench, &stories::switching(&bench, UNDO, REDO, domain, crashed));
            holds(&bench, &stories::switching(&bench, REDO, UNDO, domain, crashed));
            holds(&bench, &stories::switching(&bench, REDO, VOLATILE, domain, crashed));
            holds(&bench, &stories::switching(&bench, S_WAL, REDO, domain, crashed));
            holds(&bench, &stories::switching(&bench, UNDO, S_WAL, domain, crashed));
            holds(&bench, &stories::switching(&bench, UNDO_EACH, UNDO, domain, crashed));
            holds(&bench, &stories::switching(&bench, REDO, UNDO_EACH, domain, crashed));
            holds(&bench, &stories::switching(&bench, UNDO, ATLAS, domain, crashed));
            holds(&bench, &stories::switching(&bench, ATLAS, REDO, domain, crashed));
            holds(&bench, &stories::switching(&bench, ARCHAPT_UNDO, REDO, domain, crashed));
            holds(&bench, &stories::switching(&bench, ARCHAPT_REDO, ARCHAPT_UNDO, domain, crashed));
            holds(&bench, &stories::switching(&bench, UNDO, ARCHAPT_REDO, domain, crashed));
        }
        holds(&bench, &stories::switching(&bench, VOLATILE, REDO, domain, None));
        holds(&bench, &stories::switching(&bench, VOLATILE, UNDO, domain, None));
        holds(&bench, &stories::switching(&bench, VOLATILE, S_WAL, domain, None));
    }
}

/// Whether a story of an engine with a planted bug fails: the one known to fail, or, when an engine has changed, one
/// of many. Then the known one should be replaced by the one that this prints.
fn breaks<E: Engine<AnyMemory>>(known: (Domain, u64)) -> bool {
    breaks_within::<E>(known, 10)
}

/// The same in stories of `transactions` transactions.
fn breaks_within<E: Engine<AnyMemory>>(known: (Domain, u64), transactions: usize) -> bool {
    let bench = Bench { nested: 0, cuts: 20, ..plain() };
    let all = DOMAINS.into_iter().flat_map(|domain| seeds(0, 100).map(move |seed| (domain, seed)));
    std::iter::once(known).chain(all).any(|(domain, seed)| {
        let story =
            stories::running_long(&bench, Family::of::<E>(), domain, seed, false, transactions);
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
    // Frees are handed over in batches.
    let reused =
        breaks_within::<Planted<RedoEngine<_>, AnyMemory, NO_LIMBO>>((Domain::Transient, 2), 60);
    assert!(reused, "freed memory used again at once");
    let redo = breaks::<Planted<RedoEngine<_>, AnyMemory, SAME_SALT>>((Domain::Transient, 22));
    assert!(redo, "redo recovery keeps the salt");
    let undo = breaks::<Planted<UndoEngine<_>, AnyMemory, SAME_SALT>>((Domain::Media, 21));
    assert!(undo, "undo recovery keeps the salt");
    let s_wal = breaks::<Planted<SWalEngine<_>, AnyMemory, SAME_SALT>>((Domain::Transient, 1));
    assert!(s_wal, "S-WAL recovery keeps the salt");
}

type Wrap<'a> = &'a dyn Fn(Reference) -> Cuttable;

/// The stories that are run for each omission.
fn omission_stories<'a>(bench: &Bench<'_>) -> Vec<Story<'a>> {
    let mut all = vec![stories::running(bench, VOLATILE, Domain::Transient, 0, false)];
    for domain in [Domain::Transient, Domain::Media] {
        for seed in 0..2 {
            all.push(stories::running(bench, REDO, domain, seed, false));
            all.push(stories::running(bench, UNDO, domain, seed, false));
            all.push(stories::running(bench, S_WAL, domain, seed, false));
            all.push(stories::running(bench, UNDO_EACH, domain, seed, false));
            all.push(stories::running(bench, ATLAS, domain, seed, false));
            all.push(stories::running(bench, ARCHAPT_UNDO, domain, seed, false));
            all.push(stories::running(bench, ARCHAPT_REDO, domain, seed, false));
        }
        all.push(stories::creating(REDO, domain));
        all.push(stories::creating(UNDO, domain));
        all.push(stories::creating(S_WAL, domain));
        all.push(stories::creating(ARCHAPT_UNDO, domain));
        all.push(stories::creating(ARCHAPT_REDO, domain));
        all.push(stories::creating(VOLATILE, domain));
        all.push(stories::switching(bench, UNDO, REDO, domain, None));
        all.push(stories::switching(bench, REDO, UNDO, domain, None));
        all.push(stories::switching(bench, S_WAL, UNDO, domain, None));
        all.push(stories::switching(bench, REDO, S_WAL, domain, None));
        all.push(stories::switching(bench, S_WAL, UNDO_EACH, domain, None));
        all.push(stories::switching(bench, UNDO_EACH, ATLAS, domain, None));
        all.push(stories::switching(bench, ARCHAPT_UNDO, ARCHAPT_REDO, domain, None));
        all.push(stories::switching(bench, ARCHAPT_REDO, ARCHAPT_UNDO, domain, None));
    }
    all
}

/// The first of the stories with `site` that fails without it.
fn caught(site: Site, met: &[BTreeSet<Site>]) -> Option<String> {
    let none = Sites::default();
    let wrap: Wrap<'_> = &|inner| Cuttable::without(inner, Some(site), &none);
    let bench = bench(wrap);
    let all = omission_stories(&bench);
    let stories = all.iter().zip(met).filter(|(_, met)| met.contains(&site));
    stories.map(|(story, _)| bench.explore(story)).find_map(|outcome| match outcome {
        Outcome::Broken(why) => Some(why),
        Outcome::Whole(_) => None,
    })
}

/// Leaves out each write-back and each fence of the engines and the heap in turn: every omission must be caught, by a
/// power cut or because something was not durable when it was promised to be. Two sites show only by the broken
/// promise, since another fence follows before anything depends on them: the checkpoint's fence at the end of recovery
/// (which matters if another thread commits first), and the header that a dropped heap leaves as clean (on which
/// recovery does not rely). Write-backs that only matter after the death of a process are tested where processes die:
/// `crates/crashtest/tests/all/deaths.rs`.
#[test]
fn every_omission_is_caught() {
    let sites = Sites::default();
    let wrap: Wrap<'_> = &|inner| Cuttable::without(inner, None, &sites);
    let bench = bench(wrap);
    let stories = omission_stories(&bench);
    let mut met: Vec<BTreeSet<Site>> = Vec::new();
    for story in &stories {
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
