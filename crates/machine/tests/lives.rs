//! The image after a power cut of a machine with a mechanism, with which a machine is switched on again, the
//! mechanism's own lines included, and the order of a mechanism's writes.

#![allow(missing_docs)]

mod common;

use common::mechanisms::undo_log;
use common::tiny;
use perdura_machine::{AfterCut, Machine, Options};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, Memory};
use std::ops::ControlFlow;

const LEN: u64 = 4 << 10;

fn machine(left: &AfterCut) -> Machine {
    let options =
        Options { mechanism: undo_log(None), own: left.own.clone(), ..Options::default() };
    Machine::from_words(tiny(Domain::Transient), left.words.clone(), options)
}

fn epochs(machine: &Machine) -> u64 {
    machine.statistics().mechanism_figures[0].1
}

/// Three epochs end, and one does not, but some of its lines are home already: recovery puts these back, however often
/// it is cut short. The next machine counts epochs from there on.
#[test]
fn own_lines_outlive_the_power() {
    let new = AfterCut { words: vec![7; LEN as usize / 8], own: Vec::new(), stores: 0 };
    let first = machine(&new);
    for word in 0..3 {
        first.store(word * 8, word + 1);
        first.end_epoch();
    }
    for at in (0..LEN / 2).step_by(64) {
        first.store(at, 9);
        first.write_back(at, 8);
    }
    first.fence();
    first.work(100_000);
    let left = first.cut(&[]);
    assert_eq!((&left.words[..4], left.words[8]), (&[1, 2, 3, 7][..], 7));
    assert_eq!(
        (left.own[0], left.stores),
        (3, LEN / 128),
        "epochs, and one store for each of half the lines"
    );
    assert_eq!(first.cut(&[0, 5, left.stores - 1]), left);
    assert_eq!((first.power_cut(), epochs(&first)), (left.words.clone(), 3));

    let second = machine(&left);
    assert_eq!((epochs(&second), second.load(8)), (3, 2));
    // The unfinished epoch's records are still there, but do no harm.
    assert_eq!(second.cut(&[]), left);
    second.store(64, 11);
    second.end_epoch();
    let left = second.cut(&[]);
    assert_eq!((left.own[0], left.words[8], left.words[16]), (4, 11, 7));
    assert_eq!(epochs(&machine(&AfterCut { own: Vec::new(), ..left })), 0, "without them");
}

#[test]
#[should_panic(expected = "contents of 0 lines")]
fn there_must_be_room_for_them() {
    let options = Options { own: vec![1], ..Options::default() };
    Machine::new(tiny(Domain::Transient), &[0; 64], options);
}

/// A line that is written home twice while its record is on its way: neither may overtake it.
#[test]
fn a_line_waits_for_its_record_each_time() {
    let options = Options { mechanism: undo_log(None), at_arrivals: true, ..Options::default() };
    let machine = Machine::new(tiny(Domain::Transient), &[7; LEN as usize], options);
    let twice = || {
        for value in 1..=2 {
            machine.store(64, value);
            machine.write_back(64, 8);
        }
        machine.fence();
    };
    let mut cuts = 0;
    let broken = machine.run_watched(vec![Box::new(twice)], |machine, event| {
        cuts += 1;
        match machine.broken_promise(&machine.power_cut()) {
            Some(word) => ControlFlow::Break((event, word)),
            None => ControlFlow::Continue(()),
        }
    });
    assert!(broken.is_continue(), "{broken:?}");
    assert!(cuts >= 5 + 3, "five events; a record, its metadata and the line: {cuts}");
}

/// With two channels, whose queues fill differently, groups of records become durable in any order: later groups may be
/// there although one is missing.
#[test]
fn groups_of_records_arrive_in_any_order() {
    let config = perdura_machine::presets::load("dual-page").expect("a preset");
    let options = Options {
        mechanism: undo_log(None),
        cores: Some(1),
        at_arrivals: true,
        ..Options::default()
    };
    let machine = Machine::new(config, &[7; 32 << 10], options);
    let program = || {
        let mut random = SplitMix64::new(3);
        for value in 0..200 {
            machine.store(random.below(512) * 64, value);
        }
        machine.end_epoch();
        machine.store(0, 1);
    };
    let mut arrivals = 0;
    let broken = machine.run_watched(vec![Box::new(program)], |machine, event| {
        arrivals += u64::from(event.arrival > 0);
        match machine.broken_promise(&machine.power_cut()) {
            Some(word) => ControlFlow::Break((event, word)),
            None => ControlFlow::Continue(()),
        }
    });
    assert!(broken.is_continue(), "{broken:?}");
    assert!(arrivals > 100, "{arrivals}");
}
