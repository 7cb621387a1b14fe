//! What every memory must do, as checks that each implementation runs: those of this crate, the simulated machine, and
//! any new one. Each check panics with what it found.
//!
//! A new memory calls [`run`] on a fresh, zeroed memory of at least [`NEEDS`] bytes, [`grows`] if it can,
//! [`keeps_what_was_fenced`] with a way to reopen it, and [`speculation::speculates`] if it has hardware for that.

pub mod speculation;

use crate::{LINE, Memory, PAGE, WORD};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes that [`run`] needs.
pub const NEEDS: u64 = 16 << 10;

/// The longest copy that is tried at every alignment.
const LONGEST: usize = 300;

/// All checks that need nothing but a zeroed memory.
///
/// # Panics
/// When a check fails.
pub fn run<M: Memory>(memory: &M) {
    assert!(memory.len() >= NEEDS, "the conformance suite needs {NEEDS} bytes");
    starts_zeroed(memory);
    loads_see_stores(memory);
    copies_at_every_alignment(memory);
    compares_and_exchanges(memory);
    streams_whole_lines(memory);
    checks_bounds(memory);
    prefetches_anything(memory);
    writes_back_any_range(memory);
    adds_up_over_threads(memory);
    publishes_between_threads(memory);
    has_a_clock(memory);
}

/// Released pages read as zero, their neighbours are unchanged, and the pages can be used again once secured. Needs a
/// memory of [`NEEDS`] bytes. Returns whether the memory releases pages at all.
///
/// # Panics
/// When a check fails.
pub fn releases<M: Memory>(memory: &M) -> bool {
    let words = || (0..NEEDS).step_by(8);
    words().for_each(|at| memory.store(at, pattern(at)));
    memory.write_back(0, NEEDS);
    memory.fence();
    let pages = PAGE..3 * PAGE;
    // A write-back without a fence: it must not take effect after the release.
    memory.store(PAGE + 64, 7);
    memory.write_back(PAGE + 64, 8);
    memory.store(2 * PAGE, 7);
    if !memory.release(pages.clone()).expect("a release") {
        return false;
    }
    memory.fence();
    for at in words() {
        let expected = if pages.contains(&at) { 0 } else { pattern(at) };
        assert_eq!(memory.load(at), expected, "the word at {at:#x} after a release");
    }
    memory.secure(pages.clone()).expect("space");
    memory.secure(pages.clone()).expect("space that is there already");
    for at in pages.clone().step_by(8) {
        assert_eq!(memory.load(at), 0, "a secured page is as it was");
        memory.store(at, !pattern(at));
    }
    memory.write_back(pages.start, pages.end - pages.start);
    memory.fence();
    memory.check_fence().expect("a fence");
    for at in words() {
        let expected = if pages.contains(&at) { !pattern(at) } else { pattern(at) };
        assert_eq!(memory.load(at), expected, "the word at {at:#x} after a release");
    }
    for odd in [PAGE / 2..PAGE, 0..64, PAGE..PAGE, memory.len()..memory.len() + PAGE] {
        let outside = || memory.release(odd.clone()).is_ok();
        assert!(catch_unwind(AssertUnwindSafe(outside)).is_err(), "{odd:?} was released");
    }
    true
}

/// A fresh memory reads as zero, by words and by bytes.
///
/// # Panics
/// When it does not.
pub fn starts_zeroed<M: Memory>(memory: &M) {
    assert!(!memory.is_empty() && memory.limit() >= memory.len());
    let mut bytes = vec![1; NEEDS as usize];
    memory.copy_out(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 0), "a fresh memory is not zero");
    assert_eq!(memory.load(memory.len() - WORD), 0);
}

/// A load sees the latest store, and its neighbours do not.
///
/// # Panics
/// When it does not.
pub fn loads_see_stores<M: Memory>(memory: &M) {
    for at in (0..NEEDS).step_by(8) {
        memory.store(at, pattern(at));
    }
    for at in (0..NEEDS).step_by(8) {
        assert_eq!(memory.load(at), pattern(at), "the word at {at:#x}");
        assert_eq!(memory.try_load(at), Some(pattern(at)));
    }
    memory.store(800, 1);
    memory.store(800, 2);
    assert_eq!(
        [memory.load(792), memory.load(800), memory.load(808)],
        [pattern(792), 2, pattern(808)]
    );
    let mut bytes = [0; 8];
    memory.copy_out(800, &mut bytes);
    assert_eq!(u64::from_ne_bytes(bytes), 2, "copies and loads see one image");
}

/// Copies of every length up to a few lines, at every alignment in a line, move exactly their
/// bytes.
///
/// # Panics
/// When they do not.
pub fn copies_at_every_alignment<M: Memory>(memory: &M) {
    let around = LONGEST + 3 * LINE as usize;
    let background: Vec<u8> = (0..around).map(|index| !(index as u8)).collect();
    let source: Vec<u8> = (0..LONGEST).map(|index| (index * 7 + 1) as u8).collect();
    let (mut expected, mut found) = (background.clone(), vec![0; around]);
    for shift in 0..LINE as usize {
        let start = LINE as usize + shift;
        for len in 0..=LONGEST {
            memory.copy_in(LINE, &background);
            memory.copy_in(LINE + start as u64, &source[..len]);
            expected.copy_from_slice(&background);
            expected[start..start + len].copy_from_slice(&source[..len]);
            memory.copy_out(LINE, &mut found);
            assert!(found == expected, "copy_in of {len} bytes at {shift} in a line");

            let mut back = vec![0xa5; len + 2];
            memory.copy_out(LINE + start as u64, &mut back[1..=len]);
            assert!(back[1..=len] == source[..len], "copy_out of {len} bytes at {shift}");
            assert_eq!((back[0], back[len + 1]), (0xa5, 0xa5), "copy_out beyond {len} bytes");
        }
    }
}

/// `compare_exchange` replaces the expected word, and reports any other.
///
/// # Panics
/// When it does not.
pub fn compares_and_exchanges<M: Memory>(memory: &M) {
    memory.store(128, 5);
    memory.store(136, 9);
    assert_eq!(memory.compare_exchange(128, 4, 6), Err(5));
    assert_eq!(memory.load(128), 5);
    assert_eq!(memory.compare_exchange(128, 5, 6), Ok(5));
    assert_eq!([memory.load(128), memory.load(136)], [6, 9]);
}

/// Streamed lines are visible at once, whole, and leave their neighbours alone.
///
/// # Panics
/// When they are not.
pub fn streams_whole_lines<M: Memory>(memory: &M) {
    for lines in [0, 1, 2, 5] {
        memory.copy_in(0, &[0xee; 8 * LINE as usize]);
        let words: Vec<u64> = (0..lines * 8).map(pattern).collect();
        memory.stream(LINE, &words);
        memory.fence();
        for (index, word) in words.iter().enumerate() {
            assert_eq!(memory.load(LINE + index as u64 * WORD), *word);
        }
        assert_eq!(memory.load(LINE - WORD), 0xeeee_eeee_eeee_eeee);
        assert_eq!(memory.load(LINE + lines * LINE), 0xeeee_eeee_eeee_eeee);
    }
}

/// Accesses that are out of bounds or misaligned are refused by the `try_` methods and panic in the others, without
/// effect.
///
/// # Panics
/// When one is accepted.
pub fn checks_bounds<M: Memory>(memory: &M) {
    let end = memory.len();
    assert!(memory.contains(0, end) && memory.contains(end, 0) && memory.contains(end - 8, 8));
    assert!(!memory.contains(end + 1, 0) && !memory.contains(1, end));
    for at in [end, end - 4, end + 8, 4, !0, !0 - 7, 1 << 63] {
        assert_eq!(memory.try_load(at), None, "a load at {at:#x}");
        panics("load", || _ = memory.load(at));
        panics("store", || memory.store(at, 1));
        panics("compare_exchange", || _ = memory.compare_exchange(at, 0, 1));
    }
    for at in [end, end - 8, !0, !0 - 15] {
        assert!(!memory.try_copy_out(at, &mut [0; 16]), "a copy at {at:#x}");
        panics("copy_out", || memory.copy_out(at, &mut [0; 16]));
        panics("copy_in", || memory.copy_in(at, &[0; 16]));
        panics("stream", || memory.stream(at, &[0; 8]));
    }
    panics("stream to a part of a line", || memory.stream(8, &[0; 8]));
    panics("stream of a part of a line", || memory.stream(0, &[0; 7]));
}

/// A prefetch changes nothing and fails nowhere, also out of bounds.
pub fn prefetches_anything<M: Memory>(memory: &M) {
    let len = memory.len();
    memory.store(0, 7);
    [0, 1, len - 1, len, len + 1, u64::MAX].into_iter().for_each(|at| memory.prefetch(at));
    assert_eq!((memory.load(0), memory.len()), (7, len));
    memory.store(0, 0);
}

/// Every range in bounds can be written back and fenced, in any order, and changes nothing.
///
/// # Panics
/// When one cannot, or a fence failed.
pub fn writes_back_any_range<M: Memory>(memory: &M) {
    let mut before = vec![0; NEEDS as usize];
    memory.copy_out(0, &mut before);
    for (at, len) in [(0, 0), (0, 1), (63, 2), (7, 4096), (4095, 2), (0, memory.len())] {
        memory.write_back(at, len);
        memory.write_back(at, len);
        memory.fence();
        memory.fence();
    }
    memory.write_back(memory.len(), 0);
    memory.write_back(memory.len() - 1, 1);
    memory.fence();
    memory.check_fence().expect("no fence failed");
    let mut after = vec![0; NEEDS as usize];
    memory.copy_out(0, &mut after);
    assert!(before == after, "a write-back changed the visible image");
}

/// No increment is lost between threads.
///
/// # Panics
/// When one is.
pub fn adds_up_over_threads<M: Memory>(memory: &M) {
    const EACH: u64 = 500;
    const THREADS: u64 = 4;
    memory.store(256, 0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let mut seen = memory.load(256);
                    while let Err(found) = memory.compare_exchange(256, seen, seen + 1) {
                        seen = found;
                    }
                    memory.write_back(256, 8);
                }
                memory.fence();
            });
        }
    });
    assert_eq!(memory.load(256), EACH * THREADS);
}

/// Stores before a flag is raised are visible to a thread that has seen the flag.
///
/// # Panics
/// When they are not.
pub fn publishes_between_threads<M: Memory>(memory: &M) {
    const ROUNDS: u64 = 200;
    memory.store(512, 0);
    memory.store(1024, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                memory.copy_in(520, &[round as u8; 40]);
                memory.store(512, round);
                wait_for(memory, 1024, round);
            }
        });
        for round in 1..=ROUNDS {
            wait_for(memory, 512, round);
            let mut bytes = [0; 40];
            memory.copy_out(520, &mut bytes);
            assert_eq!(bytes, [round as u8; 40]);
            memory.store(1024, round);
        }
    });
}

/// Time does not go back, and passes.
///
/// # Panics
/// When it does not.
pub fn has_a_clock<M: Memory>(memory: &M) {
    let start = memory.now();
    let (mut last, mut turn) = (start, 0);
    while last == start {
        memory.pause(turn);
        memory.work(100);
        let now = memory.now();
        assert!(now >= last, "the clock went back");
        (last, turn) = (now, turn + 1);
        assert!(turn < 1_000_000, "the clock stands still");
    }
}

/// Growth adds zeros, keeps what was there, and refuses what is beyond the limit.
///
/// # Panics
/// When it does not, or when the memory cannot grow at all.
pub fn grows<M: Memory>(memory: &M) {
    let (old, limit) = (memory.len(), memory.limit());
    assert!(limit > old, "a memory that can grow is needed");
    memory.store(old - WORD, 77);
    let middle = old + (limit - old) / 2;
    memory.grow(middle).expect("growth within the limit");
    let grown = memory.len();
    assert!((middle..=limit).contains(&grown));
    assert_eq!([memory.load(old - WORD), memory.load(old), memory.load(grown - WORD)], [77, 0, 0]);
    memory.store(grown - WORD, 78);
    memory.write_back(grown - WORD, WORD);
    memory.fence();
    memory.grow(old).expect("nothing to do");
    assert_eq!(memory.len(), grown, "a memory never shrinks");
    memory.grow(limit).expect("growth to the limit");
    assert!(memory.grow(limit + 1).is_err() && memory.grow(!0).is_err());
    assert_eq!([memory.load(old - WORD), memory.load(grown - WORD)], [77, 78]);
    memory.check_fence().expect("no fence failed");
}

/// What was written back, or streamed, and fenced is there after `reopen`, which gives the
/// memory that is left after a power cut (or the closing of a file).
///
/// # Panics
/// When it is not.
pub fn keeps_what_was_fenced<M: Memory>(memory: M, reopen: impl FnOnce(M) -> M) {
    let bytes: Vec<u8> = (0..1000).map(|index| (index * 13 + 5) as u8).collect();
    let words: Vec<u64> = (0..16).map(pattern).collect();
    memory.store(0, 42);
    memory.copy_in(1001, &bytes);
    memory.write_back(0, 8);
    memory.write_back(1001, 1000);
    memory.stream(8192, &words);
    memory.fence();
    memory.check_fence().expect("no fence failed");
    let len = memory.len();

    let memory = reopen(memory);
    assert_eq!(memory.len(), len);
    assert_eq!(memory.load(0), 42);
    let mut found = vec![0; 1000];
    memory.copy_out(1001, &mut found);
    assert!(found == bytes, "a copy that was fenced");
    for (index, word) in words.iter().enumerate() {
        assert_eq!(memory.load(8192 + index as u64 * WORD), *word, "a line that was streamed");
    }
}

fn wait_for<M: Memory>(memory: &M, at: u64, value: u64) {
    let mut turn = 0;
    while memory.load(at) != value {
        memory.pause(turn);
        turn += 1;
    }
}

fn panics(what: &str, action: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(action)).is_err(), "{what} out of bounds was accepted");
}

fn pattern(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at >> 3
}
