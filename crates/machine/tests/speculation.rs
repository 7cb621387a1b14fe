//! The machine holds speculation: no durable image, promise or other core ever has a store of a speculation that is not
//! committed, and a lost one has left nothing. Each test is a trap: a way in which the words got out.
//!
//! The mechanism is the smallest there is (`common/conflicts.rs`): the rest is the machine's.

#![allow(missing_docs)]

mod common;

use common::conflicts::conflicts;
use common::mechanisms::{by_name, small};
use common::tiny;
use perdura_machine::mechanism::{Accessed, Effect, Moments};
use perdura_machine::{
    Design, Hardware, Keep, Kind, Machine, Mechanism, Options, Plain, Ps, Schedule,
};
use perdura_memory::{Domain, HardwareAbort, HardwareTicket, LINE, Memory, OwnWords, Touch};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

type Steps<'a> = Vec<Box<dyn Fn() + 'a>>;

const BYTES: usize = 8 << 10;

fn machine_with(domain: Domain, mechanism: Box<dyn Design>, keep: Keep) -> Machine {
    let schedule = Schedule::Seeded { every: 1 };
    let options = Options {
        cores: Some(2),
        transactions: conflicts(),
        mechanism,
        keep,
        schedule,
        ..Options::default()
    };
    Machine::new(tiny(domain), &[0; BYTES], options)
}

fn machine(domain: Domain) -> Machine {
    machine_with(domain, Box::new(Plain), Keep::Model)
}

/// Core 0 does the steps of the first list and core 1 those of the second, in turn: one of the first, one of the
/// second, and so on.
fn in_turn<'a>(machine: &'a Machine, first: Steps<'a>, second: Steps<'a>) {
    let step = &AtomicUsize::new(0);
    let program = |which: usize, steps: Steps<'a>| {
        Box::new(move || {
            for (index, act) in steps.iter().enumerate() {
                while step.load(Ordering::Relaxed) != 2 * index + which {
                    machine.pause(0);
                }
                act();
                step.fetch_add(1, Ordering::Relaxed);
            }
        }) as Box<dyn FnOnce() + '_>
    };
    machine.run(vec![program(0, first), program(1, second)]);
}

fn nothing<'a>() -> Box<dyn Fn() + 'a> {
    Box::new(|| ())
}

/// Core 0 speculates and does `first`; then core 1 does `second`, by which core 0's speculation is lost.
fn loses<'a>(machine: &'a Machine, first: impl Fn() + 'a, second: impl Fn() + 'a) {
    in_turn(
        machine,
        vec![
            Box::new(move || {
                machine.speculate().expect("it runs none");
                first();
            }),
            Box::new(|| assert_eq!(machine.end_speculation(), Err(HardwareAbort::Conflict))),
        ],
        vec![Box::new(second), nothing()],
    );
}

/// Whether the persistency model allows `value` in the first word of a line.
fn allows(machine: &Machine, line: u64, value: u64) -> bool {
    let mut words = [0; 8];
    words[0] = value;
    machine.model(|model, _| model.allows(line * LINE, &words))
}

/// 1. Another core's write-back of a line that was stored to speculatively makes the transaction lose, and hands over
///    what is committed: the old word.
#[test]
fn a_write_back_by_another_core_hands_over_committed_words() {
    let machine = machine(Domain::Transient);
    let m = &machine;
    loses(
        m,
        || m.store(0, 1),
        || {
            m.write_back(0, 8);
            m.fence();
            assert_eq!((m.power_cut()[0], m.visible()[0]), (0, 0));
        },
    );
    assert_eq!((m.power_cut()[0], allows(m, 0, 1)), (0, false));
}

/// 1b. So it is if the mechanism does not notice: the core's own line is evicted, or all lines are cleaned at an epoch's
///     end. The words are durable only after the commit and a write-back, which finds the line dirty.
#[test]
fn no_line_that_leaves_the_caches_has_a_word_that_is_not_committed() {
    for evicted in [true, false] {
        let epoch = (!evicted).then(|| Ps::from_ns(1.0));
        let mechanism = if evicted { Box::new(Plain) } else { by_name("undo-log", None) };
        let options = Options {
            cores: Some(1),
            transactions: conflicts(),
            mechanism,
            epoch,
            ..Options::default()
        };
        let machine = Machine::new(tiny(Domain::Transient), &[0; BYTES], options);
        machine.speculate().expect("it runs none");
        machine.store(0, 1);
        for line in (1..BYTES as u64 / LINE).filter(|_| evicted) {
            _ = machine.load(line * LINE);
        }
        machine.work(1_000_000);
        machine.fence();
        let left = machine.power_cut();
        assert_eq!((left[0], machine.load(0)), (0, 1), "evicted: {evicted}");
        // The epoch that has ended meanwhile has ended without it.
        assert_eq!(machine.broken_promise(&left), None);
        machine.end_speculation().expect("no other core");
        machine.write_back(0, 8);
        machine.fence();
        machine.work(1_000_000);
        machine.end_epoch();
        machine.work(1_000_000);
        machine.fence();
        assert_eq!(machine.power_cut()[0], 1, "evicted: {evicted}");
    }
}

/// 2. Where caches are persistent a store is durable at once, but a speculative one with its commit, all at one moment.
#[test]
fn persistent_caches_have_committed_words_only() {
    let machine = machine(Domain::Persistent);
    for commits in [false, true] {
        machine.speculate().expect("it runs none");
        machine.store(0, 1);
        machine.store(64, 2);
        let durable = |machine: &Machine| (machine.power_cut()[0], machine.power_cut()[8]);
        assert_eq!(durable(&machine), (0, 0));
        assert!(!allows(&machine, 0, 1) && allows(&machine, 0, 0));
        match commits {
            true => _ = machine.end_speculation().expect("no other core"),
            false => machine.stop_speculating(7),
        }
        assert_eq!(durable(&machine), if commits { (1, 2) } else { (0, 0) });
        assert_eq!(allows(&machine, 0, 0), !commits);
    }
}

/// 3. A compare-and-swap of a lost speculation has not swapped, and does not say that it has; and one that makes another
///    core lose finds the word as it is without that core's stores.
#[test]
fn an_exchange_finds_no_lost_word_and_a_lost_one_fails() {
    let machine = machine(Domain::Transient);
    let m = &machine;
    in_turn(
        m,
        vec![
            Box::new(|| {
                m.speculate().expect("it runs none");
                m.store(0, 8);
            }),
            Box::new(|| {
                assert!(m.compare_exchange(512, 0, 9).is_err());
                assert_eq!(m.visible()[64], 0);
            }),
        ],
        vec![Box::new(|| assert_eq!(m.compare_exchange(0, 0, 5), Ok(0))), nothing()],
    );
    assert_eq!(m.visible()[0], 5);
}

/// 4. Programs' own memory is in the read and write sets: a lock that was read is taken by another core. And what was
///    stored to own words is put back when that is noticed.
#[test]
fn own_memory_is_in_the_sets_and_put_back() {
    let machine = machine(Domain::Transient);
    let m = &machine;
    let (lock, count) = (OwnWords::new(m, 1), OwnWords::new(m, 2));
    count.store(m, 1, 3);
    in_turn(
        m,
        vec![
            Box::new(|| {
                m.speculate().expect("it runs none");
                assert_eq!(lock.load(m, 0), 0);
                count.store(m, 1, 4);
                count.compare_exchange(m, 1, 4, 5).expect("it is 4");
                m.store(0, 1);
            }),
            Box::new(|| {
                assert!(count.compare_exchange(m, 1, 3, 9).is_err(), "it is lost");
                assert_eq!(m.end_speculation(), Err(HardwareAbort::Conflict));
            }),
        ],
        vec![
            Box::new(|| {
                lock.compare_exchange(m, 0, 0, 1).expect("it is free");
                assert_eq!((count.load(m, 1), m.load(0)), (3, 0));
            }),
            nothing(),
        ],
    );
    m.speculate().expect("it runs none");
    count.store(m, 0, 6);
    m.end_speculation().expect("no other core");
    assert_eq!((count.load(m, 0), count.load(m, 1)), (6, 3), "committed");
}

/// 4b. Any touch of own memory, not of such words alone, is told.
#[test]
fn touches_of_objects_are_accesses() {
    let machine = machine(Domain::Transient);
    let m = &machine;
    let object = m.object(64);
    let touch = |access| move || m.touch(object, 0, 8, access);
    loses(m, touch(Touch::Read), touch(Touch::Exchange));
}

/// 5. The mechanism in the place for persistence is told of stores when they are committed, and finds the line's
///    contents as they are without those of other cores that were lost just now.
#[test]
fn the_second_place_is_told_of_committed_stores() {
    let mechanism = by_name("in-order", None);
    let machine = machine_with(Domain::Transient, mechanism, Keep::Durable);
    let m = &machine;
    loses(m, || m.store(0, 1), || m.store(8, 7));
    let settle = || {
        m.fence();
        m.work(10_000_000);
        _ = m.load(4096);
    };
    settle();
    let left = m.power_cut();
    assert_eq!((&left[..2], &m.visible()[..2]), (&[0, 7][..], &[0, 7][..]));
    assert_eq!(m.broken_promise(&left), None);
    m.speculate().expect("it runs none");
    m.store(0, 2);
    m.store(64, 3);
    settle();
    assert_eq!(m.power_cut()[0], 0, "not committed");
    m.end_speculation().expect("no other core");
    settle();
    let left = m.power_cut();
    assert_eq!((left[0], left[8], m.broken_promise(&left)), (2, 3, None));
}

/// 5b. The power is cut at every event and arrival while two cores speculate over a controller that persists in order:
///     what is left is a prefix of the committed stores.
#[test]
fn promises_of_the_second_place_hold_under_speculation() {
    for (seed, name) in [(1, "in-order"), (2, "in-order"), (3, "undo-log"), (4, "copy-on-write")] {
        let options = Options {
            cores: Some(2),
            transactions: conflicts(),
            mechanism: by_name(name, None),
            epoch: Some(Ps::from_ns(3_000.0)),
            at_arrivals: true,
            schedule: Schedule::Seeded { every: 3 },
            seed,
            ..Options::default()
        };
        let machine = Machine::new(tiny(Domain::Transient), &[0; BYTES], options);
        let m = &machine;
        let program = |core: u64| {
            Box::new(move || {
                for round in 0..30 {
                    m.store(64 * (40 + core), round);
                    while m.speculate().is_ok() {
                        let value = m.load(0);
                        m.store(0, value + 1);
                        m.store(64 * (1 + (round + core) % 9), value);
                        if m.end_speculation().is_ok() {
                            break;
                        }
                    }
                    m.write_back(0, 8);
                    m.fence();
                }
            }) as Box<dyn FnOnce()>
        };
        let broken = m.run_watched(vec![program(0), program(1)], |machine, event| {
            let left = machine.power_cut_in_recovery(event.number % 9);
            match machine.broken_promise(&left) {
                Some(word) => ControlFlow::Break((event, word)),
                None => ControlFlow::Continue(()),
            }
        });
        assert!(broken.is_continue(), "{name}: {broken:?}");
        assert_eq!(m.load(0), 60);
        let lost = m.statistics().mechanism_figures[0];
        assert!(lost.0 == "conflicts" && lost.1 > 0, "{name}: {lost:?}");
    }
}

/// 6. A commit is one event, and the stores before it are none: so there is no crash point between them.
#[test]
fn a_commit_is_one_event() {
    let machine = machine(Domain::Persistent);
    let m = &machine;
    let events = Mutex::new(Vec::new());
    let program = || {
        m.speculate().expect("it runs none");
        m.end_speculation().expect("nothing was stored: no event");
        m.speculate().expect("it runs none");
        m.store(0, 1);
        m.compare_exchange(64, 0, 2).expect("it is 0");
        m.copy_in(128, &[3; 64]);
        m.fence();
        m.end_speculation().expect("no other core");
    };
    let result = m.run_watched(vec![Box::new(program)], |machine, event| {
        let left = machine.power_cut();
        events
            .lock()
            .unwrap()
            .push((event.kind, [left[0], left[8], left[16] & 0xff, left[23] >> 56]));
        ControlFlow::<()>::Continue(())
    });
    assert!(result.is_continue());
    let events = events.into_inner().unwrap();
    assert_eq!(events, [(Kind::Fence, [0; 4]), (Kind::Commit, [1, 2, 3, 3])]);
}

/// 7. Where caches are transient the lines of a commit are each durable or not, as any line stored to: the model allows
///    all of it, part of it, and nothing.
#[test]
fn a_commit_on_transient_caches_is_durable_line_by_line() {
    let machine = machine(Domain::Transient);
    machine.speculate().expect("it runs none");
    machine.store(0, 1);
    machine.store(64, 2);
    machine.end_speculation().expect("no other core");
    for (line, value) in [(0, 0), (0, 1), (1, 0), (1, 2)] {
        assert!(allows(&machine, line, value), "line {line}: {value}");
    }
    assert!(!allows(&machine, 1, 1));
    machine.write_back(0, 8);
    machine.fence();
    assert_eq!((allows(&machine, 0, 0), allows(&machine, 1, 0)), (false, true));
    assert_eq!(machine.power_cut()[0], 1, "the line was dirty");
}

/// 8. A lost speculation tells its program why, until the program has ended it; its loads have no meaning and its stores
///    are none.
#[test]
fn a_program_learns_that_its_speculation_is_lost() {
    let machine = machine(Domain::Transient);
    let m = &machine;
    in_turn(
        m,
        vec![
            Box::new(|| {
                m.speculate().expect("it runs none");
                m.store(0, 1);
                assert_eq!(m.lost(), None);
            }),
            Box::new(|| {
                assert_eq!(m.lost(), Some(HardwareAbort::Conflict));
                m.store(64, 3);
                m.copy_in(128, &[1; 8]);
                m.stream(192, &[1; 8]);
                assert_eq!(m.visible()[..32], [0; 32]);
                let lost_at = m.now();
                m.work(1_000_000);
                assert_eq!(m.now(), lost_at, "a processor would have left the transaction");
                assert_eq!(m.speculate(), Err(HardwareAbort::Nested), "it was not ended");
                assert_eq!(m.end_speculation(), Err(HardwareAbort::Conflict));
                assert_eq!(m.lost(), None);
                m.store(64, 3);
                let over_at = m.now();
                m.work(1_000_000);
                assert!(m.now() > over_at + 1_000, "it works again");
            }),
        ],
        vec![Box::new(|| _ = m.load(0)), nothing()],
    );
    assert_eq!(m.visible()[8], 3);
}

/// 9. A prefetch by another core takes the line as a load does.
#[test]
fn a_prefetch_by_another_core_is_a_conflict() {
    let machine = machine(Domain::Transient);
    let m = &machine;
    loses(m, || m.store(0, 1), || m.prefetch(0));
}

/// 10. A machine that keeps no durable image undoes with the words that were there.
#[test]
fn a_machine_without_durable_image_undoes_too() {
    let machine = machine_with(Domain::Transient, Box::new(Plain), Keep::Visible);
    machine.store(0, 5);
    machine.speculate().expect("it runs none");
    machine.store(0, 6);
    machine.store(0, 7);
    machine.stop_speculating(0);
    assert_eq!(machine.load(0), 5);
}

/// 11. An access to own words and its touch are one step: a core whose read comes after another one's exchange finds
///     what that has stored. With a touch and an access that were two steps, 4 of 50 schedules showed otherwise.
#[test]
fn an_exchange_of_own_words_is_one_step_with_its_touch() {
    for seed in 0..200 {
        let schedule = Schedule::Seeded { every: 1 };
        let options = Options { cores: Some(2), schedule, seed, ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; BYTES], options);
        let m = &machine;
        let words = OwnWords::new(m, 1);
        let own_accesses =
            || m.statistics().cores.iter().map(|core| core.own_accesses).sum::<u64>();
        let read = Mutex::new(None);
        m.run(vec![
            Box::new(|| {
                m.pause(0);
                words.compare_exchange(m, 0, 0, 1).expect("it is 0");
            }),
            Box::new(|| {
                m.pause(0);
                let before = own_accesses();
                let found = words.load(m, 0);
                *read.lock().unwrap() = Some((before, found));
            }),
        ]);
        let (exchanges, found) = read.into_inner().unwrap().expect("it ran");
        assert_eq!(found, exchanges, "seed {seed}: {exchanges} exchanges were touched");
    }
}

/// 16. The lines that a lost speculation has stored to leave the nearest cache: its second try fetches them again. What
///     a line had before, and no device has yet, stays in the caches.
#[test]
fn a_lost_line_leaves_the_nearest_cache_and_loses_nothing() {
    let misses = |machine: &Machine| machine.statistics().caches.levels[0].misses;
    for dirty in [true, false] {
        let machine = machine(Domain::Transient);
        if dirty {
            machine.store(0, 5)
        } else {
            _ = machine.load(0)
        }
        machine.fence();
        machine.speculate().expect("it runs none");
        machine.store(8, 6);
        machine.stop_speculating(0);
        let before = misses(&machine);
        _ = machine.load(8);
        assert_eq!(misses(&machine), before + 1, "dirty: {dirty}");
        machine.write_back(0, 8);
        machine.fence();
        assert_eq!(machine.statistics().write_backs.asked, u64::from(dirty));
        assert_eq!(machine.power_cut()[..2], [if dirty { 5 } else { 0 }, 0]);
    }
}

/// What hardware cannot undo ends a speculation, and does not take place.
#[test]
fn refuses_irreversible_steps() {
    let machine = machine(Domain::Transient);
    type Act = fn(&Machine);
    let acts: [(&str, Act); 4] = [
        ("a stream", |machine| machine.stream(64, &[1; 8])),
        ("a write-back", |machine| machine.write_back(0, 8)),
        ("a release", |machine| assert!(!machine.release(4096..8192).expect("no failure"))),
        ("a growth", |machine| assert!(machine.grow(BYTES as u64).is_err())),
    ];
    for (what, act) in acts {
        machine.speculate().expect("it runs none");
        machine.store(4096, 1);
        act(&machine);
        assert_eq!(machine.lost(), Some(HardwareAbort::Unsupported), "{what}");
        assert_eq!(machine.end_speculation(), Err(HardwareAbort::Unsupported), "{what}");
        assert_eq!(machine.visible(), [0; BYTES / 8], "{what}");
    }
    machine.store(4096, 1);
}

/// A mechanism for persistence that refuses each second transaction when it is committed, having been told of its stores.
#[derive(Default)]
struct Refusing(Vec<u64>, u64);

impl Mechanism for Refusing {
    fn moments(&self) -> Moments {
        Moments::STORE
    }

    fn accessed(&mut self, hardware: &mut Hardware, access: &Accessed<'_>) -> Effect {
        assert_eq!(access.before, hardware.visible_line(access.line), "not changed yet");
        self.0.push(access.line);
        Effect::Happens
    }

    fn commit(
        &mut self,
        hardware: &mut Hardware,
        _: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        let told = std::mem::take(&mut self.0);
        assert!(told.iter().all(|line| hardware.visible_line(*line)[0] == 1), "{told:?}: changed");
        self.1 += 1;
        if self.1.is_multiple_of(2) { Ok(HardwareTicket(self.1)) } else { Err(HardwareAbort::Busy) }
    }
}

/// The second place may refuse a commit that the first one has agreed to: then neither has it, and nothing is left.
#[test]
fn a_commit_that_the_second_place_refuses_has_left_nothing() {
    let machine = machine_with(Domain::Persistent, small(Refusing::default), Keep::Durable);
    for turn in 0..4 {
        machine.speculate().expect("both places have ended the one before");
        machine.store(0, 1);
        machine.store(64, 1);
        let ended = machine.end_speculation();
        let left = [machine.load(0), machine.load(64), machine.power_cut()[0]];
        match turn % 2 {
            0 => assert_eq!((ended, left), (Err(HardwareAbort::Busy), [0; 3])),
            _ => {
                assert_eq!((ended, left), (Ok(HardwareTicket(turn + 1)), [1; 3]));
                machine.store(0, 0);
                machine.store(64, 0);
            }
        }
        assert_eq!(machine.lost(), None);
    }
}

/// A speculation that is lost in the first place is aborted in the second one at once, which puts no words back over
/// those of the core that has won.
#[test]
fn a_loss_is_one_in_both_places() {
    for name in ["h-wal", "loc-wal", "kiln"] {
        let options = Options {
            cores: Some(2),
            transactions: conflicts(),
            mechanism: by_name(name, None),
            schedule: Schedule::Seeded { every: 1 },
            ..Options::default()
        };
        let machine = Machine::new(tiny(Domain::Transient), &[0; BYTES], options);
        let m = &machine;
        loses(
            m,
            || m.store(0, 1),
            || {
                // Only if the second place has no transaction any more does another one begin.
                m.store(0, 7);
                m.speculate().expect("the other core's was lost");
                m.store(8, 8);
                assert!(m.end_speculation().is_ok_and(|ticket| ticket > HardwareTicket::DURABLE));
            },
        );
        assert_eq!(m.visible()[..2], [7, 8], "{name}");
        m.tx_flush();
        let left = m.power_cut();
        assert_eq!((left[1], m.broken_promise(&left)), (8, None), "{name}");
    }
}

/// A program that the watcher stops in a speculation has left nothing, and the core is free for the next one.
#[test]
fn a_stopped_program_leaves_no_speculation() {
    let machine = machine(Domain::Persistent);
    let m = &machine;
    let program = || {
        m.speculate().expect("it runs none");
        m.store(0, 1);
        m.fence();
        m.store(64, 1);
    };
    let stopped = m.run_watched(vec![Box::new(program)], |_, _| ControlFlow::Break(()));
    assert!(stopped.is_break());
    assert_eq!((m.load(0), m.load(64), m.lost()), (0, 0, None));
    m.store(0, 2);
    assert_eq!(m.power_cut()[0], 2);
}

/// Without hardware for it there is no speculation.
#[test]
fn a_machine_without_the_hardware_says_so() {
    let machine = Machine::new(tiny(Domain::Transient), &[0; 64], Options::default());
    assert_eq!(machine.speculate(), Err(HardwareAbort::Absent));
    assert_eq!((machine.end_speculation(), machine.lost()), (Err(HardwareAbort::Absent), None));
    assert_eq!(machine.speculation(), perdura_memory::Speculation::Absent);
}
