//! The end of an epoch, step by step: from the caches into DRAM, from there home; and DRAM of a mechanism's own.

#![allow(missing_docs)]

mod common;

use common::{behind_dram, timed};
use perdura_machine::mechanism::{Dirtied, Flush, Home, Leaving, Moments, Verdict};
use perdura_machine::{Design, Hardware, Machine, MachineConfig, Mechanism, Options, Ps, presets};
use perdura_memory::{LINE, Memory};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// What the mechanism was told, in order.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    /// The line, the first of its block, and whether the block was clean.
    Dirtied(u64, u64, bool),
    /// The line, from when it can be written, and the block's dirty lines.
    Leaves(u64, Ps, Option<u64>),
    Home(Ps),
}

#[derive(Clone)]
struct Telling {
    told: Arc<Mutex<Vec<Told>>>,
    flush: Flush,
    dram: u64,
}

impl Design for Telling {
    fn name(&self) -> &'static str {
        "telling"
    }

    fn reserves_dram(&self) -> u64 {
        self.dram
    }

    fn build(&self, _: &mut Hardware, _: Range<u64>) -> Box<dyn Mechanism> {
        Box::new(self.clone())
    }

    fn recover(&self, _: &mut Home<'_>) {}
}

impl Telling {
    fn note(&self, told: Told) {
        self.told.lock().expect("no panic").push(told);
    }
}

impl Mechanism for Telling {
    fn moments(&self) -> Moments {
        Moments::HOME
    }

    fn dirtied(&mut self, _: &mut Hardware, dirtied: &Dirtied) {
        self.note(Told::Dirtied(dirtied.line, dirtied.block.start, dirtied.first));
    }

    fn leaves(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        let block = leaving.block.map(|block| block.dirty);
        self.note(Told::Leaves(leaving.line, leaving.from, block));
        Verdict::Allow
    }

    fn end_epoch(&mut self, _: &mut Hardware) -> Flush {
        self.flush
    }

    fn epoch_is_home(&mut self, _: &mut Hardware, home: Ps) {
        self.note(Told::Home(home));
    }
}

/// Times that add up by hand, with DRAM of blocks of four lines: 2 ns to look a block up; a line is read in 100 + 10 + 5
/// ns, since rows are closed.
fn cached(blocks: u64) -> MachineConfig {
    behind_dram(&timed(0), blocks, 4 * LINE)
}

fn machine(config: MachineConfig, flush: Flush, dram: u64) -> (Machine, Telling) {
    let telling = Telling { told: Arc::default(), flush, dram };
    let options =
        Options { cores: Some(1), mechanism: Box::new(telling.clone()), ..Options::default() };
    (Machine::new(config, &[0; 4096], options), telling)
}

/// A line dirty in the caches, its block in DRAM: into DRAM, of which the mechanism is told, and then out of it, by one
/// read, and home.
#[test]
fn an_epochs_lines_go_home_through_dram() {
    let (machine, telling) = machine(cached(4), Flush::Everything, 0);
    machine.store(5 * LINE, 1);
    machine.store(6 * LINE, 1);
    machine.work(10_000);
    machine.start_measuring();
    let begins = machine.time();
    machine.end_epoch();
    let told = telling.told.lock().expect("no panic").clone();
    let dirtied = [Told::Dirtied(5, 4, true), Told::Dirtied(6, 4, false)];
    assert_eq!(told[..2], dirtied);
    let [Told::Leaves(5, first, both), Told::Leaves(6, second, also), Told::Home(home)] = told[2..]
    else {
        panic!("{told:?}")
    };
    // Both of the block's lines leave with it: bits 1 and 2.
    assert_eq!((both, also), (Some(6), Some(6)));
    // The DRAM has both 2 ns (look-up) and 10 ns (static) later, still in its write queue, and forwards them.
    let read = begins + Ps::from_ns(2.0 + 10.0);
    assert_eq!((first, second), (read, read), "{begins:?}");
    assert_eq!(home, read + Ps::from_ns(10.0), "the home device has them in its queue");
    let memory = machine.statistics().memory;
    let dram = memory.dram.expect("DRAM");
    assert_eq!((dram.reads, dram.writes), (2, 2), "each line goes in and out");
    assert_eq!((memory.home.reads, memory.home.writes), (0, 2));
    assert_eq!(machine.statistics().write_backs.mechanism, 2);
    assert_eq!(machine.power_cut(), machine.visible());
    // Nothing is dirty any more.
    machine.end_epoch();
    assert_eq!(telling.told.lock().expect("no panic").len(), told.len() + 1);
}

/// The first step alone: the lines are in DRAM, and volatile.
#[test]
fn lines_of_the_caches_go_into_dram_alone() {
    let (machine, telling) = machine(cached(4), Flush::Caches, 0);
    machine.store(5 * LINE, 1);
    machine.work(10_000);
    machine.end_epoch();
    let told = telling.told.lock().expect("no panic").clone();
    assert!(matches!(told[..], [Told::Dirtied(5, 4, true), Told::Home(_)]), "{told:?}");
    let memory = machine.statistics().memory;
    assert_eq!((memory.home.writes, memory.dram.expect("DRAM").writes), (0, 5), "4 were fetched");
    assert_ne!(machine.power_cut(), machine.visible());
}

/// Without DRAM, the caches' lines go home at once.
#[test]
fn without_dram_an_epoch_has_one_step() {
    for flush in [Flush::Caches, Flush::Everything] {
        let (machine, telling) = machine(timed(0), flush, 0);
        machine.store(5 * LINE, 1);
        machine.end_epoch();
        let told = telling.told.lock().expect("no panic").clone();
        let [Told::Dirtied(5, 5, true), Told::Leaves(5, _, None), Told::Home(_)] = told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(machine.power_cut(), machine.visible());
        assert_eq!(machine.statistics().write_backs.mechanism, 1);
    }
}

/// Of four blocks of DRAM the mechanism has one and a half: two of them are left for the cache.
#[test]
fn a_mechanisms_dram_is_taken_from_the_cache() {
    for (dram, misses) in [(0, 3), (4 * LINE, 3), (6 * LINE, 9)] {
        let (machine, _) = machine(cached(4), Flush::Nothing, dram);
        // Three blocks in turn, another line of each in every round: the caches have none of them.
        for line in 0..3 {
            (0..3).for_each(|block| _ = machine.load((block * 4 + line) * LINE));
        }
        let cache = machine.statistics().memory.dram_cache.expect("DRAM");
        assert_eq!((cache.misses, cache.hits), (misses, 9 - misses), "{dram} bytes");
    }
}

/// A mechanism reads a line of its own.
struct Reading(Arc<Mutex<Vec<Ps>>>);

impl Design for Reading {
    fn name(&self) -> &'static str {
        "reading"
    }

    fn reserves_dram(&self) -> u64 {
        4 << 20
    }

    fn build(&self, _: &mut Hardware, _: Range<u64>) -> Box<dyn Mechanism> {
        Box::new(Reading(self.0.clone()))
    }
}

impl Mechanism for Reading {
    fn end_epoch(&mut self, hardware: &mut Hardware) -> Flush {
        let now = hardware.now();
        let read = hardware.read_own_dram(3, now);
        self.0.lock().expect("no panic").push(read.since(now));
        Flush::Nothing
    }
}

/// On `dual-page` 16 bytes of a table in DRAM come in 21 (row) + 21 (column) + 8 (bus) = 50 ns.
#[test]
fn a_table_in_dram_is_read_in_50_ns() {
    let times = Arc::default();
    let options =
        Options { mechanism: Box::new(Reading(Arc::clone(&times))), ..Options::default() };
    let config = presets::load("dual-page").expect("a preset");
    let machine = Machine::new(config, &[0; 4096], options);
    machine.work(100);
    machine.end_epoch();
    assert_eq!(*times.lock().expect("no panic"), [Ps::from_ns(50.0)]);
}
