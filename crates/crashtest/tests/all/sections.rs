//! Sections over several locks on a simulated machine: three cores, two locks, and transactions beside them, with power
//! cuts while they run. The sections that are left are complete, follow only one another, and include all that were
//! waited for.
//!
//! The machine's fences are each core's own, so that a section that relied on another core's would be found.

use perdura_engine::area::SMALLEST;
use perdura_engine::planted::{Bug, with};
use perdura_engine::{Access, AtlasEngine, Engine, Mode, Session};
use perdura_machine::{CallSite, Event, Keep, Kind, Machine, MachineConfig, Options, Schedule};
use perdura_memory::image::Cut;
use perdura_memory::random::SplitMix64;
use perdura_memory::{AnyMemory, Domain, LINE, Memory, Ram};
use perdura_testing::{seeds, times};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

type Atlas = AtlasEngine<AnyMemory>;
type AtlasSession = <Atlas as Engine<AnyMemory>>::Session;

const LOG: Range<u64> = 0..SMALLEST;
const BYTES: u64 = SMALLEST + 4096;
const CORES: usize = 3;
/// Locks of sections. The lock of transactions comes after them.
const LOCKS: usize = 2;
/// Lines that each lock guards.
const LINES: u64 = 3;

fn word(lock: usize, line: u64) -> u64 {
    SMALLEST + (lock as u64 * LINES + line) * LINE
}

/// A section as the test knows it.
#[derive(Default)]
struct Known {
    /// The sections that released its locks before, and its session's one before.
    follows: Vec<usize>,
    /// Whether its commit has begun.
    may_be_complete: bool,
    is_durable: bool,
}

#[derive(Default)]
struct History {
    sections: Vec<Known>,
    /// All stores, in the order of the locks: word, value, section.
    stores: Vec<(u64, u64, usize)>,
    /// The last section to release each lock.
    released: [Option<usize>; LOCKS + 1],
    values: u64,
}

impl History {
    fn begin(&mut self, before: Option<usize>) -> usize {
        self.sections.push(Known { follows: before.into_iter().collect(), ..Known::default() });
        self.sections.len() - 1
    }

    fn takes(&mut self, section: usize, lock: usize) {
        let last = self.released[lock].filter(|last| *last != section);
        self.sections[section].follows.extend(last);
    }

    /// The value of a store that the section is about to make.
    fn stores(&mut self, section: usize, at: u64) -> u64 {
        self.values += 1;
        self.stores.push((at, self.values, section));
        self.values
    }

    /// What is wrong with these values of words after a power cut, if anything is.
    fn check(&self, value_at: impl Fn(u64) -> u64) -> Result<(), String> {
        let durable = |known: &Known| known.is_durable.then_some(true);
        let mut left: Vec<Option<bool>> = self.sections.iter().map(durable).collect();
        let mut say = |section: usize, is_left: bool, why: String| match left[section]
            .replace(is_left)
            .is_some_and(|before| before != is_left)
        {
            true => Err(format!("section {section} is left, and is not: {why}")),
            false => Ok(()),
        };
        for at in (0..=LOCKS).flat_map(|lock| (0..LINES).map(move |line| word(lock, line))) {
            let value = value_at(at);
            let of_word = || self.stores.iter().filter(|(stored, _, _)| *stored == at);
            let last = of_word().position(|(_, stored, _)| *stored == value);
            if value != 0 && last.is_none() {
                return Err(format!("the word at {at} is {value}, which nobody has stored"));
            }
            if let Some((_, _, owner)) = last.and_then(|last| of_word().nth(last)) {
                say(*owner, true, format!("the word at {at} is its {value}"))?;
            }
            for (_, stored, section) in of_word().skip(last.map_or(0, |last| last + 1)) {
                say(*section, false, format!("the word at {at} is {value}, not its {stored}"))?;
            }
        }
        for (section, known) in self.sections.iter().enumerate() {
            if left[section] != Some(true) {
                continue;
            }
            if !known.may_be_complete {
                return Err(format!("section {section} is left, and not complete"));
            }
            let (mut next, mut seen) = (known.follows.clone(), vec![false; self.sections.len()]);
            while let Some(followed) = next.pop() {
                if std::mem::replace(&mut seen[followed], true) {
                    continue;
                }
                if left[followed] == Some(false) || !self.sections[followed].may_be_complete {
                    return Err(format!("section {section} is left, without {followed} before it"));
                }
                next.extend(&self.sections[followed].follows);
            }
        }
        Ok(())
    }
}

/// Stores to a random word of a lock's.
fn store(
    session: &mut AtlasSession,
    history: &RefCell<History>,
    (section, lock): (usize, usize),
    random: &mut SplitMix64,
) {
    let at = word(lock, random.below(LINES));
    let value = history.borrow_mut().stores(section, at);
    session.write_word(at, value).expect("there is room");
}

/// Runs one section, or transaction; returns it.
fn step(
    session: &mut AtlasSession,
    history: &RefCell<History>,
    before: Option<usize>,
    random: &mut SplitMix64,
) -> usize {
    let shape = random.below(6);
    let mut held = Vec::new();
    let section;
    if shape == 0 {
        session.begin(Mode::Write);
        section = history.borrow_mut().begin(before);
        history.borrow_mut().takes(section, LOCKS);
        held.push(LOCKS);
    } else {
        session.begin_section().expect("none runs");
        section = history.borrow_mut().begin(before);
        // In one order everywhere.
        let locks = [0..LOCKS, 0..1, 1..LOCKS][shape as usize % 3].clone();
        for (index, lock) in locks.enumerate() {
            session.lock(lock as u64).expect("no circle");
            history.borrow_mut().takes(section, lock);
            held.push(lock);
            if random.below(4) > 0 {
                store(session, history, (section, lock), random);
            }
            if index == 1 && shape >= 3 {
                // Passes the first one on.
                history.borrow_mut().released[held.remove(0)] = Some(section);
                session.unlock(0).expect("it is held");
            }
        }
    }
    for _ in 0..random.below(4) {
        let lock = held[random.below(held.len() as u64) as usize];
        store(session, history, (section, lock), random);
    }
    // A transaction that has stored nothing hands nothing on, and its ticket is that of the transaction before it.
    let hands_on = shape > 0 || history.borrow().stores.iter().any(|(_, _, of)| *of == section);
    {
        let mut history = history.borrow_mut();
        history.sections[section].may_be_complete = true;
        held.iter().filter(|_| hands_on).for_each(|lock| history.released[*lock] = Some(section));
    }
    let ticket = session.commit().expect("there is room");
    if random.below(3) == 0 {
        session.wait_durable(ticket).expect("a medium that works");
        history.borrow_mut().sections[section].is_durable = hands_on;
    }
    section
}

fn tiny(domain: Domain) -> MachineConfig {
    let text = include_str!("../../../../machines/tiny.toml");
    MachineConfig { domain, ..MachineConfig::parse("tiny", text).expect("a machine") }
}

/// The outcome of a run.
#[derive(Default)]
struct Outcome {
    images: u64,
    wrong: Option<String>,
    /// An event at each call site of a write-back, a stream or a fence.
    sites: BTreeMap<String, Event>,
}

/// Runs three programs, and cuts the power after one event in `every`. `omit` is an event whose call site asks for nothing.
fn run(seed: u64, domain: Domain, every: u64, omit: Option<Event>) -> Outcome {
    let ram = AnyMemory::new(Arc::new(Ram::new(BYTES)));
    Atlas::format(&ram, LOG);
    let words: Vec<u64> = (0..BYTES / 8).map(|index| ram.load(index * 8)).collect();
    let options = Options {
        cores: Some(CORES),
        seed,
        schedule: Schedule::Seeded { every: 1 + (seed % 3) as u32 },
        keep: Keep::Model,
        before_fences: true,
        omit,
        limit: BYTES,
        preempts: seed.is_multiple_of(2),
        ..Options::default()
    };
    let machine = Arc::new(Machine::from_words(tiny(domain), words, options));
    let history = RefCell::new(History::default());
    let engine = RefCell::new(None);
    machine.run(vec![Box::new(|| {
        let memory = Arc::new(AnyMemory::new(machine.clone()));
        *engine.borrow_mut() = Some(Atlas::start(memory, LOG).expect("an empty log"));
    })]);
    let engine = engine.take().expect("it has started");
    let programs = (0..CORES as u64).map(|core| {
        let (engine, history) = (&engine, &history);
        Box::new(move || {
            let mut random = SplitMix64::new(seed << 8 | core);
            let mut session = engine.session().expect("a session");
            let mut before = None;
            for _ in 0..8 {
                before = Some(step(&mut session, history, before, &mut random));
                if random.below(4) == 0 {
                    engine.flush_due().expect("a medium that works");
                }
                if random.below(12) == 0 {
                    engine.checkpoint().expect("a medium that works");
                }
            }
        }) as Box<dyn FnOnce() + '_>
    });
    let (mut random, mut images, mut wrong) = (SplitMix64::new(!seed), 0, None);
    // Not stopped by a failure: sessions that are cut off would wait for each other when they end.
    let _ = machine.run_watched(programs.collect(), |machine, event| {
        if wrong.is_some() || random.below(every) > 0 {
            return ControlFlow::<()>::Continue(());
        }
        for cut in [Cut::None, Cut::All, Cut::Seed(random.next()), Cut::Seed(random.next())] {
            images += 1;
            let words = machine.model(|image, _| image.cut(cut));
            let after = AnyMemory::new(Arc::new(Ram::new(BYTES)));
            after.copy_in(0, bytemuck::cast_slice(&words));
            let recovered = Atlas::recover(&after, LOG).map_err(|error| error.to_string());
            let checked = recovered.and_then(|_| history.borrow().check(|at| after.load(at)));
            if let Err(what) = checked {
                let site = CallSite::of(event.kind, event.site);
                wrong.get_or_insert(format!(
                    "seed {seed}, {domain}, after event {} ({site} on core {}), {cut:?}: {what}",
                    event.number, event.core
                ));
            }
        }
        ControlFlow::Continue(())
    });
    let sites = machine.sites().all().into_iter();
    let asks = sites.filter(|(site, _)| !matches!(site.kind, Kind::Store | Kind::Commit));
    let sites = asks.map(|(site, (event, _))| (site.to_string(), event)).collect();
    Outcome { images, wrong, sites }
}

#[test]
fn sections_left_by_a_power_cut_are_closed() {
    let mut images = 0;
    for seed in seeds(1, 40) {
        let domain = [Domain::Transient, Domain::Transient, Domain::Persistent][seed as usize % 3];
        let outcome = run(seed, domain, 6, None);
        images += outcome.images;
        if let Some(wrong) = outcome.wrong {
            panic!("{wrong}");
        }
    }
    println!("{images} images");
    assert!(images > 2000, "only {images} images");
}

#[test]
fn planted_bugs_are_found() {
    let bugs = [
        Bug::FollowedUnrecorded,
        Bug::FollowedOverlooked,
        Bug::LogDroppedEarly,
        Bug::SectionDataForgotten,
        Bug::UndoneInOrder,
    ];
    for bug in bugs {
        let found = with(bug, || {
            (1..200 * times(1)).find_map(|seed| run(seed, Domain::Transient, 6, None).wrong)
        });
        println!("{bug:?}: {}", found.unwrap_or_else(|| panic!("{bug:?} was not found")));
    }
}

/// Each write-back, stream and fence that sections ask for is needed.
#[test]
fn every_omission_is_caught() {
    let mut sites = BTreeMap::new();
    for seed in 1..20 {
        sites.extend(run(seed, Domain::Transient, u64::MAX, None).sites);
    }
    assert!(sites.len() >= 6, "{:?}", sites.keys());
    let mut missed = Vec::new();
    for (site, event) in &sites {
        let caught = (1..150 * times(1))
            .find_map(|seed| run(seed, Domain::Transient, 4, Some(*event)).wrong);
        match caught {
            Some(wrong) => println!("without {site}: {wrong}"),
            None => missed.push(site),
        }
    }
    assert!(missed.is_empty(), "left out and not caught: {missed:#?}");
}
