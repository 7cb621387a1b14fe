//! The machine keeps the memory's contract: conformance, and every image that it leaves is one
//! that the persistency model allows.

mod common;

use common::tiny;
use perdura_machine::{Keep, Kind, Machine, Options, Schedule};
use perdura_memory::image::Image;
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory, conformance};
use std::ops::ControlFlow;

const DOMAINS: [Domain; 2] = [Domain::Transient, Domain::Persistent];
const LEN: u64 = 16 << 10;

fn machine(domain: Domain, options: Options) -> Machine {
    Machine::new(tiny(domain), &vec![0; LEN as usize], options)
}

#[test]
fn conforms() {
    for domain in DOMAINS {
        for keep in [Keep::Visible, Keep::Durable, Keep::Model] {
            conformance::run(&machine(domain, Options { keep, ..Options::default() }));
        }
        let limit = 4 * LEN;
        assert!(conformance::releases(&machine(domain, Options::default())));
        conformance::grows(&machine(domain, Options { limit, ..Options::default() }));
        conformance::keeps_what_was_fenced(machine(domain, Options::default()), |machine| {
            Machine::from_words(tiny(domain), machine.power_cut(), Options::default())
        });
    }
}

/// Random accesses by one program.
fn scribble(machine: &Machine, seed: u64, steps: u64) {
    let mut random = SplitMix64::new(seed);
    for step in 1..=steps {
        let line = random.below(LEN / LINE / 2) * LINE;
        match random.below(12) {
            0..4 => machine.store(line + random.below(8) * 8, step << 8 | seed),
            4 => machine.copy_in(line + random.below(9), &[step as u8; 100]),
            5 => machine.stream(line, &[step << 8 | seed; 8]),
            6 | 7 => machine.write_back(line, 200),
            8 => machine.fence(),
            9 => _ = machine.compare_exchange(line, machine.load(line), step),
            _ => _ = machine.load(line + 8),
        }
    }
}

fn allowed(image: &Image, words: &[u64]) -> Result<(), String> {
    let lines = words.chunks_exact(8).enumerate();
    for (line, words) in lines {
        let words = words.try_into().expect("eight words");
        if !image.allows(line as u64 * LINE, &words) {
            return Err(format!("line {line}: {words:x?}"));
        }
    }
    Ok(())
}

/// After every event, on one core and on three, by either schedule.
#[test]
fn leaves_only_what_the_model_allows() {
    for domain in DOMAINS {
        for schedule in [Schedule::Clock, Schedule::Seeded { every: 3 }] {
            for (seed, cores) in [(1, 1), (2, 3), (3, 3)] {
                let options = Options {
                    keep: Keep::Model,
                    cores: Some(cores),
                    seed,
                    schedule,
                    ..Options::default()
                };
                let machine = machine(domain, options);
                let scribble = |core| {
                    let machine = &machine;
                    Box::new(move || scribble(machine, core, 200)) as Box<dyn FnOnce()>
                };
                let programs = (0..cores as u64).map(scribble).collect();
                let checked = machine.run_watched(programs, |machine, event| {
                    let words = machine.power_cut();
                    match machine.model(|image, _| allowed(image, &words)) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(what) => ControlFlow::Break(format!("after {event:?}: {what}")),
                    }
                });
                assert_eq!(checked, ControlFlow::Continue(()), "{domain} {schedule:?} {seed}");
                machine.fence();
            }
        }
    }
}

/// The same seed gives the same run, image and statistics; another one does not.
#[test]
fn a_seed_is_a_run() {
    let run = |seed| {
        let schedule = Schedule::Seeded { every: 5 };
        let options = Options { seed, schedule, ..Options::default() };
        let machine = machine(Domain::Transient, options);
        let scribble = |core| {
            let machine = &machine;
            Box::new(move || scribble(machine, core, 500)) as Box<dyn FnOnce()>
        };
        machine.run((0..3).map(scribble).collect());
        let statistics = serde_json::to_string(&machine.statistics()).unwrap();
        (machine.power_cut(), machine.visible(), machine.events(), statistics)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

/// A write-back belongs to the fences of the core that asked for it.
#[test]
fn a_fence_of_another_core_promises_nothing() {
    let machine = machine(
        Domain::Transient,
        Options { keep: Keep::Model, cores: Some(2), ..Options::default() },
    );
    machine.run(vec![
        Box::new(|| {
            machine.store(0, 1);
            machine.write_back(0, 8);
            machine.work(1_000_000);
        }),
        Box::new(|| {
            machine.work(1000);
            machine.fence();
            assert_eq!(machine.load(0), 1);
        }),
    ]);
    let states: Vec<_> = machine.model(|image, _| image.pending().collect());
    assert_eq!(states, [(0, 1)], "it may be durable or not");
}

#[test]
fn left_out_is_left_out() {
    let store = |machine: &Machine| {
        machine.store(0, 1);
        machine.write_back(0, 8);
        machine.fence();
    };
    let whole = machine(Domain::Transient, Options::default());
    let mut met = Vec::new();
    let _ = whole.run_watched::<()>(vec![Box::new(|| store(&whole))], |_, event| {
        met.push(event);
        ControlFlow::Continue(())
    });
    let kinds: Vec<Kind> = met.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::Store, Kind::WriteBack, Kind::Fence]);
    assert_eq!(whole.power_cut()[0], 1);
    assert!(met.iter().all(|event| event.site.file().ends_with("memory.rs")));
    for omitted in &met[1..] {
        let options = Options { keep: Keep::Model, omit: Some(*omitted), ..Options::default() };
        let lacking = machine(Domain::Transient, options);
        store(&lacking);
        assert_eq!(lacking.model(|image, _| image.certain()[0]), 0);
        assert_eq!(lacking.left_out().len(), 1);
    }
}

/// Programs that wait for one another for ever fail.
#[test]
#[should_panic(expected = "waits for another")]
fn waiting_for_ever_is_noticed() {
    let machine = machine(Domain::Transient, Options::default());
    machine.run(vec![Box::new(|| {
        loop {
            machine.pause(0);
        }
    })]);
}

/// A core that has waited once and whose clock is far ahead gets its turn late: until then all others wait
/// for it, and that is not for ever.
#[test]
fn a_core_far_ahead_is_waited_for() {
    let machine = machine(Domain::Transient, Options { cores: Some(2), ..Options::default() });
    let done = std::cell::Cell::new(false);
    machine.run(vec![
        Box::new(|| {
            machine.store(0, 1);
            machine.work(400_000_000);
            machine.pause(0);
            done.set(true);
        }),
        Box::new(|| {
            while !done.get() {
                machine.pause(0);
            }
        }),
    ]);
}

#[test]
fn a_program_that_panics_ends_the_run() {
    let machine = machine(Domain::Transient, Options { cores: Some(2), ..Options::default() });
    let dropped = std::cell::Cell::new(false);
    struct Mark<'a>(&'a std::cell::Cell<bool>, &'a Machine);
    impl Drop for Mark<'_> {
        fn drop(&mut self) {
            // Unwinding code may use the machine.
            self.1.store(8, 7);
            self.0.set(true);
        }
    }
    let run = std::panic::AssertUnwindSafe(|| {
        machine.run(vec![
            Box::new(|| {
                let _mark = Mark(&dropped, &machine);
                loop {
                    machine.store(0, 1);
                }
            }),
            Box::new(|| {
                machine.work(10_000);
                machine.store(0, 2);
                panic!("as planned");
            }),
        ]);
    });
    assert!(std::panic::catch_unwind(run).is_err());
    assert!(dropped.get());
    assert_eq!(machine.load(8), 7);
}
