//! Programs' own memory: it takes time and room in the caches as the pool does, and appears nowhere else.

#![allow(missing_docs)]

mod common;

use common::mechanisms::{small, undo_log};
use common::{timed, tiny};
use perdura_machine::mechanism::{Accessed, Effect, Fetch, Flush, Leaving, Moments, Verdict};
use perdura_machine::{Hardware, Keep, Machine, Mechanism, Options, Ps, Schedule};
use perdura_memory::lock::{Lock, Mode, Order, Seat};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory, Object, Touch};
use std::sync::Arc;

type Program<'a> = Box<dyn FnOnce() + 'a>;

const BYTES: usize = 64 << 10;
const ACCESSES: [Touch; 4] = [Touch::Read, Touch::Value, Touch::Write, Touch::Exchange];

fn machine(cores: usize) -> Machine {
    machine_with(Options { cores: Some(cores), ..Options::default() })
}

fn machine_with(options: Options) -> Machine {
    Machine::new(tiny(Domain::Transient), &[0; BYTES], options)
}

/// How long this takes the running core, in nanoseconds.
fn took(machine: &Machine, action: impl FnOnce()) -> u64 {
    let before = machine.now();
    action();
    machine.now() - before
}

/// A touch takes as long as a load, a store or an exchange of the pool, in the nearest cache and from memory; for a
/// read on which only a decision depends, see the next test.
#[test]
fn a_touch_takes_as_long_as_an_access_to_the_pool() {
    let of_pool = |machine: &Machine, access| match access {
        Touch::Read | Touch::Value => _ = machine.load(0),
        Touch::Write => machine.store(0, 1),
        Touch::Exchange => _ = machine.compare_exchange(0, 0, 0),
    };
    for access in [Touch::Value, Touch::Write, Touch::Exchange] {
        let (pool, own) = (machine(1), machine(1));
        let object = own.object(LINE);
        for turn in 0..3 {
            let wanted = took(&pool, || of_pool(&pool, access));
            let got = took(&own, || own.touch(object, 0, 8, access));
            assert_eq!(got, wanted, "{access:?}, turn {turn}");
        }
        // A fence waits for both.
        assert_eq!(took(&own, || own.fence()), took(&pool, || pool.fence()), "{access:?}");
    }
}

/// A read for a decision is predicted: from the nearest cache (4 ns) it costs an out-of-order core only the issue, a
/// cycle of 1 ns. Such a core waits for values that its program works with, and for data further away (40 ns); an
/// in-order core, which has one fill buffer, waits for all reads. The lines of one touch are fetched together: the
/// second one is requested a cycle after the first, and is there after 1 + 40.
#[test]
fn a_decision_is_predicted_and_a_value_waited_for() {
    const TOUCHES: u64 = 10;
    for (fill_buffers, access, near, both) in [
        (4, Touch::Read, 1, 41),
        (4, Touch::Value, 4, 41),
        (1, Touch::Read, 4, 80),
        (1, Touch::Value, 4, 80),
    ] {
        let mut config = timed(4);
        config.cores.fill_buffers = fill_buffers;
        let options = Options { cores: Some(1), ..Options::default() };
        let machine = Machine::new(config, &[0; 64], options);
        let object = machine.object(16 * LINE);
        let touch =
            |line: u64, len| took(&machine, || machine.touch(object, line * LINE, len, access));
        let what = format!("{access:?} with {fill_buffers} fill buffers");
        touch(0, LINE);
        let hits: u64 = (0..TOUCHES).map(|_| touch(0, 8)).sum();
        assert_eq!(hits, TOUCHES * near, "{what}");
        // L1 has two lines of each four: the last two stay there.
        let push_out = || [0, 1, 4, 5, 8, 9].into_iter().for_each(|line| _ = touch(line, 8));
        push_out();
        assert_eq!(touch(0, 8), 40, "{what}");
        push_out();
        assert_eq!(touch(0, 2 * LINE), both, "{what}");
    }
}

/// Two cores that exchange one word pass its line back and forth; words on separate lines stay with their cores.
#[test]
fn a_word_that_two_cores_exchange_goes_from_core_to_core() {
    const TURNS: u64 = 200;
    let time = |apart: bool| {
        let machine = machine(2);
        let object = machine.object(2 * LINE);
        let program = |core: u64| {
            let machine = &machine;
            let at = if apart { core * LINE } else { core * 8 };
            Box::new(move || (0..TURNS).for_each(|_| machine.touch(object, at, 8, Touch::Exchange)))
                as Program<'_>
        };
        machine.run(vec![program(0), program(1)]);
        (machine.time().as_ns(), machine.statistics().caches.transfers)
    };
    let ((apart, kept), (together, passed)) = (time(true), time(false));
    assert_eq!(kept, 0);
    // Of 400 exchanges; a core that has the line may have several turns before the other one gets it.
    assert!(passed >= TURNS, "{passed} transfers");
    assert!(together > 2.0 * apart, "{together} ns, and {apart} ns on lines of their own");
}

/// Writers enter in any order.
#[derive(Default)]
struct AnyOrder;

impl Order for AnyOrder {
    type Place = ();
}

/// The lock of the engines, in caches that have room for all its words. A cycle is half a nanosecond; an access takes 2
/// of work, then 1 to be issued, or 4 for what the nearest cache has. A round of a core alone, from its last store on
/// (cycle 0): the bias is looked at (3 to 6, which is also when the store is done), the flag exchanged (6 to 10), those
/// that wait looked at (to 13); leaving stores that the writer is alone no longer (to 16) and the flag, in the next
/// round. So 16 cycles, 8 ns, and as much on each of many cores with locks of their own. Where cores share one, its
/// flag goes from core to core each time, in 40 + 20 cycles, 30 ns: a core that waits has asked for it before the one
/// that leaves comes again. The rest is done meanwhile.
#[test]
fn a_lock_that_cores_share_costs_more_than_locks_that_they_do_not() {
    const ROUNDS: u64 = 100;
    let time = |cores: usize, locks: usize| {
        let mut config = tiny(Domain::Transient);
        (config.caches[0].bytes, config.caches[0].ways) = (16 << 10, 4);
        (config.caches[1].bytes, config.caches[1].ways) = (256 << 10, 16);
        let options = Options { cores: Some(cores), ..Options::default() };
        let machine = Machine::new(config, &[0; 64], options);
        let locks: Vec<_> = (0..locks)
            .map(|_| Arc::new(Lock::<AnyOrder, (), u64>::new(&machine, cores, (), 0)))
            .collect();
        let run = || {
            let program = |core: usize| {
                let (machine, lock) = (&machine, &locks[core % locks.len()]);
                Box::new(move || {
                    let mut seat = Seat::new(lock).expect("a slot");
                    for _ in 0..ROUNDS {
                        seat.enter(Mode::Write, machine);
                        *seat.writing().expect("the writer").own += 1;
                        seat.leave(machine);
                    }
                }) as Program<'_>
            };
            machine.run((0..cores).map(program).collect());
        };
        // Fetches the lines from memory before the measurement.
        run();
        machine.start_measuring();
        run();
        let time = machine.statistics().time_ns;
        let rounds: u64 = locks.iter().map(|lock| lock.writing(&machine, |right| *right.own)).sum();
        assert_eq!(rounds, 2 * ROUNDS * cores as u64);
        // Time of a round, if only one core at a time holds the lock.
        time / (ROUNDS * cores as u64 / locks.len() as u64) as f64
    };
    for cores in [1, 2, 4] {
        assert_eq!(time(cores, cores), 8.0, "{cores} cores with locks of their own");
    }
    for cores in [2, 4] {
        let shared = time(cores, 1);
        assert!((30.0..30.5).contains(&shared), "{cores} cores with one lock: {shared} ns");
    }
}

/// A program's own memory displaces the pool's lines from the caches, and is written to memory when it leaves them.
#[test]
fn much_own_memory_pushes_the_pool_out_of_the_caches() {
    let machine = machine(1);
    let last_level = machine.last_level_cache();
    let misses = |own: u64| {
        (0..16).for_each(|line| _ = machine.load(line * LINE));
        machine.touch(machine.object(own), 0, own, Touch::Write);
        machine.fence();
        machine.start_measuring();
        (0..16).for_each(|line| _ = machine.load(line * LINE));
        machine.statistics().cores[0].memory_loads
    };
    assert_eq!((misses(LINE), misses(4 * last_level)), (0, 16));
    machine.start_measuring();
    let lines = 4 * last_level / LINE;
    machine.touch(machine.object(lines * LINE), 0, lines * LINE, Touch::Write);
    let statistics = machine.statistics();
    let (core, written) = (statistics.cores[0], statistics.write_backs);
    assert_eq!((core.own_accesses, core.loads, core.stores), (lines, 0, 0));
    // As many as do not fit into the caches; lines from before are all own lines too.
    assert!((lines / 2..=lines).contains(&written.own), "{written:?}");
    assert_eq!(written.evictions + written.asked + written.streamed, 0);
    assert_eq!(statistics.memory.home.writes, written.own);
}

/// A mechanism is called only for lines of the pool and its own.
struct Watching(u64);

impl Mechanism for Watching {
    fn moments(&self) -> Moments {
        Moments::ACCESS | Moments::FILL | Moments::EVICTION | Moments::HOME
    }
    fn accessed(&mut self, _: &mut Hardware, access: &Accessed<'_>) -> Effect {
        assert!(access.line < self.0, "the line {} is accessed", access.line);
        Effect::Happens
    }
    fn filled(&mut self, _: &mut Hardware, _: usize, line: u64) -> u64 {
        assert!(line < self.0, "the line {line} is fetched");
        line
    }
    fn evicted(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        assert!(leaving.line < self.0, "{leaving:?}");
        Verdict::Allow
    }
    fn fetched(&mut self, _: &mut Hardware, fetch: &Fetch, _: &mut [u64]) -> Ps {
        assert!(fetch.wanted < self.0, "{fetch:?}");
        fetch.now
    }
    fn leaves(&mut self, _: &mut Hardware, leaving: &Leaving) -> Verdict {
        assert!(leaving.line < self.0, "{leaving:?}");
        Verdict::Allow
    }
    fn end_epoch(&mut self, _: &mut Hardware) -> Flush {
        Flush::Everything
    }
    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        hardware.all_wait_until(home);
    }
}

/// Random accesses to the pool, with touches in between, or without.
fn random_programs(machine: &Machine, cores: usize, touches: bool) {
    let objects: Vec<Object> = (0..8).map(|number| machine.object(64 << number)).collect();
    let program = |core: usize| {
        let objects = &objects;
        Box::new(move || {
            let mut random = SplitMix64::new(core as u64);
            for step in 0..600 {
                let at = random.below(BYTES as u64 / 8) * 8;
                match random.below(6) {
                    0 => machine.store(at, step),
                    1 => machine.copy_in(at / LINE * LINE, &[step as u8; 64]),
                    2 => machine.write_back(at, 8),
                    3 => machine.fence(),
                    4 => machine.stream(at / LINE * LINE, &[step; 8]),
                    _ => _ = machine.load(at),
                }
                let object = objects[random.below(8) as usize];
                let (at, len) = (random.below(1 << 14), random.below(300));
                let access = ACCESSES[random.below(4) as usize];
                if touches {
                    machine.touch(object, at, len, access);
                }
            }
        }) as Program<'_>
    };
    machine.run((0..cores).map(program).collect());
}

#[test]
fn a_touch_is_no_event_and_leaves_no_trace() {
    for cores in [1, 3] {
        // Random turns, so that touches do not change the order of turns.
        let run = |touches| {
            let mechanism = small(|| Watching(BYTES as u64 / LINE));
            let epoch = Some(Ps::from_ns(20_000.0));
            let machine = machine_with(Options {
                cores: Some(cores),
                keep: Keep::Model,
                mechanism,
                epoch,
                schedule: Schedule::Clock,
                ..Options::default()
            });
            random_programs(&machine, cores, touches);
            let home = machine.power_cut();
            machine.model(|model, left| {
                for line in 0..BYTES as u64 / LINE {
                    assert!(model.allows(line * LINE, &left(line * LINE)), "line {line}");
                }
            });
            (machine.events(), machine.visible(), home)
        };
        let (with, without) = (run(true), run(false));
        assert_eq!(with.0, without.0, "{cores} cores");
        assert_eq!(with.2.len(), BYTES / 8);
        if cores == 1 {
            assert_eq!(with.1, without.1);
        }
    }
}

/// The undo log recovers memory as at the last epoch's end, though own lines leave the caches meanwhile.
#[test]
fn a_mechanism_recovers_as_without() {
    let options = Options { cores: Some(1), mechanism: undo_log(None), ..Options::default() };
    let machine = machine_with(options);
    let object = machine.object(1 << 20);
    (0..64).for_each(|line| machine.store(line * LINE, 7));
    machine.end_epoch();
    for line in 0..64 {
        machine.store(line * LINE, 8);
        machine.touch(object, line << 14, 1 << 14, Touch::Write);
        let left = machine.power_cut();
        assert!((0..64).all(|line| left[line * 8] == 7), "line {line}");
    }
}

#[test]
fn two_runs_are_the_same() {
    for schedule in [Schedule::Clock, Schedule::Seeded { every: 5 }] {
        let run = || {
            let machine = machine_with(Options { cores: Some(4), schedule, ..Options::default() });
            random_programs(&machine, 4, true);
            serde_json::to_string(&machine.statistics()).expect("JSON")
        };
        assert_eq!(run(), run());
    }
}

/// Objects may have more lines than the caches have numbers for.
#[test]
fn objects_may_be_larger_than_all_there_is() {
    let machine = machine(1);
    let objects: Vec<Object> = (0..4).map(|_| machine.object(u64::MAX / 2)).collect();
    for object in objects {
        for at in [0, 1 << 30, 1 << 40, u64::MAX - 7] {
            machine.touch(object, at, 8, Touch::Write);
        }
    }
    machine.touch(Object::NONE, 0, 8, Touch::Write);
    assert_eq!(machine.statistics().cores[0].own_accesses, 16);
    assert_eq!(machine.events(), 0);
}

/// Beside the pool's device is one for own memory, whose rows open in 30 ns in place of 100, and whose column comes after
/// 3 in place of 10: a line of own memory takes 40 + 30 + 3 + 5 + 10, and one of the pool 40 + 125 as ever. Each device has
/// its own bus and queue.
#[test]
fn own_memory_can_have_a_device_of_its_own() {
    let mut config = timed(0);
    let mut device = config.memory.home.clone();
    (device.activate_ns, device.row_hit_ns) = (30.0, 3.0);
    config.memory.volatile = Some(device);
    for asks in [false, true] {
        let mut options = Options { cores: Some(1), ..Options::default() };
        if asks {
            options.mechanism = undo_log(None);
        }
        let machine = Machine::new(config.clone(), &[0; BYTES], options);
        let own = 4 * machine.last_level_cache();
        let object = machine.object(own);
        let took = |access: &dyn Fn()| {
            machine.fence();
            machine.work(10_000);
            let before = machine.now();
            access();
            machine.now() - before
        };
        assert_eq!(took(&|| _ = machine.load(0)), 40 + 125);
        let read = || machine.touch(object, 0, LINE, Touch::Value);
        assert_eq!(
            took(&|| {
                read();
                _ = machine.load(0);
            }),
            40 + 48 + 4
        );
        machine.start_measuring();
        machine.touch(object, 0, own, Touch::Write);
        let memory = machine.statistics().memory;
        let (home, beside) = (memory.home, memory.volatile.expect("a device"));
        assert_eq!((home.reads, home.writes), (0, 0), "none of it is in the pool's device");
        assert_eq!(beside.reads, own / LINE - 1);
        assert_eq!(beside.writes, machine.statistics().write_backs.own);
        assert!(beside.writes >= own / LINE / 2 && beside.wear.is_none());
    }
}
