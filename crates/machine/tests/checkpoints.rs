//! What the ends of epochs take, and what is counted of it.

#![allow(missing_docs)]

mod common;

use common::mechanisms::{by_name, undo_log};
use common::{timed, tiny};
use perdura_machine::mechanism::{Promise, list};
use perdura_machine::{CheckpointStats, Machine, Options, Ps, Schedule};
use perdura_memory::{Domain, LINE, Memory};
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
        let half = figures().len() / 2;
        assert!(before.len() >= half && counted().len() >= half, "{name}: {before:?}");
    }
}
