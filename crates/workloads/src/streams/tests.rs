use super::course::place;
use super::{Course, FIRST, Hot, Mix, PROGRAMS, Pattern, Program, SECOND, Step, Touch};
use perdura::Tx;
use perdura::testing::TestHeap;
use std::collections::{BTreeMap, BTreeSet};

const BYTES: u64 = 256 << 10;
const ACCESSES: u64 = 40;

fn mix(programs: &'static [Program; PROGRAMS]) -> Mix {
    Mix::new("test", programs, BYTES, ACCESSES, 1, 7).expect("valid parameters")
}

/// Whatever the step, as many accesses as the array has words are to each of them.
#[test]
fn sweeps_visit_each_word_once() {
    let words = 128 * 8;
    for step in [1, 2, 4, 8, 16, 128, 256, words] {
        let pattern = Pattern::Sweep(Step::Words(step));
        let visited: Vec<u64> = (0..words).map(|made| place(pattern, words, made, 1)).collect();
        assert_eq!(visited.iter().collect::<BTreeSet<_>>().len() as u64, words, "{step}");
        assert!(visited.iter().all(|word| *word < words));
        assert_eq!(visited[1 % visited.len()], if step == words { 8 } else { step }, "{step}");
    }
    // A step that does not fit is the whole array.
    assert_eq!(place(Pattern::Sweep(Step::Words(128)), 16, 1, 1), 8);
    let planes = Pattern::Sweep(Step::Planes(4));
    let lines: Vec<u64> = (0..5).map(|made| place(planes, 32 * 8, made, 1) / 8).collect();
    assert_eq!(lines, [0, 8, 16, 24, 1]);
}

#[test]
fn stencils_visit_the_planes_around() {
    let pattern = Pattern::Stencil { planes: 4, around: &[-1, 0, 1] };
    let lines = |made: u64| place(pattern, 32 * 8, made, 1) / 8;
    assert_eq!([0, 1, 2].map(lines), [24, 0, 8]);
    assert_eq!([27, 28, 29].map(lines), [1, 9, 17]);
}

#[test]
fn runs_are_lines_in_a_row_and_more_of_them_in_the_hot_part() {
    let hot = Hot { runs: 700, part: 100 };
    let pattern = Pattern::Runs { lines: 4, hot: Some(hot) };
    let (words, mut in_hot, mut seen) = (1_000 * 8, 0, BTreeSet::new());
    for run in 0..5_000 {
        let lines: Vec<u64> =
            (0..4).map(|line| place(pattern, words, run * 4 + line, 1) / 8).collect();
        assert!(lines.windows(2).all(|two| two[1] == two[0] + 1) && lines[3] < 1_000);
        in_hot += u64::from(lines[0] < 100);
        seen.insert(lines[0]);
    }
    // And a tenth of the others.
    assert!((3_500..3_800).contains(&in_hot), "{in_hot}");
    assert!(seen.len() > 700 && seen.contains(&996), "{}", seen.len());
    // Arrays shorter than a run.
    for made in 0..100 {
        assert!(place(Pattern::Runs { lines: 4, hot: None }, 16, made, 1) < 16);
    }
}

#[test]
fn tables_are_sound() {
    for program in FIRST.iter().chain(&SECOND) {
        let name = program.name;
        let parts: u64 = program.groups.iter().map(|group| group.part).sum();
        assert_eq!(parts, 1000, "{name}");
        let weights: u64 = program.components.iter().map(|own| own.weight).sum();
        assert_eq!(weights, 128, "{name}");
        assert!(program.components.iter().all(|own| own.group < program.groups.len()), "{name}");
        let used: BTreeSet<_> = program.components.iter().map(|own| own.group).collect();
        assert_eq!(used.len(), program.groups.len(), "{name}");
    }
}

/// Each component has its share of the accesses, evenly, and its own numbers.
#[test]
fn components_take_turns_by_their_weights() {
    for (number, program) in FIRST.iter().chain(&SECOND).enumerate() {
        let course = Course::new(program, number as u64, BYTES, 3);
        let mut made: BTreeMap<u64, u64> = BTreeMap::new();
        for access in 0..10 * 128 {
            let visit = course.visit(access);
            assert!(visit.word < course.arrays()[visit.array] && course.owns(visit.value));
            let (component, sequence) = (visit.value >> 40 & 0xFF, visit.value & 0xFF_FFFF_FFFF);
            let made = made.entry(component).or_default();
            *made += 1;
            assert_eq!(sequence, *made, "{}", program.name);
            let due = (access + 1) * program.components[component as usize].weight / 128;
            assert!(made.abs_diff(due) <= 2, "{}: {component} at {access}", program.name);
        }
        let weights: Vec<u64> = program.components.iter().map(|own| own.weight * 10).collect();
        assert_eq!(made.into_values().collect::<Vec<_>>(), weights, "{}", program.name);
    }
}

/// The footprint, and that nothing of it is shared.
#[test]
fn programs_have_their_shares_of_the_memory() {
    for programs in [&FIRST, &SECOND] {
        let mix = Mix::new("test", programs, 64 << 20, ACCESSES, 6, 7).expect("valid parameters");
        assert_eq!(mix.courses().len(), 6, "the first two are there twice");
        let bytes = |course: &Course| course.arrays().iter().sum::<u64>() * 8;
        let all: u64 = mix.courses().iter().map(bytes).sum();
        assert!(all.abs_diff(64 << 20) < 200 * 64, "{all}");
        let share = bytes(&mix.courses()[0]) as f64 / bytes(&mix.courses()[3]) as f64;
        let expected = programs[0].megabytes as f64 / programs[3].megabytes as f64;
        assert!((share / expected - 1.0).abs() < 0.01, "{share} {expected}");
        assert_eq!(bytes(&mix.courses()[0]), bytes(&mix.courses()[4]));
        assert!(!mix.courses()[0].owns(mix.courses()[4].loaded(0)));
    }
}

/// The contents after some operations are those of the last stores, by the last access to each word.
#[test]
fn contents_are_those_of_the_last_stores() {
    for program in FIRST.iter().chain(&SECOND) {
        let course = Course::new(program, 0, 40_000, 3);
        let accesses = 3_000;
        let contents = course.contents(accesses);
        for (array, words) in contents.iter().enumerate() {
            assert_eq!(words.is_some(), course.is_written(array), "{}", program.name);
        }
        let mut later = BTreeSet::new();
        let mut stored = 0;
        for access in (0..accesses).rev() {
            let visit = course.visit(access);
            if visit.touch != Touch::Read && later.insert((visit.array, visit.word)) {
                let words = contents[visit.array].as_ref().expect("it is written");
                assert_eq!(words[visit.word as usize], visit.value, "{}", program.name);
                stored += 1;
            }
        }
        let all = contents.iter().enumerate();
        let changed = all.flat_map(|(array, words)| {
            let loaded = course.loaded(array);
            words.iter().flatten().filter(move |word| **word != loaded)
        });
        assert_eq!(changed.count(), stored, "{}: the others are as they were", program.name);
        assert!(stored > 100, "{}: {stored}", program.name);
    }
}

/// A heap has the contents that follow from its counts, and every block is reached.
#[test]
fn a_heap_is_as_its_counts_say() {
    for programs in [&FIRST, &SECOND] {
        let (mut heap, mix) = (TestHeap::new(), mix(programs));
        assert!(mix.find(&mut heap).expect("an empty heap").is_none());
        let made = mix.courses().iter().map(|course| mix.create_program(&mut heap, course));
        let made: Vec<u64> = made.collect::<perdura::Result<_>>().expect("room");
        mix.create_root(&mut heap, &made).expect("room");
        heap.commit();
        let places = mix.find(&mut heap).expect("a mix").expect("it was made");
        for turn in 0..300 {
            let program = turn * turn % PROGRAMS;
            let wrong = mix.play(&mut heap, &mix.courses()[program], &places[program]);
            assert_eq!(wrong.expect("room"), None);
            heap.commit();
        }
        for (course, places) in mix.courses().iter().zip(&places) {
            let done = Mix::done(&mut heap, places).expect("a read");
            for (array, words) in course.contents(done * ACCESSES).into_iter().enumerate() {
                let words = words
                    .unwrap_or_else(|| vec![course.loaded(array); course.arrays()[array] as usize]);
                let found = Mix::words(&mut heap, course, places, array, 0).expect("a read");
                assert!(found == words, "array {array} of {}", course.program().name);
            }
        }
        let root = heap.root("bench.test").expect("a read").expect("the root");
        let mut reached = Vec::new();
        super::check_blocks(&mut heap, root.at, &mut |at| {
            reached.push(at);
            Ok(())
        })
        .expect("sound blocks");
        reached.sort_unstable();
        assert_eq!(reached, heap.live_blocks(), "each block is reached, once");
    }
}

/// A word of another program is noticed by the operation that reads it.
#[test]
fn a_word_of_another_program_is_noticed() {
    let (mut heap, mix) = (TestHeap::new(), mix(&SECOND));
    let made = mix.courses().iter().map(|course| mix.create_program(&mut heap, course));
    let made: Vec<u64> = made.collect::<perdura::Result<_>>().expect("room");
    mix.create_root(&mut heap, &made).expect("room");
    let places = mix.find(&mut heap).expect("a mix").expect("it was made");
    let course = &mix.courses()[2];
    let visit = (0..).map(|access| course.visit(access)).find(|visit| visit.touch != Touch::Write);
    let visit = visit.expect("it reads");
    let at = places[2].word(visit.array, visit.word);
    heap.damage(at, mix.courses()[1].loaded(0));
    assert_eq!(mix.play(&mut heap, course, &places[2]).expect("room"), Some(at));
}

#[test]
fn refuses_what_it_cannot_run_on() {
    for (bytes, accesses, threads) in [(0, 1, 1), (1, 0, 1), (1 << 50, 1, 1), (1, 1, 1 << 20)] {
        let refused = Mix::new("test", &FIRST, bytes, accesses, threads, 1);
        assert!(refused.is_err(), "{bytes} {accesses} {threads}");
    }
    assert!(Mix::new("test", &FIRST, 1, 1, 9, 1).is_ok());
}
