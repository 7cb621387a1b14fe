//! What a memory with hardware for speculation must do, whether a loss comes at any instruction or is told after the
//! access: on the processor, in software, on a simulated machine.

use crate::elision::{Attempts, Delay, ElidedLock, Elision, ElisionCounts, Way};
use crate::own::OwnWords;
use crate::random::SplitMix64;
use crate::transactions::{HardwareAbort, Speculation};
use crate::{LINE, Memory};
use std::sync::{Mutex, PoisonError};

/// Bytes that [`speculates`] needs.
pub const NEEDS: u64 = 16 << 10;

/// Tries of one speculation, after which it is said that none commits.
const TRIES: u32 = 10_000;

/// Programs that run at the same time.
const PROGRAMS: u64 = 3;

/// Pairs of words that they change.
const PAIRS: u64 = 12;

/// Runs the programs at the same time, each on a thread or core of its own, and returns when all have ended.
pub type Run<'r> = &'r dyn Fn(&[&(dyn Fn() + Sync)]);

/// All checks, on a zeroed memory that has such hardware. Each program makes `rounds` transactions in the longest of them.
/// Returns how these ran.
///
/// # Panics
/// When a check fails.
pub fn speculates<M: Memory>(memory: &M, run: Run<'_>, rounds: u64) -> Vec<ElisionCounts> {
    assert!(memory.len() >= NEEDS, "the checks of speculations need {NEEDS} bytes");
    assert_ne!(memory.speculation(), Speculation::Absent);
    run(&[&|| commits_whole(memory)]);
    run(&[&|| leaves_nothing(memory)]);
    run(&[&|| refuses_to_nest(memory)]);
    hides_its_stores(memory, run, rounds);
    sees_no_half(memory, run, rounds);
    serialises(memory, run, rounds)
}

/// Runs `body` as a speculation, once. A body that answers a code gives it up.
fn attempt<M: Memory>(
    memory: &M,
    body: &mut dyn FnMut() -> Option<u8>,
) -> Result<(), HardwareAbort> {
    memory.speculate()?;
    let code = body();
    if let Some(why) = memory.lost() {
        memory.stop_speculating(0);
        return Err(why);
    }
    if let Some(code) = code {
        // On a processor, `speculate` returns now.
        memory.stop_speculating(code);
        return Err(HardwareAbort::Explicit(code));
    }
    memory.end_speculation().map(drop)
}

/// The same, until it has committed or was given up. Returns the code with which it was.
fn attempt_until<M: Memory>(memory: &M, body: &mut dyn FnMut() -> Option<u8>) -> Option<u8> {
    for turn in 0..TRIES {
        match attempt(memory, body) {
            Ok(()) => return None,
            Err(HardwareAbort::Explicit(code)) => return Some(code),
            Err(HardwareAbort::Absent) => panic!("the memory said that it speculates"),
            Err(_) => memory.pause(turn % 8),
        }
    }
    panic!("none of {TRIES} tries has committed")
}

/// A speculation sees its own stores, and once it has committed they are there.
fn commits_whole<M: Memory>(memory: &M) {
    let words = OwnWords::new(memory, 2);
    let mut sum = 0;
    let code = attempt_until(memory, &mut || {
        memory.store(0, 1);
        memory.copy_in(LINE, &[2; 100]);
        words.store(memory, 1, 3);
        let exchanged = memory.compare_exchange(8, 0, 4) == Ok(0);
        sum = memory.load(0) + words.load(memory, 1) + memory.load(8) + u64::from(exchanged);
        None
    });
    assert_eq!((code, sum), (None, 1 + 3 + 4 + 1));
    let mut bytes = [0; 100];
    memory.copy_out(LINE, &mut bytes);
    let found = (memory.load(0), memory.load(8), words.load(memory, 1), bytes);
    assert_eq!(found, (1, 4, 3, [2; 100]), "a speculation that has committed");
}

/// One that is given up leaves all words as they were.
fn leaves_nothing<M: Memory>(memory: &M) {
    let words = OwnWords::new(memory, 1);
    words.store(memory, 0, 5);
    memory.store(2 * LINE, 6);
    memory.store(3 * LINE + 8, 7);
    for code in [1, 7, 200] {
        let given_up = attempt_until(memory, &mut || {
            words.store(memory, 0, 8);
            memory.store(2 * LINE, 9);
            memory.copy_in(3 * LINE + 3, &[10; 40]);
            memory.store(2 * LINE, 11);
            Some(code)
        });
        assert_eq!(given_up, Some(code), "the code with which it was given up");
        let found = (words.load(memory, 0), memory.load(2 * LINE), memory.load(3 * LINE + 8));
        assert_eq!(found, (5, 6, 7), "after a speculation that was given up");
    }
}

fn refuses_to_nest<M: Memory>(memory: &M) {
    let mut inner = None;
    attempt_until(memory, &mut || {
        inner = Some(memory.speculate());
        None
    });
    assert_eq!(inner, Some(Err(HardwareAbort::Nested)));
    assert!(memory.end_speculation().is_err(), "none is running");
}

/// Another program's plain loads never see a word of a speculation that is given up.
fn hides_its_stores<M: Memory>(memory: &M, run: Run<'_>, rounds: u64) {
    let (at, end) = (5 * LINE, 6 * LINE);
    let speculates = || {
        for _ in 0..rounds {
            let done = attempt(memory, &mut || {
                memory.store(at, 1);
                memory.pause(0);
                Some(1)
            });
            assert!(done.is_err());
        }
        memory.store(end, 1);
    };
    let looks = || {
        while memory.load(end) == 0 {
            assert_eq!(memory.load(at), 0, "a word of a speculation that did not commit");
            memory.pause(0);
        }
    };
    run(&[&speculates, &looks]);
}

/// Plain stores of another program make a speculation lose that has loaded the word: it never sees two values of it.
fn sees_no_half<M: Memory>(memory: &M, run: Run<'_>, rounds: u64) {
    let (at, end) = (8 * LINE, 9 * LINE);
    let is_over = || memory.load(end) != 0;
    let stores = || {
        for round in 1..=rounds {
            memory.store(at, round);
            memory.pause(0);
        }
        memory.store(end, 1);
    };
    let looks = || {
        while !is_over() {
            let (mut first, mut second) = (0, 0);
            let done = attempt(memory, &mut || {
                first = memory.load(at);
                memory.work(50);
                second = memory.load(at);
                None
            });
            assert!(done.is_err() || first == second, "{first} and {second} in one speculation");
            memory.pause(0);
        }
    };
    run(&[&stores, &looks]);
}

/// Transactions in hardware and under the lock that it elides: each adds one to both words of a pair, which are always
/// equal. A tenth of them is run under the lock.
fn serialises<M: Memory>(memory: &M, run: Run<'_>, rounds: u64) -> Vec<ElisionCounts> {
    let base = 16 * LINE;
    let lock = ElidedLock::new(memory);
    let all = Mutex::new(Vec::new());
    let program = |number: u64| {
        let mut random = SplitMix64::new(number);
        let mut thread = Elision::new(Attempts::default(), Delay::default(), number);
        for _ in 0..rounds {
            let (pair, is_forced) = (random.below(PAIRS), random.below(10) == 0);
            let (first, second) = (base + pair * LINE, base + (PAIRS + pair) * LINE);
            loop {
                let way = match is_forced {
                    true => lock.take(memory),
                    false => lock.enter(memory, &mut thread),
                };
                let (one, two) = (memory.load(first), memory.load(second));
                let is_told = way == Way::Hardware && memory.lost().is_some();
                assert!(is_told || one == two, "{one} and {two}: half of a transaction");
                memory.store(first, one + 1);
                memory.store(second, one + 1);
                if lock.leave(memory, &mut thread, way).is_ok() {
                    break;
                }
            }
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).push(*thread.counts());
    };
    let programs = [0, 1, 2].map(|number| move || program(number));
    run(&[&programs[0], &programs[1], &programs[2]]);
    for from in [base, base + PAIRS * LINE] {
        let total: u64 = (0..PAIRS).map(|pair| memory.load(from + pair * LINE)).sum();
        assert_eq!(total, PROGRAMS * rounds, "an increment is lost, or was made twice");
    }
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
