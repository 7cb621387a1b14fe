//! The litmus tests of docs/persistency-model.md, on the executable model.
//!
//! Each names a few words, runs a program, and gives the exact set of values that a power cut may leave in them: every
//! listed outcome is possible and no other. The random cuts that other crates' tests use are checked against the same
//! set, and must reach all of it.

use perdura_memory::reference::{Cut, SplitMix64};
use perdura_memory::{Domain, LINE, Memory, PAGE, Reference};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Words of two lines: X and X1 share one, Y has another.
const X: u64 = 0;
const X1: u64 = 8;
const Y: u64 = LINE;

const SEEDS: u64 = 400;
const DOMAINS: [Domain; 4] =
    [Domain::Transient, Domain::Persistent, Domain::Media, Domain::Process];

/// Checks that `words` may hold exactly the `allowed` outcomes, by listing them and by cutting.
#[track_caller]
fn exactly<const N: usize>(memory: &Reference, words: [u64; N], allowed: &[[u64; N]]) {
    let allowed: BTreeSet<Vec<u64>> = allowed.iter().map(|outcome| outcome.to_vec()).collect();
    assert_eq!(memory.outcomes(&words), allowed, "{}: outcomes listed", memory.domain());
    let seen = |cut| {
        let after = memory.after_power_cut(cut);
        words.iter().map(|at| after.load(*at)).collect::<Vec<u64>>()
    };
    let reached: BTreeSet<_> = (0..SEEDS).map(|seed| seen(Cut::Seed(seed))).collect();
    assert_eq!(reached, allowed, "{}: outcomes reached by {SEEDS} seeds", memory.domain());
    assert!(allowed.contains(&seen(Cut::None)) && allowed.contains(&seen(Cut::All)));
}

fn run(domain: Domain, program: impl FnOnce(&Reference)) -> Reference {
    let memory = Reference::new(4 * LINE, domain);
    program(&memory);
    memory
}

/// Stores to two lines: without a fence either may be durable without the other.
#[test]
fn stores_to_two_lines_reorder() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.store(Y, 1);
    };
    let memory = run(Domain::Transient, program);
    exactly(&memory, [X, Y], &[[0, 0], [1, 0], [0, 1], [1, 1]]);
}

/// Stores to one line: the later is never durable without the earlier.
#[test]
fn stores_to_one_line_stay_in_order() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.store(X1, 1);
        memory.store(X, 2);
    };
    let memory = run(Domain::Transient, program);
    exactly(&memory, [X, X1], &[[0, 0], [1, 0], [1, 1], [2, 1]]);
}

/// A write-back without a fence promises nothing, not even before a later store.
#[test]
fn write_back_without_fence_promises_nothing() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.write_back(X, 8);
        memory.store(Y, 1);
    };
    let memory = run(Domain::Transient, program);
    exactly(&memory, [X, Y], &[[0, 0], [1, 0], [0, 1], [1, 1]]);
}

/// A fence without a write-back promises nothing either.
#[test]
fn fence_without_write_back_promises_nothing() {
    for domain in [Domain::Transient, Domain::Media] {
        let memory = run(domain, |memory| {
            memory.store(X, 1);
            memory.fence();
        });
        match domain {
            Domain::Media => exactly(&memory, [X], &[[0]]),
            _ => exactly(&memory, [X], &[[0], [1]]),
        }
    }
}

/// Write-back, then fence: durable, and before all that follows.
#[test]
fn write_back_and_fence_make_durable() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.write_back(X, 8);
        memory.fence();
        memory.store(Y, 1);
    };
    exactly(&run(Domain::Transient, program), [X, Y], &[[1, 0], [1, 1]]);
    exactly(&run(Domain::Persistent, program), [X, Y], &[[1, 1]]);
    exactly(&run(Domain::Media, program), [X, Y], &[[1, 0]]);
    exactly(&run(Domain::Process, program), [X, Y], &[[1, 1]]);
}

/// A store after the write-back is not covered by it, fence or not.
#[test]
fn store_after_write_back_is_not_covered() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.write_back(X, 8);
        memory.store(X, 2);
        memory.fence();
    };
    exactly(&run(Domain::Transient, program), [X], &[[1], [2]]);
    exactly(&run(Domain::Media, program), [X], &[[1]]);
}

/// A write-back takes the whole line, whichever thread stored to it.
#[test]
fn write_back_takes_the_whole_line() {
    for domain in DOMAINS {
        let memory = run(domain, |memory| {
            memory.store(X1, 1);
            memory.store(X, 1);
            memory.write_back(X, 8);
            memory.fence();
        });
        exactly(&memory, [X, X1], &[[1, 1]]);
    }
}

/// Non-temporal stores need a fence and no write-back, and until then have no order.
#[test]
fn streamed_lines_need_only_a_fence() {
    let mut line = [0; 8];
    (line[0], line[1]) = (1, 1);
    for domain in [Domain::Transient, Domain::Persistent, Domain::Media] {
        let memory = run(domain, |memory| memory.stream(X, &line));
        exactly(&memory, [X, X1], &[[0, 0], [0, 1], [1, 0], [1, 1]]);
        memory.fence();
        exactly(&memory, [X, X1], &[[1, 1]]);
    }
    let memory = run(Domain::Process, |memory| memory.stream(X, &line));
    exactly(&memory, [X, X1], &[[1, 1]]);
}

/// Where caches persist, a store to a streamed line is not durable without the line.
#[test]
fn store_after_stream_to_one_line_keeps_order() {
    let mut line = [0; 8];
    (line[0], line[1]) = (1, 1);
    let memory = run(Domain::Persistent, |memory| {
        memory.stream(X, &line);
        memory.store(X1, 2);
    });
    exactly(&memory, [X, X1], &[[1, 2]]);
}

/// A word is durable whole or not at all.
#[test]
fn words_are_atomic() {
    for domain in DOMAINS {
        let memory = run(domain, |memory| {
            memory.store(X, !0);
            memory.write_back(X, 8);
        });
        match domain.needs_write_back() {
            true => exactly(&memory, [X], &[[0], [!0]]),
            false => exactly(&memory, [X], &[[!0]]),
        }
        memory.fence();
        exactly(&memory, [X], &[[!0]]);
    }
}

/// The words of one copy have no order, not even in a line; two copies to a line have one.
#[test]
fn words_of_one_copy_have_no_order() {
    let two = |value: u64| [value.to_ne_bytes(), value.to_ne_bytes()].concat();
    let memory = run(Domain::Transient, |memory| {
        memory.copy_in(X, &two(1));
        memory.copy_in(X, &two(2));
    });
    let allowed = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 1], [2, 2]];
    exactly(&memory, [X, X1], &allowed);
}

/// The part of a word that a copy covers is durable byte by byte.
#[test]
fn torn_words_of_a_copy_are_bytes() {
    let memory = run(Domain::Transient, |memory| memory.copy_in(X + 6, &[0xaa, 0xbb, 0xcc]));
    let word = |bytes: [u8; 8]| u64::from_ne_bytes(bytes);
    let (x6, x7) = (word([0, 0, 0, 0, 0, 0, 0xaa, 0]), word([0, 0, 0, 0, 0, 0, 0, 0xbb]));
    let x8 = word([0xcc, 0, 0, 0, 0, 0, 0, 0]);
    let all: Vec<[u64; 2]> =
        [0, x6, x7, x6 | x7].into_iter().flat_map(|x| [[x, 0], [x, x8]]).collect();
    exactly(&memory, [X, X1], &all);
}

/// Persistent caches: every store is durable at once, in order.
#[test]
fn persistent_caches_keep_program_order() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.store(Y, 1);
        memory.store(X1, 1);
    };
    for (events, left) in [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]].into_iter().enumerate() {
        let memory = Reference::new(4 * LINE, Domain::Persistent);
        memory.cut_after(events as u64);
        program(&memory);
        exactly(&memory, [X, Y, X1], &[left]);
    }
}

/// Persistent caches: a copy can be cut anywhere, and its words have no order.
#[test]
fn persistent_caches_may_tear_a_copy() {
    let bytes: Vec<u8> = [1_u64, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut reached = BTreeSet::new();
    for warm_up in 0..8 {
        for events in 0..=2 {
            let memory = Reference::new(4 * LINE, Domain::Persistent);
            // Changes the random order of what follows.
            (0..warm_up).for_each(|_| memory.copy_in(Y, &bytes));
            memory.cut_after(events);
            memory.copy_in(X, &bytes);
            reached.extend(memory.outcomes(&[X, X1]));
        }
    }
    let allowed = [[0, 0], [0, 1], [1, 0], [1, 1]].map(|outcome| outcome.to_vec());
    assert_eq!(reached, BTreeSet::from(allowed));
}

/// Media: nothing that was not written back is ever durable, whatever else is.
#[test]
fn media_never_evicts() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.store(Y, 1);
        memory.write_back(Y, 8);
    };
    let memory = run(Domain::Media, program);
    exactly(&memory, [X, Y], &[[0, 0], [0, 1]]);
    memory.fence();
    exactly(&memory, [X, Y], &[[0, 1]]);
}

/// Media: a cut in a fence leaves any subset of the lines written back.
#[test]
fn media_fence_cut_short_leaves_any_subset() {
    let memory = Reference::new(4 * LINE, Domain::Media);
    memory.cut_after(4);
    memory.store(X, 1);
    memory.store(Y, 1);
    memory.write_back(X, 8);
    memory.write_back(Y, 8);
    memory.fence();
    exactly(&memory, [X, Y], &[[0, 0], [1, 0], [0, 1], [1, 1]]);
}

/// The process' death loses nothing, fenced or not.
#[test]
fn process_keeps_all_stores() {
    let memory = run(Domain::Process, |memory| {
        memory.store(X, 1);
        memory.copy_in(Y, &1_u64.to_ne_bytes());
    });
    exactly(&memory, [X, Y], &[[1, 1]]);
}

/// A cut in the middle of a run shows that moment, whatever the run does afterwards.
#[test]
fn cut_after_freezes_the_durable_image() {
    let program = |memory: &Reference| {
        for value in 1..=3 {
            memory.store(X, value);
            memory.write_back(X, 8);
            memory.fence();
        }
    };
    let allowed: [&[[u64; 1]]; 10] = [
        &[[0]],
        &[[0], [1]],
        &[[0], [1]],
        &[[1]],
        &[[1], [2]],
        &[[1], [2]],
        &[[2]],
        &[[2], [3]],
        &[[2], [3]],
        &[[3]],
    ];
    for (events, allowed) in allowed.into_iter().enumerate() {
        let memory = Reference::new(4 * LINE, Domain::Transient);
        memory.cut_after(events as u64);
        program(&memory);
        assert!(memory.was_cut() && memory.load(X) == 3 && memory.events() == 9);
        exactly(&memory, [X], allowed);
    }
    let memory = Reference::new(4 * LINE, Domain::Transient);
    memory.cut_after(10);
    program(&memory);
    assert!(!memory.was_cut());
}

/// The protocol that every log rests on (data, fence, flag) holds, and a missing fence is detected: a test of the model
/// as a tester.
#[test]
fn a_missing_fence_is_caught() {
    let violated = |with_fence: bool| {
        let memory = run(Domain::Transient, |memory| {
            memory.store(Y, 7);
            memory.write_back(Y, 8);
            if with_fence {
                memory.fence();
            }
            memory.store(X, 1);
            memory.write_back(X, 8);
        });
        (0..SEEDS).any(|seed| {
            let after = memory.after_power_cut(Cut::Seed(seed));
            after.load(X) == 1 && after.load(Y) != 7
        })
    };
    assert!(!violated(true));
    assert!(violated(false));
}

/// A program of a dozen random steps, the same in every domain.
fn random_program(seed: u64, memory: &Reference) {
    let mut random = SplitMix64::new(seed);
    for value in 1..=12 {
        let at = random.below(4) * LINE + random.below(2) * 8;
        match random.below(8) {
            0..4 => memory.store(at, value),
            4 => memory.copy_in(at + 4, &[value as u8; 8]),
            5 => memory.stream(at & !63, &[value; 8]),
            6 => memory.write_back(at, 8),
            _ => memory.fence(),
        }
    }
}

/// The words of a line that random programs store to.
fn words_of(line: u64) -> [u64; 3] {
    [0, 8, 16].map(|word| line * LINE + word)
}

/// Images that persistent caches and media may leave, transient caches may leave too.
#[test]
fn transient_allows_what_the_others_do() {
    for seed in 0..500 {
        let transient = run(Domain::Transient, |memory| random_program(seed, memory));
        for domain in [Domain::Persistent, Domain::Media] {
            let other = run(domain, |memory| random_program(seed, memory));
            for line in 0..4 {
                let words = words_of(line);
                let (allowed, found) = (transient.outcomes(&words), other.outcomes(&words));
                assert!(found.is_subset(&allowed), "program {seed}, {domain}, line {line}");
            }
        }
    }
}

/// Random programs: every random cut is one of the listed outcomes, word by word, the extremes included, and a seed
/// gives one image.
#[test]
fn random_cuts_stay_within_the_outcomes() {
    for (seed, domain) in (0..200).flat_map(|seed| DOMAINS.map(|domain| (seed, domain))) {
        let memory = run(domain, |memory| random_program(seed, memory));
        for line in 0..4 {
            let words = words_of(line);
            let allowed = memory.outcomes(&words);
            for cut in (0..50).map(Cut::Seed).chain([Cut::None, Cut::All]) {
                let after = memory.after_power_cut(cut);
                let outcome: Vec<u64> = words.iter().map(|at| after.load(*at)).collect();
                assert!(
                    allowed.contains(&outcome),
                    "{domain}, program {seed}, {cut:?}: {outcome:?}"
                );
                assert_eq!(memory.power_cut(cut), memory.power_cut(cut));
            }
        }
    }
}

/// What another process finds after the death of the one that ran `program`, and then does.
fn after_death(
    domain: Domain,
    synced: bool,
    program: impl FnOnce(&Reference),
    next: impl FnOnce(&Reference),
) -> Reference {
    let after = run(domain, program).after_process_death(Cut::All, synced);
    next(&after);
    after
}

fn wait_for(memory: &Reference, at: u64) {
    memory.write_back(at, 8);
    memory.fence();
}

/// Stores that a dead process wrote without a fence are visible to the next process, and may not be durable: a store
/// that depends on them may be durable without them.
#[test]
fn dead_process() {
    for (domain, synced) in [(Domain::Transient, false), (Domain::Media, false)] {
        let program = |memory: &Reference| {
            memory.store(X, 1);
            memory.write_back(X, 8);
        };
        let memory = after_death(domain, synced, program, |next| {
            assert_eq!(next.load(X), 1, "it is visible");
            next.store(Y, 1);
            wait_for(next, Y);
        });
        exactly(&memory, [X, Y], &[[0, 1], [1, 1]]);
    }
}

/// A sync covers the pages that another process has dirtied, unless it comes after a failed sync, which has marked them
/// clean.
#[test]
fn a_sync_covers_what_a_dead_process_wrote_unless_one_has_failed() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.write_back(X, 8);
    };
    let before = |next: &Reference| next.store(Y, 1);
    let memory = after_death(Domain::Media, true, program, before);
    exactly(&memory, [X, Y], &[[0, 0], [1, 0]]);
    for (synced, allowed) in [(true, [[1, 1]].as_slice()), (false, &[[0, 1], [1, 1]])] {
        let memory = after_death(Domain::Media, synced, program, |next| {
            next.store(Y, 1);
            wait_for(next, Y);
        });
        exactly(&memory, [X, Y], allowed);
    }
}

/// Lines that the next process writes back again, and fences, are durable before what follows.
#[test]
fn rewrite_after_death() {
    for (domain, synced) in
        [(Domain::Transient, false), (Domain::Media, false), (Domain::Media, true)]
    {
        let program = |memory: &Reference| {
            memory.store(X, 1);
            memory.write_back(X, 8);
        };
        let memory = after_death(domain, synced, program, |next| {
            wait_for(next, X);
            next.store(Y, 1);
            next.write_back(Y, 8);
        });
        exactly(&memory, [X, Y], &[[1, 0], [1, 1]]);
    }
}

/// On a file, stores that were not written back die with the process, and those that were may not have reached the page
/// cache; from the processor's caches nothing is lost. Where caches persist everything visible is durable.
#[test]
fn a_death_loses_what_is_in_the_process_alone() {
    let program = |memory: &Reference| {
        memory.store(X, 1);
        memory.write_back(X, 8);
        memory.store(Y, 1);
    };
    let seen = |domain, kept| {
        let after = run(domain, program).after_process_death(kept, true);
        [after.load(X), after.load(Y)]
    };
    assert_eq!(seen(Domain::Media, Cut::All), [1, 0]);
    assert_eq!(seen(Domain::Media, Cut::None), [0, 0]);
    for domain in [Domain::Transient, Domain::Persistent, Domain::Process] {
        assert_eq!(seen(domain, Cut::None), [1, 1], "{domain}");
    }
    let stream = |memory: &Reference| memory.stream(X, &[1; 8]);
    let memory = after_death(Domain::Persistent, false, stream, |_| {});
    exactly(&memory, [X], &[[1]]);
}

/// A copy that is given back: neither image changes, unless a store comes between its comparison with the file and its
/// drop; that one is lost.
#[test]
fn a_store_while_a_copy_is_given_back_is_lost() {
    for races in [false, true] {
        let memory = Arc::new(Reference::new(2 * PAGE, Domain::Media));
        let its = Arc::downgrade(&memory);
        memory.while_giving_back(move |_| {
            if races && let Some(memory) = its.upgrade() {
                memory.store(X, 2);
            }
        });
        memory.store(X, 1);
        memory.store(PAGE, 5);
        memory.write_back(X, 8);
        memory.fence();
        // The other page is not as in the file.
        while memory.give_back() {}
        assert_eq!((memory.load(X), memory.load(PAGE)), (1, 5), "{races}");
        exactly(&memory, [X, PAGE], &[[1, 0]]);
        memory.write_back(0, 2 * PAGE);
        memory.fence();
        exactly(&memory, [X, PAGE], &[[1, 5]]);
    }
}

/// A line that waits for a fence changes the file: its page is kept until then.
#[test]
fn a_page_with_a_captured_line_is_not_given_back() {
    let memory = Reference::new(PAGE, Domain::Media);
    memory.store(X, 1);
    memory.write_back(X, 8);
    memory.store(X, 0);
    while memory.give_back() {}
    memory.fence();
    assert_eq!(memory.load(X), 0);
    exactly(&memory, [X], &[[1]]);
}
