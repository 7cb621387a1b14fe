//! What the ends of epochs take, and what is counted of it.

#![allow(missing_docs)]

mod common;

use common::mechanisms::{by_name, undo_log};
use common::{timed, tiny};
use perdura_machine::mechanism::{Promise, list};
use perdura_machine::{CheckpointStats, Machine, Options, Ps, Schedule};
use perdura_memory::{Domain, LINE, Memory};
use std::cell::Cell;
use std::collections::BTreeSet;

/// An epoch with one dirty line: its old contents are read (125 ns: see `timing.rs`), and then record, metadata, line and
/// the epoch's number go into the write queue one behind the other, 10 ns each. Of an epoch without any line the number
/// remains. All cores wait.
#[test]
fn ends_of_epochs_are_counted_since_the_measuring_began() {
    let options = Options { mechanism: undo_log(None), cores: Some(2), ..Options::default() };
    let machine = Machine::new(timed(0), &[0; 4096], options);
    let epoch = |line: Option<u64>| {
        line.iter().for_each(|line| machine.store(line * LINE, 1));
        machine.fence();
        machine.work(10_000);
        machine.end_epoch();
    };
    let counted = || machine.statistics().checkpoints;
    epoch(Some(3));
    assert_eq!((counted().epochs, counted().lines), (1, 1));
    machine.start_measuring();
    assert_eq!(counted(), CheckpointStats::default());
    epoch(Some(0));
    let first = CheckpointStats {
        epochs: 1,
        wait_ps: Ps::from_ns(125.0 + 4.0 * 10.0),
        lines: 1,
        mechanism_lines: 3,
    };
    assert_eq!(counted(), first);
    epoch(None);
    let both = CheckpointStats {
        epochs: 2,
        wait_ps: first.wait_ps + Ps::from_ns(10.0),
        mechanism_lines: 4,
        ..first
    };
    assert_eq!(counted(), both);
    let statistics = machine.statistics();
    assert_eq!(
        statistics.checkpoint_share(),
        both.wait_ps.as_ns() / statistics.time_ns,
        "of the time, which is every core's"
    );
    assert!(statistics.cores.iter().all(|core| core.time_ps >= both.wait_ps));
}

/// Without a clock a wait ends the epoch; what is committed is not durable before, and is after it, whatever else is.
#[test]
fn a_wait_ends_the_epoch_where_nothing_else_does() {
    for name in ["undo-log", "copy-on-write"] {
        let options = Options { mechanism: by_name(name, None), ..Options::default() };
        let machine = Machine::new(tiny(Domain::Transient), &[0; 4096], options);
        let commit = |value| {
            machine.tx_begin().expect("it does");
            machine.store(0, value);
            machine.tx_commit().expect("it does")
        };
        let epochs = || machine.statistics().checkpoints.epochs;
        let (first, second) = (commit(1), commit(2));
        assert_eq!(first, second, "of one epoch");
        assert!(machine.tx_durable() < first && machine.power_cut()[0] == 0, "{name}");
        machine.tx_flush();
        assert_eq!((machine.tx_durable(), epochs()), (first, 1), "{name}");
        assert_eq!(machine.power_cut()[0], 2, "{name}: at once");
        machine.tx_flush();
        assert_eq!(epochs(), 1, "nothing is committed since");
        assert!(commit(3) > first && machine.tx_durable() == first);
        machine.end_epoch();
        machine.tx_flush();
        assert_eq!((epochs(), machine.power_cut()[0]), (2, 3), "{name}");
    }
}

/// Two cores, and epochs of 20,000 ns. The first commits at once and waits; the second goes on meanwhile, a store and 1,000
/// ns of work at a time. The epoch ends when the second has come so far, once for both, and no other one ends.
#[test]
fn a_wait_is_for_the_clock_and_other_cores_go_on() {
    let mechanism = undo_log(None);
    let epoch = Some(Ps::from_ns(20_000.0));
    let options = Options { mechanism, epoch, cores: Some(2), ..Options::default() };
    let machine = Machine::new(timed(0), &[0; 4096], options);
    let waited = Cell::new((0, 0));
    let other = Cell::new(0);
    let (first, second) = (
        || {
            machine.tx_begin().expect("it does");
            machine.store(0, 1);
            machine.tx_commit().expect("it does");
            machine.tx_flush();
            waited.set((machine.now(), other.get()));
        },
        || {
            while machine.now() < 19_000 {
                machine.store(64, other.get());
                machine.work(1_000);
                other.set(other.get() + 1);
            }
            machine.work(1_000);
            machine.store(64, 99);
        },
    );
    machine.run(vec![Box::new(first), Box::new(second)]);
    let (over, others) = waited.get();
    let wait = machine.statistics().checkpoints.wait_ps.as_ns() as u64;
    assert_eq!(machine.statistics().checkpoints.epochs, 1);
    assert!(others >= 18, "the second has gone on: {others}");
    // The end begins with the first access of a core from 20,000 on: the first core's, at just that time.
    assert_eq!(over, 20_000 + wait);
    assert_eq!(machine.power_cut()[8], others - 1, "the epoch has the second core's stores too");
}

/// Stores of transactions, speculations and epochs, on two cores.
fn work(machine: &Machine, speculates: bool) {
    let program = |core: u64| {
        Box::new(move || {
            for round in 0..60 {
                let lines = 1 + round % 7 * (1 + core * 5);
                if speculates {
                    machine.speculate().expect("it runs none");
                } else if machine.tx_begin().is_err() {
                    machine.pause(0);
                    continue;
                }
                // A few lines of both cores, which other cores' speculations lose by.
                for line in 0..lines {
                    machine.store((round + line * 3) % 64 * LINE, round);
                }
                match (speculates, round % 9) {
                    (true, 4) => machine.stop_speculating(1),
                    (true, _) => _ = machine.end_speculation(),
                    (false, 4) => _ = machine.tx_abort(),
                    (false, _) => _ = machine.tx_commit(),
                }
            }
            machine.tx_flush();
            machine.end_epoch();
        }) as Box<dyn FnOnce() + '_>
    };
    machine.run((0..2).map(program).collect());
}

/// Every mechanism counts anew when the measuring begins.
#[test]
fn figures_of_mechanisms_begin_with_the_measuring() {
    let config = tiny(Domain::Transient);
    let speculating = list::SPECULATING.iter().map(|kind| (kind.name, true));
    for (name, speculates) in list::KINDS.iter().map(|kind| (kind.name, false)).chain(speculating) {
        let (schedule, cores) = (Schedule::Seeded { every: 3 }, Some(2));
        let mut options = Options { schedule, cores, seed: 5, ..Options::default() };
        match speculates {
            true => {
                options.transactions = list::speculating(name, &config, None).expect("a mechanism")
            }
            false => options.mechanism = by_name(name, None),
        }
        let machine = Machine::new(config.clone(), &[0; 8192], options);
        let figures = || machine.statistics().mechanism_figures;
        let counted = || -> BTreeSet<_> {
            figures().into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect()
        };
        work(&machine, speculates);
        let before = counted();
        machine.start_measuring();
        assert_eq!(counted(), BTreeSet::new(), "{name}");
        work(&machine, speculates);
        let epochs = machine.statistics().checkpoints.epochs;
        let kind = list::KINDS.iter().find(|kind| kind.name == name && !speculates);
        let ends = kind.is_some_and(|kind| kind.promises() == Promise::Epoch);
        assert_eq!(epochs > 0, ends, "{name}: only where a mechanism has epochs");
        assert_eq!(before.is_empty(), name == "plain", "{name}: {:?}", figures());
        // Pools are not full, and tables not either: some figures stay 0.
        let some = figures().len() / 5;
        assert!(before.len() >= some && counted().len() >= some, "{name}: {before:?}");
    }
}
