//! The mixes of streams on a heap: planted errors, which the check notices.

use crate::heap;
use perdura::{AnySession, EngineKind};
use perdura_workloads::streams::{FIRST, Mix, PROGRAMS, Program, SECOND, Streams, Touch};
use perdura_workloads::{Progress, Store, Workload};

const OPERATIONS: u64 = 60;
const ACCESSES: u64 = 128;

fn mix(programs: &'static [Program; PROGRAMS]) -> Streams {
    Streams::new(Mix::new("test", programs, 1 << 20, ACCESSES, 2, 5).expect("valid parameters"))
}

#[test]
fn the_check_notices_planted_errors() {
    type Plant = fn(&mut AnySession, &Mix);
    let plants: [(&str, Plant); 5] = [
        ("a bit of a word that an operation has stored", |session, mix| {
            let (program, array, word, _) = stores(mix)[0];
            change(session, mix, (program, array, word), |old| old ^ 1 << 33);
        }),
        ("a store that was lost", |session, mix| {
            let all = stores(mix);
            let [before @ .., (program, array, word, _)] = &all[..] else { panic!("stores") };
            let old =
                before.iter().rev().find(|own| (own.0, own.1, own.2) == (*program, *array, *word));
            let old = old.map_or(mix.courses()[*program].loaded(*array), |own| own.3);
            change(session, mix, (*program, *array, *word), |_| old);
        }),
        ("a word that no operation has stored to", |session, mix| {
            let course = &mix.courses()[1];
            let array = course.arrays().len() - 1;
            let last = course.arrays()[array] - 1;
            change(session, mix, (1, array, last), |old| old + 1);
        }),
        ("an array that is only read", |session, mix| {
            let all = mix.courses().iter().enumerate();
            let mut read = all.flat_map(|(number, course)| {
                let arrays = (0..course.arrays().len()).filter(|array| !course.is_written(*array));
                arrays.map(move |array| (number, array, 5))
            });
            change(session, mix, read.next().expect("an array"), |old| old ^ 1);
        }),
        ("an operation that no thread has done", |session, mix| {
            let played = session.transaction(|tx| {
                let places = mix.find(tx)?.expect("it was loaded");
                mix.play(tx, &mix.courses()[3], &places[3])
            });
            assert_eq!(played.expect("room"), None);
        }),
    ];
    /// The stores of all operations: program, array, word and value.
    fn stores(mix: &Mix) -> Vec<(usize, usize, u64, u64)> {
        let each = OPERATIONS / PROGRAMS as u64 * ACCESSES;
        let courses = mix.courses().iter().enumerate();
        let visits = courses.flat_map(|(number, course)| {
            (0..each).map(move |access| (number, course.visit(access)))
        });
        let stores = visits.filter(|(_, visit)| visit.touch != Touch::Read);
        stores.map(|(number, visit)| (number, visit.array, visit.word, visit.value)).collect()
    }
    fn change(
        session: &mut AnySession,
        mix: &Mix,
        (program, array, word): (usize, usize, u64),
        new: impl Fn(u64) -> u64,
    ) {
        let changed = session.transaction(|tx| {
            let places = mix.find(tx)?.expect("it was loaded");
            let at = places[program].word(array, word);
            let old = tx.read_word(at)?;
            assert_ne!(old, new(old));
            tx.write_word(at, new(old))
        });
        changed.expect("a change");
    }
    for (what, plant) in plants {
        for programs in [&FIRST, &SECOND] {
            let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
            let workload = mix(programs);
            perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
            let plan = heap::plan(2, OPERATIONS);
            perdura_workloads::measure(&workload, &*heap, &plan, &progress).expect("it runs");
            let mut session = Store::session(&*heap).expect("a session");
            workload.check(&mut session).expect("what was done");
            plant(&mut session, workload.mix());
            let verdict = workload.check(&mut session);
            println!("{what}: {verdict:?}");
            assert!(verdict.is_err(), "{what}");
        }
    }
}

/// As many threads as there are programs, fewer and more: each program does its share.
#[test]
fn threads_share_the_programs() {
    for (threads, each) in [(1, 40), (2, 40), (4, 40), (8, 20)] {
        let mix = Mix::new("test", &FIRST, 1 << 20, 16, threads, 5).expect("valid parameters");
        let workload = Streams::new(mix);
        let (heap, progress) = (heap::in_ram(EngineKind::Redo), Progress::default());
        perdura_workloads::load(&workload, &*heap, &progress).expect("it loads");
        let plan = heap::plan(threads as usize, 160);
        perdura_workloads::measure(&workload, &*heap, &plan, &progress).expect("it runs");
        let mut session = Store::session(&*heap).expect("a session");
        workload.check(&mut session).expect("what was done");
        let places = session.read(|tx| workload.mix().find(tx)).expect("a read").expect("a mix");
        for places in &places {
            assert_eq!(session.read(|tx| Mix::done(tx, places)).expect("a read"), each);
        }
    }
}
