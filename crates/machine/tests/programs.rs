//! Programs on cores: the order of turns, and the end of runs.

mod common;

use common::tiny;
use perdura_machine::{Machine, Options, Schedule};
use perdura_memory::{Domain, Memory};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Program<'a> = Box<dyn FnOnce() + 'a>;

fn machine(cores: usize) -> Machine {
    let options = Options { cores: Some(cores), ..Options::default() };
    Machine::new(tiny(Domain::Transient), &[0; 4096], options)
}

/// Whenever a core goes on, no other one that has not ended is further behind.
#[test]
fn the_core_furthest_behind_goes_on() {
    for cores in 1..=16 {
        let machine = machine(cores);
        let clocks: Vec<Cell<u64>> = vec![Cell::new(0); cores];
        let programs = (0..cores).map(|core| {
            let (machine, clocks) = (&machine, &clocks);
            Box::new(move || {
                for step in 0..50 {
                    let least = clocks.iter().map(Cell::get).min().expect("a core");
                    assert_eq!(clocks[core].get(), least, "core {core} of {cores}");
                    // Two cycles take a nanosecond. Others may go on before this returns.
                    let cycles = 1000 + (core as u32 * 7 + step) % 5 * 1000;
                    clocks[core].set(machine.now() + u64::from(cycles) / 2);
                    machine.work(cycles);
                }
                clocks[core].set(u64::MAX);
            }) as Program<'_>
        });
        machine.run(programs.collect());
    }
}

#[test]
fn the_clocks_schedule_is_the_same_each_time() {
    for cores in 1..=16 {
        let run = || {
            let machine = machine(cores);
            let order = RefCell::new(Vec::new());
            let program = |core: usize| {
                let machine = &machine;
                Box::new(move || {
                    for step in 0..40 {
                        machine.store((core as u64 * 24 + step * 64) % 4096, step);
                        machine.write_back((step * 128) % 4096, 8);
                        if step % 8 == 0 {
                            machine.fence();
                        }
                    }
                }) as Program<'_>
            };
            let programs = (0..cores).map(program).collect();
            let _ = machine.run_watched::<()>(programs, |_, event| {
                order.borrow_mut().push((event.core, event.number));
                ControlFlow::Continue(())
            });
            (order.into_inner(), machine.time())
        };
        assert_eq!(run(), run(), "{cores} cores");
    }
}

/// Programs that end early leave the machine to the others.
#[test]
fn the_others_go_on_when_one_ends() {
    for schedule in [Schedule::Clock, Schedule::Seeded { every: 3 }] {
        let options = Options { cores: Some(3), schedule, ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; 4096], options);
        machine.run(vec![
            Box::new(|| {}),
            Box::new(|| (0..100).for_each(|step| machine.store(8, step))),
            Box::new(|| {
                while machine.load(8) != 99 {
                    machine.pause(0);
                }
                machine.store(16, 1);
            }),
        ]);
        assert_eq!(machine.load(16), 1);
    }
}

/// Waiting for a core that computes for long is not waiting for ever.
#[test]
fn long_computations_are_waited_for() {
    let machine = machine(2);
    machine.run(vec![
        Box::new(|| {
            while machine.load(0) == 0 {
                machine.pause(0);
            }
        }),
        Box::new(|| {
            machine.work(200_000_000);
            machine.store(0, 1);
        }),
    ]);
    assert_eq!(machine.load(0), 1);
}

/// A program may use another machine, and catch a panic there: its own machine still suspends it
/// afterwards.
#[test]
fn a_program_outlives_the_panic_of_another_machines() {
    let (outer, inner) = (machine(2), machine(1));
    outer.run(vec![
        Box::new(|| {
            let failing: Program<'_> = Box::new(|| {
                inner.store(0, 1);
                // Not `panic!`: nothing need be printed.
                std::panic::resume_unwind(Box::new("as planned"));
            });
            assert!(catch_unwind(AssertUnwindSafe(|| inner.run(vec![failing]))).is_err());
            while outer.load(0) == 0 {
                outer.pause(0);
            }
        }),
        Box::new(|| outer.store(0, 1)),
    ]);
    inner.run(vec![Box::new(|| inner.store(8, 2))]);
    assert_eq!([inner.load(0), inner.load(8)], [1, 2]);
}

/// Machines do not disturb one another's turns.
#[test]
fn a_program_may_run_another_machine() {
    let outer = machine(2);
    let sums = RefCell::new(Vec::new());
    let program = |core: u64| {
        let (outer, sums) = (&outer, &sums);
        Box::new(move || {
            let inner = machine(2);
            for step in 0..20 {
                outer.store(core * 64, step);
                inner.run(vec![
                    Box::new(|| inner.store(0, step)),
                    Box::new(|| inner.store(64, step)),
                ]);
            }
            sums.borrow_mut().push(inner.load(0) + inner.load(64) + outer.load(core * 64));
        }) as Program<'_>
    };
    outer.run(vec![program(0), program(1)]);
    assert_eq!(sums.into_inner(), [57, 57]);
}

#[test]
fn one_machine_does_not_run_twice_at_a_time() {
    let machine = machine(2);
    machine.run(vec![
        Box::new(|| {
            let again = AssertUnwindSafe(|| machine.run(vec![Box::new(|| {})]));
            assert!(catch_unwind(again).is_err());
            // And this run goes on.
            while machine.load(0) == 0 {
                machine.pause(0);
            }
        }),
        Box::new(|| machine.store(0, 1)),
    ]);
}

/// Threads of the operating system share the first core; nothing they store is lost.
#[test]
fn threads_share_a_core() {
    let machine = machine(1);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let machine = &machine;
            scope.spawn(move || {
                for _ in 0..1000 {
                    let mut seen = machine.load(0);
                    while let Err(found) = machine.compare_exchange(0, seen, seen + 1) {
                        seen = found;
                    }
                    machine.copy_in(64 + thread * 64, &[7; 64]);
                    machine.write_back(0, 512);
                    machine.fence();
                }
            });
        }
    });
    assert_eq!(machine.load(0), 4000);
    let durable = machine.power_cut();
    assert_eq!(durable[0], 4000);
    assert!(durable[8..40].iter().all(|word| *word == u64::from_ne_bytes([7; 8])));
}
