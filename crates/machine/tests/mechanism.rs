//! The interface for mechanisms, tested with one: undo logging by epochs. After a power cut at any moment
//! memory is as it was when the last epoch ended, though programs write nothing back.

mod common;

use common::mechanisms::{Test, small, undo_log};
use common::{behind_dram, tiny};
use perdura_machine::mechanism::{Fetch, Home, Leaving, Moments, Verdict, list};
use perdura_machine::{
    Design, Hardware, Keep, Machine, MachineConfig, Mechanism, Options, Ps, Schedule,
};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, HardwareAbort, LINE, Memory};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const LEN: u64 = 8 << 10;

fn machine(cores: usize, seed: u64, epoch: Option<Ps>) -> Machine {
    let options = Options {
        cores: Some(cores),
        seed,
        schedule: Schedule::Seeded { every: 4 },
        keep: Keep::Durable,
        mechanism: undo_log(None),
        epoch,
        ..Options::default()
    };
    Machine::new(tiny(Domain::Transient), &[7; LEN as usize], options)
}

/// Stores of all kinds, without write-backs for durability; sometimes an epoch ends.
fn scribble(machine: &Machine, seed: u64, ended: &RefCell<Vec<u64>>) {
    let mut random = SplitMix64::new(seed);
    for step in 1..=150 {
        let line = random.below(LEN / LINE) * LINE;
        match random.below(40) {
            0 => {
                machine.end_epoch();
                *ended.borrow_mut() = machine.visible();
            }
            1..4 => machine.stream(line, &[step; 8]),
            4..8 => machine.write_back(line, 64),
            8 => machine.fence(),
            9..20 => _ = machine.load(line),
            _ => machine.store(line + random.below(8) * 8, step << 8 | seed),
        }
    }
}

#[test]
fn every_cut_leaves_the_last_epoch() {
    for (cores, seed) in [(1, 1), (1, 2), (3, 3)] {
        let machine = machine(cores, seed, None);
        let ended = RefCell::new(machine.visible());
        let programs = (0..cores as u64)
            .map(|core| {
                let (machine, ended) = (&machine, &ended);
                Box::new(move || scribble(machine, seed * 10 + core, ended)) as Box<dyn FnOnce()>
            })
            .collect();
        let mut cuts = 0;
        let checked = machine.run_watched(programs, |machine, event| {
            let expected = ended.borrow();
            // The mechanism's recovery may be cut short too.
            for stores in [u64::MAX, event.number % 7, event.number % 50] {
                cuts += 1;
                let left = machine.power_cut_in_recovery(stores);
                if let Some(word) = (0..left.len()).find(|word| left[*word] != expected[*word]) {
                    let pair = (left[word], expected[word]);
                    return ControlFlow::Break((event, stores, word / 8, pair));
                }
            }
            ControlFlow::Continue(())
        });
        assert!(checked.is_continue(), "{cores} cores, seed {seed}: {checked:?}");
        assert!(cuts > 300, "{cuts}");
        let figures = machine.statistics().mechanism_figures;
        assert!(figures.iter().any(|(name, count)| *name == "epochs" && *count > 1), "{figures:?}");
    }
}

/// The log's writes are counted, and epochs end by themselves after their time.
#[test]
fn epochs_end_by_the_clock() {
    let machine = machine(1, 5, Some(Ps::from_ns(20_000.0)));
    for step in 0..2000 {
        machine.store(step * 64 % LEN, step);
    }
    let statistics = machine.statistics();
    let epochs = statistics.mechanism_figures[0].1;
    assert!((3..1000).contains(&epochs), "{epochs}");
    // A line of data and one of metadata for each logged line, and the lines themselves.
    assert!(statistics.write_backs.mechanism > 3 * epochs);
}

/// Keeps one line for itself, at one of two places.
struct Keeper {
    first: u64,
    at: Moments,
}

impl Keeper {
    fn decide(&self, leaving: &Leaving) -> Verdict {
        match leaving.line {
            1 => Verdict::Redirect(self.first),
            2 => Verdict::Hold(leaving.from),
            4 => Verdict::RedirectAfter(self.first, leaving.from + Ps(9_000_000)),
            _ => Verdict::After(leaving.from + Ps(5_000_000)),
        }
    }
}

impl Mechanism for Keeper {
    fn moments(&self) -> Moments {
        self.at
    }

    fn evicted(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.decide(leaving)
    }

    fn leaves(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.decide(leaving)
    }
}

/// Each verdict does what it says, at the caches and at the home device.
#[test]
fn verdicts_are_kept() {
    for at in [Moments::EVICTION, Moments::HOME] {
        let build = move |own: Range<u64>| Box::new(Keeper { first: own.start, at }) as _;
        let keeper = Test { build, reserves: |_| 1, recover: |_| () };
        let options = Options { mechanism: Box::new(keeper), ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
        let before = machine.time();
        for line in [1, 2, 3] {
            machine.store(line * LINE, line);
            machine.write_back(line * LINE, 8);
        }
        machine.fence();
        let home = machine.power_cut();
        assert_eq!([home[8], home[16], home[24]], [0, 0, 3], "redirected, held, written");
        let waited = machine.time().since(before);
        assert!((5_000_000..9_000_000).contains(&waited.0), "a fence waits as it is told");
        let before = machine.time();
        machine.store(4 * LINE, 4);
        machine.write_back(4 * LINE, 8);
        machine.fence();
        assert!(machine.time().since(before) >= Ps(9_000_000), "of another line too");
        assert_eq!(machine.power_cut()[32], 0, "redirected");
    }
}

/// The machine, and one whose evicted lines sit in volatile DRAM.
fn with_and_without_dram() -> [MachineConfig; 2] {
    let plain = tiny(Domain::Transient);
    let cached = behind_dram(&plain, 4, 256);
    [plain, cached]
}

/// Gives each line that leaves this verdict, with a time to come.
struct Slow {
    at: Moments,
    verdict: fn(u64, Ps) -> Verdict,
    first: u64,
    asked: Arc<AtomicU64>,
}

impl Mechanism for Slow {
    fn moments(&self) -> Moments {
        self.at
    }

    fn evicted(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (self.verdict)(self.first + leaving.line, Ps(900_000_000))
    }

    fn leaves(&mut self, hardware: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.evicted(hardware, leaving)
    }
}

/// A program that writes back a line that has already left the caches, and is on its way, waits for it, whether it is
/// written home, or elsewhere, or kept.
#[test]
fn lines_on_their_way_anywhere_are_waited_for() {
    let verdicts: [fn(u64, Ps) -> Verdict; 3] =
        [|_, time| Verdict::After(time), Verdict::RedirectAfter, |_, time| Verdict::Hold(time)];
    let [plain, cached] = with_and_without_dram();
    // With volatile DRAM, lines are on their way when they leave that.
    let asked = [(&plain, Moments::EVICTION), (&plain, Moments::HOME), (&cached, Moments::HOME)];
    for ((config, at), verdict) in asked.iter().flat_map(|it| verdicts.map(|verdict| (it, verdict)))
    {
        let (at, dram) = (*at, config.memory.dram_cache.is_some());
        let asked_for = Arc::<AtomicU64>::default();
        let asked = Arc::clone(&asked_for);
        let build = move |own: Range<u64>| {
            Box::new(Slow { at, verdict, first: own.start, asked: Arc::clone(&asked) }) as _
        };
        let mechanism = Box::new(Test { build, reserves: |lines| lines, recover: |_| () });
        let options = Options { mechanism, ..Options::default() };
        let machine = Machine::new((*config).clone(), &[0; 4 * LEN as usize], options);
        machine.store(0, 1);
        // Until it has left the caches, and the DRAM.
        let mut line = 0;
        while asked_for.load(Ordering::Relaxed) == 0 {
            line += 1;
            _ = machine.load(line * LINE);
        }
        let before = machine.time();
        machine.write_back(0, 8);
        machine.fence();
        let verdict = verdict(0, Ps(1));
        assert!(before < Ps(500_000_000), "the line is on its way: {before:?}");
        assert!(machine.time() >= Ps(900_000_000), "{at:?} {verdict:?}, dram {dram}");
    }
}

/// Writes the first line when a transaction begins: with fixed contents, or with the visible ones.
struct Writer {
    through: bool,
    left: u64,
}

impl Mechanism for Writer {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn begin(&mut self, hardware: &mut Hardware, _: usize) -> Result<(), HardwareAbort> {
        let (words, now) = (hardware.visible_line(0), hardware.now());
        match self.through {
            true => hardware.write_through("newest", 0, words, now),
            false => hardware.write_home("other", 0, [9; 8], now),
        };
        Ok(())
    }

    fn leaves(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.left += u64::from(leaving.line == 0);
        Verdict::Allow
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("left", self.left)]
    }
}

/// A mechanism's writes to the home device past the caches do not change volatile DRAM: a dirty line there stays dirty,
/// and goes home with its contents. If the mechanism has written these through, the line is clean.
#[test]
fn writes_past_the_caches_leave_dirty_lines_dirty() {
    for through in [false, true] {
        let mut config = with_and_without_dram()[1].clone();
        config.memory.dram_cache.as_mut().expect("DRAM").bytes = 64 << 10;
        let mechanism = small(move || Writer { through, left: 0 });
        let machine = Machine::new(
            config,
            &[7; 4 * LEN as usize],
            Options { mechanism, ..Options::default() },
        );
        machine.store(0, 1);
        (1..4 * LEN / LINE).for_each(|line| _ = machine.load(line * LINE));
        assert!(machine.statistics().write_backs.evictions > 0, "it is in DRAM");
        machine.tx_begin().expect("it does");
        machine.work(100_000);
        machine.fence();
        assert_eq!(machine.power_cut()[0], if through { 1 } else { 9 });
        machine.write_back(0, 8);
        machine.fence();
        assert_eq!(machine.power_cut()[0], 1, "through: {through}");
        assert_eq!(machine.statistics().mechanism_figures[0].1, u64::from(!through));
    }
}

/// Epochs that the clock ends: every cut leaves memory as it was before the access that ended
/// the last one, with several cores, with lines in volatile DRAM, and by either schedule.
#[test]
fn every_cut_leaves_the_last_epoch_that_the_clock_ended() {
    for config in with_and_without_dram() {
        for (seed, cores) in [(1, 1), (2, 3), (3, 3)] {
            for schedule in [Schedule::Clock, Schedule::Seeded { every: 4 }] {
                let options = Options {
                    cores: Some(cores),
                    seed,
                    schedule,
                    mechanism: undo_log(None),
                    epoch: Some(Ps::from_ns(5_000.0)),
                    ..Options::default()
                };
                let machine = Machine::new(config.clone(), &[7; LEN as usize], options);
                let programs = (0..cores as u64).map(|core| scrawl(&machine, seed * 10 + core));
                let (mut before, mut ended) = (machine.visible(), machine.visible());
                let mut epochs = 0;
                let checked = machine.run_watched(programs.collect(), |machine, event| {
                    let now = machine.statistics().mechanism_figures[0].1;
                    if now != epochs {
                        (epochs, ended) = (now, before.clone());
                    }
                    before = machine.visible();
                    let left = machine.power_cut_in_recovery(event.number % 50);
                    match (0..left.len()).find(|word| left[*word] != ended[*word]) {
                        None => ControlFlow::Continue(()),
                        Some(word) => ControlFlow::Break((event, word / 8)),
                    }
                });
                let dram = config.memory.dram_cache.is_some();
                assert!(checked.is_continue(), "{cores}, {schedule:?}, dram {dram}: {checked:?}");
                assert!(epochs > 3, "{epochs} epochs");
            }
        }
    }
}

/// Stores of one line each, so that an epoch ends between them.
fn scrawl(machine: &Machine, seed: u64) -> Box<dyn FnOnce() + '_> {
    Box::new(move || {
        let mut random = SplitMix64::new(seed);
        for step in 1..=300 {
            let line = random.below(LEN / LINE) * LINE;
            match random.below(20) {
                0 => machine.stream(line, &[step; 8]),
                1 | 2 => machine.write_back(line, 64),
                3 => machine.fence(),
                4..9 => _ = machine.load(line),
                _ => machine.store(line + random.below(8) * 8, step << 8 | seed),
            }
        }
    })
}

/// An epoch without end is one that never ends by the clock.
#[test]
fn epochs_may_be_as_long_as_time() {
    let machine = machine(1, 1, Some(Ps(u64::MAX)));
    machine.store(0, 1);
    machine.end_epoch();
    machine.store(0, 2);
    assert_eq!(machine.power_cut()[0], 1);
}

/// Sends lines to their mirror images in its own half, and fetches them from there.
struct Mirror {
    first: u64,
    at: Moments,
    fetched: Arc<Mutex<Vec<u64>>>,
    moved: HashSet<u64>,
}

impl Mirror {
    fn place(&self, line: u64) -> u64 {
        if self.moved.contains(&line) { self.first + line } else { line }
    }

    fn moves(&mut self, line: u64) -> Verdict {
        self.moved.insert(line);
        Verdict::Redirect(self.first + line)
    }
}

impl Mechanism for Mirror {
    fn moments(&self) -> Moments {
        self.at
    }

    fn filled(&mut self, _: &mut Hardware, _: usize, line: u64) -> u64 {
        self.fetched.lock().unwrap().push(line);
        self.place(line)
    }

    fn evicted(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.moves(leaving.line)
    }

    fn fetched(&mut self, _: &mut Hardware, fetch: &Fetch, places: &mut [u64]) -> Ps {
        self.fetched.lock().unwrap().push(fetch.wanted);
        places.iter_mut().for_each(|place| *place = self.place(*place));
        fetch.now
    }

    fn leaves(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        self.moves(leaving.line)
    }
}

/// A mirror called at these moments, and the lines that it was called to fetch.
fn mirror(at: Moments) -> (Box<dyn Design>, Arc<Mutex<Vec<u64>>>) {
    let fetched = Arc::<Mutex<Vec<u64>>>::default();
    let told = Arc::clone(&fetched);
    let build = move |own: Range<u64>| {
        let (fetched, moved) = (Arc::clone(&told), HashSet::new());
        Box::new(Mirror { first: own.start, at, fetched, moved }) as Box<dyn Mechanism>
    };
    // No line of the test's is zero.
    let recover = |home: &mut Home<'_>| {
        for line in 0..home.own().start {
            let words = home.line(home.own().start + line);
            if words != [0; 8] {
                home.put(line, &words);
            }
        }
    };
    (Box::new(Test { build, reserves: |lines| lines, recover }), fetched)
}

/// Of the caches and of the home device.
const PLACES: [fn() -> Moments; 2] = [|| Moments::FILL | Moments::EVICTION, || Moments::HOME];

/// A redirected line arrives in its new place, through volatile DRAM too, and is fetched from there.
#[test]
fn redirected_lines_arrive() {
    for (config, at) in
        with_and_without_dram().into_iter().flat_map(|c| PLACES.map(|at| (c.clone(), at())))
    {
        let (mechanism, fetched) = mirror(at);
        let options = Options { mechanism, ..Options::default() };
        let machine = Machine::new(config.clone(), &[0; 4 * LEN as usize], options);
        let lines = 4 * LEN / LINE;
        (0..lines).for_each(|line| machine.store(line * LINE, line + 1));
        // Enough loads for every dirty line to leave the caches, and the DRAM after them.
        (0..lines).for_each(|line| assert_eq!(machine.load(line * LINE), line + 1));
        machine.work(u32::MAX);
        let left = machine.power_cut();
        let dram = config.memory.dram_cache.is_some();
        let arrived = (0..lines).filter(|line| left[*line as usize * 8] == line + 1).count();
        assert!(arrived as u64 >= lines - 16, "{arrived} of {lines}; dram {dram}, {at:?}");
        assert!(fetched.lock().unwrap().len() as u64 >= lines / 4, "blocks of four lines at least");
    }
}

/// The mechanism is called for the place of a line that the caches lack, for stores too; cached lines are
/// loaded from the caches.
#[test]
fn caches_are_before_the_mechanism() {
    for at in PLACES {
        let (mechanism, fetched) = mirror(at());
        let options = Options { mechanism, ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
        machine.store(0, 1);
        machine.write_back(0, 8);
        assert_eq!([machine.load(0), machine.load(8)], [1, 0]);
        machine.store(LINE, 2);
        assert_eq!(*fetched.lock().unwrap(), [0, 1]);
    }
}

/// Makes every core wait when a line is written back.
struct Barrier;

impl Mechanism for Barrier {
    fn moments(&self) -> Moments {
        Moments::EVICTION
    }

    fn evicted(&mut self, hardware: &mut Hardware, _: &Leaving) -> Verdict {
        hardware.all_wait_until(Ps(9_000_000));
        Verdict::Allow
    }
}

#[test]
fn a_mechanism_can_make_all_cores_wait() {
    let barrier = || Options { mechanism: small(|| Barrier), ..Options::default() };
    let written_back = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], barrier());
    written_back.store(0, 1);
    written_back.write_back(0, 8);
    assert!(written_back.now() >= 9_000);
    let evicted = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], barrier());
    (0..LEN / LINE).for_each(|line| evicted.store(line * LINE, 1));
    assert!(evicted.now() >= 9_000);
}

/// A mechanism has nothing to do where caches are persistent.
#[test]
fn mechanisms_are_refused_where_they_cannot_work() {
    let made = std::panic::catch_unwind(|| {
        let options = Options { mechanism: undo_log(None), ..Options::default() };
        Machine::new(tiny(Domain::Persistent), &[0; LEN as usize], options)
    });
    assert!(made.is_err());
}

/// A run that is only timed keeps no durable image: it takes as long, and programs see the same, what aborted
/// transactions have stored undone.
#[test]
fn data_costs_no_time() {
    let program = |machine: &Machine, seed: u64| {
        let mut random = SplitMix64::new(seed);
        for step in 1..400 {
            if step % 60 == 0 {
                machine.end_epoch();
            }
            machine.tx_begin().expect("it runs alone");
            for _ in 0..random.below(12) {
                let line = random.below(LEN / LINE) * LINE;
                match random.below(8) {
                    0 => machine.write_back(line, 64),
                    1 => machine.fence(),
                    2..4 => _ = machine.load(line),
                    _ => machine.store(line + random.below(8) * 8, step << 8 | seed),
                }
            }
            match random.below(6) {
                0 => _ = machine.tx_abort(),
                1 => {
                    machine.tx_commit().expect("it fits");
                    machine.tx_flush();
                }
                _ => _ = machine.tx_commit().expect("it fits"),
            }
        }
    };
    for kind in list::KINDS {
        for config in ["tiny", "tiny-dram"] {
            let [timed, kept] = [Keep::Visible, Keep::Durable].map(|keep| {
                let config = perdura_machine::presets::load(config).expect("a preset");
                let mechanism = list::design(kind.name, &config, None).expect("a mechanism");
                let options = Options { keep, mechanism, ..Options::default() };
                let machine = Machine::new(config, &[0; LEN as usize], options);
                program(&machine, 1);
                let statistics = serde_json::to_string(&machine.statistics()).expect("JSON");
                (machine.visible(), statistics)
            });
            assert_eq!(timed, kept, "{} on {config}", kind.name);
        }
    }
}
