//! The place for mechanisms, proved by one: undo logging by epochs. Whenever the power is cut,
//! memory is as it was when the last epoch ended, though programs ask for nothing.

mod common;

use common::tiny;
use perdura_machine::mechanism::HardwareUndoLog;
use perdura_machine::{Keep, Machine, Mechanism, Options, Ps, Schedule, Verdict};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, LINE, Memory};
use std::cell::RefCell;
use std::ops::ControlFlow;

const LEN: u64 = 8 << 10;

fn machine(cores: usize, seed: u64, epoch: Option<Ps>) -> Machine {
    let options = Options {
        cores: Some(cores),
        seed,
        schedule: Schedule::Seeded { every: 4 },
        keep: Keep::Durable,
        mechanism: Box::new(HardwareUndoLog::new()),
        epoch,
        ..Options::default()
    };
    Machine::new(tiny(Domain::Transient), &[7; LEN as usize], options)
}

/// Stores of all kinds, with no thought of durability; an epoch ends now and then.
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

/// What the log writes is counted, and epochs end by themselves after their time.
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

/// Keeps one line for itself.
struct Keeper(u64, u64);

impl Mechanism for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }

    fn reserves(&self, _: u64) -> u64 {
        1
    }

    fn evict(
        &mut self,
        hardware: &mut perdura_machine::Hardware,
        line: u64,
        _: perdura_machine::Cause,
    ) -> Verdict {
        match line {
            _ if line == self.0 => Verdict::Redirect(hardware.home_lines() - 1),
            _ if line == self.1 => Verdict::Hold,
            _ => Verdict::After(hardware.now() + Ps(5_000_000)),
        }
    }
}

/// Each verdict does what it says.
#[test]
fn verdicts_are_kept() {
    let options = Options { mechanism: Box::new(Keeper(1, 2)), ..Options::default() };
    let machine = Machine::new(tiny(Domain::Transient), &[0; LEN as usize], options);
    let before = machine.time();
    for line in [1, 2, 3] {
        machine.store(line * LINE, line);
        machine.write_back(line * LINE, 8);
    }
    machine.fence();
    let home = machine.power_cut();
    assert_eq!([home[8], home[16], home[24]], [0, 0, 3], "redirected, held, written");
    assert!(machine.time().since(before) >= Ps(5_000_000), "a fence waits as long as it is told");
}
