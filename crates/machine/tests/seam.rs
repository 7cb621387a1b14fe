//! The interface for mechanisms: when they are called, with which arguments, and what they can do.

#![allow(missing_docs)]

mod common;

use common::conflicts::conflicts;
use common::mechanisms::{Test, by_name, small, undo_log};
use common::{behind_dram, timed, tiny};
use perdura_machine::mechanism::{
    Accessed, Departure, Effect, HeldVersion, How, Leaving, Moments, Promise, Verdict, Version,
    list,
};
use perdura_machine::{
    AfterCut, Design, Hardware, Keep, Kind, Machine, MachineConfig, Mechanism, Options, Ps,
    Schedule,
};
use perdura_memory::image::{LineWords, Piece};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, HardwareAbort, HardwareTicket, LINE, Memory, Touch};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};

const LEN: u64 = 16 << 10;

/// The machine, with two channels and short queues so that writes overtake each other, and one whose evicted lines sit
/// in volatile DRAM.
fn with_and_without_dram() -> [MachineConfig; 2] {
    let mut plain = tiny(Domain::Transient);
    (plain.memory.home.channels, plain.memory.home.interleave_bytes) = (2, 64);
    plain.memory.controller.write_queue = 2;
    let cached = behind_dram(&plain, 4, 256);
    [plain, cached]
}

/// Stores of all kinds, without write-backs for durability, and touches of own memory.
fn scrawl(machine: &Machine, seed: u64, steps: u64) -> Box<dyn FnOnce() + '_> {
    let object = machine.object(4 * LEN);
    Box::new(move || {
        let mut random = SplitMix64::new(seed);
        for step in 1..=steps {
            let line = random.below(LEN / LINE) * LINE;
            match random.below(24) {
                20.. => machine.touch(object, random.below(4 * LEN), 300, Touch::Write),
                0 => machine.stream(line, &[step; 8]),
                1 | 2 => machine.write_back(line, 64),
                3 => machine.fence(),
                4..9 => _ = machine.load(line),
                _ => machine.store(line + random.below(8) * 8, step << 8 | seed),
            }
        }
    })
}

/// Images found wrong with a mechanism that promises epochs, and how many were checked: `(at events, at arrivals)`.
fn cuts(
    config: &MachineConfig,
    design: impl Fn() -> Box<dyn Design>,
    (cores, seed): (usize, u64),
    schedule: Schedule,
) -> Result<(u64, u64), String> {
    let (mut events, mut arrivals) = (0, 0);
    let mut left = AfterCut { words: vec![7; LEN as usize / 8], own: Vec::new(), stores: 0 };
    // A machine, and one that begins with its image after a power cut.
    for steps in [60, 300] {
        let options = Options {
            cores: Some(cores),
            seed,
            schedule,
            mechanism: design(),
            own: std::mem::take(&mut left.own),
            epoch: Some(Ps::from_ns(5_000.0)),
            at_arrivals: true,
            ..Options::default()
        };
        let machine = Machine::from_words(config.clone(), left.words, options);
        let programs = (0..cores as u64).map(|core| scrawl(&machine, seed * 10 + core, steps));
        let broken = machine.run_watched(programs.collect(), |machine, event| {
            let arrival = matches!(event.kind, Kind::Arrival(_));
            (events, arrivals) = (events + u64::from(!arrival), arrivals + u64::from(arrival));
            for stores in [u64::MAX, event.number % 7, event.number % 50] {
                let left = machine.power_cut_in_recovery(stores);
                if let Some(word) = machine.broken_promise(&left) {
                    let what = format!("{event:?}, {stores} stores: word {word}");
                    return ControlFlow::Break(what);
                }
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(what) = broken {
            return Err(what);
        }
        left = machine.cut(&[seed % 9]);
    }
    Ok((events, arrivals))
}

const SCHEDULES: [Schedule; 2] = [Schedule::Clock, Schedule::Seeded { every: 4 }];

/// The mechanisms with a promise about memory that does not depend on programs.
fn promising() -> impl Iterator<Item = &'static list::Kind> {
    let promises = |kind: &&list::Kind| matches!(kind.promises(), Promise::Epoch | Promise::Order);
    list::KINDS.iter().filter(promises)
}

/// A power cut at any moment, also inside a mechanism's own actions, leaves memory as promised.
#[test]
fn every_arrival_can_be_cut_at() {
    for (name, config) in
        promising().flat_map(|kind| with_and_without_dram().map(|it| (kind.name, it)))
    {
        for (seed, cores) in [(1, 1), (2, 3)] {
            for schedule in SCHEDULES {
                let found = cuts(&config, || by_name(name, None), (cores, seed), schedule);
                let (events, arrivals) = found.unwrap_or_else(|what| panic!("{name}: {what}"));
                assert!(events > 150 && arrivals > 100, "{name}: {events}, {arrivals} arrivals");
            }
        }
    }
}

/// Each mutant of the mechanisms is found.
#[test]
fn their_mutants_are_found() {
    for kind in promising() {
        let name = kind.name;
        assert!(kind.mutants.len() >= 3);
        for mutant in kind.mutants {
            let found = (1..40).any(|seed| {
                let config = &with_and_without_dram()[seed as usize % 2];
                let (cores, schedule) = (1 + seed as usize % 3, SCHEDULES[seed as usize / 2 % 2]);
                let run =
                    |left_out| cuts(config, || by_name(name, left_out), (cores, seed), schedule);
                let found = run(Some(mutant.name)).is_err();
                if found && let Err(what) = run(None) {
                    panic!("{name}, with nothing left out, seed {seed}: {what}");
                }
                found
            });
            assert!(found, "{name}, {}: {}", mutant.name, mutant.what);
        }
    }
}

/// A call of a mechanism.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    core: usize,
    line: u64,
    how: How,
    stores: Vec<Piece>,
    before: LineWords,
}

/// Records every access, if it is called for them.
struct Notes(Moments, Arc<Mutex<Vec<Told>>>);

impl Mechanism for Notes {
    fn moments(&self) -> Moments {
        self.0
    }

    fn accessed(&mut self, _: &mut Hardware, access: &Accessed<'_>) -> Effect {
        let Accessed { core, line, how, before, .. } = *access;
        let stores = access.stores.to_vec();
        self.1.lock().unwrap().push(Told { core, line, how, stores, before });
        Effect::Happens
    }
}

/// It is called for every access of a core, hits too, with the stored bytes and the line's contents before.
#[test]
fn accesses_are_reported_before_the_data_changes() {
    for moments in [Moments::ACCESS, Moments::NONE] {
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let notes = Arc::clone(&told);
        let mechanism = small(move || Notes(moments, Arc::clone(&notes)));
        let options = Options { mechanism, ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
        machine.store(8, 5);
        machine.store(8, 6);
        _ = machine.load(8);
        machine.copy_in(60, &[1; 8]);
        machine.copy_out(0, &mut [0; 65]);
        machine.stream(128, &[9; 8]);
        assert_eq!(machine.compare_exchange(8, 6, 7), Ok(6));
        assert_eq!(machine.compare_exchange(8, 6, 7), Err(7));
        let told = std::mem::take(&mut *told.lock().unwrap());
        if moments == Moments::NONE {
            assert_eq!(told, []);
            continue;
        }
        let what: Vec<_> = told.iter().map(|told| (told.line, told.how)).collect();
        use How::{Exchange, Load, Store, Stream};
        let loads = [(0, Load), (0, Store), (1, Store), (0, Load), (1, Load)];
        let expected = [&[(0, Store), (0, Store)], &loads[..], &[(2, Stream), (0, Exchange)]];
        assert_eq!(what, [&expected.concat()[..], &[(0, Exchange)]].concat());
        assert_eq!(told[1].before, [0, 5, 0, 0, 0, 0, 0, 0]);
        assert_eq!(told[1].stores, [Piece::word(8, 6)]);
        assert_eq!(told[8].stores, [Piece::word(8, 7)]);
        assert_eq!((told[9].stores.len(), told[9].before[1]), (0, 7));
        assert!(told.iter().all(|told| told.core == 0));
    }
}

/// Transactions in hardware and persistence in hardware on one machine: both are called, and both keep their promises.
#[test]
fn two_mechanisms_work_together() {
    let options = Options {
        cores: Some(2),
        mechanism: undo_log(None),
        transactions: conflicts(),
        epoch: Some(Ps::from_ns(3_000.0)),
        at_arrivals: true,
        schedule: Schedule::Seeded { every: 3 },
        seed: 4,
        ..Options::default()
    };
    let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
    let counts = Mutex::new([0u64; 2]);
    let program = |core: usize| {
        let (machine, counts) = (&machine, &counts);
        Box::new(move || {
            for _ in 0..40 {
                loop {
                    machine.speculate().expect("it runs none");
                    let value = machine.load(0);
                    machine.store(0, value + 1);
                    machine.store(64 * (1 + core as u64), value);
                    match machine.end_speculation() {
                        Ok(ticket) => {
                            assert!(ticket > HardwareTicket::DURABLE);
                            break;
                        }
                        Err(abort) => assert_eq!(abort, HardwareAbort::Conflict),
                    }
                    counts.lock().unwrap()[core] += 1;
                }
            }
        }) as Box<dyn FnOnce()>
    };
    let broken = machine.run_watched((0..2).map(program).collect(), |machine, event| match machine
        .broken_promise(&machine.power_cut_in_recovery(event.number % 9))
    {
        Some(word) => ControlFlow::Break((event, word)),
        None => ControlFlow::Continue(()),
    });
    assert!(broken.is_continue(), "{broken:?}");
    assert_eq!(machine.load(0), 80, "no transaction is lost, none is counted twice");
    assert!(counts.lock().unwrap().iter().sum::<u64>() > 0, "some were aborted");
    let statistics = machine.statistics();
    assert_eq!(statistics.mechanism, "a test+undo-log");
    let names: Vec<_> = statistics.mechanism_figures.iter().map(|figure| figure.0).collect();
    assert_eq!(names, ["conflicts", "epochs", "most_records_in_an_epoch"]);
}

/// An aborted transaction has stored nothing, and none nests.
#[test]
fn aborts_undo_and_transactions_do_not_nest() {
    let transactions = conflicts();
    let options = Options { transactions, ..Options::default() };
    let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
    machine.speculate().expect("it runs none");
    machine.store(0, 1);
    assert_eq!(machine.speculate(), Err(HardwareAbort::Nested));
    machine.stop_speculating(0);
    assert_eq!((machine.load(0), machine.lost()), (0, None));
    assert_eq!(machine.end_speculation(), Err(HardwareAbort::Absent), "there is none any more");
    let plain = Machine::new(tiny(Domain::Transient), &[0; 64], Options::default());
    assert_eq!((plain.tx_begin(), plain.tx_commit()), (Ok(()), Ok(HardwareTicket::DURABLE)));
    assert_eq!(plain.tx_durable(), HardwareTicket::LAST);
}

/// Schedules calls and writes.
struct Plans(Arc<Mutex<Vec<(u64, Ps)>>>, Range<u64>);

impl Mechanism for Plans {
    fn begin(&mut self, hardware: &mut Hardware, _: usize) -> Result<(), HardwareAbort> {
        let now = hardware.now();
        for (number, after) in [(1, 3_000), (2, 1_000), (3, 3_000)] {
            hardware.schedule(now + Ps::from_ns(f64::from(after)), number);
        }
        Ok(())
    }

    fn due(&mut self, hardware: &mut Hardware, number: u64) {
        self.0.lock().unwrap().push((number, hardware.now()));
        let at = hardware.now() + Ps::from_ns(500.0);
        hardware.write_home_at("a plan", self.1.start, [number; 8], at);
    }
}

/// Scheduled work is done at its time, in order of time and then of scheduling, though the core that comes next is far
/// ahead; at a power cut before its time it is not done.
#[test]
fn plans_are_carried_out_at_their_times() {
    let called = Arc::<Mutex<Vec<(u64, Ps)>>>::default();
    let told = Arc::clone(&called);
    let build =
        move |own: Range<u64>| Box::new(Plans(Arc::clone(&told), own)) as Box<dyn Mechanism>;
    // Recovery shows the written line in the program's first line.
    let recover = |home: &mut perdura_machine::mechanism::Home<'_>| {
        let words = home.line(home.own().start);
        home.put(0, &words);
    };
    let mechanism = Box::new(Test { build, reserves: |_| 1, recover });
    let options = Options { mechanism, ..Options::default() };
    let machine = Machine::new(timed(0), &[0; LEN as usize], options);
    _ = machine.load(64);
    let begun = machine.time();
    machine.tx_begin().expect("it does");
    let left = |machine: &Machine| machine.power_cut()[0];
    machine.work(999);
    _ = machine.load(64);
    assert_eq!((called.lock().unwrap().len(), left(&machine)), (0, 0));
    // Far beyond all scheduled times.
    machine.work(100_000);
    assert_eq!(called.lock().unwrap().len(), 0, "nothing is done without an access");
    _ = machine.load(64);
    let at = |after: f64| Ps(begun.0 + Ps::from_ns(after).0);
    assert_eq!(*called.lock().unwrap(), [(2, at(1_000.0)), (1, at(3_000.0)), (3, at(3_000.0))]);
    assert_eq!(left(&machine), 3);
}

/// At the beginning of a transaction, schedules a write of a line for later.
struct Later(Range<u64>, bool);

impl Mechanism for Later {
    fn begin(&mut self, hardware: &mut Hardware, _: usize) -> Result<(), HardwareAbort> {
        let at = hardware.now() + Ps::from_ns(500.0);
        // The line's bank is that of the line 0, and its row another one.
        match self.1 {
            true => hardware.write_home_at("later", self.0.start, [1; 8], at),
            false => _ = hardware.write_home("later", self.0.start, [1; 8], at),
        }
        Ok(())
    }
}

/// A write in the future, announced or not, does not make a bank busy for reads before it: a miss takes 165 ns (see
/// `timing.rs`) whether the same bank is to be written to in 500 ns or not.
#[test]
fn future_writes_do_not_delay_reads_before_them() {
    for (planned, bank_lines) in [(true, 1), (false, 1)] {
        let build = move |own: Range<u64>| Box::new(Later(own, planned)) as Box<dyn Mechanism>;
        let mechanism = Box::new(Test { build, reserves: |_| 1, recover: |_| () });
        let mut config = timed(0);
        config.memory.home.banks = bank_lines;
        let options = Options { mechanism, ..Options::default() };
        let machine = Machine::new(config, &[0; LEN as usize], options);
        machine.tx_begin().expect("it does");
        let before = machine.now();
        _ = machine.load(0);
        assert_eq!(machine.now() - before, 165, "planned: {planned}");
        machine.work(340);
        // Now the write is there: accepted at 510 and then 5 + 50 in its bank, until 565.
        let before = machine.now();
        _ = machine.load(1024);
        assert!(machine.now() - before > 165, "the bank is busy with it");
    }
}

/// A non-volatile cache: a line that leaves it for the home device is kept in a reserved line.
struct NonVolatile(Range<u64>);

impl Mechanism for NonVolatile {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        let durable = hardware.now() + hardware.cycles(7);
        hardware.keep("kept", self.0.start + leaving.line, leaving.words, durable);
        Verdict::Hold(durable)
    }
}

/// Contents of non-volatile hardware are part of the image after a power cut, from their own time on.
#[test]
fn storage_that_is_not_volatile_is_left() {
    let build = |own| Box::new(NonVolatile(own)) as Box<dyn Mechanism>;
    let recover = |home: &mut perdura_machine::mechanism::Home<'_>| {
        for line in 0..home.own().start {
            let words = home.line(home.own().start + line);
            home.put(line, &words);
        }
    };
    let mechanism = Box::new(Test { build, reserves: |lines| lines, recover });
    let options = Options { mechanism, ..Options::default() };
    let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
    machine.store(64, 3);
    machine.write_back(64, 8);
    assert_eq!(machine.power_cut()[8], 0);
    machine.work(10_000);
    assert_eq!(machine.power_cut()[8], 3);
}

/// The same seed gives the same figures, with 16 cores, epochs by the clock and cuts.
#[test]
fn a_seed_is_a_run() {
    let run = |looks: bool| {
        let options = Options {
            cores: Some(16),
            mechanism: undo_log(None),
            epoch: Some(Ps::from_ns(5_000.0)),
            at_arrivals: looks,
            keep: Keep::Durable,
            ..Options::default()
        };
        let machine = Machine::new(with_and_without_dram()[1].clone(), &[0; LEN as usize], options);
        let programs = (0..16).map(|core| scrawl(&machine, core, 60)).collect();
        let mut last = Vec::new();
        let end = machine.run_watched::<()>(programs, |machine, _| {
            if looks {
                last = machine.power_cut();
            }
            ControlFlow::Continue(())
        });
        assert!(end.is_continue());
        (serde_json::to_string(&machine.statistics()).expect("JSON"), machine.power_cut())
    };
    assert_eq!(run(true), run(true));
    assert_eq!(run(true).0, run(false).0, "looking changes nothing");
}

/// Marks the first line, and holds two versions of it in the nearest cache.
#[derive(Default)]
struct Holder {
    departures: Vec<Departure>,
    displaced: Vec<HeldVersion>,
    evicted: Vec<u64>,
}

impl Mechanism for Holder {
    fn moments(&self) -> Moments {
        Moments::CACHES | Moments::EVICTION
    }

    fn begin(&mut self, hardware: &mut Hardware, core: usize) -> Result<(), HardwareAbort> {
        hardware.caches().mark(0);
        assert!(hardware.put_version(core, 0, 0, Version(1)));
        assert!(hardware.put_version(core, 0, 0, Version(2)));
        Ok(())
    }

    fn departed(&mut self, _: &mut Hardware, departure: &Departure) {
        self.departures.push(*departure);
    }

    fn displaced(&mut self, _: &mut Hardware, version: &HeldVersion) {
        self.displaced.push(*version);
    }

    fn evicted(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.evicted.push(leaving.line);
        Verdict::Allow
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let first = self.departures.iter().filter(|departure| departure.level == 0).count();
        let lost = self.evicted.iter().filter(|line| **line == 0).count();
        vec![
            ("first", first as u64),
            ("displaced", self.displaced.len() as u64),
            ("lost", lost as u64),
        ]
    }
}

/// A mechanism is called once when a marked line leaves a cache, and once when a version is replaced; dirty lines that
/// its versions push out are evicted like others.
#[test]
fn departures_of_marked_lines_and_versions_are_reported() {
    let options = Options { mechanism: small(Holder::default), ..Options::default() };
    let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
    // A set of the nearest cache: 2 ways, 4 sets; both are dirty.
    machine.store(0, 1);
    machine.store(256, 1);
    let figures =
        || machine.statistics().mechanism_figures.iter().map(|it| it.1).collect::<Vec<_>>();
    machine.tx_begin().expect("it does");
    assert_eq!(figures(), [0, 1, 0], "the first took the other line's way, the second the first's");
    _ = machine.load(512);
    assert_eq!(figures(), [1, 1, 0], "the line was used before the version");
    // Enough for the dirty line to leave the last cache.
    (2..200).for_each(|line| _ = machine.load(line * 256 % LEN));
    assert_eq!(figures()[1..], [2, 1]);
    let left = machine.power_cut();
    machine.work(100_000);
    machine.fence();
    assert_eq!((left.len() as u64 * 8, machine.power_cut()[0]), (LEN, 1));
}
